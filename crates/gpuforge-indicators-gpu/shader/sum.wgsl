// Sums of windows: 0 plain, 1 of as many values as there are yet, 2 with weights 1..n, 3 with the job's numbers as weights,
// the oldest first and their sum last. Windows are summed in blocks no longer than they are: what all windows of a block share once, what lies
// before that backwards (kept in the output until its turn), what lies after it forwards. Nothing is ever taken off a sum, so
// that what has left a window leaves no rest in it, and sums of integers are exact.

// Bars that are summed by themselves before they are added to a sum: one of many values keeps its last digits.
const PART: u32 = 32u;

// Plain and weighted sum of `n` bars from one on; the first weight is 1, each next one greater by `ramp`.
fn sums(column: u32, first: Bar, n: u32, ramp: f32) -> vec2<f32> {
    var bar = first;
    var left = n;
    var weight = 1.0;
    var sum = vec2<f32>(0.0);
    while (left > 0u) {
        let here = within(bar, min(PART, left));
        var part = vec2<f32>(0.0);
        var at = column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = arena[at];
            part += vec2<f32>(x, weight * x);
            weight += ramp;
            at += stride();
        }
        sum += part;
        left -= here;
        bar = passed(bar, here);
    }
    return sum;
}

// What the windows of a block have before their common bars, from the shortest on: to the outputs that end at word `last`.
fn backward(column: u32, newest: Bar, n: u32, count: u32, last: u32, ramp: f32) {
    var at_out = last;
    var plain = 0.0;
    var sum = 0.0;
    arena[at_out] = 0.0;
    var left = count - 1u;
    var bar = newest;
    if (left > 0u) {
        bar = earlier(newest, n - left);
    }
    while (left > 0u) {
        let here = min(left, bar.step + 1u);
        var at = column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = arena[at];
            // The oldest weighs 1, all others one more than in the window after.
            sum += x + ramp * plain;
            plain += x;
            at_out -= stride();
            arena[at_out] = sum;
            at -= stride();
        }
        left -= here;
        bar = before(bar.run);
    }
}

// Windows of `n` that end at `count` bars, at most n, from `newest` on; the outputs begin at word `to`.
fn block(column: u32, newest: Bar, n: u32, count: u32, to: u32, ramp: f32) {
    backward(column, newest, n, count, to + (count - 1u) * stride(), ramp);
    let shared_bars = sums(column, earlier(newest, n - count), n + 1u - count, ramp);
    arena[to] += shared_bars.y + ramp * f32(count - 1u) * shared_bars.x;
    var at_out = to;
    var plain = 0.0;
    var ramped = 0.0;
    var k = 1u;
    var bar = next(newest);
    while (k < count) {
        let stop = k + within(bar, count - k);
        var at = column + word_of(bar);
        while (k < stop) {
            let x = arena[at];
            plain += x;
            ramped += ramp * f32(k) * x;
            let core = shared_bars.y + ramp * f32(count - 1u - k) * shared_bars.x;
            at_out += stride();
            arena[at_out] += core + ((1.0 + ramp * f32(n - k - 1u)) * plain + ramped);
            at += stride();
            k += 1u;
        }
        bar = after(bar.run);
    }
}

// The same without weights: what most windows ask for, and half the arithmetic.
fn plain_block(column: u32, newest: Bar, n: u32, count: u32, to: u32) {
    let step = 1u << p.v[0].z;
    let steps = 1u << p.v[0].y;
    // Backwards, from the shortest on.
    var out = to + (count - 1u) * step;
    var sum = 0.0;
    arena[out] = 0.0;
    var left = count - 1u;
    var bar = newest;
    if (left > 0u) {
        bar = earlier(newest, n - left);
    }
    while (left > 0u) {
        let here = min(left, bar.step + 1u);
        var at = column + word_of(bar);
        for (var i = here; i > 0u; i--) {
            sum += arena[at];
            out -= step;
            arena[out] = sum;
            at -= step;
        }
        left -= here;
        bar = before(bar.run);
    }
    // Forwards, with what all have in common. `out` is `to` again.
    let common_bars = sums(column, earlier(newest, n - count), n + 1u - count, 0.0).x;
    arena[out] += common_bars;
    sum = 0.0;
    left = count - 1u;
    bar = next(newest);
    while (left > 0u) {
        let here = min(left, steps - bar.step);
        var at = column + word_of(bar);
        for (var i = here; i > 0u; i--) {
            sum += arena[at];
            out += step;
            arena[out] += common_bars + sum;
            at += step;
        }
        left -= here;
        bar = after(bar.run);
    }
}

