// State machines: an invocation per series and job takes one step a bar, in chunks of time. The texts `machine_*.wgsl` have
// the steps; `src/machines.rs` says which mode each has, and what its numbers are.
//   [3] x, y: first bar of this chunk and the first after it, z: place in `data` of each series' run at x (or NONE)
// Columns are read and written at one place for all machines: what compilers take long for is access to memory, and there are
// more machines than patience. Prices enter as differences wherever that is possible: these are exact for integers, and small.

// What a machine remembers: 32 words, 0 before its first bar.
struct State {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
    e: vec4<f32>,
    f: vec4<f32>,
    g: vec4<f32>,
    h: vec4<f32>,
}

// A job's numbers.
struct Numbers {
    a: vec4<f32>,
    b: vec4<f32>,
}

// The mode that remembers a number of each of its last bars.
const JURIK: u32 = 6u;
// State lies in the scratch column, at 32 steps of a run that begin so many bars before the end of a chunk: no series writes
// where another one reads, nor what JURIK remembers of the last LONG bars.
const HOME: u32 = 128u;
const LONG: u32 = 66u;
// The first modes of each kind but the filters.
const FIRST_STOP: u32 = 12u;
const FIRST_SUM: u32 = 26u;
const FIRST_HILBERT: u32 = 29u;

// `n` bars later; there must be as many.
fn later(bar: Bar, n: u32) -> Bar {
    var run = bar.run;
    var step = bar.step + n;
    while (step >= (1u << p.v[0].y)) {
        step -= 1u << p.v[0].y;
        run = data[p.v[1].x + run * 8u + 4u];
    }
    return Bar(run, step);
}

// Words are read one by one and handed on: compilers keep them in registers, as none has a number that varies.
fn recalled(job: Job, end: Bar) -> State {
    var at = job.state + word_of(earlier(end, HOME));
    let stride = 1u << p.v[0].z;
    var s: State;
    for (var i = 0u; i < 8u; i++) {
        let x = vec4<f32>(arena[at], arena[at + stride], arena[at + 2u * stride], arena[at + 3u * stride]);
        s = State(s.b, s.c, s.d, s.e, s.f, s.g, s.h, x);
        at += 4u * stride;
    }
    return s;
}

fn keep(job: Job, end: Bar, state: State) {
    var at = job.state + word_of(earlier(end, HOME));
    let stride = 1u << p.v[0].z;
    var s = state;
    for (var i = 0u; i < 8u; i++) {
        arena[at] = s.a.x;
        arena[at + stride] = s.a.y;
        arena[at + 2u * stride] = s.a.z;
        arena[at + 3u * stride] = s.a.w;
        s = State(s.b, s.c, s.d, s.e, s.f, s.g, s.h, s.a);
        at += 4u * stride;
    }
}

fn numbers_of(job: Job) -> Numbers {
    var n: Numbers;
    for (var i = 0u; i < 2u; i++) {
        let at = 4u * i;
        n = Numbers(n.b, vec4<f32>(number(job, at), number(job, at + 1u), number(job, at + 2u), number(job, at + 3u)));
    }
    return n;
}

fn sign_of(up: bool) -> f32 {
    return select(-1.0, 1.0, up);
}

// One bar, `age` bars after the machine's first: its outputs. In kinds, each with a loop of its own: a device that runs all
// branches runs those of one kind only.
fn follow(mode: u32, s: ptr<function, State>, n: Numbers, x: vec4<f32>, age: u32) -> vec4<f32> {
    switch (mode) {
        case 0u: { return linear(s, n, x, age); }
        case 1u: { return mcginley(s, n, x, age); }
        case 2u: { return holt_winters(s, n, x, age); }
        case 3u: { return laguerre_mean(s, n, x, age); }
        case 4u: { return laguerre(s, n, x, age); }
        case 5u: { return kalman(s, n, x, age); }
        case 6u: { return jurik(s, n, x, age); }
        case 7u: { return mama(s, n, x); }
        case 8u: { return even_better(s, n, x, age); }
        case 9u: { return rsx(s, n, x); }
        case 10u: { return decay(s, n, x, age); }
        case 11u: { return clamped(s, x); }
        default: { return vec4<f32>(0.0); }
    }
}

fn level(mode: u32, s: ptr<function, State>, n: Numbers, x: vec4<f32>, age: u32) -> vec4<f32> {
    switch (mode) {
        case 12u: { return parabolic(s, n, x, age); }
        case 13u: { return ratchet(s, x, age); }
        case 14u: { return profit_max(s, x, age); }
        case 15u: { return zigzag(s, n, x, age); }
        case 16u: { return session(s, x, age); }
        case 17u: { return qqe(s, x, age); }
        case 18u: { return hold(s, x); }
        case 19u: { return settled(s, x, age); }
        case 20u: { return streak(s, x); }
        case 21u: { return yes_run(s, n, x); }
        case 22u: { return record(s, x, age); }
        case 23u: { return hikkake(s, x); }
        case 24u: { return climb(n, x); }
        case 25u: { return angle(s, n, x, age); }
        default: { return vec4<f32>(0.0); }
    }
}

