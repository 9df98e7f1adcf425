//! Flights as a routed operation: SIMD batches on the CPU, one launch per invocation on a device.
//!
//! **Accuracy.** Launches and results are f64 on every backend (two words each, low word first). A device computes in f32: for
//! golf ball launches with steps of 0.01 s, positions agree with the CPU within 5 mm, times within 0.5 ms, speeds within 5 mm/s
//! (`tests/trajectory_device.rs`). Only fixed steps can be recorded.
//!
//! **Plan.** `launch` rounds every start to a state of 16 words (position, velocity, spin, steps, apex, its time, 1 + status,
//! time, axis), `advance` takes at most [`CHUNK`] steps in place, as often as the time limit needs, `end` widens it. Constants are
//! data: the layout of `given` is in [`Flights::given`].

use std::{any::Any, ops::Range, sync::Arc};

use gpuforge_ops::{
    Op, OpCost, OpError, OpKind, Target, Threads,
    op::Items,
    record::{groups, word},
    view,
};
use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, bytes_of_floats, floats, put_floats},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};
use gpuforge_simd::Simd;

use super::{
    FlightModel, FlightSummary, IntegrationMethod, Launch, ShearProfile, TrajectoryError,
    flight_model::{AxisScale, MAX_HEIGHT, MIN_AIR_SPEED},
    launch::{END, End, START, Start},
    simd_batch,
};

const OP: &str = "trajectory";
/// Words per state on a device.
const STATE: usize = 16;
/// Steps per dispatch: software adapters cut long loops, and watchdogs kill long kernels.
pub const CHUNK: u32 = 1024;
/// Workgroup size.
const GROUP: u64 = 64;
/// Assumed flight time in seconds, for cost estimates.
const USUAL: f64 = 6.0;
/// FLOPs of one RK4 step.
const PER_STEP: u64 = 480;

/// A batch of flights as an operation. Results are read with [`Flights::summaries`].
#[derive(Debug, Clone)]
pub struct Flights {
    model: Arc<FlightModel>,
    step: f64,
    starts: Tensor,
    count: usize,
    /// Invalid launches by row; the others fly.
    bad: Arc<Vec<(usize, TrajectoryError)>>,
}

impl Flights {
    /// Flights of these launches; an invalid one gets its error in the results. Refused for an adaptive model, whose flights are computed
    /// by [`FlightModel::fly_all`].
    pub fn new(model: &Arc<FlightModel>, launches: &[Launch]) -> Result<Flights, OpError> {
        let IntegrationMethod::Rk4 { step } = model.setup().method else {
            let (have, limit) = ("adaptive".to_owned(), "only fixed steps can be recorded for a device");
            return Err(OpError::Value { op: OP, what: "the method", have, limit });
        };
        let (mut bytes, mut bad) = (Vec::with_capacity(launches.len() * START * 8), Vec::new());
        for (row, launch) in launches.iter().enumerate() {
            match launch.start() {
                Ok(start) => bytes.extend(start.iter().flat_map(|n| n.to_le_bytes())),
                Err(error) => bad.push((row, error)),
            }
        }
        let count = launches.len() - bad.len();
        let spec = TensorSpec { dtype: DType::U32, shape: vec![count, 2 * START], tag: OP };
        let starts = Tensor::from_bytes(bytes, spec)?;
        Ok(Flights { model: model.clone(), step, starts, count, bad: Arc::new(bad) })
    }

    /// Summaries in launch order, from the bytes of the operation's result.
    pub fn summaries(&self, result: &[u8]) -> Result<Vec<Result<FlightSummary, TrajectoryError>>, OpError> {
        let want = self.count * END * 8;
        if result.len() != want {
            return Err(OpError::Call { op: OP, what: "bytes of results", want, have: result.len() });
        }
        let mut flown = chunks::<END>(result).map(|end| Ok(FlightSummary::of(end)));
        let mut all = Vec::with_capacity(self.count + self.bad.len());
        for (row, error) in self.bad.iter() {
            all.extend(flown.by_ref().take(row - all.len()));
            all.push(Err(error.clone()));
        }
        all.extend(flown);
        Ok(all)
    }

