//! The runtime as users hold it: nothing is touched until work needs it, and every part says what it cost.

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
    devices::DeviceRules,
    machine::{self, UnknownDevice},
    routing,
    runners::{Rules, limit, make_runner},
    settings::{Env, Places, Settings},
    usage,
};

/// The runtime. Making one costs microseconds and loads no GPU library; cloning shares it.
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
    pub(crate) places: Places,
    registry: Registry,
    inventory: Arc<Lazy<Inventory>>,
    pub(crate) runner: Arc<Lazy<Arc<Runner>>>,
    device: Lazy<Caps>,
    pub(crate) router: Arc<Lazy<Router>>,
    pub(crate) calibration: Lazy<()>,
    switches: Vec<Switch>,
    pub(crate) safe_mode: bool,
    rules: Rules,
    /// Which device the settings ask for.
    asked: gpuforge_detect::DetectOptions,
    /// Runners of devices that were asked for by position, beside the chosen one.
    others: Mutex<Vec<(usize, Arc<Runner>)>>,
    /// Lets `gpuforge monitor` look, where that is asked for.
    watched: OnceLock<gpuforge_dash::live::publish::Publisher>,
}

/// An environment variable that changes how gpuforge runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// Name.
    pub variable: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Its value, if it is set.
    pub value: Option<String>,
}

/// Every switch; `gpuforge status` lists them.
pub const SWITCHES: [(&str, &str); 9] = [
    ("GPUFORGE_CPU_ONLY", "never use a GPU"),
    ("GPUFORGE_DEVICE", "use this device: auto, cpu, gpu, a position, a bus id, a vendor or part of a name"),
    ("GPUFORGE_WARM", "1: load in the background, at the start, what earlier runs have used"),
    ("GPUFORGE_CACHE_TTL", "how long a kept detection counts as fresh"),
    ("GPUFORGE_MEMORY_LIMIT", "most device memory that may be in use at once"),
    ("GPUFORGE_TRACE", "write a profile of the run to this file"),
    ("GPUFORGE_MONITOR", "1: let `gpuforge monitor` watch this process"),
    ("GPUFORGE_LOG", "how much is said on standard error: quiet, normal, verbose"),
    (
        "GPUFORGE_SAFE_MODE",
        "1: no detection cache, no pipeline cache, no memory pool, no warm-up, serial probes",
    ),
];

/// What is loaded, open and in use.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Parts, whether loaded or not.
    pub components: Vec<ComponentStatus>,
    /// What starting has cost so far.
    pub init: StartupStats,
    /// The open device.
    pub device: Option<DeviceStatus>,
    /// The user's own limit of device memory.
    pub memory_limit: Option<LimitStatus>,
    /// What would be used, once the machine is known.
    pub choice: Option<Choice>,
    /// Environment switches.
    pub switches: Vec<Switch>,
    /// Parts that the next warm-up would load, most used first.
    pub predicted: Vec<String>,
}

/// An open device.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceStatus {
    /// What it can do.
    pub caps: Caps,
    /// Can it be used?
    pub health: Health,
    /// What opening it took; `None` where that was not measured.
    pub init: Option<DeviceInitStats>,
    /// Its memory.
    pub memory: StackStats,
    /// Staging memory that it may keep beside the budget of `memory`; it was taken off that.
    pub reserved: Bytes,
}

impl Forge {
    /// A runtime with the user's settings, as the `gpuforge` command has them. Reads the settings file, if there is one,
    /// and touches no device and no driver. A setting that cannot be read counts as not set.
    pub fn new() -> Self {
        let env = |name: &str| std::env::var(name).ok();
        // Without a home folder nothing is kept between runs.
        let places = Places::of(&env).unwrap_or_else(|_| Places::nowhere());
        Forge::with(&Settings::load_lenient(&places, &env, &[]), &places, &env)
    }

    /// A runtime with these settings. Touches no device, no driver and no file beyond what `settings` has read already.
    pub fn with(settings: &Settings, places: &Places, env: Env<'_>) -> Self {
        Forge::with_isolation(settings, places, env, Isolation::Thread)
    }

