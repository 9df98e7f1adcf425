//! Memory pressure levels and eviction thresholds (start at 85 %, stop at 75 %); pure integer functions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Eviction of idle blocks starts when this share of the budget is held.
pub const EVICT_AT_PERCENT: u64 = 85;

/// Eviction stops when this share is held, or nothing idle is left. The hysteresis below [`EVICT_AT_PERCENT`] keeps the
/// next few requests from starting it again.
pub const EVICT_TO_PERCENT: u64 = 75;

/// Pressure level: how much of the budget is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pressure {
    /// Below 60 %.
    Low,
    /// From 60 %.
    Moderate,
    /// From 80 %.
    High,
    /// From 90 %; also when there is no budget at all.
    Critical,
}

/// Levels and their lower bounds in percent, highest first.
const LEVELS: [(u64, Pressure); 3] =
    [(90, Pressure::Critical), (80, Pressure::High), (60, Pressure::Moderate)];

impl Pressure {
    /// Every level, lowest first.
    pub const ALL: [Pressure; 4] = [Pressure::Low, Pressure::Moderate, Pressure::High, Pressure::Critical];
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pressure::Low => "low",
            Pressure::Moderate => "moderate",
            Pressure::High => "high",
            Pressure::Critical => "critical",
        })
    }
}

/// Is `used` at least `percent` of `budget`? In integers, so the boundary is exact.
fn at_least(used: Bytes, budget: Bytes, percent: u64) -> bool {
    u128::from(used.0) * 100 >= u128::from(budget.0) * u128::from(percent)
}

/// The pressure level of `used` out of `budget`.
pub fn pressure(used: Bytes, budget: Bytes) -> Pressure {
    let reached = |(percent, _): &&(u64, Pressure)| at_least(used, budget, *percent);
    LEVELS.iter().find(reached).map_or(Pressure::Low, |(_, level)| *level)
}

/// Should idle blocks be evicted?
pub fn should_evict(used: Bytes, budget: Bytes) -> bool {
    at_least(used, budget, EVICT_AT_PERCENT)
}

/// Idle bytes that eviction may keep so that at most [`EVICT_TO_PERCENT`] of the budget is held.
pub fn idle_to_keep(held: Bytes, idle: Bytes, budget: Bytes) -> Bytes {
    let target = u128::from(budget.0) * u128::from(EVICT_TO_PERCENT) / 100;
    idle - (held - Bytes(target as u64))
}

/// Why a request would be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocRefusal {
    /// No block can be that large.
    #[error("a block of {asked} cannot be allocated: the largest is {most}")]
    TooLarge {
        /// The requested size.
        asked: Bytes,
        /// The largest possible block.
        most: Bytes,
    },
    /// Too much is in use; idle blocks do not count, they can be evicted.
    #[error("{granted} do not fit: {in_use} of {limit} in use, and evicting every idle block is not enough")]
    InUse {
        /// The request, rounded up to its size class.
        granted: Bytes,
        /// Bytes in use.
        in_use: Bytes,
        /// The limit.
        limit: Bytes,
    },
}

/// Would a request fit with every idle block evicted? `granted` is its size rounded up to its size class, `None` when
/// there is no such class or no block can be that large.
pub fn would_fit(
    asked: Bytes,
    granted: Option<Bytes>,
    in_use: Bytes,
    limit: Bytes,
    most: Bytes,
) -> Result<(), AllocRefusal> {
    let granted =
        granted.filter(|granted| *granted <= limit).ok_or(AllocRefusal::TooLarge { asked, most })?;
    match in_use.checked_add(granted) {
        Some(sum) if sum <= limit => Ok(()),
        _ => Err(AllocRefusal::InUse { granted, in_use, limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Pressure::{Critical, High, Low, Moderate};

    #[test]
    fn pressure_levels_at_their_boundaries() {
        let cases = [
            (0, Low, false),
            (599, Low, false),
            (600, Moderate, false),
            (799, Moderate, false),
            (800, High, false),
            (849, High, false),
            (850, High, true),
            (899, High, true),
            (900, Critical, true),
            (1000, Critical, true),
            (2000, Critical, true),
        ];
        // In tenths of a percent; the largest scale is beyond what u64 × 100 can hold.
        for scale in [1, 1 << 20, 1 << 50] {
            for (tenths, level, evict) in cases {
                let (used, budget) = (Bytes(tenths * scale), Bytes(1000 * scale));
                assert_eq!(pressure(used, budget), level, "{tenths} of 1000, scale {scale}");
                assert_eq!(should_evict(used, budget), evict, "{tenths} of 1000, scale {scale}");
            }
        }
    }

    #[test]
    fn boundaries_are_exact_to_the_byte() {
        // 60 % of 999 is 599.4: 599 is below, 600 is not.
        assert_eq!([599, 600].map(|used| pressure(Bytes(used), Bytes(999))), [Low, Moderate]);
        // 85 % of 10^18, minus one.
        let budget = Bytes(1_000_000_000_000_000_000);
        assert!(!should_evict(Bytes(849_999_999_999_999_999), budget));
        assert!(should_evict(Bytes(850_000_000_000_000_000), budget));
        assert_eq!(pressure(Bytes(u64::MAX), Bytes(u64::MAX)), Critical);
    }

    #[test]
    fn zero_budget_is_critical() {
        assert_eq!(pressure(Bytes::ZERO, Bytes::ZERO), Critical);
    }

    #[test]
    fn eviction_stops_at_the_target() {
        let keep = |held, idle| idle_to_keep(Bytes(held), Bytes(idle), Bytes(1000));
        assert_eq!(keep(900, 400), Bytes(250));
        assert_eq!(keep(900, 100), Bytes::ZERO);
        assert_eq!(keep(700, 100), Bytes(100));
    }

    #[test]
    fn would_fit_names_the_refusal() {
        let ask = |granted, in_use| would_fit(Bytes(250), granted, Bytes(in_use), Bytes(1000), Bytes(1000));
        assert_eq!(ask(Some(Bytes(256)), 744), Ok(()));
        let why = ask(Some(Bytes(256)), 745).unwrap_err();
        assert_eq!(why, AllocRefusal::InUse { granted: Bytes(256), in_use: Bytes(745), limit: Bytes(1000) });
        assert!(why.to_string().contains("745 B of 1000 B"));
        assert_eq!(ask(None, 0), Err(AllocRefusal::TooLarge { asked: Bytes(250), most: Bytes(1000) }));
        assert_eq!(
            ask(Some(Bytes(u64::MAX)), 5),
            Err(AllocRefusal::TooLarge { asked: Bytes(250), most: Bytes(1000) })
        );
    }
}
