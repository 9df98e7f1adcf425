//! Flight model: forces on the ball and precomputed constants, checked once for all launches.

use gpuforge_ops::Threads;
use gpuforge_simd::Simd;

use super::{
    Air, Ball, Coefficients, FlightSummary, Launch, ShearProfile, TrajectoryError, Wind,
    coefficients::{MAX_NODES, NODES},
    error::{check, row},
    launch::{END, End, Start},
    math::{exp, integer, ln},
    simd_batch,
};

/// Integration method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IntegrationMethod {
    /// Classical Runge-Kutta with fixed steps.
    Rk4 {
        /// Seconds per step.
        step: f64,
    },
    /// Adaptive Dormand-Prince; the step follows the estimated error.
    Adaptive {
        /// Error tolerance of the landing point in metres.
        tolerance: f64,
    },
}

/// Everything that all launches share.
#[derive(Debug, Clone, PartialEq)]
pub struct FlightSetup {
    /// The ball.
    pub ball: Ball,
    /// The air.
    pub air: Air,
    /// The wind.
    pub wind: Wind,
    /// Drag and lift.
    pub coefficients: Coefficients,
    /// Integration method.
    pub method: IntegrationMethod,
    /// Metres per second squared.
    pub gravity: f64,
    /// Time limit in seconds.
    pub time_limit: f64,
}

impl Default for FlightSetup {
    fn default() -> Self {
        FlightSetup {
            ball: Ball::default(),
            air: Air::default(),
            wind: Wind::default(),
            coefficients: Coefficients::default(),
            method: IntegrationMethod::Rk4 { step: 0.01 },
            gravity: 9.80665,
            time_limit: 60.0,
        }
    }
}

impl FlightSetup {
    /// Checks everything and precomputes the model; the first violation is the error.
    pub fn model(self) -> Result<FlightModel, TrajectoryError> {
        self.ball.check()?;
        self.air.check()?;
        self.wind.check()?;
        self.coefficients.check()?;
        check(row("gravity", 0.1, 100.0, "m/s²"), self.gravity)?;
        check(row("time limit", 0.1, 600.0, "s"), self.time_limit)?;
        match self.method {
            IntegrationMethod::Rk4 { step } => check(row("step", 1e-4, 0.1, "s"), step)?,
            IntegrationMethod::Adaptive { tolerance } => check(row("tolerance", 1e-9, 1.0, "m"), tolerance)?,
        };
        Ok(FlightModel::new(self))
    }
}

/// A point of a flight path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlightPoint {
    /// Seconds since the launch.
    pub time: f64,
    /// Metres: along the target line, up, to the right.
    pub position: [f64; 3],
    /// Metres per second, likewise.
    pub velocity: [f64; 3],
    /// Revolutions per minute.
    pub spin: f64,
}

/// A checked [`FlightSetup`] with precomputed constants.
#[derive(Debug, Clone)]
pub struct FlightModel {
    setup: FlightSetup,
    pub(super) gravity: f64,
    /// Half the density times area over mass.
    pub(super) push: f64,
    /// Reynolds number per metre per second.
    pub(super) reynolds: f64,
    pub(super) radius: f64,
    /// Spin decay rate per second.
    pub(super) decay: f64,
    pub(super) density_series: [f64; 4],
    pub(super) wind: [f64; 2],
    pub(super) shear: ShearParams,
    pub(super) across: AxisScale,
    pub(super) along: AxisScale,
    /// Inline: behind a pointer, the compiler could not rule out aliasing with the lanes.
    cells: Cells,
}

/// Wind shear parameters: height offset, and a line through the logarithm of the height.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShearParams {
    pub(super) above: f64,
    pub(super) factor: f64,
    pub(super) offset: f64,
}

/// A table axis prepared for lookup.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisScale {
    pub(super) first: f64,
    pub(super) per_step: f64,
    /// Index of the last node, and of the last cell.
    pub(super) last: f64,
    pub(super) cell: f64,
}

/// Bilinear coefficients of drag, then lift: value, slopes along both axes, mixed term. Stored as SoA in rows of [`MAX_NODES`]:
/// eight launches gather theirs at once.
pub(super) type Cells = [[f64; PADDED_NODES]; 8];
/// Padded by eight, so that the eight arrays do not map to one cache set.
pub(super) const PADDED_NODES: usize = NODES + 8;

