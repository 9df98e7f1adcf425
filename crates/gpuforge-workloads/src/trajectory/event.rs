//! What happens to a flight after a step? It goes on, is repeated with another step, or has ended.

use super::{
    Method, Profile, Setup,
    launch::{END, End, Status},
    model::State,
    step::Stepped,
};

/// An estimated error below this lets the step be doubled: it grows with the fifth power, and stays below a half.
pub(super) const CALM: f64 = 1.0 / 64.0;
/// Steps of the adaptive method in seconds: the first where wind changes with height, which must not jump over the slow air
/// at the ground; the first elsewhere; and the longest.
const THROUGH_SHEAR: f64 = 1.0 / 1024.0;
const FIRST: f64 = 1.0 / 64.0;
const LONGEST: f64 = 0.125;
/// How often the first step may be halved in all.
const HALVINGS: i32 = 16;
/// How much of the tolerance one step may use by its own estimate: a flight has some dozens.
const PER_STEP: f64 = 1.0 / 64.0;
/// Where the cells of a table meet, forces have corners that an estimate may not see. What they cost grows with the square of
/// the step: steps of at most `sqrt(CORNERS * tolerance)` keep it well below the tolerance for a golf ball (measured by
/// `tests/trajectory.rs`).
const CORNERS: f64 = 5.0;

/// What all flights of a batch have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// The first step of a flight, and the longest.
    pub(super) first: f64,
    longest: f64,
    /// When every flight ends.
    pub(super) limit: f64,
    /// One over the error that a step may have.
    pub(super) strict: f64,
}

impl Rule {
    pub(super) fn of(setup: &Setup) -> Rule {
        let limit = setup.time_limit;
        match setup.method {
            Method::Rk4 { step } => Rule { first: step, longest: step, limit, strict: 0.0 },
            Method::Adaptive { tolerance } => {
                let table = &setup.coefficients;
                let corners = !setup.air.vacuum && (table.reynolds.nodes > 2 || table.spin.nodes > 2);
                let longest = if corners { (CORNERS * tolerance).sqrt().min(LONGEST) } else { LONGEST };
                let first = if setup.wind.profile == Profile::Uniform { FIRST } else { THROUGH_SHEAR };
                Rule { first: first.min(longest), longest, limit, strict: 1.0 / (PER_STEP * tolerance) }
            }
        }
    }
}

/// What a step was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// To get on.
    On,
    /// To find an apex; it is taken back afterwards.
    Apex,
    /// To reach the ground.
    Ground,
}

/// What is known about one flight beside its state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    /// Which launch.
    pub(super) row: usize,
    aim: Aim,
    /// The step before it was cut short for an event.
    whole: f64,
    /// The apex of this step is known.
    past: bool,
    apex: f64,
    apex_time: f64,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// The new state holds; the next step.
    Go(f64),
    /// The old state holds; another step.
    Again(f64),
    /// It is over.
    Over(End),
}

/// A step that was taken: from where, when, over how many seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) state: State,
    pub(super) slope: State,
    pub(super) time: f64,
    pub(super) far: f64,
    /// Steps before this one.
    pub(super) steps: f64,
}

impl Flight {
    pub(super) fn new(row: usize, height: f64) -> Flight {
        Flight { row, aim: Aim::On, whole: 0.0, past: false, apex: height, apex_time: 0.0 }
    }

    /// Was the step cut short for an event?
    pub(super) fn aims(&self) -> bool {
        self.aim != Aim::On
    }

    /// Decides.
    pub(super) fn settle(&mut self, before: &Taken, after: &Stepped, rule: &Rule, adaptive: bool) -> Next {
        match self.aim {
            Aim::On => self.plain(before, after, rule, adaptive),
            Aim::Apex => {
                // The vertical speed is nearly zero: to the apex it falls evenly.
                let (s, k) = (after.state, after.slope);
                let rest = if k.v < 0.0 { -s.v / k.v } else { 0.0 };
                let top = s.y + rest * (s.v + 0.5 * rest * k.v);
                if top > self.apex {
                    (self.apex, self.apex_time) = (top, before.time + before.far + rest);
                }
                (self.aim, self.past) = (Aim::On, true);
                Next::Again(self.whole)
            }
            Aim::Ground => {
                let (s, k) = (after.state, after.slope);
                let rest = fall(s.y, s.v, k.v);
                let state = State { y: 0.0, ..s.plus(rest, k).plus(0.5 * rest * rest, place_only(k)) };
                Next::Over(self.end(
                    state,
                    before.time + before.far + rest,
                    before.steps + 1.0,
                    Status::Landed,
                ))
            }
        }
    }

