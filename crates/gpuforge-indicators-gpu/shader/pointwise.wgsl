// Prelude of generated pointwise kernels: loads, stores and IEEE-conforming functions over four neighbouring segments (vec4).
//   [0] z: log2 of the interleaved segments, and from bit 8 on whether all series have a tick size (1) or none (2);
//       w: words of a column / 4
//   [1] y: invocations of a row of workgroups; offsets in `data`: z: constants, w: lags
//   [2], [3] column indices, two per word; for more than 16 (COLUMNS), x: their offset in `data`
//   Uniform parameters are free to read; a word of `data` costs as much as one of a column.
struct Params {
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> arena: array<vec4<f32>>;

const NAN: u32 = 0x7fc00000u;

// Position of this invocation: its word, segment and step.
struct Position {
    word: u32,
    segment: u32,
    step: u32,
}

// Words of four lagged bars; contiguous unless the lag crosses a segment.
struct LaggedWords {
    words: vec4<u32>,
    contiguous: bool,
}

fn position_of(i: u32) -> Position {
    let lanes = p.v[0].z & 255u;
    let steps = p.v[0].y;
    let word = i << 2u;
    let segment = ((word >> (steps + lanes)) << lanes) + (word & ((1u << lanes) - 1u));
    return Position(word, segment, (word >> lanes) & ((1u << steps) - 1u));
}

// The word `n` bars before a step of a segment, clamped to the first bar.
fn word_back(segment: u32, step: u32, n: u32) -> u32 {
    let lanes = p.v[0].z & 255u;
    var r = min(segment, p.v[0].x - 1u);
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

fn lagged(s: Position, which: u32) -> LaggedWords {
    let n = data[p.v[1].w + which];
    if (n <= s.step) {
        let word = s.word - (n << (p.v[0].z & 255u));
        return LaggedWords(vec4<u32>(word), true);
    }
    return LaggedWords(
        vec4<u32>(
            word_back(s.segment, s.step, n),
            word_back(s.segment + 1u, s.step, n),
            word_back(s.segment + 2u, s.step, n),
            word_back(s.segment + 3u, s.step, n)
        ),
        false
    );
}

// The first vec4 of a column.
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

fn load(which: u32, a: LaggedWords) -> vec4<f32> {
    let first = column(which);
    if (a.contiguous) {
        return arena[first + (a.words.x >> 2u)];
    }
    return vec4<f32>(
        arena[first + (a.words.x >> 2u)][a.words.x & 3u],
        arena[first + (a.words.y >> 2u)][a.words.y & 3u],
        arena[first + (a.words.z >> 2u)][a.words.z & 3u],
        arena[first + (a.words.w >> 2u)][a.words.w & 3u]
    );
}

fn load_current(which: u32, s: Position) -> vec4<f32> {
    return arena[column(which) + (s.word >> 2u)];
}

fn store(which: u32, s: Position, x: vec4<f32>) {
    arena[column(which) + (s.word >> 2u)] = x;
}

fn constant(which: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<f32>(data[p.v[1].z + which]));
}

// Price offsets of the four series.
fn price_offset(s: Position) -> vec4<f32> {
    let last = p.v[0].x - 1u;
    return vec4<f32>(
        bitcast<f32>(data[p.v[1].x + min(s.segment, last) * 8u + 6u]),
        bitcast<f32>(data[p.v[1].x + min(s.segment + 1u, last) * 8u + 6u]),
        bitcast<f32>(data[p.v[1].x + min(s.segment + 2u, last) * 8u + 6u]),
        bitcast<f32>(data[p.v[1].x + min(s.segment + 3u, last) * 8u + 6u])
    );
}

fn signed_tick_sizes(s: Position) -> vec4<f32> {
    let last = p.v[0].x - 1u;
    return vec4<f32>(
        bitcast<f32>(data[p.v[1].x + min(s.segment, last) * 8u + 7u]),
        bitcast<f32>(data[p.v[1].x + min(s.segment + 1u, last) * 8u + 7u]),
        bitcast<f32>(data[p.v[1].x + min(s.segment + 2u, last) * 8u + 7u]),
        bitcast<f32>(data[p.v[1].x + min(s.segment + 3u, last) * 8u + 7u])
    );
}

// Tick sizes; 1 for series without one.
fn tick_size(s: Position) -> vec4<f32> {
    return abs(signed_tick_sizes(s));
}

// Sums of ticks closer than this are equal: less than any fraction of a tick in the patterns, more than rounding. 0 for
// series without a tick size.
fn tie_tolerance(s: Position) -> vec4<f32> {
    let known = p.v[0].z >> 8u;
    if (known != 0u) {
        return vec4<f32>(select(0.0, 0.0009765625, known == 1u));
    }
    return select(vec4<f32>(0.0), vec4<f32>(0.0009765625), signed_tick_sizes(s) > vec4<f32>(0.0));
}

// ln(1 + x), accurate for small x.
fn ln_1p(x: vec4<f32>) -> vec4<f32> {
    let small = x * (1.0 - x * (0.5 - x * (0.33333334 - x * (0.25 - x * (0.2 - x * 0.16666667)))));
    return select(ln_ieee(1.0 + x), small, abs(x) < vec4<f32>(0.03));
}

// Is the bar at or after `start`? (`which` is the constant that holds it.)
fn warmed_up(s: Position, which: u32) -> vec4<bool> {
    let start = data[p.v[1].z + which];
    let last = p.v[0].x - 1u;
    let firsts = vec4<u32>(
        data[p.v[1].x + min(s.segment, last) * 8u + 1u],
        data[p.v[1].x + min(s.segment + 1u, last) * 8u + 1u],
        data[p.v[1].x + min(s.segment + 2u, last) * 8u + 1u],
        data[p.v[1].x + min(s.segment + 3u, last) * 8u + 1u]
    );
    return firsts + s.step >= vec4<u32>(start);
}

fn to_mask(x: vec4<bool>) -> vec4<f32> {
    return select(vec4<f32>(0.0), vec4<f32>(1.0), x);
}

fn is_true(x: vec4<f32>) -> vec4<bool> {
    return x != vec4<f32>(0.0);
}

// IEEE special values: WGSL leaves NaN and infinities undefined.
fn from_bits(bits: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bits);
}

