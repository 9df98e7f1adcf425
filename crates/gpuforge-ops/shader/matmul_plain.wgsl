
// GEMM, naive: one result element per invocation.
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = tile_position(id, groups, 8u, 8u);
    let row = t.row + lane / 8u;
    let column = t.column + lane % 8u;
    let n = p.v[0].y;
    if (!t.some || row >= p.v[0].x || column >= n) { return; }
    let left = t.a + row * p.v[0].z;
    let right = t.b + column;
    var c = 0.0;
    for (var i = p.v[0].w; i < p.v[1].x; i += 1u) {
        c += one_a(left + i) * one_b(right + i * n);
    }
    put_one(t.c + row * n + column, c);
}
