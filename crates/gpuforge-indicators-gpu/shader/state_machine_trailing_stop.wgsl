// Trailing stops, sessions, streaks and patterns: machines that compare. Comparisons are exact on integer prices: both sides are
// integers or small differences of integers.

// Parabolic SAR. A falling trend is a rising one of negated prices; the stop is kept as its distance below the extreme.
// Constants: start value, offset on reversal, then first factor, step and limit, rising and falling. State: side,
// factor, extreme, distance; high and low of the bar before.
fn parabolic(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let start = n.a.x;
    let rise = vec3<f32>(n.a.zw, n.b.x);
    let fall = n.b.yzw;
    var old = (*s).a;
    var before = (*s).b.xy;
    if (age == 1u) {
        // Falling if the low fell by more than the high rose.
        let fell = before.y - x.y;
        let falls = select((start < 0.0), (fell > 0.0 && fell > x.x - before.x), start == 0.0);
        let level = select(abs(start), select(before.y, before.x, falls), start == 0.0);
        let extreme = select(x.x, -x.y, falls);
        let side = sign_of(!falls);
        old = vec4<f32>(side, select(rise.x, fall.x, falls), extreme, extreme - side * level);
        before = x.xy;
    }
    let rising = old.x > 0.0;
    let top = select(-x.y, x.x, rising);
    let bottom = select(-x.x, x.y, rising);
    let top_before = select(-before.y, before.x, rising);
    let bottom_before = select(-before.x, before.y, rising);

    // The trend goes on: the stop follows the extreme, the faster the more often that was exceeded.
    let factors = select(fall, rise, rising);
    let follow = select(old.y, min(old.y + factors.y, factors.z), top > old.z);
    let reached = max(top, old.z);
    let gap = max((old.w + (reached - old.z)) * (1.0 - follow), reached - min(bottom_before, bottom));

    // It turns: from the extreme on, seen from the other side.
    let farthest = max(max(old.z, top_before), top);
    let turn = farthest + old.x * farthest * n.a.y;
    let anew = select(rise.x, fall.x, rising);
    let other = max((turn - bottom) * (1.0 - anew), max(top_before, top) - bottom);

    let stays = old.z - bottom < old.w;
    (*s).a = select(vec4<f32>(-old.x, anew, -bottom, other), vec4<f32>(old.x, follow, reached, gap), stays);
    (*s).b = vec4<f32>(x.xy, 0.0, 0.0);
    return vec4<f32>(old.x * select(turn, old.z - old.w, stays), (*s).a.x, 0.0, 0.0);
}

// Ratchet bands (supertrend): they only tighten while the price stays inside; outputs the one behind the price. State: both bands, the close, the side.
fn ratchet(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let later = age > 0u;
    let upper = select(x.x, old.x, later && x.x >= old.x && old.z <= old.x);
    let lower = select(x.y, old.y, later && x.y <= old.y && old.z >= old.y);
    let stays = x.z >= lower;
    let turns = x.z > upper;
    let rising = !later || select(turns, stays, old.w > 0.0);
    (*s).a = vec4<f32>(upper, lower, x.z, sign_of(rising));
    return vec4<f32>(select(upper, lower, rising), (*s).a.w, 0.0, 0.0);
}

// The same, but the close is compared with the bands of the bar before.
fn profit_max(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let later = age > 0u;
    let rising = !later || x.z > old.x || (old.w > 0.0 && x.z >= old.y);
    let lower = select(x.y, max(x.y, old.y), later && old.z > old.y);
    let upper = select(x.x, min(x.x, old.x), later && old.z < old.x);
    (*s).a = vec4<f32>(upper, lower, x.z, sign_of(rising));
    return vec4<f32>(select(upper, lower, rising), (*s).a.w, 0.0, 0.0);
}

// Swings of at least a share a / b of their extreme and some bars. Constants: a, b, bars. State: extreme, side, its bar.
fn zigzag(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let now = f32(age);
    var rising = old.y > 0.0;
    let back = select(x.x - old.x, old.x - x.y, rising);
    let turns = back * n.a.y >= old.x * n.a.x && now - old.z >= n.a.z;
    rising = rising != turns;
    let reached = select(x.y, x.x, rising);
    // Of equal extremes the later one is the pivot.
    let further = (reached - old.x) * sign_of(rising) >= 0.0;
    let next_state = select(vec4<f32>(old.x, old.y, old.z, 0.0), vec4<f32>(reached, sign_of(rising), now, 0.0), turns || further);
    // It begins falling from the first low.
    (*s).a = select(next_state, vec4<f32>(x.y, -1.0, 0.0, 0.0), age == 0u);
    return (*s).a;
}

