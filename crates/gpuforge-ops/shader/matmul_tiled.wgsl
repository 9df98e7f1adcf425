
// GEMM with workgroup tiling: 16×16 tiles in workgroup memory, one result element per invocation.
var<workgroup> left: array<f32, 256>;
var<workgroup> right: array<f32, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = tile_position(id, groups, 16u, 16u);
    if (!t.some) { return; }
    let y = lane / 16u;
    let x = lane % 16u;
    let row = t.row + y;
    let column = t.column + x;
    let m = p.v[0].x;
    let n = p.v[0].y;
    let last = p.v[1].x;
    let at = t.a + min(row, m - 1u) * p.v[0].z;
    var c = 0.0;
    for (var i = p.v[0].w; i < last; i += 16u) {
        // Zero on both sides beyond the last step: zero times infinity would not be zero.
        var l = 0.0;
        var r = 0.0;
        if (i + x < last) { l = one_a(at + i + x); }
        if (i + y < last) { r = one_b(t.b + (i + y) * n + min(column, n - 1u)); }
        left[lane] = l;
        right[lane] = r;
        workgroupBarrier();
STEPS
        workgroupBarrier();
    }
    if (row < m && column < n) { put_one(t.c + row * n + column, c); }
}
