// What stands where among the values of windows: 0 those at the job's numbers as places in ascending order, each place the
// one before or the next; 1 and 2 how many of the n values before are less than this one, or not greater; 3 median distance
// from the median; 4 rank correlation of two values; 5 the second value (volume) by the first (price) in bins: the middle of
// the fullest bin, the edges of the bins around it that hold a share of all (numbers: bins, share).
// A place is found by counting once a slice, and then moves by at most one neighbour a bar.

const BINS: u32 = 64u;
const MOST: f32 = 3.0e38;

// The values of a window, or their distances from a middle: from a value and half of the way to the next, because their sum
// may have a digit more than there is room for.
struct Window {
    column: u32,
    oldest: Bar,
    n: u32,
    distances: bool,
    middle: vec2<f32>,
}

fn window(column: u32, oldest: Bar, n: u32) -> Window { return Window(column, oldest, n, false, vec2<f32>(0.0)); }
fn seen(w: Window, x: f32) -> f32 { return select(x, abs(x - w.middle.x - w.middle.y), w.distances); }

// A value, how many are less, and how many are not greater.
struct Found {
    value: f32,
    less: u32,
    upto: u32,
}

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// The next eight values; those there are not are the first again.
fn eight(w: Window, first: Bar, n: u32) -> Eight {
    let x = vec4<f32>(seen(w, value(w.column, first)));
    var all = Eight(x, x);
    var bar = first;
    for (var i = 0u; i < n; i++) {
        let y = seen(w, value(w.column, bar));
        all = Eight(vec4<f32>(all.low.yzw, all.high.x), vec4<f32>(all.high.yzw, y));
        bar = next(bar);
    }
    return all;
}

fn ones(x: vec4<bool>) -> vec4<u32> { return select(vec4<u32>(0u), vec4<u32>(1u), x); }

struct Counts {
    less: vec4<u32>,
    upto: vec4<u32>,
    less_high: vec4<u32>,
    upto_high: vec4<u32>,
}

// How many values of a window are less than each of eight, and how many are not greater.
fn count(w: Window, than: Eight) -> Counts {
    let none = vec4<u32>(0u);
    var c = Counts(none, none, none, none);
    var bar = w.oldest;
    var left = w.n;
    while (left > 0u) {
        let here = within(bar, left);
        var at = w.column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = vec4<f32>(seen(w, arena[at]));
            c.less += ones(x < than.low);
            c.upto += ones(x <= than.low);
            c.less_high += ones(x < than.high);
            c.upto_high += ones(x <= than.high);
            at += stride();
        }
        left -= here;
        bar = after(bar.run);
    }
    return c;
}

// What was found, or another if it stands at the place.
fn choose(found: Found, place: u32, x: f32, less: u32, upto: u32) -> Found {
    if (less <= place && place < upto) {
        return Found(x, less, upto);
    }
    return found;
}

fn choose_four(found: Found, place: u32, x: vec4<f32>, less: vec4<u32>, upto: vec4<u32>) -> Found {
    let a = choose(found, place, x.x, less.x, upto.x);
    let b = choose(a, place, x.y, less.y, upto.y);
    let c = choose(b, place, x.z, less.z, upto.z);
    return choose(c, place, x.w, less.w, upto.w);
}

// The value at a place, eight candidates at a time.
fn nth(w: Window, place: u32) -> Found {
    var found = Found(0.0, 0u, 0u);
    var bar = w.oldest;
    for (var i = 0u; i < w.n; i += 8u) {
        let some = min(8u, w.n - i);
        let candidates = eight(w, bar, some);
        let c = count(w, candidates);
        found = choose_four(found, place, candidates.low, c.less, c.upto);
        found = choose_four(found, place, candidates.high, c.less_high, c.upto_high);
        for (var k = 0u; k < some; k++) {
            bar = next(bar);
        }
    }
    return found;
}

// From a value that stood at the place before one value left and another came to the one that stands there now: itself, or
// the nearest less or greater.
fn moved(w: Window, was: Found, place: u32) -> Found {
    let down = place < was.less;
    let up = place >= was.upto;
    let sign = select(1.0, -1.0, down);
    let limit = sign * was.value;
    var best = MOST;
    var equals = 0u;
    var bar = w.oldest;
    var left = select(0u, w.n, down || up);
    while (left > 0u) {
        let here = within(bar, left);
        var at = w.column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = sign * seen(w, arena[at]);
            let beyond = x > limit;
            equals = select(equals + select(0u, 1u, beyond && x == best), 1u, beyond && x < best);
            best = select(best, x, beyond && x < best);
            at += stride();
        }
        left -= here;
        bar = after(bar.run);
    }
    if (down) {
        return Found(sign * best, was.less - equals, was.less);
    }
    if (up) {
        return Found(sign * best, was.upto, was.upto + equals);
    }
    return was;
}

