// Running results along rows, in three passes: totals of tiles, what comes before each tile, the elements.
// A state (S, follow, nothing, first, item, shown, only) is put before this text, one per kind of scan. 64 invocations
// share a tile of 1024 elements: runs of 16, eight runs in a stretch, eight stretches. STAGED goes through group memory,
// so that neighbours read neighbouring words; otherwise each invocation reads its run. A line that begins with @16 is
// repeated, with # for the number: loops with bounds checks are not unrolled by all compilers, which costs a factor of
// two to three on a software adapter.
struct Params {
    // x: rows, y: elements of a row, z: tiles of a row, w: bits of the start
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> known: array<S>;
@group(0) @binding(3) var<storage, read_write> states: array<S>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

// One element is left out after each run: neighbours then use different banks.
var<workgroup> stage: array<S, STAGE>;
var<workgroup> runs: array<S, 64>;
var<workgroup> stretches: array<S, 8>;

struct Place {
    tile: u32,
    lane: u32,
    // first element of the tile, and how many it has
    base: u32,
    count: u32,
}

struct Run {
    @16 x#: S,
}

fn place(id: vec3<u32>, groups: vec3<u32>, lane: u32) -> Place {
    let tile = id.y * groups.x + id.x;
    let row = tile / p.v[0].z;
    let start = (tile - row * p.v[0].z) * 1024u;
    let count = select(0u, min(1024u, p.v[0].y - start), row < p.v[0].x);
    return Place(tile, lane, row * p.v[0].y + start, count);
}

// An element of a tile; nothing beyond its end.
fn element(at: Place, i: u32) -> S {
    let there = i < at.count;
    return only(there, item(select(0u, at.base + i, there)));
}

fn load(at: Place) -> Run {
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

// What a run comes to.
fn together(run: Run) -> S {
    var total = nothing();
    @16 total = follow(total, run.x#);
    return total;
}

// What comes before a run in its tile; afterwards `stretches` holds what each stretch comes to.
fn before(lane: u32, total: S) -> S {
    runs[lane] = total;
    workgroupBarrier();
    if (lane < 8u) {
        var inner = nothing();
        var one = inner;
        @8 one = runs[lane * 8u + #u]; runs[lane * 8u + #u] = inner; inner = follow(inner, one);
        stretches[lane] = inner;
    }
    workgroupBarrier();
    return follow(stretch(lane / 8u), runs[lane]);
}

// What the first `n` stretches come to.
fn stretch(n: u32) -> S {
    var all = nothing();
    @8 all = follow(all, only(n > #u, stretches[#]));
    return all;
}

fn finish(at: Place, start: S, run: Run) {
    var now = start;
    let first = at.base + at.lane * 16u;
    if (STAGED) {
        @16 now = follow(now, run.x#); stage[at.lane * 17u + #u] = now;
        workgroupBarrier();
        for (var i = at.lane; i < at.count; i += 64u) { out[at.base + i] = shown(stage[i + i / 16u]); }
    } else if (at.count == 1024u) {
        @16 now = follow(now, run.x#); out[first + #u] = shown(now);
    } else {
        @16 now = follow(now, run.x#); if (at.lane * 16u + #u < at.count) { out[first + #u] = shown(now); }
    }
}

@compute @workgroup_size(64)
fn totals(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = place(id, groups, lane);
    _ = before(lane, together(load(at)));
    if (lane == 0u && at.tile < p.v[0].x * p.v[0].z) { states[at.tile] = stretch(8u); }
}

// One group per row; tiles are treated as elements are, 1024 at a time.
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
        var total = nothing();
        for (var j = start + lane * 16u; j < min(start + lane * 16u + 16u, n); j++) {
            total = follow(total, known[row * n + j]);
        }
        var now = follow(carry, before(lane, total));
        for (var j = start + lane * 16u; j < min(start + lane * 16u + 16u, n); j++) {
            states[row * n + j] = now;
            now = follow(now, known[row * n + j]);
        }
        carry = follow(carry, stretch(8u));
    }
}

@compute @workgroup_size(64)
fn elements(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = place(id, groups, lane);
    let run = load(at);
    let here = before(lane, together(run));
    finish(at, follow(known[min(at.tile, p.v[0].x * p.v[0].z - 1u)], here), run);
}

// Rows of one tile need nothing from before.
@compute @workgroup_size(64)
fn short_rows(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = place(id, groups, lane);
    let run = load(at);
    finish(at, follow(first(), before(lane, together(run))), run);
}

// Rows of one stretch: an invocation each, in the same order.
@compute @workgroup_size(64)
fn tiny_rows(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = (id.y * groups.x + id.x) * 64u + lane;
    if (row >= p.v[0].x) { return; }
    var all = nothing();
    var run = nothing();
    var now = follow(first(), all);
    for (var i = 0u; i < p.v[0].y; i++) {
        if (i > 0u && i % 16u == 0u) {
            all = follow(all, run);
            run = nothing();
            now = follow(first(), follow(nothing(), all));
        }
        let x = item(row * p.v[0].y + i);
        now = follow(now, x);
        run = follow(run, x);
        out[row * p.v[0].y + i] = shown(now);
    }
}
