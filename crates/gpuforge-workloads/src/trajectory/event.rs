//! Event detection and adaptive step control: after each step a flight continues, repeats with another step, or ends.

use super::{
    FlightSetup, IntegrationMethod, ShearProfile,
    flight_model::State,
    integrator::StepResult,
    launch::{END, End, FlightStatus},
};

/// Relative error below which the step is doubled: the error grows with the fifth power and stays below a half.
pub(super) const DOUBLE_BELOW: f64 = 1.0 / 64.0;
/// Adaptive steps in seconds: the first with wind shear, which must not skip the slow air near the ground; the first otherwise; and
/// the longest.
const FIRST_WITH_SHEAR: f64 = 1.0 / 1024.0;
const FIRST: f64 = 1.0 / 64.0;
const MAX_STEP: f64 = 0.125;
/// Most halvings of the first step.
const MAX_HALVINGS: i32 = 16;
/// Share of the tolerance per step by its own estimate: a flight has dozens of steps.
const PER_STEP: f64 = 1.0 / 64.0;
/// The forces have kinks at table cell borders, which the error estimate may miss. Their error grows with the square of the step:
/// steps of at most `sqrt(KINKS * tolerance)` keep it well below the tolerance for a golf ball (`tests/trajectory.rs`).
const KINKS: f64 = 5.0;

/// Step control parameters of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepControl {
    /// First and longest step.
    pub(super) first: f64,
    longest: f64,
    /// Time limit.
    pub(super) limit: f64,
    /// Inverse of the error allowed per step.
    pub(super) inv_tolerance: f64,
}

impl StepControl {
    pub(super) fn of(setup: &FlightSetup) -> StepControl {
        let limit = setup.time_limit;
        match setup.method {
            IntegrationMethod::Rk4 { step } => {
                StepControl { first: step, longest: step, limit, inv_tolerance: 0.0 }
            }
            IntegrationMethod::Adaptive { tolerance } => {
                let table = &setup.coefficients;
                let has_kinks = !setup.air.vacuum && (table.reynolds.nodes > 2 || table.spin.nodes > 2);
                let longest = if has_kinks { (KINKS * tolerance).sqrt().min(MAX_STEP) } else { MAX_STEP };
                let first =
                    if setup.wind.profile == ShearProfile::Uniform { FIRST } else { FIRST_WITH_SHEAR };
                StepControl {
                    first: first.min(longest),
                    longest,
                    limit,
                    inv_tolerance: 1.0 / (PER_STEP * tolerance),
                }
            }
        }
    }
}

/// Target of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepTarget {
    /// Regular step.
    On,
    /// Shortened to locate an apex; repeated in full afterwards.
    Apex,
    /// Shortened to the ground.
    Ground,
}

/// Event state of one flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    /// Row of the launch.
    pub(super) row: usize,
    aim: StepTarget,
    /// The full step before it was shortened for an event.
    whole: f64,
    /// The apex of this step is already located.
    past: bool,
    apex: f64,
    apex_time: f64,
}

/// Decision after a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// Accept the new state; next step size.
    Go(f64),
    /// Reject; repeat with another step size.
    Again(f64),
    /// The flight ended.
    Over(End),
}

/// Start of a step: state, derivatives, time, step size.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepStart {
    pub(super) state: State,
    pub(super) slope: State,
    pub(super) time: f64,
    pub(super) dt: f64,
    /// Steps before this one.
    pub(super) steps: f64,
}

impl Flight {
    pub(super) fn new(row: usize, height: f64) -> Flight {
        Flight { row, aim: StepTarget::On, whole: 0.0, past: false, apex: height, apex_time: 0.0 }
    }

    /// Is the current step shortened for an event?
    pub(super) fn targets_event(&self) -> bool {
        self.aim != StepTarget::On
    }

    /// Decides after a step.
    pub(super) fn after_step(
        &mut self,
        before: &StepStart,
        after: &StepResult,
        rule: &StepControl,
        adaptive: bool,
    ) -> Next {
        match self.aim {
            StepTarget::On => self.regular_step(before, after, rule, adaptive),
            StepTarget::Apex => {
                // The vertical speed is nearly zero: the apex follows from constant acceleration.
                let (s, k) = (after.state, after.slope);
                let rest = if k.v < 0.0 { -s.v / k.v } else { 0.0 };
                let top = s.y + rest * (s.v + 0.5 * rest * k.v);
                if top > self.apex {
                    (self.apex, self.apex_time) = (top, before.time + before.dt + rest);
                }
                (self.aim, self.past) = (StepTarget::On, true);
                Next::Again(self.whole)
            }
            StepTarget::Ground => {
                let (s, k) = (after.state, after.slope);
                let rest = time_to_ground(s.y, s.v, k.v);
                let state = State { y: 0.0, ..s.plus(rest, k).plus(0.5 * rest * rest, position_only(k)) };
                Next::Over(self.end(
                    state,
                    before.time + before.dt + rest,
                    before.steps + 1.0,
                    FlightStatus::Landed,
                ))
            }
        }
    }

