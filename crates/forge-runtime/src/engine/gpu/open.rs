//! Which adapter, and with which features? Instance, adapter and device, timed.

use crate::{
    engine::{Caps, EngineError},
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
}

pub(super) fn open(choice: &AdapterChoice) -> Result<Opened, EngineError> {
    let unavailable = |reason: String| EngineError::Unavailable { reason };
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let adapters = pollster::block_on(instance.enumerate_adapters(backends));
    let facts: Vec<AdapterFacts> = adapters.iter().map(|a| describe(&a.get_info())).collect();
    let adapter = choose(&facts, choice).and_then(|i| adapters.get(i));
    let names: Vec<&str> = facts.iter().map(|f| f.name.as_str()).collect();
    let adapter = adapter
        .ok_or_else(|| unavailable(format!("no adapter is {choice:?}; there are: {}", names.join(", "))))?;
    let wanted = wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
        | wgpu::Features::SHADER_F16
        | wgpu::Features::SUBGROUP
        | wgpu::Features::PIPELINE_CACHE;
    let info = adapter.get_info();
    let unified = matches!(info.device_type, wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu);
    let mut features = adapter.features() & wanted;
    if !unified {
        // On a card, mappable buffers may land in slow memory; they are only wanted where there is one memory.
        features.remove(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
    }
    let limits = adapter.limits();
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("gpuforge"),
        required_features: features,
        required_limits: limits.clone(),
        ..wgpu::DeviceDescriptor::default()
    };
    let (device, queue) =
        pollster::block_on(adapter.request_device(&descriptor)).map_err(|e| unavailable(e.to_string()))?;
    let caps = Caps {
        name: info.name.clone(),
        largest_block: Bytes(limits.max_storage_buffer_binding_size.min(limits.max_buffer_size)),
        unified_memory: features.contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS),
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        subgroup: features
            .contains(wgpu::Features::SUBGROUP)
            .then_some((info.subgroup_min_size, info.subgroup_max_size)),
        f16: features.contains(wgpu::Features::SHADER_F16),
        loop_iterations: None,
    };
    Ok(Opened { device, queue, caps })
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
