// Recurrences y = A y + B along a series, in three calls that wait for nothing: what each run comes to (call 0), what
// comes before each run (call 1, an invocation per series), the values (call 2). Running extremes go the same way.
//   [3] x: which call
// Modes: 0 y += k (x - y), 1 the same by 1/n, 2 y = a y + b, 3 y += k (a - y) with a k of every bar, 4 running sum,
// 5 running greatest, 6 running least.
// Averages (0, 1, 3) are followed as their distance from the run's first input: it is small where the input is large, and
// exactly 0 where nothing moves. The scratch column (`state`) has four words for each run: A, B, that first input, and
// what comes before the run.
const LOW: f32 = -3.4028235e38;

fn averages(mode: u32) -> bool {
    return mode == 0u || mode == 1u || mode == 3u;
}

fn nothing(mode: u32) -> f32 {
    return select(select(0.0, LOW, mode == 5u), -LOW, mode == 6u);
}

fn scratch(job: Job, which: u32, run: u32) -> u32 {
    return job.state + which * p.v[0].x + run;
}

// A column walked through bar by bar: the word, and how many steps are left in its run.
struct Walk {
    word: u32,
    left: u32,
    run: u32,
}

fn walk(column: u32, bar: Bar) -> Walk {
    return Walk(column + word_of(bar), (1u << p.v[0].y) - 1u - bar.step, bar.run);
}

fn onward(column: u32, w: Walk) -> Walk {
    if (w.left > 0u) {
        return Walk(w.word + (1u << p.v[0].z), w.left - 1u, w.run);
    }
    let after = data[p.v[1].x + w.run * 8u + 4u];
    if (after == NONE) {
        return w;
    }
    return Walk(column + word_of(Bar(after, 0u)), (1u << p.v[0].y) - 1u, after);
}

// `n` bars further, which is in the same run or the first of the next.
fn passed(column: u32, w: Walk, n: u32) -> Walk {
    if (n <= w.left) {
        return Walk(w.word + (n << p.v[0].z), w.left - n, w.run);
    }
    return onward(column, Walk(w.word, 0u, w.run));
}

// The mean of the first values, around the first of them: a mean of large numbers that differ little keeps their
// difference.
fn mean(job: Job, bar: Bar) -> f32 {
    let column = input(job, 0u);
    var at = walk(column, earlier(bar, job.n - 1u + lag(job, 0u)));
    let base = arena[at.word];
    var sum = 0.0;
    for (var i = 1u; i < job.n; i++) {
        at = onward(column, at);
        sum += arena[at.word] - base;
    }
    return base + sum / f32(job.n);
}

// What is known of a run: y = base + a (y before - base) + b.
struct Known {
    a: f32,
    b: f32,
    base: f32,
}

// What is known after another bar.
fn one(mode: u32, x: Known, value: f32, k: f32, keep: f32) -> Known {
    if (mode < 2u) {
        return Known(x.a * keep, x.b + k * ((value - x.base) - x.b), x.base);
    }
    if (mode == 4u) {
        return Known(x.a, x.b + value, x.base);
    }
    return Known(x.a, select(min(x.b, value), max(x.b, value), mode == 5u), x.base);
}

// After four.
fn quad(mode: u32, x: Known, v: vec4<f32>, k: f32, keep: f32, apply: bool, out: u32, stride: u32) -> vec2<f32> {
    var y = vec4<f32>(0.0);
    var a = x.a;
    if (mode < 2u) {
        let d = v - x.base;
        y.x = x.b + k * (d.x - x.b);
        y.y = y.x + k * (d.y - y.x);
        y.z = y.y + k * (d.z - y.y);
        y.w = y.z + k * (d.w - y.z);
        a = a * keep * keep * keep * keep;
    } else if (mode == 4u) {
        y.x = x.b + v.x;
        y.y = y.x + v.y;
        y.z = y.y + v.z;
        y.w = y.z + v.w;
    } else if (mode == 5u) {
        y.x = max(x.b, v.x);
        y.y = max(y.x, v.y);
        y.z = max(y.y, v.z);
        y.w = max(y.z, v.w);
    } else {
        y.x = min(x.b, v.x);
        y.y = min(y.x, v.y);
        y.z = min(y.y, v.z);
        y.w = min(y.z, v.w);
    }
    if (apply) {
        arena[out] = x.base + y.x;
        arena[out + stride] = x.base + y.y;
        arena[out + 2u * stride] = x.base + y.z;
        arena[out + 3u * stride] = x.base + y.w;
    }
    return vec2<f32>(a, y.w);
}

