//! `Forge`: the runtime handle. Lazily loaded components (inventory, runner, device, router, calibration), each with its startup
//! cost.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gpuforge_detect::{
    Inventory,
    overrides::{DevicePreference, is_truthy, parse_preference},
    probe::isolate::Isolation,
};
use gpuforge_route::{RouteError, Router};
use gpuforge_runtime::{
    engine::{Caps, Health, init::DeviceInitStats},
    lazy::{ComponentStatus, Lazy, ProgressListener, Registry, StartupStats},
    memory::{MemoryStack, StackStats},
    plan::Plan,
    runner::{RunError, RunOutcome, Runner, SplittableBatch, TensorScope},
    session::DeviceAllocator,
    tensor::Tensor,
    units::Bytes,
};
use serde::Serialize;

pub use crate::runners::LimitStatus;
use crate::{
    choice::{Choice, choose},
    detection::{self, UnknownDevice},
    devices::DeviceFilter,
    routing,
    runners::{RunnerRules, limit, make_runner},
    settings::{Env, Settings, UserPaths},
    usage,
};

/// The runtime handle. Creating one loads no GPU library; clones share it.
#[derive(Clone)]
pub struct Forge {
    pub(crate) inner: Arc<Inner>,
}

impl Default for Forge {
    fn default() -> Self {
        Forge::new()
    }
}

pub(crate) struct Inner {
    pub(crate) paths: UserPaths,
    registry: Registry,
    inventory: Arc<Lazy<Inventory>>,
    pub(crate) runner: Arc<Lazy<Arc<Runner>>>,
    device: Lazy<Caps>,
    pub(crate) router: Arc<Lazy<Router>>,
    pub(crate) calibration: Lazy<()>,
    switches: Vec<EnvSwitch>,
    pub(crate) safe_mode: bool,
    rules: RunnerRules,
    /// Detection options with the requested device.
    asked: gpuforge_detect::DetectOptions,
    /// Runners of devices requested by index, besides the chosen one.
    others: Mutex<Vec<(usize, Arc<Runner>)>>,
    /// Publishes to `gpuforge monitor`, if enabled.
    publisher: OnceLock<gpuforge_dash::live::publisher::Publisher>,
}

/// An environment variable that changes how gpuforge runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvSwitch {
    /// Name.
    pub variable: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Its value, if it is set.
    pub value: Option<String>,
}

/// Every switch; `gpuforge status` lists them.
pub const SWITCHES: [(&str, &str); 10] = [
    ("GPUFORGE_CPU_ONLY", "never use a GPU"),
    ("GPUFORGE_DEVICE", "use this device: auto, cpu, gpu, a position, a bus id, a vendor or part of a name"),
    ("GPUFORGE_WARM", "1: load in the background, at the start, what earlier runs have used"),
    ("GPUFORGE_CACHE_TTL", "TTL of the detection cache"),
    ("GPUFORGE_MEMORY_LIMIT", "device memory limit"),
    ("GPUFORGE_TRACE", "write a profile of the run to this file"),
    ("GPUFORGE_MONITOR", "1: let `gpuforge monitor` watch this process"),
    ("GPUFORGE_JIT", "JIT of indicators: off, on, or require (a plan that is not compiled is a panic)"),
    ("GPUFORGE_LOG", "how much is said on standard error: quiet, normal, verbose"),
    (
        "GPUFORGE_SAFE_MODE",
        "1: no detection cache, no pipeline cache, no memory pool, no warm-up, serial probes",
    ),
];

/// What is loaded, open and in use.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Components, loaded or not.
    pub components: Vec<ComponentStatus>,
    /// Startup cost so far.
    pub init: StartupStats,
    /// The open device.
    pub device: Option<DeviceStatus>,
    /// The user's device memory limit.
    pub memory_limit: Option<LimitStatus>,
    /// The default device choice, once the inventory is loaded.
    pub choice: Option<Choice>,
    /// Environment switches.
    pub switches: Vec<EnvSwitch>,
    /// Components that the next warm-up would load, most used first.
    pub predicted: Vec<String>,
}

/// An open device.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceStatus {
    /// Capabilities.
    pub caps: Caps,
    /// Can it be used?
    pub health: Health,
    /// Startup times; `None` where not measured.
    pub init: Option<DeviceInitStats>,
    /// Its memory.
    pub memory: StackStats,
    /// Staging memory, already subtracted from the budget of `memory`.
    pub reserved: Bytes,
}

