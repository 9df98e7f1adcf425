// atan(a / b) in radians by a Chebyshev polynomial; b must not be 0.
const DEGREES: f32 = 57.29577951308232;
const HALF_PI: f32 = 1.5707963267948966;

// The polynomial interpolates (atan √z / √z - 1) / z at Chebyshev nodes up to tan² π/8; error 3e-9 before rounding.
fn atan2_ratio(a: f32, b: f32) -> f32 {
    let y = abs(a);
    let x = abs(b);
    let low = y < 0.41421356237 * x;
    let high = y > 2.41421356237 * x;
    let t = select(select(y - x, -x, high), y, low) / select(select(y + x, y, high), x, low);
    let base = select(select(0.5 * HALF_PI, HALF_PI, high), 0.0, low);
    let z = t * t;
    let far = 0.107437315 - 0.064519282 * z;
    let near = -0.333333318 + z * (0.199995405 + z * (-0.142639556 + z * far));
    let size = base + (t + t * z * near);
    return select(size, -size, (a < 0.0) != (b < 0.0));
}

// Rounds a smoothed price to tenths where that is exact: ten times the mean of integers with weights 1 to 4 is an integer,
// and differences of integers are exact. Anything else moves by less than its rounding error.
fn round_to_tenths(eased: f32) -> f32 {
    let x = eased * 10.0;
    let whole = round(x);
    return select(x, whole, abs(x - whole) <= abs(x) * 2.4e-7);
}
