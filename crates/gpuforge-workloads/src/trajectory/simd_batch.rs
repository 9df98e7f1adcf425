//! SIMD batch integration: eight launches in SoA lanes advance together; a lane whose ball has landed gets the next launch.
//!
//! A lane depends on its own numbers only. The loop over lanes is branch-free, so that it vectorises; events are rare and handled
//! lane by lane. Each SIMD level has its own copy of the same operations.

use gpuforge_simd::Simd;
#[cfg(target_arch = "x86_64")]
use gpuforge_simd::SimdLevel;

use super::{
    FlightModel, FlightPoint, IntegrationMethod, ShearProfile,
    event::{DOUBLE_BELOW, Flight, Next, StepControl, StepStart},
    flight_model::{LogWind, PowerLawWind, State, UniformWind, WindShear},
    integrator::{DormandPrince, Integrator, Rk4, StepResult},
    launch::{END, End, Start},
};

/// SIMD lanes: two AVX2 registers, one AVX-512 register.
const LANES: usize = 8;
/// Launches per work item, minimum and maximum: lanes run idle at the end of each.
const TILE: (usize, usize) = (8 * LANES, 64 * LANES);

/// Launches per work item: several per thread for load balancing.
pub(super) fn tile(launches: usize, threads: usize) -> usize {
    launches.div_ceil(4 * threads.max(1)).next_multiple_of(LANES).clamp(TILE.0, TILE.1)
}

/// Receives every step of a flight.
trait StepObserver {
    fn observe(&mut self, time: f64, state: State);
}

struct NoObserver;

impl StepObserver for NoObserver {
    #[inline(always)]
    fn observe(&mut self, _time: f64, _state: State) {}
}

impl StepObserver for Vec<FlightPoint> {
    fn observe(&mut self, time: f64, state: State) {
        self.push(state.point(time));
    }
}

/// Integrates every start; `ends` has the same length.
pub(super) fn fly(model: &FlightModel, starts: &[Start], ends: &mut [End], simd: Simd) {
    if starts.len() < 2 {
        dispatch::<1, _>(model, starts, ends, &mut NoObserver, simd);
    } else {
        dispatch::<LANES, _>(model, starts, ends, &mut NoObserver, simd);
    }
}

/// One flight with every step.
pub(super) fn path(model: &FlightModel, start: Start) -> (End, Vec<FlightPoint>) {
    let (mut ends, mut points) = ([[0.0; END]], Vec::new());
    dispatch::<1, _>(model, &[start], &mut ends, &mut points, Simd::detect());
    let [end] = ends;
    (end, points)
}

/// Dispatch to the copy for this wind profile, method and SIMD level.
fn dispatch<const L: usize, W: StepObserver>(
    model: &FlightModel,
    starts: &[Start],
    ends: &mut [End],
    observer: &mut W,
    simd: Simd,
) {
    let run = match (model.setup().wind.profile, model.setup().method) {
        (ShearProfile::Uniform, IntegrationMethod::Rk4 { .. }) => with::<L, UniformWind, Rk4, W>,
        (ShearProfile::Power { .. }, IntegrationMethod::Rk4 { .. }) => with::<L, PowerLawWind, Rk4, W>,
        (ShearProfile::Log { .. }, IntegrationMethod::Rk4 { .. }) => with::<L, LogWind, Rk4, W>,
        (ShearProfile::Uniform, IntegrationMethod::Adaptive { .. }) => {
            with::<L, UniformWind, DormandPrince, W>
        }
        (ShearProfile::Power { .. }, IntegrationMethod::Adaptive { .. }) => {
            with::<L, PowerLawWind, DormandPrince, W>
        }
        (ShearProfile::Log { .. }, IntegrationMethod::Adaptive { .. }) => {
            with::<L, LogWind, DormandPrince, W>
        }
    };
    run(model, starts, ends, observer, simd);
}

