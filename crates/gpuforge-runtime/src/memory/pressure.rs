//! How tight is memory, when is it time to clean up, and would a request fit? Pure, exact at the boundaries.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Clean-up starts when this share of the budget is used.
pub const CLEAN_AT_PERCENT: u64 = 85;

/// Clean-up goes on until this share is used, or nothing idle is left: far enough below [`CLEAN_AT_PERCENT`] that the
/// next few requests do not start it again.
pub const CLEAN_TO_PERCENT: u64 = 75;

/// How much of the budget is used.
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

/// Levels by the percentage at which they begin, highest first.
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

/// Is `used` at least that percentage of `budget`? In integers, so that 60 % is 60 %.
fn at_least(used: Bytes, budget: Bytes, percent: u64) -> bool {
    u128::from(used.0) * 100 >= u128::from(budget.0) * u128::from(percent)
}

/// The level of `used` out of `budget`.
pub fn pressure(used: Bytes, budget: Bytes) -> Pressure {
    let reached = |(percent, _): &&(u64, Pressure)| at_least(used, budget, *percent);
    LEVELS.iter().find(reached).map_or(Pressure::Low, |(_, level)| *level)
}

/// Is it time to clean up?
pub fn should_clean(used: Bytes, budget: Bytes) -> bool {
    at_least(used, budget, CLEAN_AT_PERCENT)
}

/// How many idle bytes a clean-up may leave so that no more than [`CLEAN_TO_PERCENT`] of the budget are held.
pub fn keep_idle(held: Bytes, idle: Bytes, budget: Bytes) -> Bytes {
    let target = u128::from(budget.0) * u128::from(CLEAN_TO_PERCENT) / 100;
    idle - (held - Bytes(target as u64))
}

/// Why a request would not be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// No block can be that large.
    #[error("a block of {asked} cannot be had: the largest is {most}")]
    TooLarge {
        /// What was asked.
        asked: Bytes,
        /// The largest possible block.
        most: Bytes,
    },
    /// Others use the room; idle blocks do not count.
    #[error(
        "no room for {granted}: {in_use} of {limit} in use, and no idle block that could be freed is enough"
    )]
    InUse {
        /// What the request would take, rounded to its size class.
        granted: Bytes,
        /// What users hold.
        in_use: Bytes,
        /// What they may hold together.
        limit: Bytes,
    },
}

/// Would a request fit, with every idle block freed? `granted` is its size rounded to its class, `None` when there is
/// no such class or no block can be that large.
pub fn fits(
    asked: Bytes,
    granted: Option<Bytes>,
    in_use: Bytes,
    limit: Bytes,
    most: Bytes,
) -> Result<(), Why> {
    let granted = granted.filter(|granted| *granted <= limit).ok_or(Why::TooLarge { asked, most })?;
    match in_use.checked_add(granted) {
        Some(sum) if sum <= limit => Ok(()),
        _ => Err(Why::InUse { granted, in_use, limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Pressure::{Critical, High, Low, Moderate};

    #[test]
    fn boundaries() {
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
            for (tenths, level, clean) in cases {
                let (used, budget) = (Bytes(tenths * scale), Bytes(1000 * scale));
                assert_eq!(pressure(used, budget), level, "{tenths} of 1000, scale {scale}");
                assert_eq!(should_clean(used, budget), clean, "{tenths} of 1000, scale {scale}");
            }
        }
    }

    #[test]
    fn one_byte_decides() {
        // 60 % of 999 is 599.4: 599 is below, 600 is not.
        assert_eq!([599, 600].map(|used| pressure(Bytes(used), Bytes(999))), [Low, Moderate]);
        // 85 % of 10^18, minus one.
        let budget = Bytes(1_000_000_000_000_000_000);
        assert!(!should_clean(Bytes(849_999_999_999_999_999), budget));
        assert!(should_clean(Bytes(850_000_000_000_000_000), budget));
        assert_eq!(pressure(Bytes(u64::MAX), Bytes(u64::MAX)), Critical);
    }

    #[test]
    fn no_budget_is_critical() {
        assert_eq!(pressure(Bytes::ZERO, Bytes::ZERO), Critical);
    }

    #[test]
    fn cleaning_keeps_what_the_target_leaves_room_for() {
        let keep = |held, idle| keep_idle(Bytes(held), Bytes(idle), Bytes(1000));
        assert_eq!(keep(900, 400), Bytes(250));
        assert_eq!(keep(900, 100), Bytes::ZERO);
        assert_eq!(keep(700, 100), Bytes(100));
    }

    #[test]
    fn what_fits_and_why_not() {
        let ask = |granted, in_use| fits(Bytes(250), granted, Bytes(in_use), Bytes(1000), Bytes(1000));
        assert_eq!(ask(Some(Bytes(256)), 744), Ok(()));
        let why = ask(Some(Bytes(256)), 745).unwrap_err();
        assert_eq!(why, Why::InUse { granted: Bytes(256), in_use: Bytes(745), limit: Bytes(1000) });
        assert!(why.to_string().contains("745 B of 1000 B"));
        assert_eq!(ask(None, 0), Err(Why::TooLarge { asked: Bytes(250), most: Bytes(1000) }));
        assert_eq!(
            ask(Some(Bytes(u64::MAX)), 5),
            Err(Why::TooLarge { asked: Bytes(250), most: Bytes(1000) })
        );
    }
}
