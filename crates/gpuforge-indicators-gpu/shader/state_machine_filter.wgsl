// IIR filters and adaptive averages. Outputs follow the price closely, so the state is their distance from the newest price:
// small numbers, with more significant digits in f32 than the price itself.

// y = b0 x + b1 x' + b2 x'' + a1 y' + a2 y'' + a3 y''', as y's distance e from `gain` times x and its change v:
//   v = r1 v' + r2 v'' - k (e' - gain d) + c1 d + c2 d',  d = x - x',  k = 1 - a1 - a2 - a3 = (b0 + b1 + b2) / gain
// Otherwise poles near 1 are differences of nearly equal coefficients, and move when these are rounded.
// Constants: gain, k, r1, r2, c1, c2, bars passed through at the start. State: x', d', e', v'; v''.
fn linear(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let gain = n.a.x;
    let d = select(x.x - old.x, 0.0, age == 0u);
    var v = n.a.z * old.w + n.a.w * (*s).b.x + (n.b.x * d + n.b.y * old.y) - n.a.y * (old.z - gain * d);
    var e = old.z + (v - gain * d);
    if (f32(age) < n.b.z) {
        e = (1.0 - gain) * x.x;
        v = e - old.z + gain * d;
    }
    (*s).b.x = old.w;
    (*s).a = vec4<f32>(x.x, d, e, v);
    return vec4<f32>(gain * x.x + e);
}

// y += (x - y) / (n (x/y)^4); a non-finite step is skipped. Constant: n.
fn mcginley(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let y = select((*s).a.x, x.x, age == 0u);
    let none = x.x == 0.0 || y == 0.0;
    let share = select(x.x, 1.0, none) / select(y, 1.0, none);
    let square = share * share;
    let next_y = y + (x.x - y) / (n.a.x * (square * square));
    let finite = (bitcast<u32>(next_y) & 0x7f800000u) != 0x7f800000u;
    (*s).a.x = select(y, next_y, finite && !none);
    return (*s).a;
}

// Holt-Winters: level, trend, acceleration, and the variance of the residuals. Constants: their four factors. State: level,
// trend, acceleration, variance; the last residual.
fn holt_winters(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let level = select(old.x, x.x, age == 0u);
    let ahead = old.y + 0.5 * old.z;
    let moved = ahead + n.a.x * ((x.x - level) - ahead);
    let turned = old.z + n.a.y * (moved - (old.y + old.z));
    let trend = old.y + turned;
    let bend = old.z + n.a.z * (turned - old.z);
    let further = trend + 0.5 * bend;
    let variance = old.w + n.a.w * ((*s).b.x * (*s).b.x - old.w);
    (*s).a = vec4<f32>(level + moved, trend, bend, variance);
    (*s).b.x = (x.x - (*s).a.x) - further;
    return vec4<f32>((*s).a.x + further, sqrt(old.w), 0.0, 0.0);
}

// Laguerre filter: four cascaded stages, as distances from the price. Only differences of stages are used, so they are output
// as they are. Constant: the damping. State: the stages; the price.
fn laguerre(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let g = n.a.x;
    let old = (*s).a - vec4<f32>(select(x.x - (*s).b.x, 0.0, age == 0u));
    let a = g * old.x;
    let b = old.x + g * (old.y - a);
    let c = old.y + g * (old.z - b);
    let stages = vec4<f32>(a, b, c, old.z + g * (old.w - c));
    // Converged to a constant price: distances below f64 resolution become 0.
    (*s).a = select(stages, vec4<f32>(0.0), abs(stages) < vec4<f32>(1.2e-16 * abs(x.x)));
    (*s).b.x = x.x;
    return (*s).a;
}

// Their weighted mean.
fn laguerre_mean(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    return vec4<f32>(x.x + dot(laguerre(s, n, x, age), vec4<f32>(1.0, 2.0, 2.0, 1.0)) / 6.0);
}

