// Extremes of windows: 0 greatest, 1 least, 2 bars since the greatest, 3 bars since the least, of equals the most recent.
// Windows are taken in blocks no longer than they are (van Herk, Gil and Werman): what all windows of a block share is looked
// through once, what lies before that backwards (kept in the output until its turn), what lies after it forwards.

// An extreme, and how many bars before the first newest bar of its block it is.
struct Best {
    // The least is looked for as the greatest of what has the other sign.
    value: f32,
    ago: u32,
}

// Extreme of `n` bars, the last of them `newest`.
fn best_of(column: u32, newest: Bar, n: u32, sign: f32) -> Best {
    var bar = earlier(newest, n - 1u);
    var best = Best(sign * value(column, bar), n - 1u);
    var ago = n;
    while (ago > 0u) {
        let here = within(bar, ago);
        var at = column + word_of(bar);
        for (var i = 0u; i < here; i++) {
            let x = sign * arena[at];
            ago -= 1u;
            let better = x >= best.value;
            best.value = select(best.value, x, better);
            best.ago = select(best.ago, ago, better);
            at += stride();
        }
        bar = after(bar.run);
    }
    return best;
}

// What the windows of a block have before their common bars, from the shortest on: to the outputs that end at word `last`,
// the extreme or how many bars before `newest` it is. (The output of the last has nothing before.)
fn backward(column: u32, newest: Bar, n: u32, count: u32, last: u32, sign: f32, place: bool) {
    var left = count - 1u;
    if (left == 0u) {
        return;
    }
    var at_out = last;
    var ago = n - left;
    var bar = earlier(newest, ago);
    var best = Best(sign * value(column, bar), ago);
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
        bar = before(bar.run);
    }
}

// Of what was kept for a window and what came since, the better, of equals the later: as it is shown `k` bars after `newest`.
fn joined(column: u32, newest: Bar, kept: f32, later: Best, sign: f32, k: u32, place: bool) -> f32 {
    if (!place) {
        return sign * max(kept, later.value);
    }
    let ago = u32(kept);
    let older = sign * value(column, earlier(newest, ago));
    return f32(select(later.ago, ago, older > later.value) + k);
}

// Windows of `n` that end at `count` bars, at most n, from `newest` on; the outputs begin at word `to`.
fn block(column: u32, newest: Bar, n: u32, count: u32, to: u32, sign: f32, place: bool) {
    let last = to + (count - 1u) * stride();
    backward(column, newest, n, count, last, sign, place);
    var best = best_of(column, newest, n + 1u - count, sign);
    // `ago` counts on below 0 after `newest`: what is shown is the same modulo 2^32.
    var at_out = to;
    var bar = newest;
    var k = 0u;
    while (k < count) {
        let stop = k + within(bar, count - k);
        var at = column + word_of(bar);
        while (k < stop) {
            let x = sign * arena[at];
            let better = x >= best.value;
            best.value = select(best.value, x, better);
            best.ago = select(best.ago, 0u - k, better);
            if (at_out == last) {
                arena[at_out] = select(sign * best.value, f32(best.ago + k), place);
            } else {
                arena[at_out] = joined(column, newest, arena[at_out], best, sign, k, place);
            }
            at_out += stride();
            at += stride();
            k += 1u;
        }
        bar = after(bar.run);
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let run = run_at(id.x);
    let job = job_at(id.y);
    let sign = select(1.0, -1.0, (job.mode & 1u) == 1u);
    let end = min((id.z + 1u) * p.v[2].y, run.count);
    // Steps before the first value stay as they are.
    var step = max(id.z * p.v[2].y, max(job.start, run.first) - run.first);
    while (step < end) {
        let count = min(end - step, job.n);
        let newest = earlier(Bar(id.x, step), lag(job, 0u));
        let to = output(job, 0u) + word_of(Bar(id.x, step));
        block(input(job, 0u), newest, job.n, count, to, sign, job.mode >= 2u);
        step += count;
    }
}
