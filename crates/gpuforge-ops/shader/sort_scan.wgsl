// Exclusive scan of words, in blocks of 1024 that start with the prefix of their block.
struct Params {
    // x: words, y: blocks, z: 1 if blocks have a prefix
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read> before: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

var<workgroup> parts: array<u32, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let block = id.y * groups.x + id.x;
    if (block >= p.v[0].y) { return; }
    let first = block * 1024u + lane * 16u;
    var sum = 0u;
    for (var item = 0u; item < 16u; item++) {
        if (first + item < p.v[0].x) { sum += data[first + item]; }
    }
    parts[lane] = sum;
    workgroupBarrier();
    sum = 0u;
    if (p.v[0].z == 1u) { sum = before[block]; }
    for (var other = 0u; other < lane; other++) { sum += parts[other]; }
    for (var item = 0u; item < 16u; item++) {
        if (first + item < p.v[0].x) {
            out[first + item] = sum;
            sum += data[first + item];
        }
    }
}
