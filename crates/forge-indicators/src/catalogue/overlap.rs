//! Moving averages and filters.

use super::{Group, Indicator, whole};

const BASE: Indicator = Indicator { group: Group::Overlap, ..Indicator::BASE };

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "sma",
        aliases: &["SMA"],
        params: &[whole("period", 30, 1, 100_000)],
        doc: "Mean of the last `period` values.",
        build: |a| vec![a.source().sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "ema",
        aliases: &["EMA"],
        params: &[whole("period", 30, 2, 100_000)],
        doc: "Exponential mean: each value moves it by 2/(period+1) of the distance; it begins with the mean of the first `period` values.",
        build: |a| vec![a.source().ema(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "wma",
        aliases: &["WMA"],
        params: &[whole("period", 30, 1, 100_000)],
        doc: "Mean of the last `period` values with weights 1 to `period`, the newest the heaviest.",
        build: |a| vec![a.source().wma(a.n(0))],
        ..BASE
    },
];
