// Radix select, tally pass: keys of a tile below the k-th key, and equal to it.
struct Params {
    // v[0]: elements per row, tiles per row, tiles in total, shift of the digit; v[1]: order flags, k, first index
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read> state: array<u32>;
@group(0) @binding(3) var<storage, read_write> counts: array<u32>;

var<workgroup> bins: array<atomic<u32>, 2>;

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
    let last = state[row * 2u];
    var below = 0u;
    var equal = 0u;
    for (var item = 0u; item < ITEMSu; item++) {
        let column = tile_in_row * TILEu + item * GROUPu + lane;
        if (column < p.v[0].x) {
            let key = key_of(data[row * p.v[0].x + column], p.v[1].x);
            below += u32(key < last);
            equal += u32(key == last);
        }
    }
    if (below > 0u) { atomicAdd(&bins[0], below); }
    if (equal > 0u) { atomicAdd(&bins[1], equal); }
    workgroupBarrier();
    if (lane < 2u) { counts[(row * 2u + lane) * p.v[0].y + tile_in_row] = atomicLoad(&bins[lane]); }
}