// Bars from one on, of which some lie in the run after its own.
struct Stretch {
    word: u32,
    // how many lie in its own run, and how much further the others are
    own: u32,
    jump: u32,
}

fn run_of(column: u32, bar: Bar) -> Stretch {
    let steps = 1u << p.v[0].y;
    let own = steps - bar.step;
    let at = word_of(bar);
    return Stretch(column + at, own, word_of(after(bar.run)) - (at + (own << p.v[0].z)));
}

fn word_in(s: Stretch, i: u32) -> u32 {
    return s.word + (i << p.v[0].z) + select(0u, s.jump, i >= s.own);
}

// 16 neighbouring windows of at least 16 bars, in registers: what they have before their common bars backwards, what
// they have after them forwards. `oldest` is the first bar of the first window; all bars lie in its run and the next.
fn tile16(column: u32, oldest: Bar, n: u32, to: u32) {
    let step = stride();
    let run = run_of(column, oldest);
    let s14 = arena[word_in(run, 14u)];
    let s13 = s14 + arena[word_in(run, 13u)];
    let s12 = s13 + arena[word_in(run, 12u)];
    let s11 = s12 + arena[word_in(run, 11u)];
    let s10 = s11 + arena[word_in(run, 10u)];
    let s9 = s10 + arena[word_in(run, 9u)];
    let s8 = s9 + arena[word_in(run, 8u)];
    let s7 = s8 + arena[word_in(run, 7u)];
    let s6 = s7 + arena[word_in(run, 6u)];
    let s5 = s6 + arena[word_in(run, 5u)];
    let s4 = s5 + arena[word_in(run, 4u)];
    let s3 = s4 + arena[word_in(run, 3u)];
    let s2 = s3 + arena[word_in(run, 2u)];
    let s1 = s2 + arena[word_in(run, 1u)];
    let s0 = s1 + arena[word_in(run, 0u)];
    var shared_bars = 0.0;
    for (var q = 15u; q < n; q++) {
        shared_bars += arena[word_in(run, q)];
    }
    arena[to] = s0 + shared_bars;
    var sum = 0.0;
    sum += arena[word_in(run, n + 0u)];
    arena[to + 1u * step] = s1 + (shared_bars + sum);
    sum += arena[word_in(run, n + 1u)];
    arena[to + 2u * step] = s2 + (shared_bars + sum);
    sum += arena[word_in(run, n + 2u)];
    arena[to + 3u * step] = s3 + (shared_bars + sum);
    sum += arena[word_in(run, n + 3u)];
    arena[to + 4u * step] = s4 + (shared_bars + sum);
    sum += arena[word_in(run, n + 4u)];
    arena[to + 5u * step] = s5 + (shared_bars + sum);
    sum += arena[word_in(run, n + 5u)];
    arena[to + 6u * step] = s6 + (shared_bars + sum);
    sum += arena[word_in(run, n + 6u)];
    arena[to + 7u * step] = s7 + (shared_bars + sum);
    sum += arena[word_in(run, n + 7u)];
    arena[to + 8u * step] = s8 + (shared_bars + sum);
    sum += arena[word_in(run, n + 8u)];
    arena[to + 9u * step] = s9 + (shared_bars + sum);
    sum += arena[word_in(run, n + 9u)];
    arena[to + 10u * step] = s10 + (shared_bars + sum);
    sum += arena[word_in(run, n + 10u)];
    arena[to + 11u * step] = s11 + (shared_bars + sum);
    sum += arena[word_in(run, n + 11u)];
    arena[to + 12u * step] = s12 + (shared_bars + sum);
    sum += arena[word_in(run, n + 12u)];
    arena[to + 13u * step] = s13 + (shared_bars + sum);
    sum += arena[word_in(run, n + 13u)];
    arena[to + 14u * step] = s14 + (shared_bars + sum);
    sum += arena[word_in(run, n + 14u)];
    arena[to + 15u * step] = (shared_bars + sum);
}

