// Philox4x32-10: one invocation turns one counter into four words; bits, uniform or normal numbers.
struct Params {
    // v[0]: elements, elements of the first counter to skip, first counter (low, high)
    // v[1]: key (low, high), distribution (0 bits, 1 uniform, 2 normal), number of counters
    v: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;

// High word of a 32×32-bit product from 16-bit halves: WGSL has no 64-bit product.
fn high(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
}

fn philox(counter: vec4<u32>, seed: vec2<u32>) -> vec4<u32> {
    var c = counter;
    var k = seed;
    for (var round = 0u; round < 10u; round++) {
        let a = high(0xD2511F53u, c.x);
        let b = high(0xCD9E8D57u, c.z);
        c = vec4<u32>(b ^ c.y ^ k.x, 0xCD9E8D57u * c.z, a ^ c.w ^ k.y, 0xD2511F53u * c.x);
        k += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// Box-Muller radius: sqrt(-2 ln u), u = the leading 24 bits of a word over 2^32; see src/random.rs.
fn radius(word: u32) -> f32 {
    let lead = countLeadingZeros(word | 1u);
    let mantissa = ((word | 1u) << lead) >> 8u;
    // 0xB504F3 is sqrt(1/2): below it, one more doubling.
    let low = u32(mantissa < 0xB504F3u);
    let f = f32(mantissa) * (1.0 + f32(low)) * 5.9604644775390625e-8;
    let s = (f - 1.0) / (f + 1.0);
    let z = s * s;
    let ln = s * (2.0 + z * (0.6666666667 + z * (0.4 + z * (0.2857142857 + z * 0.2222222222))));
    return sqrt(2.0 * (f32(lead + low) * 0.6931471806 - ln));
}

fn direction(word: u32) -> vec2<f32> {
    let quadrant = word >> 30u;
    let step = i32(((word << 2u) >> 9u) * 2u + 1u) - 8388608;
    let x = f32(step) * 9.362675e-8;
    let z = x * x;
    let sine = x + x * z * (-0.1666666667 + z * (0.008333333333 + z * (-0.0001984126984 + z * 0.000002755731922)));
    let cosine = 1.0 + z * (-0.5 + z * (0.04166666667 + z * (-0.001388888889 + z * 0.0000248015873)));
    let odd = (quadrant & 1u) == 1u;
    let first = select(cosine, sine, odd);
    let second = select(sine, cosine, odd);
    return vec2<f32>(
        select(first, -first, quadrant == 1u || quadrant == 2u),
        select(second, -second, quadrant >= 2u),
    );
}

fn shape(w: vec4<u32>, form: u32) -> vec4<u32> {
    if (form == 0u) { return w; }
    if (form == 1u) { return bitcast<vec4<u32>>(vec4<f32>(w >> vec4<u32>(8u)) * 5.9604644775390625e-8); }
    return bitcast<vec4<u32>>(vec4<f32>(radius(w.x) * direction(w.y), radius(w.z) * direction(w.w)));
}

fn put(at: u32, word: u32) {
    let i = at - p.v[0].y;
    if (at >= p.v[0].y && i < p.v[0].x) { out[i] = word; }
}

@compute @workgroup_size(GROUP)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = (id.y * groups.x + id.x) * GROUPu * ITEMSu + lane;
    for (var item = 0u; item < ITEMSu; item++) {
        let j = first + item * GROUPu;
        if (j >= p.v[1].w) { return; }
        let low = p.v[0].z + j;
        let counter = vec4<u32>(low, p.v[0].w + u32(low < j), u32(p.v[1].z == 2u), 0u);
        let words = shape(philox(counter, p.v[1].xy), p.v[1].z);
        put(4u * j, words.x);
        put(4u * j + 1u, words.y);
        put(4u * j + 2u, words.z);
        put(4u * j + 3u, words.w);
    }
}
