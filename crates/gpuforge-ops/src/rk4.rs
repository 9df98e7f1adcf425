//! Classical Runge-Kutta (RK4) with fixed steps, element-wise: `y' = f(y, t)` with `f` given as expressions.
//!
//! Inputs of each expression: the state variables `y0 … yn`, then the time `t`, then parameters: constant tensors of the same
//! shape, or of shape `[1]` (broadcast). The time of a step is `t0 + step*dt`, so that it does not drift.
//!
//! **Accuracy.** IEEE throughout on the CPU, as in [`map`](crate::map). A device may contract `a*b + c` to an FMA; what that does
//! over many steps depends on the system: for one that does not amplify errors, results agree within `(steps + 8) * 2^-23` of the
//! largest value met (plus what WGSL grants for functions that the system uses). Elements that do not stay finite and normal are
//! unspecified on a device, each for itself.

use std::{any::Any, fmt::Write as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, floats, put_floats},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
};

use crate::{
    Expr, Op, OpCost, OpError, OpKind, Target, Threads, Variant, cost,
    expr::{
        eval::{Program, Scratch},
        wgsl::{self, Params},
    },
    map::{check_inputs, example_data},
    op::Items,
    record::{groups, size, word},
    view::{cast_slice, cast_slice_mut, slice_rows, tensor},
};

const OP: &str = "rk4";
const VARIANTS: &[Variant] = &[Variant::new(64, 1, 1), Variant::new(256, 1, 1), Variant::new(64, 4, 1)];
/// Most state variables.
pub const MAX_STATE: usize = 8;
/// Most parameters.
pub const MAX_PARAMETERS: usize = 6;
/// Most steps; an f32 counts no further.
pub const MAX_STEPS: u32 = 1 << 24;
/// Steps per dispatch: software adapters cut long loops, and watchdogs kill long kernels.
const PER_DISPATCH: u32 = 16_384;
/// Elements of a CPU block: the rows of a system then stay in L1.
const BLOCK: usize = 256;
/// Partitions begin at multiples of this many elements.
const GRAIN: usize = 64;

/// The RK4 operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Rk4 {
    system: Vec<Expr>,
    state: Vec<Tensor>,
    parameters: Vec<Tensor>,
    t0: f32,
    dt: f32,
    steps: u32,
}

/// `steps` steps of `dt` from `t0`: one expression per state variable, its derivative. Results are the new state.
pub fn rk4(system: &[Expr], state: &[&Tensor], t0: f32, dt: f32, steps: u32) -> Rk4 {
    let state = state.iter().map(|t| (*t).clone()).collect();
    Rk4 { system: system.to_vec(), state, parameters: Vec::new(), t0, dt, steps }
}

impl Rk4 {
    /// Adds parameters: inputs of the expressions after the time.
    #[must_use]
    pub fn with(mut self, parameters: &[&Tensor]) -> Rk4 {
        self.parameters = parameters.iter().map(|t| (*t).clone()).collect();
        self
    }

    fn elements(&self) -> u64 {
        self.state.first().map_or(0, cost::elements)
    }

    /// Is this parameter broadcast?
    fn is_scalar(&self, parameter: &Tensor) -> bool {
        parameter.spec().shape == [1] && self.state.first().is_some_and(|s| s.spec().shape != [1])
    }

    fn broadcast(&self) -> Vec<bool> {
        self.parameters.iter().map(|p| self.is_scalar(p)).collect()
    }

    fn weight(&self) -> u64 {
        // Four evaluations, and the sums between them.
        self.system.iter().map(|e| 4 * e.weight() + 12).sum()
    }

    fn check_counts(&self) -> Result<(), OpError> {
        let value = |what, have: String, limit| Err(OpError::Value { op: OP, what, have, limit });
        if !(1..=MAX_STATE).contains(&self.state.len()) {
            let have = self.state.len().to_string();
            return value("the number of state variables", have, "it must be between 1 and 8");
        }
        if self.system.len() != self.state.len() {
            let (have, limit) = (self.system.len().to_string(), "there must be one per state variable");
            return value("the number of expressions", have, limit);
        }
        if self.steps > MAX_STEPS {
            return value("the number of steps", self.steps.to_string(), "at most 2^24");
        }
        match [self.t0, self.dt].into_iter().find(|v| !v.is_finite()) {
            Some(odd) => value("a time", odd.to_string(), "it must be finite"),
            None => Ok(()),
        }
    }
}

