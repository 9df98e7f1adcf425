//! Operation routing: builds the router (backends from the inventory, cost models from the calibration file), calibrates unknown
//! backends, and runs operations and batches through it.

use std::{
    error::Error,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_detect::{Inventory, model::Gpu};
use gpuforge_ops::{Custom, Op};
use gpuforge_profile::Profiler;
use gpuforge_route::{
    Backend, CostModel, CpuBackend, DeviceBackend, PlacementPolicy, Reason, RouteError, Router,
    RouterSettings, RunOutput,
    batch::{BatchOptions, BatchRun, Item},
    calibrate,
    route::MAX_BACKENDS,
    router::RunOptions,
    store,
};
use gpuforge_runtime::{runner::Runner, units::Bytes};

use crate::{
    Forge,
    forge::ForgeError,
    runners::{RunnerRules, make_runner},
    settings::{Settings, UserPaths},
};

/// Time budget of the first-use calibration, over all unknown backends.
const FIRST_USE_BUDGET: Duration = Duration::from_millis(150);

/// Time budget of calibrating a custom operation on one backend.
const CUSTOM_BUDGET: Duration = Duration::from_secs(2);

/// Routing rules from the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouteRules {
    /// Devices are disabled.
    cpu_only: bool,
    /// The user named a device.
    named: bool,
    explore: bool,
    min_device_bytes: Bytes,
}

impl RouteRules {
    pub(crate) fn of(settings: &Settings) -> Self {
        let device = settings.device();
        RouteRules {
            cpu_only: settings.cpu_only() || device == "cpu",
            named: !matches!(device, "auto" | "cpu"),
            explore: settings.explore(),
            min_device_bytes: Bytes(settings.device_min_bytes()),
        }
    }
}

/// The calibration file; none in safe mode.
pub(crate) fn calibration_file(paths: &UserPaths, safe_mode: bool) -> Option<PathBuf> {
    (!safe_mode).then(|| paths.data_dir.join("calibration.json"))
}

/// UserPaths and models; nothing is opened and nothing is measured.
pub(crate) fn router(
    inventory: &Inventory,
    first: &Arc<Runner>,
    rules: &RunnerRules,
    file: Option<&Path>,
) -> Router {
    let order = if rules.route.cpu_only { Vec::new() } else { rules.devices.routable(inventory) };
    let brand = inventory.cpu.as_ref().and_then(|c| c.brand.as_deref());
    let mut backends: Vec<Arc<dyn Backend>> = vec![Arc::new(CpuBackend::named(brand))];
    let chosen = rules.devices.order(inventory).first().copied();
    for index in order.into_iter().take(MAX_BACKENDS - 1) {
        let Some(gpu) = inventory.gpus.get(index) else { continue };
        // The chosen device shares the runner of plans, so that it is opened once.
        let shared = chosen == Some(index);
        let runner = if shared { first.clone() } else { Arc::new(make_runner(inventory, &[index], rules)) };
        backends.push(Arc::new(DeviceBackend::new(gpu.display_name(), driver(gpu), runner)));
    }
    let (models, _) = file.map(|f| store::load(f, &backends)).unwrap_or_default();
    let RouteRules { named, explore, min_device_bytes, .. } = rules.route;
    let placement =
        if named && backends.len() > 1 { PlacementPolicy::Prefer(1) } else { PlacementPolicy::Fastest };
    Router::new(
        backends,
        models,
        RouterSettings { explore, cpu_fallback: rules.cpu_fallback, placement, min_device_bytes },
    )
}

/// Driver version, else driver name: part of the calibration key.
fn driver(gpu: &Gpu) -> Option<String> {
    gpu.driver_version.clone().or_else(|| gpu.drivers.first().cloned())
}

