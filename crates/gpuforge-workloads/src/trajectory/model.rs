//! What acts on a ball? Everything that is the same for all launches, checked once and made ready.

use gpuforge_ops::Threads;
use gpuforge_simd::Simd;

use super::{
    Air, Ball, Coefficients, Launch, Profile, Summary, TrajectoryError, Wind,
    coefficients::{MOST_NODES, NODES},
    error::{check, row},
    lanes,
    launch::{END, End, Start},
    math::{exp, integer, ln},
};

/// How flights are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// Fixed steps of the classical Runge-Kutta method.
    Rk4 {
        /// Seconds per step.
        step: f64,
    },
    /// The embedded pair of Dormand and Prince; the step follows the estimated error.
    Adaptive {
        /// The most that the landing point may be wrong, in metres.
        tolerance: f64,
    },
}

/// Everything that is the same for all launches.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The ball.
    pub ball: Ball,
    /// The air.
    pub air: Air,
    /// The wind.
    pub wind: Wind,
    /// Drag and lift.
    pub coefficients: Coefficients,
    /// How it is computed.
    pub method: Method,
    /// Metres per second squared.
    pub gravity: f64,
    /// Seconds after which a flight ends in the air.
    pub time_limit: f64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            ball: Ball::default(),
            air: Air::default(),
            wind: Wind::default(),
            coefficients: Coefficients::default(),
            method: Method::Rk4 { step: 0.01 },
            gravity: 9.80665,
            time_limit: 60.0,
        }
    }
}

impl Setup {
    /// Checks everything and makes it ready; the first thing that is wrong is the error.
    pub fn model(self) -> Result<Model, TrajectoryError> {
        self.ball.check()?;
        self.air.check()?;
        self.wind.check()?;
        self.coefficients.check()?;
        check(row("gravity", 0.1, 100.0, "m/s²"), self.gravity)?;
        check(row("time limit", 0.1, 600.0, "s"), self.time_limit)?;
        match self.method {
            Method::Rk4 { step } => check(row("step", 1e-4, 0.1, "s"), step)?,
            Method::Adaptive { tolerance } => check(row("tolerance", 1e-9, 1.0, "m"), tolerance)?,
        };
        Ok(Model::new(self))
    }
}

/// A place on a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Seconds since the launch.
    pub time: f64,
    /// Metres: along the target line, up, to the right.
    pub place: [f64; 3],
    /// Metres per second, likewise.
    pub velocity: [f64; 3],
    /// Turns per minute.
    pub spin: f64,
}

/// A checked [`Setup`]. Launches are flown by it.
#[derive(Debug, Clone)]
pub struct Model {
    setup: Setup,
    pub(super) gravity: f64,
    /// Half the density times area over mass.
    pub(super) push: f64,
    /// Reynolds number per metre per second.
    pub(super) reynolds: f64,
    pub(super) radius: f64,
    /// Share of the spin lost per second.
    pub(super) decay: f64,
    pub(super) thinning: [f64; 4],
    pub(super) wind: [f64; 2],
    pub(super) shear: Shear,
    pub(super) across: Scale,
    pub(super) along: Scale,
    /// In place: behind a pointer, the compiler would fear that a lane is written over it.
    cells: Cells,
}

/// Numbers of a wind profile: a height that is added, and a line through the logarithm of the sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shear {
    pub(super) above: f64,
    pub(super) factor: f64,
    pub(super) offset: f64,
}

/// An axis ready to be looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) first: f64,
    pub(super) per_step: f64,
    /// Number of the last node, and of the last cell's first.
    pub(super) last: f64,
    pub(super) cell: f64,
}

/// Drag, then lift, between four nodes: a value, what a step along either axis adds, and what both together do. One number
/// of all cells beside the other, in rows of [`MOST_NODES`]: eight launches gather theirs at once.
pub(super) type Cells = [[f64; ROOM]; 8];
/// Eight numbers more than nodes, or the eight of a cell would fall into one set of a cache.
pub(super) const ROOM: usize = NODES + 8;

