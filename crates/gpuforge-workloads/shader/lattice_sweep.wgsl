// Fast sweeping: distances along all lines of one axis, forwards then backwards, each cell at most one more than its neighbour.
// One invocation owns a line (or a segment of it); the only shared word says "not converged".
struct Params {
    // x: lines, y: stride of the axis, z: its size, w: start of the segment; then x: end of the segment, y: record changes
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> field: array<u32>;
@group(0) @binding(2) var<storage, read_write> unfinished: array<atomic<u32>>;

const BLOCKED = 0xfffffffeu;

// Upper bound for a neighbour; none for blocked and unreached cells.
fn beside(distance: u32) -> u32 {
    return select(distance + 1u, 0xffffffffu, distance >= BLOCKED);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let line = (id.y * groups.x + id.x) * 64u + lane;
    if (line >= p.v[0].x) { return; }
    let stride = p.v[0].y;
    let block = line / stride;
    let begin = block * stride * p.v[0].z + (line - block * stride);
    let start = p.v[0].w;
    let end = p.v[1].x;
    var changed = false;
    var most = 0xffffffffu;
    if (start > 0u) { most = beside(field[begin + (start - 1u) * stride]); }
    for (var i = start; i < end; i += 1u) {
        let at = begin + i * stride;
        var here = field[at];
        if (here != BLOCKED && most < here) {
            here = most;
            field[at] = here;
            changed = true;
        }
        most = beside(here);
    }
    most = 0xffffffffu;
    if (end < p.v[0].z) { most = beside(field[begin + end * stride]); }
    for (var i = end; i > start; i -= 1u) {
        let at = begin + (i - 1u) * stride;
        var here = field[at];
        if (here != BLOCKED && most < here) {
            here = most;
            field[at] = here;
            changed = true;
        }
        most = beside(here);
    }
    if (changed && p.v[1].y == 1u) { atomicStore(&unfinished[0], 1u); }
}
