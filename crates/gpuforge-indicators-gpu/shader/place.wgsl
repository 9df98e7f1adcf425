// Brings the uploaded columns to their places: they lie one after the other in `data` as in the arena.
//   [2] x: first word in `data`, y: first word in the arena, z: words, w: words of a row of groups
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * p.v[2].w + id.x;
    if (id.x < p.v[2].w && i < p.v[2].z) {
        arena[p.v[2].y + i] = bitcast<f32>(data[p.v[2].x + i]);
    }
}