impl Forge {
    /// A runtime with the user's settings, like the `gpuforge` command. Reads the settings file and touches no device or driver.
    /// Invalid settings are ignored.
    pub fn new() -> Self {
        let env = |name: &str| std::env::var(name).ok();
        // Without a home directory nothing is stored between runs.
        let paths = UserPaths::resolve(&env).unwrap_or_else(|_| UserPaths::unavailable());
        Forge::with(&Settings::load_lenient(&paths, &env, &[]), &paths, &env)
    }

    /// A runtime with these settings. Touches no device, driver or file.
    pub fn with(settings: &Settings, paths: &UserPaths, env: Env<'_>) -> Self {
        Forge::with_isolation(settings, paths, env, Isolation::Thread)
    }

    /// As [`Forge::with`], with the given isolation of detection probes (threads or child processes).
    pub fn with_isolation(
        settings: &Settings,
        paths: &UserPaths,
        env: Env<'_>,
        isolation: Isolation,
    ) -> Self {
        let registry = Registry::new();
        let mut options = detection::options(settings, paths, env);
        options.tier1.isolation = isolation;
        let asked = options.clone();
        let variables: Vec<(String, String)> = gpuforge_detect::overrides::VARIABLES
            .iter()
            .filter_map(|v| env(v).map(|x| ((*v).to_owned(), x)))
            .collect();
        let inventory = Arc::new(registry.lazy("inventory", "the machine's GPUs and CPU", &[], move || {
            let kept = |name: &str| {
                let found = variables.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
                found.or_else(|| std::env::var(name).ok())
            };
            Ok(gpuforge_detect::detect(&options, &kept))
        }));
        let safe_mode = detection::safe_mode(env);
        let devices =
            DeviceFilter { allow: settings.devices_allow().to_vec(), deny: settings.devices_deny().to_vec() };
        let rules = RunnerRules {
            limit: limit(settings),
            cpu_fallback: settings.fallback() == "cpu",
            pooled: !safe_mode,
            // Unix only: elsewhere file ownership cannot be verified, and the cache would be rejected at every start.
            pipelines: (!safe_mode).then(|| detection::pipeline_cache_dir(paths)),
            devices,
            route: routing::RouteRules::of(settings),
        };
        let (source, theirs) = (inventory.clone(), rules.clone());
        let runner =
            Arc::new(registry.lazy("runner", "recovery and memory limits", &["inventory"], move || {
                let inventory = source.load()?;
                Ok(Arc::new(make_runner(inventory, &theirs.devices.order(inventory), &theirs)))
            }));
        let (opened, data) = (runner.clone(), paths.clone());
        let device =
            registry.lazy("device", "instance, adapter and device of the GPU", &["runner"], move || {
                let runner = opened.load()?;
                let caps = runner.warm().map_err(|e| e.to_string())?;
                if let (Some(session), false) = (runner.session(), safe_mode) {
                    session.memory().prewarm(&usage::load_memory(&data));
                }
                Ok(caps)
            });
        let (machine, first, theirs, file) =
            (inventory.clone(), runner.clone(), rules.clone(), routing::calibration_file(paths, safe_mode));
        let router = Arc::new(registry.lazy(
            "router",
            "backends and their cost models",
            &["inventory", "runner"],
            move || Ok(routing::router(machine.load()?, first.load()?, &theirs, file.as_deref())),
        ));
        let (known, file) = (router.clone(), routing::calibration_file(paths, safe_mode));
        let calibration =
            registry.lazy("calibration", "a short calibration of unknown backends", &["router"], move || {
                routing::calibrate_unknown(known.load()?, file.as_deref());
                Ok(())
            });
        let value = |(variable, what): (&'static str, &'static str)| EnvSwitch {
            variable,
            what,
            value: env(variable),
        };
        let switches = SWITCHES.map(value).to_vec();
        let (paths, others) = (paths.clone(), Mutex::default());
        let inner = Inner {
            paths,
            registry,
            inventory,
            runner,
            device,
            router,
            calibration,
            switches,
            safe_mode,
            rules,
            asked,
            others,
            publisher: OnceLock::new(),
        };
        let forge = Forge { inner: Arc::new(inner) };
        if let Some(publisher) = crate::live::publish(&forge.inner, settings.monitor(), env) {
            let _ = forge.inner.publisher.set(publisher);
        }
        if env("GPUFORGE_WARM").is_some_and(|v| is_truthy(&v)) && !safe_mode {
            forge.warm();
        }
        forge
    }

