// Hilbert phase and trend line as rolling windows of one dominant cycle, at most 50 bars: 0 the phase in degrees from -45 to
// 315, 1 the trend line. (State machines on the CPU.) Values before the first bar are 0.

// A period rounded to bars.
fn bars_of(period: f32) -> u32 {
    return u32(clamp(period + 0.5, 0.0, 50.0));
}

fn previous_bar(bar: Bar) -> Bar {
    if (bar.step > 0u) {
        return Bar(bar.segment, bar.step - 1u);
    }
    return Bar(data[p.v[1].x + bar.segment * 8u + 3u], (1u << p.v[0].y) - 1u);
}

// DFT bin of one cycle of the smoothed price, as distances from the newest price: sine and cosine sum to 0 over a cycle.
// Constants: for every length n up to 50, sine and cosine of the steps 1 to n - 1.
fn phase_at(job: Job, bar: Bar, count: u32) -> f32 {
    let period = load_value(input(job, 1u), earlier(bar, lag(job, 1u)));
    let n = bars_of(period);
    var at = earlier(bar, lag(job, 0u));
    let newest = round_to_tenths(load_value(input(job, 0u), at));
    var real = 0.0;
    var imag = select(0.0, newest, n == 1u);
    // Unsigned: below n = 2 there are no steps.
    var word = job.constants + (n - 1u) * (n - 2u);
    for (var i = 1u; i < n; i++) {
        var x = 0.0;
        if (i < count) {
            at = previous_bar(at);
            x = round_to_tenths(load_value(input(job, 0u), at));
        }
        real += bitcast<f32>(data[word]) * (x - newest);
        imag += bitcast<f32>(data[word + 1u]) * (x - newest);
        word += 2u;
    }
    // Without a cosine there is no arc, and what the phase was cannot be told here: a price that stands still has none.
    var phase = select(0.0, sign(real) * 90.0, imag == 0.0);
    if (imag != 0.0) {
        phase = atan2_ratio(real, imag) * DEGREES;
    }
    // The smoother is one bar late.
    phase += 90.0 + 360.0 / max(period, 1e-3) + select(0.0, 180.0, imag < 0.0);
    return select(phase, phase - 360.0, phase > 315.0);
}

// Mean price of one cycle, around the newest; 0 without a cycle.
fn mean_at(job: Job, bar: Bar, count: u32) -> f32 {
    let n = bars_of(load_value(input(job, 1u), earlier(bar, lag(job, 1u))));
    if (n == 0u) {
        return 0.0;
    }
    var at = earlier(bar, lag(job, 0u));
    let newest = load_value(input(job, 0u), at);
    var sum = 0.0;
    for (var i = 1u; i < n; i++) {
        var x = 0.0;
        if (i < count) {
            at = previous_bar(at);
            x = load_value(input(job, 0u), at);
        }
        sum += x - newest;
    }
    return newest + sum / f32(n);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].x) {
        return;
    }
    let segment = segment_at(id.x);
    let job = job_at(id.y);
    let end = min((id.z + 1u) * p.v[2].y, segment.count);
    let begin = max(id.z * p.v[2].y, max(job.start, segment.first) - segment.first);
    if (begin >= end) {
        return;
    }
    // Bars since the inputs started, including the one at `begin`.
    let known = segment.first + begin - job.inputs_start + 1u;
    let out = output(job, 0u);
    if (job.mode == 0u) {
        for (var step = begin; step < end; step++) {
            let bar = Bar(id.x, step);
            store_value(out, bar, phase_at(job, bar, known + (step - begin)));
        }
        return;
    }
    // Means of the three bars before, the newest first.
    var means = vec3<f32>(0.0);
    for (var i = 3u; i > 0u; i--) {
        var mean = 0.0;
        if (known > i) {
            mean = mean_at(job, earlier(Bar(id.x, begin), i), known - i);
        }
        means = vec3<f32>(mean, means.xy);
    }
    for (var step = begin; step < end; step++) {
        let bar = Bar(id.x, step);
        let mean = mean_at(job, bar, known + (step - begin));
        store_value(out, bar, (4.0 * mean + dot(vec3<f32>(3.0, 2.0, 1.0), means)) / 10.0);
        means = vec3<f32>(mean, means.xy);
    }
}
