// Prefix scan along rows, reduce-then-scan in three passes: tile totals, tile prefixes, elements.
// A monoid (S, combine, identity, first, item, output_bits, masked) is put before this text, one per kind of scan. 64 invocations
// share a tile of 1024 elements: runs of 16, eight runs in a segment, eight segments. STAGED goes through workgroup memory, so
// that loads are coalesced; otherwise each invocation reads its run. A line that begins with @16 is unrolled, with # for the
// number: loops with bounds checks are not unrolled by all compilers.
struct Params {
    // x: rows, y: elements per row, z: tiles per row, w: bits of the start
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> known: array<S>;
@group(0) @binding(3) var<storage, read_write> states: array<S>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

// Padded by one element per run to avoid bank conflicts.
var<workgroup> stage: array<S, STAGE>;
var<workgroup> runs: array<S, 64>;
var<workgroup> segments: array<S, 8>;

struct TilePosition {
    tile: u32,
    lane: u32,
    // first element of the tile, and how many it has
    base: u32,
    count: u32,
}

struct Run {
    @16 x#: S,
}

fn tile_position(id: vec3<u32>, groups: vec3<u32>, lane: u32) -> TilePosition {
    let tile = id.y * groups.x + id.x;
    let row = tile / p.v[0].z;
    let start = (tile - row * p.v[0].z) * 1024u;
    let count = select(0u, min(1024u, p.v[0].y - start), row < p.v[0].x);
    return TilePosition(tile, lane, row * p.v[0].y + start, count);
}

// An element of a tile; identity beyond its end.
fn element(at: TilePosition, i: u32) -> S {
    let there = i < at.count;
    return masked(there, item(select(0u, at.base + i, there)));
}

fn load(at: TilePosition) -> Run {
    var run: Run;
    if (STAGED) {
        @16 stage[#u * 68u + at.lane + at.lane / 16u] = element(at, #u * 64u + at.lane);
        workgroupBarrier();
        @16 run.x# = stage[at.lane * 17u + #u];
    } else {
        @16 run.x# = element(at, at.lane * 16u + #u);
    }
    return run;
}

// Reduces a run.
fn reduce_run(run: Run) -> S {
    var total = identity();
    @16 total = combine(total, run.x#);
    return total;
}

// Exclusive prefix of a run in its tile; afterwards `segments` holds the segment totals.
fn exclusive_prefix(lane: u32, total: S) -> S {
    runs[lane] = total;
    workgroupBarrier();
    if (lane < 8u) {
        var inner = identity();
        var one = inner;
        @8 one = runs[lane * 8u + #u]; runs[lane * 8u + #u] = inner; inner = combine(inner, one);
        segments[lane] = inner;
    }
    workgroupBarrier();
    return combine(segment_prefix(lane / 8u), runs[lane]);
}

// Combined total of the first `n` segments.
fn segment_prefix(n: u32) -> S {
    var all = identity();
    @8 all = combine(all, masked(n > #u, segments[#]));
    return all;
}

fn finish(at: TilePosition, start: S, run: Run) {
    var now = start;
    let first = at.base + at.lane * 16u;
    if (STAGED) {
        @16 now = combine(now, run.x#); stage[at.lane * 17u + #u] = now;
        workgroupBarrier();
        for (var i = at.lane; i < at.count; i += 64u) { out[at.base + i] = output_bits(stage[i + i / 16u]); }
    } else if (at.count == 1024u) {
        @16 now = combine(now, run.x#); out[first + #u] = output_bits(now);
    } else {
        @16 now = combine(now, run.x#); if (at.lane * 16u + #u < at.count) { out[first + #u] = output_bits(now); }
    }
}

@compute @workgroup_size(64)
fn totals(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = tile_position(id, groups, lane);
    _ = exclusive_prefix(lane, reduce_run(load(at)));
    if (lane == 0u && at.tile < p.v[0].x * p.v[0].z) { states[at.tile] = segment_prefix(8u); }
}

// One workgroup per row; tile totals are scanned like elements, 1024 at a time.
@compute @workgroup_size(64)
fn offsets(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = id.y * groups.x + id.x;
    let n = select(0u, p.v[0].z, row < p.v[0].x);
    var carry = first();
    for (var start = 0u; start < n; start += 1024u) {
        workgroupBarrier();
        var total = identity();
        for (var j = start + lane * 16u; j < min(start + lane * 16u + 16u, n); j++) {
            total = combine(total, known[row * n + j]);
        }
        var now = combine(carry, exclusive_prefix(lane, total));
        for (var j = start + lane * 16u; j < min(start + lane * 16u + 16u, n); j++) {
            states[row * n + j] = now;
            now = combine(now, known[row * n + j]);
        }
        carry = combine(carry, segment_prefix(8u));
    }
}

@compute @workgroup_size(64)
fn elements(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = tile_position(id, groups, lane);
    let run = load(at);
    let here = exclusive_prefix(lane, reduce_run(run));
    finish(at, combine(known[min(at.tile, p.v[0].x * p.v[0].z - 1u)], here), run);
}

// Rows of one tile need no prefix.
@compute @workgroup_size(64)
fn short_rows(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = tile_position(id, groups, lane);
    let run = load(at);
    finish(at, combine(first(), exclusive_prefix(lane, reduce_run(run))), run);
}

// Rows of one segment: one invocation each, in the same order.
@compute @workgroup_size(64)
fn tiny_rows(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = (id.y * groups.x + id.x) * 64u + lane;
    if (row >= p.v[0].x) { return; }
    var all = identity();
    var run = identity();
    var now = combine(first(), all);
    for (var i = 0u; i < p.v[0].y; i++) {
        if (i > 0u && i % 16u == 0u) {
            all = combine(all, run);
            run = identity();
            now = combine(first(), combine(identity(), all));
        }
        let x = item(row * p.v[0].y + i);
        now = combine(now, x);
        run = combine(run, x);
        out[row * p.v[0].y + i] = output_bits(now);
    }
}
