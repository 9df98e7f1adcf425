// Window ends by stream compaction: blocks of rows count theirs (pass 0), one invocation scans the counts (pass 1), blocks write
// theirs at their offsets (pass 2). Unused entries hold NONE.
//   [0] x: rows, y: rows of a block, z: blocks, w: rows of a window
//   [1] x: pass, y: entries of the table, z: series
struct Params {
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
// first rows of the series, and one past the last row
@group(0) @binding(1) var<storage, read> firsts: array<u32>;
@group(0) @binding(2) var<storage, read> valid: array<f32>;
// total, then per block: count, later offset
@group(0) @binding(3) var<storage, read_write> counts: array<u32>;
@group(0) @binding(4) var<storage, read_write> ends: array<u32>;

const NONE: u32 = 0xffffffffu;

// The series of a row.
fn series_of(row: u32) -> u32 {
    var low = 0u;
    var high = p.v[1].z;
    while (high - low > 1u) {
        let middle = (low + high) / 2u;
        if (firsts[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Consecutive valid rows of the series before this row, capped at the window length.
fn behind(row: u32, series: u32) -> u32 {
    let most = min(row - firsts[series], p.v[0].w);
    var length = 0u;
    while (length < most && valid[row - 1u - length] != 0.0) {
        length += 1u;
    }
    return length;
}

fn block(b: u32, write: bool) {
    let first = b * p.v[0].y;
    let last = min(first + p.v[0].y, p.v[0].x);
    var series = series_of(first);
    var length = behind(first, series);
    var found = 0u;
    let place = select(0u, counts[1u + b], write);
    for (var row = first; row < last; row++) {
        if (row == firsts[series + 1u]) {
            series += 1u;
            length = 0u;
        }
        length = select(0u, length + 1u, valid[row] != 0.0);
        if (length >= p.v[0].w) {
            if (write) {
                ends[place + found] = row;
            }
            found += 1u;
        }
        if (!write && row < p.v[1].y) {
            ends[row] = NONE;
        }
    }
    if (!write) {
        counts[1u + b] = found;
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (p.v[1].x == 1u) {
        if (id.x == 0u) {
            var sum = 0u;
            for (var b = 0u; b < p.v[0].z; b++) {
                let own = counts[1u + b];
                counts[1u + b] = sum;
                sum += own;
            }
            counts[0] = sum;
        }
    } else if (id.x < p.v[0].z) {
        block(id.x, p.v[1].x == 2u);
    }
}
