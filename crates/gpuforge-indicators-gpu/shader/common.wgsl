// What every kernel of the indicator graph sees. Bars of a series are cut into runs; a run is a row of steps, and the
// same step of neighbouring runs lies side by side, so that neighbouring invocations read neighbouring words:
//   word of (column, run, step) = column + ((run >> LANES) << (STEPS + LANES)) + (step << LANES) + (run & lanes-1)
// Runs are numbered so that the same part of neighbouring series is neighbouring too; the run table knows which run
// comes before and after.
struct Params {
    // [0] x: runs, y: log2 of the steps of a run, z: log2 of the lanes, w: series
    // [1] x: run table, y: series table, z: jobs of this call, w: how many jobs            (places in `data`)
    // [2] x: first step of a slice, y: steps of a slice, z, w: the kernel's own
    // [3] the kernel's own
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> arena: array<f32>;

const NONE: u32 = 0xffffffffu;

// A run: 8 words. The series, its first bar, how many bars, the runs before and after (or NONE), the series' bars.
struct Run {
    series: u32,
    first: u32,
    count: u32,
    before: u32,
    after: u32,
    bars: u32,
}

fn run_at(r: u32) -> Run {
    let at = p.v[1].x + r * 8u;
    return Run(data[at], data[at + 1u], data[at + 2u], data[at + 3u], data[at + 4u], data[at + 5u]);
}

// Where a bar lies: its run and step.
struct Bar {
    run: u32,
    step: u32,
}

fn word_of(bar: Bar) -> u32 {
    let lanes = p.v[0].z;
    return ((bar.run >> lanes) << (p.v[0].y + lanes)) + (bar.step << lanes) + (bar.run & ((1u << lanes) - 1u));
}

// A value of a column (its first word in the arena).
fn value(column: u32, bar: Bar) -> f32 {
    return arena[column + word_of(bar)];
}

fn put(column: u32, bar: Bar, x: f32) {
    arena[column + word_of(bar)] = x;
}

// `n` bars earlier; there must be as many, else the first of the series.
fn earlier(bar: Bar, n: u32) -> Bar {
    let steps = 1u << p.v[0].y;
    var run = bar.run;
    var left = n;
    var step = bar.step;
    while (left > step) {
        let before = data[p.v[1].x + run * 8u + 3u];
        if (before == NONE) {
            return Bar(run, 0u);
        }
        left -= step + 1u;
        step = steps - 1u;
        run = before;
    }
    return Bar(run, step - left);
}

// The next bar; after the last bar of a series its padding.
fn next(bar: Bar) -> Bar {
    if (bar.step + 1u < (1u << p.v[0].y)) {
        return Bar(bar.run, bar.step + 1u);
    }
    let after = data[p.v[1].x + bar.run * 8u + 4u];
    if (after == NONE) {
        return bar;
    }
    return Bar(after, 0u);
}

// A job: 24 words.
struct Job {
    // place of its words in `data`
    at: u32,
    // which of the kernel's functions
    mode: u32,
    // first bar with a value, and first bar at which all inputs have one
    start: u32,
    begin: u32,
    // window
    n: u32,
    // place of its numbers in `data`, and how many
    numbers: u32,
    // first word of its state in the arena: number i of series s is at state + i * series + s
    state: u32,
}

fn job_at(k: u32) -> Job {
    let at = p.v[1].z + k * 24u;
    return Job(at, data[at], data[at + 1u], data[at + 2u], data[at + 3u], data[at + 4u], data[at + 6u]);
}

// Column and lag (bars ago) of input i, column of output i.
fn input(job: Job, i: u32) -> u32 {
    return data[job.at + 8u + i];
}

fn lag(job: Job, i: u32) -> u32 {
    return data[job.at + 12u + i];
}

fn output(job: Job, i: u32) -> u32 {
    return data[job.at + 16u + i];
}

fn number(job: Job, i: u32) -> f32 {
    return bitcast<f32>(data[job.numbers + i]);
}

// Division as the processor does it: a device may assume that nothing is divided by zero.
fn quotient(a: f32, b: f32) -> f32 {
    if (b == 0.0) {
        return bitcast<f32>(select(select(0xff800000u, 0x7f800000u, a > 0.0), 0x7fc00000u, a == 0.0));
    }
    return a / b;
}
