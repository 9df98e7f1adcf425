//! Offset/scale encoding: prices in f32 columns relative to an offset and in whole ticks.
//!
//! Devices compute in f32, and indicators depend on small differences of large prices, or on whether two prices are equal.
//! So columns store prices less an offset (the first close of the series), in ticks where the series has a tick size:
//! `value = stored * tick^tick_power + offset_weight * offset`. Both are known statically, per graph node: an average of
//! prices has offset weight 1 and tick power 1, a difference 0 and 1, a ratio of differences 0 and 0. Nodes that cannot be
//! computed from encoded inputs (a product of prices, a logarithm) read them decoded.

use gpuforge_indicators::graph::{BinaryOp, Field, NodeOp, UnaryOp, ValueId};

/// Relative tolerance for equal offset weights: sums of weights are rounded.
const WEIGHT_TOLERANCE: f64 = 1e-9;

/// The encoding of a node's values, and whether it reads its inputs decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Encoding {
    /// Multiples of the offset that the stored value lacks.
    pub offset_weight: f64,
    /// Power of the tick size that the stored value is measured in.
    pub tick_power: i8,
    /// The same for a second output.
    pub second_tick_power: i8,
    /// Is it on a grid (sums of prices with simple fractions), so that unequal values differ by more than rounding?
    pub on_grid: bool,
    /// Are inputs read decoded?
    pub reads_decoded: bool,
}

/// A value stored as it is.
pub const UNENCODED: Encoding = Encoding {
    offset_weight: 0.0,
    tick_power: 0,
    second_tick_power: 0,
    on_grid: false,
    reads_decoded: false,
};
/// Inputs must be decoded first.
const DECODED: Encoding = Encoding { reads_decoded: true, ..UNENCODED };
/// A value on a grid: constants, counts, masks.
const ON_GRID: Encoding = Encoding { on_grid: true, ..UNENCODED };

impl Encoding {
    /// Is the stored value the value itself?
    pub fn is_unencoded(self) -> bool {
        self.offset_weight == 0.0 && self.tick_power == 0 && self.second_tick_power == 0
    }

    /// The tick power of an output.
    pub fn tick_power_of(self, port: u8) -> i8 {
        if port == 0 { self.tick_power } else { self.second_tick_power }
    }

    fn with_offset_weight(self, offset_weight: f64) -> Encoding {
        // Weights that cancel leave rounding behind.
        let offset_weight = if offset_weight.abs() <= WEIGHT_TOLERANCE { 0.0 } else { offset_weight };
        Encoding { offset_weight, reads_decoded: false, ..self }
    }

    fn with_tick_power(self, tick_power: i8) -> Encoding {
        Encoding { tick_power, second_tick_power: tick_power, ..self }
    }

    fn off_grid(self) -> Encoding {
        Encoding { on_grid: false, ..self }
    }
}

