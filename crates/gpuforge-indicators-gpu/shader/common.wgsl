// Shared declarations of the indicator kernels: parameters, interleaved memory layout, jobs.
// Series are cut into segments of consecutive bars; the same bar of neighbouring segments is contiguous, so that neighbouring
// invocations read neighbouring words (coalesced access):
//   word of (column, segment, step) = column + ((segment >> L) << (S + L)) + (step << L) + (segment & (1 << L) - 1)
//   with L = log2 of the interleaved segments, S = log2 of the bars of a segment
// Segments are numbered by time first, so that the same part of neighbouring series is neighbouring too; the segment table
// links each segment to the previous and the next one of its series.
struct Params {
    // [0] x: segments, y: log2 of the bars of a segment, z: log2 of the interleaved segments, w: series
    // [1] offsets in `data`: x: segment table, y: series table, z: job table; w: number of jobs
    // [2] x: first step of a slice, y: steps of a slice, z, w: kernel-specific
    // [3] kernel-specific
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> arena: array<f32>;

const NONE: u32 = 0xffffffffu;

// A segment: 8 words. Its series, first bar, number of bars, previous and next segment (or NONE), bars of the series.
struct Segment {
    series: u32,
    first: u32,
    count: u32,
    before: u32,
    after: u32,
    bars: u32,
}

fn segment_at(r: u32) -> Segment {
    let at = p.v[1].x + r * 8u;
    return Segment(data[at], data[at + 1u], data[at + 2u], data[at + 3u], data[at + 4u], data[at + 5u]);
}

// Position of a bar: its segment, and its index (step) within it.
struct Bar {
    segment: u32,
    step: u32,
}

fn word_of(bar: Bar) -> u32 {
    let lanes = p.v[0].z;
    return ((bar.segment >> lanes) << (p.v[0].y + lanes)) + (bar.step << lanes) + (bar.segment & ((1u << lanes) - 1u));
}

// A value of a column (given by its first word in the arena).
fn load_value(column: u32, bar: Bar) -> f32 {
    return arena[column + word_of(bar)];
}

fn store_value(column: u32, bar: Bar, x: f32) {
    arena[column + word_of(bar)] = x;
}

// The bar `n` bars earlier, clamped to the first of the series.
fn earlier(bar: Bar, n: u32) -> Bar {
    let steps = 1u << p.v[0].y;
    var segment = bar.segment;
    var left = n;
    var step = bar.step;
    while (left > step) {
        let before = data[p.v[1].x + segment * 8u + 3u];
        if (before == NONE) {
            return Bar(segment, 0u);
        }
        left -= step + 1u;
        step = steps - 1u;
        segment = before;
    }
    return Bar(segment, step - left);
}

// The next bar; past the last bar of a series, its padding.
fn next(bar: Bar) -> Bar {
    if (bar.step + 1u < (1u << p.v[0].y)) {
        return Bar(bar.segment, bar.step + 1u);
    }
    let after = data[p.v[1].x + bar.segment * 8u + 4u];
    if (after == NONE) {
        return bar;
    }
    return Bar(after, 0u);
}

// A job: 24 words.
struct Job {
    // offset of its words in `data`
    at: u32,
    // function of the kernel
    mode: u32,
    // first bar with a value, and first bar at which all inputs have one
    start: u32,
    inputs_start: u32,
    // window length
    window: u32,
    // offset of its constants in `data`
    constants: u32,
    // first word of its scratch column in the arena
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

fn constant(job: Job, i: u32) -> f32 {
    return bitcast<f32>(data[job.constants + i]);
}

// IEEE division: WGSL leaves division by zero undefined.
fn divide_ieee(a: f32, b: f32) -> f32 {
    if (b == 0.0) {
        return bitcast<f32>(select(select(0xff800000u, 0x7f800000u, a > 0.0), 0x7fc00000u, a == 0.0));
    }
    return a / b;
}
