// Radix select, count pass: histogram of the next 8-bit digit over keys that match the known prefix of the k-th key.
struct Params {
    // v[0]: elements per row, tiles per row, tiles in total, shift of the digit; v[1]: order flags, k, first index
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
// Per row: known prefix of the k-th key, and how many keys with it are still to be taken.
@group(0) @binding(2) var<storage, read> state: array<u32>;
@group(0) @binding(3) var<storage, read_write> counts: array<u32>;

var<workgroup> bins: array<atomic<u32>, 256>;

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
    let shift = p.v[0].w;
    let known = state[row * 2u];
    for (var item = 0u; item < ITEMSu; item++) {
        let column = tile_in_row * TILEu + item * GROUPu + lane;
        if (column < p.v[0].x) {
            let key = key_of(data[row * p.v[0].x + column], p.v[1].x);
            // In two steps: WGSL has no shift by 32.
            if (((key >> shift) >> 8u) == known) { atomicAdd(&bins[(key >> shift) & 255u], 1u); }
        }
    }
    workgroupBarrier();
    for (var digit = lane; digit < 256u; digit += GROUPu) {
        counts[tile * 256u + digit] = atomicLoad(&bins[digit]);
    }
}
