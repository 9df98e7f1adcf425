
// GEMM with register blocking and subgroup sharing: ROWS×COLUMNS result elements per invocation. The four invocations of a quad
// are adjacent and need the same rows of A: each loads every fourth of them and broadcasts it.
var<workgroup> taken: atomic<u32>;

@compute @workgroup_size(GROUP)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) within: u32,
) {
    let t = tile_position(id, groups, TALLu, WIDEu);
    // Uniform over the workgroup.
    if (!t.some) { return; }
    // Which invocations form a subgroup, and how many, is up to the device. So subgroups claim positions in the tile as they come;
    // each result element is the same whichever invocation computes it.
    let before = subgroupExclusiveAdd(1u);
    let together = subgroupAdd(1u);
    var first = 0u;
    if (before == 0u) { first = atomicAdd(&taken, together); }
    let lane = subgroupBroadcastFirst(first) + before;
    let mine = within % 4u;
    let row = t.row + lane / 8u * ROWSu;
    let column = t.column + lane % 8u * COLUMNSu;
    let m = p.v[0].x;
    let n = p.v[0].y;
    let last = p.v[1].x;
    // A subgroup leaves as a whole or not at all: the quad broadcast needs all of its invocations.
    if (subgroupAll(row >= m || column >= n)) { return; }
    var i = p.v[0].w;
    var at = t.b + i * n + min(column, n - 1u);
START
    for (; i + 3u < last; i += 4u) {
STEPS
    }
REST
ENDS
}