// Kalman filter of a random walk. Constants: process variance, measurement variance. State: the level and its variance.
fn kalman(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let before = (*s).a.y + n.a.x;
    let gain = before / (before + n.a.y);
    let level = (*s).a.x + gain * (x.x - (*s).a.x);
    let first = age == 0u;
    (*s).a = vec4<f32>(select(level, x.x, first), select((1.0 - gain) * before, n.a.y, first), 0.0, 0.0);
    return (*s).a;
}

// Jurik moving average. Constants: beta, 1 - beta, log2 of beta, log2 of the bands' decay, max relative volatility, its power,
// the phase ratio. State: upper and lower band, first mean and result, as distances from the price; error, speed, mean
// volatility, the sum of that; the price; the volatility of the last ten bars. The second input is the mean volatility
// JURIK_HISTORY bars ago, the second output that of this bar.
fn jurik(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    if (age == 0u) {
        (*s).c.x = x.x;
        return vec4<f32>(x.x, 0.0, 0.0, 0.0);
    }
    let moved = x.x - (*s).c.x;
    let old = (*s).a - vec4<f32>(moved);
    // A price in the middle of both bands has no volatility, nor has one that leaves bands which are at the same price: they are
    // until the price first moves. Others never meet again, though they may seem to from far away.
    let closed = (*s).a.x == 0.0 && (*s).a.y == 0.0;
    let middle = closed || (*s).a.x + (*s).a.y == 2.0 * moved;
    let now = select(max(abs(old.x), abs(old.y)), 0.0, middle);
    let mean = (*s).b.z + (now - (*s).f.x) / 10.0;
    (*s).f.x = (*s).e.w;
    (*s).e = vec4<f32>((*s).d.w, (*s).e.xyz);
    (*s).d = vec4<f32>((*s).c.y, (*s).d.xyz);
    (*s).c = vec4<f32>(x.x, now, 0.0, 0.0);
    // The first bar has no volatility.
    let sum = (*s).b.w + (mean - select(0.0, x.y, age > JURIK_HISTORY));
    let usual = sum / f32(min(age + 1u, JURIK_HISTORY));
    let none = now == 0.0 || usual == 0.0;
    let relative = max(min(select(now / select(usual, 1.0, none), 0.0, none), n.b.x), 1.0);
    let strength = select(exp2(n.b.y * log2(relative)), 1.0, relative == 1.0);
    let held = exp2(n.a.w * sqrt(strength));
    let alpha = exp2(n.a.z * strength);
    let mild = alpha * old.z;
    let error = n.a.x * (*s).b.x - n.a.y * mild;
    let missing = mild + n.b.z * error - old.w;
    let speed = missing * (1.0 - alpha) * (1.0 - alpha) + alpha * alpha * (*s).b.y;
    let upper = select(held * old.x, 0.0, old.x < 0.0);
    let lower = select(held * old.y, 0.0, old.y > 0.0);
    // On a constant price, f64 rounds a band to the price; f32 distances would go on shrinking.
    let rounded = abs(x.x) * 1.1102230e-16;
    let bands = vec2<f32>(select(upper, 0.0, abs(upper) < rounded), select(lower, 0.0, abs(lower) < rounded));
    (*s).a = vec4<f32>(bands, mild, old.w + speed);
    (*s).b = vec4<f32>(error, speed, mean, sum);
    return vec4<f32>(x.x + (*s).a.w, mean, 0.0, 0.0);
}

// MAMA/FAMA: EMAs adapted to the rate of change of the phase. Constants: fast and slow factor. State: both EMAs, the last
// phase.
fn mama(s: ptr<function, State>, n: Constants, x: vec4<f32>) -> vec4<f32> {
    let turn = (*s).a.z - x.y;
    let alpha = select(n.a.x, max(n.a.x / max(turn, 1.0), n.a.y), turn > 1.0);
    let first = (*s).a.x + alpha * (x.x - (*s).a.x);
    let second = (*s).a.y + 0.5 * alpha * (first - (*s).a.y);
    (*s).a = vec4<f32>(first, second, x.y, 0.0);
    return (*s).a;
}