    /// Device constants: 27 values, then from word 32 the nodes of drag and lift.
    fn given(&self) -> Vec<f32> {
        let m = &*self.model;
        let [t1, t2, t3, t4] = m.density_series;
        let [wind_x, wind_z] = m.wind;
        let kind = match m.setup().wind.profile {
            ShearProfile::Uniform => 0.0,
            ShearProfile::Power { .. } => 1.0,
            ShearProfile::Log { .. } => 2.0,
        };
        let scale = |s: AxisScale| [s.first, s.per_step, s.last, s.cell];
        let mut given = vec![m.gravity, m.push, m.reynolds, m.radius, t1, t2, t3, t4, wind_x, wind_z];
        given.extend([m.shear.above, m.shear.factor, m.shear.offset, MAX_HEIGHT, MIN_AIR_SPEED, kind]);
        given.extend(scale(m.across));
        given.extend(scale(m.along));
        given.extend([m.decay, self.step, m.setup().time_limit]);
        given.resize(32, 0.0);
        let table = &m.setup().coefficients;
        given.extend(table.padded(&table.drag));
        given.extend(table.padded(&table.lift));
        given.into_iter().map(|n| n as f32).collect()
    }

    /// Steps until the time limit.
    fn steps(&self) -> u32 {
        (self.model.setup().time_limit / self.step).ceil() as u32 + 1
    }
}

/// Rows of f64 in bytes.
fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [f64; N]> + '_ {
    bytes.chunks_exact(N * 8).map(|row| {
        let mut numbers = row.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b));
        std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
    })
}

impl Op for Flights {
    fn kind(&self) -> OpKind {
        OpKind::Custom
    }

    fn name(&self) -> &str {
        OP
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.starts]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        word(OP, (self.count as u64).saturating_mul(2 * END as u64))?;
        Ok(vec![TensorSpec { dtype: DType::U32, shape: vec![self.count, 2 * END], tag: OP }])
    }

    fn cost(&self) -> OpCost {
        let usual = (USUAL.min(self.model.setup().time_limit) / self.step) as u64;
        let units = (self.count as u64).saturating_mul(usual.max(1));
        let launches = 2 + self.steps().div_ceil(CHUNK);
        OpCost {
            units,
            flops: units.saturating_mul(PER_STEP),
            read: Bytes((self.count * START * 8) as u64),
            written: Bytes((self.count * END * 8) as u64),
            launches,
            depth: launches,
        }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [starts] = view::exactly::<_, 1>(OP, "inputs", inputs)?;
        let [ends] = view::exactly_mut::<_, 1>(OP, "outputs", outputs)?;
        let tile = simd_batch::tile(self.count, threads.0);
        let tiles = starts.chunks(tile * START * 8).zip(ends.chunks_mut(tile * END * 8));
        let simd = Simd::detect();
        threads.par_for_each(tiles, |(from, to)| {
            let starts: Vec<Start> = chunks::<START>(from).collect();
            let mut ends: Vec<End> = vec![[0.0; END]; starts.len()];
            simd_batch::fly(&self.model, &starts, &mut ends, simd);
            let numbers = ends.iter().flatten();
            to.as_chunks_mut::<8>().0.iter_mut().zip(numbers).for_each(|(to, n)| *to = n.to_le_bytes());
        });
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], _target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [starts] = view::exactly::<_, 1>(OP, "inputs", inputs)?;
        let (n, count) = (word(OP, self.count as u64)?, self.count as u64);
        let groups = groups(OP, count.div_ceil(GROUP))?;
        let given = plan.upload(bytes_of_floats(&self.given()), OP)?;
        let states = plan.slot(Bytes(count * STATE as u64 * 4), OP);
        plan.dispatch(&launch_kernel(), &[*starts, states], &[n], groups)?;
        let advance = self.advance_kernel();
        for from in (0..self.steps()).step_by(CHUNK as usize) {
            plan.dispatch(&advance, &[given, states], &[n, from, from + CHUNK], groups)?;
        }
        let ends = plan.slot(Bytes(count * END as u64 * 8), OP);
        plan.dispatch(&end_kernel(), &[states, ends], &[n], groups)?;
        plan.free(states)?;
        Ok(vec![ends])
    }

    fn items(&self) -> Option<Items> {
        Some(Items { count: self.count, grain: GROUP as usize })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let count = items.len();
        let starts = view::slice_rows(OP, &self.starts, items, 2 * START, vec![count, 2 * START])?;
        Ok(Arc::new(Flights { starts, count, bad: Arc::default(), ..self.clone() }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn refuse(why: &str) -> CpuReferenceError {
    CpuReferenceError { kernel: OP.to_owned(), why: why.to_owned() }
}

/// The one input and the one output of a call.
fn both<'c>(call: &'c mut KernelCall<'_>) -> Result<(&'c [u8], &'c mut [u8]), CpuReferenceError> {
    match (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
        ([from], [to]) => Ok((from, to)),
        _ => Err(refuse("needs 1 input, 1 output")),
    }
}

fn launch_kernel() -> Arc<Kernel> {
    let cpu_reference = |call: &mut KernelCall<'_>| {
        let (from, to) = both(call)?;
        let state = |[height, u, v, w, a, b, c, spin]: Start| {
            [0.0, height, 0.0, u, v, w, spin, 0.0, height, 0.0, 0.0, 0.0, a, b, c, 0.0]
        };
        put_floats(to, chunks::<START>(from).flat_map(state).map(|n| n as f32));
        Ok(())
    };
    Arc::new(Kernel {
        name: "trajectory-launch".into(),
        wgsl: include_str!("../../shader/trajectory_launch.wgsl").into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(cpu_reference),
    })
}

fn end_kernel() -> Arc<Kernel> {
    let cpu_reference = |call: &mut KernelCall<'_>| {
        let (from, to) = both(call)?;
        let states: Vec<f64> = floats(from).map(f64::from).collect();
        let ends = states.as_chunks::<STATE>().0.iter().flat_map(|state| {
            let [x, y, z, u, v, w, spin, steps, apex, apex_time, status, time, ..] = *state;
            [time, x, y, z, u, v, w, spin, apex, apex_time, status - 1.0, steps]
        });
        to.as_chunks_mut::<8>().0.iter_mut().zip(ends).for_each(|(to, n)| *to = n.to_le_bytes());
        Ok(())
    };
    Arc::new(Kernel {
        name: "trajectory-end".into(),
        wgsl: include_str!("../../shader/trajectory_end.wgsl").into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(cpu_reference),
    })
}

