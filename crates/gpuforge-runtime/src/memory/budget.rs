//! Memory budget: how much device memory may be used, and from which source (user, driver, share of system memory).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Share of system memory taken as budget when the device's own memory cannot be measured. Half: a device without
/// dedicated memory shares it with everything else that runs.
pub const SYSTEM_SHARE_PERCENT: u8 = 50;

/// Share of a budget that [`LimitingAdaptor`](super::LimitingAdaptor) allows, unless the user set it. The rest is for
/// what the driver allocates itself: pipelines, command buffers, alignment.
const LIMIT_PERCENT: u64 = 95;

/// What measured a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetSource {
    /// NVML, NVIDIA's management library.
    Nvml,
    /// sysfs files of the amdgpu driver.
    AmdgpuSysfs,
    /// `VK_EXT_memory_budget`.
    VulkanMemoryBudget,
    /// Metal's recommended working-set size.
    MetalWorkingSet,
    /// DXGI's video memory information.
    DxgiVideoMemory,
}

impl fmt::Display for BudgetSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BudgetSource::Nvml => "NVML",
            BudgetSource::AmdgpuSysfs => "amdgpu driver",
            BudgetSource::VulkanMemoryBudget => "Vulkan memory budget",
            BudgetSource::MetalWorkingSet => "Metal working set",
            BudgetSource::DxgiVideoMemory => "DXGI video memory",
        })
    }
}

/// A measured budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredBudget {
    /// Bytes that may be used.
    pub bytes: Bytes,
    /// Who measured it.
    pub source: BudgetSource,
}

/// Where a budget comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetOrigin {
    /// Measured by the device or its driver.
    Measured(BudgetSource),
    /// Not measurable: a fixed share of system memory.
    ShareOfSystem {
        /// The share.
        percent: u8,
    },
    /// `--memory-limit`.
    User,
}

impl fmt::Display for BudgetOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetOrigin::Measured(source) => source.fmt(f),
            BudgetOrigin::ShareOfSystem { percent } => write!(f, "{percent} % of the system's memory"),
            BudgetOrigin::User => f.write_str("memory limit"),
        }
    }
}

/// How much may be used, and where that number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Bytes that may be used.
    pub bytes: Bytes,
    /// Its source.
    pub origin: BudgetOrigin,
}

impl Budget {
    /// The hard cap for our own blocks: the user's number as it is, anything else with headroom.
    pub fn limit(&self) -> Bytes {
        match self.origin {
            BudgetOrigin::User => self.bytes,
            BudgetOrigin::Measured(_) | BudgetOrigin::ShareOfSystem { .. } => {
                share(self.bytes, LIMIT_PERCENT)
            }
        }
    }
}

/// The budget of an open device; pure. The driver's number replaces a share of system memory, but neither the user's
/// limit nor another measurement. A user limit that was clamped to all of system memory stays if it is the smaller.
pub fn refine_budget(budget: Budget, driver: Option<MeasuredBudget>) -> Budget {
    let Some(driver) = driver else { return budget };
    let measured = Budget { bytes: driver.bytes, origin: BudgetOrigin::Measured(driver.source) };
    match budget.origin {
        BudgetOrigin::ShareOfSystem { percent: 100 } if budget.bytes <= driver.bytes => budget,
        BudgetOrigin::ShareOfSystem { .. } => measured,
        BudgetOrigin::User | BudgetOrigin::Measured(_) => budget,
    }
}

/// The budget without what the engine reserves for itself (staging buffers); pure. At least half is left: with a budget
/// of a few megabytes the work must not starve for staging buffers that may never be used.
pub fn subtract_reserved(budget: Budget, reserved: Bytes) -> Budget {
    let half = Bytes(budget.bytes.0.div_ceil(2));
    Budget { bytes: Bytes(budget.bytes.0.saturating_sub(reserved.0)).max(half), ..budget }
}

/// `percent` of `of`, rounded down.
fn share(of: Bytes, percent: u64) -> Bytes {
    Bytes((u128::from(of.0) * u128::from(percent) / 100) as u64)
}