/// Briefly calibrates unknown backends and stores the result. A backend that fails stays unknown and is not used.
pub(crate) fn calibrate_unknown(router: &Router, file: Option<&Path>) {
    let known = router.models();
    if router.backends().len() < 2 || known.iter().all(CostModel::is_known) {
        return;
    }
    let began = Instant::now();
    let mut models = known.as_ref().clone();
    for (i, (backend, model)) in router.backends().iter().zip(models.iter_mut()).enumerate() {
        let left = FIRST_USE_BUDGET.saturating_sub(began.elapsed())
            / u32::try_from(router.backends().len() - i).unwrap_or(1);
        if model.is_known() || left.is_zero() {
            continue;
        }
        let options =
            calibrate::CalibrationOptions { budget: left, ..calibrate::CalibrationOptions::micro() };
        if let Ok(measured) = calibrate::calibrate(backend.as_ref(), &options, &mut |_| {}) {
            *model = measured;
        }
    }
    if let Some(file) = file {
        // If it cannot be stored, the next process calibrates again.
        let measured: Vec<CostModel> = models.iter().filter(|m| m.is_known()).cloned().collect();
        let _ = store::save(file, &measured);
    }
    router.set_models(models);
}

/// Counts a decision in the trace: backend, reason, predicted and measured time. Cold runs (that compiled) are counted without
/// times: they are not predicted.
fn trace_decision(op: &dyn Op, ran: &RunOutput) {
    let profiler = Profiler::global();
    if !profiler.is_enabled() {
        return;
    }
    let report = ran.report();
    let reason = match ran.decision().reason {
        Reason::Faster { .. } => "predicted to be faster".to_owned(),
        other => other.to_string(),
    };
    // Slashes separate the parts of the counter name.
    let part = |text: &str| text.replace('/', "_");
    let stem = format!("route/{}/{}/{}", part(op.name()), part(&report.backend), part(&reason));
    profiler.counter(&format!("{stem}/runs")).add(1);
    if let (Some(predicted), false) = (report.predicted, report.cold) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        profiler.counter(&format!("{stem}/predicted_ns")).add(ns(predicted));
        profiler.counter(&format!("{stem}/measured_ns")).add(ns(report.wall));
    }
}

