// Gathers windows of rows into a batch: rows are contiguous, so a window is one range of words. An invocation per value.
//   [0] x: words of a window, y: picks of this call, z: the first of them, w: invocations of a row of workgroups
//   [1] x: are picks indices into the table of window ends? y: rows of a window, z: columns
struct Params {
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
// index in the batch; last row, or its index in the table
@group(0) @binding(1) var<storage, read> picks: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> ends: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> valid: array<f32>;
@group(0) @binding(5) var<storage, read_write> batch: array<u32>;
@group(0) @binding(6) var<storage, read_write> whole: array<f32>;

const NONE: u32 = 0xffffffffu;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * p.v[0].w + id.x;
    if (id.x >= p.v[0].w || i >= p.v[0].x * p.v[0].y) {
        return;
    }
    let pick = picks[p.v[0].z + i / p.v[0].x];
    let within = i % p.v[0].x;
    var end = pick.y;
    if (p.v[1].x != 0u) {
        end = ends[pick.y];
    }
    let into = pick.x * p.v[0].x + within;
    if (end == NONE) {
        batch[into] = 0u;
        if (within == 0u) {
            whole[pick.x] = 0.0;
        }
        return;
    }
    let first = end + 1u - p.v[1].y;
    batch[into] = rows[first * p.v[1].z + within];
    if (within == 0u) {
        var all = 1.0;
        for (var row = first; row <= end; row++) {
            all = min(all, valid[row]);
        }
        whole[pick.x] = all;
    }
}
