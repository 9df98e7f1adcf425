// Trajectory launches: rounds f64 launches (two words each) to f32 states; see trajectory/op.rs for the layout.
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read_write> states: array<f32>;

// Launches are checked: no infinities, no overflow; denormals become zero.
fn narrow(at: u32) -> f32 {
    let bits = vec2<u32>(starts[2u * at], starts[2u * at + 1u]);
    let exponent = (bits.y >> 20u) & 0x7ffu;
    if (exponent <= 896u) { return 0.0; }
    let cut = (bits.y & 0x80000000u) | ((exponent - 896u) << 23u) | ((bits.y & 0xfffffu) << 3u) | (bits.x >> 29u);
    return bitcast<f32>(cut + ((bits.x >> 28u) & 1u));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * groups.x + group.x) * 64u + lane;
    if (i >= p.v[0].x) { return; }
    let start = i * 8u;
    let to = i * 16u;
    let height = narrow(start);
    states[to] = 0.0;
    states[to + 1u] = height;
    states[to + 2u] = 0.0;
    states[to + 3u] = narrow(start + 1u);
    states[to + 4u] = narrow(start + 2u);
    states[to + 5u] = narrow(start + 3u);
    states[to + 6u] = narrow(start + 7u);
    states[to + 7u] = 0.0;
    states[to + 8u] = height;
    states[to + 9u] = 0.0;
    states[to + 10u] = 0.0;
    states[to + 11u] = 0.0;
    states[to + 12u] = narrow(start + 4u);
    states[to + 13u] = narrow(start + 5u);
    states[to + 14u] = narrow(start + 6u);
    states[to + 15u] = 0.0;
}
