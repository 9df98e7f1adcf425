// Rolling central moments: 0 variance, 1 mean absolute deviation, 3 and 4 variance and third or fourth central moment, 5
// co-moment of two values, 6 co-moment of bar index and value, 7 max of the first and min of the second value, each projected
// along the window's slope, 8 weighted mean and deviation of the first value with the second as weights, expanding.
// Up to eight windows are computed together, so that a bar is loaded once for all of them; two passes: mean, then moments.
// Everything is a distance from a value common to all of them: exactly 0 in windows of equal values.

// A value per window, for eight windows.
struct Windows8 {
    low: vec4<f32>,
    high: vec4<f32>,
}

// The bars of windows of `n` that end at neighbouring bars, numbered from the oldest of the first window; the first `skip`
// precede the series, `all` is past the last. `bar` is bar `skip`.
struct WindowSpan {
    bar: Bar,
    skip: u32,
    all: u32,
    n: u32,
}

// Length of partial sums: pairwise summation keeps the last digits of long means.
const PARTIAL_SUM: u32 = 32u;

// The position of bar j in each window; n or more where it is outside.
fn position_low(j: u32) -> vec4<u32> { return vec4<u32>(j) - vec4<u32>(0u, 1u, 2u, 3u); }
fn position_high(j: u32) -> vec4<u32> { return vec4<u32>(j) - vec4<u32>(4u, 5u, 6u, 7u); }

fn masked(x: vec4<f32>, place: vec4<u32>, n: u32) -> vec4<f32> {
    return select(vec4<f32>(0.0), x, place < vec4<u32>(n));
}

fn zero8() -> Windows8 { return Windows8(vec4<f32>(0.0), vec4<f32>(0.0)); }
fn add8(x: Windows8, y: Windows8) -> Windows8 { return Windows8(x.low + y.low, x.high + y.high); }
fn divide8(x: Windows8, by: f32) -> Windows8 { return Windows8(x.low / by, x.high / by); }

// Means, as distances from `c`.
fn means(column: u32, w: WindowSpan, c: f32) -> Windows8 {
    var sum = zero8();
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let here = bars_in_segment(bar, min(PARTIAL_SUM, w.all - j));
        let stop = j + here;
        var part = zero8();
        var at = column + word_of(bar);
        while (j < stop) {
            let d = vec4<f32>(arena[at] - c);
            part.low += masked(d, position_low(j), w.n);
            part.high += masked(d, position_high(j), w.n);
            at += stride();
            j += 1u;
        }
        sum = add8(sum, part);
        bar = advance(bar, here);
    }
    return divide8(sum, f32(w.n));
}

// The second moment's partner: |d|, d^3 or d^4.
fn higher_power(mode: u32, d: vec4<f32>, square: vec4<f32>) -> vec4<f32> {
    return select(select(square * square, square * d, mode == 3u), abs(d), mode == 1u);
}

struct Moments {
    squares: Windows8,
    powers: Windows8,
}

// Means of squares and of the higher power of the distances from the means.
fn central_moments(column: u32, w: WindowSpan, c: f32, mean: Windows8, mode: u32) -> Moments {
    var squares = zero8();
    var powers = zero8();
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let here = bars_in_segment(bar, min(PARTIAL_SUM, w.all - j));
        let stop = j + here;
        var part = Moments(zero8(), zero8());
        var at = column + word_of(bar);
        while (j < stop) {
            let x = arena[at] - c;
            let low = masked(x - mean.low, position_low(j), w.n);
            let high = masked(x - mean.high, position_high(j), w.n);
            let low_square = low * low;
            let high_square = high * high;
            part.squares.low += low_square;
            part.squares.high += high_square;
            part.powers.low += higher_power(mode, low, low_square);
            part.powers.high += higher_power(mode, high, high_square);
            at += stride();
            j += 1u;
        }
        squares = add8(squares, part.squares);
        powers = add8(powers, part.powers);
        bar = advance(bar, here);
    }
    return Moments(divide8(squares, f32(w.n)), divide8(powers, f32(w.n)));
}

