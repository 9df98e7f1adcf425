
// Transpose of 4×4 register blocks; rows and columns are multiples of four.
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = tile_position(id, groups, 32u, 32u);
    let row = t.y + lane / 8u * 4u;
    let column = t.z + lane % 8u * 4u;
    let rows = p.v[0].x;
    let columns = p.v[0].y;
    if (row >= rows || column >= columns) { return; }
    let at = (t.x + row * columns + column) / 4u;
    let step = columns / 4u;
    let a = data[at];
    let b = data[at + step];
    let c = data[at + 2u * step];
    let d = data[at + 3u * step];
    let to = (t.x + column * rows + row) / 4u;
    let next = rows / 4u;
    out[to] = vec4<u32>(a.x, b.x, c.x, d.x);
    out[to + next] = vec4<u32>(a.y, b.y, c.y, d.y);
    out[to + 2u * next] = vec4<u32>(a.z, b.z, c.z, d.z);
    out[to + 3u * next] = vec4<u32>(a.w, b.w, c.w, d.w);
}