    fn plain(&mut self, before: &Taken, after: &Stepped, rule: &Rule, adaptive: bool) -> Next {
        let Rule { limit, longest, .. } = *rule;
        let Taken { state: s, slope: k, time, far, steps } = *before;
        // An error that is no number is too large as well.
        if adaptive && (after.error > 1.0 || after.error.is_nan()) {
            let least = rule.first * 0.5f64.powi(HALVINGS);
            return match far * 0.5 < least {
                true => Next::Over(self.end(s, time, steps, Status::StepTooSmall)),
                false => Next::Again(far * 0.5),
            };
        }
        if !self.past && s.v > 0.0 && after.state.v <= 0.0 {
            let share = root([s.v, far * k.v, after.state.v, far * after.slope.v], 0.0);
            (self.aim, self.whole) = (Aim::Apex, far);
            return Next::Again(share * far);
        }
        if after.state.y < 0.0 {
            let y = [s.y, far * s.v, after.state.y, far * after.state.v];
            (self.aim, self.whole) = (Aim::Ground, far);
            return Next::Again(above(y).map_or(0.0, |from| root(y, from)) * far);
        }
        self.past = false;
        if time + far >= limit {
            return Next::Over(self.end(after.state, time + far, steps + 1.0, Status::TimedOut));
        }
        let grows = adaptive && after.error < CALM;
        Next::Go(if grows { (far * 2.0).min(longest) } else { far })
    }

    fn end(&self, s: State, time: f64, steps: f64, status: Status) -> End {
        let status = if s.is_finite() { status } else { Status::Diverged };
        let end: [f64; END] =
            [time, s.x, s.y, s.z, s.u, s.v, s.w, s.spin, self.apex, self.apex_time, status.number(), steps];
        end
    }
}

/// Velocities as what a place changes by in a second squared: the second term of its series.
fn place_only(k: State) -> State {
    State { x: k.u, y: k.v, z: k.w, ..State::default() }
}

/// Seconds until a height is zero that changes with this speed and acceleration; it is nearly zero.
fn fall(height: f64, speed: f64, acceleration: f64) -> f64 {
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

/// The cubic through both ends of a step (value, slope; value, slope) at a share of it.
fn cubic([a, da, b, db]: [f64; 4], share: f64) -> f64 {
    let c = 3.0 * (b - a) - 2.0 * da - db;
    let d = 2.0 * (a - b) + da + db;
    a + share * (da + share * (c + share * d))
}

/// A share at which the cubic, which begins at or above zero, is above it; `None` if it only falls.
fn above(curve: [f64; 4]) -> Option<f64> {
    (0..40).map(|n| 0.5f64.powi(n)).chain([0.0]).find(|share| cubic(curve, *share) > 0.0)
}

/// Where the cubic that is above zero at `from` and not above it at 1 crosses it: halved 40 times, a few hundred
/// operations for an event that a flight has twice.
fn root(curve: [f64; 4], from: f64) -> f64 {
    let (mut low, mut high) = (from, 1.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if cubic(curve, middle) > 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cubic_meets_both_ends_and_its_root_is_found() {
        // (1 - 2t)(1 + t) = 1 - t - 2t²
        let curve = [1.0, -1.0, -2.0, -5.0];
        assert_eq!((cubic(curve, 0.0), cubic(curve, 1.0)), (1.0, -2.0));
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
    fn the_rest_of_a_fall_is_exact_where_gravity_is_even() {
        let rest = fall(1e-3, -20.0, -9.8);
        assert!((1e-3 - 20.0 * rest - 4.9 * rest * rest).abs() < 1e-15);
        assert_eq!(fall(0.0, 0.0, -9.8), 0.0);
    }
}