/// Where a ball is, how fast, and its spin in radians per second; or the derivatives of these.
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
    /// This and `far` times a derivative.
    #[inline(always)]
    pub(super) fn plus(self, far: f64, k: State) -> State {
        State {
            x: self.x + far * k.x,
            y: self.y + far * k.y,
            z: self.z + far * k.z,
            u: self.u + far * k.u,
            v: self.v + far * k.v,
            w: self.w + far * k.w,
            spin: self.spin + far * k.spin,
        }
    }

    pub(super) fn begin([height, u, v, w, _, _, _, spin]: Start) -> State {
        State { x: 0.0, y: height, z: 0.0, u, v, w, spin }
    }

    pub(super) fn point(self, time: f64) -> Point {
        let spin = self.spin * 30.0 / std::f64::consts::PI;
        Point { time, place: [self.x, self.y, self.z], velocity: [self.u, self.v, self.w], spin }
    }

    pub(super) fn is_finite(self) -> bool {
        [self.x, self.y, self.z, self.u, self.v, self.w, self.spin].iter().all(|n| n.is_finite())
    }
}

/// A wind profile that is known when the code is compiled: lanes have no branches.
pub(super) trait Blow {
    /// The wind's share at a height.
    fn share(shear: &Shear, height: f64) -> f64;
}

pub(super) struct Level;
pub(super) struct Power;
pub(super) struct Log;

impl Blow for Level {
    #[inline(always)]
    fn share(_shear: &Shear, _height: f64) -> f64 {
        1.0
    }
}

impl Blow for Power {
    #[inline(always)]
    fn share(shear: &Shear, height: f64) -> f64 {
        exp(shear.factor * ln(height + shear.above) - shear.offset)
    }
}

impl Blow for Log {
    #[inline(always)]
    fn share(shear: &Shear, height: f64) -> f64 {
        shear.factor * ln(height + shear.above) - shear.offset
    }
}

#[inline(always)]
fn least(value: f64, low: f64) -> f64 {
    if value > low { value } else { low }
}

#[inline(always)]
fn most(value: f64, high: f64) -> f64 {
    if value < high { value } else { high }
}

/// Above this the air is taken to be as at this height: the series of the density ends there.
pub(super) const HIGHEST: f64 = 10_000.0;
/// The slowest air for which a spin parameter is formed.
pub(super) const SLOWEST: f64 = 1e-6;

impl Model {
    fn new(setup: Setup) -> Model {
        let Setup { ball, air, wind, coefficients, .. } = &setup;
        let density = air.density();
        let shear = match wind.profile {
            Profile::Uniform => Shear { above: 0.0, factor: 0.0, offset: 0.0 },
            Profile::Power { exponent } => {
                Shear { above: 0.1, factor: exponent, offset: exponent * (wind.reference + 0.1).ln() }
            }
            Profile::Log { roughness } => {
                let factor = 1.0 / (1.0 + wind.reference / roughness).ln();
                Shear { above: roughness, factor, offset: factor * roughness.ln() }
            }
        };
        let scale = |axis: super::coefficients::Axis| Scale {
            first: axis.first,
            per_step: 1.0 / axis.step,
            last: axis.nodes as f64 - 1.0,
            cell: axis.nodes as f64 - 2.0,
        };
        Model {
            gravity: setup.gravity,
            push: density * ball.area() / (2.0 * ball.mass),
            reynolds: density * 2.0 * ball.radius / air.viscosity(),
            radius: ball.radius,
            decay: 1.0 / ball.spin_decay,
            thinning: air.thinning(),
            wind: wind.velocity(),
            shear,
            across: scale(coefficients.reynolds),
            along: scale(coefficients.spin),
            cells: coefficients.cells(),
            setup,
        }
    }

