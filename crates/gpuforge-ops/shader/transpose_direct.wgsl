
// Naive transpose: one word per invocation, coalesced writes.
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = tile_position(id, groups, 16u, 4u);
    let row = t.y + lane % 16u;
    let column = t.z + lane / 16u;
    if (row >= p.v[0].x || column >= p.v[0].y) { return; }
    out[t.x + column * p.v[0].x + row] = data[t.x + row * p.v[0].y + column];
}
