
// GEMM with workgroup tiling and register blocking: 64×64 tiles in workgroup memory, 4×4 result elements per invocation.
var<workgroup> left: array<vec4<f32>, 256>;
var<workgroup> right: array<vec4<f32>, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = tile_position(id, groups, 64u, 64u);
    if (!t.some) { return; }
    let y = lane / 16u;
    let x = lane % 16u;
    let row = t.row + y * 4u;
    let column = t.column + x * 4u;
    let m = p.v[0].x;
    let n = p.v[0].y;
    let last = p.v[1].x;
START
    for (var i = p.v[0].w; i < last; i += 16u) {
        // Zero on both sides beyond the last step: zero times infinity would not be zero.
        var l = vec4<f32>();
        var r = vec4<f32>();
        if (i + x < last) {
            l = vec4<f32>(one_a(r0 + i + x), one_a(r1 + i + x), one_a(r2 + i + x), one_a(r3 + i + x));
        }
        if (i + y < last) { r = four_b(t.b + (i + y) * n + column); }
        left[x * 16u + y] = l;
        right[lane] = r;
        workgroupBarrier();
STEPS
        workgroupBarrier();
    }
ENDS
}