/// Position, velocity and spin (rad/s) of a ball; or their derivatives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: f64,
    pub(super) u: f64,
    pub(super) v: f64,
    pub(super) w: f64,
    pub(super) spin: f64,
}

impl State {
    /// `self + dt * k`.
    #[inline(always)]
    pub(super) fn plus(self, dt: f64, k: State) -> State {
        State {
            x: self.x + dt * k.x,
            y: self.y + dt * k.y,
            z: self.z + dt * k.z,
            u: self.u + dt * k.u,
            v: self.v + dt * k.v,
            w: self.w + dt * k.w,
            spin: self.spin + dt * k.spin,
        }
    }

    pub(super) fn begin([height, u, v, w, _, _, _, spin]: Start) -> State {
        State { x: 0.0, y: height, z: 0.0, u, v, w, spin }
    }

    pub(super) fn point(self, time: f64) -> FlightPoint {
        let spin = self.spin * 30.0 / std::f64::consts::PI;
        FlightPoint { time, position: [self.x, self.y, self.z], velocity: [self.u, self.v, self.w], spin }
    }

    pub(super) fn is_finite(self) -> bool {
        [self.x, self.y, self.z, self.u, self.v, self.w, self.spin].iter().all(|n| n.is_finite())
    }
}

/// Wind shear profile as a type: no branches in the lanes.
pub(super) trait WindShear {
    /// Fraction of the reference wind at a height.
    fn share(shear: &ShearParams, height: f64) -> f64;
}

pub(super) struct UniformWind;
pub(super) struct PowerLawWind;
pub(super) struct LogWind;

impl WindShear for UniformWind {
    #[inline(always)]
    fn share(_shear: &ShearParams, _height: f64) -> f64 {
        1.0
    }
}

impl WindShear for PowerLawWind {
    #[inline(always)]
    fn share(shear: &ShearParams, height: f64) -> f64 {
        exp(shear.factor * ln(height + shear.above) - shear.offset)
    }
}

impl WindShear for LogWind {
    #[inline(always)]
    fn share(shear: &ShearParams, height: f64) -> f64 {
        shear.factor * ln(height + shear.above) - shear.offset
    }
}

#[inline(always)]
fn max(value: f64, low: f64) -> f64 {
    if value > low { value } else { low }
}

#[inline(always)]
fn min(value: f64, high: f64) -> f64 {
    if value < high { value } else { high }
}

/// Height above which air density is taken as constant: the series ends there.
pub(super) const MAX_HEIGHT: f64 = 10_000.0;
/// Smallest relative air speed for the spin parameter.
pub(super) const MIN_AIR_SPEED: f64 = 1e-6;

impl FlightModel {
    fn new(setup: FlightSetup) -> FlightModel {
        let FlightSetup { ball, air, wind, coefficients, .. } = &setup;
        let density = air.density();
        let shear = match wind.profile {
            ShearProfile::Uniform => ShearParams { above: 0.0, factor: 0.0, offset: 0.0 },
            ShearProfile::Power { exponent } => {
                ShearParams { above: 0.1, factor: exponent, offset: exponent * (wind.reference + 0.1).ln() }
            }
            ShearProfile::Log { roughness } => {
                let factor = 1.0 / (1.0 + wind.reference / roughness).ln();
                ShearParams { above: roughness, factor, offset: factor * roughness.ln() }
            }
        };
        let scale = |axis: super::coefficients::TableAxis| AxisScale {
            first: axis.first,
            per_step: 1.0 / axis.step,
            last: axis.nodes as f64 - 1.0,
            cell: axis.nodes as f64 - 2.0,
        };
        FlightModel {
            gravity: setup.gravity,
            push: density * ball.area() / (2.0 * ball.mass),
            reynolds: density * 2.0 * ball.radius / air.viscosity(),
            radius: ball.radius,
            decay: 1.0 / ball.spin_decay,
            density_series: air.density_series(),
            wind: wind.velocity(),
            shear,
            across: scale(coefficients.reynolds),
            along: scale(coefficients.spin),
            cells: coefficients.cells(),
            setup,
        }
    }

    /// The setup.
    pub fn setup(&self) -> &FlightSetup {
        &self.setup
    }