fn with<const L: usize, B: WindShear, S: Integrator, W: StepObserver>(
    model: &FlightModel,
    starts: &[Start],
    ends: &mut [End],
    observer: &mut W,
    simd: Simd,
) {
    #[cfg(target_arch = "x86_64")]
    match simd.level() {
        #[allow(unsafe_code, reason = "code compiled for detected CPU features")]
        SimdLevel::Avx512 => {
            // SAFETY: a `Simd` of this level was detected on this CPU.
            return unsafe { avx512::<L, B, S, W>(model, starts, ends, observer) };
        }
        #[allow(unsafe_code, reason = "code compiled for detected CPU features")]
        SimdLevel::Avx2 => {
            // SAFETY: a `Simd` of level AVX2 exists only where AVX2 was detected.
            return unsafe { avx2::<L, B, S, W>(model, starts, ends, observer) };
        }
        SimdLevel::Scalar => {}
    }
    let _ = simd;
    run::<L, B, S, W>(model, starts, ends, observer);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn avx512<const L: usize, B: WindShear, S: Integrator, W: StepObserver>(
    model: &FlightModel,
    starts: &[Start],
    ends: &mut [End],
    observer: &mut W,
) {
    run::<L, B, S, W>(model, starts, ends, observer);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<const L: usize, B: WindShear, S: Integrator, W: StepObserver>(
    model: &FlightModel,
    starts: &[Start],
    ends: &mut [End],
    observer: &mut W,
) {
    run::<L, B, S, W>(model, starts, ends, observer);
}

/// States or derivatives of all lanes (SoA).
#[derive(Clone, Copy)]
struct StateLanes<const L: usize> {
    x: [f64; L],
    y: [f64; L],
    z: [f64; L],
    u: [f64; L],
    v: [f64; L],
    w: [f64; L],
    spin: [f64; L],
}

impl<const L: usize> StateLanes<L> {
    const ZERO: StateLanes<L> = StateLanes {
        x: [0.0; L],
        y: [0.0; L],
        z: [0.0; L],
        u: [0.0; L],
        v: [0.0; L],
        w: [0.0; L],
        spin: [0.0; L],
    };

    #[inline(always)]
    #[allow(
        clippy::indexing_slicing,
        reason = "callers count to L; the compiler sees that and checks nothing"
    )]
    fn get(&self, l: usize) -> State {
        State {
            x: self.x[l],
            y: self.y[l],
            z: self.z[l],
            u: self.u[l],
            v: self.v[l],
            w: self.w[l],
            spin: self.spin[l],
        }
    }

    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn set(&mut self, l: usize, s: State) {
        self.x[l] = s.x;
        self.y[l] = s.y;
        self.z[l] = s.z;
        self.u[l] = s.u;
        self.v[l] = s.v;
        self.w[l] = s.w;
        self.spin[l] = s.spin;
    }
}

/// All lanes: current state and the result of the last step.
struct Lanes<const L: usize> {
    state: StateLanes<L>,
    slope: StateLanes<L>,
    next: StateLanes<L>,
    next_slope: StateLanes<L>,
    axis: [[f64; L]; 3],
    time: [f64; L],
    dt: [f64; L],
    error: [f64; L],
    steps: [f64; L],
    /// Non-zero where an event or step change must be handled.
    event: [u64; L],
}

impl<const L: usize> Lanes<L> {
    fn idle() -> Lanes<L> {
        Lanes {
            // An idle lane has a zero step above the ground: nothing happens to it.
            state: StateLanes { y: [1.0; L], ..StateLanes::ZERO },
            slope: StateLanes::ZERO,
            next: StateLanes::ZERO,
            next_slope: StateLanes::ZERO,
            axis: [[0.0; L]; 3],
            time: [0.0; L],
            dt: [0.0; L],
            error: [0.0; L],
            steps: [0.0; L],
            event: [0; L],
        }
    }

    /// One step of every lane: the hot loop.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "l counts to L, the length of every array")]
    fn advance<B: WindShear, S: Integrator>(&mut self, model: &FlightModel, rule: &StepControl) {
        let [axis_x, axis_y, axis_z] = &self.axis;
        for l in 0..L {
            let (state, slope) = (self.state.get(l), self.slope.get(l));
            let left = rule.limit - self.time[l];
            let dt = if self.dt[l] < left { self.dt[l] } else { left };
            let axis = [axis_x[l], axis_y[l], axis_z[l]];
            let StepResult { state: next, slope: next_slope, error } =
                S::step::<B>(model, state, slope, axis, dt, rule.inv_tolerance);
            self.next.set(l, next);
            self.next_slope.set(l, next_slope);
            self.dt[l] = dt;
            self.error[l] = error;
            let turned = u64::from(state.v > 0.0) & u64::from(next.v <= 0.0);
            let ended = u64::from(next.y < 0.0) | u64::from(self.time[l] + dt >= rule.limit);
            let judged = if S::ADAPTIVE {
                u64::from(error < DOUBLE_BELOW) | u64::from(error > 1.0) | u64::from(error.is_nan())
            } else {
                0
            };
            self.event[l] = turned | ended | judged;
        }
    }

