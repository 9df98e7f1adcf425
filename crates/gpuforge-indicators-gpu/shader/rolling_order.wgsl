// Rolling order statistics: 0 the values at the job's constants as ranks in ascending order, each rank equal or adjacent to the
// previous one; 1 and 2 rank: how many of the n values before are less than this one, or not greater; 3 median absolute
// deviation; 4 Spearman rank correlation; 5 volume profile: the second value (volume) by the first (price) in bins: centre of
// the fullest bin, edges of the value area (constants: bins, share).
// A rank is found by counting once per slice, and then moves by at most one neighbour per bar.

const BINS: u32 = 64u;
const MAX_VALUE: f32 = 3.0e38;

// The values of a window, or their distances from a median: a value and half of the distance to the next one, because their
// sum may need one digit more than f32 has.
struct Window {
    column: u32,
    oldest: Bar,
    n: u32,
    distances: bool,
    middle: vec2<f32>,
}

fn window(column: u32, oldest: Bar, n: u32) -> Window { return Window(column, oldest, n, false, vec2<f32>(0.0)); }
fn transformed(w: Window, x: f32) -> f32 { return select(x, abs(x - w.middle.x - w.middle.y), w.distances); }

// A value, how many values are less, and how many are not greater.
struct Ranked {
    value: f32,
    less: u32,
    upto: u32,
}

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// The next eight values, padded with the first.
fn eight(w: Window, first: Bar, n: u32) -> Eight {
    let x = vec4<f32>(transformed(w, load_value(w.column, first)));
    var all = Eight(x, x);
    var bar = first;
    for (var i = 0u; i < n; i++) {
        let y = transformed(w, load_value(w.column, bar));
        all = Eight(vec4<f32>(all.low.yzw, all.high.x), vec4<f32>(all.high.yzw, y));
        bar = next(bar);
    }
    return all;
}

fn to_counts(x: vec4<bool>) -> vec4<u32> { return select(vec4<u32>(0u), vec4<u32>(1u), x); }

struct Counts {
    less: vec4<u32>,
    upto: vec4<u32>,
    less_high: vec4<u32>,
    upto_high: vec4<u32>,
}

// How many values of a window are less than each of eight, and how many are not greater.
fn count_less(w: Window, than: Eight) -> Counts {
    let none = vec4<u32>(0u);
    var c = Counts(none, none, none, none);
    var bar = w.oldest;
    var left = w.n;
    while (left > 0u) {
        let here = bars_in_segment(bar, left);
        var at = w.column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = vec4<f32>(transformed(w, arena[at]));
            c.less += to_counts(x < than.low);
            c.upto += to_counts(x <= than.low);
            c.less_high += to_counts(x < than.high);
            c.upto_high += to_counts(x <= than.high);
            at += stride();
        }
        left -= here;
        bar = first_of_next(bar.segment);
    }
    return c;
}

// The current candidate, or another one if it has the rank.
fn pick_rank(found: Ranked, place: u32, x: f32, less: u32, upto: u32) -> Ranked {
    if (less <= place && place < upto) {
        return Ranked(x, less, upto);
    }
    return found;
}

fn pick_rank_four(found: Ranked, place: u32, x: vec4<f32>, less: vec4<u32>, upto: vec4<u32>) -> Ranked {
    let a = pick_rank(found, place, x.x, less.x, upto.x);
    let b = pick_rank(a, place, x.y, less.y, upto.y);
    let c = pick_rank(b, place, x.z, less.z, upto.z);
    return pick_rank(c, place, x.w, less.w, upto.w);
}

// The value at a rank, eight candidates at a time.
fn select_nth(w: Window, place: u32) -> Ranked {
    var found = Ranked(0.0, 0u, 0u);
    var bar = w.oldest;
    for (var i = 0u; i < w.n; i += 8u) {
        let some = min(8u, w.n - i);
        let candidates = eight(w, bar, some);
        let c = count_less(w, candidates);
        found = pick_rank_four(found, place, candidates.low, c.less, c.upto);
        found = pick_rank_four(found, place, candidates.high, c.less_high, c.upto_high);
        for (var k = 0u; k < some; k++) {
            bar = next(bar);
        }
    }
    return found;
}

// Updates the value at a rank after one value left and another entered: itself, or the nearest less or greater one.
fn shift_rank(w: Window, was: Ranked, place: u32) -> Ranked {
    let down = place < was.less;
    let up = place >= was.upto;
    let sign = select(1.0, -1.0, down);
    let limit = sign * was.value;
    var best = MAX_VALUE;
    var equals = 0u;
    var bar = w.oldest;
    var left = select(0u, w.n, down || up);
    while (left > 0u) {
        let here = bars_in_segment(bar, left);
        var at = w.column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = sign * transformed(w, arena[at]);
            let beyond = x > limit;
            equals = select(equals + select(0u, 1u, beyond && x == best), 1u, beyond && x < best);
            best = select(best, x, beyond && x < best);
            at += stride();
        }
        left -= here;
        bar = first_of_next(bar.segment);
    }
    if (down) {
        return Ranked(sign * best, was.less - equals, was.less);
    }
    if (up) {
        return Ranked(sign * best, was.upto, was.upto + equals);
    }
    return was;
}

fn to_count(x: bool) -> u32 { return select(0u, 1u, x); }

