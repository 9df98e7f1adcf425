// Trajectory results: widens f32 states to f64 (two words each); see trajectory/op.rs.
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> states: array<u32>;
@group(0) @binding(2) var<storage, read_write> ends: array<u32>;

fn put(at: u32, bits: u32) {
    let wide = widen(bits);
    ends[2u * at] = wide.x;
    ends[2u * at + 1u] = wide.y;
}

fn widen(bits: u32) -> vec2<u32> {
    let sign = bits & 0x80000000u;
    let exponent = (bits >> 23u) & 0xffu;
    if (exponent == 0u) { return vec2<u32>(0u, sign); }
    if (exponent == 255u) { return vec2<u32>(0u, sign | 0x7ff00000u); }
    return vec2<u32>(bits << 29u, sign | ((exponent + 896u) << 20u) | ((bits & 0x7fffffu) >> 3u));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * groups.x + group.x) * 64u + lane;
    if (i >= p.v[0].x) { return; }
    let start = i * 16u;
    let to = i * 12u;
    put(to, states[start + 11u]);
    for (var n = 0u; n < 7u; n++) { put(to + 1u + n, states[start + n]); }
    put(to + 8u, states[start + 8u]);
    put(to + 9u, states[start + 9u]);
    // The status is stored plus one.
    put(to + 10u, bitcast<u32>(bitcast<f32>(states[start + 10u]) - 1.0));
    put(to + 11u, states[start + 7u]);
}
