// Affine recurrence y = a * y + b as a scan monoid: pairs (a, b) combine to (a2 a1, a2 b1 + b2); a prefix is the pair (0, y).
struct S { a: f32, b: f32, bad: u32 }
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(4) var<storage, read> more: array<u32>;

fn identity() -> S { return S(1.0, 0.0, 0u); }
fn masked(there: bool, x: S) -> S {
    return S(select(1.0, x.a, there), select(0.0, x.b, there), select(0u, x.bad, there));
}
fn first() -> S { return state_of(0u, p.v[0].w); }

fn infinite(bits: u32) -> bool { return (bits & 0x7f800000u) == 0x7f800000u; }
fn state_of(a: u32, b: u32) -> S {
    let bad = infinite(a) || infinite(b);
    return S(select(bitcast<f32>(a), 1.0, bad), select(bitcast<f32>(b), 0.0, bad), u32(bad));
}
fn item(i: u32) -> S { return state_of(data[i], more[i]); }

fn combine(x: S, y: S) -> S { return S(y.a * x.a, y.a * x.b + y.b, x.bad | y.bad); }

fn output_bits(x: S) -> u32 {
    let bits = bitcast<u32>(x.b);
    return select(bits, 0x7fc00000u, x.bad != 0u || infinite(bits));
}
