//! Which adapter, and with which features? Instance, adapter and device, timed.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use super::{
    GpuOpener, budget,
    pipeline_cache::{self, Shelf, Store},
};
use crate::{
    engine::{
        Caps, EngineError,
        init::{InitStats, Start, Stopwatch},
    },
    memory::Measured,
    units::Bytes,
};

/// Which adapter to open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The first of the kind that wgpu ranks best: discrete, integrated, virtual, software.
    #[default]
    Best,
    /// The one with this PCI address.
    Bus(String),
    /// The first whose name contains this, whatever its case.
    Name(String),
}

/// A device that another library opened. Its callbacks stay that library's: a loss shows here when work fails.
#[derive(Debug, Clone)]
pub struct GivenDevice {
    /// Where it comes from.
    pub adapter: wgpu::Adapter,
    /// The device.
    pub device: wgpu::Device,
    /// Its queue, which both submit to.
    pub queue: wgpu::Queue,
}

/// What an adapter says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterFacts {
    /// Name.
    pub name: String,
    /// PCI address, may be empty.
    pub bus: String,
    /// Rank: less is better.
    pub rank: u8,
}

/// The position of the chosen adapter; pure.
pub(super) fn choose(adapters: &[AdapterFacts], choice: &AdapterChoice) -> Option<usize> {
    let mut fitting: Vec<(usize, &AdapterFacts)> = adapters
        .iter()
        .enumerate()
        .filter(|(_, a)| match choice {
            AdapterChoice::Best => true,
            AdapterChoice::Bus(bus) => a.bus.eq_ignore_ascii_case(bus),
            AdapterChoice::Name(name) => a.name.to_lowercase().contains(&name.to_lowercase()),
        })
        .collect();
    fitting.sort_by_key(|(i, a)| (a.rank, *i));
    fitting.first().map(|(i, _)| *i)
}

/// An open device.
pub(super) struct Opened {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) caps: Caps,
    pub(super) budget: Option<Measured>,
    pub(super) limits: wgpu::Limits,
    pub(super) store: Option<Store>,
    pub(super) init: InitStats,
}

/// A folder of compiled pipelines that is read while the driver is being loaded.
struct Reading(std::thread::JoinHandle<(Shelf, Instant, Duration)>);

impl Reading {
    fn begin(dir: PathBuf) -> Option<Self> {
        let work = move || {
            let began = Instant::now();
            let shelf = pipeline_cache::read(&dir);
            (shelf, began, began.elapsed())
        };
        std::thread::Builder::new().name("gpuforge-cache".to_owned()).spawn(work).ok().map(Reading)
    }
}

/// Opens the chosen adapter; `listen` puts the callbacks in place before anything else happens on the device.
pub(super) fn open(options: &GpuOpener, listen: impl FnOnce(&wgpu::Device)) -> Result<Opened, EngineError> {
    if let Some(given) = &options.given {
        return Ok(take(given, options.staged));
    }
    static OPENED: AtomicBool = AtomicBool::new(false);
    let start = if OPENED.swap(true, Ordering::Relaxed) { Start::Warm } else { Start::Cold };
    let mut watch = Stopwatch::new();
    let reading = options.pipeline_cache_dir.clone().and_then(Reading::begin);
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let instance = watch.time("instance", || {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        descriptor.flags = wgpu::InstanceFlags::empty();
        wgpu::Instance::new(descriptor)
    });
    let adapters = watch.time("adapter", || pollster::block_on(instance.enumerate_adapters(backends)));
    let adapter = pick(&adapters, &options.choice)?;
    let info = adapter.get_info();
    let features = features(adapter, &info, options.staged);
    let limits = adapter.limits();
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("gpuforge"),
        required_features: features,
        required_limits: limits.clone(),
        ..wgpu::DeviceDescriptor::default()
    };
    let (device, queue) = watch
        .time("device", || pollster::block_on(adapter.request_device(&descriptor)))
        .map_err(|e| EngineError::Unavailable { reason: e.to_string() })?;
    watch.time("callbacks", || listen(&device));
    let (mut store, mut taken, mut warnings) = (None, None, Vec::new());
    if let (Some(reading), Some(dir)) = (reading, options.pipeline_cache_dir.clone())
        && let Ok((shelf, began, took)) = reading.0.join()
    {
        watch.add("pipeline cache, read", began, took);
        if let Some(key) =
            pipeline_cache::key(&info).filter(|_| features.contains(wgpu::Features::PIPELINE_CACHE))
        {
            let found = shelf.take(&key);
            let made = watch.time("pipeline cache, load", || Store::open(&device, dir, key, found));
            store = Some(made.0);
            taken = made.1;
            warnings.extend(made.2);
        }
    }
    let caps = caps(&info, features, &limits);
    let budget = watch.time("memory budget", || budget::ask(adapter));
    let init = watch.stop(start, taken, warnings);
    Ok(Opened { device, queue, caps, budget, limits, store, init })
}