fn same_weight(a: f64, b: f64) -> bool {
    (a - b).abs() <= WEIGHT_TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

/// The encoding that two values share, if they do; 0 is 0 in every tick power.
fn common(a: (Encoding, Option<f64>), b: (Encoding, Option<f64>)) -> Option<Encoding> {
    let ((fa, na), (fb, nb)) = (a, b);
    let on_grid = fa.on_grid && fb.on_grid;
    match (na, nb) {
        (_, Some(0.0)) if fa.offset_weight == 0.0 => Some(Encoding { on_grid, ..fa }),
        (Some(0.0), _) if fb.offset_weight == 0.0 => Some(Encoding { on_grid, ..fb }),
        _ => (fa.tick_power == fb.tick_power && same_weight(fa.offset_weight, fb.offset_weight))
            .then_some(Encoding { on_grid, ..fa }),
    }
}

/// The encoding of a node's values by those of its inputs; `number` is the value of a constant.
pub fn of(
    prim: &NodeOp,
    encoding: impl Fn(ValueId) -> Encoding,
    number: impl Fn(ValueId) -> Option<f64>,
) -> Encoding {
    let own = |v: ValueId| {
        Encoding { reads_decoded: false, ..encoding(v) }.with_tick_power(encoding(v).tick_power_of(v.port))
    };
    let both = |v: ValueId| (own(v), number(v));
    let shared = |a: ValueId, b: ValueId| common(both(a), both(b));
    let has_offset = |v: ValueId| own(v).offset_weight != 0.0;
    match prim {
        NodeOp::Input(Field::Open | Field::High | Field::Low | Field::Close) => {
            ON_GRID.with_offset_weight(1.0).with_tick_power(1)
        }
        NodeOp::Input(_) | NodeOp::WholeSeries { .. } => UNENCODED,
        NodeOp::Const(_) => ON_GRID,
        NodeOp::Unary(UnaryOp::Neg, a) => own(*a).with_offset_weight(-own(*a).offset_weight),
        NodeOp::Unary(UnaryOp::Abs, a) if !has_offset(*a) => own(*a),
        NodeOp::Unary(UnaryOp::Sqrt, a) if !has_offset(*a) && own(*a).tick_power % 2 == 0 => {
            own(*a).with_tick_power(own(*a).tick_power / 2).off_grid()
        }
        NodeOp::Unary(UnaryOp::Sign, a) if !has_offset(*a) => ON_GRID,
        NodeOp::Binary(f @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
            let ((fa, na), (fb, nb)) = (both(*a), both(*b));
            let sign = if *f == BinaryOp::Add { 1.0 } else { -1.0 };
            if fa.tick_power == fb.tick_power || nb == Some(0.0) {
                Encoding { on_grid: fa.on_grid && fb.on_grid, ..fa }
                    .with_offset_weight(fa.offset_weight + sign * fb.offset_weight)
            } else if na == Some(0.0) {
                Encoding { on_grid: fa.on_grid && fb.on_grid, ..fb }
                    .with_offset_weight(sign * fb.offset_weight)
            } else {
                DECODED
            }
        }
        NodeOp::Binary(BinaryOp::Mul, a, b) => product(both(*a), both(*b)),
        NodeOp::Binary(BinaryOp::Div | BinaryOp::Div0, a, b) => quotient(both(*a), both(*b)),
        NodeOp::Binary(BinaryOp::Min | BinaryOp::Max, a, b) | NodeOp::FillWarmup(a, b) => {
            shared(*a, *b).unwrap_or(DECODED)
        }
        NodeOp::Binary(
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne,
            a,
            b,
        ) => Encoding { reads_decoded: shared(*a, *b).is_none(), ..ON_GRID },
        NodeOp::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
            Encoding { reads_decoded: has_offset(*a) || has_offset(*b), ..ON_GRID }
        }
        NodeOp::Select(c, a, b) if !has_offset(*c) => shared(*a, *b).unwrap_or(DECODED),
        _ => kernel_encoding(prim, own, shared),
    }
}

/// The encoding of rolling, scan and state machine nodes.
fn kernel_encoding(
    prim: &NodeOp,
    own: impl Fn(ValueId) -> Encoding,
    shared: impl Fn(ValueId, ValueId) -> Option<Encoding>,
) -> Encoding {
    let has_offset = |v: ValueId| own(v).offset_weight != 0.0;
    match prim {
        NodeOp::Shift(a, _)
        | NodeOp::RollingMinMax { a, .. }
        | NodeOp::RollingOrderStatistic { a, .. }
        | NodeOp::CumMinMax { a, .. } => own(*a),
        NodeOp::Ema { a, .. } | NodeOp::Wilder { a, .. } => own(*a).off_grid(),
        NodeOp::RollingSum(a, n) | NodeOp::RollingSumFrom { a, n, .. } => {
            own(*a).with_offset_weight(own(*a).offset_weight * *n as f64)
        }
        NodeOp::LinearWeightedSum(a, n) => {
            own(*a).with_offset_weight(own(*a).offset_weight * (n * (n + 1) / 2) as f64)
        }
        NodeOp::Fir(a, weights) => {
            let sum: f64 = weights.iter().map(|w| w.get()).sum();
            own(*a).with_offset_weight(own(*a).offset_weight * sum).off_grid()
        }
        NodeOp::CumSum(a) | NodeOp::PartialRollingSum(a, _) if !has_offset(*a) => own(*a),
        NodeOp::LinearRecurrence { a, b } if own(*a).is_unencoded() && !has_offset(*b) => own(*b).off_grid(),
        NodeOp::AdaptiveEma { a, k, first } if own(*k).is_unencoded() => {
            shared(*a, *first).map_or(DECODED, Encoding::off_grid)
        }
        NodeOp::RollingArgMinMax { .. } | NodeOp::RollingRank { .. } => ON_GRID,
        NodeOp::RollingVariance(a, _) => UNENCODED.with_tick_power(2 * own(*a).tick_power),
        NodeOp::RollingCentralMoment(a, _, power) => {
            let input_power = own(*a).tick_power;
            let second_tick_power = i8::try_from(*power).unwrap_or(2) * input_power;
            Encoding { tick_power: 2 * input_power, second_tick_power, ..UNENCODED }
        }
        NodeOp::RollingCoMoment(a, b, _) => {
            UNENCODED.with_tick_power(own(*a).tick_power + own(*b).tick_power)
        }
        NodeOp::RollingMeanDeviation(a, _) | NodeOp::RollingTimeMoment(a, _) => {
            UNENCODED.with_tick_power(own(*a).tick_power)
        }
        NodeOp::StateMachine { def, params, inputs } => match (def.name, inputs.as_slice()) {
            ("running wma sum", [a]) => {
                let n = params.first().map_or(0.0, |n| n.get());
                own(*a).with_offset_weight(own(*a).offset_weight * (n * (n + 1.0) / 2.0))
            }
            ("projection", [a, b]) => shared(*a, *b).map_or(DECODED, Encoding::off_grid),
            ("volume profile", [a, b]) if own(*b).is_unencoded() => own(*a).off_grid(),
            ("median deviation", [a]) => UNENCODED.with_tick_power(own(*a).tick_power),
            ("spearman", _) => UNENCODED,
            _ => DECODED,
        },
        _ => DECODED,
    }
}

