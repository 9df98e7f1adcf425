//! In which form is a value held? Devices compute in f32, and what matters is often the small difference of large prices,
//! or whether two of them are equal. So columns hold prices less a level (the series' first close), in whole ticks where
//! the series has ticks: a value is `held * tick^unit + weight * level`. Unit and weight are known before anything is
//! computed: an average of prices has weight 1 and unit 1, a difference 0 and 1, a ratio of differences 0 and 0. What
//! cannot be computed from the rest alone (a product of prices, a logarithm) reads the value in full.

use gpuforge_indicators::graph::{BinaryOp, Field, NodeOp, UnaryOp, ValueId};

/// Weights closer than this are equal: sums of weights are rounded.
const SAME: f64 = 1e-9;

/// The form of a node's values, and whether it needs its inputs in full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// How many times the level is missing.
    pub weight: f64,
    /// Which power of the tick it is counted in.
    pub unit: i8,
    /// The same of a second output.
    pub second: i8,
    /// A sum of prices with simple fractions: two of them that differ do so by more than rounding.
    pub lattice: bool,
    /// Are inputs read in full?
    pub full: bool,
}

/// A number without level and unit.
pub const PLAIN: Form = Form { weight: 0.0, unit: 0, second: 0, lattice: false, full: false };
const FULL: Form = Form { full: true, ..PLAIN };
const FLAG: Form = Form { lattice: true, ..PLAIN };

impl Form {
    /// Must something be done to it before it can be read in full?
    pub fn is_plain(self) -> bool {
        self.weight == 0.0 && self.unit == 0 && self.second == 0
    }

    /// The unit of an output.
    pub fn unit_of(self, port: u8) -> i8 {
        if port == 0 { self.unit } else { self.second }
    }

    fn weighs(self, weight: f64) -> Form {
        // What is left of weights that cancel is nothing.
        Form { weight: if weight.abs() <= SAME { 0.0 } else { weight }, full: false, ..self }
    }

    fn counts(self, unit: i8) -> Form {
        Form { unit, second: unit, ..self }
    }

