// How far the values of windows lie from their mean: 0 variance, 1 mean distance, 3 and 4 variance and the mean third or
// fourth power, 5 sum of the products of two values' distances, 6 the same of the number of the bar and a value, 7 the
// greatest first and least second value of a window carried on along its slope, 8 mean and deviation of the first
// value weighted with the second, in windows that grow.
// Up to eight windows are summed side by side, so that a bar is read once for all of them; first the mean, then what is asked
// for. Everything is a distance from a value that all of them have: in windows of equal values it is exactly 0.

// A number of each of eight windows.
struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// The bars of windows of `n` that end at neighbouring bars, counted from the oldest of the first window; `skip` of them are
// before the first bar that counts, `all` is behind the last. `bar` is bar `skip`.
struct Walk {
    bar: Bar,
    skip: u32,
    all: u32,
    n: u32,
}

// Bars that are summed by themselves before they are added to a sum: a mean of many values keeps its last digits.
const PART: u32 = 32u;

// The place of bar j in each window; n or more where it is not in it.
fn place_low(j: u32) -> vec4<u32> { return vec4<u32>(j) - vec4<u32>(0u, 1u, 2u, 3u); }
fn place_high(j: u32) -> vec4<u32> { return vec4<u32>(j) - vec4<u32>(4u, 5u, 6u, 7u); }

fn kept(x: vec4<f32>, place: vec4<u32>, n: u32) -> vec4<f32> {
    return select(vec4<f32>(0.0), x, place < vec4<u32>(n));
}

fn none() -> Eight { return Eight(vec4<f32>(0.0), vec4<f32>(0.0)); }
fn plus(x: Eight, y: Eight) -> Eight { return Eight(x.low + y.low, x.high + y.high); }
fn over(x: Eight, by: f32) -> Eight { return Eight(x.low / by, x.high / by); }

// Means, as distances from `c`.
fn means(column: u32, w: Walk, c: f32) -> Eight {
    var sum = none();
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let here = within(bar, min(PART, w.all - j));
        let stop = j + here;
        var part = none();
        var at = column + word_of(bar);
        while (j < stop) {
            let d = vec4<f32>(arena[at] - c);
            part.low += kept(d, place_low(j), w.n);
            part.high += kept(d, place_high(j), w.n);
            at += stride();
            j += 1u;
        }
        sum = plus(sum, part);
        bar = passed(bar, here);
    }
    return over(sum, f32(w.n));
}

// The other power, of a distance and its square.
fn power(mode: u32, d: vec4<f32>, square: vec4<f32>) -> vec4<f32> {
    return select(select(square * square, square * d, mode == 3u), abs(d), mode == 1u);
}

struct Spread {
    squares: Eight,
    powers: Eight,
}

// Means of squares and of the other power of the distances from the means.
fn spread(column: u32, w: Walk, c: f32, mean: Eight, mode: u32) -> Spread {
    var squares = none();
    var powers = none();
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let here = within(bar, min(PART, w.all - j));
        let stop = j + here;
        var part = Spread(none(), none());
        var at = column + word_of(bar);
        while (j < stop) {
            let x = arena[at] - c;
            let low = kept(x - mean.low, place_low(j), w.n);
            let high = kept(x - mean.high, place_high(j), w.n);
            let low_square = low * low;
            let high_square = high * high;
            part.squares.low += low_square;
            part.squares.high += high_square;
            part.powers.low += power(mode, low, low_square);
            part.powers.high += power(mode, high, high_square);
            at += stride();
            j += 1u;
        }
        squares = plus(squares, part.squares);
        powers = plus(powers, part.powers);
        bar = passed(bar, here);
    }
    return Spread(over(squares, f32(w.n)), over(powers, f32(w.n)));
}

