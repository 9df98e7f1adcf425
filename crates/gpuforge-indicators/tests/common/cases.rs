//! Test cases of a row: shapes of series, lengths around its lookback, sampled parameters.

use std::sync::{Arc, LazyLock};

use gpuforge_indicators::{
    catalogue::{Indicator, Param},
    select::Instance,
};

use super::{Bars, Random, flat, gaps, halt, high, monotone, no_volume, uneven, walk};

/// One comparison.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bars: Arc<Bars>,
    pub(crate) params: Vec<f64>,
}

/// The longest series, for drift.
static LONG: LazyLock<Arc<Bars>> = LazyLock::new(|| Arc::new(walk(100_000, 1)));

/// A kind of series: its name, and so many bars of it.
type Shape = (&'static str, fn(usize) -> Bars);

/// Series of every kind.
const SHAPES: [Shape; 10] = [
    ("a walk", |n| walk(n, 3)),
    ("a flat series", flat),
    ("a rising series", |n| monotone(n, 0.25)),
    ("a falling series", |n| monotone(n, -0.25)),
    ("an uneven rise", |n| uneven(n, 0.25)),
    ("an uneven fall", |n| uneven(n, -0.25)),
    ("gaps", gaps),
    ("a high level", high),
    ("no volume", no_volume),
    ("a halt", halt),
];

/// In a trading halt its value is a quotient of rounding residues, here as in TA-Lib.
const UNDEFINED_IN_HALT: [&str; 1] = ["wavetrend"];

/// Series that a row with these parameters is tried with.
fn shapes(row: &Indicator, params: &[f64]) -> Vec<Shape> {
    // `MAType` 7 is MAMA: the phase of a value that is constant up to rounding.
    let mama = |(p, x): (&Param, &f64)| p.name.ends_with("_type") && *x == 7.0;
    let restless = UNDEFINED_IN_HALT.contains(&row.name) || row.params.iter().zip(params).any(mama);
    // On a straight line a difference of two averages is pure rounding; the default types are exact on it.
    let straight = params == row.defaults();
    let fits = |name: &str| match name {
        "a halt" => !restless,
        "a rising series" | "a falling series" => straight,
        _ => true,
    };
    SHAPES.into_iter().filter(|(name, _)| fits(name)).collect()
}

/// Bars of a shape; and of the walks for parameters that were drawn.
const SHAPE: usize = 600;
const DRAWN: usize = 1500;

/// Sampled parameters of a row: the defaults, some with small windows, some from the full range.
pub(crate) fn draws(row: &Indicator, small: usize, wide: usize) -> Vec<Vec<f64>> {
    let mut r = Random(row.name.bytes().fold(7, |h: u64, b| h.wrapping_mul(31).wrapping_add(u64::from(b))));
    let mut sets = vec![row.defaults()];
    for draw in 0..if row.params.is_empty() { 0 } else { small + wide } {
        let pick = |p: &Param| {
            let x = if draw < small { near(p, r.next()) } else { far(p, r.next()) };
            let rounded = match p {
                _ if p.even => (x / 2.0).round() * 2.0,
                _ if p.integer => x.round(),
                _ => (x * 100.0).round() / 100.0,
            };
            rounded.clamp(p.min, p.max)
        };
        let mut params: Vec<f64> = row.params.iter().map(pick).collect();
        // TA-Lib rejects bounds in the wrong order.
        if let ("mavp", [min, max, ..]) = (row.name, params.as_mut_slice()) {
            (*min, *max) = (min.min(*max), min.max(*max));
        }
        sets.push(params);
    }
    sets
}

/// Near the default, with small windows: a test of some hundred bars must reach past them.
fn near(p: &Param, at: f64) -> f64 {
    let (lo, hi) = (p.min, p.max.min(p.min.max(2.0) + 38.0).min(p.default.abs().max(1.0) * 3.0 + 2.0));
    lo + at * (hi.max(lo) - lo)
}

/// Log-uniform over the range; windows of at most 400 bars, so that there are values.
fn far(p: &Param, at: f64) -> f64 {
    let most = p.max.min(if p.integer { 400.0_f64.max(p.min) } else { 1e6 });
    if p.min < 0.0 {
        return p.min.max(-1e6) + at * (most - p.min.max(-1e6));
    }
    let (lo, hi) = (p.min.max(0.01), most.max(0.01));
    lo * (hi / lo).powf(at)
}

/// All test cases of a row.
pub(crate) fn cases(row: &'static Indicator) -> Vec<Case> {
    let mut cases = Vec::new();
    for (draw, params) in draws(row, 4, 3).into_iter().enumerate() {
        let first = Instance::with(row, &params).lookback();
        let mut case =
            |name: String, bars: Arc<Bars>| cases.push(Case { name, bars, params: params.clone() });
        let lengths = |from: usize| [from.saturating_sub(1), from, from + 1, from + 2];
        if draw == 0 {
            case("a walk of 100000".into(), LONG.clone());
            for (name, shape) in shapes(row, &params) {
                case(format!("{name} of {SHAPE}"), Arc::new(shape(SHAPE)));
                for n in lengths(first).into_iter().chain([0, 1, 2, 3]) {
                    case(format!("{name} of {n}"), Arc::new(shape(n)));
                }
            }
            continue;
        }
        // Beyond the first value of the longest window.
        let n = DRAWN + first;
        case(format!("a walk of {n}"), Arc::new(walk(n, 3 + draw as u64)));
        for (name, shape) in shapes(row, &params) {
            case(format!("{name} of {SHAPE}"), Arc::new(shape(SHAPE)));
        }
        for n in lengths(first) {
            case(format!("a walk of {n}"), Arc::new(walk(n, 11)));
        }
    }
    cases
}