/// A device that is open already, with what of its features we use. Compiled pipelines are not kept for it.
fn take(given: &GivenDevice, staged: bool) -> Opened {
    let info = given.adapter.get_info();
    let features = features(&given.adapter, &info, staged) & given.device.features();
    let limits = given.device.limits();
    Opened {
        device: given.device.clone(),
        queue: given.queue.clone(),
        caps: caps(&info, features, &limits),
        budget: budget::ask(&given.adapter),
        limits,
        store: None,
        init: Stopwatch::new().stop(Start::Warm, None, Vec::new()),
    }
}

fn pick<'a>(adapters: &'a [wgpu::Adapter], choice: &AdapterChoice) -> Result<&'a wgpu::Adapter, EngineError> {
    let facts: Vec<AdapterFacts> = adapters.iter().map(|a| describe(&a.get_info())).collect();
    choose(&facts, choice).and_then(|i| adapters.get(i)).ok_or_else(|| {
        let names: Vec<&str> = facts.iter().map(|f| f.name.as_str()).collect();
        let there = if names.is_empty() {
            "there is none".to_owned()
        } else {
            format!("there are: {}", names.join(", "))
        };
        EngineError::Unavailable { reason: format!("no adapter is {choice:?}; {there}") }
    })
}

fn features(adapter: &wgpu::Adapter, info: &wgpu::AdapterInfo, staged: bool) -> wgpu::Features {
    let wanted = wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
        | wgpu::Features::SHADER_F16
        | wgpu::Features::SUBGROUP
        | wgpu::Features::PIPELINE_CACHE;
    let mut features = adapter.features() & wanted;
    let unified = matches!(info.device_type, wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu);
    if staged || !unified {
        // On a card, mappable buffers may land in slow memory; they are only wanted where there is one memory.
        features.remove(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
    }
    features
}

fn caps(info: &wgpu::AdapterInfo, features: wgpu::Features, limits: &wgpu::Limits) -> Caps {
    Caps {
        name: info.name.clone(),
        largest_block: Bytes(limits.max_storage_buffer_binding_size.min(limits.max_buffer_size)),
        unified_memory: features.contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS),
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        subgroup: features
            .contains(wgpu::Features::SUBGROUP)
            .then_some((info.subgroup_min_size, info.subgroup_max_size)),
        f16: features.contains(wgpu::Features::SHADER_F16),
        loop_iterations: None,
    }
}

fn describe(info: &wgpu::AdapterInfo) -> AdapterFacts {
    let rank = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    };
    AdapterFacts { name: info.name.clone(), bus: info.device_pci_bus_id.clone(), rank }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_chosen_by_rank_bus_and_name() {
        let fact = |name: &str, bus: &str, rank| AdapterFacts { name: name.into(), bus: bus.into(), rank };
        let adapters =
            [fact("llvmpipe", "", 4), fact("Card A", "0000:01:00.0", 0), fact("Card B", "0000:02:00.0", 0)];
        let check = |choice, want| assert_eq!(choose(&adapters, &choice), want, "{choice:?}");
        check(AdapterChoice::Best, Some(1));
        check(AdapterChoice::Bus("0000:02:00.0".into()), Some(2));
        check(AdapterChoice::Name("LLVM".into()), Some(0));
        check(AdapterChoice::Name("nothing".into()), None);
        assert_eq!(choose(&[], &AdapterChoice::Best), None);
    }
}
