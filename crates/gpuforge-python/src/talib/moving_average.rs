//! `MA`: the moving average that TA-Lib's `MA_Type` names, as a selection.

use gpuforge::indicators::{
    catalogue::{Param, int},
    select::{self, Selection, Selector},
};

/// Moving averages by TA-Lib's `MA_Type`, with `{n}` for the period. With period 1 all are the identity.
const MOVING_AVERAGES: [&str; 16] = [
    "sma({n})",
    "ema({n})",
    "wma({n})",
    "dema({n})",
    "tema({n})",
    "trima({n})",
    "kama({n})",
    "mama(0.5, 0.05).mama",
    "t3({n}, 0.7)",
    "hma({n})",
    "close",
    "sma({n})",
    "zlema({n})",
    "rma({n})",
    "vidya({n}, {m})",
    "alma({n})",
];
/// Parameters of `MA`.
pub(super) const MA_PARAMS: [Param; 2] = [int("period", 30, 1, 100_000), int("ma_type", 0, 0, 15)];
/// Description of `MA`.
pub(super) const MA_DOC: &str = "The moving average that `matype` names.";

/// A moving average by TA-Lib's `MA_Type`.
pub(super) fn moving_average(n: usize, kind: usize) -> Selection {
    let text = MOVING_AVERAGES.get(kind).filter(|_| n > 1).copied().unwrap_or("close");
    let text = text.replace("{n}", &n.to_string()).replace("{m}", &((3 * n + 2) / 4).to_string());
    select::plan(&Selector::new().select(&text).unwrap_or_default())
}
