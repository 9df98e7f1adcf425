// Radix sort, histogram pass: counts of each 4-bit digit in a tile; one workgroup per tile.
struct Params {
    // v[0]: elements per row, tiles per row, tiles in total, shift of the digit; v[1].x: flags, 8: input holds values, not keys
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<u32>;

var<workgroup> bins: array<atomic<u32>, 16>;

@compute @workgroup_size(GROUP)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tile = id.y * groups.x + id.x;
    if (tile >= p.v[0].z) { return; }
    let row = tile / p.v[0].y;
    let tile_in_row = tile - row * p.v[0].y;
    for (var item = 0u; item < ITEMSu; item++) {
        let column = tile_in_row * GROUPu * ITEMSu + item * GROUPu + lane;
        if (column < p.v[0].x) {
            var key = data[row * p.v[0].x + column];
            if ((p.v[1].x & 8u) != 0u) { key = key_of(key, p.v[1].x); }
            atomicAdd(&bins[(key >> p.v[0].w) & 15u], 1u);
        }
    }
    workgroupBarrier();
    if (lane < 16u) { counts[(row * 16u + lane) * p.v[0].y + tile_in_row] = atomicLoad(&bins[lane]); }
}