// Even better sine wave: a smoothed high-pass relative to its power. Constants: alpha, (1 + alpha) / 2, gain of the smoother,
// decay of its change.
// State: the price, the high-pass, the last two results; the last change.
fn even_better(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let high_pass = n.a.y * select(x.x - old.x, 0.0, age == 0u) + n.a.x * old.y;
    let v = n.a.w * (*s).b.x + n.a.z * (0.5 * (high_pass + old.y) - old.z);
    let f = old.z + v;
    // Scaled by the largest: squares of small numbers underflow.
    let most = max(abs(f), max(abs(old.z), abs(old.w)));
    let unit = vec3<f32>(f, old.z, old.w) / select(most, 1.0, most == 0.0);
    let power = dot(unit, unit) / 3.0;
    let share = (unit.x + unit.y + unit.z) / 3.0 / sqrt(max(power, 1e-30));
    (*s).a = vec4<f32>(x.x, high_pass, f, old.z);
    (*s).b.x = v;
    return vec4<f32>(share);
}

// RSX: smoothed moves (x) relative to smoothed absolute moves (y); 50 during the warm-up. Constants: factor, warm-up bars.
// State: the value, bars since it began (it begins anew when nothing moved while it warmed up), did anything move; the two
// means of each of three smoothers.
fn rsx(s: ptr<function, State>, n: Constants, x: vec4<f32>) -> vec4<f32> {
    // Where it begins, there is no move yet, and the smoothers stay as they are.
    let begins = (*s).a.y == 0.0;
    let k = select(n.a.x, 0.0, begins);
    let warm = n.a.y;
    let change = 100.0 * (x.x - (*s).a.x);
    let a0 = (*s).b.xy + k * (vec2<f32>(change, abs(change)) - (*s).b.xy);
    let b0 = (*s).b.zw + k * (a0 - (*s).b.zw);
    let a1 = (*s).c.xy + k * (1.5 * a0 - 0.5 * b0 - (*s).c.xy);
    let b1 = (*s).c.zw + k * (a1 - (*s).c.zw);
    let a2 = (*s).d.xy + k * (1.5 * a1 - 0.5 * b1 - (*s).d.xy);
    let b2 = (*s).d.zw + k * (a2 - (*s).d.zw);
    let result = 1.5 * a2 - 0.5 * b2;
    let age = min((*s).a.y + 1.0, warm + 1.0);
    let moves_now = age <= warm && change != 0.0 && !begins;
    let moved = select(select((*s).a.z, 0.0, begins), 1.0, moves_now);
    let idle = begins || age <= warm || result.y <= 1e-10;
    let share = clamp((result.x / max(result.y, 1e-30) + 1.0) * 50.0, 0.0, 100.0);
    let anew = age == warm && moved == 0.0 && !begins;
    (*s).a = vec4<f32>(x.x, select(age, 0.0, anew), moved, 0.0);
    (*s).b = vec4<f32>(a0, b0);
    (*s).c = vec4<f32>(a1, b1);
    (*s).d = vec4<f32>(a2, b2);
    return vec4<f32>(select(share, 50.0, idle));
}

// The value, or the decayed max before. Constants: decay factor per bar, decrement per bar. State: the decayed max, the total
// decrement, bars since: without decay, repeated decrements would round each time.
fn decay(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let kept = old.x * n.a.x;
    let bars = old.z + 1.0;
    let less = select(old.y * n.a.x + n.a.y, n.a.y * bars, n.a.x == 1.0);
    let anew = age == 0u || x.x > kept - less;
    (*s).a = select(vec4<f32>(kept, less, bars, 0.0), vec4<f32>(x.x, 0.0, 0.0, 0.0), anew);
    return vec4<f32>((*s).a.x - (*s).a.y);
}

// A smoothed ratio, clamped just inside 1.
fn clamped(s: ptr<function, State>, x: vec4<f32>) -> vec4<f32> {
    let y = 0.67 * (*s).a.x + 0.66 * (x.x - 0.5);
    (*s).a.x = select(select(y, 0.999, y > 0.99), -0.999, y < -0.99);
    return (*s).a;
}
