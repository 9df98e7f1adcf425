// GEMM: common part of all kernel variants. The generator fills in types, loads and stores.
struct Params {
    // 0: rows of A, columns of B, depth (k), first step of this dispatch
    // 1: end step, tiles per row, tiles of one product, tiles in total
    // 2: elements from one A to the next, elements from one B to the next (0 where it is shared)
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<LEFT>;
@group(0) @binding(2) var<storage, read> b: array<RIGHT>;

// Position of a tile: offsets of its matrices, and its upper left corner in the result.
struct TilePosition {
    a: u32,
    b: u32,
    c: u32,
    row: u32,
    column: u32,
    some: bool,
}

fn tile_position(id: vec3<u32>, groups: vec3<u32>, rows: u32, columns: u32) -> TilePosition {
    let tile = id.y * groups.x + id.x;
    let item = tile / p.v[1].z;
    let rest = tile - item * p.v[1].z;
    let row = rest / p.v[1].y;
    return TilePosition(
        item * p.v[2].x,
        item * p.v[2].y,
        item * p.v[0].x * p.v[0].y,
        row * rows,
        (rest - row * p.v[1].y) * columns,
        tile < p.v[1].w,
    );
}
