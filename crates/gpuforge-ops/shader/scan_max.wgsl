// Prefix max as a scan monoid: order-preserving integer keys, NaN above all, 0 below all.
struct S { k: u32 }
@group(0) @binding(1) var<storage, read> data: array<u32>;

fn identity() -> S { return S(0u); }
fn first() -> S { return identity(); }
fn masked(there: bool, x: S) -> S { return S(select(0u, x.k, there)); }

fn item(i: u32) -> S {
    let x = data[i];
    let up = select(x | 0x80000000u, ~x, x >= 0x80000000u);
    return S(select(up, 0xffffffffu, (x & 0x7fffffffu) > 0x7f800000u));
}

fn combine(x: S, y: S) -> S { return S(max(x.k, y.k)); }

fn output_bits(x: S) -> u32 {
    let bits = select(~x.k, x.k & 0x7fffffffu, (x.k >> 31u) == 1u);
    return select(bits, 0x7fc00000u, x.k == 0xffffffffu);
}
