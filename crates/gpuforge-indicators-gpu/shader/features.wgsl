// Feature rows: decodes and normalises results into row-major rows; an invocation per segment, eight steps and tile of columns.
// Loads are coalesced over segments, stores are contiguous within a row. A result is `stored * tick^power + weight * offset`; its
// z-score and rank are those of the stored value, which has more digits. Eight windows are computed together, a bar loaded once
// for all of them: first sums and extremes, then z-scores or ranks.
//   [1] z: column table, w: columns of this call
//   [2] x: first bar with a row, y: columns of a tile, z: words of a row
//   [3] x: first rows of the series, y: offset of the columns computed on the CPU
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;

const MISSING: u32 = 0x7fc00000u;
const ZSCORE: u32 = 1u;
const RANK: u32 = 2u;
// Differences below this fraction of a window's largest magnitude are rounding.
const SAME: f32 = 1e-6;
// The same as a fraction of the price offset: cancellation leaves rounding of prices behind.
const NOTHING: f32 = 1e-12;

// A column: 8 words.
struct Column {
    place: u32,
    // computed on the CPU (in `data`), or in the arena?
    given: bool,
    into: u32,
    unit: i32,
    weight: f32,
    mode: u32,
    n: u32,
}

fn column_at(k: u32) -> Column {
    let at = p.v[1].z + k * 8u;
    let given = data[at + 1u] != 0u;
    let place = data[at] + select(0u, p.v[3].y, given);
    return Column(
        place,
        given,
        data[at + 2u],
        bitcast<i32>(data[at + 3u]),
        bitcast<f32>(data[at + 4u]),
        data[at + 5u],
        data[at + 6u]
    );
}

fn bits_of(c: Column, bar: Bar) -> u32 {
    if (c.given) {
        return data[c.place + word_of(bar)];
    }
    return bitcast<u32>(arena[c.place + word_of(bar)]);
}

// Tested on the bits: WGSL may assume that floats are finite.
fn finite(bits: u32) -> bool {
    return (bits & 0x7f800000u) != 0x7f800000u;
}

fn tick_power(tick: f32, unit: i32) -> f32 {
    var product = 1.0;
    for (var i = 0; i < abs(unit); i++) {
        product *= tick;
    }
    return select(product, 1.0 / product, unit < 0);
}

// A value per window, for eight windows.
struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn windows8(x: f32) -> Eight {
    return Eight(vec4<f32>(x), vec4<f32>(x));
}

// Bars of eight windows of n, which end at neighbouring bars: from `bar`, the one with number `skip` counted from the oldest
// of the first window; those before it are before the series.
struct Walk {
    bar: Bar,
    skip: u32,
    n: u32,
}

// Is bar j in each of the windows?
fn in_low(j: u32, n: u32) -> vec4<bool> {
    return vec4<u32>(j) - vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(n);
}

fn in_high(j: u32, n: u32) -> vec4<bool> {
    return vec4<u32>(j) - vec4<u32>(4u, 5u, 6u, 7u) < vec4<u32>(n);
}

struct Seen {
    count: Eight,
    sum: Eight,
    lowest: Eight,
    highest: Eight,
}

// Count, sum, min and max of the finite values, as distances from c.
fn seen(c: Column, w: Walk, centre: f32) -> Seen {
    var s = Seen(windows8(0.0), windows8(0.0), windows8(3e38), windows8(-3e38));
    var bar = w.bar;
    var j = w.skip;
    while (j < w.n + 7u) {
        let stop = j + bars_in_segment(bar, w.n + 7u - j);
        var at = c.place + word_of(bar);
        while (j < stop) {
            let bits = bitcast<u32>(arena[at]);
            if (finite(bits)) {
                let d = vec4<f32>(bitcast<f32>(bits) - centre);
                let low = in_low(j, w.n);
                let high = in_high(j, w.n);
                s.count.low += select(vec4<f32>(0.0), vec4<f32>(1.0), low);
                s.count.high += select(vec4<f32>(0.0), vec4<f32>(1.0), high);
                s.sum.low += select(vec4<f32>(0.0), d, low);
                s.sum.high += select(vec4<f32>(0.0), d, high);
                s.lowest.low = select(s.lowest.low, min(s.lowest.low, d), low);
                s.lowest.high = select(s.lowest.high, min(s.lowest.high, d), high);
                s.highest.low = select(s.highest.low, max(s.highest.low, d), low);
                s.highest.high = select(s.highest.high, max(s.highest.high, d), high);
            }
            at += 1u << p.v[0].z;
            j += 1u;
        }
        bar = first_of_next(bar.segment);
    }
    return s;
}

// Sums of squared distances from the means.
fn squares(c: Column, w: Walk, centre: f32, mean: Eight) -> Eight {
    var sum = windows8(0.0);
    var bar = w.bar;
    var j = w.skip;
    while (j < w.n + 7u) {
        let stop = j + bars_in_segment(bar, w.n + 7u - j);
        var at = c.place + word_of(bar);
        while (j < stop) {
            let bits = bitcast<u32>(arena[at]);
            if (finite(bits)) {
                let d = bitcast<f32>(bits) - centre;
                let low = d - mean.low;
                let high = d - mean.high;
                sum.low += select(vec4<f32>(0.0), low * low, in_low(j, w.n));
                sum.high += select(vec4<f32>(0.0), high * high, in_high(j, w.n));
            }
            at += 1u << p.v[0].z;
            j += 1u;
        }
        bar = first_of_next(bar.segment);
    }
    return sum;
}