// Values at one rank of the windows that end at `steps` bars from `newest` on, given that of the first window.
fn order_statistics(first: Window, at_first: Ranked, newest: Bar, place: u32, to: u32, steps: u32) {
    let column = first.column;
    var w = first;
    var found = at_first;
    arena[to] = found.value;
    var come = newest;
    for (var k = 1u; k < steps; k++) {
        let old = load_value(column, w.oldest);
        w.oldest = next(w.oldest);
        come = next(come);
        let x = load_value(column, come);
        found.less += to_count(x < found.value) - to_count(old < found.value);
        found.upto += to_count(x <= found.value) - to_count(old <= found.value);
        found = shift_rank(w, found, place);
        arena[to + k * stride()] = found.value;
    }
}

// Ranks of up to eight neighbouring bars among the n values before each.
fn ranks(column: u32, newest: Bar, n: u32, or_equal: bool, to: u32, steps: u32) {
    var own = eight(window(column, newest, n), newest, steps);
    // They were filled from the end: rotate the first to the front.
    for (var k = steps; k < 8u; k++) {
        own = Eight(vec4<f32>(own.low.yzw, own.high.x), vec4<f32>(own.high.yzw, 0.0));
    }
    var low = vec4<u32>(0u);
    var high = vec4<u32>(0u);
    var bar = earlier(newest, n);
    let all = n + steps - 1u;
    var j = 0u;
    while (j < all) {
        let stop = j + bars_in_segment(bar, all - j);
        var at = column + word_of(bar);
        while (j < stop) {
            let x = vec4<f32>(arena[at]);
            let inside = vec4<u32>(j) - vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(n);
            let inside_high = vec4<u32>(j) - vec4<u32>(4u, 5u, 6u, 7u) < vec4<u32>(n);
            low += to_counts(inside & select(x < own.low, x <= own.low, vec4<bool>(or_equal)));
            high += to_counts(inside_high & select(x < own.high, x <= own.high, vec4<bool>(or_equal)));
            at += stride();
            j += 1u;
        }
        bar = first_of_next(bar.segment);
    }
    for (var k = 0u; k < steps; k++) {
        arena[to + k * stride()] = f32(low.x);
        low = vec4<u32>(low.yzw, high.x);
        high = vec4<u32>(high.yzw, 0u);
    }
}

// The lower median, and the distance of the median from it.
fn median(w: Window) -> vec2<f32> {
    let lower = select_nth(w, (w.n - 1u) / 2u);
    return vec2<f32>(lower.value, 0.5 * (shift_rank(w, lower, w.n / 2u).value - lower.value));
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
        let cx = count_less(x, eight(x, bar, some));
        let cy = count_less(y, eight(y, bar_b, some));
        // The valid ones were filled from the end.
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

// Min and max of a window.
fn min_max(w: Window) -> vec2<f32> {
    var bar = w.oldest;
    var left = w.n;
    var found = vec2<f32>(load_value(w.column, bar));
    while (left > 0u) {
        let here = bars_in_segment(bar, left);
        var at = w.column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = arena[at];
            found = vec2<f32>(min(found.x, x), max(found.y, x));
            at += stride();
        }
        left -= here;
        bar = first_of_next(bar.segment);
    }
    return found;
}

// floor(x / span), exact for integers where division rounds.
fn floor_div(x: f32, span: f32) -> f32 {
    let q = floor(x / span);
    let less = select(q, q - 1.0, q * span > x);
    return select(less, less + 1.0, (less + 1.0) * span <= x);
}

// Centre of the fullest bin (point of control), and edges of the value area.
fn volume_profile(w: Window, volume: u32, oldest_b: Bar, bins: u32, share: f32) -> vec3<f32> {
    let found = min_max(w);
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
        let bin = u32(floor_div((load_value(w.column, bar) - found.x) * f32(bins), span));
        let v = load_value(volume, bar_b);
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

// Modes that process one window after the other.
fn per_window(job: Job, w: Window, here: Bar) {
    if (job.mode == 3u) {
        let found = median(Window(w.column, w.oldest, w.n, true, median(w)));
        store_value(output(job, 0u), here, found.x + found.y);
        return;
    }
    let oldest_b = earlier(here, lag(job, 1u) + job.window - 1u);
    if (job.mode == 4u) {
        store_value(output(job, 0u), here, correlation(w.column, input(job, 1u), w.oldest, oldest_b, job.window));
        return;
    }
    let found = volume_profile(w, input(job, 1u), oldest_b, min(u32(constant(job, 0u)), BINS), constant(job, 1u));
    store_value(output(job, 0u), here, found.x);
    store_value(output(job, 1u), here, found.y);
    store_value(output(job, 2u), here, found.z);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let segment = segment_at(id.x);
    let job = job_at(id.y);
    let column = input(job, 0u);
    let behind = lag(job, 0u);
    let end = min((id.z + 1u) * p.v[2].y, segment.count);
    // Steps before the first value are left untouched.
    var step = max(id.z * p.v[2].y, max(job.start, segment.first) - segment.first);
    if (job.mode == 0u && step < end) {
        let here = Bar(id.x, step);
        let newest = earlier(here, behind);
        let w = window(column, earlier(newest, job.window - 1u), job.window);
        var found = select_nth(w, u32(constant(job, 0u)));
        for (var o = 0u; o < data[job.at + 7u]; o++) {
            // Each rank equals the previous one or is adjacent.
            found = shift_rank(w, found, u32(constant(job, o)));
            order_statistics(w, found, newest, u32(constant(job, o)), output(job, o) + word_of(here), end - step);
        }
        return;
    }
    while (step < end) {
        let here = Bar(id.x, step);
        if (job.mode <= 2u) {
            let steps = min(8u, end - step);
            let to = output(job, 0u) + word_of(here);
            ranks(column, earlier(here, behind), job.window, job.mode == 2u, to, steps);
            step += steps;
        } else {
            per_window(job, window(column, earlier(here, behind + job.window - 1u), job.window), here);
            step += 1u;
        }
    }
}
