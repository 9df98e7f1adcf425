//! wgpu adapter probe: enumerates Vulkan, Metal and DX12 adapters; no device is opened.

use super::ProbeError;
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    parsers, pci,
};

/// Enumerates the adapters of the platform's native graphics APIs.
pub fn read() -> Result<ProbeReport, ProbeError> {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let adapters = pollster::block_on(instance.enumerate_adapters(backends));
    let mut report = ProbeReport::of("adapters");
    for adapter in &adapters {
        let gpu = describe(&adapter.get_info(), device_local_bytes(adapter));
        add(&mut report, gpu);
    }
    Ok(report)
}

/// Converts adapter info; pure.
fn describe(info: &wgpu::AdapterInfo, local_bytes: Option<u64>) -> Gpu {
    let software = info.device_type == wgpu::DeviceType::Cpu || classify::is_software_name(&info.name);
    // Metal reports no vendor id; everything it lists today that is not AMD or Intel is Apple's.
    let vendor = match info.vendor {
        _ if software => Vendor::Other,
        0 => pci::vendor_in_name(&info.name).unwrap_or(Vendor::Other),
        id => pci::vendor(id),
    };
    let mut gpu = Gpu::of(Some(vendor), "adapters");
    gpu.name = Some(info.name.clone()).filter(|n| !n.is_empty());
    gpu.bus_id = pci::bus_id(&info.device_pci_bus_id);
    gpu.pci_id = match (u16::try_from(info.vendor), u16::try_from(info.device)) {
        (Ok(vendor), Ok(device)) if !software && vendor != 0 && device != 0 => {
            Some(pci::pci_id(vendor, device))
        }
        _ => None,
    };
    let version = Some(info.driver_info.clone()).filter(|v| !v.is_empty());
    // DX12 states the version of Windows' driver package, Vulkan that of NVIDIA.
    let release = version.as_deref().filter(|_| vendor == Vendor::Nvidia).and_then(parsers::nvidia_release);
    gpu.driver_version = release.or(version);
    if !info.driver.is_empty() {
        gpu.drivers.push(format!("{} {}", info.driver, info.driver_info).trim().to_owned());
    }
    gpu.apis.push(match info.backend {
        wgpu::Backend::Vulkan => "vulkan".to_owned(),
        wgpu::Backend::Metal => "metal".to_owned(),
        wgpu::Backend::Dx12 => "dx12".to_owned(),
        other => other.to_string(),
    });
    gpu.kind = match info.device_type {
        _ if software => GpuType::Software,
        _ if classify::is_virtual_name(&info.name) => GpuType::Virtual,
        wgpu::DeviceType::DiscreteGpu => GpuType::Discrete,
        wgpu::DeviceType::IntegratedGpu => GpuType::Integrated,
        wgpu::DeviceType::VirtualGpu => GpuType::Virtual,
        _ => classify::gpu_type(Some(vendor), Some(&info.name), None, None, None).unwrap_or_default(),
    };
    gpu.memory_bytes = local_bytes.filter(|_| gpu.kind == GpuType::Discrete);
    gpu.unified_memory = matches!(gpu.kind, GpuType::Integrated | GpuType::Software).then_some(true);
    if software {
        gpu.set_usability(Usable::No, Evidence::Opened, "a software adapter: it runs on the CPU");
    } else {
        gpu.set_usability(Usable::Yes, Evidence::Opened, format!("{} opened it", gpu.apis.join(", ")));
    }
    gpu
}

/// Deduplicates: one GPU behind two drivers or APIs is one entry; identical cards have different addresses.
fn add(report: &mut ProbeReport, gpu: Gpu) {
    let same = |known: &&mut Gpu| match (&known.bus_id, &gpu.bus_id) {
        (Some(a), Some(b)) => a == b,
        _ => known.name == gpu.name && (known.apis != gpu.apis || known.kind == GpuType::Software),
    };
    match report.gpus.iter_mut().find(same) {
        Some(known) => {
            for (list, more) in [(&mut known.apis, gpu.apis), (&mut known.drivers, gpu.drivers)] {
                more.into_iter().for_each(|item| {
                    if !list.contains(&item) {
                        list.push(item);
                    }
                });
            }
        }
        None => report.gpus.push(gpu),
    }
}

/// Size of the largest device-local Vulkan memory heap.
#[cfg(not(target_vendor = "apple"))]
fn device_local_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const DEVICE_LOCAL: u32 = 1;
    #[expect(
        unsafe_code,
        reason = "wgpu offers no query for memory sizes; Vulkan's own needs its raw handles"
    )]
    // SAFETY: the handles come from the living adapter and are only read from; nothing is kept beyond this block.
    let memory = unsafe {
        let hal = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        hal.shared_instance().raw_instance().get_physical_device_memory_properties(hal.raw_physical_device())
    };
    let heaps = memory.memory_heaps.iter().take(usize::try_from(memory.memory_heap_count).ok()?);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

#[cfg(target_vendor = "apple")]
fn device_local_bytes(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}
