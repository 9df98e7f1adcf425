// Rolling sums: 0 plain, 1 expanding up to n (partial), 2 linearly weighted 1..n, 3 FIR with the job's constants as weights, the
// oldest first and their sum last. Blocks no longer than a window: the bars common to all windows of a block are summed once,
// the older ones as suffix sums (kept in the output), the newer ones as prefix sums (van Herk style). Nothing is subtracted,
// so that no residue stays in a sum, and sums of integers are exact.

// Length of partial sums: pairwise summation keeps the last digits of long sums.
const PARTIAL_SUM: u32 = 32u;

// Plain and weighted sum of `n` bars from one on; weights start at 1 and increase by `ramp`.
fn partial_sums(column: u32, first: Bar, n: u32, ramp: f32) -> vec2<f32> {
    var bar = first;
    var left = n;
    var weight = 1.0;
    var sum = vec2<f32>(0.0);
    while (left > 0u) {
        let here = bars_in_segment(bar, min(PARTIAL_SUM, left));
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
        bar = advance(bar, here);
    }
    return sum;
}

// Suffix sums: the bars of a block's windows before their common ones, written to the outputs that end at word `last`.
fn suffix_sums(column: u32, newest: Bar, n: u32, count: u32, last: u32, ramp: f32) {
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
            // The oldest weighs 1, all others one more than in the next window.
            sum += x + ramp * plain;
            plain += x;
            at_out -= stride();
            arena[at_out] = sum;
            at -= stride();
        }
        left -= here;
        bar = last_of_previous(bar.segment);
    }
}

// Windows of `n` that end at `count` bars, at most n, from `newest` on; the outputs begin at word `to`.
fn weighted_block(column: u32, newest: Bar, n: u32, count: u32, to: u32, ramp: f32) {
    suffix_sums(column, newest, n, count, to + (count - 1u) * stride(), ramp);
    let shared_bars = partial_sums(column, earlier(newest, n - count), n + 1u - count, ramp);
    arena[to] += shared_bars.y + ramp * f32(count - 1u) * shared_bars.x;
    var at_out = to;
    var plain = 0.0;
    var ramped = 0.0;
    var k = 1u;
    var bar = next(newest);
    while (k < count) {
        let stop = k + bars_in_segment(bar, count - k);
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
        bar = first_of_next(bar.segment);
    }
}

// The same without weights: the common case, at half the arithmetic.
fn plain_block(column: u32, newest: Bar, n: u32, count: u32, to: u32) {
    let step = 1u << p.v[0].z;
    let steps = 1u << p.v[0].y;
    // Suffix sums, from the shortest on.
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
        bar = last_of_previous(bar.segment);
    }
    // Prefix sums, plus the common bars. `out` is `to` again.
    let common_bars = partial_sums(column, earlier(newest, n - count), n + 1u - count, 0.0).x;
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
        bar = first_of_next(bar.segment);
    }
}

// Consecutive bars that continue in the next segment.
struct SplitRange {
    word: u32,
    // bars in the first segment, and the extra distance of the others
    own: u32,
    jump: u32,
}

fn split_range(column: u32, bar: Bar) -> SplitRange {
    let steps = 1u << p.v[0].y;
    let own = steps - bar.step;
    let at = word_of(bar);
    return SplitRange(column + at, own, word_of(first_of_next(bar.segment)) - (at + (own << p.v[0].z)));
}

fn word_in(s: SplitRange, i: u32) -> u32 {
    return s.word + (i << p.v[0].z) + select(0u, s.jump, i >= s.own);
}

// 16 neighbouring windows of at least 16 bars, in registers: suffix sums before their common bars, prefix sums after them.
// `oldest` is the first bar of the first window; all bars are in its segment and the next.
fn tile16(column: u32, oldest: Bar, n: u32, to: u32) {
    let step = stride();
    let segment = split_range(column, oldest);
    let s14 = arena[word_in(segment, 14u)];
    let s13 = s14 + arena[word_in(segment, 13u)];
    let s12 = s13 + arena[word_in(segment, 12u)];
    let s11 = s12 + arena[word_in(segment, 11u)];
    let s10 = s11 + arena[word_in(segment, 10u)];
    let s9 = s10 + arena[word_in(segment, 9u)];
    let s8 = s9 + arena[word_in(segment, 8u)];
    let s7 = s8 + arena[word_in(segment, 7u)];
    let s6 = s7 + arena[word_in(segment, 6u)];
    let s5 = s6 + arena[word_in(segment, 5u)];
    let s4 = s5 + arena[word_in(segment, 4u)];
    let s3 = s4 + arena[word_in(segment, 3u)];
    let s2 = s3 + arena[word_in(segment, 2u)];
    let s1 = s2 + arena[word_in(segment, 1u)];
    let s0 = s1 + arena[word_in(segment, 0u)];
    var shared_bars = 0.0;
    for (var q = 15u; q < n; q++) {
        shared_bars += arena[word_in(segment, q)];
    }
    arena[to] = s0 + shared_bars;
    var sum = 0.0;
    sum += arena[word_in(segment, n + 0u)];
    arena[to + 1u * step] = s1 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 1u)];
    arena[to + 2u * step] = s2 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 2u)];
    arena[to + 3u * step] = s3 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 3u)];
    arena[to + 4u * step] = s4 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 4u)];
    arena[to + 5u * step] = s5 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 5u)];
    arena[to + 6u * step] = s6 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 6u)];
    arena[to + 7u * step] = s7 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 7u)];
    arena[to + 8u * step] = s8 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 8u)];
    arena[to + 9u * step] = s9 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 9u)];
    arena[to + 10u * step] = s10 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 10u)];
    arena[to + 11u * step] = s11 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 11u)];
    arena[to + 12u * step] = s12 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 12u)];
    arena[to + 13u * step] = s13 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 13u)];
    arena[to + 14u * step] = s14 + (shared_bars + sum);
    sum += arena[word_in(segment, n + 14u)];
    arena[to + 15u * step] = (shared_bars + sum);
}

