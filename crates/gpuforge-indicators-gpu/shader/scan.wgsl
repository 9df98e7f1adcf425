// Linear recurrences y = A y + B as a segmented prefix scan in three passes: fold each segment (pass 0), carry across the
// segments of a series (pass 1, an invocation per series), apply (pass 2). Cumulative min and max use the same passes.
//   [3] x: pass
// Modes: 0 EMA y += k (x - y), 1 the same with k = 1/n (Wilder), 2 y = a y + b, 3 y += k (a - y) with k per bar (adaptive EMA),
// 4 cumulative sum, 5 cumulative max, 6 cumulative min.
// Averages (0, 1, 3) are kept as the distance from the segment's first input: small where the input is large, and exactly 0
// where it is constant. The scratch column (`state`) has four words per segment: A, B, that first input, and the carry-in.
const LOW: f32 = -3.4028235e38;

fn is_average(mode: u32) -> bool {
    return mode == 0u || mode == 1u || mode == 3u;
}

fn identity(mode: u32) -> f32 {
    return select(select(0.0, LOW, mode == 5u), -LOW, mode == 6u);
}

fn scratch(job: Job, which: u32, segment: u32) -> u32 {
    return job.state + which * p.v[0].x + segment;
}

// A cursor over a column: the word, and how many steps are left in its segment.
struct Cursor {
    word: u32,
    left: u32,
    segment: u32,
}

fn cursor_at(column: u32, bar: Bar) -> Cursor {
    return Cursor(column + word_of(bar), (1u << p.v[0].y) - 1u - bar.step, bar.segment);
}

fn next_bar(column: u32, w: Cursor) -> Cursor {
    if (w.left > 0u) {
        return Cursor(w.word + (1u << p.v[0].z), w.left - 1u, w.segment);
    }
    let after = data[p.v[1].x + w.segment * 8u + 4u];
    if (after == NONE) {
        return w;
    }
    return Cursor(column + word_of(Bar(after, 0u)), (1u << p.v[0].y) - 1u, after);
}

// `n` bars further, which is in the same segment or the first of the next.
fn advance(column: u32, w: Cursor, n: u32) -> Cursor {
    if (n <= w.left) {
        return Cursor(w.word + (n << p.v[0].z), w.left - n, w.segment);
    }
    return next_bar(column, Cursor(w.word, 0u, w.segment));
}

// The seed: mean of the first values, as the distance from the first of them: no cancellation.
fn mean(job: Job, bar: Bar) -> f32 {
    let column = input(job, 0u);
    var at = cursor_at(column, earlier(bar, job.window - 1u + lag(job, 0u)));
    let base = arena[at.word];
    var sum = 0.0;
    for (var i = 1u; i < job.window; i++) {
        at = next_bar(column, at);
        sum += arena[at.word] - base;
    }
    return base + sum / f32(job.window);
}

// The affine map of a segment: y = base + a (y_in - base) + b.
struct Affine {
    a: f32,
    b: f32,
    base: f32,
}

// Composes the map with one more bar.
fn compose_one(mode: u32, x: Affine, value: f32, k: f32, keep: f32) -> Affine {
    if (mode < 2u) {
        return Affine(x.a * keep, x.b + k * ((value - x.base) - x.b), x.base);
    }
    if (mode == 4u) {
        return Affine(x.a, x.b + value, x.base);
    }
    return Affine(x.a, select(min(x.b, value), max(x.b, value), mode == 5u), x.base);
}