    fn off_lattice(self) -> Form {
        Form { lattice: false, ..self }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.abs().max(b.abs()).max(1.0)
}

/// The form that two values share, if they do; nothing is nothing in every unit.
fn alike(a: (Form, Option<f64>), b: (Form, Option<f64>)) -> Option<Form> {
    let ((fa, na), (fb, nb)) = (a, b);
    let lattice = fa.lattice && fb.lattice;
    match (na, nb) {
        (_, Some(0.0)) if fa.weight == 0.0 => Some(Form { lattice, ..fa }),
        (Some(0.0), _) if fb.weight == 0.0 => Some(Form { lattice, ..fb }),
        _ => (fa.unit == fb.unit && same(fa.weight, fb.weight)).then_some(Form { lattice, ..fa }),
    }
}

/// The form of a primitive's values by those of its inputs; `number` is the value of a constant.
pub fn of(prim: &NodeOp, form: impl Fn(ValueId) -> Form, number: impl Fn(ValueId) -> Option<f64>) -> Form {
    let own = |v: ValueId| Form { full: false, ..form(v) }.counts(form(v).unit_of(v.port));
    let both = |v: ValueId| (own(v), number(v));
    let shared = |a: ValueId, b: ValueId| alike(both(a), both(b));
    let level = |v: ValueId| own(v).weight != 0.0;
    match prim {
        NodeOp::Input(Field::Open | Field::High | Field::Low | Field::Close) => FLAG.weighs(1.0).counts(1),
        NodeOp::Input(_) | NodeOp::WholeSeries { .. } => PLAIN,
        NodeOp::Const(_) => FLAG,
        NodeOp::Unary(UnaryOp::Neg, a) => own(*a).weighs(-own(*a).weight),
        NodeOp::Unary(UnaryOp::Abs, a) if !level(*a) => own(*a),
        NodeOp::Unary(UnaryOp::Sqrt, a) if !level(*a) && own(*a).unit % 2 == 0 => {
            own(*a).counts(own(*a).unit / 2).off_lattice()
        }
        NodeOp::Unary(UnaryOp::Sign, a) if !level(*a) => FLAG,
        NodeOp::Binary(f @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
            let ((fa, na), (fb, nb)) = (both(*a), both(*b));
            let sign = if *f == BinaryOp::Add { 1.0 } else { -1.0 };
            if fa.unit == fb.unit || nb == Some(0.0) {
                Form { lattice: fa.lattice && fb.lattice, ..fa }.weighs(fa.weight + sign * fb.weight)
            } else if na == Some(0.0) {
                Form { lattice: fa.lattice && fb.lattice, ..fb }.weighs(sign * fb.weight)
            } else {
                FULL
            }
        }
        NodeOp::Binary(BinaryOp::Mul, a, b) => product(both(*a), both(*b)),
        NodeOp::Binary(BinaryOp::Div | BinaryOp::Div0, a, b) => quotient(both(*a), both(*b)),
        NodeOp::Binary(BinaryOp::Min | BinaryOp::Max, a, b) | NodeOp::FillWarmup(a, b) => {
            shared(*a, *b).unwrap_or(FULL)
        }
        NodeOp::Binary(
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne,
            a,
            b,
        ) => Form { full: shared(*a, *b).is_none(), ..FLAG },
        NodeOp::Binary(BinaryOp::And | BinaryOp::Or, a, b) => Form { full: level(*a) || level(*b), ..FLAG },
        NodeOp::Select(c, a, b) if !level(*c) => shared(*a, *b).unwrap_or(FULL),
        _ => loops(prim, own, shared),
    }
}

/// Of kernels with a loop.
fn loops(
    prim: &NodeOp,
    own: impl Fn(ValueId) -> Form,
    shared: impl Fn(ValueId, ValueId) -> Option<Form>,
) -> Form {
    let level = |v: ValueId| own(v).weight != 0.0;
    match prim {
        NodeOp::Shift(a, _)
        | NodeOp::RollingMinMax { a, .. }
        | NodeOp::RollingOrderStatistic { a, .. }
        | NodeOp::CumMinMax { a, .. } => own(*a),
        NodeOp::Ema { a, .. } | NodeOp::Wilder { a, .. } => own(*a).off_lattice(),
        NodeOp::RollingSum(a, n) | NodeOp::RollingSumFrom { a, n, .. } => {
            own(*a).weighs(own(*a).weight * *n as f64)
        }
        NodeOp::LinearWeightedSum(a, n) => own(*a).weighs(own(*a).weight * (n * (n + 1) / 2) as f64),
        NodeOp::Fir(a, weights) => {
            let sum: f64 = weights.iter().map(|w| w.get()).sum();
            own(*a).weighs(own(*a).weight * sum).off_lattice()
        }
        NodeOp::CumSum(a) | NodeOp::PartialRollingSum(a, _) if !level(*a) => own(*a),
        NodeOp::LinearRecurrence { a, b } if own(*a).is_plain() && !level(*b) => own(*b).off_lattice(),
        NodeOp::AdaptiveEma { a, k, first } if own(*k).is_plain() => {
            shared(*a, *first).map_or(FULL, Form::off_lattice)
        }
        NodeOp::RollingArgMinMax { .. } | NodeOp::RollingRank { .. } => FLAG,
        NodeOp::RollingVariance(a, _) => PLAIN.counts(2 * own(*a).unit),
        NodeOp::RollingCentralMoment(a, _, power) => {
            let unit = own(*a).unit;
            let second = i8::try_from(*power).unwrap_or(2) * unit;
            Form { unit: 2 * unit, second, ..PLAIN }
        }
        NodeOp::RollingCoMoment(a, b, _) => PLAIN.counts(own(*a).unit + own(*b).unit),
        NodeOp::RollingMeanDeviation(a, _) | NodeOp::RollingTimeMoment(a, _) => PLAIN.counts(own(*a).unit),
        NodeOp::StateMachine { def, params, inputs } => match (def.name, inputs.as_slice()) {
            ("running ramp sum", [a]) => {
                let n = params.first().map_or(0.0, |n| n.get());
                own(*a).weighs(own(*a).weight * (n * (n + 1.0) / 2.0))
            }
            ("projection", [a, b]) => shared(*a, *b).map_or(FULL, Form::off_lattice),
            ("volume profile", [a, b]) if own(*b).is_plain() => own(*a).off_lattice(),
            ("median deviation", [a]) => PLAIN.counts(own(*a).unit),
            ("spearman", _) => PLAIN,
            _ => FULL,
        },
        _ => FULL,
    }
}

fn product((fa, na): (Form, Option<f64>), (fb, nb): (Form, Option<f64>)) -> Form {
    match (na, nb) {
        (_, Some(k)) => fa.weighs(fa.weight * k),
        (Some(k), _) => fb.weighs(k * fb.weight),
        _ if fa.weight != 0.0 || fb.weight != 0.0 => FULL,
        _ => Form { lattice: fa.lattice && fb.lattice, ..PLAIN.counts(fa.unit + fb.unit) },
    }
}

fn quotient((fa, _): (Form, Option<f64>), (fb, nb): (Form, Option<f64>)) -> Form {
    match nb {
        Some(k) if k != 0.0 => fa.weighs(fa.weight / k),
        _ if fa.weight != 0.0 || fb.weight != 0.0 || fa.unit < fb.unit => FULL,
        _ => PLAIN.counts(fa.unit - fb.unit),
    }
}

/// Sizes of ticks that are looked for, the coarsest first.
const TICKS: [f64; 10] = [1.0, 0.5, 0.25, 0.125, 0.1, 0.05, 0.01, 0.005, 0.001, 0.0001];
/// Ticks from the level that are whole numbers in f32, with room for sums.
const MOST_TICKS: f64 = (1u32 << 20) as f64;

/// What is taken off a series' prices, and what they are counted in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The level, as a device has it.
    pub level: f64,
    /// The tick; `None` where prices are no multiples of one.
    pub tick: Option<f64>,
}

