// Trajectory integration: RK4 steps with event detection (ground, apex), one launch per invocation; trajectory/*.rs in f32.
// Parameters: launches, first and last step. The layout of the words is documented in trajectory/op.rs.
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> given: array<f32>;
@group(0) @binding(2) var<storage, read_write> states: array<f32>;

const NODES = 32u;
const DRAG = 32u;
const LIFT = 1056u;

struct State { position: vec3<f32>, speed: vec3<f32>, spin: f32 }

fn plus(s: State, dt: f32, k: State) -> State {
    return State(s.position + dt * k.position, s.speed + dt * k.speed, s.spin + dt * k.spin);
}

fn share_of_wind(height: f32) -> f32 {
    let kind = given[15];
    if (kind == 0.0) { return 1.0; }
    let line = given[11] * log(height + given[10]) - given[12];
    if (kind == 1.0) { return exp(line); }
    return line;
}

// Table cell and fraction within it along one axis: first node, steps per unit, last node, last cell.
fn cell(value: f32, axis: u32) -> vec2<f32> {
    let at = clamp((value - given[axis]) * given[axis + 1u], 0.0, given[axis + 2u]);
    let whole = min(floor(at), given[axis + 3u]);
    return vec2<f32>(whole, at - whole);
}

fn mix_nodes(at: u32, a: f32, b: f32) -> f32 {
    let low = given[at] + b * (given[at + 1u] - given[at]);
    let high = given[at + NODES] + b * (given[at + NODES + 1u] - given[at + NODES]);
    return low + a * (high - low);
}

fn slope(s: State, axis: vec3<f32>) -> State {
    let height = clamp(s.position.y, 0.0, given[13]);
    let thin = 1.0 + height * (given[4] + height * (given[5] + height * (given[6] + height * given[7])));
    let share = share_of_wind(height);
    let air = s.speed - vec3<f32>(given[8] * share, 0.0, given[9] * share);
    let speed = sqrt(dot(air, air));
    let across = cell(given[2] * thin * speed, 16u);
    let along = cell(given[3] * s.spin / max(speed, given[14]), 20u);
    let at = u32(across.x) * NODES + u32(along.x);
    let push = given[1] * thin * speed;
    let back = push * mix_nodes(DRAG + at, across.y, along.y);
    let side = push * mix_nodes(LIFT + at, across.y, along.y);
    let force = side * cross(axis, air) - back * air - vec3<f32>(0.0, given[0], 0.0);
    return State(s.speed, force, -given[24] * s.spin);
}

fn step(s: State, k1: State, axis: vec3<f32>, dt: f32) -> State {
    let half = dt * 0.5;
    let k2 = slope(plus(s, half, k1), axis);
    let k3 = slope(plus(s, half, k2), axis);
    let k4 = slope(plus(s, dt, k3), axis);
    let sum = plus(plus(plus(k1, 2.0, k2), 2.0, k3), 1.0, k4);
    return plus(s, dt / 6.0, sum);
}

// Cubic Hermite interpolation over a step: value, slope, value, slope.
fn cubic(c: vec4<f32>, share: f32) -> f32 {
    let second = 3.0 * (c.z - c.x) - 2.0 * c.y - c.w;
    let third = 2.0 * (c.x - c.z) + c.y + c.w;
    return c.x + share * (c.y + share * (second + share * third));
}

fn root(c: vec4<f32>, from_share: f32) -> f32 {
    var low = from_share;
    var high = 1.0;
    for (var n = 0; n < 22; n++) {
        let middle = 0.5 * (low + high);
        if (cubic(c, middle) > 0.0) { low = middle; } else { high = middle; }
    }
    return 0.5 * (low + high);
}

// A fraction at which the cubic is above zero; -1 if it only falls.
fn above(c: vec4<f32>) -> f32 {
    var share = 1.0;
    for (var n = 0; n < 22; n++) {
        if (cubic(c, share) > 0.0) { return share; }
        share = share * 0.5;
    }
    if (c.x > 0.0) { return 0.0; }
    return -1.0;
}

fn keep(at: u32, s: State) {
    states[at] = s.position.x;
    states[at + 1u] = s.position.y;
    states[at + 2u] = s.position.z;
    states[at + 3u] = s.speed.x;
    states[at + 4u] = s.speed.y;
    states[at + 5u] = s.speed.z;
    states[at + 6u] = s.spin;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * groups.x + group.x) * 64u + lane;
    if (i >= p.v[0].x) { return; }
    let at = i * 16u;
    if (states[at + 10u] > 0.0) { return; }
    var s = State(
        vec3<f32>(states[at], states[at + 1u], states[at + 2u]),
        vec3<f32>(states[at + 3u], states[at + 4u], states[at + 5u]),
        states[at + 6u],
    );
    let axis = vec3<f32>(states[at + 12u], states[at + 13u], states[at + 14u]);
    let whole = given[25];
    let limit = given[26];
    var apex = vec2<f32>(states[at + 8u], states[at + 9u]);
    var k = slope(s, axis);
    var number = p.v[0].y;
    var status = 0.0;
    var time = f32(number) * whole;
    while (number < p.v[0].z && status == 0.0) {
        let dt = min(whole, limit - time);
        let next = step(s, k, axis, dt);
        let next_k = slope(next, axis);
        if (s.speed.y > 0.0 && next.speed.y <= 0.0) {
            let rise = vec4<f32>(s.speed.y, dt * k.speed.y, next.speed.y, dt * next_k.speed.y);
            let dt_up = dt * root(rise, 0.0);
            let up = step(s, k, axis, dt_up);
            let fall = slope(up, axis).speed.y;
            let rest = select(0.0, -up.speed.y / fall, fall < 0.0);
            let top = up.position.y + rest * (up.speed.y + 0.5 * rest * fall);
            if (top > apex.x) { apex = vec2<f32>(top, time + dt_up + rest); }
        }
        number = number + 1u;
        if (next.position.y < 0.0) {
            let drop = vec4<f32>(s.position.y, dt * s.speed.y, next.position.y, dt * next.speed.y);
            let before = above(drop);
            var dt_down = 0.0;
            if (before >= 0.0) { dt_down = dt * root(drop, before); }
            let down = step(s, k, axis, dt_down);
            let down_k = slope(down, axis);
            var rest = 0.0;
            if (down.speed.y < 0.0) { rest = clamp(-down.position.y / down.speed.y, -dt, dt); }
            s = plus(down, rest, down_k);
            s.position.y = 0.0;
            time = time + dt_down + rest;
            status = 1.0;
        } else {
            s = next;
            k = next_k;
            time = f32(number) * whole;
            if (time >= limit) {
                time = limit;
                status = 2.0;
            }
        }
    }
    keep(at, s);
    states[at + 7u] = f32(number);
    states[at + 8u] = apex.x;
    states[at + 9u] = apex.y;
    states[at + 10u] = status;
    states[at + 11u] = time;
}