    /// Accepts the step of all lanes.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn accept(&mut self) {
        self.state = self.next;
        self.slope = self.next_slope;
        for l in 0..L {
            self.time[l] += self.dt[l];
            self.steps[l] += 1.0;
        }
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn accept_one(&mut self, l: usize) {
        self.state.set(l, self.next.get(l));
        self.slope.set(l, self.next_slope.get(l));
        self.time[l] += self.dt[l];
        self.steps[l] += 1.0;
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn begin<B: WindShear>(&mut self, l: usize, start: Start, model: &FlightModel, rule: &StepControl) {
        let [_, _, _, _, x, y, z, _] = start;
        let state = State::begin(start);
        self.state.set(l, state);
        self.slope.set(l, model.derivatives::<B>(state, [x, y, z]));
        for (lanes, value) in self.axis.iter_mut().zip([x, y, z]) {
            lanes[l] = value;
        }
        (self.time[l], self.dt[l], self.steps[l]) = (0.0, rule.first, 0.0);
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn rest(&mut self, l: usize) {
        self.state.set(l, State { y: 1.0, ..State::default() });
        self.slope.set(l, State::default());
        (self.time[l], self.dt[l]) = (0.0, 0.0);
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn taken(&self, l: usize) -> (StepStart, StepResult) {
        let (state, slope) = (self.state.get(l), self.slope.get(l));
        let before = StepStart { state, slope, time: self.time[l], dt: self.dt[l], steps: self.steps[l] };
        let (state, slope) = (self.next.get(l), self.next_slope.get(l));
        (before, StepResult { state, slope, error: self.error[l] })
    }
}

#[inline(always)]
#[allow(clippy::indexing_slicing, reason = "l counts to L, the length of every array")]
fn run<const L: usize, B: WindShear, S: Integrator, W: StepObserver>(
    model: &FlightModel,
    starts: &[Start],
    ends: &mut [End],
    observer: &mut W,
) {
    let rule = StepControl::of(model.setup());
    let mut waiting = starts.iter().copied().enumerate();
    let mut lanes = Lanes::<L>::idle();
    let mut flights: [Option<Flight>; L] = [None; L];
    let mut next_launch = |l: usize, lanes: &mut Lanes<L>, observer: &mut W| {
        let flight = waiting.next().map(|(row, start)| {
            lanes.begin::<B>(l, start, model, &rule);
            observer.observe(0.0, lanes.state.get(l));
            Flight::new(row, lanes.state.get(l).y)
        });
        if flight.is_none() {
            lanes.rest(l);
        }
        flight
    };
    for (l, flight) in flights.iter_mut().enumerate() {
        *flight = next_launch(l, &mut lanes, observer);
    }
    // Lanes that target an event check every step.
    let mut targeting = 0u32;
    while flights.iter().any(Option::is_some) {
        lanes.advance::<B, S>(model, &rule);
        if targeting == 0 && lanes.event.iter().fold(0, |all, e| all | e) == 0 {
            lanes.accept();
            if L == 1 {
                observer.observe(lanes.time[0], lanes.state.get(0));
            }
            continue;
        }
        targeting = 0;
        for (l, slot) in flights.iter_mut().enumerate() {
            let Some(flight) = slot else { continue };
            if lanes.event[l] == 0 && !flight.targets_event() {
                lanes.accept_one(l);
                observer.observe(lanes.time[l], lanes.state.get(l));
                continue;
            }
            let (before, after) = lanes.taken(l);
            match flight.after_step(&before, &after, &rule, S::ADAPTIVE) {
                Next::Go(dt) => {
                    lanes.accept_one(l);
                    lanes.dt[l] = dt;
                    observer.observe(lanes.time[l], lanes.state.get(l));
                }
                Next::Again(dt) => lanes.dt[l] = dt,
                Next::Over(end) => {
                    let [time, x, y, z, u, v, w, spin, ..] = end;
                    observer.observe(time, State { x, y, z, u, v, w, spin });
                    if let Some(slot) = ends.get_mut(flight.row) {
                        *slot = end;
                    }
                    *slot = next_launch(l, &mut lanes, observer);
                }
            }
            targeting += u32::from(slot.is_some_and(|f| f.targets_event()));
        }
    }
}
