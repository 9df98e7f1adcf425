//! Custom kernels: user-supplied WGSL and a CPU function, validated before they run.
//!
//! Binding 0 is a uniform block of up to 16 words ([`Custom::params`]), then come the inputs (`var<storage, read>`), then the
//! outputs (`var<storage, read_write>`), all in group 0.
//!
//! **Loop guard.** Software adapters cut long loops silently. A kernel with loops is therefore instrumented
//! (`custom/loop_guard.rs`): it writes an extra result that must be all zero ([`Op::guard`],
//! [`guard_passed`](crate::op::guard_passed)); otherwise its results are discarded and the CPU function runs instead.
//!
//! ```
//! use gpuforge_ops::{Custom, Op, view::tensor};
//! let a = tensor(&[1f32, 2.0], &[2], "a")?;
//! let op = Custom::new("double")
//!     .wgsl(
//!         "@group(0) @binding(1) var<storage, read> a: array<f32>;
//!          @group(0) @binding(2) var<storage, read_write> b: array<f32>;
//!          @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!              if (id.x < arrayLength(&a)) { b[id.x] = a[id.x] * 2.0; }
//!          }",
//!     )
//!     .reads(&[&a])
//!     .writes_like_input()
//!     .cpu_fn(|inputs, outputs, _| {
//!         for (b, a) in outputs[0].chunks_exact_mut(4).zip(inputs[0].chunks_exact(4)) {
//!             b.copy_from_slice(&(f32::from_le_bytes(a.try_into()?) * 2.0).to_le_bytes());
//!         }
//!         Ok(())
//!     });
//! assert_eq!(op.outputs()?[0].shape, [2]);
//! # Ok::<(), gpuforge_ops::OpError>(())
//! ```

use std::{any::Any, error::Error, fmt, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, put_words, words},
    plan::{MAX_GROUPS, MAX_PARAMS, Plan, Slot},
    tensor::{Tensor, TensorSpec},
    units::Bytes,
};

use crate::{
    Op, OpCost, OpError, OpKind, Target, Threads, cost,
    record::{DEFAULT_LOOP_ITERATIONS, groups, size, word},
};

mod loop_guard;
mod validate;

use loop_guard::{LoopGuardCheck, WORDS};
use validate::{KernelRequest, ValidatedKernel};

const OP: &str = "custom";
/// CPU function: bytes of the inputs, bytes of the outputs (arbitrary contents), parameters.
pub type CpuFn =
    Arc<dyn Fn(&[&[u8]], &mut [&mut [u8]], &[u32]) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;
/// Infers dtypes and shapes of the outputs from those of the inputs.
pub type OutputsFn = Arc<dyn Fn(&[TensorSpec]) -> Result<Vec<TensorSpec>, String> + Send + Sync>;

