// Radix select, choose pass: the digit of the k-th key; one workgroup per row, one invocation per digit.
struct Params {
    // v[0]: elements per row, tiles per row, tiles in total, shift of the digit; v[1]: order flags, k, first index
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> counts: array<u32>;
@group(0) @binding(2) var<storage, read> state: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

var<workgroup> totals: array<u32, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = id.y * groups.x + id.x;
    if (row * p.v[0].y >= p.v[0].z) { return; }
    var sum = 0u;
    for (var tile_in_row = 0u; tile_in_row < p.v[0].y; tile_in_row++) {
        sum += counts[(row * p.v[0].y + tile_in_row) * 256u + lane];
    }
    totals[lane] = sum;
    workgroupBarrier();
    if (lane == 0u) {
        var wanted = state[row * 2u + 1u];
        var digit = 0u;
        while (digit < 255u && totals[digit] < wanted) {
            wanted -= totals[digit];
            digit++;
        }
        out[row * 2u] = (state[row * 2u] << 8u) | digit;
        out[row * 2u + 1u] = wanted;
    }
}
