// Validity mask: 1 if every value of a row is finite; else 0, and the row is zeroed. An invocation per row.
//   [0] x: rows, y: columns, w: invocations of a row of workgroups
struct Params {
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> rows: array<u32>;
@group(0) @binding(2) var<storage, read_write> valid: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y * p.v[0].w + id.x;
    if (id.x >= p.v[0].w || row >= p.v[0].x) {
        return;
    }
    let first = row * p.v[0].y;
    var bad = 0u;
    for (var k = 0u; k < p.v[0].y; k++) {
        bad |= select(0u, 1u, (rows[first + k] & 0x7f800000u) == 0x7f800000u);
    }
    if (bad != 0u) {
        for (var k = 0u; k < p.v[0].y; k++) {
            rows[first + k] = 0u;
        }
    }
    valid[row] = select(1.0, 0.0, bad != 0u);
}