// Sums of the products of two values' distances from their means.
fn products(a: u32, b: u32, w: Walk, other: Bar, c: vec2<f32>, mean_a: Eight, mean_b: Eight) -> Eight {
    var sum = none();
    var bar = w.bar;
    var bar_b = other;
    var j = w.skip;
    while (j < w.all) {
        let here = within(bar_b, within(bar, min(PART, w.all - j)));
        let stop = j + here;
        var part = none();
        var at = a + word_of(bar);
        var at_b = b + word_of(bar_b);
        while (j < stop) {
            let x = arena[at] - c.x;
            let y = arena[at_b] - c.y;
            part.low += kept((x - mean_a.low) * (y - mean_b.low), place_low(j), w.n);
            part.high += kept((x - mean_a.high) * (y - mean_b.high), place_high(j), w.n);
            at += stride();
            at_b += stride();
            j += 1u;
        }
        sum = plus(sum, part);
        bar = passed(bar, here);
        bar_b = passed(bar_b, here);
    }
    return sum;
}

// Sums of the products of the distances of bars from the middle one and of values from `c`.
fn moments(column: u32, w: Walk, c: f32) -> Eight {
    var sum = none();
    let middle = 0.5 * f32(w.n - 1u);
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let here = within(bar, min(PART, w.all - j));
        let stop = j + here;
        var part = none();
        var at = column + word_of(bar);
        while (j < stop) {
            let d = arena[at] - c;
            let low = place_low(j);
            let high = place_high(j);
            part.low += kept((vec4<f32>(low) - middle) * d, low, w.n);
            part.high += kept((vec4<f32>(high) - middle) * d, high, w.n);
            at += stride();
            j += 1u;
        }
        sum = plus(sum, part);
        bar = passed(bar, here);
    }
    return sum;
}

// The greater of what was found and of a value carried on from its place to the newest bar.
fn carried(best: vec4<f32>, d: f32, slope: vec4<f32>, place: vec4<u32>, n: u32) -> vec4<f32> {
    let x = d + slope * vec4<f32>(vec4<u32>(n - 1u) - place);
    return select(best, max(best, x), place < vec4<u32>(n));
}

// Greatest (sign 1) or least (sign -1) value of windows, each carried on along the window's slope to its newest bar.
fn reach(column: u32, w: Walk, c: f32, sign: f32) -> Eight {
    let n = f32(w.n);
    let moment = moments(column, w, c);
    let slope = over(Eight(sign * moment.low, sign * moment.high), n * (n * n - 1.0) / 12.0);
    var best = Eight(vec4<f32>(-3.0e38), vec4<f32>(-3.0e38));
    var bar = w.bar;
    var j = w.skip;
    while (j < w.all) {
        let stop = j + within(bar, w.all - j);
        var at = column + word_of(bar);
        while (j < stop) {
            let d = sign * (arena[at] - c);
            best.low = carried(best.low, d, slope.low, place_low(j), w.n);
            best.high = carried(best.high, d, slope.high, place_high(j), w.n);
            at += stride();
            j += 1u;
        }
        bar = after(bar.run);
    }
    return Eight(sign * best.low + c, sign * best.high + c);
}

