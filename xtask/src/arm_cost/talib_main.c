/* Runs one function of TA-Lib over the bars of examples/arm_cost.rs: talib NAME BARS. Prints the last value of each result.
 * calls.h is written by xtask/src/arm_cost.rs, a line per function. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ta_libc.h"

enum { MADE_BARS = 40000 };

static double open[MADE_BARS], high[MADE_BARS], low[MADE_BARS], close[MADE_BARS], volume[MADE_BARS];
static double noise[MADE_BARS], x[MADE_BARS], y[MADE_BARS], z[MADE_BARS];
static int flags[MADE_BARS];

static void walk(double *to, unsigned long long seed)
{
    unsigned long long state = seed * 0x9e3779b97f4a7c15ull | 1;
    long long price = 10000;
    for (int i = 0; i < MADE_BARS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        price += (long long)(state % 141) - 70;
        if (price < 100)
            price = 100;
        to[i] = price / 100.0;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    walk(close, 1);
    walk(noise, 3);
    walk(volume, 7);
    for (int i = 0; i < MADE_BARS; i++) {
        open[i] = round((close[i] + fmod(noise[i], 1.0) - 0.5) * 100.0) / 100.0;
        high[i] = fmax(open[i], close[i]) + fmod(noise[i], 0.25);
        low[i] = fmin(open[i], close[i]) - fmod(noise[i], 0.5);
        volume[i] = floor(volume[i] * 10.0);
    }
    const char *name = argv[1];
    int end = atoi(argv[2]) - 1, begin = 0, count = 0, results = 1, is_flag = 0;
    if (end < 0 || end >= MADE_BARS || TA_Initialize() != TA_SUCCESS)
        return 2;
#define FUNCTION(NAME, RESULTS, CALL) \
    else if (!strcmp(name, NAME)) { results = RESULTS; CALL; }
    if (0) {
    }
#include "calls.h"
    else
        return 3;
    if (count < 1)
        return 4;
    is_flag = !strncmp(name, "CDL", 3);
    const double *all[] = { x, y, z };
    for (int i = 0; i < results; i++)
        printf("%.17g ", is_flag ? flags[count - 1] : all[i][count - 1]);
    putchar('\n');
    return 0;
}
