//! How do many launches fly side by side? Eight lanes take their steps together; a lane whose ball has landed gets the next.
//!
//! What a lane computes depends on its own numbers only. The loop over lanes has no branch, so that the compiler makes
//! vectors of it; events are rare and handled lane by lane. Each instruction set has its own copy of the same operations.

use gpuforge_simd::Simd;
#[cfg(target_arch = "x86_64")]
use gpuforge_simd::SimdLevel;

use super::{
    Method, Model, Point, Profile,
    event::{CALM, Flight, Next, Rule, Taken},
    launch::{END, End, Start},
    model::{Blow, Level, Log, Power, State},
    step::{Pair, Rk4, Step, Stepped},
};

/// Lanes of a batch: two registers of AVX2, one of AVX-512.
const LANES: usize = 8;
/// Launches that one thread takes at a time, at least and at most: lanes stand idle at the end of each.
const TILE: (usize, usize) = (8 * LANES, 64 * LANES);

/// How many launches a thread takes at a time: some tiles for each, so that none waits long for the last.
pub(super) fn tile(launches: usize, threads: usize) -> usize {
    launches.div_ceil(4 * threads.max(1)).next_multiple_of(LANES).clamp(TILE.0, TILE.1)
}

/// Who wants to see every step?
trait Watch {
    fn see(&mut self, time: f64, state: State);
}

struct Nobody;

impl Watch for Nobody {
    #[inline(always)]
    fn see(&mut self, _time: f64, _state: State) {}
}

impl Watch for Vec<Point> {
    fn see(&mut self, time: f64, state: State) {
        self.push(state.point(time));
    }
}

/// Flies every start; `ends` has the same length.
pub(super) fn fly(model: &Model, starts: &[Start], ends: &mut [End], simd: Simd) {
    if starts.len() < 2 {
        dispatch::<1, _>(model, starts, ends, &mut Nobody, simd);
    } else {
        dispatch::<LANES, _>(model, starts, ends, &mut Nobody, simd);
    }
}

/// One flight with all its steps.
pub(super) fn path(model: &Model, start: Start) -> (End, Vec<Point>) {
    let (mut ends, mut points) = ([[0.0; END]], Vec::new());
    dispatch::<1, _>(model, &[start], &mut ends, &mut points, Simd::detect());
    let [end] = ends;
    (end, points)
}

/// To the copy of the code for this wind, method and instruction set.
fn dispatch<const L: usize, W: Watch>(
    model: &Model,
    starts: &[Start],
    ends: &mut [End],
    watch: &mut W,
    simd: Simd,
) {
    let run = match (model.setup().wind.profile, model.setup().method) {
        (Profile::Uniform, Method::Rk4 { .. }) => with::<L, Level, Rk4, W>,
        (Profile::Power { .. }, Method::Rk4 { .. }) => with::<L, Power, Rk4, W>,
        (Profile::Log { .. }, Method::Rk4 { .. }) => with::<L, Log, Rk4, W>,
        (Profile::Uniform, Method::Adaptive { .. }) => with::<L, Level, Pair, W>,
        (Profile::Power { .. }, Method::Adaptive { .. }) => with::<L, Power, Pair, W>,
        (Profile::Log { .. }, Method::Adaptive { .. }) => with::<L, Log, Pair, W>,
    };
    run(model, starts, ends, watch, simd);
}

