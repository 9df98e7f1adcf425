// Loop guard check: one invocation per workgroup of the guarded kernel; see src/custom/loop_guard.rs.
struct Params {
    // x: workgroups, y: workgroup size, z: SIMD width (lockstep lanes), w: limit; then x: single loop
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> words: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = (id.y * groups.x + id.x) * 64u + lane;
    if (group >= p.v[0].x) { return; }
    let size = p.v[0].y;
    let limit = p.v[0].w;
    var bad = 0u;
    var sum = 0u;
    var before = vec2<u32>();
    for (var i = 0u; i < size; i++) {
        let now = words[group * size + i];
        let first = i % p.v[0].z == 0u;
        if (first) { sum = 0u; }
        // A run of lanes in lockstep counts once. No overflow: clamped to the limit.
        if (first || now.x != before.x || now.y != before.y) { sum = min(sum, limit) + min(now.x, limit); }
        if (now.x >= limit || (p.v[1].x == 0u && sum >= limit)) { bad = 1u; }
        before = now;
    }
    out[group] = bad;
}
