// Radix sort, scatter pass: writes the keys of a tile to the offsets of their digits, stable. Lines after "//+" move a payload
// with each key.
struct Params {
    // v[0]: elements per row, tiles per row, tiles in total, shift of the digit
    // v[1].x: flags, 8: input holds values, 16: write values, not keys, 32: the payload is the column index
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read> starts: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
//+@group(0) @binding(4) var<storage, read> also: array<u32>;
//+@group(0) @binding(5) var<storage, read_write> also_out: array<u32>;

var<workgroup> keys: array<u32, TILE>;
//+var<workgroup> others: array<u32, TILE>;
var<workgroup> counts: array<u32, COUNTERS>;
var<workgroup> parts: array<u32, GROUP>;
var<workgroup> shifts: array<u32, 16>;

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
    let column = tile_in_row * TILEu;
    let len = min(TILEu, p.v[0].x - column);
    let first = row * p.v[0].x + column;
    let flags = p.v[1].x;
    let shift = p.v[0].w;

    // Coalesced load into workgroup memory; then each invocation has its own run.
    for (var item = 0u; item < ITEMSu; item++) {
        let at = item * GROUPu + lane;
        if (at < len) {
            let word = data[first + at];
            keys[at] = select(word, key_of(word, flags), (flags & 8u) != 0u);
            //+others[at] = select(also[first + at], column + at, (flags & 32u) != 0u);
        }
    }
    workgroupBarrier();
    var own: array<u32, ITEMS>;
    var ranks: array<u32, ITEMS>;
    //+var own_also: array<u32, ITEMS>;
    for (var item = 0u; item < ITEMSu; item++) {
        let at = lane * ITEMSu + item;
        if (at < len) {
            own[item] = keys[at];
            //+own_also[item] = others[at];
            let counter = ((keys[at] >> shift) & 15u) * GROUPu + lane;
            ranks[item] = counts[counter];
            counts[counter] += 1u;
        }
    }
    workgroupBarrier();

    // Exclusive scan of the counters, digit by digit and within a digit by invocation: 16 counters each.
    var sum = 0u;
    for (var i = 0u; i < 16u; i++) { sum += counts[lane * 16u + i]; }
    parts[lane] = sum;
    workgroupBarrier();
    sum = 0u;
    for (var other = 0u; other < lane; other++) { sum += parts[other]; }
    for (var i = 0u; i < 16u; i++) {
        let here = counts[lane * 16u + i];
        counts[lane * 16u + i] = sum;
        sum += here;
    }
    workgroupBarrier();
    if (lane < 16u) {
        shifts[lane] = starts[(row * 16u + lane) * p.v[0].y + tile_in_row] - counts[lane * GROUPu];
    }

    // Sorted within the tile first, so that writes are coalesced.
    for (var item = 0u; item < ITEMSu; item++) {
        if (lane * ITEMSu + item < len) {
            let at = counts[((own[item] >> shift) & 15u) * GROUPu + lane] + ranks[item];
            keys[at] = own[item];
            //+others[at] = own_also[item];
        }
    }
    workgroupBarrier();
    for (var item = 0u; item < ITEMSu; item++) {
        let at = item * GROUPu + lane;
        if (at < len) {
            let key = keys[at];
            let to = shifts[(key >> shift) & 15u] + at;
            out[to] = select(key, bits_of(key, flags), (flags & 16u) != 0u);
            //+also_out[to] = others[at];
        }
    }
}