impl Forge {
    /// Runs an operation on the backend predicted to be fastest, and corrects the cost model by the measured time.
    ///
    /// ```
    /// use gpuforge::{Forge, ops, tensor};
    ///
    /// let forge = Forge::new();
    /// let a = tensor(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let b = tensor(&[0f32, 1.0, 1.0, 0.0], &[2, 2])?;
    /// let c = forge.run(ops::matmul(&a, &b))?;
    /// assert_eq!(c.to_vec::<f32>()?, [2.0, 1.0, 4.0, 3.0]);
    /// println!("{}: {}", c.report().backend, c.decision().reason);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(&self, op: impl Op) -> Result<RunOutput, ForgeError> {
        self.run_with(&op, RunOptions::default())
    }

    /// Runs an operation with its own placement policy, or with results kept on the device.
    ///
    /// ```
    /// use gpuforge::{Forge, ops, route::{RunOptions, PlacementPolicy}, tensor};
    ///
    /// let forge = Forge::new();
    /// let data = tensor(&[7u8; 100], &[100])?;
    /// let key = tensor(&[1u8, 2], &[2])?;
    /// let on_cpu = RunOptions { placement: PlacementPolicy::Only(0), ..RunOptions::default() };
    /// let ran = forge.run_with(&ops::xor(&data, &key), on_cpu)?;
    /// assert_eq!(ran.to_vec::<u8>()?[..2], [6, 5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_with(&self, op: &dyn Op, options: RunOptions) -> Result<RunOutput, ForgeError> {
        let ran = self.routed(options.placement)?.run_with(op, options)?;
        trace_decision(op, &ran);
        crate::live::publish_run(op, &ran);
        Ok(ran)
    }

    /// Runs many operations or closures: equal shapes are batched, results are in item order, and items fail independently.
    ///
    /// ```
    /// use gpuforge::{Forge, ops, tensor};
    ///
    /// let forge = Forge::new();
    /// let key = tensor(&[255u8], &[1])?;
    /// let all = (0..10u8).map(|i| Ok(ops::xor(&tensor(&[i; 4], &[4])?, &key))).collect::<Result<Vec<_>, ops::OpError>>()?;
    /// let run = forge.batch(all)?;
    /// for (i, result) in run.results.into_iter().enumerate() {
    ///     assert_eq!(result?.to_vec::<u8>()?, [!(i as u8); 4]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch<I: Into<Item>>(&self, items: impl IntoIterator<Item = I>) -> Result<BatchRun, ForgeError> {
        self.batch_with(items, BatchOptions::default())
    }

    /// As [`Forge::batch`], with a duty limit, cancellation or progress.
    pub fn batch_with<I: Into<Item>>(
        &self,
        items: impl IntoIterator<Item = I>,
        options: BatchOptions,
    ) -> Result<BatchRun, ForgeError> {
        let items: Vec<Item> = items.into_iter().map(Into::into).collect();
        let run = self.routed(options.placement)?.batch(items, options);
        crate::live::publish_batch(&run);
        Ok(run)
    }

    /// The router. Opens and measures nothing.
    pub fn router(&self) -> Result<&Router, ForgeError> {
        self.inventory().map_err(ForgeError::Start)?;
        self.check_device()?;
        self.inner.router.get().map_err(ForgeError::Start)
    }

    /// The calibration file.
    pub fn calibration_file(&self) -> PathBuf {
        self.inner.paths.data_dir.join("calibration.json")
    }

    /// A custom operation: a CPU reference function over bytes, and a WGSL kernel that computes the same. It is routed like any
    /// other; [`Forge::calibrate_custom`] measures its own cost curves. See [`Custom`] for bindings and names.
    ///
    /// ```
    /// use gpuforge::{Forge, tensor};
    ///
    /// let forge = Forge::new();
    /// let a = tensor(&[1f32, 2.0, 3.0], &[3])?;
    /// let double = forge
    ///     .custom(
    ///         |inputs, outputs, _params| {
    ///             for (b, a) in outputs[0].chunks_exact_mut(4).zip(inputs[0].chunks_exact(4)) {
    ///                 b.copy_from_slice(&(2.0 * f32::from_le_bytes(a.try_into()?)).to_le_bytes());
    ///             }
    ///             Ok(())
    ///         },
    ///         "@group(0) @binding(1) var<storage, read> a: array<f32>;
    ///          @group(0) @binding(2) var<storage, read_write> b: array<f32>;
    ///          @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    ///              if (id.x < arrayLength(&a)) { b[id.x] = 2.0 * a[id.x]; }
    ///          }",
    ///     )
    ///     .reads(&[&a])
    ///     .writes_like_input();
    /// assert_eq!(forge.run(double)?.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn custom(
        &self,
        cpu: impl Fn(&[&[u8]], &mut [&mut [u8]], &[u32]) -> Result<(), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
        wgsl: &str,
    ) -> Custom {
        let mut hash = DefaultHasher::new();
        wgsl.hash(&mut hash);
        Custom::new(&format!("custom-{:016x}", hash.finish())).wgsl(wgsl).cpu_fn(cpu)
    }

    /// Calibrates a custom operation at some sizes (ascending) on every backend, so that it is routed by its own cost curves;
    /// they are stored with the calibration.
    pub fn calibrate_custom(
        &self,
        make: impl Fn(usize) -> Custom,
        sizes: &[usize],
    ) -> Result<(), ForgeError> {
        let router = self.routed(PlacementPolicy::Fastest)?;
        let Some(smallest) = sizes.first().map(|n| make(*n)) else { return Ok(()) };
        let options =
            calibrate::CalibrationOptions { budget: CUSTOM_BUDGET, ..calibrate::CalibrationOptions::quick() };
        let mut models = router.models().as_ref().clone();
        let op = |n: usize| Ok(Arc::new(make(n)) as Arc<dyn Op>);
        for (backend, model) in router.backends().iter().zip(models.iter_mut()) {
            let curve = calibrate::measure_curve(backend.as_ref(), model, &op, sizes, &options);
            let failed = |error| RouteError::Backend { backend: backend.name(), error };
            model.custom.retain(|(name, _)| name != smallest.name());
            model.custom.extend(curve.map_err(failed)?.map(|c| (smallest.name().to_owned(), c)));
        }
        if !self.inner.safe_mode {
            // If it cannot be stored, it holds for this process.
            let _ = store::save(&self.calibration_file(), &models);
        }
        router.op_class(&smallest);
        router.set_models(models);
        Ok(())
    }

    /// The router with calibrated backends; an explicitly requested backend need not be calibrated.
    fn routed(&self, placement: PlacementPolicy) -> Result<&Router, ForgeError> {
        let router = self.router()?;
        if !matches!(placement, PlacementPolicy::Only(_)) {
            self.inner.calibration.get().map_err(ForgeError::Start)?;
        }
        Ok(router)
    }
}
