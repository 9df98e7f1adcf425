//! How much memory may be used, and who says so?

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Share of the system's memory taken as budget when nothing can measure the device's own. Half: a device without a
/// memory of its own shares it with everything else that runs.
pub const SYSTEM_SHARE_PERCENT: u8 = 50;

/// Share of a budget that is not the user's own number which [`Limit`](super::Limit) lets through. The rest is for
/// what the driver takes beside our blocks: pipelines, command buffers, alignment.
const LIMIT_PERCENT: u64 = 95;

/// What can measure a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// NVIDIA's management library.
    Nvml,
    /// The amdgpu driver's files.
    AmdgpuSysfs,
    /// `VK_EXT_memory_budget`.
    VulkanMemoryBudget,
    /// Metal's recommended working-set size.
    MetalWorkingSet,
    /// DXGI's video memory information.
    DxgiVideoMemory,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Nvml => "NVML",
            Source::AmdgpuSysfs => "amdgpu driver",
            Source::VulkanMemoryBudget => "Vulkan memory budget",
            Source::MetalWorkingSet => "Metal working set",
            Source::DxgiVideoMemory => "DXGI video memory",
        })
    }
}

/// A measured budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// What the source says may be used.
    pub bytes: Bytes,
    /// Which source.
    pub source: Source,
}

/// Where a budget comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetOrigin {
    /// The device or its driver was asked.
    Measured(Source),
    /// Nobody could tell: a documented share of the system's memory.
    ShareOfSystem {
        /// Which share.
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

/// How much may be used, and who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// That much.
    pub bytes: Bytes,
    /// The reason.
    pub origin: BudgetOrigin,
}

impl Budget {
    /// The hard cap for our own blocks: the user's number as it is, anything else with some room left.
    pub fn limit(&self) -> Bytes {
        match self.origin {
            BudgetOrigin::User => self.bytes,
            BudgetOrigin::Measured(_) | BudgetOrigin::ShareOfSystem { .. } => {
                share(self.bytes, LIMIT_PERCENT)
            }
        }
    }
}

/// The budget of an open device; pure. What its driver said at opening is better than a share of the system's memory,
/// and is not asked where the user or a closer source has spoken. Of a wish that was cut to all of the system's memory
/// the smaller of the two is left.
pub fn refine(budget: Budget, driver: Option<Measured>) -> Budget {
    let Some(driver) = driver else { return budget };
    let measured = Budget { bytes: driver.bytes, origin: BudgetOrigin::Measured(driver.source) };
    match budget.origin {
        BudgetOrigin::ShareOfSystem { percent: 100 } if budget.bytes <= driver.bytes => budget,
        BudgetOrigin::ShareOfSystem { .. } => measured,
        BudgetOrigin::User | BudgetOrigin::Measured(_) => budget,
    }
}

/// What is left for blocks when the engine keeps `reserved` for itself; pure. At least half: with a budget of a few
/// megabytes the work must not starve for buffers that it may never use.
pub fn without(budget: Budget, reserved: Bytes) -> Budget {
    let half = Bytes(budget.bytes.0.div_ceil(2));
    Budget { bytes: Bytes(budget.bytes.0.saturating_sub(reserved.0)).max(half), ..budget }
}

/// That percentage, rounded down.
fn share(of: Bytes, percent: u64) -> Bytes {
    Bytes((u128::from(of.0) * u128::from(percent) / 100) as u64)
}

/// Picks the budget; `None` when nothing is known at all.
///
/// The user's number wins where it asks for less than is there: a wish does not make memory, so a larger one is cut to
/// what was measured, or to all of the system's memory. Without a wish: what was measured, else a share of the system's.
pub fn budget(user: Option<Bytes>, measured: Option<Measured>, system: Option<Bytes>) -> Option<Budget> {
    let measured = measured.map(|m| Budget { bytes: m.bytes, origin: BudgetOrigin::Measured(m.source) });
    let Some(wish) = user else {
        let percent = SYSTEM_SHARE_PERCENT;
        let origin = BudgetOrigin::ShareOfSystem { percent };
        return measured.or(system.map(|all| Budget { bytes: share(all, percent.into()), origin }));
    };
    match measured {
        Some(measured) if measured.bytes < wish => Some(measured),
        Some(_) => Some(Budget { bytes: wish, origin: BudgetOrigin::User }),
        None => Some(match system {
            Some(all) if all < wish => {
                Budget { bytes: all, origin: BudgetOrigin::ShareOfSystem { percent: 100 } }
            }
            _ => Budget { bytes: wish, origin: BudgetOrigin::User },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BudgetOrigin::{Measured as By, ShareOfSystem, User};

    #[test]
    fn who_decides() {
        let nvml = |gib| Some(Measured { bytes: Bytes::gib(gib), source: Source::Nvml });
        let gib = |n| Some(Bytes::gib(n));
        let by_nvml = By(Source::Nvml);
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
            assert_eq!(budget(user, measured, system), expected, "{user:?} {measured:?} {system:?}");
        }
    }

    #[test]
    fn a_driver_is_believed_where_nobody_closer_has_spoken() {
        let driver = Some(Measured { bytes: Bytes::gib(6), source: Source::VulkanMemoryBudget });
        let by_driver = By(Source::VulkanMemoryBudget);
        let check = |gib, origin, want: (u64, BudgetOrigin)| {
            let before = Budget { bytes: Bytes::gib(gib), origin };
            let want = Budget { bytes: Bytes::gib(want.0), origin: want.1 };
            assert_eq!(refine(before, driver), want, "{before:?}");
            assert_eq!(refine(before, None), before);
        };
        check(15, ShareOfSystem { percent: 50 }, (6, by_driver));
        check(2, ShareOfSystem { percent: 50 }, (6, by_driver));
        check(1, ShareOfSystem { percent: 0 }, (6, by_driver));
        check(30, ShareOfSystem { percent: 100 }, (6, by_driver));
        check(4, ShareOfSystem { percent: 100 }, (4, ShareOfSystem { percent: 100 }));
        check(11, By(Source::Nvml), (11, By(Source::Nvml)));
        check(11, By(Source::AmdgpuSysfs), (11, By(Source::AmdgpuSysfs)));
        check(40, User, (40, User));
        assert_eq!(Source::VulkanMemoryBudget.to_string(), "Vulkan memory budget");
    }

    #[test]
    fn what_the_engine_keeps_is_taken_off_but_never_more_than_half() {
        let left =
            |bytes, reserved| without(Budget { bytes: Bytes(bytes), origin: User }, Bytes(reserved)).bytes.0;
        assert_eq!(left(1000, 0), 1000);
        assert_eq!(left(1000, 499), 501);
        assert_eq!(left(1000, 500), 500);
        assert_eq!(left(1000, 501), 500);
        assert_eq!(left(1001, 5000), 501);
        assert_eq!((left(0, 5), left(1, 5)), (0, 1));
    }

    #[test]
    fn only_the_users_number_is_taken_whole() {
        let limit = |origin| Budget { bytes: Bytes(1000), origin }.limit();
        assert_eq!(limit(User), Bytes(1000));
        assert_eq!(limit(By(Source::VulkanMemoryBudget)), Bytes(950));
        assert_eq!(limit(ShareOfSystem { percent: 50 }), Bytes(950));
    }
}
