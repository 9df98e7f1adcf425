// Batched matrix transpose: common part of the variants; words, whatever they mean.
struct Params {
    // 0: rows, columns, tiles per row, tiles of one matrix
    // 1: tiles in total
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> data: array<WORDS>;
@group(0) @binding(2) var<storage, read_write> out: array<WORDS>;

// Offset of the matrix and upper left corner of the tile; beyond the last tile, a corner beyond the last row.
fn tile_position(id: vec3<u32>, groups: vec3<u32>, rows: u32, columns: u32) -> vec3<u32> {
    let tile = id.y * groups.x + id.x;
    let item = tile / p.v[0].w;
    let rest = tile - item * p.v[0].w;
    let row = rest / p.v[0].z;
    let first = item * p.v[0].x * p.v[0].y;
    return select(
        vec3<u32>(0u, p.v[0].x, p.v[0].y),
        vec3<u32>(first, row * rows, (rest - row * p.v[0].z) * columns),
        tile < p.v[1].x,
    );
}
