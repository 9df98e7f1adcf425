// Before every generated kernel: four neighbouring runs at once, at one step. Columns, lags and constants are data.
//   [0] z: log2 of the lanes, and above eight bits whether all series have ticks (1) or none (2); w: words of a column / 4
//   [1] y: invocations of a row of groups; places in `data`: z: constants, w: lags
//   [2], [3] numbers of the columns, two in a word; where there are more than 16 (COLUMNS), x: their place in `data`.
//   Parameters are the same for all invocations and cost nothing to read; a word of `data` costs as much as one of a column.
struct Params {
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> arena: array<vec4<f32>>;

const NAN: u32 = 0x7fc00000u;

// Where this invocation is: its word, run and step.
struct Spot {
    word: u32,
    run: u32,
    step: u32,
}

// Words of four bars, some bars ago. Side by side?
struct Ago {
    words: vec4<u32>,
    together: bool,
}

fn spot(i: u32) -> Spot {
    let lanes = p.v[0].z & 255u;
    let steps = p.v[0].y;
    let word = i << 2u;
    let run = ((word >> (steps + lanes)) << lanes) + (word & ((1u << lanes) - 1u));
    return Spot(word, run, (word >> lanes) & ((1u << steps) - 1u));
}

// The word of a run some bars before a step; the first bar where there are not as many.
fn back(run: u32, step: u32, n: u32) -> u32 {
    let lanes = p.v[0].z & 255u;
    var r = min(run, p.v[0].x - 1u);
    var left = n;
    var at = step;
    while (left > at) {
        let before = data[p.v[1].x + r * 8u + 3u];
        if (before == 0xffffffffu) {
            left = 0u;
            at = 0u;
            break;
        }
        left -= at + 1u;
        at = (1u << p.v[0].y) - 1u;
        r = before;
    }
    return ((r >> lanes) << (p.v[0].y + lanes)) + ((at - left) << lanes) + (r & ((1u << lanes) - 1u));
}

fn ago(s: Spot, which: u32) -> Ago {
    let n = data[p.v[1].w + which];
    if (n <= s.step) {
        let word = s.word - (n << (p.v[0].z & 255u));
        return Ago(vec4<u32>(word), true);
    }
    return Ago(
        vec4<u32>(
            back(s.run, s.step, n),
            back(s.run + 1u, s.step, n),
            back(s.run + 2u, s.step, n),
            back(s.run + 3u, s.step, n)
        ),
        false
    );
}

// The first word / 4 of a column.
fn column(which: u32) -> u32 {
    var number = 0u;
    if (COLUMNS <= 16u) {
        let pair = p.v[2u + ((which >> 3u) & 1u)][(which >> 1u) & 3u];
        number = (pair >> (16u * (which & 1u))) & 0xffffu;
    } else {
        number = data[p.v[2].x + which];
    }
    return number * p.v[0].w;
}

fn load(which: u32, a: Ago) -> vec4<f32> {
    let first = column(which);
    if (a.together) {
        return arena[first + (a.words.x >> 2u)];
    }
    return vec4<f32>(
        arena[first + (a.words.x >> 2u)][a.words.x & 3u],
        arena[first + (a.words.y >> 2u)][a.words.y & 3u],
        arena[first + (a.words.z >> 2u)][a.words.z & 3u],
        arena[first + (a.words.w >> 2u)][a.words.w & 3u]
    );
}

fn here(which: u32, s: Spot) -> vec4<f32> {
    return arena[column(which) + (s.word >> 2u)];
}

fn store(which: u32, s: Spot, x: vec4<f32>) {
    arena[column(which) + (s.word >> 2u)] = x;
}

fn constant(which: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<f32>(data[p.v[1].z + which]));
}

// What was taken off the prices of the four series.
fn level(s: Spot) -> vec4<f32> {
    let last = p.v[0].x - 1u;
    return vec4<f32>(
        bitcast<f32>(data[p.v[1].x + min(s.run, last) * 8u + 6u]),
        bitcast<f32>(data[p.v[1].x + min(s.run + 1u, last) * 8u + 6u]),
        bitcast<f32>(data[p.v[1].x + min(s.run + 2u, last) * 8u + 6u]),
        bitcast<f32>(data[p.v[1].x + min(s.run + 3u, last) * 8u + 6u])
    );
}

