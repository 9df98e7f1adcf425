//! Runner construction from the inventory and the settings: fallback chain, memory budget. Opens no device.

use std::{path::PathBuf, sync::Arc};

use gpuforge_detect::{Inventory, model::Gpu};
use gpuforge_runtime::{
    engine::{
        Engine, EngineError, Opener,
        fallback::FallbackOpener,
        gpu::{AdapterChoice, GpuOpener},
    },
    memory::{Budget, BudgetOrigin, BudgetSource, MeasuredBudget, StackSettings, choose_budget},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};
use serde::Serialize;

use crate::{devices::DeviceFilter, routing::RouteRules, settings::Settings};

/// Budget where neither the device nor the system reports its memory.
const UNKNOWN_BUDGET: Bytes = Bytes::mib(512);

/// The user's memory limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitStatus {
    /// Bytes.
    pub bytes: Bytes,
    /// Flag, variable or file that sets it.
    pub origin: String,
}

/// Execution rules from the settings.
#[derive(Debug, Clone)]
pub(crate) struct RunnerRules {
    pub(crate) limit: Option<LimitStatus>,
    pub(crate) cpu_fallback: bool,
    pub(crate) pooled: bool,
    /// Pipeline cache directory.
    pub(crate) pipelines: Option<PathBuf>,
    pub(crate) devices: DeviceFilter,
    pub(crate) route: RouteRules,
}

/// No device: all work runs on the CPU.
struct NoDevice {
    reason: String,
}

impl Opener for NoDevice {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Err(EngineError::Unavailable { reason: self.reason.clone() })
    }
}

/// A runner over the GPUs at these indices, the preferred one first; none means the CPU.
pub(crate) fn make_runner(inventory: &Inventory, order: &[usize], rules: &RunnerRules) -> Runner {
    let gpus: Vec<&Gpu> = order.iter().filter_map(|i| inventory.gpus.get(*i)).collect();
    let link = |gpu: &&Gpu| {
        let pipeline_cache_dir = rules.pipelines.clone();
        let opener = GpuOpener { choice: adapter(gpu), pipeline_cache_dir, ..GpuOpener::default() };
        (gpu.display_name().to_owned(), Box::new(opener) as Box<dyn Opener>)
    };
    let opener: Box<dyn Opener> = if gpus.is_empty() {
        Box::new(NoDevice { reason: inventory.best_reason.clone() })
    } else {
        Box::new(FallbackOpener::new(gpus.iter().map(link).collect()))
    };
    let system = inventory.cpu.as_ref().and_then(|c| c.memory_limit_bytes.or(c.memory_bytes)).map(Bytes);
    // The smallest of the fallback chain: what fits there fits everywhere.
    let measured = gpus.iter().filter_map(|g| measured(g)).min_by_key(|m| m.bytes);
    let budget = choose_budget(rules.limit.as_ref().map(|l| l.bytes), measured, system)
        .unwrap_or(Budget { bytes: UNKNOWN_BUDGET, origin: BudgetOrigin::ShareOfSystem { percent: 0 } });
    let mut memory = StackSettings::new(budget);
    if !rules.pooled {
        memory.pool.max_idle = Bytes::ZERO;
    }
    // Without a device the CPU is the choice, not a fallback.
    let cpu_fallback = rules.cpu_fallback || gpus.is_empty();
    Runner::new(opener, RunnerSettings { cpu_fallback, ..RunnerSettings::new(memory) })
}

/// The user's memory limit and its origin.
pub(crate) fn limit(settings: &Settings) -> Option<LimitStatus> {
    let origin = settings.get("memory_limit").map(|r| r.origin.to_string()).unwrap_or_default();
    settings.memory_limit().map(|bytes| LimitStatus { bytes: Bytes(bytes), origin })
}

fn adapter(gpu: &Gpu) -> AdapterChoice {
    match (&gpu.bus_id, &gpu.name) {
        (Some(bus), _) => AdapterChoice::Bus(bus.clone()),
        (None, Some(name)) => AdapterChoice::Name(name.clone()),
        (None, None) => AdapterChoice::Best,
    }
}

/// Memory reported by the driver; a Vulkan heap size is not a budget and is ignored.
fn measured(gpu: &Gpu) -> Option<MeasuredBudget> {
    let says = |source: &str| gpu.sources.iter().any(|s| s == source);
    let source = if says("nvml") {
        BudgetSource::Nvml
    } else if gpu.kernel_driver.as_deref() == Some("amdgpu") {
        BudgetSource::AmdgpuSysfs
    } else {
        return None;
    };
    gpu.memory_bytes.map(|b| MeasuredBudget { bytes: Bytes(b), source })
}