// Windows that have `size` values at the first of `count` bars, `newest`, and one more at each next.
fn grow(column: u32, newest: Bar, size: u32, count: u32, to: u32) {
    var sum = sums(column, earlier(newest, size - 1u), size, 0.0).x;
    var at_out = to;
    arena[at_out] = sum;
    var bar = newest;
    for (var k = 1u; k < count; k++) {
        bar = next(bar);
        sum += value(column, bar);
        at_out += stride();
        arena[at_out] = sum;
    }
}

// Weighted windows that end at `count` bars, at most eight, from `newest` on, all of them at once. Distances from one value
// are weighted: where weights take each other off, what they took would be rounded away.
fn weighted(job: Job, column: u32, newest: Bar, count: u32, to: u32) {
    let n = job.n;
    let c = value(column, newest);
    var bar = earlier(newest, n - 1u);
    var low = vec4<f32>(0.0);
    var high = vec4<f32>(0.0);
    // Weights of this bar in the windows: one further in each than in the window after.
    var w_low = vec4<f32>(0.0);
    var w_high = vec4<f32>(0.0);
    let all = n + count - 1u;
    var j = 0u;
    while (j < all) {
        let here = within(bar, min(PART, all - j));
        let stop = j + here;
        var part_low = vec4<f32>(0.0);
        var part_high = vec4<f32>(0.0);
        var at = column + word_of(bar);
        while (j < stop) {
            let x = arena[at] - c;
            w_high = vec4<f32>(w_low.w, w_high.xyz);
            w_low = vec4<f32>(select(0.0, number(job, min(j, n - 1u)), j < n), w_low.xyz);
            part_low += w_low * x;
            part_high += w_high * x;
            at += stride();
            j += 1u;
        }
        low += part_low;
        high += part_high;
        bar = passed(bar, here);
    }
    let level = c * number(job, n);
    var at_out = to;
    for (var k = 0u; k < count; k++) {
        arena[at_out] = low.x + level;
        low = vec4<f32>(low.yzw, high.x);
        high = vec4<f32>(high.yzw, 0.0);
        at_out += stride();
    }
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
    if (job.mode == 1u && step < end) {
        let size = run.first + step - job.begin + 1u;
        if (size < job.n) {
            let count = min(end - step, job.n - size);
            let newest = earlier(Bar(id.x, step), behind);
            grow(column, newest, size, count, output(job, 0u) + word_of(Bar(id.x, step)));
            step += count;
        }
    }
    let tiled = job.mode < 2u && job.n >= 16u && job.n <= 48u;
    let base = output(job, 0u) + word_of(Bar(id.x, 0u));
    while (step < end) {
        // A loop of its own: adapters that compute both sides of a branch would compute blocks for every tile.
        while (tiled && step + 16u <= end) {
            let oldest = earlier(Bar(id.x, step), behind + job.n - 1u);
            if (oldest.step + job.n + 14u >= (2u << p.v[0].y)) {
                break;
            }
            tile16(column, oldest, job.n, base + (step << p.v[0].z));
            step += 16u;
        }
        if (step < end) {
            let count = min(end - step, select(job.n, 8u, job.mode == 3u));
            let newest = earlier(Bar(id.x, step), behind);
            let to = base + (step << p.v[0].z);
            if (job.mode == 3u) {
                weighted(job, column, newest, count, to);
            } else if (job.mode == 2u) {
                block(column, newest, job.n, count, to, 1.0);
            } else {
                plain_block(column, newest, job.n, count, to);
            }
            step += count;
        }
    }
}