    /// As [`Forge::with`], with probes in children of a program that offers the entry point.
    pub fn with_isolation(settings: &Settings, places: &Places, env: Env<'_>, isolation: Isolation) -> Self {
        let registry = Registry::new();
        let mut options = machine::options(settings, places, env);
        options.tier1.isolation = isolation;
        let asked = options.clone();
        let variables: Vec<(String, String)> = gpuforge_detect::overrides::VARIABLES
            .iter()
            .filter_map(|v| env(v).map(|x| ((*v).to_owned(), x)))
            .collect();
        let inventory =
            Arc::new(registry.lazy("inventory", "the machine's GPUs and processor", &[], move || {
                let kept = |name: &str| {
                    let found = variables.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
                    found.or_else(|| std::env::var(name).ok())
                };
                Ok(gpuforge_detect::detect(&options, &kept))
            }));
        let safe_mode = machine::safe_mode(env);
        let devices =
            DeviceRules { allow: settings.devices_allow().to_vec(), deny: settings.devices_deny().to_vec() };
        let rules = Rules {
            limit: limit(settings),
            cpu_fallback: settings.fallback() == "cpu",
            pooled: !safe_mode,
            // Only where files have owners: elsewhere none would be trusted, and every start would say so.
            pipelines: (cfg!(unix) && !safe_mode).then(|| machine::pipelines(places)),
            devices,
            route: routing::RouteRules::of(settings),
        };
        let (source, theirs) = (inventory.clone(), rules.clone());
        let runner =
            Arc::new(registry.lazy("runner", "recovery and memory limits", &["inventory"], move || {
                let inventory = source.load()?;
                Ok(Arc::new(make_runner(inventory, &theirs.devices.order(inventory), &theirs)))
            }));
        let (opened, data) = (runner.clone(), places.clone());
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
            (inventory.clone(), runner.clone(), rules.clone(), routing::file(places, safe_mode));
        let router = Arc::new(registry.lazy(
            "router",
            "places, and what is known about them",
            &["inventory", "runner"],
            move || Ok(routing::router(machine.load()?, first.load()?, &theirs, file.as_deref())),
        ));
        let (known, file) = (router.clone(), routing::file(places, safe_mode));
        let calibration = registry.lazy(
            "calibration",
            "a short measurement of places nothing is known about",
            &["router"],
            move || {
                routing::measure(known.load()?, file.as_deref());
                Ok(())
            },
        );
        let value =
            |(variable, what): (&'static str, &'static str)| Switch { variable, what, value: env(variable) };
        let switches = SWITCHES.map(value).to_vec();
        let (places, others) = (places.clone(), Mutex::default());
        let inner = Inner {
            places,
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
            watched: OnceLock::new(),
        };
        let forge = Forge { inner: Arc::new(inner) };
        if let Some(publisher) = crate::live::watch(&forge.inner, settings.monitor(), env) {
            let _ = forge.inner.watched.set(publisher);
        }
        if env("GPUFORGE_WARM").is_some_and(|v| is_truthy(&v)) && !safe_mode {
            forge.warm();
        }
        forge
    }

    /// What is here.
    pub fn inventory(&self) -> Result<&Inventory, String> {
        self.inner.inventory.get()
    }

    /// What would be used, and why.
    pub fn choice(&self) -> Result<Choice, String> {
        Ok(choose(self.inventory()?))
    }

    /// Is the device there that the settings name? Work asks this before a device is chosen; nothing is detected where no
    /// device is named.
    ///
    /// # Errors
    /// [`ForgeError::DeviceAllocator`] lists the devices that are there.
    pub fn check_device(&self) -> Result<(), ForgeError> {
        // Neither `auto` nor `cpu` needs a look at the hardware.
        let named = self.inner.asked.preference.as_ref().map(|(_, text)| parse_preference(text, &[]));
        if matches!(named, None | Some(DevicePreference::Auto | DevicePreference::Cpu(_)))
            || self.inner.asked.cpu_only.is_some()
        {
            return Ok(());
        }
        let inventory = self.inner.inventory.get().map_err(ForgeError::Start)?;
        Ok(machine::check_device(&self.inner.asked, inventory)?)
    }

    /// Runs one plan on the chosen device, or on the processor. Operations are routed instead: [`Forge::run`].
    pub fn run_plan(&self, plan: Plan) -> Result<RunOutcome, ForgeError> {
        Ok(self.ready()?.run(plan)?)
    }

    /// Runs independent items, in as few pieces as memory allows.
    pub fn run_batch(&self, batch: &dyn SplittableBatch) -> Result<RunOutcome, ForgeError> {
        Ok(self.ready()?.run_batch(batch)?)
    }

    /// A tensor's numbers on the host.
    pub fn read(&self, tensor: &Tensor) -> Result<Arc<[u8]>, ForgeError> {
        Ok(self.ready()?.read(tensor)?)
    }

