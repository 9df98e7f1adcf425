//! Math operators and transforms of TA-Lib: arithmetic, rolling min/max/sum, trigonometry, logarithms, rounding.

use super::{Group, HIGH_LOW, Indicator, IndicatorKind, Param, int};
use crate::graph::{Expr, GraphBuilder};

const BASE: Indicator = Indicator { group: Group::Math, kind: IndicatorKind::Primitive, ..Indicator::BASE };
/// Binary operators: two sources, by default the high and the low.
const PAIR: Indicator = Indicator { inputs: &HIGH_LOW, free_pair: true, ..BASE };
const WINDOW: &[Param] = &[int("period", 30, 2, 100_000)];

/// Bar index, counted from 0.
fn index(bars: GraphBuilder<'_>) -> Expr<'_> {
    bars.constant(1.0).cumsum() - 1.0
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "add",
        aliases: &["ADD"],
        doc: "Sum of two sources.",
        build: |a| {
            let [x, y] = a.sources_or(HIGH_LOW);
            vec![x + y]
        },
        ..PAIR
    },
    Indicator {
        name: "sub",
        aliases: &["SUB"],
        doc: "Difference of two sources: the first minus the second.",
        build: |a| {
            let [x, y] = a.sources_or(HIGH_LOW);
            vec![x - y]
        },
        ..PAIR
    },
    Indicator {
        name: "mult",
        aliases: &["MULT"],
        doc: "Product of two sources.",
        build: |a| {
            let [x, y] = a.sources_or(HIGH_LOW);
            vec![x * y]
        },
        ..PAIR
    },
    Indicator {
        name: "div",
        aliases: &["DIV"],
        doc: "Quotient of two sources: the first over the second; a division by 0 is infinite, or NaN where both are 0.",
        build: |a| {
            let [x, y] = a.sources_or(HIGH_LOW);
            vec![x / y]
        },
        ..PAIR
    },
    Indicator {
        name: "max",
        aliases: &["MAX"],
        params: WINDOW,
        doc: "Max of the last `period` values.",
        build: |a| vec![a.source().highest(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "min",
        aliases: &["MIN"],
        params: WINDOW,
        doc: "Min of the last `period` values.",
        build: |a| vec![a.source().lowest(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "maxindex",
        aliases: &["MAXINDEX"],
        params: WINDOW,
        doc: "Bar index, counted from 0, of the max of the last `period` values; the most recent of equals.",
        build: |a| vec![index(a.bars) - a.source().bars_since_highest(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "minindex",
        aliases: &["MININDEX"],
        params: WINDOW,
        doc: "Bar index, counted from 0, of the min of the last `period` values; the most recent of equals.",
        build: |a| vec![index(a.bars) - a.source().bars_since_lowest(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "minmax",
        aliases: &["MINMAX"],
        params: WINDOW,
        outputs: &["min", "max"],
        doc: "Min and max of the last `period` values.",
        build: |a| vec![a.source().lowest(a.n(0)), a.source().highest(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "minmaxindex",
        aliases: &["MINMAXINDEX"],
        params: WINDOW,
        outputs: &["min", "max"],
        doc: "Bar indices, counted from 0, of the min and the max of the last `period` values; the most recent of \
              equals.",
        build: |a| {
            let (x, n, bar) = (a.source(), a.n(0), index(a.bars));
            vec![bar - x.bars_since_lowest(n), bar - x.bars_since_highest(n)]
        },
        ..BASE
    },
    Indicator {
        name: "sum",
        aliases: &["SUM"],
        params: WINDOW,
        doc: "Rolling sum of the last `period` values.",
        build: |a| vec![a.source().sum(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "cumsum",
        aliases: &["CUMSUM"],
        doc: "Cumulative sum.",
        build: |a| vec![a.source().cumsum()],
        ..BASE
    },
    Indicator {
        name: "acos",
        aliases: &["ACOS"],
        doc: "Arc cosine in radians; NaN outside -1 to 1.",
        build: |a| vec![a.source().acos()],
        ..BASE
    },
    Indicator {
        name: "asin",
        aliases: &["ASIN"],
        doc: "Arc sine in radians; NaN outside -1 to 1.",
        build: |a| vec![a.source().asin()],
        ..BASE
    },
    Indicator {
        name: "atan",
        aliases: &["ATAN"],
        doc: "Arc tangent in radians.",
        build: |a| vec![a.source().atan()],
        ..BASE
    },
    Indicator {
        name: "ceil",
        aliases: &["CEIL"],
        doc: "Ceiling: the smallest integer not less than the value.",
        build: |a| vec![a.source().ceil()],
        ..BASE
    },
    Indicator {
        name: "cos",
        aliases: &["COS"],
        doc: "Cosine of an angle in radians.",
        build: |a| vec![a.source().cos()],
        ..BASE
    },
    Indicator {
        name: "cosh",
        aliases: &["COSH"],
        doc: "Hyperbolic cosine; infinite on overflow.",
        build: |a| vec![a.source().cosh()],
        ..BASE
    },
    Indicator {
        name: "exp",
        aliases: &["EXP"],
        doc: "e to the power of the value; infinite on overflow.",
        build: |a| vec![a.source().exp()],
        ..BASE
    },
    Indicator {
        name: "floor",
        aliases: &["FLOOR"],
        doc: "Floor: the largest integer not greater than the value.",
        build: |a| vec![a.source().floor()],
        ..BASE
    },
    Indicator {
        name: "ln",
        aliases: &["LN"],
        doc: "Natural logarithm; minus infinity at 0, NaN below.",
        build: |a| vec![a.source().ln()],
        ..BASE
    },
    Indicator {
        name: "log10",
        aliases: &["LOG10"],
        doc: "Logarithm to base 10; minus infinity at 0, NaN below.",
        build: |a| vec![a.source().log10()],
        ..BASE
    },
    Indicator {
        name: "sin",
        aliases: &["SIN"],
        doc: "Sine of an angle in radians.",
        build: |a| vec![a.source().sin()],
        ..BASE
    },
    Indicator {
        name: "sinh",
        aliases: &["SINH"],
        doc: "Hyperbolic sine; infinite on overflow.",
        build: |a| vec![a.source().sinh()],
        ..BASE
    },
    Indicator {
        name: "sqrt",
        aliases: &["SQRT"],
        doc: "Square root; NaN below 0.",
        build: |a| vec![a.source().sqrt()],
        ..BASE
    },
    Indicator {
        name: "tan",
        aliases: &["TAN"],
        doc: "Tangent of an angle in radians.",
        build: |a| vec![a.source().tan()],
        ..BASE
    },
    Indicator {
        name: "tanh",
        aliases: &["TANH"],
        doc: "Hyperbolic tangent.",
        build: |a| vec![a.source().tanh()],
        ..BASE
    },
];
