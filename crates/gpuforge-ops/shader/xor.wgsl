// XOR with a repeating key; many items of equal length, each with its own key.
struct Params {
    // x: words in all, y: words of one item, z: words of one key
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read> keys: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(GROUP)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = (id.y * groups.x + id.x) * GROUPu + lane;
    if (i >= p.v[0].x) { return; }
    let item = i / p.v[0].y;
    let at = i - item * p.v[0].y;
    out[i] = data[i] ^ keys[item * p.v[0].z + at % p.v[0].z];
}
