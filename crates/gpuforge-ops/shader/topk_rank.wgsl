// Rank sort of the selected keys: each invocation counts the keys before its own.
struct Params {
    // v[0]: keys in total, keys per row; v[1].x: order flags
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read> indices: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
@group(0) @binding(4) var<storage, read_write> out_indices: array<u32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = (id.y * groups.x + id.x) * 64u + lane;
    if (i >= p.v[0].x) { return; }
    let first = i - i % p.v[0].y;
    let own = keys[i];
    var to = first;
    for (var j = first; j < first + p.v[0].y; j++) {
        let key = keys[j];
        to += u32(key < own || (key == own && j < i));
    }
    out[to] = bits_of(own, p.v[1].x);
    out_indices[to] = indices[i];
}
