//! Somebody else's kernel: WGSL and a function for the processor, checked before they run.
//!
//! Binding 0 is a uniform block of up to 16 words ([`Custom::params`]), then come the inputs (`var<storage, read>`), then the
//! outputs (`var<storage, read_write>`), all in group 0.
//!
//! **Loops.** Software adapters end long loops silently. A kernel with loops is therefore watched (`custom/guard.rs`): it
//! writes an extra result that must be all zero ([`Op::guard`], [`trusted`](crate::op::trusted)); otherwise its other results count for nothing,
//! and the function for the processor has to run instead.
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
//!     .processor(|inputs, outputs, _| {
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
    kernel::{Access, Call, Kernel, TwinError, put_words, words},
    plan::{MAX_GROUPS, MAX_PARAMS, Plan, Slot},
    tensor::{Spec, Tensor},
    units::Bytes,
};

use crate::{
    Effort, Kind, Op, OpError, Target, Threads,
    record::{LOOPS, groups, size, word},
    work,
};

mod check;
mod guard;

use check::{Question, Ready};
use guard::{Judge, WORDS};

const OP: &str = "custom";
/// The function for the processor: bytes of the inputs, bytes of the outputs (which hold anything), parameters.
pub type CpuFn =
    Arc<dyn Fn(&[&[u8]], &mut [&mut [u8]], &[u32]) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;
/// Kinds and shapes of the outputs, from those of the inputs.
pub type OutputsFn = Arc<dyn Fn(&[Spec]) -> Result<Vec<Spec>, String> + Send + Sync>;

/// See the module's documentation.
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
    /// A kernel of this name, which has a model of its own.
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

    /// Its source.
    #[must_use]
    pub fn wgsl(self, source: &str) -> Custom {
        Custom { wgsl: source.into(), ..self }
    }

    /// Its entry point; `main` unless said otherwise.
    #[must_use]
    pub fn entry(self, name: &str) -> Custom {
        Custom { entry: name.into(), ..self }
    }

    /// What it reads: bindings 1, 2, …
    #[must_use]
    pub fn reads(self, inputs: &[&Tensor]) -> Custom {
        Custom { inputs: inputs.iter().map(|t| (*t).clone()).collect(), ..self }
    }

    /// What it writes, found from what it reads.
    #[must_use]
    pub fn writes_from(
        self,
        outputs: impl Fn(&[Spec]) -> Result<Vec<Spec>, String> + Send + Sync + 'static,
    ) -> Custom {
        Custom { outputs: Some(Arc::new(outputs)), ..self }
    }

    /// What it writes.
    #[must_use]
    pub fn writes(self, outputs: &[Spec]) -> Custom {
        let outputs = outputs.to_vec();
        self.writes_from(move |_| Ok(outputs.clone()))
    }

    /// It writes one result of the kind and shape of its first input.
    #[must_use]
    pub fn writes_like_input(self) -> Custom {
        self.writes_from(|inputs| inputs.first().cloned().map(|s| vec![s]).ok_or("there is no input".into()))
    }

    /// Words of its parameter block, at most 16.
    #[must_use]
    pub fn params(self, words: &[u32]) -> Custom {
        Custom { params: words.to_vec(), ..self }
    }

    /// Groups in each dimension. Unless said otherwise there is an invocation for every element of the first output, in
    /// two dimensions where one is not enough (see [`record::groups`](crate::record::groups)).
    #[must_use]
    pub fn groups(self, groups: [u32; 3]) -> Custom {
        Custom { groups: Some(groups), ..self }
    }

    /// How much work it is, on a scale of its own; elements of the outputs unless said otherwise.
    #[must_use]
    pub fn units(self, units: u64) -> Custom {
        Custom { units: Some(units), ..self }
    }

    /// The same computation on the processor; required, because a device may be lost or not trusted.
    #[must_use]
    pub fn processor(
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

    fn specs(&self) -> Result<Vec<Spec>, OpError> {
        let inputs: Vec<Spec> = self.inputs.iter().map(|t| t.spec().clone()).collect();
        let outputs = self.outputs.as_ref().ok_or_else(|| self.error("it says no outputs"))?;
        let specs = outputs(&inputs).map_err(|why| self.error(why))?;
        if specs.is_empty() {
            return Err(self.error("it has no outputs"));
        }
        Ok(specs)
    }

    /// The checked kernel for a device, or for one that can do everything.
    fn ready(&self, outputs: usize, target: Option<&Target<'_>>) -> Result<Ready, OpError> {
        let question = Question {
            source: self.wgsl.clone(),
            entry: self.entry.clone(),
            inputs: self.inputs.len(),
            outputs,
            f16: target.is_none_or(|t| t.caps.f16),
            subgroups: target.is_none_or(|t| t.caps.subgroup.is_some()),
            limit: target.map_or(LOOPS, Target::loop_iterations),
        };
        check::check(&question).as_ref().clone().map_err(|message| self.error(message))
    }

    fn grid(&self, specs: &[Spec], ready: &Ready) -> Result<[u32; 3], OpError> {
        let per_group = ready.group.iter().map(|n| u64::from(*n)).product::<u64>().max(1);
        let elements = specs.first().map_or(0, |s| work::count(&s.shape));
        match self.groups {
            None => groups(OP, elements.div_ceil(per_group)),
            Some(grid) if grid.iter().all(|n| (1..=MAX_GROUPS).contains(n)) => Ok(grid),
            Some(grid) => {
                Err(self.error(format!("{grid:?} groups: between 1 and {MAX_GROUPS} in each dimension")))
            }
        }
    }

    fn kernel(&self, specs: &[Spec], ready: &Ready) -> Arc<Kernel> {
        let mut bindings = vec![Access::Read; self.inputs.len()];
        bindings.extend(vec![Access::Write; specs.len() + usize::from(ready.guarded)]);
        let op = self.clone();
        let length = |size: Option<Bytes>| usize::try_from(size.unwrap_or(Bytes::ZERO).0).unwrap_or(0);
        let outputs: Vec<usize> = specs.iter().map(|s| length(s.size())).collect();
        let inputs: Vec<usize> = self.inputs.iter().map(|t| length(t.spec().size())).collect();
        let twin = move |call: &mut Call<'_>| -> Result<(), TwinError> {
            // Slots are padded to whole words; the function sees what it would see without a device. The guard stays zero.
            let read: Vec<&[u8]> =
                call.inputs.iter().zip(&inputs).map(|(b, n)| b.get(..*n).unwrap_or(b)).collect();
            let mut written: Vec<&mut [u8]> =
                call.outputs.iter_mut().zip(&outputs).filter_map(|(b, n)| b.get_mut(..*n)).collect();
            op.call(&read, &mut written)
                .map_err(|e| TwinError { kernel: op.name.to_string(), why: e.to_string() })
        };
        Arc::new(Kernel {
            name: self.name.to_string().into(),
            wgsl: ready.wgsl.clone().into(),
            entry: ready.entry,
            bindings,
            twin: Arc::new(twin),
        })
    }

    fn call(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        let function = self.cpu.as_ref().ok_or_else(|| self.error("it has no function for the processor"))?;
        let failed = |e: Box<dyn Error + Send + Sync>| OpError::User {
            op: self.name.to_string(),
            message: e.to_string(),
        };
        function(inputs, outputs, &self.params).map_err(failed)
    }
}

