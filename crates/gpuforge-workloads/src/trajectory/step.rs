//! How is one step taken? A new state, its derivatives, and how wrong the state may be.
//!
//! A step begins with the derivatives that the one before ended with: four evaluations for the classical method, six for
//! the pair of Dormand and Prince.

use super::model::{Blow, Model, State};

/// What a step brought.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stepped {
    pub(super) state: State,
    pub(super) slope: State,
    /// Estimated error, 1 where it is as large as it may be.
    pub(super) error: f64,
}

/// A method that is known when the code is compiled.
pub(super) trait Step {
    /// Does the step follow the error?
    const ADAPTIVE: bool;

    /// From a state and its derivatives over `far` seconds; `strict` is one over the error that is allowed.
    fn step<B: Blow>(model: &Model, s: State, k1: State, axis: [f64; 3], far: f64, strict: f64) -> Stepped;
}

pub(super) struct Rk4;
pub(super) struct Pair;

impl Step for Rk4 {
    const ADAPTIVE: bool = false;

    #[inline(always)]
    fn step<B: Blow>(model: &Model, s: State, k1: State, axis: [f64; 3], far: f64, _strict: f64) -> Stepped {
        let half = far * 0.5;
        let k2 = model.slope::<B>(s.plus(half, k1), axis);
        let k3 = model.slope::<B>(s.plus(half, k2), axis);
        let k4 = model.slope::<B>(s.plus(far, k3), axis);
        let sum = k1.plus(2.0, k2).plus(2.0, k3).plus(1.0, k4);
        let state = s.plus(far / 6.0, sum);
        Stepped { state, slope: model.slope::<B>(state, axis), error: 0.0 }
    }
}

/// What an error of the velocity counts for beside one of the place, in seconds: about what is left of a flight.
const AHEAD: f64 = 4.0;

impl Step for Pair {
    const ADAPTIVE: bool = true;

    /// Coefficients: J. R. Dormand and P. J. Prince, "A family of embedded Runge-Kutta formulae" (1980).
    #[inline(always)]
    fn step<B: Blow>(model: &Model, s: State, k1: State, axis: [f64; 3], far: f64, strict: f64) -> Stepped {
        let f = |state: State| model.slope::<B>(state, axis);
        let k2 = f(s.plus(far / 5.0, k1));
        let k3 = f(s.plus(far * (3.0 / 40.0), k1).plus(far * (9.0 / 40.0), k2));
        let k4 =
            f(s.plus(far * (44.0 / 45.0), k1).plus(far * (-56.0 / 15.0), k2).plus(far * (32.0 / 9.0), k3));
        let k5 = f(s
            .plus(far * (19_372.0 / 6561.0), k1)
            .plus(far * (-25_360.0 / 2187.0), k2)
            .plus(far * (64_448.0 / 6561.0), k3)
            .plus(far * (-212.0 / 729.0), k4));
        let k6 = f(s
            .plus(far * (9017.0 / 3168.0), k1)
            .plus(far * (-355.0 / 33.0), k2)
            .plus(far * (46_732.0 / 5247.0), k3)
            .plus(far * (49.0 / 176.0), k4)
            .plus(far * (-5103.0 / 18_656.0), k5));
        let state = s
            .plus(far * (35.0 / 384.0), k1)
            .plus(far * (500.0 / 1113.0), k3)
            .plus(far * (125.0 / 192.0), k4)
            .plus(far * (-2187.0 / 6784.0), k5)
            .plus(far * (11.0 / 84.0), k6);
        let k7 = f(state);
        let wrong = State::default()
            .plus(far * (71.0 / 57_600.0), k1)
            .plus(far * (-71.0 / 16_695.0), k3)
            .plus(far * (71.0 / 1920.0), k4)
            .plus(far * (-17_253.0 / 339_200.0), k5)
            .plus(far * (22.0 / 525.0), k6)
            .plus(far * (-1.0 / 40.0), k7);
        let place = wrong.x * wrong.x + wrong.y * wrong.y + wrong.z * wrong.z;
        let velocity = wrong.u * wrong.u + wrong.v * wrong.v + wrong.w * wrong.w;
        let error = strict * (place + AHEAD * AHEAD * velocity).sqrt();
        Stepped { state, slope: k7, error }
    }
}