impl Op for Rk4 {
    fn kind(&self) -> OpKind {
        OpKind::Rk4
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.state.iter().chain(&self.parameters).collect()
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        self.check_counts()?;
        let needed = self.system.iter().map(Expr::inputs).max().unwrap_or(0);
        // The time is an input of the expressions but not a tensor.
        let known = self.state.len() + 1;
        check_inputs(OP, 0, &self.state, MAX_STATE)?;
        check_inputs(OP, needed.saturating_sub(known), &self.parameters, MAX_PARAMETERS)?;
        self.system.iter().try_for_each(|e| e.check(OP))?;
        let shape = self.state.first().map_or_else(Vec::new, |t| t.spec().shape.clone());
        let others = self.state.iter().chain(self.parameters.iter().filter(|p| !self.is_scalar(p)));
        for other in others.map(|t| &t.spec().shape) {
            if *other != shape {
                let rule = "state and parameters must have one shape";
                return Err(OpError::Shapes { op: OP, rule, left: shape, right: other.clone() });
            }
        }
        Ok(vec![TensorSpec { dtype: DType::F32, shape, tag: OP }; self.state.len()])
    }

    fn cost(&self) -> OpCost {
        let steps = self.elements().saturating_mul(u64::from(self.steps));
        let units = steps.saturating_mul(self.weight());
        let launches = self.steps.div_ceil(PER_DISPATCH).max(1);
        let state = self.state.iter().map(size).sum();
        let read = self.parameters.iter().map(size).fold(state, |sum, b| sum + b);
        OpCost { units, flops: units, read, written: state, launches, depth: launches }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let inputs = inputs.iter().map(|b| cast_slice::<f32>(OP, b)).collect::<Result<Vec<_>, _>>()?;
        let outputs =
            outputs.iter_mut().map(|b| cast_slice_mut::<f32>(OP, b)).collect::<Result<Vec<_>, _>>()?;
        let system = self.system();
        let mut blocks: Vec<Vec<&mut [f32]>> = Vec::new();
        for output in outputs {
            for (i, block) in output.chunks_mut(BLOCK).enumerate() {
                match blocks.get_mut(i) {
                    Some(of) => of.push(block),
                    None => blocks.push(vec![block]),
                }
            }
        }
        let block = |rows: &mut Rows, (i, outputs): (usize, &mut Vec<&mut [f32]>)| {
            system.block(&inputs, i * BLOCK, outputs, 0..self.steps, rows);
        };
        // A few chunks per thread: each has its own scratch, and threads that wake up late take fewer.
        let chunk = if threads.0 < 2 { blocks.len() } else { blocks.len().div_ceil(4 * threads.0) }.max(1);
        threads.par_for_each(blocks.chunks_mut(chunk).enumerate(), |(i, some)| {
            let mut rows = system.rows();
            some.iter_mut().enumerate().for_each(|(j, b)| block(&mut rows, (i * chunk + j, b)));
        });
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let n = self.elements();
        let tuned = target.variant(OpKind::Rk4, VARIANTS);
        let width = if n.is_multiple_of(4) && n > 0 { tuned.width } else { 1 };
        let variant = Variant { width, ..tuned };
        let calls = n / u64::from(width);
        let groups = groups(OP, calls.div_ceil(u64::from(variant.group)))?;
        let (state, parameters) = inputs.split_at_checked(self.state.len()).unwrap_or((inputs, &[]));
        let mut state = state.to_vec();
        let mut from = 0;
        loop {
            let to = (from + PER_DISPATCH).min(self.steps);
            let mut params =
                Params::after(&[word(OP, calls)?, from, to, self.t0.to_bits(), self.dt.to_bits()]);
            let kernel = self.kernel(variant, &mut params);
            let next: Vec<Slot> = self.state.iter().map(|t| plan.slot(size(t), OP)).collect();
            plan.dispatch(&kernel, &[&state, parameters, &next].concat(), params.words(), groups)?;
            if from > 0 {
                state.iter().try_for_each(|s| plan.free(*s))?;
            }
            state = next;
            from = to;
            if from >= self.steps {
                return Ok(state);
            }
        }
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        Some(Items { count: usize::try_from(self.elements()).unwrap_or(usize::MAX), grain: GRAIN })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let part = |tensor: &Tensor| slice_rows(OP, tensor, items.clone(), 1, vec![items.len()]);
        let state = self.state.iter().map(part).collect::<Result<_, _>>()?;
        let parameter = |p: &Tensor| if self.is_scalar(p) { Ok(p.clone()) } else { part(p) };
        let parameters = self.parameters.iter().map(parameter).collect::<Result<_, _>>()?;
        Ok(Arc::new(Rk4 { state, parameters, ..self.clone() }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A compiled system for the CPU path.
struct System {
    programs: Vec<Program>,
    broadcast: Vec<bool>,
    t0: f32,
    dt: f32,
}

/// Scratch rows of one thread: state, evaluation point, sum of slopes, slopes, time and parameters.
struct Rows {
    y: Vec<Vec<f32>>,
    point: Vec<Vec<f32>>,
    sum: Vec<Vec<f32>>,
    slope: Vec<Vec<f32>>,
    time: Vec<f32>,
    parameters: Vec<Vec<f32>>,
    scratch: Vec<Scratch>,
}

impl System {
    fn rows(&self) -> Rows {
        let rows = |n: usize| vec![vec![0.0; BLOCK]; n];
        let n = self.programs.len();
        Rows {
            y: rows(n),
            point: rows(n),
            sum: rows(n),
            slope: rows(n),
            time: vec![0.0; BLOCK],
            parameters: rows(self.broadcast.len()),
            scratch: self.programs.iter().map(|p| p.scratch(BLOCK)).collect(),
        }
    }

    /// Integrates the elements from `at` on, as many as the outputs have, over `steps`.
    fn block(
        &self,
        inputs: &[&[f32]],
        at: usize,
        outputs: &mut [&mut [f32]],
        steps: Range<u32>,
        rows: &mut Rows,
    ) {
        let n = outputs.first().map_or(0, |o| o.len());
        let here = |row: &mut Vec<f32>, input: &[f32]| {
            row.clear();
            row.extend_from_slice(input.get(at..at + n).unwrap_or_default());
        };
        let (state, parameters) = inputs.split_at_checked(self.programs.len()).unwrap_or((inputs, &[]));
        rows.y.iter_mut().zip(state).for_each(|(row, input)| here(row, input));
        for ((row, one), input) in rows.parameters.iter_mut().zip(&self.broadcast).zip(parameters) {
            match input.first().filter(|_| *one) {
                Some(value) => row.fill(*value),
                None => here(row, input),
            }
        }
        for step in steps {
            self.step(self.t0 + step as f32 * self.dt, n, rows);
        }
        for (out, y) in outputs.iter_mut().zip(&rows.y) {
            out.copy_from_slice(y.get(..n).unwrap_or_default());
        }
    }

    /// One RK4 step: four slopes, summed in the order k1 + 2*k2 + 2*k3 + k4, as in the shader.
    fn step(&self, t: f32, n: usize, rows: &mut Rows) {
        let (half, sixth) = (self.dt * 0.5, self.dt / 6.0);
        let times = [t, t + half, t + half, t + self.dt];
        for (stage, (time, far)) in times.into_iter().zip([half, half, self.dt, 0.0]).enumerate() {
            self.slopes(stage == 0, time, n, rows);
            let Rows { y, point, sum, slope, .. } = rows;
            for (((y, point), sum), slope) in y.iter_mut().zip(point).zip(sum).zip(&*slope) {
                match stage {
                    0 => sum.iter_mut().zip(slope).for_each(|(s, k)| *s = *k),
                    3 => y.iter_mut().zip(&*sum).zip(slope).for_each(|((y, s), k)| *y += sixth * (s + k)),
                    _ => sum.iter_mut().zip(slope).for_each(|(s, k)| *s += 2.0 * k),
                }
                if stage < 3 {
                    point.iter_mut().zip(&*y).zip(slope).for_each(|((p, y), k)| *p = y + far * k);
                }
            }
        }
    }

    /// Derivatives at the state (`first`) or at the evaluation point.
    fn slopes(&self, first: bool, time: f32, n: usize, rows: &mut Rows) {
        rows.time.fill(time);
        let Rows { y, point, slope, time, parameters, scratch, .. } = rows;
        let mut inputs: [&[f32]; MAX_STATE + 1 + MAX_PARAMETERS] = [&[]; _];
        let all = if first { &*y } else { &*point }.iter().chain([&*time]).chain(&*parameters);
        inputs.iter_mut().zip(all).for_each(|(to, row)| *to = row);
        for ((program, out), scratch) in self.programs.iter().zip(slope).zip(scratch) {
            program.run(&inputs, out.get_mut(..n).unwrap_or_default(), scratch, false);
        }
    }
}

impl Rk4 {
    fn system(&self) -> System {
        let programs = self.system.iter().map(Program::new).collect();
        System { programs, broadcast: self.broadcast(), t0: self.t0, dt: self.dt }
    }

    fn kernel(&self, variant: Variant, params: &mut Params) -> Arc<Kernel> {
        let broadcast = self.broadcast();
        let (state, count) = (self.state.len(), broadcast.len());
        let mut bindings = vec![Access::Read; state + count];
        bindings.extend(vec![Access::Write; state]);
        let system = Arc::new(self.system());
        let width = variant.width as usize;
        let cpu_reference = move |call: &mut KernelCall<'_>| -> Result<(), CpuReferenceError> {
            let [n, from, to, ..] = call.params else {
                return Err(CpuReferenceError { kernel: OP.into(), why: "needs 3 parameters".into() });
            };
            let n = *n as usize * width;
            let inputs: Vec<Vec<f32>> = call.inputs.iter().map(|b| floats(b).collect()).collect();
            let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let (mut rows, mut results) = (system.rows(), vec![vec![0f32; n]; state]);
            for at in (0..n).step_by(BLOCK) {
                let mut outputs: Vec<&mut [f32]> =
                    results.iter_mut().filter_map(|r| r.get_mut(at..(at + BLOCK).min(n))).collect();
                system.block(&inputs, at, &mut outputs, *from..*to, &mut rows);
            }
            for (out, result) in call.outputs.iter_mut().zip(results) {
                put_floats(out, result.into_iter());
            }
            Ok(())
        };
        let wgsl = self.shader(variant, &broadcast, params).into();
        Arc::new(Kernel {
            name: OP.into(),
            wgsl,
            entry: "main",
            bindings,
            cpu_reference: Arc::new(cpu_reference),
        })
    }

    /// Parameter words: invocations, first and last step, t0, dt, constants.
    fn shader(
        &self,
        Variant { group, width, .. }: Variant,
        broadcast: &[bool],
        params: &mut Params,
    ) -> String {
        let n = self.state.len();
        let mut text = wgsl::head(width, "f32");
        for i in 0..n {
            text += &wgsl::binding(i + 1, "read", &format!("y{i}_in"), "V");
            text += &wgsl::binding(n + broadcast.len() + i + 1, "read_write", &format!("y{i}_out"), "V");
        }
        for (i, one) in broadcast.iter().enumerate() {
            text += &wgsl::binding(n + i + 1, "read", &format!("q{i}_in"), if *one { "f32" } else { "V" });
        }
        let inputs = n + 1 + broadcast.len();
        let list = |write: &dyn Fn(usize) -> String| (0..inputs).map(write).collect::<Vec<_>>().join(", ");
        let arguments = list(&|i| format!("x{i}: V"));
        for (i, expr) in self.system.iter().enumerate() {
            let _ = writeln!(text, "fn f{i}({arguments}) -> V {{");
            let result = wgsl::steps(expr, params, &mut text);
            let _ = writeln!(text, "    return {result};\n}}");
        }
        text += &wgsl::entry(group);
        for i in 0..n {
            let _ = writeln!(text, "    var y{i} = y{i}_in[i];");
        }
        for (i, one) in broadcast.iter().enumerate() {
            let index = if *one { "0" } else { "i" };
            let _ = writeln!(text, "    let q{i} = V(q{i}_in[{index}]);");
        }
        text += "    let t0 = bitcast<f32>(p.v[0].w);\n    let dt = bitcast<f32>(p.v[1].x);\n";
        text += "    let half = dt * 0.5;\n    let sixth = dt / 6.0;\n";
        text += "    for (var step = p.v[0].y; step < p.v[0].z; step++) {\n        let t = t0 + f32(step) * dt;\n";
        let stages = [
            ("", "t"),
            (" + half * k1_", "t + half"),
            (" + half * k2_", "t + half"),
            (" + dt * k3_", "t + dt"),
        ];
        for (stage, (further, time)) in (1..).zip(stages) {
            let point = |i: usize| match i {
                i if i < n && further.is_empty() => format!("y{i}"),
                i if i < n => format!("y{i}{further}{i}"),
                i if i == n => format!("V({time})"),
                i => format!("q{}", i - n - 1),
            };
            for i in 0..n {
                let _ = writeln!(text, "        let k{stage}_{i} = f{i}({});", list(&point));
            }
        }
        for i in 0..n {
            let sum = format!("k1_{i} + 2.0 * k2_{i} + 2.0 * k3_{i} + k4_{i}");
            let _ = writeln!(text, "        y{i} = y{i} + sixth * ({sum});");
        }
        text += "    }\n";
        for i in 0..n {
            let _ = writeln!(text, "    y{i}_out[i] = y{i};");
        }
        text + "}\n"
    }
}

/// Calibration example: `[elements, steps]`, a damped oscillator.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let steps = sizes.get(1).copied().unwrap_or(16).min(MAX_STEPS as usize) as u32;
    let names = ["x", "v", "t"];
    let system = [Expr::parse("v", &names)?, Expr::parse("-4*x - 0.1*v", &names)?];
    let state = [tensor(&example_data(n, 1), &[n], OP)?, tensor(&example_data(n, 2), &[n], OP)?];
    Ok(Arc::new(rk4(&system, &[&state[0], &state[1]], 0.0, 0.01, steps)))
}