    /// The hardware inventory.
    pub fn inventory(&self) -> Result<&Inventory, String> {
        self.inner.inventory.get()
    }

    /// The default device choice, with its reason.
    pub fn choice(&self) -> Result<Choice, String> {
        Ok(choose(self.inventory()?))
    }

    /// Checks that the device named in the settings exists; detects nothing where none is named.
    ///
    /// # Errors
    /// [`ForgeError::UnknownDevice`] lists the devices that are there.
    pub fn check_device(&self) -> Result<(), ForgeError> {
        // `auto` and `cpu` need no detection.
        let named = self.inner.asked.preference.as_ref().map(|(_, text)| parse_preference(text, &[]));
        if matches!(named, None | Some(DevicePreference::Auto | DevicePreference::Cpu(_)))
            || self.inner.asked.cpu_only.is_some()
        {
            return Ok(());
        }
        let inventory = self.inner.inventory.get().map_err(ForgeError::Start)?;
        Ok(detection::check_device(&self.inner.asked, inventory)?)
    }

    /// Runs one plan on the chosen device, or on the CPU. Operations are routed instead: [`Forge::run`].
    pub fn run_plan(&self, plan: Plan) -> Result<RunOutcome, ForgeError> {
        Ok(self.ready()?.run(plan)?)
    }

    /// Runs independent items, in as few chunks as memory allows.
    pub fn run_batch(&self, batch: &dyn SplittableBatch) -> Result<RunOutcome, ForgeError> {
        Ok(self.ready()?.run_batch(batch)?)
    }

    /// Downloads a tensor.
    pub fn read(&self, tensor: &Tensor) -> Result<Arc<[u8]>, ForgeError> {
        Ok(self.ready()?.read(tensor)?)
    }