// Expanding windows: `size` values at the first of `count` bars, `newest`, one more at each next.
fn expanding(column: u32, newest: Bar, size: u32, count: u32, to: u32) {
    var sum = partial_sums(column, earlier(newest, size - 1u), size, 0.0).x;
    var at_out = to;
    arena[at_out] = sum;
    var bar = newest;
    for (var k = 1u; k < count; k++) {
        bar = next(bar);
        sum += load_value(column, bar);
        at_out += stride();
        arena[at_out] = sum;
    }
}

// FIR windows that end at `count` bars, at most eight, from `newest` on, computed together. Weights apply to distances from
// one value: where weights cancel, rounding of large values would remain.
fn fir_tile(job: Job, column: u32, newest: Bar, count: u32, to: u32) {
    let n = job.window;
    let c = load_value(column, newest);
    var bar = earlier(newest, n - 1u);
    var low = vec4<f32>(0.0);
    var high = vec4<f32>(0.0);
    // Weights of this bar in the windows: shifted by one from window to window.
    var w_low = vec4<f32>(0.0);
    var w_high = vec4<f32>(0.0);
    let all = n + count - 1u;
    var j = 0u;
    while (j < all) {
        let here = bars_in_segment(bar, min(PARTIAL_SUM, all - j));
        let stop = j + here;
        var part_low = vec4<f32>(0.0);
        var part_high = vec4<f32>(0.0);
        var at = column + word_of(bar);
        while (j < stop) {
            let x = arena[at] - c;
            w_high = vec4<f32>(w_low.w, w_high.xyz);
            w_low = vec4<f32>(select(0.0, constant(job, min(j, n - 1u)), j < n), w_low.xyz);
            part_low += w_low * x;
            part_high += w_high * x;
            at += stride();
            j += 1u;
        }
        low += part_low;
        high += part_high;
        bar = advance(bar, here);
    }
    let level = c * constant(job, n);
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
    let segment = segment_at(id.x);
    let job = job_at(id.y);
    let column = input(job, 0u);
    let behind = lag(job, 0u);
    let end = min((id.z + 1u) * p.v[2].y, segment.count);
    // Steps before the first value are left untouched.
    var step = max(id.z * p.v[2].y, max(job.start, segment.first) - segment.first);
    if (job.mode == 1u && step < end) {
        let size = segment.first + step - job.inputs_start + 1u;
        if (size < job.window) {
            let count = min(end - step, job.window - size);
            let newest = earlier(Bar(id.x, step), behind);
            expanding(column, newest, size, count, output(job, 0u) + word_of(Bar(id.x, step)));
            step += count;
        }
    }
    let tiled = job.mode < 2u && job.window >= 16u && job.window <= 48u;
    let base = output(job, 0u) + word_of(Bar(id.x, 0u));
    while (step < end) {
        // A separate loop: adapters that execute both sides of a branch would compute blocks for every tile.
        while (tiled && step + 16u <= end) {
            let oldest = earlier(Bar(id.x, step), behind + job.window - 1u);
            if (oldest.step + job.window + 14u >= (2u << p.v[0].y)) {
                break;
            }
            tile16(column, oldest, job.window, base + (step << p.v[0].z));
            step += 16u;
        }
        if (step < end) {
            let count = min(end - step, select(job.window, 8u, job.mode == 3u));
            let newest = earlier(Bar(id.x, step), behind);
            let to = base + (step << p.v[0].z);
            if (job.mode == 3u) {
                fir_tile(job, column, newest, count, to);
            } else if (job.mode == 2u) {
                weighted_block(column, newest, job.window, count, to, 1.0);
            } else {
                plain_block(column, newest, job.window, count, to);
            }
            step += count;
        }
    }
}