/// A user-supplied kernel; see the module documentation.
#[derive(Clone)]
pub struct Custom {
    name: Arc<str>,
    wgsl: Arc<str>,
    entry: Arc<str>,
    inputs: Vec<Tensor>,
    outputs: Option<OutputsFn>,
    params: Vec<u32>,
    groups: Option<[u32; 3]>,
    units: Option<u64>,
    cpu: Option<CpuFn>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Custom");
        f.field("name", &self.name).field("entry", &self.entry).field("inputs", &self.inputs);
        f.field("params", &self.params).field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl Custom {
    /// A kernel of this name; the name selects its cost curve.
    pub fn new(name: &str) -> Custom {
        Custom {
            name: name.into(),
            wgsl: "".into(),
            entry: "main".into(),
            inputs: Vec::new(),
            outputs: None,
            params: Vec::new(),
            groups: None,
            units: None,
            cpu: None,
        }
    }

    /// WGSL source.
    #[must_use]
    pub fn wgsl(self, source: &str) -> Custom {
        Custom { wgsl: source.into(), ..self }
    }

    /// Entry point; default `main`.
    #[must_use]
    pub fn entry(self, name: &str) -> Custom {
        Custom { entry: name.into(), ..self }
    }

    /// Inputs: bindings 1, 2, …
    #[must_use]
    pub fn reads(self, inputs: &[&Tensor]) -> Custom {
        Custom { inputs: inputs.iter().map(|t| (*t).clone()).collect(), ..self }
    }

    /// Outputs, inferred from the inputs.
    #[must_use]
    pub fn writes_from(
        self,
        outputs: impl Fn(&[TensorSpec]) -> Result<Vec<TensorSpec>, String> + Send + Sync + 'static,
    ) -> Custom {
        Custom { outputs: Some(Arc::new(outputs)), ..self }
    }

    /// Outputs.
    #[must_use]
    pub fn writes(self, outputs: &[TensorSpec]) -> Custom {
        let outputs = outputs.to_vec();
        self.writes_from(move |_| Ok(outputs.clone()))
    }

    /// One output with dtype and shape of the first input.
    #[must_use]
    pub fn writes_like_input(self) -> Custom {
        self.writes_from(|inputs| inputs.first().cloned().map(|s| vec![s]).ok_or("there is no input".into()))
    }

    /// Words of the parameter block, at most 16.
    #[must_use]
    pub fn params(self, words: &[u32]) -> Custom {
        Custom { params: words.to_vec(), ..self }
    }

    /// Workgroup grid. Default: one invocation per element of the first output, in two dimensions where one is not enough (see
    /// [`record::groups`](crate::record::groups)).
    #[must_use]
    pub fn groups(self, groups: [u32; 3]) -> Custom {
        Custom { groups: Some(groups), ..self }
    }

    /// Size on the cost curve; default: elements of the outputs.
    #[must_use]
    pub fn units(self, units: u64) -> Custom {
        Custom { units: Some(units), ..self }
    }

    /// The same computation on the CPU; required, because a device may be lost or untrusted.
    #[must_use]
    pub fn cpu_fn(
        self,
        function: impl Fn(&[&[u8]], &mut [&mut [u8]], &[u32]) -> Result<(), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Custom {
        Custom { cpu: Some(Arc::new(function)), ..self }
    }

    fn error(&self, message: impl Into<String>) -> OpError {
        OpError::Kernel { name: self.name.to_string(), message: message.into() }
    }

    fn specs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let inputs: Vec<TensorSpec> = self.inputs.iter().map(|t| t.spec().clone()).collect();
        let outputs = self.outputs.as_ref().ok_or_else(|| self.error("it says no outputs"))?;
        let specs = outputs(&inputs).map_err(|why| self.error(why))?;
        if specs.is_empty() {
            return Err(self.error("it has no outputs"));
        }
        Ok(specs)
    }

    /// The validated kernel for a device, or for one with every capability.
    fn validated(&self, outputs: usize, target: Option<&Target<'_>>) -> Result<ValidatedKernel, OpError> {
        let request = KernelRequest {
            source: self.wgsl.clone(),
            entry: self.entry.clone(),
            inputs: self.inputs.len(),
            outputs,
            f16: target.is_none_or(|t| t.caps.f16),
            subgroups: target.is_none_or(|t| t.caps.subgroup.is_some()),
            limit: target.map_or(DEFAULT_LOOP_ITERATIONS, Target::loop_iterations),
        };
        validate::validated_kernel(&request).as_ref().clone().map_err(|message| self.error(message))
    }

    fn grid(&self, specs: &[TensorSpec], validated: &ValidatedKernel) -> Result<[u32; 3], OpError> {
        let per_group = validated.group.iter().map(|n| u64::from(*n)).product::<u64>().max(1);
        let elements = specs.first().map_or(0, |s| cost::count(&s.shape));
        match self.groups {
            None => groups(OP, elements.div_ceil(per_group)),
            Some(grid) if grid.iter().all(|n| (1..=MAX_GROUPS).contains(n)) => Ok(grid),
            Some(grid) => {
                Err(self.error(format!("{grid:?} groups: between 1 and {MAX_GROUPS} in each dimension")))
            }
        }
    }

    fn kernel(&self, specs: &[TensorSpec], validated: &ValidatedKernel) -> Arc<Kernel> {
        let mut bindings = vec![Access::Read; self.inputs.len()];
        bindings.extend(vec![Access::Write; specs.len() + usize::from(validated.guarded)]);
        let op = self.clone();
        let length = |size: Option<Bytes>| usize::try_from(size.unwrap_or(Bytes::ZERO).0).unwrap_or(0);
        let outputs: Vec<usize> = specs.iter().map(|s| length(s.size())).collect();
        let inputs: Vec<usize> = self.inputs.iter().map(|t| length(t.spec().size())).collect();
        let cpu_reference = move |call: &mut KernelCall<'_>| -> Result<(), CpuReferenceError> {
            // Slots are padded to whole words; the function sees the unpadded bytes. The guard stays zero.
            let read: Vec<&[u8]> =
                call.inputs.iter().zip(&inputs).map(|(b, n)| b.get(..*n).unwrap_or(b)).collect();
            let mut written: Vec<&mut [u8]> =
                call.outputs.iter_mut().zip(&outputs).filter_map(|(b, n)| b.get_mut(..*n)).collect();
            op.call(&read, &mut written)
                .map_err(|e| CpuReferenceError { kernel: op.name.to_string(), why: e.to_string() })
        };
        Arc::new(Kernel {
            name: self.name.to_string().into(),
            wgsl: validated.wgsl.clone().into(),
            entry: validated.entry,
            bindings,
            cpu_reference: Arc::new(cpu_reference),
        })
    }

