//! Unstable periods of TA-Lib: a recursive function outputs NaN for so many bars after its first value.
//!
//! It only delays the first value, also of functions that contain exactly one such function. Where a recursive function takes
//! another's output, TA-Lib starts the outer one later with different values: that is not implemented and raises. The table was
//! found by trying every function with every setting (`tests/python/test_talib_settings.py` repeats it).

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::{
    exceptions::{PyKeyError, PyNotImplementedError},
    prelude::*,
};

use super::BoundFunction;

/// Functions with an unstable period of their own.
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
/// Maximum over all functions: a fast path if all are 0.
static MAX_PERIOD: AtomicU32 = AtomicU32::new(0);

/// Effect of a nested function's unstable period.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Values start later.
    StartsLater,
    /// Values change.
    ChangesValues,
}
use Effect::{ChangesValues, StartsLater};

/// Functions that contain another one, whatever their parameters.
const NESTED: [(&str, &str, Effect); 17] = [
    ("ADXR", "ADX", StartsLater),
    ("ERI", "EMA", StartsLater),
    ("ZLEMA", "EMA", StartsLater),
    ("CVI", "EMA", StartsLater),
    ("ADOSC", "EMA", StartsLater),
    ("EFI", "EMA", StartsLater),
    ("KC", "ATR", ChangesValues),
    ("KC", "EMA", ChangesValues),
    ("SUPERTREND", "ATR", ChangesValues),
    ("DEMA", "EMA", ChangesValues),
    ("TEMA", "EMA", ChangesValues),
    ("TRIX", "EMA", ChangesValues),
    ("TSI", "EMA", ChangesValues),
    ("MASSI", "EMA", ChangesValues),
    ("MACD", "EMA", ChangesValues),
    ("MACDFIX", "EMA", ChangesValues),
    ("SMI", "EMA", ChangesValues),
];

/// Functions with a moving-average type parameter: the parameter that is its period (none if it is never 1), its own default
/// type, and the effect of that average's unstable period.
const BY_MA_TYPE: [(&str, Option<usize>, usize, Effect); 11] = [
    ("MA", Some(0), 0, StartsLater),
    ("MAVP", Some(1), 0, StartsLater),
    ("APO", None, 1, StartsLater),
    ("PPO", None, 1, StartsLater),
    ("PVO", None, 1, StartsLater),
    ("BBANDS", Some(0), 0, StartsLater),
    ("STOCHF", Some(1), 0, StartsLater),
    ("STOCHRSI", Some(2), 0, StartsLater),
    ("STOCH", None, 0, ChangesValues),
    ("KDJ", None, 13, ChangesValues),
    ("MACDEXT", None, 0, ChangesValues),
];

/// Recursive moving averages, and their setting.
const RECURSIVE_MA: [(usize, &str, Effect); 8] = [
    (1, "EMA", StartsLater),
    (3, "EMA", ChangesValues),
    (4, "EMA", ChangesValues),
    (6, "KAMA", StartsLater),
    (7, "MAMA", StartsLater),
    (8, "T3", StartsLater),
    (12, "EMA", StartsLater),
    (13, "RMA", StartsLater),
];
/// `MA_Type.DEFAULT`: the function's own default average.
const MA_TYPE_DEFAULT: usize = 11;

fn period(setting: &str) -> u32 {
    let at = SETTINGS.iter().position(|name| *name == setting);
    at.and_then(|at| PERIODS.get(at)).map_or(0, |period| period.load(Ordering::Relaxed))
}

/// Unstable period of a function with these parameters: bars beyond its lookback.
pub(super) fn extra_bars(bound: &BoundFunction, params: &[f64]) -> PyResult<usize> {
    if MAX_PERIOD.load(Ordering::Relaxed) == 0 {
        return Ok(0);
    }
    let name = bound.function.name;
    let mut bars = period(name);
    let mut nested = |setting: &str, effect: Effect| match (period(setting), effect) {
        (0, _) => Ok(()),
        (more, StartsLater) => {
            bars += more;
            Ok(())
        }
        (more, ChangesValues) => Err(PyNotImplementedError::new_err(format!(
            "{name} with an unstable period of {more} for {setting}, which it contains\n  hint: \
             set_unstable_period({setting:?}, 0) before it is called"
        ))),
    };
    for (of, setting, effect) in &NESTED {
        if *of == name {
            nested(setting, *effect)?;
        }
    }
    let Some((_, at, own, effect)) = BY_MA_TYPE.iter().find(|(of, ..)| *of == name) else {
        return Ok(bars as usize);
    };
    let smooths = at.and_then(|at| params.get(at)).is_none_or(|n| *n > 1.0);
    let mut kinds: Vec<usize> = super::words(bound.function.params)
        .zip(params)
        .filter(|((name, _), _)| name.ends_with("matype"))
        .map(|(_, kind)| if *kind as usize == MA_TYPE_DEFAULT { *own } else { *kind as usize })
        .collect();
    kinds.dedup();
    for (kind, setting, of_mean) in RECURSIVE_MA {
        if smooths && kinds.contains(&kind) {
            nested(setting, if *effect == StartsLater { of_mean } else { ChangesValues })?;
        }
    }
    if name == "STOCHRSI" {
        // A recursive average starts with other values if its input starts later.
        let is_recursive = smooths && RECURSIVE_MA.iter().any(|(kind, ..)| kinds.contains(kind));
        nested("RSI", if is_recursive { ChangesValues } else { StartsLater })?;
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
    MAX_PERIOD.store(most.unwrap_or(0), Ordering::Relaxed);
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