impl Flights {
    /// The CPU reference kernel of the first chunk flies to the end: no state between chunks is visible, and later dispatches find it finished.
    fn advance_kernel(&self) -> Arc<Kernel> {
        let model = self.model.clone();
        let cpu_reference = move |call: &mut KernelCall<'_>| {
            let n = call.params.first().copied().unwrap_or(0) as usize;
            let to = call.outputs.first_mut().ok_or_else(|| refuse("needs 1 output"))?;
            let mut states: Vec<[f32; STATE]> = Vec::with_capacity(n);
            states.extend(floats(to).collect::<Vec<_>>().as_chunks::<STATE>().0.iter().take(n));
            let starts: Vec<Start> = states.iter().map(start_of).collect();
            if states.iter().any(|s| s.get(10).is_some_and(|status| *status > 0.0)) {
                return Ok(());
            }
            let mut ends: Vec<End> = vec![[0.0; END]; starts.len()];
            simd_batch::fly(&model, &starts, &mut ends, Simd::detect());
            let over = states.iter().zip(ends).flat_map(|(state, end)| state_of(state, end));
            put_floats(to, over);
            Ok(())
        };
        Arc::new(Kernel {
            name: "trajectory-advance".into(),
            wgsl: include_str!("../../shader/trajectory_advance.wgsl").into(),
            entry: "main",
            bindings: vec![Access::Read, Access::Update],
            cpu_reference: Arc::new(cpu_reference),
        })
    }
}

fn start_of(state: &[f32; STATE]) -> Start {
    let [_, height, _, u, v, w, spin, _, _, _, _, _, a, b, c, _] = state.map(f64::from);
    [height, u, v, w, a, b, c, spin]
}

fn state_of(state: &[f32; STATE], end: End) -> [f32; STATE] {
    let [time, x, y, z, u, v, w, spin, apex, apex_time, status, steps] = end.map(|n| n as f32);
    let [_, _, _, _, _, _, _, _, _, _, _, _, a, b, c, last] = *state;
    [x, y, z, u, v, w, spin, steps, apex, apex_time, status + 1.0, time, a, b, c, last]
}