// How many values are below each window's last one, ties half.
fn below(c: Column, w: Walk, centre: f32, own: Eight, tie: Eight) -> Eight {
    var sum = windows8(0.0);
    var bar = w.bar;
    var j = w.skip;
    let none = vec4<f32>(0.0);
    let half = vec4<f32>(0.5);
    while (j < w.n + 7u) {
        let stop = j + bars_in_segment(bar, w.n + 7u - j);
        var at = c.place + word_of(bar);
        while (j < stop) {
            let bits = bitcast<u32>(arena[at]);
            if (finite(bits)) {
                let d = bitcast<f32>(bits) - centre;
                let low = d - own.low;
                let high = d - own.high;
                let share_low = select(none, half, low <= tie.low) + select(none, half, low < -tie.low);
                let share_high = select(none, half, high <= tie.high) + select(none, half, high < -tie.high);
                sum.low += select(none, share_low, in_low(j, w.n));
                sum.high += select(none, share_high, in_high(j, w.n));
            }
            at += 1u << p.v[0].z;
            j += 1u;
        }
        bar = first_of_next(bar.segment);
    }
    return sum;
}

// Largest magnitude of each window.
fn max_magnitude(lowest: vec4<f32>, highest: vec4<f32>, centre: f32, unit: f32, lift: f32) -> vec4<f32> {
    return max(abs((lowest + centre) * unit + lift), abs((highest + centre) * unit + lift));
}

// Normalised last bars of windows of n, whose bits are `own`.
fn normalised(c: Column, bar: Bar, first: u32, own: array<u32, 8>, unit: f32, level: f32) -> array<f32, 8> {
    var bits = own;
    // Centred on one of the values: windows of equal values are exactly flat.
    var centre = 0.0;
    for (var i = 0u; i < 8u; i++) {
        if (finite(bits[i])) {
            centre = bitcast<f32>(bits[i]);
        }
    }
    let skip = c.n - 1u - min(first, c.n - 1u);
    let w = Walk(earlier(bar, c.n - 1u - skip), skip, c.n);
    let s = seen(c, w, centre);
    let lift = c.weight * level;
    let most_low = max_magnitude(s.lowest.low, s.highest.low, centre, unit, lift);
    let most_high = max_magnitude(s.lowest.high, s.highest.high, centre, unit, lift);
    let flat_low = (s.highest.low - s.lowest.low) * unit <= max(SAME * most_low, vec4<f32>(NOTHING * abs(level)));
    let flat_high = (s.highest.high - s.lowest.high) * unit <= max(SAME * most_high, vec4<f32>(NOTHING * abs(level)));
    var own_d = Eight(
        vec4<f32>(bitcast<f32>(bits[0]), bitcast<f32>(bits[1]), bitcast<f32>(bits[2]), bitcast<f32>(bits[3])) - centre,
        vec4<f32>(bitcast<f32>(bits[4]), bitcast<f32>(bits[5]), bitcast<f32>(bits[6]), bitcast<f32>(bits[7])) - centre
    );
    var low: vec4<f32>;
    var high: vec4<f32>;
    if (c.mode == RANK) {
        let tie = Eight(SAME * most_low / unit, SAME * most_high / unit);
        let found = below(c, w, centre, own_d, tie);
        // Each ties with itself.
        low = select((found.low - 0.5) / max(s.count.low - 1.0, vec4<f32>(1.0)), vec4<f32>(0.5), flat_low);
        high = select((found.high - 0.5) / max(s.count.high - 1.0, vec4<f32>(1.0)), vec4<f32>(0.5), flat_high);
    } else {
        let one = vec4<f32>(1.0);
        let count = Eight(max(s.count.low, one), max(s.count.high, one));
        let mean = Eight(s.sum.low / count.low, s.sum.high / count.high);
        let sum = squares(c, w, centre, mean);
        let dev_low = sqrt(select(sum.low / count.low, one, flat_low));
        let dev_high = sqrt(select(sum.high / count.high, one, flat_high));
        low = select((own_d.low - mean.low) / dev_low, vec4<f32>(0.0), flat_low);
        high = select((own_d.high - mean.high) / dev_high, vec4<f32>(0.0), flat_high);
    }
    return array<f32, 8>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let segment = segment_at(id.x);
    let bar = Bar(id.x, id.z * 8u);
    let first = segment.first + bar.step;
    // Steps of these eight that have a row.
    let begin = max(p.v[2].x, first) - first;
    let end = min(max(segment.count, bar.step) - bar.step, 8u);
    if (begin >= end) {
        return;
    }
    let level = bitcast<f32>(data[p.v[1].x + id.x * 8u + 6u]);
    let tick = abs(bitcast<f32>(data[p.v[1].x + id.x * 8u + 7u]));
    let row = data[p.v[3].x + segment.series] + first - p.v[2].x;
    let tile = id.y * p.v[2].y;
    for (var k = tile; k < min(tile + p.v[2].y, p.v[1].w); k++) {
        let c = column_at(k);
        let unit = tick_power(tick, c.unit);
        var own: array<u32, 8>;
        for (var i = 0u; i < 8u; i++) {
            own[i] = bits_of(c, Bar(bar.segment, bar.step + i));
        }
        var x: array<f32, 8>;
        if (c.mode == ZSCORE || c.mode == RANK) {
            x = normalised(c, bar, first, own, unit, level);
        } else {
            for (var i = 0u; i < 8u; i++) {
                x[i] = bitcast<f32>(own[i]) * unit + c.weight * level;
            }
        }
        for (var i = begin; i < end; i++) {
            // Before the first row `row` wraps, and comes back.
            rows[(row + i) * p.v[2].z + c.into] = select(MISSING, bitcast<u32>(x[i]), finite(own[i]));
        }
    }
}