    fn call(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        let function = self.cpu.as_ref().ok_or_else(|| self.error("it has no CPU function"))?;
        let failed = |e: Box<dyn Error + Send + Sync>| OpError::User {
            op: self.name.to_string(),
            message: e.to_string(),
        };
        function(inputs, outputs, &self.params).map_err(failed)
    }
}

impl Op for Custom {
    fn kind(&self) -> OpKind {
        OpKind::Custom
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.inputs.iter().collect()
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let specs = self.specs()?;
        if self.cpu.is_none() {
            return Err(self.error("it has no CPU function"));
        }
        if self.params.len() > MAX_PARAMS {
            return Err(self.error(format!("{} parameter words, at most {MAX_PARAMS}", self.params.len())));
        }
        let validated = self.validated(specs.len(), None)?;
        self.grid(&specs, &validated)?;
        Ok(specs)
    }

    fn cost(&self) -> OpCost {
        let specs = self.specs().unwrap_or_default();
        let elements = specs.iter().fold(0u64, |n, s| n.saturating_add(cost::count(&s.shape)));
        let units = self.units.unwrap_or(elements);
        let written = specs.iter().map(|s| s.size().unwrap_or(Bytes(u64::MAX))).sum();
        let launches = 1 + u32::from(self.guard().is_some());
        let read = self.inputs.iter().map(size).sum();
        OpCost { units, flops: units, read, written, launches, depth: launches }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], _threads: Threads) -> Result<(), OpError> {
        self.call(inputs, outputs)
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let specs = self.specs()?;
        let validated = self.validated(specs.len(), Some(target))?;
        let grid = self.grid(&specs, &validated)?;
        let mut results: Vec<Slot> =
            specs.iter().map(|s| plan.slot(s.size().unwrap_or(Bytes(u64::MAX)), "custom")).collect();
        if !validated.guarded {
            plan.dispatch(
                &self.kernel(&specs, &validated),
                &[inputs, &results].concat(),
                &self.params,
                grid,
            )?;
            return Ok(results);
        }
        let lanes = target.caps.subgroup.map(|(_, most)| most);
        let check = LoopGuardCheck::new(validated.group, validated.single, target.loop_iterations(), lanes);
        let count = grid.iter().fold(1u64, |n, d| n.saturating_mul(u64::from(*d)));
        let invocations = count.saturating_mul(u64::from(check.group));
        // The kernel indexes its words with u32.
        word(OP, invocations.saturating_mul(WORDS))?;
        let words = plan.slot(Bytes(invocations.saturating_mul(WORDS * 4)), "custom guard");
        let bound = [inputs, &results, &[words]].concat();
        plan.dispatch(&self.kernel(&specs, &validated), &bound, &self.params, grid)?;
        let guard_words = plan.slot(Bytes(count * 4), "custom guard");
        let params = check.params(word(OP, count)?);
        plan.dispatch(&guard_kernel(check), &[words, guard_words], &params, groups(OP, count.div_ceil(64))?)?;
        plan.free(words)?;
        results.push(guard_words);
        Ok(results)
    }

    fn guard(&self) -> Option<usize> {
        let outputs = self.specs().ok()?.len();
        self.validated(outputs, None).ok().filter(|r| r.guarded).map(|_| outputs)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Checks the loop guard: one word per workgroup, 0 where it passed.
fn guard_kernel(check: LoopGuardCheck) -> Arc<Kernel> {
    let cpu_reference = move |call: &mut KernelCall<'_>| -> Result<(), CpuReferenceError> {
        let ([left], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) else {
            return Err(CpuReferenceError { kernel: "guard".into(), why: "needs 1 input, 1 output".into() });
        };
        put_words(out, check.check(&words(left).collect::<Vec<_>>()).into_iter());
        Ok(())
    };
    Arc::new(Kernel {
        name: "guard".into(),
        wgsl: include_str!("../shader/loop_guard.wgsl").into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(cpu_reference),
    })
}