fn ticks(s: Spot) -> vec4<f32> {
    let last = p.v[0].x - 1u;
    return vec4<f32>(
        bitcast<f32>(data[p.v[1].x + min(s.run, last) * 8u + 7u]),
        bitcast<f32>(data[p.v[1].x + min(s.run + 1u, last) * 8u + 7u]),
        bitcast<f32>(data[p.v[1].x + min(s.run + 2u, last) * 8u + 7u]),
        bitcast<f32>(data[p.v[1].x + min(s.run + 3u, last) * 8u + 7u])
    );
}

// What prices are counted in.
fn size(s: Spot) -> vec4<f32> {
    return abs(ticks(s));
}

// Sums of ticks that are closer than this are equal: less than any fraction of a tick that patterns ask for, more than
// rounding. 0 for series without ticks.
fn tie(s: Spot) -> vec4<f32> {
    let known = p.v[0].z >> 8u;
    if (known != 0u) {
        return vec4<f32>(select(0.0, 0.0009765625, known == 1u));
    }
    return select(vec4<f32>(0.0), vec4<f32>(0.0009765625), ticks(s) > vec4<f32>(0.0));
}

// ln(1 + x), also where x is small.
fn ln_more(x: vec4<f32>) -> vec4<f32> {
    let small = x * (1.0 - x * (0.5 - x * (0.33333334 - x * (0.25 - x * (0.2 - x * 0.16666667)))));
    return select(ln(1.0 + x), small, abs(x) < vec4<f32>(0.03));
}

// Has bar `start` come, some bars ago?
fn begun(s: Spot, which: u32) -> vec4<bool> {
    let start = data[p.v[1].z + which];
    let last = p.v[0].x - 1u;
    let firsts = vec4<u32>(
        data[p.v[1].x + min(s.run, last) * 8u + 1u],
        data[p.v[1].x + min(s.run + 1u, last) * 8u + 1u],
        data[p.v[1].x + min(s.run + 2u, last) * 8u + 1u],
        data[p.v[1].x + min(s.run + 3u, last) * 8u + 1u]
    );
    return firsts + s.step >= vec4<u32>(start);
}

fn flag(x: vec4<bool>) -> vec4<f32> {
    return select(vec4<f32>(0.0), vec4<f32>(1.0), x);
}

fn is(x: vec4<f32>) -> vec4<bool> {
    return x != vec4<f32>(0.0);
}

// What the processor gives where a device may assume that it does not happen.
fn special(bits: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bits);
}

fn over(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let none = b == vec4<f32>(0.0);
    let signed = select(vec4<u32>(0xff800000u), vec4<u32>(0x7f800000u), a > vec4<f32>(0.0));
    let instead = special(select(signed, vec4<u32>(NAN), a == vec4<f32>(0.0)));
    return select(a / select(b, vec4<f32>(1.0), none), instead, none);
}

fn over_or_nothing(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let none = b == vec4<f32>(0.0);
    return select(a / select(b, vec4<f32>(1.0), none), vec4<f32>(0.0), none);
}

fn root(a: vec4<f32>) -> vec4<f32> {
    let none = a < vec4<f32>(0.0);
    return select(sqrt(max(a, vec4<f32>(0.0))), special(vec4<u32>(NAN)), none);
}

fn ln(a: vec4<f32>) -> vec4<f32> {
    let none = a <= vec4<f32>(0.0);
    let instead = special(select(vec4<u32>(NAN), vec4<u32>(0xff800000u), a == vec4<f32>(0.0)));
    return select(log(select(a, vec4<f32>(1.0), none)), instead, none);
}

// Powers of negative numbers are there for whole exponents.
fn power(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let size = pow(abs(a), b);
    let whole = floor(b) == b;
    let odd = floor(b * 0.5) * 2.0 != b;
    let signed = select(size, -size, (a < vec4<f32>(0.0)) & whole & odd);
    let there = (a >= vec4<f32>(0.0)) | whole;
    return select(select(special(vec4<u32>(NAN)), signed, there), vec4<f32>(1.0), b == vec4<f32>(0.0));
}