impl Op for Custom {
    fn kind(&self) -> Kind {
        Kind::Custom
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.inputs.iter().collect()
    }

    fn outputs(&self) -> Result<Vec<Spec>, OpError> {
        let specs = self.specs()?;
        if self.cpu.is_none() {
            return Err(self.error("it has no function for the processor"));
        }
        if self.params.len() > MAX_PARAMS {
            return Err(self.error(format!("{} parameter words, at most {MAX_PARAMS}", self.params.len())));
        }
        let ready = self.ready(specs.len(), None)?;
        self.grid(&specs, &ready)?;
        Ok(specs)
    }

    fn effort(&self) -> Effort {
        let specs = self.specs().unwrap_or_default();
        let elements = specs.iter().fold(0u64, |n, s| n.saturating_add(work::count(&s.shape)));
        let units = self.units.unwrap_or(elements);
        let written = specs.iter().map(|s| s.size().unwrap_or(Bytes(u64::MAX))).sum();
        let launches = 1 + u32::from(self.guard().is_some());
        let read = self.inputs.iter().map(size).sum();
        Effort { units, flops: units, read, written, launches, depth: launches }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], _threads: Threads) -> Result<(), OpError> {
        self.call(inputs, outputs)
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let specs = self.specs()?;
        let ready = self.ready(specs.len(), Some(target))?;
        let grid = self.grid(&specs, &ready)?;
        let mut results: Vec<Slot> =
            specs.iter().map(|s| plan.slot(s.size().unwrap_or(Bytes(u64::MAX)), "custom")).collect();
        if !ready.guarded {
            plan.dispatch(&self.kernel(&specs, &ready), &[inputs, &results].concat(), &self.params, grid)?;
            return Ok(results);
        }
        let lanes = target.caps.subgroup.map(|(_, most)| most);
        let judge = Judge::new(ready.group, ready.single, target.loop_iterations(), lanes);
        let count = grid.iter().fold(1u64, |n, d| n.saturating_mul(u64::from(*d)));
        let invocations = count.saturating_mul(u64::from(judge.group));
        // The kernel finds its words by 32-bit numbers.
        word(OP, invocations.saturating_mul(WORDS))?;
        let words = plan.slot(Bytes(invocations.saturating_mul(WORDS * 4)), "custom guard");
        let bound = [inputs, &results, &[words]].concat();
        plan.dispatch(&self.kernel(&specs, &ready), &bound, &self.params, grid)?;
        let verdicts = plan.slot(Bytes(count * 4), "custom guard");
        let params = judge.params(word(OP, count)?);
        plan.dispatch(&judge_kernel(judge), &[words, verdicts], &params, groups(OP, count.div_ceil(64))?)?;
        plan.free(words)?;
        results.push(verdicts);
        Ok(results)
    }

    fn guard(&self) -> Option<usize> {
        let outputs = self.specs().ok()?.len();
        self.ready(outputs, None).ok().filter(|r| r.guarded).map(|_| outputs)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One word per group of a guarded kernel: 0 where it is trusted.
fn judge_kernel(judge: Judge) -> Arc<Kernel> {
    let twin = move |call: &mut Call<'_>| -> Result<(), TwinError> {
        let ([left], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) else {
            return Err(TwinError { kernel: "guard".into(), why: "needs 1 input, 1 output".into() });
        };
        put_words(out, judge.judge(&words(left).collect::<Vec<_>>()).into_iter());
        Ok(())
    };
    Arc::new(Kernel {
        name: "guard".into(),
        wgsl: include_str!("../shader/guard.wgsl").into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        twin: Arc::new(twin),
    })
}
