//! Router: decides, runs on the chosen backend, falls back to the CPU on failure, and feeds measured times back.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use gpuforge_ops::{
    Op, OpError, OpKind, Work,
    view::{Number, cast_slice, expect_dtype},
};
use gpuforge_runtime::{runner::RecoveryEvent, tensor::Tensor, units::Bytes};
use serde::Serialize;

use crate::{
    backend::{Backend, BackendError, BackendRun},
    correction::{Corrections, ENOUGH_SAMPLES, ExplorationBudget},
    model::{CostModel, MAX_CUSTOM, OpClass},
    route::{Candidate, Decision, MAX_BACKENDS, PlacementPolicy, Reason, route},
};

/// Settings of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterSettings {
    /// May it explore backends the model does not prefer, within the exploration budget?
    pub explore: bool,
    /// May the CPU take over when a device fails?
    pub cpu_fallback: bool,
    /// Default placement policy.
    pub placement: PlacementPolicy,
    /// Work that reads and writes fewer bytes than this runs on the CPU, whatever the model says.
    pub min_device_bytes: Bytes,
}

impl Default for RouterSettings {
    fn default() -> Self {
        RouterSettings {
            explore: true,
            cpu_fallback: true,
            placement: PlacementPolicy::Fastest,
            min_device_bytes: Bytes::ZERO,
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The operation is invalid.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The chosen backend failed and no fallback was allowed.
    #[error("{backend} failed: {error}")]
    Backend {
        /// Name of the backend.
        backend: String,
        /// Why.
        error: BackendError,
    },
    /// There is no such backend.
    #[error("there is no backend {asked}: there are {there} (0 is the CPU)")]
    NoBackend {
        /// Asked for.
        asked: usize,
        /// How many there are.
        there: usize,
    },
    /// Cancelled before it began.
    #[error("cancelled")]
    Cancelled,
    /// An item of a batch failed.
    #[error("item {index}: {error}")]
    Item {
        /// Which one, counted from 0.
        index: usize,
        /// Why.
        #[source]
        error: Box<RouteError>,
    },
    /// A user function failed.
    #[error("{0}")]
    User(String),
}

/// Measured and predicted times of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// Name of the backend it ran on in the end.
    #[serde(rename = "place")]
    pub backend: String,
    /// Wall time.
    pub wall: Duration,
    /// Predicted time on that backend.
    pub predicted: Option<Duration>,
    /// GPU time by the device's own timestamps; `None` on the CPU and where not supported.
    pub device_time: Option<Duration>,
    /// Cold run: a kernel was compiled.
    pub cold: bool,
    /// Chunks it was split into.
    pub pieces: usize,
    /// Failures on the way and how each was handled.
    pub events: Vec<RecoveryEvent>,
    /// Why it did not run on the chosen backend.
    pub fallback: Option<String>,
}

/// Output of a routed operation: results, decision and report.
#[derive(Debug, Clone)]
pub struct RunOutput {
    outputs: Vec<Tensor>,
    decision: Decision,
    report: RunReport,
}

impl RunOutput {
    /// For batches, whose items share a run.
    pub(crate) fn new(outputs: Vec<Tensor>, decision: Decision, report: RunReport) -> Self {
        RunOutput { outputs, decision, report }
    }

    /// For multi-device runs, whose report is merged from several.
    pub(crate) fn report_mut(&mut self) -> &mut RunReport {
        &mut self.report
    }

    /// All results.
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    /// The first result; every operation has one.
    pub fn tensor(&self) -> Option<&Tensor> {
        self.outputs.first()
    }

    /// The first result as a vector; an error if it has another dtype or is on a device only.
    pub fn to_vec<T: Number>(&self) -> Result<Vec<T>, OpError> {
        let missing = OpError::Call { op: "to_vec", what: "results on the host", want: 1, have: 0 };
        let tensor = self.tensor().ok_or_else(|| missing.clone())?;
        expect_dtype("to_vec", "the result", tensor, T::DTYPE)?;
        let bytes = tensor.host().ok_or(missing)?;
        Ok(cast_slice::<T>("to_vec", &bytes)?.to_vec())
    }

    /// The routing decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The report.
    pub fn report(&self) -> &RunReport {
        &self.report
    }

    /// The results alone.
    pub fn into_outputs(self) -> Vec<Tensor> {
        self.outputs
    }
}

/// Options of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Placement policy; anything but [`PlacementPolicy::Fastest`] overrides the settings.
    pub placement: PlacementPolicy,
    /// Keep results resident on the device instead of downloading them.
    pub keep_on_device: bool,
}

