// Scatters the columns of a part into whole rows: an invocation per value.
//   [0] x: values, y: columns of the part, z: columns of a row, w: invocations of a row of workgroups
struct Params {
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> into: array<u32>;
@group(0) @binding(2) var<storage, read> part: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * p.v[0].w + id.x;
    if (id.x < p.v[0].w && i < p.v[0].x) {
        rows[i / p.v[0].y * p.v[0].z + into[i % p.v[0].y]] = part[i];
    }
}