fn div_ieee(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let none = b == vec4<f32>(0.0);
    let signed = select(vec4<u32>(0xff800000u), vec4<u32>(0x7f800000u), a > vec4<f32>(0.0));
    let instead = from_bits(select(signed, vec4<u32>(NAN), a == vec4<f32>(0.0)));
    return select(a / select(b, vec4<f32>(1.0), none), instead, none);
}

fn div_or_zero(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let none = b == vec4<f32>(0.0);
    return select(a / select(b, vec4<f32>(1.0), none), vec4<f32>(0.0), none);
}

fn sqrt_ieee(a: vec4<f32>) -> vec4<f32> {
    let none = a < vec4<f32>(0.0);
    return select(sqrt(max(a, vec4<f32>(0.0))), from_bits(vec4<u32>(NAN)), none);
}

fn ln_ieee(a: vec4<f32>) -> vec4<f32> {
    let none = a <= vec4<f32>(0.0);
    let instead = from_bits(select(vec4<u32>(NAN), vec4<u32>(0xff800000u), a == vec4<f32>(0.0)));
    return select(log(select(a, vec4<f32>(1.0), none)), instead, none);
}

// Negative bases are defined for integer exponents.
fn pow_ieee(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let size = pow(abs(a), b);
    let whole = floor(b) == b;
    let odd = floor(b * 0.5) * 2.0 != b;
    let signed = select(size, -size, (a < vec4<f32>(0.0)) & whole & odd);
    let there = (a >= vec4<f32>(0.0)) | whole;
    return select(select(from_bits(vec4<u32>(NAN)), signed, there), vec4<f32>(1.0), b == vec4<f32>(0.0));
}