// Sums of the products of two values' distances from their means.
fn co_moments(a: u32, b: u32, w: WindowSpan, other: Bar, c: vec2<f32>, mean_a: Windows8, mean_b: Windows8) -> Windows8 {
    var sum = zero8();
    var bar = w.bar;
    var bar_b = other;
    var j = w.skip;
    while (j < w.all) {
        let here = bars_in_segment(bar_b, bars_in_segment(bar, min(PARTIAL_SUM, w.all - j)));
        let stop = j + here;
        var part = zero8();
        var at = a + word_of(bar);
        var at_b = b + word_of(bar_b);
        while (j < stop) {
            let x = arena[at] - c.x;
            let y = arena[at_b] - c.y;
            part.low += masked((x - mean_a.low) * (y - mean_b.low), position_low(j), w.n);
            part.high += masked((x - mean_a.high) * (y - mean_b.high), position_high(j), w.n);
            at += stride();
            at_b += stride();
            j += 1u;
        }
        sum = add8(sum, part);
        bar = advance(bar, here);
        bar_b = advance(bar_b, here);
    }
    return sum;
}

// Sums of the products of the distances of bars from the middle one and of values from `c`.
fn time_moments(column: u32, w: WindowSpan, c: f32) -> Windows8 {
    var sum = zero8();
    let middle = 0.5 * f32(w.n - 1u);
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let here = bars_in_segment(bar, min(PARTIAL_SUM, w.all - j));
        let stop = j + here;
        var part = zero8();
        var at = column + word_of(bar);
        while (j < stop) {
            let d = arena[at] - c;
            let low = position_low(j);
            let high = position_high(j);
            part.low += masked((vec4<f32>(low) - middle) * d, low, w.n);
            part.high += masked((vec4<f32>(high) - middle) * d, high, w.n);
            at += stride();
            j += 1u;
        }
        sum = add8(sum, part);
        bar = advance(bar, here);
    }
    return sum;
}

// The max of the best so far and a value projected from its position to the newest bar.
fn project(best: vec4<f32>, d: f32, slope: vec4<f32>, place: vec4<u32>, n: u32) -> vec4<f32> {
    let x = d + slope * vec4<f32>(vec4<u32>(n - 1u) - place);
    return select(best, max(best, x), place < vec4<u32>(n));
}

// Max (sign 1) or min (sign -1) of windows, values projected along the window's slope to its newest bar.
fn projected_extreme(column: u32, w: WindowSpan, c: f32, sign: f32) -> Windows8 {
    let n = f32(w.n);
    let moment = time_moments(column, w, c);
    let slope = divide8(Windows8(sign * moment.low, sign * moment.high), n * (n * n - 1.0) / 12.0);
    var best = Windows8(vec4<f32>(-3.0e38), vec4<f32>(-3.0e38));
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let stop = j + bars_in_segment(bar, w.all - j);
        var at = column + word_of(bar);
        while (j < stop) {
            let d = sign * (arena[at] - c);
            best.low = project(best.low, d, slope.low, position_low(j), w.n);
            best.high = project(best.high, d, slope.high, position_high(j), w.n);
            at += stride();
            j += 1u;
        }
        bar = first_of_next(bar.segment);
    }
    return Windows8(sign * best.low + c, sign * best.high + c);
}

// Sums of weights, and of weighted distances (or their squares) of values from `c` and the means.
fn weighted(a: u32, b: u32, w: WindowSpan, other: Bar, c: f32, mean: Windows8, squared: bool) -> Moments {
    var weights = zero8();
    var sum = zero8();
    var bar = w.bar;
    var bar_b = other;
    var j = w.skip;
    while (j < w.all) {
        let here = bars_in_segment(bar_b, bars_in_segment(bar, min(PARTIAL_SUM, w.all - j)));
        let stop = j + here;
        var part = Moments(zero8(), zero8());
        var at = a + word_of(bar);
        var at_b = b + word_of(bar_b);
        while (j < stop) {
            // Negative weights count as 0.
            let weight = vec4<f32>(max(arena[at_b], 0.0));
            let low = masked(weight, position_low(j), w.n);
            let high = masked(weight, position_high(j), w.n);
            let x = arena[at] - c;
            let d = x - mean.low;
            let e = x - mean.high;
            part.squares.low += low;
            part.squares.high += high;
            part.powers.low += low * select(d, d * d, squared);
            part.powers.high += high * select(e, e * e, squared);
            at += stride();
            at_b += stride();
            j += 1u;
        }
        weights = add8(weights, part.squares);
        sum = add8(sum, part.powers);
        bar = advance(bar, here);
        bar_b = advance(bar_b, here);
    }
    return Moments(weights, sum);
}

