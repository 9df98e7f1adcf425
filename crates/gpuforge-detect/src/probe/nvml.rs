//! NVML probe: devices, driver and CUDA version, MIG slices. The library is loaded at run time (dlopen).

use super::ProbeError;
use crate::model::ProbeReport;

/// Lists the NVML devices, MIG slices included.
#[cfg(any(target_os = "linux", windows))]
pub fn read() -> Result<ProbeReport, ProbeError> {
    use nvml_wrapper::{Nvml, error::NvmlError};
    let nvml = open().map_err(|error| match error {
        NvmlError::LibloadingError(_) => ProbeError::Absent("libnvidia-ml is not on this machine".to_owned()),
        NvmlError::DriverNotLoaded => ProbeError::Absent("the NVIDIA kernel module is not loaded".to_owned()),
        other => ProbeError::Failed(format!("NVML does not start: {other}")),
    })?;
    let mut report = ProbeReport::of("nvml");
    report.driver_version = nvml.sys_driver_version().ok();
    report.cuda_version =
        nvml.sys_cuda_driver_version().ok().map(|v| format!("{}.{}", v / 1000, v % 1000 / 10));
    let count =
        nvml.device_count().map_err(|e| ProbeError::Failed(format!("NVML cannot count devices: {e}")))?;
    for index in 0..count {
        report.gpus.push(live::device(&nvml, index, report.driver_version.as_deref()));
    }
    return Ok(report);

    /// The library's name on Linux distributions that ship no development link, and in WSL.
    fn open() -> Result<Nvml, NvmlError> {
        let names = ["libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"];
        let mut first = Nvml::init();
        if cfg!(target_os = "linux") {
            for name in names {
                if !matches!(first, Err(NvmlError::LibloadingError(_))) {
                    break;
                }
                first = Nvml::builder().lib_path(name.as_ref()).init();
            }
        }
        first
    }
}

#[cfg(any(target_os = "linux", windows))]
mod live {
    use nvml_wrapper::{Device, Nvml};

    use crate::{
        classify,
        model::{Evidence, Gpu, GpuType, MigDevice, Usable, Vendor},
        pci,
    };

    /// One device; a device that fails to open is reported as failed, not omitted.
    pub(super) fn device(nvml: &Nvml, index: u32, driver: Option<&str>) -> Gpu {
        let mut gpu = Gpu::of(Some(Vendor::Nvidia), "nvml");
        gpu.index = Some(index);
        gpu.driver_version = driver.map(str::to_owned);
        gpu.apis.push("cuda".to_owned());
        match nvml.device_by_index(index) {
            Ok(device) => describe(&mut gpu, &device),
            Err(error) => {
                gpu.error = Some(error.to_string());
                gpu.set_usability(
                    Usable::No,
                    Evidence::Failed,
                    format!("NVML cannot open GPU {index}: {error}"),
                );
            }
        }
        gpu
    }

    fn describe(gpu: &mut Gpu, device: &Device<'_>) {
        gpu.name = device.name().ok();
        gpu.uuid = device.uuid().ok();
        if let Ok(pci_info) = device.pci_info() {
            gpu.bus_id = pci::bus_id(&pci_info.bus_id);
            let (id, vendor) = (pci_info.pci_device_id >> 16, pci_info.pci_device_id & 0xffff);
            gpu.pci_id =
                u16::try_from(vendor).ok().zip(u16::try_from(id).ok()).map(|(v, d)| pci::pci_id(v, d));
        }
        gpu.arch = device.cuda_compute_capability().ok().map(|c| format!("{}.{}", c.major, c.minor));
        gpu.kind = classify::gpu_type(gpu.vendor, gpu.name.as_deref(), None, None, None)
            .unwrap_or(GpuType::Discrete);
        // Integrated modules report system memory here, which is shared.
        let memory = device.memory_info().ok().map(|m| m.total).filter(|t| *t > 0);
        gpu.memory_bytes = memory.filter(|_| gpu.kind != GpuType::Integrated);
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        #[cfg(windows)]
        {
            gpu.driver_model = device.driver_model().ok().map(|m| format!("{:?}", m.current));
        }
        if let Ok(mode) = device.mig_mode() {
            let on = mode.current != 0;
            gpu.mig = Some(if on { "enabled" } else { "disabled" }.to_owned());
            if on {
                gpu.mig_devices = slices(device);
            }
        }
        gpu.set_usability(Usable::Yes, Evidence::Opened, "NVML opened it");
    }

    fn slices(device: &Device<'_>) -> Vec<MigDevice> {
        let most = device.mig_device_count().unwrap_or(0);
        let slice = |index: u32| {
            let slice = device.mig_device_by_index(index).ok()?;
            let memory_bytes = slice.memory_info().ok().map(|m| m.total);
            let profile = slice.name().ok().and_then(|n| n.rsplit_once("MIG ").map(|(_, p)| p.to_owned()));
            Some(MigDevice { index: Some(index), memory_bytes, profile, ..MigDevice::default() })
        };
        (0..most).filter_map(slice).collect()
    }
}

/// There is no NVML on this platform.
#[cfg(not(any(target_os = "linux", windows)))]
pub fn read() -> Result<ProbeReport, ProbeError> {
    Err(ProbeError::Absent("NVML exists on Linux and Windows only".to_owned()))
}