    /// Runs `work`; tensors that its plans kept leave the device at its end, also on an error, unless they escape.
    pub fn scope<T>(&self, work: impl FnOnce(&TensorScope<'_>) -> T) -> Result<T, ForgeError> {
        Ok(self.ready()?.scope(work))
    }

    /// Asks about the memory of the chosen device, which is opened; `None` where there is no device to open.
    pub fn memory<T>(
        &self,
        ask: impl FnOnce(&MemoryStack<DeviceAllocator>) -> T,
    ) -> Result<Option<T>, ForgeError> {
        Ok(self.ready()?.session().map(|session| ask(session.memory())))
    }

    /// The runner, with the device open if one can be opened; that it cannot is the runner's to answer.
    fn ready(&self) -> Result<&Runner, ForgeError> {
        // Each part is asked for by name: what one loads for another is no use of its own.
        self.inner.inventory.get().map_err(ForgeError::Start)?;
        self.check_device()?;
        let runner = self.inner.runner.get().map_err(ForgeError::Start)?;
        let _ = self.inner.device.get();
        Ok(runner)
    }

    /// A runner for the GPU at this position of the inventory, beside the chosen one: several devices may be open at once.
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
        // Making a runner touches no device: nothing is called out while the lock is held.
        let runner = Arc::new(make_runner(inventory, &[index], &self.inner.rules));
        others.push((index, runner.clone()));
        Ok(runner)
    }

    /// Gives the device up; the next work opens it anew.
    pub fn reset_device(&self) {
        if let Some(runner) = self.inner.runner.peek() {
            runner.reset();
        }
    }

    /// Loads in the background what earlier runs have used, most used first; returns at once.
    pub fn warm(&self) {
        if self.inner.safe_mode {
            return;
        }
        let forge = self.clone();
        let load = move || {
            for name in usage::predict(&usage::load(&forge.inner.places)) {
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
        // Without a thread the parts load when they are needed, as always.
        let _ = std::thread::Builder::new().name("gpuforge-warm".to_owned()).spawn(load);
    }

    /// Loads every part now and opens the device; work that follows waits for nothing. Like a warm-up it is no use: it
    /// teaches the next one nothing. The first part that cannot be loaded is the error; without a device there is none
    /// to open.
    pub fn load(&self) -> Result<(), ForgeError> {
        let inner = &self.inner;
        let known = inner.inventory.load().map_err(ForgeError::Start)?;
        machine::check_device(&inner.asked, known)?;
        let parts = inner.inventory.load().map(drop).and_then(|()| inner.runner.load().map(drop));
        let parts = parts.and_then(|()| inner.device.load().map(drop));
        let parts = parts.and_then(|()| inner.router.load().map(drop));
        parts.and_then(|()| inner.calibration.load().map(drop)).map_err(ForgeError::Start)
    }

    /// Tells `listener` when parts begin and end to load.
    pub fn on_progress(&self, listener: ProgressListener) {
        self.inner.registry.listen(listener);
    }

    /// What starting has cost so far.
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
            predicted: usage::predict(&usage::load(&self.inner.places)),
        }
    }

    /// Figures of the moment; `None` where nothing was measured.
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
    /// Remembers which parts this run used, for the next one's warm-up.
    fn drop(&mut self) {
        let status = self.registry.status();
        let used: Vec<String> =
            status.iter().filter(|c| c.access_count > 0).map(|c| c.name.to_owned()).collect();
        if !used.is_empty() && !self.safe_mode {
            usage::remember(&self.places, used);
            if let Some(session) = self.runner.peek().and_then(|runner| runner.session()) {
                usage::remember_memory(&self.places, &session.memory().peaks());
            }
        }
    }
}

/// Figures of the moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Blocks that tensors and running work hold.
    pub live_tensors: Option<u64>,
    /// Their bytes.
    pub live_bytes: Option<Bytes>,
    /// The most there ever were.
    pub peak_bytes: Option<Bytes>,
    /// Buffers that were reused, in percent.
    pub reuse_percent: Option<f64>,
    /// The device is well and did all the work itself: the figures describe it.
    pub reliable: bool,
    /// Time inside the device's passes; `None` where it cannot tell.
    pub compute_ms: Option<f64>,
    /// Bytes moved to and from the device.
    pub transfer_bytes: Option<Bytes>,
    /// Share of the wall time of its work that the device computed; `None` where it cannot tell.
    pub utilisation: Option<f64>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// A part could not be loaded.
    #[error("gpuforge cannot start: {0}")]
    Start(String),
    /// The settings name a device that is not there.
    #[error(transparent)]
    DeviceAllocator(#[from] UnknownDevice),
    /// The work itself.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An operation.
    #[error(transparent)]
    Route(#[from] RouteError),
}
