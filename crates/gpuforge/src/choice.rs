//! Default device choice from the inventory, with its reason; pure. Measurements may override it later.

use gpuforge_detect::{Inventory, model::Gpu};
use serde::Serialize;

/// The device that work would use before anything was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// `cpu`, or `gpu` with its position.
    pub device: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
    /// CPU worker threads.
    pub threads: u32,
    /// Why that many.
    pub threads_reason: String,
    /// SIMD level of the CPU code.
    pub simd: Option<String>,
    /// Usable memory of the device, where it is known.
    pub memory_bytes: Option<u64>,
}

/// Chooses by the inventory alone.
pub fn choose(inventory: &Inventory) -> Choice {
    let (threads, threads_reason) = threads(inventory);
    let cpu = inventory.cpu.as_ref();
    let simd = cpu.and_then(|c| c.simd.clone());
    let system = cpu.and_then(|c| c.memory_limit_bytes.or(c.memory_bytes));
    let reason = inventory.best_reason.clone();
    let chosen = inventory.best.as_ref().and_then(|b| inventory.gpus.get(b.index).map(|g| (b.index, g)));
    match chosen {
        Some((index, gpu)) => Choice {
            device: format!("gpu:{index}"),
            name: gpu.display_name().to_owned(),
            reason,
            threads,
            threads_reason,
            simd,
            memory_bytes: usable_memory(gpu, system),
        },
        None => Choice {
            device: "cpu".to_owned(),
            name: cpu.and_then(|c| c.brand.clone()).unwrap_or_else(|| "CPU".to_owned()),
            reason,
            threads,
            threads_reason,
            simd,
            memory_bytes: system,
        },
    }
}

/// Dedicated memory, else memory shared with the system.
fn usable_memory(gpu: &Gpu, system: Option<u64>) -> Option<u64> {
    gpu.memory_bytes.or(gpu.gtt_bytes).or(gpu.system_shared_bytes).or(match gpu.unified_memory {
        Some(true) => system,
        _ => None,
    })
}

/// One thread per hardware thread this process may use; on hybrid CPUs all of them, since work stealing balances slow cores.
fn threads(inventory: &Inventory) -> (u32, String) {
    let Some(cpu) = &inventory.cpu else { return (1, "the CPU is not known".to_owned()) };
    match (cpu.available, cpu.logical) {
        (Some(available), Some(logical)) if available < logical => {
            let why = cpu.limited_by.clone().unwrap_or_else(|| "fewer are available".to_owned());
            (available.max(1), format!("{available} of {logical} hardware threads: {why}"))
        }
        (Some(available), _) => (available.max(1), format!("all {available} hardware threads")),
        (None, Some(logical)) => (logical.max(1), format!("{logical} hardware threads")),
        (None, None) => (1, "the number of hardware threads is not known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use gpuforge_detect::model::{Cpu, GpuType, SelectedGpu};

    use super::*;

    fn machine(best: Option<usize>) -> Inventory {
        let gpu = Gpu {
            name: Some("Card".into()),
            memory_bytes: Some(8 << 30),
            kind: GpuType::Discrete,
            ..Gpu::default()
        };
        let cpu = Cpu {
            brand: Some("Chip".into()),
            logical: Some(64),
            available: Some(2),
            limited_by: Some("cgroup quota of 2.0 CPUs".into()),
            memory_bytes: Some(64 << 30),
            memory_limit_bytes: Some(4 << 30),
            ..Cpu::default()
        };
        let best = best.map(|index| SelectedGpu { index, name: "Card".into(), ..SelectedGpu::default() });
        Inventory {
            gpus: vec![gpu],
            cpu: Some(cpu),
            best,
            best_reason: "because".into(),
            ..Inventory::default()
        }
    }

    #[test]
    fn gpu_memory_and_container_limits_are_used() {
        let gpu = choose(&machine(Some(0)));
        assert_eq!((gpu.device.as_str(), gpu.memory_bytes), ("gpu:0", Some(8 << 30)));
        let cpu = choose(&machine(None));
        assert_eq!((cpu.device.as_str(), cpu.memory_bytes, cpu.threads), ("cpu", Some(4 << 30), 2));
        assert!(cpu.threads_reason.contains("2 of 64"));
    }

    #[test]
    fn unknown_cpu_means_one_thread() {
        assert_eq!(choose(&Inventory::default()).threads, 1);
    }
}