fn product((fa, na): (Encoding, Option<f64>), (fb, nb): (Encoding, Option<f64>)) -> Encoding {
    match (na, nb) {
        (_, Some(k)) => fa.with_offset_weight(fa.offset_weight * k),
        (Some(k), _) => fb.with_offset_weight(k * fb.offset_weight),
        _ if fa.offset_weight != 0.0 || fb.offset_weight != 0.0 => DECODED,
        _ => Encoding {
            on_grid: fa.on_grid && fb.on_grid,
            ..UNENCODED.with_tick_power(fa.tick_power + fb.tick_power)
        },
    }
}

fn quotient((fa, _): (Encoding, Option<f64>), (fb, nb): (Encoding, Option<f64>)) -> Encoding {
    match nb {
        Some(k) if k != 0.0 => fa.with_offset_weight(fa.offset_weight / k),
        _ if fa.offset_weight != 0.0 || fb.offset_weight != 0.0 || fa.tick_power < fb.tick_power => DECODED,
        _ => UNENCODED.with_tick_power(fa.tick_power - fb.tick_power),
    }
}

/// Candidate tick sizes, the coarsest first.
const TICK_SIZES: [f64; 10] = [1.0, 0.5, 0.25, 0.125, 0.1, 0.05, 0.01, 0.005, 0.001, 0.0001];
/// Distance from the offset in ticks that f32 represents exactly, with headroom for sums.
const MAX_TICKS: f64 = (1u32 << 20) as f64;

/// Encoding parameters of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffsetScale {
    /// The first price, rounded to f32 or to the tick.
    pub offset: f64,
    /// The tick size; `None` where prices are not multiples of one.
    pub tick: Option<f64>,
}

impl OffsetScale {
    /// Detects offset and tick size of some price columns.
    pub fn of(columns: &[&[f64]]) -> OffsetScale {
        let offset = columns.iter().find_map(|c| c.first()).map_or(0.0, |x| f64::from(*x as f32));
        let fits = |tick: &f64| {
            // Decimal rounding is tolerated.
            let whole = |x: &f64| {
                let n = x / tick;
                (n - n.round()).abs() <= 1e-7 + 1e-12 * n.abs() && ((x - offset) / tick).abs() < MAX_TICKS
            };
            columns.iter().all(|c| c.iter().all(whole))
        };
        let tick = TICK_SIZES.into_iter().find(fits);
        // The offset is a price too, so a multiple of the tick.
        let offset = tick.map_or(offset, |t| (offset / t).round() * t);
        OffsetScale { offset, tick }
    }

    /// Encodes a price.
    pub fn encode(self, x: f64) -> f64 {
        match self.tick {
            Some(tick) => ((x - self.offset) / tick).round(),
            None => x - self.offset,
        }
    }

    /// Decodes a stored value.
    pub fn decode(self, stored: f64, encoding: Encoding, port: u8) -> f64 {
        let tick = self.tick.unwrap_or(1.0);
        stored * tick.powi(i32::from(encoding.tick_power_of(port))) + encoding.offset_weight * self.offset
    }

    /// Offset and tick size for the device; a negative tick size means none.
    pub fn words(self) -> [u32; 2] {
        let tick = self.tick.unwrap_or(-1.0) as f32;
        [(self.offset as f32).to_bits(), tick.to_bits()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_size_is_detected_and_prices_round_trip() {
        let cents = [100.37, 99.99, 101.0, 0.01];
        let scale = OffsetScale::of(&[&cents]);
        assert_eq!(scale.tick, Some(0.01));
        let price = ON_GRID.with_offset_weight(1.0).with_tick_power(1);
        for x in cents {
            assert!((scale.decode(scale.encode(x), price, 0) - x).abs() < 1e-12);
            assert_eq!(scale.encode(x), scale.encode(x).round());
        }
        assert_eq!(OffsetScale::of(&[&[1.0, 2.0, 7.0]]).tick, Some(1.0));
        assert_eq!(OffsetScale::of(&[&[1.0 / 3.0, 2.0]]).tick, None);
        // Too far from the offset for exact ticks.
        assert_eq!(OffsetScale::of(&[&[1.0, 2e7]]).tick, None);
    }
}