fn one(x: bool) -> u32 { return select(0u, 1u, x); }

// Values at one place of the windows that end at `steps` bars from `newest` on, given the one of the first window.
fn places(first: Window, at_first: Found, newest: Bar, place: u32, to: u32, steps: u32) {
    let column = first.column;
    var w = first;
    var found = at_first;
    arena[to] = found.value;
    var come = newest;
    for (var k = 1u; k < steps; k++) {
        let old = value(column, w.oldest);
        w.oldest = next(w.oldest);
        come = next(come);
        let x = value(column, come);
        found.less += one(x < found.value) - one(old < found.value);
        found.upto += one(x <= found.value) - one(old <= found.value);
        found = moved(w, found, place);
        arena[to + k * stride()] = found.value;
    }
}

// Ranks of up to eight neighbouring bars among the n values before each.
fn ranks(column: u32, newest: Bar, n: u32, or_equal: bool, to: u32, steps: u32) {
    var own = eight(window(column, newest, n), newest, steps);
    // They were put in from the end on: the first has to be the first.
    for (var k = steps; k < 8u; k++) {
        own = Eight(vec4<f32>(own.low.yzw, own.high.x), vec4<f32>(own.high.yzw, 0.0));
    }
    var low = vec4<u32>(0u);
    var high = vec4<u32>(0u);
    var bar = earlier(newest, n);
    let all = n + steps - 1u;
    var j = 0u;
    while (j < all) {
        let stop = j + within(bar, all - j);
        var at = column + word_of(bar);
        while (j < stop) {
            let x = vec4<f32>(arena[at]);
            let inside = vec4<u32>(j) - vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(n);
            let inside_high = vec4<u32>(j) - vec4<u32>(4u, 5u, 6u, 7u) < vec4<u32>(n);
            low += ones(inside & select(x < own.low, x <= own.low, vec4<bool>(or_equal)));
            high += ones(inside_high & select(x < own.high, x <= own.high, vec4<bool>(or_equal)));
            at += stride();
            j += 1u;
        }
        bar = after(bar.run);
    }
    for (var k = 0u; k < steps; k++) {
        arena[to + k * stride()] = f32(low.x);
        low = vec4<u32>(low.yzw, high.x);
        high = vec4<u32>(high.yzw, 0u);
    }
}

// The value in the middle, of an even number the lower one, and how far the middle is from it.
fn median(w: Window) -> vec2<f32> {
    let lower = nth(w, (w.n - 1u) / 2u);
    return vec2<f32>(lower.value, 0.5 * (moved(w, lower, w.n / 2u).value - lower.value));
}

// Rank correlation. Ranks are multiples of one half, all sums are exact.
fn correlation(a: u32, b: u32, oldest: Bar, oldest_b: Bar, n: u32) -> f32 {
    let x = window(a, oldest, n);
    let y = window(b, oldest_b, n);
    let middle = 0.5 * f32(n);
    var bar = oldest;
    var bar_b = oldest_b;
    var xx = 0.0;
    var yy = 0.0;
    var xy = 0.0;
    for (var i = 0u; i < n; i += 8u) {
        let some = min(8u, n - i);
        let cx = count(x, eight(x, bar, some));
        let cy = count(y, eight(y, bar_b, some));
        // Those there are were put in from the end on.
        let low = vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(8u - some);
        let high = vec4<u32>(4u, 5u, 6u, 7u) >= vec4<u32>(8u - some);
        let none = vec4<f32>(0.0);
        let dx = select(none, 0.5 * vec4<f32>(cx.less + cx.upto) - middle, low);
        let ex = select(none, 0.5 * vec4<f32>(cx.less_high + cx.upto_high) - middle, high);
        let dy = select(none, 0.5 * vec4<f32>(cy.less + cy.upto) - middle, low);
        let ey = select(none, 0.5 * vec4<f32>(cy.less_high + cy.upto_high) - middle, high);
        xx += dot(dx, dx) + dot(ex, ex);
        yy += dot(dy, dy) + dot(ey, ey);
        xy += dot(dx, dy) + dot(ex, ey);
        for (var k = 0u; k < some; k++) {
            bar = next(bar);
            bar_b = next(bar_b);
        }
    }
    if (xx > 0.0 && yy > 0.0) {
        return xy / sqrt(xx * yy);
    }
    return 0.0;
}

