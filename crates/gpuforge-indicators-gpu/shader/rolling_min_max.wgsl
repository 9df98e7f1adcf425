// Rolling extremes (van Herk/Gil-Werman): 0 max, 1 min, 2 bars since the max, 3 bars since the min (argmax, argmin); of ties the
// most recent. Blocks no longer than a window: the bars common to all windows of a block are scanned once, the older ones as
// suffix extremes (kept in the output), the newer ones as prefix extremes.

// An extreme, and its distance in bars from the block's first newest bar.
struct Extreme {
    // The min is the max of the negated values.
    value: f32,
    ago: u32,
}

// Extreme of `n` bars, the last of them `newest`.
fn window_extreme(column: u32, newest: Bar, n: u32, sign: f32) -> Extreme {
    var bar = earlier(newest, n - 1u);
    var best = Extreme(sign * load_value(column, bar), n - 1u);
    var ago = n;
    while (ago > 0u) {
        let here = bars_in_segment(bar, ago);
        var at = column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = sign * arena[at];
            ago -= 1u;
            let better = x >= best.value;
            best.value = select(best.value, x, better);
            best.ago = select(best.ago, ago, better);
            at += stride();
        }
        bar = first_of_next(bar.segment);
    }
    return best;
}

// Suffix extremes: the bars of a block's windows before their common ones, written to the outputs that end at word `last`,
// as the extreme or as its distance from `newest`. (The last window has none.)
fn suffix_extremes(column: u32, newest: Bar, n: u32, count: u32, last: u32, sign: f32, place: bool) {
    var left = count - 1u;
    if (left == 0u) {
        return;
    }
    var at_out = last;
    var ago = n - left;
    var bar = earlier(newest, ago);
    var best = Extreme(sign * load_value(column, bar), ago);
    while (left > 0u) {
        let here = min(left, bar.step + 1u);
        var at = column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = sign * arena[at];
            let better = x > best.value;
            best.value = select(best.value, x, better);
            best.ago = select(best.ago, ago, better);
            at_out -= stride();
            arena[at_out] = select(best.value, f32(best.ago), place);
            at -= stride();
            ago += 1u;
        }
        left -= here;
        bar = last_of_previous(bar.segment);
    }
}

// Merges a window's suffix extreme with the extreme since, ties to the later; the output `k` bars after `newest`.
fn merge(column: u32, newest: Bar, kept: f32, later: Extreme, sign: f32, k: u32, place: bool) -> f32 {
    if (!place) {
        return sign * max(kept, later.value);
    }
    let ago = u32(kept);
    let older = sign * load_value(column, earlier(newest, ago));
    return f32(select(later.ago, ago, older > later.value) + k);
}

// Windows of `n` that end at `count` bars, at most n, from `newest` on; the outputs begin at word `to`.
fn van_herk_block(column: u32, newest: Bar, n: u32, count: u32, to: u32, sign: f32, place: bool) {
    let last = to + (count - 1u) * stride();
    suffix_extremes(column, newest, n, count, last, sign, place);
    var best = window_extreme(column, newest, n + 1u - count, sign);
    // `ago` wraps below 0 after `newest`: the output is the same modulo 2^32.
    var at_out = to;
    var bar = newest;
    var k = 0u;
    while (k < count) {
        let stop = k + bars_in_segment(bar, count - k);
        var at = column + word_of(bar);
        while (k < stop) {
            let x = sign * arena[at];
            let better = x >= best.value;
            best.value = select(best.value, x, better);
            best.ago = select(best.ago, 0u - k, better);
            if (at_out == last) {
                arena[at_out] = select(sign * best.value, f32(best.ago + k), place);
            } else {
                arena[at_out] = merge(column, newest, arena[at_out], best, sign, k, place);
            }
            at_out += stride();
            at += stride();
            k += 1u;
        }
        bar = first_of_next(bar.segment);
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let segment = segment_at(id.x);
    let job = job_at(id.y);
    let sign = select(1.0, -1.0, (job.mode & 1u) == 1u);
    let end = min((id.z + 1u) * p.v[2].y, segment.count);
    // Steps before the first value are left untouched.
    var step = max(id.z * p.v[2].y, max(job.start, segment.first) - segment.first);
    while (step < end) {
        let count = min(end - step, job.window);
        let newest = earlier(Bar(id.x, step), lag(job, 0u));
        let to = output(job, 0u) + word_of(Bar(id.x, step));
        van_herk_block(input(job, 0u), newest, job.window, count, to, sign, job.mode >= 2u);
        step += count;
    }
}
