// Radix select, compaction pass: takes the keys below the k-th key, then equal ones while there is space, both in index order.
struct Params {
    // v[0]: elements per row, tiles per row, tiles in total, shift of the digit; v[1]: order flags, k, first index
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read> state: array<u32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;
@group(0) @binding(5) var<storage, read_write> indices: array<u32>;

// Per invocation: keys below (low half) and equal (high half) in its run.
var<workgroup> parts: array<u32, GROUP>;

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
    let first = tile_in_row * TILEu + lane * ITEMSu;
    var sum = 0u;
    for (var item = 0u; item < ITEMSu; item++) {
        if (first + item < p.v[0].x) {
            let key = key_of(data[row * p.v[0].x + first + item], p.v[1].x);
            sum += u32(key < last) + (u32(key == last) << 16u);
        }
    }
    parts[lane] = sum;
    workgroupBarrier();
    if (sum == 0u) { return; }
    sum = 0u;
    for (var other = 0u; other < lane; other++) { sum += parts[other]; }
    let begin = starts[row * 2u * p.v[0].y];
    var below = starts[row * 2u * p.v[0].y + tile_in_row] - begin + (sum & 0xffffu);
    var equal = starts[(row * 2u + 1u) * p.v[0].y + tile_in_row] - begin + (sum >> 16u);
    for (var item = 0u; item < ITEMSu; item++) {
        if (first + item < p.v[0].x) {
            let key = key_of(data[row * p.v[0].x + first + item], p.v[1].x);
            if (key <= last) {
                let to = select(equal, below, key < last);
                if (to < p.v[1].y) {
                    keys[row * p.v[1].y + to] = key;
                    indices[row * p.v[1].y + to] = p.v[1].z + first + item;
                }
                below += u32(key < last);
                equal += u32(key == last);
            }
        }
    }
}
