//! Unstable periods of TA-Lib: a recursive function outputs NaN for so many bars after its first value.
//!
//! Values do not depend on it, they only begin later, in all that is one such function. Where one is computed of another's
//! values, TA-Lib begins the second later, with other values: that is not here and says so. Which is which was found by trying
//! every function with every setting (`tests/python/test_talib_settings.py` does it again).

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::{
    exceptions::{PyKeyError, PyNotImplementedError},
    prelude::*,
};

use super::BoundFunction;

/// Functions that have a setting of their own.
const SETTINGS: [&str; 23] = [
    "ADX",
    "ATR",
    "CMO",
    "DX",
    "EMA",
    "HT_DCPERIOD",
    "HT_DCPHASE",
    "HT_PHASOR",
    "HT_SINE",
    "HT_TRENDLINE",
    "HT_TRENDMODE",
    "KAMA",
    "MAMA",
    "MINUS_DI",
    "MINUS_DM",
    "NATR",
    "PLUS_DI",
    "PLUS_DM",
    "RSI",
    "T3",
    "RMA",
    "HA",
    "RVI",
];
static PERIODS: [AtomicU32; SETTINGS.len()] = [const { AtomicU32::new(0) }; SETTINGS.len()];
/// Maximum over all functions: nothing is looked up where all are 0.
static MOST: AtomicU32 = AtomicU32::new(0);

/// What a setting does to a function that has it inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Values begin later.
    Later,
    /// Values are others.
    Others,
}
use Effect::{Later, Others};

/// Functions that have another one inside, whatever their parameters.
const INSIDE: [(&str, &str, Effect); 17] = [
    ("ADXR", "ADX", Later),
    ("ERI", "EMA", Later),
    ("ZLEMA", "EMA", Later),
    ("CVI", "EMA", Later),
    ("ADOSC", "EMA", Later),
    ("EFI", "EMA", Later),
    ("KC", "ATR", Others),
    ("KC", "EMA", Others),
    ("SUPERTREND", "ATR", Others),
    ("DEMA", "EMA", Others),
    ("TEMA", "EMA", Others),
    ("TRIX", "EMA", Others),
    ("TSI", "EMA", Others),
    ("MASSI", "EMA", Others),
    ("MACD", "EMA", Others),
    ("MACDFIX", "EMA", Others),
    ("SMI", "EMA", Others),
];

/// Functions whose means are named by a parameter: which parameter is the mean's period (none where it is never 1), what
/// kind their own default is, and what a setting of the mean does.
const MEANS: [(&str, Option<usize>, usize, Effect); 11] = [
    ("MA", Some(0), 0, Later),
    ("MAVP", Some(1), 0, Later),
    ("APO", None, 1, Later),
    ("PPO", None, 1, Later),
    ("PVO", None, 1, Later),
    ("BBANDS", Some(0), 0, Later),
    ("STOCHF", Some(1), 0, Later),
    ("STOCHRSI", Some(2), 0, Later),
    ("STOCH", None, 0, Others),
    ("KDJ", None, 13, Others),
    ("MACDEXT", None, 0, Others),
];

/// Kinds of means that remember all bars: which setting is theirs.
const REMEMBER: [(usize, &str, Effect); 8] = [
    (1, "EMA", Later),
    (3, "EMA", Others),
    (4, "EMA", Others),
    (6, "KAMA", Later),
    (7, "MAMA", Later),
    (8, "T3", Later),
    (12, "EMA", Later),
    (13, "RMA", Later),
];
/// The mean that a function has by itself.
const OWN_DEFAULT: usize = 11;

fn period(setting: &str) -> u32 {
    let at = SETTINGS.iter().position(|name| *name == setting);
    at.and_then(|at| PERIODS.get(at)).map_or(0, |period| period.load(Ordering::Relaxed))
}

/// Bars that a function with these parameters waits for, beyond those that it needs.
pub(super) fn later(known: &BoundFunction, params: &[f64]) -> PyResult<usize> {
    if MOST.load(Ordering::Relaxed) == 0 {
        return Ok(0);
    }
    let name = known.function.name;
    let mut bars = period(name);
    let mut inside = |setting: &str, effect: Effect| match (period(setting), effect) {
        (0, _) => Ok(()),
        (more, Later) => {
            bars += more;
            Ok(())
        }
        (more, Others) => Err(PyNotImplementedError::new_err(format!(
            "{name} with an unstable period of {more} for {setting}, which it is computed of\n  hint: \
             set_unstable_period({setting:?}, 0) before it is called"
        ))),
    };
    for (of, setting, effect) in &INSIDE {
        if *of == name {
            inside(setting, *effect)?;
        }
    }
    let Some((_, at, own, effect)) = MEANS.iter().find(|(of, ..)| *of == name) else {
        return Ok(bars as usize);
    };
    let smooths = at.and_then(|at| params.get(at)).is_none_or(|n| *n > 1.0);
    let mut kinds: Vec<usize> = super::words(known.function.params)
        .zip(params)
        .filter(|((name, _), _)| name.ends_with("matype"))
        .map(|(_, kind)| if *kind as usize == OWN_DEFAULT { *own } else { *kind as usize })
        .collect();
    kinds.dedup();
    for (kind, setting, of_mean) in REMEMBER {
        if smooths && kinds.contains(&kind) {
            inside(setting, if *effect == Later { of_mean } else { Others })?;
        }
    }
    if name == "STOCHRSI" {
        // A mean that remembers begins with other values where those begin later.
        let remembers = smooths && REMEMBER.iter().any(|(kind, ..)| kinds.contains(kind));
        inside("RSI", if remembers { Others } else { Later })?;
    }
    Ok(bars as usize)
}

/// Sets the unstable period of a function, or of all.
#[pyfunction]
pub(crate) fn talib_set_unstable(name: &str, bars: u32) -> PyResult<()> {
    if name != "ALL" && !SETTINGS.contains(&name) {
        return Err(PyKeyError::new_err(name.to_owned()));
    }
    for (setting, slot) in SETTINGS.iter().zip(&PERIODS) {
        if name == "ALL" || name == *setting {
            slot.store(bars, Ordering::Relaxed);
        }
    }
    let most = PERIODS.iter().map(|period| period.load(Ordering::Relaxed)).max();
    MOST.store(most.unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// The unstable period of a function.
#[pyfunction]
pub(crate) fn talib_unstable(name: &str) -> PyResult<u32> {
    match name == "ALL" || SETTINGS.contains(&name) {
        true => Ok(period(name)),
        false => Err(PyKeyError::new_err(name.to_owned())),
    }
}
