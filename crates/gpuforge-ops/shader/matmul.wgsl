// Products of matrices: what all members of the family share. The generator fills in types, loads and stores.
struct Params {
    // 0: rows of A, columns of B, length of the dot products, first step of this dispatch
    // 1: step after the last, tiles side by side, tiles of one product, tiles in all
    // 2: numbers from one A to the next, numbers from one B to the next (none where it is shared)
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<LEFT>;
@group(0) @binding(2) var<storage, read> b: array<RIGHT>;

// Where a tile lies: first numbers of its matrices, and its upper left corner in the result.
struct Place {
    a: u32,
    b: u32,
    c: u32,
    row: u32,
    column: u32,
    some: bool,
}

fn place(id: vec3<u32>, groups: vec3<u32>, rows: u32, columns: u32) -> Place {
    let tile = id.y * groups.x + id.x;
    let item = tile / p.v[1].z;
    let rest = tile - item * p.v[1].z;
    let row = rest / p.v[1].y;
    return Place(
        item * p.v[2].x,
        item * p.v[2].y,
        item * p.v[0].x * p.v[0].y,
        row * rows,
        (rest - row * p.v[1].y) * columns,
        tile < p.v[1].w,
    );
}