// High, low and close of the session before; NaN during the first. The last input is a number that differs between sessions.
// State: high, low and close of this session, and its number; those of the one before.
fn session(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let same = age > 0u && x.w == old.w;
    // Computed at run time: compilers reject a constant NaN.
    let none = vec4<f32>(bitcast<f32>(0x7fc00000u | (age & 0u)));
    (*s).b = select(select(old, none, age == 0u), (*s).b, same);
    let highest = select(x.x, max(old.x, x.x), same);
    let lowest = select(x.y, min(old.y, x.y), same);
    (*s).a = vec4<f32>(highest, lowest, x.z, x.w);
    return (*s).b;
}

// Bands that trail a value: the one in force, both, and the trend. A crossing compares each bar with the band of the bar
// before it, in both directions; the first bar has no band before it, the second none before that. State: long and short
// band, and both a bar before; the value, the trend.
fn qqe(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = (*s).a;
    let before = (*s).b.x;
    let upper = x.x + x.y;
    let lower = x.x - x.y;
    let any = age > 0u;
    let long = select(lower, max(lower, old.x), any && before > old.x && x.x > old.x);
    let short = select(upper, min(upper, old.y), any && before < old.y && x.x < old.y);
    let falls = (x.x > old.x && before < old.z) || (x.x <= old.x && before >= old.z);
    let rises = (x.x > old.y && before < old.w) || (x.x <= old.y && before >= old.w);
    let crosses = age > 1u;
    var trend = select((*s).b.y, 1.0, !any);
    trend = select(trend, -1.0, crosses && falls);
    trend = select(trend, 1.0, crosses && rises);
    (*s).a = vec4<f32>(long, short, old.xy);
    (*s).b = vec4<f32>(x.x, trend, 0.0, 0.0);
    return vec4<f32>(select(short, long, trend > 0.0), long, short, trend);
}

// The last value of a bar that was not idle; 0 before the first.
fn hold(s: ptr<function, State>, x: vec4<f32>) -> vec4<f32> {
    (*s).a.x = select((*s).a.x, x.x, x.y == 0.0);
    return (*s).a;
}

// The distance of two values; exactly 0 once both are constant.
fn settled(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let still = age > 0u && x.x == (*s).a.x && x.y == (*s).a.y;
    (*s).a = x;
    return vec4<f32>(select(x.x - x.y, 0.0, still));
}

// Streak: consecutive rising (positive) or falling (negative) bars.
fn streak(s: ptr<function, State>, x: vec4<f32>) -> vec4<f32> {
    let up = max((*s).a.x, 0.0) + 1.0;
    let down = min((*s).a.x, 0.0) - 1.0;
    (*s).a.x = select(select(0.0, down, x.x < x.y), up, x.x > x.y);
    return (*s).a;
}

// Consecutive true bars. Constant: the cap.
fn yes_run(s: ptr<function, State>, n: Constants, x: vec4<f32>) -> vec4<f32> {
    (*s).a.x = select(0.0, min((*s).a.x + 1.0, n.a.x), x.x != 0.0);
    return (*s).a;
}

// 1 where a value exceeds all before it since the flag was set.
fn record(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let better = x.y != 0.0 || age == 0u || x.x > (*s).a.x;
    (*s).a.x = select((*s).a.x, x.x, better);
    return vec4<f32>(select(0.0, 1.0, better));
}

// A pattern (1 or -1) with the range of its inside bar; within three bars a close beyond that confirms it. State: the pattern
// and its range, bars left.
fn hikkake(s: ptr<function, State>, x: vec4<f32>) -> vec4<f32> {
    let old = (*s).a;
    let found = x.x != 0.0;
    let beyond = select((x.w < old.z), (x.w > old.y), old.x > 0.0);
    let confirmed = old.w > 0.0 && beyond;
    let left = select(max(old.w - 1.0, 0.0), 0.0, confirmed);
    (*s).a = select(vec4<f32>(old.xyz, left), vec4<f32>(x.xyz, 3.0), found);
    return vec4<f32>(select(select(0.0, 200.0 * old.x, confirmed), 100.0 * x.x, found));
}

// Is a close more than a fraction a / b of a body above a base? Constants: a, b.
fn climb(n: Constants, x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(select(0.0, 1.0, (x.x - x.z) * n.a.y > x.y * n.a.x));
}

// The monotone angle of two correlations, and whether it is stationary. Constant: the threshold. State: the
// last angle.
fn angle(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let last = (*s).a.x;
    var now = 90.0 + x.x * DEGREES - select(0.0, 180.0, x.y > 0.0);
    now = select(last, now, abs(x.y) > 1e-9);
    now = select(now, last, age > 0u && last - now < 270.0 && now < last);
    let still = age > 0u && abs(now - last) < n.a.x;
    (*s).a.x = now;
    return vec4<f32>(now, select(0.0, sign_of(!(now < 0.0)), still), 0.0, 0.0);
}