// One input: 0, 1, 4, 5, 6.
fn single(job: Job, r: u32, run: Run, apply: bool, before: f32) -> Known {
    let begin = select(job.start - run.first, 0u, job.start <= run.first);
    var x = Known(1.0, nothing(job.mode), 0.0);
    if (begin >= run.count) {
        return x;
    }
    let here = Bar(r, begin);
    let column = input(job, 0u);
    var at = walk(column, earlier(here, lag(job, 0u)));
    var out = output(job, 0u) + word_of(here);
    let stride = 1u << p.v[0].z;
    var step = begin;
    let k = number(job, 0u);
    let average = job.mode < 2u;
    x.base = select(0.0, arena[at.word], average);
    if (apply) {
        x.b = select(before, before - x.base, average);
    }
    if (job.start >= run.first) {
        x.a = 0.0;
        x.b = arena[at.word];
        if (average) {
            x.b = mean(job, here) - x.base;
        }
        if (apply) {
            arena[out] = x.base + x.b;
        }
        step += 1u;
        out += stride;
        at = onward(column, at);
    }
    let keep = 1.0 - k;
    var left = run.count - step;
    while (left > 0u) {
        // As long as the input stays in its run, four at a time: a loop's own cost is that of a load.
        let here = min(left, at.left + 1u);
        var i = here;
        var from_word = at.word;
        for (; i > 3u; i -= 4u) {
            let two = vec2<f32>(arena[from_word], arena[from_word + stride]);
            let four = vec4<f32>(two, arena[from_word + 2u * stride], arena[from_word + 3u * stride]);
            let known = quad(job.mode, x, four, k, keep, apply, out, stride);
            x.a = known.x;
            x.b = known.y;
            from_word += 4u * stride;
            out += 4u * stride;
        }
        for (; i > 0u; i--) {
            x = one(job.mode, x, arena[from_word], k, keep);
            if (apply) {
                arena[out] = x.base + x.b;
            }
            from_word += stride;
            out += stride;
        }
        left -= here;
        at = passed(column, at, here);
    }
    return x;
}

// Two or three inputs: 2, 3.
fn several(job: Job, r: u32, run: Run, apply: bool, before: f32) -> Known {
    let begin = select(job.start - run.first, 0u, job.start <= run.first);
    var x = Known(1.0, 0.0, 0.0);
    if (begin >= run.count) {
        return x;
    }
    let here = Bar(r, begin);
    let follows = job.mode == 3u;
    let first = input(job, 0u);
    let second = input(job, 1u);
    var a = walk(first, earlier(here, lag(job, 0u)));
    var b = walk(second, earlier(here, lag(job, 1u)));
    var out = output(job, 0u) + word_of(here);
    let stride = 1u << p.v[0].z;
    var step = begin;
    x.base = select(0.0, arena[a.word], follows);
    if (apply) {
        x.b = before - x.base;
    }
    if (job.start >= run.first) {
        x.a = 0.0;
        x.b = arena[b.word];
        if (follows) {
            let from_bar = earlier(here, lag(job, 2u));
            let begins = arena[input(job, 2u) + word_of(from_bar)] - x.base;
            x.b = begins + arena[b.word] * ((arena[a.word] - x.base) - begins);
        }
        if (apply) {
            arena[out] = x.base + x.b;
        }
        step += 1u;
        out += stride;
        a = onward(first, a);
        b = onward(second, b);
    }
    var left = run.count - step;
    while (left > 0u) {
        // As long as both stay in their runs.
        let here = min(left, min(a.left, b.left) + 1u);
        var a_word = a.word;
        var b_word = b.word;
        for (var i = here; i > 0u; i--) {
            let u = arena[a_word];
            let v = arena[b_word];
            if (follows) {
                x.b += v * ((u - x.base) - x.b);
                x.a *= 1.0 - v;
            } else {
                x.b = u * x.b + v;
                x.a *= u;
            }
            if (apply) {
                arena[out] = x.base + x.b;
            }
            a_word += stride;
            b_word += stride;
            out += stride;
        }
        left -= here;
        a = passed(first, a, here);
        b = passed(second, b, here);
    }
    return x;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let job = job_at(id.y);
    if (p.v[3].x == 1u) {
        carry(job, id.x);
        return;
    }
    if (id.x >= p.v[0].x) {
        return;
    }
    let run = run_at(id.x);
    let apply = p.v[3].x == 2u;
    let before = arena[scratch(job, 3u, id.x)];
    var x: Known;
    if (job.mode == 2u || job.mode == 3u) {
        x = several(job, id.x, run, apply, before);
    } else {
        x = single(job, id.x, run, apply, before);
    }
    if (!apply) {
        arena[scratch(job, 0u, id.x)] = x.a;
        arena[scratch(job, 1u, id.x)] = x.b;
        arena[scratch(job, 2u, id.x)] = x.base;
    }
}

// What comes before each run of a series.
fn carry(job: Job, series: u32) {
    if (series >= p.v[0].w) {
        return;
    }
    var run = data[p.v[1].y + series * 4u];
    var y = nothing(job.mode);
    while (run != NONE) {
        arena[scratch(job, 3u, run)] = y;
        let b = arena[scratch(job, 1u, run)];
        if (job.mode == 5u) {
            y = max(y, b);
        } else if (job.mode == 6u) {
            y = min(y, b);
        } else {
            let base = arena[scratch(job, 2u, run)];
            y = base + (arena[scratch(job, 0u, run)] * (y - base) + b);
        }
        run = data[p.v[1].x + run * 8u + 4u];
    }
}
