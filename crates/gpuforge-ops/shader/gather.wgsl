// Gather: one invocation per word of the result; out-of-range indices are clamped to the last row.
struct Params {
    // x: words of the result, y: words of a row, z: the last row
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(GROUP)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = (id.y * groups.x + id.x) * GROUPu * ITEMSu + lane;
    for (var item = 0u; item < ITEMSu; item++) {
        let i = first + item * GROUPu;
        if (i >= p.v[0].x) { return; }
        let row = i / p.v[0].y;
        out[i] = data[min(index[row], p.v[0].z) * p.v[0].y + (i - row * p.v[0].y)];
    }
}