    fn regular_step(
        &mut self,
        before: &StepStart,
        after: &StepResult,
        rule: &StepControl,
        adaptive: bool,
    ) -> Next {
        let StepControl { limit, longest, .. } = *rule;
        let StepStart { state: s, slope: k, time, dt, steps } = *before;
        // A NaN error is too large as well.
        if adaptive && (after.error > 1.0 || after.error.is_nan()) {
            let min_step = rule.first * 0.5f64.powi(MAX_HALVINGS);
            return match dt * 0.5 < min_step {
                true => Next::Over(self.end(s, time, steps, FlightStatus::StepTooSmall)),
                false => Next::Again(dt * 0.5),
            };
        }
        if !self.past && s.v > 0.0 && after.state.v <= 0.0 {
            let share = root([s.v, dt * k.v, after.state.v, dt * after.slope.v], 0.0);
            (self.aim, self.whole) = (StepTarget::Apex, dt);
            return Next::Again(share * dt);
        }
        if after.state.y < 0.0 {
            let y = [s.y, dt * s.v, after.state.y, dt * after.state.v];
            (self.aim, self.whole) = (StepTarget::Ground, dt);
            return Next::Again(above(y).map_or(0.0, |from| root(y, from)) * dt);
        }
        self.past = false;
        if time + dt >= limit {
            return Next::Over(self.end(after.state, time + dt, steps + 1.0, FlightStatus::TimedOut));
        }
        let grows = adaptive && after.error < DOUBLE_BELOW;
        Next::Go(if grows { (dt * 2.0).min(longest) } else { dt })
    }

    fn end(&self, s: State, time: f64, steps: f64, status: FlightStatus) -> End {
        let status = if s.is_finite() { status } else { FlightStatus::Diverged };
        let end: [f64; END] =
            [time, s.x, s.y, s.z, s.u, s.v, s.w, s.spin, self.apex, self.apex_time, status.number(), steps];
        end
    }
}

/// Acceleration as the second-order term of the position.
fn position_only(k: State) -> State {
    State { x: k.u, y: k.v, z: k.w, ..State::default() }
}

/// Newton iteration for the time until a height near zero reaches the ground.
fn time_to_ground(height: f64, speed: f64, acceleration: f64) -> f64 {
    let mut rest = 0.0;
    for _ in 0..3 {
        let slope = speed + rest * acceleration;
        if slope >= 0.0 {
            return rest;
        }
        rest -= (height + rest * (speed + 0.5 * rest * acceleration)) / slope;
    }
    rest
}

/// Cubic Hermite interpolant (value, slope; value, slope) at a fraction of the step.
fn hermite([a, da, b, db]: [f64; 4], share: f64) -> f64 {
    let c = 3.0 * (b - a) - 2.0 * da - db;
    let d = 2.0 * (a - b) + da + db;
    a + share * (da + share * (c + share * d))
}

/// A fraction at which the interpolant, which begins at or above zero, is positive; `None` if it only falls.
fn above(curve: [f64; 4]) -> Option<f64> {
    (0..40).map(|n| 0.5f64.powi(n)).chain([0.0]).find(|share| hermite(curve, *share) > 0.0)
}

/// Root by bisection: the interpolant is positive at `from` and not at 1.
fn root(curve: [f64; 4], from: f64) -> f64 {
    let (mut low, mut high) = (from, 1.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if hermite(curve, middle) > 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hermite_interpolates_both_ends_and_its_root_is_found() {
        // (1 - 2t)(1 + t) = 1 - t - 2t²
        let curve = [1.0, -1.0, -2.0, -5.0];
        assert_eq!((hermite(curve, 0.0), hermite(curve, 1.0)), (1.0, -2.0));
        assert!((root(curve, 0.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_hop_within_a_step_is_followed_to_its_second_root() {
        // t(0.01 - t): up from the ground and down again.
        let hop = [0.0, 0.01, -0.99, -1.99];
        let from = above(hop).unwrap();
        assert!((root(hop, from) - 0.01).abs() < 1e-9);
        assert_eq!(above([0.0, -1.0, -1.0, -1.0]), None, "what only falls is on the ground at once");
    }

    #[test]
    fn time_to_ground_is_exact_for_constant_gravity() {
        let rest = time_to_ground(1e-3, -20.0, -9.8);
        assert!((1e-3 - 20.0 * rest - 4.9 * rest * rest).abs() < 1e-15);
        assert_eq!(time_to_ground(0.0, 0.0, -9.8), 0.0);
    }
}
