// Small integer kernel of the first-result benchmark: multiply, rotate, XOR.
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

// out[i] = rotl(a[i] * p.y, 7) ^ p.z for i < p.x.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i >= p.v[0].x) { return; }
    let s = a[i] * p.v[0].y;
    out[i] = ((s << 7u) | (s >> 25u)) ^ p.v[0].z;
}