// Sums of weights, and of weighted distances (or their squares) of values from `c` and the means.
fn weighted(a: u32, b: u32, w: Walk, other: Bar, c: f32, mean: Eight, squared: bool) -> Spread {
    var weights = none();
    var sum = none();
    var bar = w.bar;
    var bar_b = other;
    var j = w.skip;
    while (j < w.all) {
        let here = within(bar_b, within(bar, min(PART, w.all - j)));
        let stop = j + here;
        var part = Spread(none(), none());
        var at = a + word_of(bar);
        var at_b = b + word_of(bar_b);
        while (j < stop) {
            // A value without weight does not count.
            let weight = vec4<f32>(max(arena[at_b], 0.0));
            let low = kept(weight, place_low(j), w.n);
            let high = kept(weight, place_high(j), w.n);
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
        weights = plus(weights, part.squares);
        sum = plus(sum, part.powers);
        bar = passed(bar, here);
        bar_b = passed(bar_b, here);
    }
    return Spread(weights, sum);
}

// Sums over weights; 0 where there is no weight.
fn shares(x: Spread) -> Eight {
    let zero = vec4<f32>(0.0);
    let low = x.powers.low / select(vec4<f32>(1.0), x.squares.low, x.squares.low > zero);
    let high = x.powers.high / select(vec4<f32>(1.0), x.squares.high, x.squares.high > zero);
    return Eight(select(zero, low, x.squares.low > zero), select(zero, high, x.squares.high > zero));
}

fn show(to: u32, x: Eight, count: u32) {
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
fn show_weighted(job: Job, w: Walk, newest: Bar, newest_b: Bar, size: u32, to: u32, count: u32) {
    let a = input(job, 0u);
    let b = input(job, 1u);
    let c = value(a, newest);
    let other = earlier(newest_b, size - 1u);
    let first = weighted(a, b, w, other, c, none(), false);
    let mean = shares(first);
    let square = shares(weighted(a, b, w, other, c, mean, true));
    var bar = newest;
    var rest = mean;
    var weights = first.squares;
    var at = output(job, 0u) + to;
    for (var k = 0u; k < count; k++) {
        arena[at] = select(value(a, bar), c + rest.low.x, weights.low.x > 0.0);
        rest = Eight(vec4<f32>(rest.low.yzw, rest.high.x), vec4<f32>(rest.high.yzw, 0.0));
        weights = Eight(vec4<f32>(weights.low.yzw, weights.high.x), vec4<f32>(weights.high.yzw, 0.0));
        bar = next(bar);
        at += stride();
    }
    show(output(job, 1u) + to, Eight(sqrt(square.low), sqrt(square.high)), count);
}

// Of one value; the outputs begin at word `to` of their columns.
fn one(job: Job, w: Walk, c: f32, to: u32, count: u32) {
    let column = input(job, 0u);
    let found = spread(column, w, c, means(column, w, c), job.mode);
    if (job.mode == 1u) {
        show(output(job, 0u) + to, found.powers, count);
        return;
    }
    show(output(job, 0u) + to, found.squares, count);
    if (job.mode >= 3u) {
        show(output(job, 1u) + to, found.powers, count);
    }
}

// Of two values.
fn two(job: Job, w: Walk, newest: Bar, newest_b: Bar, to: u32, count: u32) {
    let a = input(job, 0u);
    let b = input(job, 1u);
    let c = vec2<f32>(value(a, newest), value(b, newest_b));
    let other = earlier(newest_b, job.n - 1u);
    if (job.mode == 7u) {
        show(output(job, 0u) + to, reach(a, w, c.x, 1.0), count);
        show(output(job, 1u) + to, reach(b, Walk(other, w.skip, w.all, w.n), c.y, -1.0), count);
        return;
    }
    let mean_a = means(a, w, c.x);
    let mean_b = means(b, Walk(other, w.skip, w.all, w.n), c.y);
    show(output(job, 0u) + to, products(a, b, w, other, c, mean_a, mean_b), count);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let run = run_at(id.x);
    let job = job_at(id.y);
    let end = min((id.z + 1u) * p.v[2].y, run.count);
    // Steps before the first value stay as they are.
    var step = max(id.z * p.v[2].y, max(job.start, run.first) - run.first);
    while (step < end) {
        let count = min(end - step, min(job.n, 8u));
        let here = Bar(id.x, step);
        let to = word_of(here);
        let newest = earlier(here, lag(job, 0u));
        let size = select(job.n, min(job.n, run.first + step - job.begin + 1u), job.mode == 8u);
        let w = Walk(earlier(newest, size - 1u), job.n - size, job.n + count - 1u, job.n);
        switch job.mode {
            case 5u, 7u: { two(job, w, newest, earlier(here, lag(job, 1u)), to, count); }
            case 6u: { show(output(job, 0u) + to, moments(input(job, 0u), w, value(input(job, 0u), newest)), count); }
            case 8u: { show_weighted(job, w, newest, earlier(here, lag(job, 1u)), size, to, count); }
            default: { one(job, w, value(input(job, 0u), newest), to, count); }
        }
        step += count;
    }
}