// Sums over weights; 0 where there is no weight.
fn weighted_mean(x: Moments) -> Windows8 {
    let zero = vec4<f32>(0.0);
    let low = x.powers.low / select(vec4<f32>(1.0), x.squares.low, x.squares.low > zero);
    let high = x.powers.high / select(vec4<f32>(1.0), x.squares.high, x.squares.high > zero);
    return Windows8(select(zero, low, x.squares.low > zero), select(zero, high, x.squares.high > zero));
}

fn store8(to: u32, x: Windows8, count: u32) {
    var at = to;
    var rest = x;
    for (var k = 0u; k < count; k++) {
        arena[at] = rest.low.x;
        rest.low = vec4<f32>(rest.low.yzw, rest.high.x);
        rest.high = vec4<f32>(rest.high.yzw, 0.0);
        at += stride();
    }
}

// Weighted means and deviations; where no value has weight, the newest value and 0.
fn store_weighted(job: Job, w: WindowSpan, newest: Bar, newest_b: Bar, size: u32, to: u32, count: u32) {
    let a = input(job, 0u);
    let b = input(job, 1u);
    let c = load_value(a, newest);
    let other = earlier(newest_b, size - 1u);
    let first = weighted(a, b, w, other, c, zero8(), false);
    let mean = weighted_mean(first);
    let square = weighted_mean(weighted(a, b, w, other, c, mean, true));
    var bar = newest;
    var rest = mean;
    var weights = first.squares;
    var at = output(job, 0u) + to;
    for (var k = 0u; k < count; k++) {
        arena[at] = select(load_value(a, bar), c + rest.low.x, weights.low.x > 0.0);
        rest = Windows8(vec4<f32>(rest.low.yzw, rest.high.x), vec4<f32>(rest.high.yzw, 0.0));
        weights = Windows8(vec4<f32>(weights.low.yzw, weights.high.x), vec4<f32>(weights.high.yzw, 0.0));
        bar = next(bar);
        at += stride();
    }
    store8(output(job, 1u) + to, Windows8(sqrt(square.low), sqrt(square.high)), count);
}

// Modes of one input; the outputs begin at word `to` of their columns.
fn one_input(job: Job, w: WindowSpan, c: f32, to: u32, count: u32) {
    let column = input(job, 0u);
    let found = central_moments(column, w, c, means(column, w, c), job.mode);
    if (job.mode == 1u) {
        store8(output(job, 0u) + to, found.powers, count);
        return;
    }
    store8(output(job, 0u) + to, found.squares, count);
    if (job.mode >= 3u) {
        store8(output(job, 1u) + to, found.powers, count);
    }
}

// Modes of two inputs.
fn two_inputs(job: Job, w: WindowSpan, newest: Bar, newest_b: Bar, to: u32, count: u32) {
    let a = input(job, 0u);
    let b = input(job, 1u);
    let c = vec2<f32>(load_value(a, newest), load_value(b, newest_b));
    let other = earlier(newest_b, job.window - 1u);
    if (job.mode == 7u) {
        store8(output(job, 0u) + to, projected_extreme(a, w, c.x, 1.0), count);
        store8(output(job, 1u) + to, projected_extreme(b, WindowSpan(other, w.skip, w.all, w.n), c.y, -1.0), count);
        return;
    }
    let mean_a = means(a, w, c.x);
    let mean_b = means(b, WindowSpan(other, w.skip, w.all, w.n), c.y);
    store8(output(job, 0u) + to, co_moments(a, b, w, other, c, mean_a, mean_b), count);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let segment = segment_at(id.x);
    let job = job_at(id.y);
    let end = min((id.z + 1u) * p.v[2].y, segment.count);
    // Steps before the first value are left untouched.
    var step = max(id.z * p.v[2].y, max(job.start, segment.first) - segment.first);
    while (step < end) {
        let count = min(end - step, min(job.window, 8u));
        let here = Bar(id.x, step);
        let to = word_of(here);
        let newest = earlier(here, lag(job, 0u));
        let size = select(job.window, min(job.window, segment.first + step - job.inputs_start + 1u), job.mode == 8u);
        let w = WindowSpan(earlier(newest, size - 1u), job.window - size, job.window + count - 1u, job.window);
        switch job.mode {
            case 5u, 7u: { two_inputs(job, w, newest, earlier(here, lag(job, 1u)), to, count); }
            case 6u: { store8(output(job, 0u) + to, time_moments(input(job, 0u), w, load_value(input(job, 0u), newest)), count); }
            case 8u: { store_weighted(job, w, newest, earlier(here, lag(job, 1u)), size, to, count); }
            default: { one_input(job, w, load_value(input(job, 0u), newest), to, count); }
        }
        step += count;
    }
}
