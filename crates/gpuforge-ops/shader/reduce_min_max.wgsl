// Min/max reduction of blocks of rows by order-preserving integer keys and, for INDEX, the first position (argmin, argmax).
// WIDE is u32 or vec4<u32>; for u32, [c] is left out.
struct Params {
    // v[0] x: blocks in total, y: elements per row, z: blocks per row, w: all ones for the minimum
    // v[1] x: 1 for the last level
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<WIDE>;
@group(0) @binding(1) var<storage, read> known: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

const LANES = 32u / WIDTHu;
var<workgroup> best: array<vec2<u32>, GROUP>;

// NaN is above all numbers; for argmin and argmax the two zeros are equal.
fn key(bits: WIDE) -> WIDE {
    var x = bits;
    if (INDEX) { x = select(x, WIDE(0u), x == WIDE(0x80000000u)); }
    let up = select(x | WIDE(0x80000000u), ~x, x >= WIDE(0x80000000u));
    return select(up ^ WIDE(p.v[0].w), WIDE(0xffffffffu), (x & WIDE(0x7fffffffu)) > WIDE(0x7f800000u));
}

fn value(key: u32) -> u32 {
    if (key == 0xffffffffu) { return 0x7fc00000u; }
    let up = key ^ p.v[0].w;
    return select(~up, up & 0x7fffffffu, (up >> 31u) == 1u);
}

// The larger key, the lower index of equals.
fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, b.x > a.x || (b.x == a.x && b.y < a.y));
}

// Combines the lanes of a block in its first lane.
fn close(lane: u32, block: u32) {
    workgroupBarrier();
    if (lane % LANES != 0u || block >= p.v[0].x) { return; }
    var pair = best[lane];
    for (var i = 1u; i < LANES; i++) { pair = better(pair, best[lane + i]); }
    if (p.v[1].x == 0u) {
        out[block * 2u] = pair.x;
        out[block * 2u + 1u] = select(0u, pair.y, INDEX);
        return;
    }
    out[block] = select(value(pair.x), pair.y, INDEX);
}

@compute @workgroup_size(GROUP)
fn elements(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let block = (id.y * groups.x + id.x) * (GROUPu / LANES) + lane / LANES;
    let row = block / p.v[0].z;
    let start = (block - row * p.v[0].z) * BLOCKu;
    let base = (row * p.v[0].y + start) / WIDTHu;
    let count = select(0u, min(BLOCKu, p.v[0].y - start) / WIDTHu, block < p.v[0].x);
    var most = WIDE(0u);
    var at = WIDE(0u);
    for (var j = lane % LANES; j < count; j += LANES) {
        let k = key(data[base + j]);
        if (INDEX) { at = select(at, WIDE(start + j * WIDTHu), k > most); }
        most = max(most, k);
    }
    var pair = vec2<u32>(0u, 0xffffffffu);
    for (var c = 0u; c < WIDTHu; c++) { pair = better(pair, vec2<u32>(most[c], at[c] + c)); }
    best[lane] = pair;
    close(lane, block);
}

@compute @workgroup_size(GROUP)
fn pairs(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let block = (id.y * groups.x + id.x) * (GROUPu / LANES) + lane / LANES;
    let row = block / p.v[0].z;
    let start = (block - row * p.v[0].z) * BLOCKu;
    let base = row * p.v[0].y + start;
    let count = select(0u, min(BLOCKu, p.v[0].y - start), block < p.v[0].x);
    var pair = vec2<u32>(0u, 0xffffffffu);
    for (var j = lane % LANES; j < count; j += LANES) { pair = better(pair, known[base + j]); }
    best[lane] = pair;
    close(lane, block);
}
