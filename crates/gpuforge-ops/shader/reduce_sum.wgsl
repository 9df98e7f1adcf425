// Sum reduction of blocks of rows in a fixed order, with flags for non-finite values (1: NaN, 2: +inf, 4: -inf).
// WIDE is u32 or vec4<u32>; for u32, [c] is left out.
struct Params {
    // v[0] x: blocks in total, y: elements per row, z: blocks per row, w: 1 for squares
    // v[1] x: 1 for the last level, y: 1 for means, 2 for roots, z: bits of the divisor, w: 0
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<WIDE>;
@group(0) @binding(1) var<storage, read> known: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

const LANES = 32u / WIDTHu;
var<workgroup> sums: array<f32, GROUP * WIDTH>;
var<workgroup> flags: array<u32, GROUP>;
var<private> seen: u32;

fn beyond(bits: u32) -> u32 {
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return 1u; }
    return select(2u, 4u, (bits >> 31u) == 1u);
}

// Non-finite values become flags.
fn finite(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) {
        seen |= beyond(bits);
        return 0.0;
    }
    return x;
}

// XOR with a zero unknown to the compiler prevents contraction of product and sum to an FMA.
fn term(x: WIDE) -> WIDEF {
    let f = bitcast<WIDEF>(x);
    let square = bitcast<WIDEF>(bitcast<WIDE>(f * f) ^ WIDE(p.v[1].w));
    return select(f, square, p.v[0].w == 1u);
}

// Second pass for a block with non-finite values; the square of -inf is +inf.
fn careful(base: u32, count: u32, l: u32) -> WIDEF {
    var acc = WIDEF(0.0);
    for (var j = l; j < count; j += LANES) {
        let x = data[base + j];
        let bad = (x & WIDE(0x7f800000u)) == WIDE(0x7f800000u);
        for (var c = 0u; c < WIDTHu; c++) {
            if (bad[c]) { seen |= beyond(x[c] & ~(p.v[0].w << 31u)); }
        }
        acc += term(select(x, WIDE(0u), bad));
    }
    return acc;
}

// Pairwise sum of the 32 accumulators of a block, by its first lane.
fn close(lane: u32, block: u32) {
    workgroupBarrier();
    if (lane % LANES != 0u || block >= p.v[0].x) { return; }
    for (var i = 0u; i < LANES; i++) { seen |= flags[lane + i]; }
    let at = lane * WIDTHu;
    for (var half = 16u; half > 0u; half >>= 1u) {
        for (var j = 0u; j < half; j++) { sums[at + j] = finite(sums[at + j] + sums[at + j + half]); }
    }
    let sum = sums[at];
    if (p.v[1].x == 0u) {
        out[block * 2u] = bitcast<u32>(sum);
        out[block * 2u + 1u] = seen;
        return;
    }
    var bits = bitcast<u32>(sum);
    if (p.v[1].y == 1u) { bits = bitcast<u32>(sum / bitcast<f32>(p.v[1].z)); }
    if (p.v[1].y == 2u) { bits = bitcast<u32>(sqrt(sum)); }
    if (seen == 2u) { bits = 0x7f800000u; } else if (seen == 4u) { bits = 0xff800000u; } else if (seen != 0u) { bits = 0x7fc00000u; }
    out[block] = bits;
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
    let l = lane % LANES;
    var acc = WIDEF(0.0);
    var most = WIDE(0u);
    for (var j = l; j < count; j += LANES) {
        let x = data[base + j];
        most = max(most, x & WIDE(0x7f800000u));
        acc += term(x);
    }
    if (any(most == WIDE(0x7f800000u))) { acc = careful(base, count, l); }
    for (var c = 0u; c < WIDTHu; c++) { sums[lane * WIDTHu + c] = finite(acc[c]); }
    flags[lane] = seen;
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
    var acc = 0.0;
    for (var j = lane % LANES; j < count; j += LANES) {
        let pair = known[base + j];
        acc += bitcast<f32>(pair.x);
        seen |= pair.y;
    }
    sums[lane] = finite(acc);
    flags[lane] = seen;
    close(lane, block);
}