    /// What it was made from.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Derivatives of a state; `axis` is the spin's.
    #[inline(always)]
    pub(super) fn slope<B: Blow>(&self, s: State, [ax, ay, az]: [f64; 3]) -> State {
        let height = most(least(s.y, 0.0), HIGHEST);
        let [t1, t2, t3, t4] = self.thinning;
        let thin = 1.0 + height * (t1 + height * (t2 + height * (t3 + height * t4)));
        let share = B::share(&self.shear, height);
        let [wind_x, wind_z] = self.wind;
        let (u, v, w) = (s.u - wind_x * share, s.v, s.w - wind_z * share);
        let square = u * u + v * v + w * w;
        let speed = square.sqrt();
        // Divided by the square beside the root, not by the root after it.
        let parameter = self.radius * s.spin / least(square, SLOWEST * SLOWEST) * speed;
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

    /// Drag and lift, linear between nodes.
    #[inline(always)]
    fn look_up(&self, reynolds: f64, spin: f64) -> (f64, f64) {
        let (i, a) = self.across.find(reynolds);
        let (j, b) = self.along.find(spin);
        // The mask lets the compiler see that the index is inside.
        let at = (i * MOST_NODES as u64 + j) as usize & (NODES - 1);
        let [d, da, db, dab, l, la, lb, lab] =
            self.cells.each_ref().map(|numbers| numbers.get(at).copied().unwrap_or(0.0));
        let both = a * b;
        (d + a * da + (b * db + both * dab), l + a * la + (b * lb + both * lab))
    }

    /// One flight.
    pub fn fly(&self, launch: &Launch) -> Result<Summary, TrajectoryError> {
        let mut end = [[0.0; END]];
        lanes::fly(self, &[launch.start()?], &mut end, Simd::detect());
        let [end] = end;
        Ok(Summary::of(end))
    }

    /// One flight with every step of it, from the launch to its end.
    pub fn path(&self, launch: &Launch) -> Result<(Summary, Vec<Point>), TrajectoryError> {
        let (end, path) = lanes::path(self, launch.start()?);
        Ok((Summary::of(end), path))
    }

    /// Many flights; a launch that is none is an error of its own, the others fly.
    pub fn fly_all(&self, launches: &[Launch], threads: Threads) -> Vec<Result<Summary, TrajectoryError>> {
        self.fly_all_with(launches, threads, Simd::detect())
    }

    /// As [`Model::fly_all`] with an instruction set that the machine has; results do not depend on it.
    pub fn fly_all_with(
        &self,
        launches: &[Launch],
        threads: Threads,
        simd: Simd,
    ) -> Vec<Result<Summary, TrajectoryError>> {
        // A place for every launch; each is written below.
        let standing = || Err(TrajectoryError::Coefficients(String::new()));
        let mut results: Vec<Result<Summary, TrajectoryError>> = Vec::with_capacity(launches.len());
        results.resize_with(launches.len(), standing);
        let tile = lanes::tile(launches.len(), threads.0);
        let tiles = launches.chunks(tile).zip(results.chunks_mut(tile));
        threads.each(tiles, |(launches, results)| {
            let mut starts: Vec<Start> = Vec::with_capacity(launches.len());
            let mut places = Vec::with_capacity(launches.len());
            for (launch, result) in launches.iter().zip(results) {
                match launch.start() {
                    Ok(start) => {
                        starts.push(start);
                        places.push(result);
                    }
                    Err(error) => *result = Err(error),
                }
            }
            let mut ends: Vec<End> = vec![[0.0; END]; starts.len()];
            lanes::fly(self, &starts, &mut ends, simd);
            places.into_iter().zip(ends).for_each(|(place, end)| *place = Ok(Summary::of(end)));
        });
        results
    }
}

impl Scale {
    /// The cell of a value, and how far into it the value lies, from 0 to 1.
    #[inline(always)]
    fn find(&self, value: f64) -> (u64, f64) {
        let at = most(least((value - self.first) * self.per_step, 0.0), self.last);
        let cell = most(at.floor(), self.cell);
        (integer(cell), at - cell)
    }
}
