/* bcryptprimitives.dll for Wine 8, which has none: the one function of it that Rust's standard library imports. */
#include <stddef.h>

/* RtlGenRandom, by the name under which advapi32 exports it. */
unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, size_t length)
{
    while (length > 0) {
        unsigned long part = length < 65536 ? (unsigned long)length : 65536;
        if (!SystemFunction036(buffer, part))
            return 0;
        buffer += part;
        length -= part;
    }
    return 1;
}
