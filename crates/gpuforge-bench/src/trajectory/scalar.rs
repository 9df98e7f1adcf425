//! Scalar reference of the ball flight: one launch after the other with RK4 steps; the peer of the SIMD lanes, and the source
//! of the constants of other peers.

use std::f64::consts::PI;

use gpuforge::workloads::trajectory::{Coefficients, FlightSetup, IntegrationMethod, Launch};
use serde_json::{Value, json};

type State = [f64; 7];

/// Constants of a set-up.
pub(super) struct FlightConstants<'a> {
    coefficients: &'a Coefficients,
    density: f64,
    viscosity: f64,
    radius: f64,
    push: f64,
    gravity: f64,
    decay: f64,
    wind: [f64; 2],
    thinning: [f64; 4],
}

impl FlightConstants<'_> {
    pub(super) fn of(setup: &FlightSetup) -> FlightConstants<'_> {
        let density = setup.air.density();
        let from = setup.wind.from.to_radians();
        // The standard atmosphere: (1 - Lh/T)^(g/RL - 1), as a series.
        let (x, n) = (-0.0065 / (setup.air.temperature + 273.15), 9.80665 / (287.058 * 0.0065) - 1.0);
        let mut thinning = [0.0; 4];
        let mut term = 1.0;
        for (i, to) in thinning.iter_mut().enumerate() {
            term *= (n - i as f64) * x / (i as f64 + 1.0);
            *to = term;
        }
        FlightConstants {
            coefficients: &setup.coefficients,
            density,
            viscosity: setup.air.viscosity(),
            radius: setup.ball.radius,
            push: density * PI * setup.ball.radius * setup.ball.radius / (2.0 * setup.ball.mass),
            gravity: setup.gravity,
            decay: setup.ball.spin_decay,
            wind: [-setup.wind.speed * from.cos(), -setup.wind.speed * from.sin()],
            thinning,
        }
    }

    pub(super) fn json(&self) -> Value {
        let axis =
            |a: gpuforge::workloads::trajectory::coefficients::TableAxis| json!([a.first, a.step, a.nodes]);
        json!({
            "drag": self.coefficients.drag, "lift": self.coefficients.lift,
            "re": axis(self.coefficients.reynolds), "spin": axis(self.coefficients.spin),
            "density": self.density, "viscosity": self.viscosity, "radius": self.radius, "push": self.push,
            "gravity": self.gravity, "decay": self.decay, "wind": self.wind, "thinning": self.thinning,
        })
    }

    fn look_up(&self, reynolds: f64, spin: f64) -> (f64, f64) {
        let Coefficients { reynolds: across, spin: along, drag, lift } = self.coefficients;
        let i = ((reynolds - across.first) / across.step).clamp(0.0, (across.nodes - 1) as f64);
        let j = ((spin - along.first) / along.step).clamp(0.0, (along.nodes - 1) as f64);
        let (a, b) = ((i as usize).min(across.nodes - 2), (j as usize).min(along.nodes - 2));
        let (i, j) = (i - a as f64, j - b as f64);
        let mix = |nodes: &[f64]| {
            let node = |a: usize, b: usize| nodes.get(a * along.nodes + b).copied().unwrap_or(0.0);
            let low = node(a, b) + j * (node(a, b + 1) - node(a, b));
            let high = node(a + 1, b) + j * (node(a + 1, b + 1) - node(a + 1, b));
            low + i * (high - low)
        };
        (mix(drag), mix(lift))
    }

    fn slope(&self, [_, y, _, u, v, w, spin]: State, [ax, ay, az]: [f64; 3]) -> State {
        let h = y.clamp(0.0, 10_000.0);
        let [t1, t2, t3, t4] = self.thinning;
        let thin = 1.0 + h * (t1 + h * (t2 + h * (t3 + h * t4)));
        let [wind_x, wind_z] = self.wind;
        let (ru, rw) = (u - wind_x, w - wind_z);
        let speed = (ru * ru + v * v + rw * rw).sqrt();
        let reynolds = self.density * thin * speed * 2.0 * self.radius / self.viscosity;
        let (drag, lift) = self.look_up(reynolds, self.radius * spin / speed.max(1e-6));
        let push = self.push * thin * speed;
        let (back, side) = (push * drag, push * lift);
        [
            u,
            v,
            w,
            side * (ay * rw - az * v) - back * ru,
            side * (az * ru - ax * rw) - back * v - self.gravity,
            side * (ax * v - ay * ru) - back * rw,
            -spin / self.decay,
        ]
    }

    fn step(&self, s: State, axis: [f64; 3], far: f64) -> State {
        let plus = |k: State, far: f64| -> State { std::array::from_fn(|i| s[i] + far * k[i]) };
        let k1 = self.slope(s, axis);
        let k2 = self.slope(plus(k1, far / 2.0), axis);
        let k3 = self.slope(plus(k2, far / 2.0), axis);
        let k4 = self.slope(plus(k3, far), axis);
        std::array::from_fn(|i| s[i] + far / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
    }
}

/// Height, velocity, axis and radians per second of a launch with backspin.
pub(super) fn start(launch: &Launch) -> [f64; 8] {
    let (up, aside, tilt) =
        (launch.angle.to_radians(), launch.azimuth.to_radians(), launch.tilt.to_radians());
    let ahead = [up.cos() * aside.cos(), up.sin(), up.cos() * aside.sin()];
    let right = [-aside.sin(), 0.0, aside.cos()];
    let lift = [-up.sin() * aside.cos(), up.cos(), -up.sin() * aside.sin()];
    let axis = |i: usize| tilt.cos() * right[i] - tilt.sin() * lift[i];
    let [u, v, w] = ahead.map(|part| launch.speed * part);
    [launch.height, u, v, w, axis(0), axis(1), axis(2), launch.spin * PI / 30.0]
}

/// Where a launch lands.
pub(super) fn fly(constants: &FlightConstants<'_>, setup: &FlightSetup, launch: &Launch) -> [f64; 2] {
    let IntegrationMethod::Rk4 { step } = setup.method else { return [f64::NAN; 2] };
    let [height, u, v, w, ax, ay, az, spin] = start(launch);
    let mut state = [0.0, height, 0.0, u, v, w, spin];
    let mut time = 0.0;
    while time < setup.time_limit {
        let next = constants.step(state, [ax, ay, az], step);
        if next[1] < 0.0 {
            // The height falls almost evenly within a step.
            let mut far = step * state[1] / (state[1] - next[1]);
            for _ in 0..3 {
                let there = constants.step(state, [ax, ay, az], far);
                far -= there[1] / there[4];
            }
            let landed = constants.step(state, [ax, ay, az], far);
            return [landed[0], landed[2]];
        }
        state = next;
        time += step;
    }
    [state[0], state[2]]
}