// Composes it with four bars.
fn compose_four(mode: u32, x: Affine, v: vec4<f32>, k: f32, keep: f32, apply: bool, out: u32, stride: u32) -> vec2<f32> {
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

// Modes with one input: 0, 1, 4, 5, 6.
fn scan_one_input(job: Job, r: u32, segment: Segment, apply: bool, before: f32) -> Affine {
    let begin = select(job.start - segment.first, 0u, job.start <= segment.first);
    var x = Affine(1.0, identity(job.mode), 0.0);
    if (begin >= segment.count) {
        return x;
    }
    let here = Bar(r, begin);
    let column = input(job, 0u);
    var at = cursor_at(column, earlier(here, lag(job, 0u)));
    var out = output(job, 0u) + word_of(here);
    let stride = 1u << p.v[0].z;
    var step = begin;
    let k = constant(job, 0u);
    let average = job.mode < 2u;
    x.base = select(0.0, arena[at.word], average);
    if (apply) {
        x.b = select(before, before - x.base, average);
    }
    if (job.start >= segment.first) {
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
        at = next_bar(column, at);
    }
    let keep = 1.0 - k;
    var left = segment.count - step;
    while (left > 0u) {
        // Unrolled by four while the input stays in its segment: loop overhead costs as much as a load.
        let here = min(left, at.left + 1u);
        var i = here;
        var from_word = at.word;
        for (; i > 3u; i -= 4u) {
            let two = vec2<f32>(arena[from_word], arena[from_word + stride]);
            let four = vec4<f32>(two, arena[from_word + 2u * stride], arena[from_word + 3u * stride]);
            let known = compose_four(job.mode, x, four, k, keep, apply, out, stride);
            x.a = known.x;
            x.b = known.y;
            from_word += 4u * stride;
            out += 4u * stride;
        }
        for (; i > 0u; i--) {
            x = compose_one(job.mode, x, arena[from_word], k, keep);
            if (apply) {
                arena[out] = x.base + x.b;
            }
            from_word += stride;
            out += stride;
        }
        left -= here;
        at = advance(column, at, here);
    }
    return x;
}

// Two or three inputs: 2, 3.
fn scan_two_inputs(job: Job, r: u32, segment: Segment, apply: bool, before: f32) -> Affine {
    let begin = select(job.start - segment.first, 0u, job.start <= segment.first);
    var x = Affine(1.0, 0.0, 0.0);
    if (begin >= segment.count) {
        return x;
    }
    let here = Bar(r, begin);
    let follows = job.mode == 3u;
    let first = input(job, 0u);
    let second = input(job, 1u);
    var a = cursor_at(first, earlier(here, lag(job, 0u)));
    var b = cursor_at(second, earlier(here, lag(job, 1u)));
    var out = output(job, 0u) + word_of(here);
    let stride = 1u << p.v[0].z;
    var step = begin;
    x.base = select(0.0, arena[a.word], follows);
    if (apply) {
        x.b = before - x.base;
    }
    if (job.start >= segment.first) {
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
        a = next_bar(first, a);
        b = next_bar(second, b);
    }
    var left = segment.count - step;
    while (left > 0u) {
        // While both inputs stay in their segments.
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
        a = advance(first, a, here);
        b = advance(second, b, here);
    }
    return x;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let job = job_at(id.y);
    if (p.v[3].x == 1u) {
        scan_carries(job, id.x);
        return;
    }
    if (id.x >= p.v[0].x) {
        return;
    }
    let segment = segment_at(id.x);
    let apply = p.v[3].x == 2u;
    let before = arena[scratch(job, 3u, id.x)];
    var x: Affine;
    if (job.mode == 2u || job.mode == 3u) {
        x = scan_two_inputs(job, id.x, segment, apply, before);
    } else {
        x = scan_one_input(job, id.x, segment, apply, before);
    }
    if (!apply) {
        arena[scratch(job, 0u, id.x)] = x.a;
        arena[scratch(job, 1u, id.x)] = x.b;
        arena[scratch(job, 2u, id.x)] = x.base;
    }
}

// Pass 1: the carry-in of each segment of a series.
fn scan_carries(job: Job, series: u32) {
    if (series >= p.v[0].w) {
        return;
    }
    var segment = data[p.v[1].y + series * 4u];
    var y = identity(job.mode);
    while (segment != NONE) {
        arena[scratch(job, 3u, segment)] = y;
        let b = arena[scratch(job, 1u, segment)];
        if (job.mode == 5u) {
            y = max(y, b);
        } else if (job.mode == 6u) {
            y = min(y, b);
        } else {
            let base = arena[scratch(job, 2u, segment)];
            y = base + (arena[scratch(job, 0u, segment)] * (y - base) + b);
        }
        segment = data[p.v[1].x + segment * 8u + 4u];
    }
}
