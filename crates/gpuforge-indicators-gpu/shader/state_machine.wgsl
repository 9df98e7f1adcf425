// State machines: sequential indicators, an invocation per series and job, one step per bar, in chunks of bars. The files
// `state_machine_*.wgsl` have the steps; `src/state_machines.rs` maps names to modes and constants.
//   [3] x, y: first bar of this chunk and the first after it, z: offset in `data` of each series' segment at x (or NONE)
// Columns are loaded and stored in one place for all machines: compile time grows with the number of memory accesses. Prices
// enter as differences where possible: exact for integers, and small.

// State of a machine: 32 words, 0 before its first bar.
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

// A job's constants.
struct Constants {
    a: vec4<f32>,
    b: vec4<f32>,
}

// The mode that keeps a value per bar.
const JURIK: u32 = 6u;
// State is saved in the scratch column, in 32 steps that begin STATE_OFFSET bars before the end of a chunk: no series writes
// where another one reads, nor where JURIK keeps its last JURIK_HISTORY bars.
const STATE_OFFSET: u32 = 128u;
const JURIK_HISTORY: u32 = 66u;
// First mode of each family after the filters.
const FIRST_STOP: u32 = 12u;
const FIRST_SUM: u32 = 26u;
const FIRST_HILBERT: u32 = 29u;

// `n` bars later; there must be as many.
fn later(bar: Bar, n: u32) -> Bar {
    var segment = bar.segment;
    var step = bar.step + n;
    while (step >= (1u << p.v[0].y)) {
        step -= 1u << p.v[0].y;
        segment = data[p.v[1].x + segment * 8u + 4u];
    }
    return Bar(segment, step);
}

// Words are rotated through the struct: without dynamic indexing, compilers keep them in registers.
fn load_state(job: Job, end: Bar) -> State {
    var at = job.state + word_of(earlier(end, STATE_OFFSET));
    let stride = 1u << p.v[0].z;
    var s: State;
    for (var i = 0u; i < 8u; i++) {
        let x = vec4<f32>(arena[at], arena[at + stride], arena[at + 2u * stride], arena[at + 3u * stride]);
        s = State(s.b, s.c, s.d, s.e, s.f, s.g, s.h, x);
        at += 4u * stride;
    }
    return s;
}

fn save_state(job: Job, end: Bar, state: State) {
    var at = job.state + word_of(earlier(end, STATE_OFFSET));
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

fn constants_of(job: Job) -> Constants {
    var n: Constants;
    for (var i = 0u; i < 2u; i++) {
        let at = 4u * i;
        n = Constants(n.b, vec4<f32>(constant(job, at), constant(job, at + 1u), constant(job, at + 2u), constant(job, at + 3u)));
    }
    return n;
}

fn sign_of(up: bool) -> f32 {
    return select(-1.0, 1.0, up);
}

// One bar, `age` bars after the machine's first: its outputs. In families, each with its own loop: a device that executes all
// branches executes those of one family only.
fn step_filter(mode: u32, s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
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

fn step_stop(mode: u32, s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
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

fn step_sum(mode: u32, s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    switch (mode) {
        case 26u: { return since(s, n, x, age); }
        case 27u: { return since_before(s, x, age); }
        case 28u: { return so_far(s, x, age); }
        default: { return vec4<f32>(0.0); }
    }
}

fn step_hilbert(mode: u32, s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    switch (mode) {
        case 29u: { return cycle(s, n, x, age); }
        case 30u: { return trend_mode(s, x); }
        default: { return vec4<f32>(0.0); }
    }
}

fn values(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(arena[words.x], arena[words.y], arena[words.z], arena[words.w]);
}

// Stores the outputs of a bar, after the warm-up.
fn store_outputs(outputs: vec4<u32>, count: u32, shown: bool, x: vec4<f32>) {
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
    let segment = data[chunk.z + id.x];
    var bar = max(chunk.x, job.inputs_start);
    let bars = data[p.v[1].y + id.x * 4u + 1u];
    let end = min(chunk.y, bars);
    if (segment == NONE || bar >= end) {
        return;
    }
    var here = later(Bar(segment, 0u), bar - chunk.x);
    var state: State;
    if (job.inputs_start < chunk.x) {
        state = load_state(job, here);
    }
    let constants = constants_of(job);
    var columns = vec4<u32>(input(job, 0u), input(job, 1u), input(job, 2u), input(job, 3u));
    var lags = vec4<u32>(lag(job, 0u), lag(job, 1u), lag(job, 2u), lag(job, 3u));
    let shown = vec4<u32>(output(job, 0u), output(job, 1u), output(job, 2u), output(job, 3u));
    let count = data[job.at + 7u];
    if (job.mode == JURIK) {
        columns.y = job.state;
        lags.y = JURIK_HISTORY;
    }
    let steps = 1u << p.v[0].y;
    let step = vec4<u32>(1u << p.v[0].z);
    while (bar < end) {
        // As many bars as are in one segment, here and at all lagged inputs.
        let x = earlier(here, lags.x);
        let y = earlier(here, lags.y);
        let z = earlier(here, lags.z);
        let w = earlier(here, lags.w);
        var words = columns + vec4<u32>(word_of(x), word_of(y), word_of(z), word_of(w));
        var outputs = shown + vec4<u32>(word_of(here));
        let latest = max(max(max(x.step, y.step), max(z.step, w.step)), here.step);
        var stop = min(end, bar + (steps - latest));
        // Lags before the first bar read clamped words, which are not used.
        stop = min(stop, select(stop, lags.y, bar < lags.y));
        here = later(here, stop - bar);
        while (bar < stop && job.mode < FIRST_STOP) {
            let x = step_filter(job.mode, &state, constants, values(words), bar - job.inputs_start);
            store_outputs(outputs, count, bar >= job.start, x);
            if (job.mode == JURIK) {
                arena[job.state + (outputs.x - shown.x)] = x.y;
            }
            words += step;
            outputs += step;
            bar += 1u;
        }
        while (bar < stop && job.mode < FIRST_SUM) {
            let x = step_stop(job.mode, &state, constants, values(words), bar - job.inputs_start);
            store_outputs(outputs, count, bar >= job.start, x);
            words += step;
            outputs += step;
            bar += 1u;
        }
        while (bar < stop && job.mode < FIRST_HILBERT) {
            let x = step_sum(job.mode, &state, constants, values(words), bar - job.inputs_start);
            store_outputs(outputs, count, bar >= job.start, x);
            words += step;
            outputs += step;
            bar += 1u;
        }
        while (bar < stop) {
            let x = step_hilbert(job.mode, &state, constants, values(words), bar - job.inputs_start);
            store_outputs(outputs, count, bar >= job.start, x);
            words += step;
            outputs += step;
            bar += 1u;
        }
    }
    // Chunks end with a segment unless the series does.
    if (end < bars) {
        save_state(job, here, state);
    }
}
