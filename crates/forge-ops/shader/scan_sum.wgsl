// Running sums: a finite sum, and flags for what is not finite (1: NaN, 2: +inf, 4: -inf).
struct S { v: f32, f: u32 }
@group(0) @binding(1) var<storage, read> data: array<u32>;

fn nothing() -> S { return S(0.0, 0u); }
fn first() -> S { return nothing(); }

fn known_as(bits: u32) -> S {
    if ((bits & 0x7f800000u) != 0x7f800000u) { return S(bitcast<f32>(bits), 0u); }
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return S(0.0, 1u); }
    return S(0.0, select(2u, 4u, (bits >> 31u) == 1u));
}
fn item(i: u32) -> S { return known_as(data[i]); }

fn follow(x: S, y: S) -> S {
    let sum = known_as(bitcast<u32>(x.v + y.v));
    return S(sum.v, sum.f | x.f | y.f);
}

fn shown(x: S) -> u32 {
    if (x.f == 0u) { return bitcast<u32>(x.v); }
    if (x.f == 2u) { return 0x7f800000u; }
    return select(0x7fc00000u, 0xff800000u, x.f == 4u);
}
