
// ROWS×COLUMNS numbers of the result per invocation, in registers. The four invocations of a quad lie side by side and need
// the same rows of A: each loads every fourth of them and hands it to the others.
var<workgroup> taken: atomic<u32>;

@compute @workgroup_size(GROUP)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) within: u32,
) {
    let t = place(id, groups, TALLu, WIDEu);
    // The same for the whole group.
    if (!t.some) { return; }
    // Which invocations form a subgroup, and how many, is the device's choice. So subgroups take places in the tile as they
    // come; each number of the result is the same whoever computes it.
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
    // A subgroup leaves as a whole or not at all: whoever stays takes part in what is shared.
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