// Least and greatest of a window.
fn limits(w: Window) -> vec2<f32> {
    var bar = w.oldest;
    var left = w.n;
    var found = vec2<f32>(value(w.column, bar));
    while (left > 0u) {
        let here = within(bar, left);
        var at = w.column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = arena[at];
            found = vec2<f32>(min(found.x, x), max(found.y, x));
            at += stride();
        }
        left -= here;
        bar = after(bar.run);
    }
    return found;
}

// The greatest whole number of spans in x, right for integers wherever a division rounds.
fn whole(x: f32, span: f32) -> f32 {
    let q = floor(x / span);
    let less = select(q, q - 1.0, q * span > x);
    return select(less, less + 1.0, (less + 1.0) * span <= x);
}

// The fullest bin, and the edges of its area.
fn profile(w: Window, volume: u32, oldest_b: Bar, bins: u32, share: f32) -> vec3<f32> {
    let found = limits(w);
    let span = found.y - found.x;
    if (span <= 0.0) {
        return vec3<f32>(found.x);
    }
    var volumes: array<f32, BINS>;
    for (var b = 0u; b < bins; b++) {
        volumes[b] = 0.0;
    }
    var bar = w.oldest;
    var bar_b = oldest_b;
    var all = 0.0;
    for (var i = 0u; i < w.n; i++) {
        let bin = u32(whole((value(w.column, bar) - found.x) * f32(bins), span));
        let v = value(volume, bar_b);
        volumes[min(bin, bins - 1u)] += v;
        all += v;
        bar = next(bar);
        bar_b = next(bar_b);
    }
    var top = 0u;
    for (var b = 1u; b < bins; b++) {
        top = select(top, b, volumes[b] > volumes[top]);
    }
    // Bins `first` to before `end`.
    var first = top;
    var end = top + 1u;
    var held = volumes[top];
    for (var b = 1u; b < bins && held < all * share; b++) {
        let below = volumes[max(first, 1u) - 1u];
        let above = volumes[min(end, bins - 1u)];
        let goes_down = first > 0u && (end == bins || below >= above);
        held += select(above, below, goes_down);
        first = select(first, first - 1u, goes_down);
        end = select(end + 1u, end, goes_down);
    }
    let width = span / f32(bins);
    return found.x + width * vec3<f32>(f32(top) + 0.5, f32(first), f32(end));
}

// Functions of one window after the other.
fn each(job: Job, w: Window, here: Bar) {
    if (job.mode == 3u) {
        let found = median(Window(w.column, w.oldest, w.n, true, median(w)));
        put(output(job, 0u), here, found.x + found.y);
        return;
    }
    let oldest_b = earlier(here, lag(job, 1u) + job.n - 1u);
    if (job.mode == 4u) {
        put(output(job, 0u), here, correlation(w.column, input(job, 1u), w.oldest, oldest_b, job.n));
        return;
    }
    let found = profile(w, input(job, 1u), oldest_b, min(u32(number(job, 0u)), BINS), number(job, 1u));
    put(output(job, 0u), here, found.x);
    put(output(job, 1u), here, found.y);
    put(output(job, 2u), here, found.z);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let run = run_at(id.x);
    let job = job_at(id.y);
    let column = input(job, 0u);
    let behind = lag(job, 0u);
    let end = min((id.z + 1u) * p.v[2].y, run.count);
    // Steps before the first value stay as they are.
    var step = max(id.z * p.v[2].y, max(job.start, run.first) - run.first);
    if (job.mode == 0u && step < end) {
        let here = Bar(id.x, step);
        let newest = earlier(here, behind);
        let w = window(column, earlier(newest, job.n - 1u), job.n);
        var found = nth(w, u32(number(job, 0u)));
        for (var o = 0u; o < data[job.at + 7u]; o++) {
            // Each place is the one before or the next.
            found = moved(w, found, u32(number(job, o)));
            places(w, found, newest, u32(number(job, o)), output(job, o) + word_of(here), end - step);
        }
        return;
    }
    while (step < end) {
        let here = Bar(id.x, step);
        if (job.mode <= 2u) {
            let steps = min(8u, end - step);
            let to = output(job, 0u) + word_of(here);
            ranks(column, earlier(here, behind), job.n, job.mode == 2u, to, steps);
            step += steps;
        } else {
            each(job, window(column, earlier(here, behind + job.n - 1u), job.n), here);
            step += 1u;
        }
    }
}
