// Prefix sum as a scan monoid: a finite sum, and flags for non-finite values (1: NaN, 2: +inf, 4: -inf).
struct S { v: f32, f: u32 }
@group(0) @binding(1) var<storage, read> data: array<u32>;

fn identity() -> S { return S(0.0, 0u); }
fn first() -> S { return identity(); }
fn masked(there: bool, x: S) -> S { return S(select(0.0, x.v, there), select(0u, x.f, there)); }

fn state_of(bits: u32) -> S {
    let infinite = (bits & 0x7f800000u) == 0x7f800000u;
    let flag = select(select(2u, 4u, (bits >> 31u) == 1u), 1u, (bits & 0x7fffffu) != 0u);
    return S(select(bitcast<f32>(bits), 0.0, infinite), select(0u, flag, infinite));
}
fn item(i: u32) -> S { return state_of(data[i]); }

fn combine(x: S, y: S) -> S {
    let sum = state_of(bitcast<u32>(x.v + y.v));
    return S(sum.v, sum.f | x.f | y.f);
}

fn output_bits(x: S) -> u32 {
    let odd = select(select(0x7fc00000u, 0xff800000u, x.f == 4u), 0x7f800000u, x.f == 2u);
    return select(odd, bitcast<u32>(x.v), x.f == 0u);
}