    /// Derivatives of a state; `axis` is the spin axis.
    #[inline(always)]
    pub(super) fn derivatives<B: WindShear>(&self, s: State, [ax, ay, az]: [f64; 3]) -> State {
        let height = min(max(s.y, 0.0), MAX_HEIGHT);
        let [t1, t2, t3, t4] = self.density_series;
        let thin = 1.0 + height * (t1 + height * (t2 + height * (t3 + height * t4)));
        let share = B::share(&self.shear, height);
        let [wind_x, wind_z] = self.wind;
        let (u, v, w) = (s.u - wind_x * share, s.v, s.w - wind_z * share);
        let square = u * u + v * v + w * w;
        let speed = square.sqrt();
        // Divided by the square in parallel with the root, not by the root after it.
        let parameter = self.radius * s.spin / max(square, MIN_AIR_SPEED * MIN_AIR_SPEED) * speed;
        let (drag, lift) = self.look_up(self.reynolds * thin * speed, parameter);
        let push = self.push * thin * speed;
        let (back, side) = (push * drag, push * lift);
        State {
            x: s.u,
            y: s.v,
            z: s.w,
            u: side * (ay * w - az * v) - back * u,
            v: side * (az * u - ax * w) - back * v - self.gravity,
            w: side * (ax * v - ay * u) - back * w,
            spin: -self.decay * s.spin,
        }
    }

    /// Bilinear lookup of drag and lift.
    #[inline(always)]
    fn look_up(&self, reynolds: f64, spin: f64) -> (f64, f64) {
        let (i, a) = self.across.find(reynolds);
        let (j, b) = self.along.find(spin);
        // The mask elides the bounds check.
        let at = (i * MAX_NODES as u64 + j) as usize & (NODES - 1);
        let [d, da, db, dab, l, la, lb, lab] =
            self.cells.each_ref().map(|numbers| numbers.get(at).copied().unwrap_or(0.0));
        let both = a * b;
        (d + a * da + (b * db + both * dab), l + a * la + (b * lb + both * lab))
    }

    /// One flight.
    pub fn fly(&self, launch: &Launch) -> Result<FlightSummary, TrajectoryError> {
        let mut end = [[0.0; END]];
        simd_batch::fly(self, &[launch.start()?], &mut end, Simd::detect());
        let [end] = end;
        Ok(FlightSummary::of(end))
    }

    /// One flight with every step of it, from the launch to its end.
    pub fn path(&self, launch: &Launch) -> Result<(FlightSummary, Vec<FlightPoint>), TrajectoryError> {
        let (end, path) = simd_batch::path(self, launch.start()?);
        Ok((FlightSummary::of(end), path))
    }

    /// Many flights; an invalid launch is an error of its own, the others fly.
    pub fn fly_all(
        &self,
        launches: &[Launch],
        threads: Threads,
    ) -> Vec<Result<FlightSummary, TrajectoryError>> {
        self.fly_all_with(launches, threads, Simd::detect())
    }

    /// As [`FlightModel::fly_all`] at a given SIMD level; results do not depend on it.
    pub fn fly_all_with(
        &self,
        launches: &[Launch],
        threads: Threads,
        simd: Simd,
    ) -> Vec<Result<FlightSummary, TrajectoryError>> {
        // Placeholders; each is overwritten below.
        let standing = || Err(TrajectoryError::Coefficients(String::new()));
        let mut results: Vec<Result<FlightSummary, TrajectoryError>> = Vec::with_capacity(launches.len());
        results.resize_with(launches.len(), standing);
        let tile = simd_batch::tile(launches.len(), threads.0);
        let tiles = launches.chunks(tile).zip(results.chunks_mut(tile));
        threads.par_for_each(tiles, |(launches, results)| {
            let mut starts: Vec<Start> = Vec::with_capacity(launches.len());
            let mut slots = Vec::with_capacity(launches.len());
            for (launch, result) in launches.iter().zip(results) {
                match launch.start() {
                    Ok(start) => {
                        starts.push(start);
                        slots.push(result);
                    }
                    Err(error) => *result = Err(error),
                }
            }
            let mut ends: Vec<End> = vec![[0.0; END]; starts.len()];
            simd_batch::fly(self, &starts, &mut ends, simd);
            slots.into_iter().zip(ends).for_each(|(slot, end)| *slot = Ok(FlightSummary::of(end)));
        });
        results
    }
}

impl AxisScale {
    /// Cell of a value, and its fraction within the cell.
    #[inline(always)]
    fn find(&self, value: f64) -> (u64, f64) {
        let at = min(max((value - self.first) * self.per_step, 0.0), self.last);
        let cell = min(at.floor(), self.cell);
        (integer(cell), at - cell)
    }
}