/// Routes operations to backends.
pub struct Router {
    backends: Vec<Arc<dyn Backend>>,
    models: RwLock<Arc<Vec<CostModel>>>,
    corrections: Vec<Corrections>,
    exploration: ExplorationBudget,
    custom: Mutex<Vec<String>>,
    settings: RouterSettings,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Router {
    /// A router over these backends, the CPU first; at most [`MAX_BACKENDS`] are used. Missing models are empty.
    pub fn new(
        mut backends: Vec<Arc<dyn Backend>>,
        models: Vec<CostModel>,
        settings: RouterSettings,
    ) -> Self {
        backends.truncate(MAX_BACKENDS);
        let corrections = backends.iter().map(|_| Corrections::default()).collect();
        let (custom, exploration) = (Mutex::default(), ExplorationBudget::default());
        let router =
            Router { backends, models: RwLock::default(), corrections, exploration, custom, settings };
        router.set_models(models);
        router
    }

    /// The backends.
    pub fn backends(&self) -> &[Arc<dyn Backend>] {
        &self.backends
    }

    /// The settings.
    pub fn settings(&self) -> RouterSettings {
        self.settings
    }

    /// The cost model of each backend.
    pub fn models(&self) -> Arc<Vec<CostModel>> {
        self.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the cost models, after a calibration or from a file; backends take over their tuning.
    pub fn set_models(&self, mut models: Vec<CostModel>) {
        for (i, backend) in self.backends.iter().enumerate() {
            match models.get_mut(i) {
                Some(model) => {
                    model.rebuild_index();
                    backend.tune(model.tuning.clone());
                }
                None => models.push(CostModel::named(backend.name())),
            }
        }
        models.truncate(self.backends.len());
        let names = lock(&self.custom).clone();
        for (n, name) in names.iter().enumerate() {
            models.iter_mut().for_each(|m| assign_custom_curve(m, name, n));
        }
        *self.models.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(models);
    }

    /// Is every backend calibrated?
    pub fn is_calibrated(&self) -> bool {
        self.models().iter().all(CostModel::is_known)
    }

    /// Share of all time spent on exploration.
    pub fn explored(&self) -> Option<f64> {
        self.exploration.share()
    }

    /// Online corrections of each backend.
    pub fn corrections(&self) -> &[Corrections] {
        &self.corrections
    }

    /// The op class of an operation; a custom kernel gets one when first seen.
    pub fn op_class(&self, op: &dyn Op) -> OpClass {
        if op.kind() != OpKind::Custom {
            return OpClass::of(op.kind());
        }
        let name = op.name();
        let (n, new) = {
            let mut names = lock(&self.custom);
            match names.iter().position(|known| known == name) {
                Some(n) => (n, false),
                None if names.len() >= MAX_CUSTOM => (MAX_CUSTOM, false),
                None => {
                    names.push(name.to_owned());
                    (names.len() - 1, true)
                }
            }
        };
        if new && self.models().iter().any(|m| m.custom.iter().any(|(known, _)| known == name)) {
            let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut models).iter_mut().for_each(|m| assign_custom_curve(m, name, n));
        }
        OpClass::custom(n)
    }

    /// The decision for this work, without running it.
    pub fn decide(
        &self,
        work: &Work,
        class: OpClass,
        placement: PlacementPolicy,
    ) -> Result<Decision, RouteError> {
        let placement =
            if placement == PlacementPolicy::Fastest { self.settings.placement } else { placement };
        let there = self.backends.len();
        if let PlacementPolicy::Only(asked) | PlacementPolicy::Prefer(asked) = placement
            && asked >= there
        {
            return Err(RouteError::NoBackend { asked, there });
        }
        let models = self.models();
        let candidates: Vec<Candidate<'_>> = self
            .backends
            .iter()
            .zip(models.iter())
            .zip(&self.corrections)
            .map(|((backend, model), corrections)| Candidate {
                model,
                corrections,
                usable: backend.usable(),
                max_buffer: backend.max_buffer(),
                memory_budget: backend.memory_budget(),
            })
            .collect();
        let decision = route(work, class, &candidates, placement);
        let small = work.cost.read.0.saturating_add(work.cost.written.0) < self.settings.min_device_bytes.0;
        let explicit = matches!(decision.reason, Reason::Requested | Reason::Preferred);
        Ok(if small && !explicit { decision.with_backend(0, Reason::Small) } else { decision })
    }

    /// Runs an operation on the backend that is predicted to be fastest.
    pub fn run(&self, op: &dyn Op) -> Result<RunOutput, RouteError> {
        self.run_with(op, RunOptions::default())
    }

    /// Runs an operation.
    pub fn run_with(&self, op: &dyn Op, options: RunOptions) -> Result<RunOutput, RouteError> {
        let work = Work::of(op, options.keep_on_device)?;
        let class = self.op_class(op);
        let decision = self.decide(&work, class, options.placement)?;
        let decision = self.maybe_explore(&work, class, decision);
        match self.run_on(op, decision.backend_id, options.keep_on_device) {
            Ok(run) => {
                self.learn(&work, class, &decision, &run);
                Ok(self.output(run, decision, decision.backend_id, None))
            }
            Err(BackendError::Op(error)) => Err(error.into()),
            Err(error) => self.fall_back(op, decision, error),
        }
    }

    fn fall_back(
        &self,
        op: &dyn Op,
        decision: Decision,
        error: BackendError,
    ) -> Result<RunOutput, RouteError> {
        let backend = self.backends.get(decision.backend_id).map_or_else(String::new, |s| s.name());
        let allowed = decision.backend_id != 0 && self.settings.cpu_fallback;
        if !allowed {
            return Err(RouteError::Backend { backend, error });
        }
        let why = error.to_string();
        let before = match error {
            BackendError::Device { events, .. } => events,
            _ => Vec::new(),
        };
        let mut run = self.run_on(op, 0, false).map_err(|error| match error {
            BackendError::Op(error) => RouteError::Op(error),
            error => RouteError::Backend { backend: "cpu".to_owned(), error },
        })?;
        run.events = before;
        Ok(self.output(run, decision.with_backend(0, Reason::Fallback), 0, Some(why)))
    }

    /// Runs on a backend; for the CPU, device-resident inputs are downloaded first.
    pub(crate) fn run_on(
        &self,
        op: &dyn Op,
        backend_id: usize,
        keep_on_device: bool,
    ) -> Result<BackendRun, BackendError> {
        let backend = self.backends.get(backend_id).ok_or(BackendError::NoMemory(Bytes::ZERO))?;
        if backend_id == 0 {
            for tensor in op.inputs().into_iter().filter(|t| !t.on_host()) {
                self.download(tensor)?;
            }
        }
        backend.run(op, keep_on_device)
    }

    /// Downloads a tensor from whichever device holds it.
    pub fn download(&self, tensor: &Tensor) -> Result<(), BackendError> {
        let mut last = None;
        for backend in self.backends.iter().skip(1) {
            match backend.download(tensor) {
                Ok(()) if tensor.on_host() => return Ok(()),
                Ok(()) => {}
                Err(error) => last = Some(error),
            }
        }
        let lost =
            || BackendError::Device { error: format!("{tensor:?} is on no device"), events: Vec::new() };
        Err(last.unwrap_or_else(lost))
    }

    /// Exploration: another backend than the best, if it is under-sampled and the budget allows it.
    pub(crate) fn maybe_explore(&self, work: &Work, class: OpClass, decision: Decision) -> Decision {
        let free = matches!(decision.reason, Reason::Faster { .. } | Reason::NotMeasured);
        let Some(best) = decision.predicted_ns(decision.backend_id).filter(|_| free && self.settings.explore)
        else {
            return decision;
        };
        let units = work.cost.units;
        let undersampled = |id: &usize| {
            let seen = self.corrections.get(*id).map_or(ENOUGH_SAMPLES, |c| c.samples(class, units));
            seen < ENOUGH_SAMPLES
                && *id != decision.backend_id
                && self.backends.get(*id).is_some_and(|s| s.usable())
        };
        let affordable = |id: &usize| {
            decision.predicted_ns(*id).is_some_and(|ns| self.exploration.allows((ns - best).max(0.0)))
        };
        let trial = (0..decision.backend_count()).filter(undersampled).find(affordable);
        trial.map_or(decision, |id| decision.with_backend(id, Reason::Exploring))
    }

    /// Adds the time of a run, and its regret if it was a trial.
    pub(crate) fn account(&self, decision: &Decision, wall: Duration) {
        self.exploration.add_run(wall);
        let best = (0..decision.backend_count())
            .filter_map(|p| decision.predicted_ns(p))
            .fold(f32::INFINITY, f32::min);
        if decision.reason == Reason::Exploring && best.is_finite() {
            self.exploration.add_trial(wall, best);
        }
    }

    pub(crate) fn learn(&self, work: &Work, class: OpClass, decision: &Decision, run: &BackendRun) {
        self.account(decision, run.wall);
        // Cold and retried runs are not representative.
        let warm = !run.cold && run.events.is_empty();
        let model = decision.model_ns(decision.backend_id);
        if let (true, Some(model), Some(corrections)) =
            (warm, model, self.corrections.get(decision.backend_id))
        {
            corrections.observe(class, work.cost.units, model, run.wall);
        }
    }

    pub(crate) fn output(
        &self,
        run: BackendRun,
        decision: Decision,
        backend_id: usize,
        fallback: Option<String>,
    ) -> RunOutput {
        let predicted = decision.predicted_ns(backend_id).map(|ns| Duration::from_nanos(ns as u64));
        let report = RunReport {
            backend: self.backends.get(backend_id).map_or_else(String::new, |s| s.name()),
            wall: run.wall,
            predicted,
            device_time: run.device_time,
            cold: run.cold,
            pieces: run.pieces,
            events: run.events,
            fallback,
        };
        RunOutput { outputs: run.outputs, decision, report }
    }
}

/// Assigns the stored curve of a custom kernel to its op class.
fn assign_custom_curve(model: &mut CostModel, name: &str, n: usize) {
    let found = model.custom.iter().find(|(known, _)| known == name).map(|(_, c)| c.clone());
    if let Some(curve) = found {
        model.set_class(OpClass::custom(n), curve);
    }
}
