
// GEMM with register blocking: ROWS×COLUMNS result elements per invocation; loads straight from memory, no barriers.
@compute @workgroup_size(GROUP)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = tile_position(id, groups, TALLu, WIDEu);
    let row = t.row + lane / 8u * ROWSu;
    let column = t.column + lane % 8u * COLUMNSu;
    let m = p.v[0].x;
    let n = p.v[0].y;
    let last = p.v[1].x;
    if (!t.some || row >= m || column >= n) { return; }
    var i = p.v[0].w;
    var at = t.b + i * n + column;
START
    for (; i + 3u < last; i += 4u) {
STEPS
    }
REST
ENDS
}