fn with<const L: usize, B: Blow, S: Step, W: Watch>(
    model: &Model,
    starts: &[Start],
    ends: &mut [End],
    watch: &mut W,
    simd: Simd,
) {
    #[cfg(target_arch = "x86_64")]
    match simd.level() {
        #[allow(unsafe_code, reason = "code compiled for what the processor was found to have")]
        SimdLevel::Avx512 => {
            // SAFETY: a `Simd` of this level was detected on this CPU.
            return unsafe { avx512::<L, B, S, W>(model, starts, ends, watch) };
        }
        #[allow(unsafe_code, reason = "as above")]
        SimdLevel::Avx2 => {
            // SAFETY: as above.
            return unsafe { avx2::<L, B, S, W>(model, starts, ends, watch) };
        }
        SimdLevel::Scalar => {}
    }
    let _ = simd;
    run::<L, B, S, W>(model, starts, ends, watch);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn avx512<const L: usize, B: Blow, S: Step, W: Watch>(
    model: &Model,
    starts: &[Start],
    ends: &mut [End],
    watch: &mut W,
) {
    run::<L, B, S, W>(model, starts, ends, watch);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<const L: usize, B: Blow, S: Step, W: Watch>(
    model: &Model,
    starts: &[Start],
    ends: &mut [End],
    watch: &mut W,
) {
    run::<L, B, S, W>(model, starts, ends, watch);
}

/// States or derivatives of all lanes.
#[derive(Clone, Copy)]
struct States<const L: usize> {
    x: [f64; L],
    y: [f64; L],
    z: [f64; L],
    u: [f64; L],
    v: [f64; L],
    w: [f64; L],
    spin: [f64; L],
}

impl<const L: usize> States<L> {
    const ZERO: States<L> = States {
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

/// All lanes: what they stand at, and what their last step brought.
struct Lanes<const L: usize> {
    state: States<L>,
    slope: States<L>,
    next: States<L>,
    next_slope: States<L>,
    axis: [[f64; L]; 3],
    time: [f64; L],
    far: [f64; L],
    error: [f64; L],
    steps: [f64; L],
    /// Not zero where something other than the next step must follow.
    event: [u64; L],
}

impl<const L: usize> Lanes<L> {
    fn idle() -> Lanes<L> {
        Lanes {
            // Without a step and above the ground nothing ever happens to a lane.
            state: States { y: [1.0; L], ..States::ZERO },
            slope: States::ZERO,
            next: States::ZERO,
            next_slope: States::ZERO,
            axis: [[0.0; L]; 3],
            time: [0.0; L],
            far: [0.0; L],
            error: [0.0; L],
            steps: [0.0; L],
            event: [0; L],
        }
    }

    /// A step of every lane; the one loop that takes time.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "l counts to L, the length of every array")]
    fn advance<B: Blow, S: Step>(&mut self, model: &Model, rule: &Rule) {
        let [axis_x, axis_y, axis_z] = &self.axis;
        for l in 0..L {
            let (state, slope) = (self.state.get(l), self.slope.get(l));
            let left = rule.limit - self.time[l];
            let far = if self.far[l] < left { self.far[l] } else { left };
            let axis = [axis_x[l], axis_y[l], axis_z[l]];
            let Stepped { state: next, slope: next_slope, error } =
                S::step::<B>(model, state, slope, axis, far, rule.strict);
            self.next.set(l, next);
            self.next_slope.set(l, next_slope);
            self.far[l] = far;
            self.error[l] = error;
            let turned = u64::from(state.v > 0.0) & u64::from(next.v <= 0.0);
            let ended = u64::from(next.y < 0.0) | u64::from(self.time[l] + far >= rule.limit);
            let judged = if S::ADAPTIVE {
                u64::from(error < CALM) | u64::from(error > 1.0) | u64::from(error.is_nan())
            } else {
                0
            };
            self.event[l] = turned | ended | judged;
        }
    }

    /// All lanes go on.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn accept(&mut self) {
        self.state = self.next;
        self.slope = self.next_slope;
        for l in 0..L {
            self.time[l] += self.far[l];
            self.steps[l] += 1.0;
        }
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn accept_one(&mut self, l: usize) {
        self.state.set(l, self.next.get(l));
        self.slope.set(l, self.next_slope.get(l));
        self.time[l] += self.far[l];
        self.steps[l] += 1.0;
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn begin<B: Blow>(&mut self, l: usize, start: Start, model: &Model, rule: &Rule) {
        let [_, _, _, _, x, y, z, _] = start;
        let state = State::begin(start);
        self.state.set(l, state);
        self.slope.set(l, model.slope::<B>(state, [x, y, z]));
        for (lanes, value) in self.axis.iter_mut().zip([x, y, z]) {
            lanes[l] = value;
        }
        (self.time[l], self.far[l], self.steps[l]) = (0.0, rule.first, 0.0);
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn rest(&mut self, l: usize) {
        self.state.set(l, State { y: 1.0, ..State::default() });
        self.slope.set(l, State::default());
        (self.time[l], self.far[l]) = (0.0, 0.0);
    }

    #[allow(clippy::indexing_slicing, reason = "as above")]
    fn taken(&self, l: usize) -> (Taken, Stepped) {
        let (state, slope) = (self.state.get(l), self.slope.get(l));
        let before = Taken { state, slope, time: self.time[l], far: self.far[l], steps: self.steps[l] };
        let (state, slope) = (self.next.get(l), self.next_slope.get(l));
        (before, Stepped { state, slope, error: self.error[l] })
    }
}

#[inline(always)]
#[allow(clippy::indexing_slicing, reason = "l counts to L, the length of every array")]
fn run<const L: usize, B: Blow, S: Step, W: Watch>(
    model: &Model,
    starts: &[Start],
    ends: &mut [End],
    watch: &mut W,
) {
    let rule = Rule::of(model.setup());
    let mut waiting = starts.iter().copied().enumerate();
    let mut lanes = Lanes::<L>::idle();
    let mut flights: [Option<Flight>; L] = [None; L];
    let mut board = |l: usize, lanes: &mut Lanes<L>, watch: &mut W| {
        let flight = waiting.next().map(|(row, start)| {
            lanes.begin::<B>(l, start, model, &rule);
            watch.see(0.0, lanes.state.get(l));
            Flight::new(row, lanes.state.get(l).y)
        });
        if flight.is_none() {
            lanes.rest(l);
        }
        flight
    };
    for (l, flight) in flights.iter_mut().enumerate() {
        *flight = board(l, &mut lanes, watch);
    }
    // Lanes on their way to an event look at every step.
    let mut aiming = 0u32;
    while flights.iter().any(Option::is_some) {
        lanes.advance::<B, S>(model, &rule);
        if aiming == 0 && lanes.event.iter().fold(0, |all, e| all | e) == 0 {
            lanes.accept();
            if L == 1 {
                watch.see(lanes.time[0], lanes.state.get(0));
            }
            continue;
        }
        aiming = 0;
        for (l, seat) in flights.iter_mut().enumerate() {
            let Some(flight) = seat else { continue };
            if lanes.event[l] == 0 && !flight.aims() {
                lanes.accept_one(l);
                watch.see(lanes.time[l], lanes.state.get(l));
                continue;
            }
            let (before, after) = lanes.taken(l);
            match flight.settle(&before, &after, &rule, S::ADAPTIVE) {
                Next::Go(far) => {
                    lanes.accept_one(l);
                    lanes.far[l] = far;
                    watch.see(lanes.time[l], lanes.state.get(l));
                }
                Next::Again(far) => lanes.far[l] = far,
                Next::Over(end) => {
                    let [time, x, y, z, u, v, w, spin, ..] = end;
                    watch.see(time, State { x, y, z, u, v, w, spin });
                    if let Some(place) = ends.get_mut(flight.row) {
                        *place = end;
                    }
                    *seat = board(l, &mut lanes, watch);
                }
            }
            aiming += u32::from(seat.is_some_and(|f| f.aims()));
        }
    }
}
