
// Tiled transpose: 32×32 tiles in workgroup memory, four words per invocation; a pitch of 33 avoids bank conflicts.
var<workgroup> tile: array<u32, 1056>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = tile_position(id, groups, 32u, 32u);
    let x = lane % 32u;
    let y = lane / 32u;
    let rows = p.v[0].x;
    let columns = p.v[0].y;
    for (var i = y; i < 32u; i += 8u) {
        if (t.y + i < rows && t.z + x < columns) {
            tile[i * 33u + x] = data[t.x + (t.y + i) * columns + t.z + x];
        }
    }
    workgroupBarrier();
    for (var i = y; i < 32u; i += 8u) {
        if (t.y + x < rows && t.z + i < columns) {
            out[t.x + (t.z + i) * rows + t.y + x] = tile[x * 33u + i];
        }
    }
}