impl Scale {
    /// Of some columns of prices.
    pub fn of(columns: &[&[f64]]) -> Scale {
        let level = columns.iter().find_map(|c| c.first()).map_or(0.0, |x| f64::from(*x as f32));
        let fits = |tick: &f64| {
            // A multiple of the tick may be off by rounding of decimals only.
            let whole = |x: &f64| {
                let n = x / tick;
                (n - n.round()).abs() <= 1e-7 + 1e-12 * n.abs() && ((x - level) / tick).abs() < MOST_TICKS
            };
            columns.iter().all(|c| c.iter().all(whole))
        };
        let tick = TICKS.into_iter().find(fits);
        // The level is a price too, and so a multiple of the tick but for its own rounding.
        let level = tick.map_or(level, |t| (level / t).round() * t);
        Scale { level, tick }
    }

    /// A price as it is held.
    pub fn held(self, x: f64) -> f64 {
        match self.tick {
            Some(tick) => ((x - self.level) / tick).round(),
            None => x - self.level,
        }
    }

    /// A value from what is held.
    pub fn value(self, held: f64, form: Form, port: u8) -> f64 {
        let tick = self.tick.unwrap_or(1.0);
        held * tick.powi(i32::from(form.unit_of(port))) + form.weight * self.level
    }

    /// Level and tick for the device; a tick below 0 says that nothing is on one.
    pub fn words(self) -> [u32; 2] {
        let tick = self.tick.unwrap_or(-1.0) as f32;
        [(self.level as f32).to_bits(), tick.to_bits()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_and_prices_come_back() {
        let cents = [100.37, 99.99, 101.0, 0.01];
        let scale = Scale::of(&[&cents]);
        assert_eq!(scale.tick, Some(0.01));
        let price = FLAG.weighs(1.0).counts(1);
        for x in cents {
            assert!((scale.value(scale.held(x), price, 0) - x).abs() < 1e-12);
            assert_eq!(scale.held(x), scale.held(x).round());
        }
        assert_eq!(Scale::of(&[&[1.0, 2.0, 7.0]]).tick, Some(1.0));
        assert_eq!(Scale::of(&[&[1.0 / 3.0, 2.0]]).tick, None);
        // Too far from the level to be counted exactly.
        assert_eq!(Scale::of(&[&[1.0, 2e7]]).tick, None);
    }
}
