//! ODE integrators: RK4 and Dormand-Prince (embedded error estimate); a step returns state, derivatives and error.
//!
//! First same as last (FSAL): a step begins with the derivatives the one before ended with: four evaluations for RK4, six for
//! Dormand-Prince.

use super::flight_model::{FlightModel, State, WindShear};

/// Result of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepResult {
    pub(super) state: State,
    pub(super) slope: State,
    /// Estimated error relative to the tolerance.
    pub(super) error: f64,
}

/// Integration method as a type.
pub(super) trait Integrator {
    /// Is the step size adaptive?
    const ADAPTIVE: bool;

    /// One step of `dt` seconds from a state and its derivatives; `inv_tolerance` scales the error.
    fn step<B: WindShear>(
        model: &FlightModel,
        s: State,
        k1: State,
        axis: [f64; 3],
        dt: f64,
        inv_tolerance: f64,
    ) -> StepResult;
}

pub(super) struct Rk4;
pub(super) struct DormandPrince;

impl Integrator for Rk4 {
    const ADAPTIVE: bool = false;

    #[inline(always)]
    fn step<B: WindShear>(
        model: &FlightModel,
        s: State,
        k1: State,
        axis: [f64; 3],
        dt: f64,
        _inv_tolerance: f64,
    ) -> StepResult {
        let half = dt * 0.5;
        let k2 = model.derivatives::<B>(s.plus(half, k1), axis);
        let k3 = model.derivatives::<B>(s.plus(half, k2), axis);
        let k4 = model.derivatives::<B>(s.plus(dt, k3), axis);
        let sum = k1.plus(2.0, k2).plus(2.0, k3).plus(1.0, k4);
        let state = s.plus(dt / 6.0, sum);
        StepResult { state, slope: model.derivatives::<B>(state, axis), error: 0.0 }
    }
}

/// Weight of velocity errors against position errors, in seconds: about the remaining flight time.
const VELOCITY_WEIGHT: f64 = 4.0;

impl Integrator for DormandPrince {
    const ADAPTIVE: bool = true;

    /// Coefficients: J. R. Dormand and P. J. Prince, "A family of embedded Runge-Kutta formulae" (1980).
    #[inline(always)]
    fn step<B: WindShear>(
        model: &FlightModel,
        s: State,
        k1: State,
        axis: [f64; 3],
        dt: f64,
        inv_tolerance: f64,
    ) -> StepResult {
        let f = |state: State| model.derivatives::<B>(state, axis);
        let k2 = f(s.plus(dt / 5.0, k1));
        let k3 = f(s.plus(dt * (3.0 / 40.0), k1).plus(dt * (9.0 / 40.0), k2));
        let k4 = f(s.plus(dt * (44.0 / 45.0), k1).plus(dt * (-56.0 / 15.0), k2).plus(dt * (32.0 / 9.0), k3));
        let k5 = f(s
            .plus(dt * (19_372.0 / 6561.0), k1)
            .plus(dt * (-25_360.0 / 2187.0), k2)
            .plus(dt * (64_448.0 / 6561.0), k3)
            .plus(dt * (-212.0 / 729.0), k4));
        let k6 = f(s
            .plus(dt * (9017.0 / 3168.0), k1)
            .plus(dt * (-355.0 / 33.0), k2)
            .plus(dt * (46_732.0 / 5247.0), k3)
            .plus(dt * (49.0 / 176.0), k4)
            .plus(dt * (-5103.0 / 18_656.0), k5));
        let state = s
            .plus(dt * (35.0 / 384.0), k1)
            .plus(dt * (500.0 / 1113.0), k3)
            .plus(dt * (125.0 / 192.0), k4)
            .plus(dt * (-2187.0 / 6784.0), k5)
            .plus(dt * (11.0 / 84.0), k6);
        let k7 = f(state);
        let wrong = State::default()
            .plus(dt * (71.0 / 57_600.0), k1)
            .plus(dt * (-71.0 / 16_695.0), k3)
            .plus(dt * (71.0 / 1920.0), k4)
            .plus(dt * (-17_253.0 / 339_200.0), k5)
            .plus(dt * (22.0 / 525.0), k6)
            .plus(dt * (-1.0 / 40.0), k7);
        let position = wrong.x * wrong.x + wrong.y * wrong.y + wrong.z * wrong.z;
        let velocity = wrong.u * wrong.u + wrong.v * wrong.v + wrong.w * wrong.w;
        let error = inv_tolerance * (position + VELOCITY_WEIGHT * VELOCITY_WEIGHT * velocity).sqrt();
        StepResult { state, slope: k7, error }
    }
}