    /// Runs `work`; tensors that its plans kept are freed at its end, also on an error, unless they escape.
    pub fn scope<T>(&self, work: impl FnOnce(&TensorScope<'_>) -> T) -> Result<T, ForgeError> {
        Ok(self.ready()?.scope(work))
    }

    /// Accesses the memory stack of the chosen device, which is opened; `None` without a device.
    pub fn memory<T>(
        &self,
        ask: impl FnOnce(&MemoryStack<DeviceAllocator>) -> T,
    ) -> Result<Option<T>, ForgeError> {
        Ok(self.ready()?.session().map(|session| ask(session.memory())))
    }

    /// The runner, with the device open if possible; the runner reports failures.
    fn ready(&self) -> Result<&Runner, ForgeError> {
        // Each component is accessed explicitly: loading one as a dependency is not recorded as use.
        self.inner.inventory.get().map_err(ForgeError::Start)?;
        self.check_device()?;
        let runner = self.inner.runner.get().map_err(ForgeError::Start)?;
        let _ = self.inner.device.get();
        Ok(runner)
    }

    /// A runner for the GPU at this index of the inventory; several devices may be open at once.
    pub fn on_device(&self, index: usize) -> Result<Arc<Runner>, ForgeError> {
        let inventory = self.inner.inventory.get().map_err(ForgeError::Start)?;
        if inventory.gpus.get(index).is_none() {
            let there = inventory.gpus.len();
            return Err(ForgeError::Start(format!("there is no GPU {index}: the machine has {there}")));
        }
        let mut others = self.inner.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, runner)) = others.iter().find(|(i, _)| *i == index) {
            return Ok(runner.clone());
        }
        // Creating a runner touches no device, so the lock is held briefly.
        let runner = Arc::new(make_runner(inventory, &[index], &self.inner.rules));
        others.push((index, runner.clone()));
        Ok(runner)
    }

    /// Closes the device; the next work reopens it.
    pub fn reset_device(&self) {
        if let Some(runner) = self.inner.runner.peek() {
            runner.reset();
        }
    }

    /// Loads in the background what earlier runs used, most used first; returns immediately.
    pub fn warm(&self) {
        if self.inner.safe_mode {
            return;
        }
        let forge = self.clone();
        let load = move || {
            for name in usage::predict(&usage::load(&forge.inner.paths)) {
                let _ = match name.as_str() {
                    "inventory" => forge.inner.inventory.load().map(drop),
                    "runner" => forge.inner.runner.load().map(drop),
                    "device" => forge.inner.device.load().map(drop),
                    "router" => forge.inner.router.load().map(drop),
                    "calibration" => forge.inner.calibration.load().map(drop),
                    _ => Ok(()),
                };
            }
        };
        // Without a thread, components load lazily as always.
        let _ = std::thread::Builder::new().name("gpuforge-warm".to_owned()).spawn(load);
    }

    /// Loads every component now and opens the device, so that following work does not wait. Not recorded in the usage history.
    /// The first component that fails is the error.
    pub fn load(&self) -> Result<(), ForgeError> {
        let inner = &self.inner;
        let known = inner.inventory.load().map_err(ForgeError::Start)?;
        detection::check_device(&inner.asked, known)?;
        let parts = inner.inventory.load().map(drop).and_then(|()| inner.runner.load().map(drop));
        let parts = parts.and_then(|()| inner.device.load().map(drop));
        let parts = parts.and_then(|()| inner.router.load().map(drop));
        parts.and_then(|()| inner.calibration.load().map(drop)).map_err(ForgeError::Start)
    }

    /// Registers a listener for component loading.
    pub fn on_progress(&self, listener: ProgressListener) {
        self.inner.registry.listen(listener);
    }

    /// Startup cost so far.
    pub fn init_stats(&self) -> StartupStats {
        self.inner.registry.startup_stats()
    }

    /// What is loaded, open and in use; loads nothing.
    pub fn status(&self) -> Status {
        let session = self.inner.runner.peek().and_then(|runner| runner.session());
        let device = session.map(|s| DeviceStatus {
            caps: s.caps().clone(),
            health: s.health(),
            init: s.init().cloned(),
            memory: s.memory().stats(),
            reserved: s.reserved(),
        });
        Status {
            components: self.inner.registry.status(),
            init: self.init_stats(),
            device,
            memory_limit: self.inner.rules.limit.clone(),
            choice: self.inner.inventory.peek().map(choose),
            switches: self.inner.switches.clone(),
            predicted: usage::predict(&usage::load(&self.inner.paths)),
        }
    }

    /// Current metrics; `None` where nothing was measured.
    pub fn metrics(&self) -> Metrics {
        let Some(runner) = self.inner.runner.peek() else { return Metrics::default() };
        let work = runner.stats();
        let session = runner.session();
        let memory = session.as_ref().map(|s| s.memory().stats());
        let utilisation =
            work.device.filter(|_| !work.wall.is_zero()).map(|d| d.as_secs_f64() / work.wall.as_secs_f64());
        Metrics {
            live_tensors: memory.as_ref().map(|m| m.users.live_blocks),
            live_bytes: memory.as_ref().map(|m| m.users.live),
            peak_bytes: memory.as_ref().map(|m| m.users.peak),
            reuse_percent: memory.as_ref().and_then(|m| m.pool.reuse_percent),
            reliable: session.is_some_and(|s| s.health() == Health::Good) && work.on_cpu == 0,
            compute_ms: work.device.filter(|_| work.on_device > 0).map(|d| d.as_secs_f64() * 1e3),
            transfer_bytes: (work.on_device > 0).then_some(work.uploaded + work.downloaded),
            utilisation,
        }
    }
}

impl Drop for Inner {
    /// Records the used components in the usage history.
    fn drop(&mut self) {
        let status = self.registry.status();
        let used: Vec<String> =
            status.iter().filter(|c| c.access_count > 0).map(|c| c.name.to_owned()).collect();
        if !used.is_empty() && !self.safe_mode {
            usage::remember(&self.paths, used);
            if let Some(session) = self.runner.peek().and_then(|runner| runner.session()) {
                usage::remember_memory(&self.paths, &session.memory().peaks());
            }
        }
    }
}

/// Current metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Live device buffers of tensors and running work.
    pub live_tensors: Option<u64>,
    /// Their bytes.
    pub live_bytes: Option<Bytes>,
    /// Peak bytes.
    pub peak_bytes: Option<Bytes>,
    /// Pool hit rate in percent.
    pub reuse_percent: Option<f64>,
    /// The device is healthy and did all the work: the metrics describe it.
    pub reliable: bool,
    /// Time in compute passes by timestamp queries; `None` without them.
    pub compute_ms: Option<f64>,
    /// Bytes uploaded and downloaded.
    pub transfer_bytes: Option<Bytes>,
    /// Compute time over wall time; `None` without timestamp queries.
    pub utilisation: Option<f64>,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// A component could not be loaded.
    #[error("gpuforge cannot start: {0}")]
    Start(String),
    /// The settings name a device that does not exist.
    #[error(transparent)]
    UnknownDevice(#[from] UnknownDevice),
    /// The work itself.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An operation.
    #[error(transparent)]
    Route(#[from] RouteError),
}
