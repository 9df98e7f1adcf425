// Hilbert transform (Ehlers): dominant cycle period, and trend or cycle mode.

// The Hilbert FIR: every other of the last seven values.
fn quarter(now: f32, two: f32, four: f32, six: f32, gain: f32) -> f32 {
    return (0.0962 * (now - six) + 0.5769 * (two - four)) * gain;
}

// The phase angle between two bars gives a period, limited in its change and to 6 to 50 bars.
fn next_period(last: f32, re: f32, im: f32) -> f32 {
    let told = im != 0.0 && re != 0.0;
    let measured = select(last, 4.0 * HALF_PI / atan2_ratio(select(1.0, im, told), select(1.0, re, told)), told);
    let tamed = max(min(measured, 1.5 * last), 0.67 * last);
    return 0.2 * clamp(tamed, 6.0, 50.0) + 0.8 * last;
}

// Period of the cycle, and its two components. Constant: bars to skip. State, newest first: six smoothed prices in tenths
// (a, b.xy), nine detrended ones (c, d, e.x), six of the quadrature (f, g.xy); both components smoothed (b.zw), their product
// with those before (g.zw), the period and that smoothed (e.yz).
fn cycle(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    if (f32(age) < n.a.x) {
        return vec4<f32>(0.0);
    }
    let price = round_to_tenths(x.x);
    let a = (*s).a;
    let b = (*s).b;
    let c = (*s).c;
    let d = (*s).d;
    let e = (*s).e;
    let f = (*s).f;
    let g = (*s).g;
    let gain = 0.075 * e.y + 0.54;
    let detrended = quarter(price, a.y, a.w, b.y, gain);
    let quadrature = quarter(detrended, c.y, c.w, d.y, gain);
    let jq = quarter(quadrature, f.y, f.w, g.y, gain);
    // Detrended three bars ago is the component in phase; `ji` is that a quarter of a cycle on.
    let ji = quarter(c.z, d.x, d.z, e.x, gain);
    let i2 = 0.2 * (c.z - jq) + 0.8 * b.z;
    let q2 = 0.2 * (quadrature + ji) + 0.8 * b.w;
    let re = 0.8 * g.z + 0.2 * (i2 * b.z + q2 * b.w);
    let im = 0.8 * g.w + 0.2 * (i2 * b.w - q2 * b.z);
    let period = next_period(e.y, re, im);
    let mild = 0.67 * e.z + 0.33 * period;
    (*s).a = vec4<f32>(price, a.xyz);
    (*s).b = vec4<f32>(a.w, b.x, i2, q2);
    (*s).c = vec4<f32>(detrended, c.xyz);
    (*s).d = vec4<f32>(c.w, d.xyz);
    (*s).e = vec4<f32>(d.w, period, mild, 0.0);
    (*s).f = vec4<f32>(quadrature, f.xyz);
    (*s).g = vec4<f32>(f.w, g.x, re, im);
    return vec4<f32>(mild, 0.1 * c.z, 0.1 * quadrature, 0.0);
}

// Trend (1) or cycle (0), from the phase, the trend line, the smoothed price and the period. Sine and lead are those of the
// phase and of 45 degrees more: the sine is the greater one from 67.5 to 247.5 degrees. State: the phase, the sign of sine
// less lead (0 before the first bar), bars since they crossed.
fn trend_mode(s: ptr<function, State>, x: vec4<f32>) -> vec4<f32> {
    let old = (*s).a;
    let turned = x.x - 360.0 * floor(x.x / 360.0);
    let order = sign(90.0 - abs(turned - 157.5));
    let crossed = (order > 0.0 && old.y <= 0.0) || (order < 0.0 && old.y >= 0.0);
    let bars = select(old.z + 1.0, 1.0, crossed);
    // The phase advances as fast as the period says it should.
    let turns = (x.x - old.x) * x.w;
    let steady = turns > 0.67 * 360.0 && turns < 1.5 * 360.0;
    let swings = crossed || bars < 0.5 * x.w || steady;
    let away = x.y != 0.0 && abs(x.z - x.y) >= 0.015 * abs(x.y);
    (*s).a = vec4<f32>(x.x, order, bars, 0.0);
    return vec4<f32>(select(0.0, 1.0, away || !swings));
}
