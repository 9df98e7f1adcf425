// Block sums of 1024 words (first pass of a multi-level scan).
struct Params {
    // x: words, y: blocks
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

var<workgroup> parts: array<u32, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let block = id.y * groups.x + id.x;
    if (block >= p.v[0].y) { return; }
    var sum = 0u;
    for (var item = 0u; item < 16u; item++) {
        let i = block * 1024u + item * 64u + lane;
        if (i < p.v[0].x) { sum += data[i]; }
    }
    parts[lane] = sum;
    workgroupBarrier();
    if (lane == 0u) {
        for (var other = 1u; other < 64u; other++) { sum += parts[other]; }
        sums[block] = sum;
    }
}
