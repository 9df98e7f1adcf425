// Histogram. `count`: a workgroup counts a chunk of a row in workgroup memory, LOCAL bins at a time; `add`: sums the chunks.
struct Params {
    // v[0] x: rows, y: elements per row, z: chunks per row, w: elements per chunk
    // v[1] x: bins, y: bits of the lower bound, z: bits of bins per unit, w: 1 for binary search
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
// Keys of the lower edges, and of the first number above the last bin.
@group(0) @binding(2) var<storage, read> edges: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

var<workgroup> counts: array<atomic<u32>, LOCAL>;

// Order-preserving integer key of a float; -0 equals +0, NaN is below everything.
fn key(bits: u32) -> u32 {
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0u; }
    let x = select(bits, 0u, bits == 0x80000000u);
    return select(x | 0x80000000u, ~x, x >= 0x80000000u);
}

// Bin of a number in range. The estimate is at most one bin off; the edges decide.
fn bin(bits: u32, k: u32) -> u32 {
    let bins = p.v[1].x;
    if (p.v[1].w == 0u) {
        let f = (bitcast<f32>(bits) - bitcast<f32>(p.v[1].y)) * bitcast<f32>(p.v[1].z);
        let i = min(u32(max(f, 0.0)), bins - 1u);
        return i + select(0u, 1u, k >= edges[i + 1u]) - select(0u, 1u, k < edges[i]);
    }
    var low = 0u;
    var high = bins;
    while (high - low > 1u) {
        let middle = (low + high) / 2u;
        if (k >= edges[middle]) { low = middle; } else { high = middle; }
    }
    return low;
}

@compute @workgroup_size(GROUP)
fn count(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    for (var b = lane; b < LOCALu; b += GROUPu) { atomicStore(&counts[b], 0u); }
    workgroupBarrier();
    let chunk = id.y * groups.x + id.x;
    let row = chunk / p.v[0].z;
    let bins = p.v[1].x;
    let base = id.z * LOCALu;
    if (row < p.v[0].x) {
        let start = (chunk - row * p.v[0].z) * p.v[0].w;
        let end = min(start + p.v[0].w, p.v[0].y);
        for (var i = start + lane; i < end; i += GROUPu) {
            let bits = data[row * p.v[0].y + i];
            let k = key(bits);
            if (k >= edges[0] && k < edges[bins]) {
                // Bins of other workgroups wrap around to values that are too large.
                let b = bin(bits, k) - base;
                if (b < LOCALu) { atomicAdd(&counts[b], 1u); }
            }
        }
    }
    workgroupBarrier();
    if (row < p.v[0].x) {
        for (var b = lane; b < min(LOCALu, bins - base); b += GROUPu) {
            out[chunk * bins + base + b] = atomicLoad(&counts[b]);
        }
    }
}

@compute @workgroup_size(GROUP)
fn add(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = (id.y * groups.x + id.x) * GROUPu + lane;
    let bins = p.v[1].x;
    let row = i / bins;
    if (row >= p.v[0].x) { return; }
    var sum = 0u;
    for (var c = 0u; c < p.v[0].z; c++) { sum += data[(row * p.v[0].z + c) * bins + i - row * bins]; }
    out[i] = sum;
}