fn sum(mode: u32, s: ptr<function, State>, n: Numbers, x: vec4<f32>, age: u32) -> vec4<f32> {
    switch (mode) {
        case 26u: { return since(s, n, x, age); }
        case 27u: { return since_before(s, x, age); }
        case 28u: { return so_far(s, x, age); }
        default: { return vec4<f32>(0.0); }
    }
}

fn hilbert(mode: u32, s: ptr<function, State>, n: Numbers, x: vec4<f32>, age: u32) -> vec4<f32> {
    switch (mode) {
        case 29u: { return cycle(s, n, x, age); }
        case 30u: { return trend_mode(s, x); }
        default: { return vec4<f32>(0.0); }
    }
}

fn values(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(arena[words.x], arena[words.y], arena[words.z], arena[words.w]);
}

// Writes the outputs of a bar, if that is shown.
fn give(outputs: vec4<u32>, count: u32, shown: bool, x: vec4<f32>) {
    if (shown) {
        arena[outputs.x] = x.x;
    }
    if (shown && count > 1u) {
        arena[outputs.y] = x.y;
    }
    if (shown && count > 2u) {
        arena[outputs.z] = x.z;
    }
    if (shown && count > 3u) {
        arena[outputs.w] = x.w;
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.v[0].w) {
        return;
    }
    let job = job_at(id.y);
    let chunk = p.v[3];
    let run = data[chunk.z + id.x];
    var bar = max(chunk.x, job.begin);
    let bars = data[p.v[1].y + id.x * 4u + 1u];
    let end = min(chunk.y, bars);
    if (run == NONE || bar >= end) {
        return;
    }
    var here = later(Bar(run, 0u), bar - chunk.x);
    var state: State;
    if (job.begin < chunk.x) {
        state = recalled(job, here);
    }
    let numbers = numbers_of(job);
    var columns = vec4<u32>(input(job, 0u), input(job, 1u), input(job, 2u), input(job, 3u));
    var lags = vec4<u32>(lag(job, 0u), lag(job, 1u), lag(job, 2u), lag(job, 3u));
    let shown = vec4<u32>(output(job, 0u), output(job, 1u), output(job, 2u), output(job, 3u));
    let count = data[job.at + 7u];
    if (job.mode == JURIK) {
        columns.y = job.state;
        lags.y = LONG;
    }
    let steps = 1u << p.v[0].y;
    let step = vec4<u32>(1u << p.v[0].z);
    while (bar < end) {
        // As many bars as lie in one run, here and where inputs are read.
        let x = earlier(here, lags.x);
        let y = earlier(here, lags.y);
        let z = earlier(here, lags.z);
        let w = earlier(here, lags.w);
        var words = columns + vec4<u32>(word_of(x), word_of(y), word_of(z), word_of(w));
        var outputs = shown + vec4<u32>(word_of(here));
        let latest = max(max(max(x.step, y.step), max(z.step, w.step)), here.step);
        var stop = min(end, bar + (steps - latest));
        // What lies before the first bar is read from there on, and not looked at.
        stop = min(stop, select(stop, lags.y, bar < lags.y));
        here = later(here, stop - bar);
        while (bar < stop && job.mode < FIRST_STOP) {
            let x = follow(job.mode, &state, numbers, values(words), bar - job.begin);
            give(outputs, count, bar >= job.start, x);
            if (job.mode == JURIK) {
                arena[job.state + (outputs.x - shown.x)] = x.y;
            }
            words += step;
            outputs += step;
            bar += 1u;
        }
        while (bar < stop && job.mode < FIRST_SUM) {
            let x = level(job.mode, &state, numbers, values(words), bar - job.begin);
            give(outputs, count, bar >= job.start, x);
            words += step;
            outputs += step;
            bar += 1u;
        }
        while (bar < stop && job.mode < FIRST_HILBERT) {
            let x = sum(job.mode, &state, numbers, values(words), bar - job.begin);
            give(outputs, count, bar >= job.start, x);
            words += step;
            outputs += step;
            bar += 1u;
        }
        while (bar < stop) {
            let x = hilbert(job.mode, &state, numbers, values(words), bar - job.begin);
            give(outputs, count, bar >= job.start, x);
            words += step;
            outputs += step;
            bar += 1u;
        }
    }
    // Chunks end with a run unless the series does.
    if (end < bars) {
        keep(job, here, state);
    }
}