/// Chooses the budget; `None` when nothing is known.
///
/// The user's limit wins if it is below what was measured; a larger one is clamped to the measurement, or to all of
/// system memory. Without a user limit: the measurement, else a share of system memory.
pub fn choose_budget(
    user: Option<Bytes>,
    measured: Option<MeasuredBudget>,
    system: Option<Bytes>,
) -> Option<Budget> {
    let measured = measured.map(|m| Budget { bytes: m.bytes, origin: BudgetOrigin::Measured(m.source) });
    let Some(limit) = user else {
        let percent = SYSTEM_SHARE_PERCENT;
        let origin = BudgetOrigin::ShareOfSystem { percent };
        return measured.or(system.map(|all| Budget { bytes: share(all, percent.into()), origin }));
    };
    match measured {
        Some(measured) if measured.bytes < limit => Some(measured),
        Some(_) => Some(Budget { bytes: limit, origin: BudgetOrigin::User }),
        None => Some(match system {
            Some(all) if all < limit => {
                Budget { bytes: all, origin: BudgetOrigin::ShareOfSystem { percent: 100 } }
            }
            _ => Budget { bytes: limit, origin: BudgetOrigin::User },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BudgetOrigin::{Measured as By, ShareOfSystem, User};

    #[test]
    fn budget_source_precedence() {
        let nvml = |gib| Some(MeasuredBudget { bytes: Bytes::gib(gib), source: BudgetSource::Nvml });
        let gib = |n| Some(Bytes::gib(n));
        let by_nvml = By(BudgetSource::Nvml);
        let cases = [
            (None, None, None, None),
            (None, None, gib(30), Some((15, ShareOfSystem { percent: 50 }))),
            (None, nvml(11), gib(30), Some((11, by_nvml))),
            (gib(4), nvml(11), gib(30), Some((4, User))),
            (gib(11), nvml(11), None, Some((11, User))),
            (gib(40), nvml(11), gib(30), Some((11, by_nvml))),
            (gib(20), None, gib(30), Some((20, User))),
            (gib(40), None, gib(30), Some((30, ShareOfSystem { percent: 100 }))),
            (gib(40), None, None, Some((40, User))),
        ];
        for (user, measured, system, expected) in cases {
            let expected = expected.map(|(gib, origin)| Budget { bytes: Bytes::gib(gib), origin });
            assert_eq!(choose_budget(user, measured, system), expected, "{user:?} {measured:?} {system:?}");
        }
    }

    #[test]
    fn driver_budget_replaces_only_a_share_of_system_memory() {
        let driver = Some(MeasuredBudget { bytes: Bytes::gib(6), source: BudgetSource::VulkanMemoryBudget });
        let by_driver = By(BudgetSource::VulkanMemoryBudget);
        let check = |gib, origin, want: (u64, BudgetOrigin)| {
            let before = Budget { bytes: Bytes::gib(gib), origin };
            let want = Budget { bytes: Bytes::gib(want.0), origin: want.1 };
            assert_eq!(refine_budget(before, driver), want, "{before:?}");
            assert_eq!(refine_budget(before, None), before);
        };
        check(15, ShareOfSystem { percent: 50 }, (6, by_driver));
        check(2, ShareOfSystem { percent: 50 }, (6, by_driver));
        check(1, ShareOfSystem { percent: 0 }, (6, by_driver));
        check(30, ShareOfSystem { percent: 100 }, (6, by_driver));
        check(4, ShareOfSystem { percent: 100 }, (4, ShareOfSystem { percent: 100 }));
        check(11, By(BudgetSource::Nvml), (11, By(BudgetSource::Nvml)));
        check(11, By(BudgetSource::AmdgpuSysfs), (11, By(BudgetSource::AmdgpuSysfs)));
        check(40, User, (40, User));
        assert_eq!(BudgetSource::VulkanMemoryBudget.to_string(), "Vulkan memory budget");
    }

    #[test]
    fn reserved_bytes_are_subtracted_up_to_half_of_the_budget() {
        let left = |bytes, reserved| {
            subtract_reserved(Budget { bytes: Bytes(bytes), origin: User }, Bytes(reserved)).bytes.0
        };
        assert_eq!(left(1000, 0), 1000);
        assert_eq!(left(1000, 499), 501);
        assert_eq!(left(1000, 500), 500);
        assert_eq!(left(1000, 501), 500);
        assert_eq!(left(1001, 5000), 501);
        assert_eq!((left(0, 5), left(1, 5)), (0, 1));
    }

    #[test]
    fn only_a_user_limit_has_no_headroom() {
        let limit = |origin| Budget { bytes: Bytes(1000), origin }.limit();
        assert_eq!(limit(User), Bytes(1000));
        assert_eq!(limit(By(BudgetSource::VulkanMemoryBudget)), Bytes(950));
        assert_eq!(limit(ShareOfSystem { percent: 50 }), Bytes(950));
    }
}
