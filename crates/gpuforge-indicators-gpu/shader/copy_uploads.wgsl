// Copies the uploaded columns into the arena; they are contiguous in both.
//   [2] x: first word in `data`, y: first word in the arena, z: words, w: words of a row of workgroups
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * p.v[2].w + id.x;
    if (id.x < p.v[2].w && i < p.v[2].z) {
        arena[p.v[2].y + i] = bitcast<f32>(data[p.v[2].x + i]);
    }
}
