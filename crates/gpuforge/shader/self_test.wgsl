// One step of a recurrence over integers; its CPU reference is `advance` in src/selftest.rs.
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i >= p.v[0].x) { return; }
    let s = a[i] * 1664525u + (1013904223u ^ p.v[0].y);
    out[i] = ((s << 5u) | (s >> 27u)) ^ i;
}
