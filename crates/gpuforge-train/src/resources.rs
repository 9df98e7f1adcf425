//! Memory and thread budget of this process for training.

use std::sync::OnceLock;

use gpuforge::hardware::{cpu, model::Cpu, probe::filesystem::RealFs};

/// Divisor of the memory that training may use: the rest is for the dataset and the system.
const SHARE: u64 = 2;
/// Live f64 values per bar and feature while features are computed, intermediates included.
const LIVE_VALUES: u64 = 4;

fn cpu() -> &'static Cpu {
    static FOUND: OnceLock<Cpu> = OnceLock::new();
    FOUND.get_or_init(|| cpu::detect(&RealFs))
}

/// Memory budget of training on the CPU; `None` if unknown.
pub fn memory_budget() -> Option<u64> {
    share(cpu())
}

fn share(cpu: &Cpu) -> Option<u64> {
    cpu.memory_bytes.into_iter().chain(cpu.memory_limit_bytes).min().map(|bytes| bytes / SHARE)
}

/// Worker threads for feature computation, and the reason.
pub fn workers(bars: usize, features: usize) -> (usize, String) {
    decide(cpu(), bars, features)
}

/// One thread per core of the fastest kind, capped by memory; pure.
fn decide(cpu: &Cpu, bars: usize, features: usize) -> (usize, String) {
    let threads = cpu.available.map_or(1, |n| n as usize).max(1);
    // Work is divided evenly: on a hybrid CPU everyone would wait for the slow cores.
    let (mut count, mut why) = match cpu.performance_cores.map(|n| n as usize) {
        Some(fast) if fast > 0 && fast < threads => (fast, "one per fast core".to_owned()),
        _ => (threads, "one per hardware thread".to_owned()),
    };
    let each = 8 * LIVE_VALUES * bars.max(1) as u64 * features.max(1) as u64;
    if let Some(most) = share(cpu).map(|bytes| (bytes / each.max(1)).max(1) as usize)
        && most < count
    {
        (count, why) = (most, format!("{} MiB of memory each", each >> 20));
    }
    (count, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_follow_threads_core_types_and_memory() {
        let plain = Cpu { available: Some(8), memory_bytes: Some(1 << 34), ..Cpu::default() };
        assert_eq!(decide(&plain, 1000, 10).0, 8);
        let hybrid = Cpu { performance_cores: Some(6), ..plain.clone() };
        assert_eq!(decide(&hybrid, 1000, 10), (6, "one per fast core".to_owned()));
        let limited = Cpu { memory_limit_bytes: Some(2 << 30), ..plain.clone() };
        // A million bars of ten features: 320 MB each, 1 GiB in all.
        assert_eq!(decide(&limited, 1_000_000, 10).0, 3);
        assert_eq!(decide(&limited, 100_000_000, 111).0, 1, "one always works");
        assert_eq!(decide(&Cpu::default(), 10, 1).0, 1, "unknown is one");
        assert_eq!(share(&limited), Some(1 << 30));
        assert_eq!(share(&Cpu::default()), None);
    }
}
