//! Device creation: instance, adapter choice, features and device, timed by phase.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use super::{
    GpuOpener, memory_budget,
    pipeline_cache::{self, CacheFiles, CacheStore},
};
use crate::{
    engine::{
        Caps, EngineError,
        init::{DeviceInitStats, DriverStart, Stopwatch},
    },
    memory::MeasuredBudget,
    units::Bytes,
};

/// Which adapter to open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The first of the best type: discrete, integrated, virtual, software.
    #[default]
    Best,
    /// The one with this PCI address.
    Bus(String),
    /// The first whose name contains this, whatever its case.
    Name(String),
}

/// A device that another library opened and shares. Its callbacks stay that library's: a device loss shows here when
/// work fails.
#[derive(Debug, Clone)]
pub struct ExternalDevice {
    /// Its adapter.
    pub adapter: wgpu::Adapter,
    /// The device.
    pub device: wgpu::Device,
    /// Its queue, which both libraries submit to.
    pub queue: wgpu::Queue,
}

/// What the choice of an adapter depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterSummary {
    /// Name.
    pub name: String,
    /// PCI address; may be empty.
    pub bus: String,
    /// Rank; lower is better.
    pub rank: u8,
}

/// The index of the chosen adapter; pure.
pub(super) fn choose(adapters: &[AdapterSummary], choice: &AdapterChoice) -> Option<usize> {
    let mut matching: Vec<(usize, &AdapterSummary)> = adapters
        .iter()
        .enumerate()
        .filter(|(_, a)| match choice {
            AdapterChoice::Best => true,
            AdapterChoice::Bus(bus) => a.bus.eq_ignore_ascii_case(bus),
            AdapterChoice::Name(name) => a.name.to_lowercase().contains(&name.to_lowercase()),
        })
        .collect();
    matching.sort_by_key(|(i, a)| (a.rank, *i));
    matching.first().map(|(i, _)| *i)
}

/// An open device.
pub(super) struct Opened {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) caps: Caps,
    pub(super) budget: Option<MeasuredBudget>,
    pub(super) limits: wgpu::Limits,
    pub(super) store: Option<CacheStore>,
    pub(super) init: DeviceInitStats,
}

/// Reads the pipeline cache directory on another thread while the driver is loaded.
struct CacheReader(std::thread::JoinHandle<(CacheFiles, Instant, Duration)>);

impl CacheReader {
    fn spawn(dir: PathBuf) -> Option<Self> {
        let work = move || {
            let began = Instant::now();
            let files = pipeline_cache::read(&dir);
            (files, began, began.elapsed())
        };
        std::thread::Builder::new().name("gpuforge-cache".to_owned()).spawn(work).ok().map(CacheReader)
    }
}

/// Opens the chosen adapter; `install_callbacks` runs before anything else happens on the device.
pub(super) fn open(
    options: &GpuOpener,
    install_callbacks: impl FnOnce(&wgpu::Device),
) -> Result<Opened, EngineError> {
    if let Some(external) = &options.external {
        return Ok(adopt(external, options.staged));
    }
    static OPENED: AtomicBool = AtomicBool::new(false);
    let start = if OPENED.swap(true, Ordering::Relaxed) { DriverStart::Warm } else { DriverStart::Cold };
    let mut watch = Stopwatch::new();
    let cache_reader = options.pipeline_cache_dir.clone().and_then(CacheReader::spawn);
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
    watch.time("callbacks", || install_callbacks(&device));
    let (mut store, mut loaded, mut warnings) = (None, None, Vec::new());
    if let (Some(reader), Some(dir)) = (cache_reader, options.pipeline_cache_dir.clone())
        && let Ok((files, began, took)) = reader.0.join()
    {
        watch.add("pipeline cache, read", began, took);
        if let Some(key) =
            pipeline_cache::key(&info).filter(|_| features.contains(wgpu::Features::PIPELINE_CACHE))
        {
            let found = files.take(&key);
            let opened = watch.time("pipeline cache, load", || CacheStore::open(&device, dir, key, found));
            store = Some(opened.0);
            loaded = opened.1;
            warnings.extend(opened.2);
        }
    }
    let caps = caps(&info, features, &limits);
    let budget = watch.time("memory budget", || memory_budget::query(adapter));
    let init = watch.stop(start, loaded, warnings);
    Ok(Opened { device, queue, caps, budget, limits, store, init })
}

/// Adopts a device that is already open, with those of its features that we use. It has no pipeline cache.
fn adopt(external: &ExternalDevice, staged: bool) -> Opened {
    let info = external.adapter.get_info();
    let features = features(&external.adapter, &info, staged) & external.device.features();
    let limits = external.device.limits();
    Opened {
        device: external.device.clone(),
        queue: external.queue.clone(),
        caps: caps(&info, features, &limits),
        budget: memory_budget::query(&external.adapter),
        limits,
        store: None,
        init: Stopwatch::new().stop(DriverStart::Warm, None, Vec::new()),
    }
}

fn pick<'a>(adapters: &'a [wgpu::Adapter], choice: &AdapterChoice) -> Result<&'a wgpu::Adapter, EngineError> {
    let summaries: Vec<AdapterSummary> = adapters.iter().map(|a| describe(&a.get_info())).collect();
    choose(&summaries, choice).and_then(|i| adapters.get(i)).ok_or_else(|| {
        let names: Vec<&str> = summaries.iter().map(|f| f.name.as_str()).collect();
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
        // On a discrete GPU mappable buffers may land in slow host memory; they are only used with unified memory.
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

fn describe(info: &wgpu::AdapterInfo) -> AdapterSummary {
    let rank = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    };
    AdapterSummary { name: info.name.clone(), bus: info.device_pci_bus_id.clone(), rank }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapter_choice_by_rank_bus_and_name() {
        let summary =
            |name: &str, bus: &str, rank| AdapterSummary { name: name.into(), bus: bus.into(), rank };
        let adapters = [
            summary("llvmpipe", "", 4),
            summary("Card A", "0000:01:00.0", 0),
            summary("Card B", "0000:02:00.0", 0),
        ];
        let check = |choice, want| assert_eq!(choose(&adapters, &choice), want, "{choice:?}");
        check(AdapterChoice::Best, Some(1));
        check(AdapterChoice::Bus("0000:02:00.0".into()), Some(2));
        check(AdapterChoice::Name("LLVM".into()), Some(0));
        check(AdapterChoice::Name("nothing".into()), None);
        assert_eq!(choose(&[], &AdapterChoice::Best), None);
    }
}
