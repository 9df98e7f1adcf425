//! Error bounds of rolling windows, recurrences and state machines.

use super::{
    Bound, COUNT, Conditioning, DECISION, EXACT, ErrorKind, LEVEL, LIMIT, PEAK, PHASE, RATIO, RECURSIVE, SUM,
    TINY, TREND,
    pointwise::{quotient, sum},
};
use crate::state_machines::{self, Response};

/// A value that is older by some bars on average.
pub(super) fn aged(x: Conditioning, bars: f64) -> Conditioning {
    // A ratio of levels does not move on a trend.
    let moves = x.has_level() && (x.degree != 0.0 || x.level_of.is_some());
    let lag = if moves { x.lag + x.step * x.level.signum() * bars } else { x.lag };
    Conditioning { lag, side: None, ..x }
}

/// A rolling sum with these weights in total, whose terms are that old on average: exact for whole ticks.
pub(super) fn total(x: Conditioning, weight: f64, age: f64) -> Conditioning {
    let found = aged(x, age).scaled(weight);
    let kind = if x.nonnegative { x.kind } else { x.kind.max(ErrorKind::Terms) };
    if x.is_exact() {
        return found;
    }
    let rounded = found.rounded();
    let trend = if x.whole || x.has_level() { rounded.trend } else { rounded.trend.rounded(1.0) };
    Conditioning { kind, trend, blurred: x.blurred || x.fraction, ..rounded }
}

/// A moving average of gain 1, that old on average: rounded to the range of what it averages.
pub(super) fn average(x: Conditioning, age: f64) -> Conditioning {
    let kind = if x.nonnegative || x.has_level() { x.kind } else { x.kind.max(ErrorKind::Terms) };
    let found =
        Conditioning { kind, fraction: false, blurred: false, ..aged(x, age) }.rounded_times(RECURSIVE);
    // A constant is reached from another one, up to rounding.
    let trend = if x.settles && !x.has_level() { found.trend.rounded(1.0) } else { found.trend };
    Conditioning { trend, ..found }
}

pub(super) fn fir(x: Conditioning, weights: &[f64]) -> Conditioning {
    let n = weights.len() as f64;
    let gain: f64 = weights.iter().sum();
    let size: f64 = weights.iter().map(|w| w.abs()).sum();
    let moment: f64 = weights.iter().enumerate().map(|(i, w)| w * (n - 1.0 - i as f64)).sum();
    let positive = weights.iter().all(|w| *w >= 0.0);
    let scaled = x.scaled(size);
    let found = Conditioning {
        step: x.step * if gain.abs() <= TINY * size { size } else { gain.abs() },
        level: if gain.abs() <= TINY * size { 0.0 } else { x.level * gain },
        lag: x.lag * gain + aged(x, moment).lag - x.lag,
        nonnegative: x.nonnegative && positive,
        kind: if x.nonnegative && positive { x.kind } else { x.kind.max(ErrorKind::Terms) },
        whole: false,
        steady: if positive && (gain - 1.0).abs() < TINY { x.steady } else { 0 },
        ..scaled
    };
    if !x.has_level() && gain.abs() <= TINY * size {
        return Conditioning { vanishes: true, trend: found.trend.rounded(1.0), ..found.rounded() };
    }
    if found.has_level() || !x.has_level() {
        return found.rounded();
    }
    // Weights that cancel: the kernel sums distances from a value of the window.
    let near = |error: f64, span: f64| Bound { error: error * size, size: span };
    let (trend, walk) = (near(x.trend.error, x.step * size), near(x.walk.error, x.step * size * n.sqrt()));
    Conditioning { trend, walk, spread: 0.0, ..found }.rounded_times(2.0 * n.sqrt())
}

/// A central moment of a window; the kernel computes distances from one of its values, so that whole ticks have no error.
pub(super) fn deviation(x: Conditioning, n: usize, power: i32) -> Conditioning {
    let n = n as f64;
    // A quotient with a price drifts with it; other values without a level are constant on a trend, but for rounding.
    let drift = if x.kind == ErrorKind::Relative { x.trend.size / TREND } else { 0.0 };
    let trend = if x.has_level() { x.step * n / 4.0 + x.spread } else { drift * n / 4.0 };
    let walk = if x.has_level() { x.step * n.sqrt() + x.spread } else { x.walk.size / 2.0 };
    let moment = |error: f64, size: f64| {
        let slope = f64::from(power) * size.powi(power - 1);
        Bound { error: error * slope.max(if error > 0.0 { TINY } else { 0.0 }), size: size.powi(power) }
    };
    let kind = if x.is_exact() { ErrorKind::Relative } else { ErrorKind::Absolute };
    Conditioning {
        trend: moment(x.trend.error, trend),
        walk: moment(x.walk.error, walk),
        kind,
        level: 0.0,
        lag: 0.0,
        spread: 0.0,
        side: None,
        steady: 0,
        whole: false,
        // Equal windows are rounded by what was before them.
        rolling: true,
        vanishes: x.vanishes || !x.has_level(),
        degree: x.degree * f64::from(power),
        nonnegative: true,
        ..x
    }
    .rounded()
}

/// Co-moment with the bar index: on a trend, its slope times the index's own moment.
pub(super) fn slope(x: Conditioning, n: f64) -> Conditioning {
    let weight = n * (n * n - 1.0) / 12.0;
    // Errors of neighbouring bars are independent.
    let spread = (n * n * n / 12.0).sqrt();
    let near = |b: Bound, size: f64| Bound { error: b.error * spread, size };
    let full = n * n / 4.0;
    let (trend, walk) = if x.has_level() {
        (x.step * weight, x.step * weight)
    } else {
        (x.trend.size * n * n * n / (12.0 * TREND), x.walk.size * full)
    };
    Conditioning {
        trend: near(x.trend, trend),
        walk: near(x.walk, walk),
        kind: x.kind.max(ErrorKind::Terms),
        level: 0.0,
        lag: if x.has_level() { -x.step * weight } else { 0.0 },
        step: 1.0,
        spread: 0.0,
        side: None,
        steady: 0,
        whole: false,
        vanishes: x.vanishes || !x.has_level(),
        nonnegative: false,
        ..x
    }
    .rounded()
}

/// Ranks and positions: whole numbers, decided by comparisons within a window.
pub(super) fn ranked(x: Conditioning) -> Conditioning {
    let found = COUNT.with(&[x]);
    // Whole numbers, or rounded once: equal values stay equal.
    let ties = x.blurred || x.rolling || (!x.has_level() && !x.is_exact() && x.walk.relative() > 1.01);
    let close = x.has_level() && x.walk.error > LIMIT * PEAK * x.step;
    if x.is_noise() || ties || close { found.refuse(DECISION) } else { found }
}

/// A cumulative sum: a level of its own, which whole numbers reach without error.
pub(super) fn accumulated(x: Conditioning, node: u32) -> Conditioning {
    let reach = |b: Bound| b.scaled(SUM);
    let found = Conditioning {
        trend: reach(x.trend),
        walk: reach(x.walk),
        level: x.walk.size,
        level_of: Some(node),
        lag: 0.0,
        step: x.walk.size,
        spread: 0.0,
        side: None,
        steady: 0,
        vanishes: false,
        ..x
    };
    if x.is_exact() { found } else { Conditioning { kind: ErrorKind::Absolute, ..found.rounded() } }
}

/// A recurrence that rounds also what is constant.
pub(super) fn drifting(x: Conditioning) -> Conditioning {
    Conditioning { trend: x.trend.rounded(1.0), whole: false, ..x }
}

/// A recurrence with a factor per bar: a held value, or a compounded one, which is a level of its own.
pub(super) fn compounded(factor: Conditioning, x: Conditioning, node: u32) -> Conditioning {
    if factor.is_exact() && factor.whole && x.is_exact() {
        return Conditioning { level: 0.0, lag: 0.0, steady: 0, ..x.scaled(PEAK) }.with(&[factor]);
    }
    if factor.is_exact() {
        return drifting(Conditioning { level: 0.0, lag: 0.0, ..average(x, 0.0) }).with(&[factor]);
    }
    let found = accumulated(x.or(factor), node);
    // It moves like the prices whose changes it compounds.
    let found = Conditioning { step: found.walk.size / LEVEL, ..found };
    Conditioning { kind: ErrorKind::Absolute, ..found.rounded() }
}

/// A state machine, by its response (`state_machines.rs`).
pub(super) fn machine(name: &str, params: &[f64], inputs: &[Conditioning], port: usize) -> Conditioning {
    let input = |at: usize| inputs.get(at).copied().unwrap_or(EXACT);
    let first = input(0);
    let all = inputs.iter().skip(1).fold(first, |all, x| all.or(*x));
    let noisy = inputs.iter().any(Conditioning::is_noise);
    let decided = |x: Conditioning| if noisy { x.refuse(DECISION) } else { x };
    match state_machines::response(name) {
        Some(Response::Average) if port == 0 => average(first.decoded(), 5.0).with(inputs),
        Some(Response::Average) => deviation(first.decoded(), 10, 1).with(inputs),
        Some(Response::RatioAverage) if first.is_price() => average(first.decoded(), 5.0).with(inputs),
        Some(Response::RatioAverage) => first.refuse(RATIO),
        Some(Response::Trailing) if port == 0 => decided(average(all.decoded(), 5.0)),
        Some(Response::Filter { gain }) => {
            filter(first, gain.map_or(0.0, |at| params.get(at).copied().unwrap_or(0.0)))
        }
        Some(Response::Distances) => {
            let near = sum(first, aged(first, 1.0), -1.0);
            let scaled =
                if first.is_exact() { Conditioning { kind: ErrorKind::Terms, ..near } } else { near };
            scaled.rounded()
        }
        Some(Response::Residual) => sum(first, input(1), -1.0),
        Some(Response::Selected { values }) if port < values => decided(all.decoded()),
        Some(Response::Held) => first.with(inputs),
        Some(Response::Ranks) if !inputs.iter().all(Conditioning::is_exact) => COUNT.refuse(DECISION),
        Some(Response::Ranks | Response::Count | Response::Trailing | Response::Selected { .. }) => {
            decided(Conditioning { nonnegative: false, ..COUNT }.with(inputs))
        }
        Some(Response::Oscillator) => {
            let change = sum(first, aged(first, 1.0), -1.0);
            let bounded = quotient(
                Conditioning { nonnegative: true, ..change },
                Conditioning { nonnegative: true, ..change },
            );
            Conditioning { nonnegative: false, level: 0.0, lag: 0.0, ..bounded }.rounded()
        }
        Some(Response::Smoothed | Response::Clamped) => average(first, 0.0).with(inputs),
        Some(Response::Deviation) => deviation(first, params.first().map_or(1, |n| *n as usize), 1),
        Some(Response::WeightedSum) => {
            let n = params.first().copied().unwrap_or(1.0);
            total(first, n * (n + 1.0) / 2.0, (n - 1.0) / 3.0)
        }
        Some(Response::Phase) => all.refuse(PHASE),
        None => all.refuse(crate::placement::UNKNOWN),
    }
}

/// A linear filter of this gain at frequency 0; its state is the distance from the input.
pub(super) fn filter(x: Conditioning, gain: f64) -> Conditioning {
    let x = x.decoded();
    if gain.abs() > TINY {
        return average(x, 5.0).scaled(gain);
    }
    let size = if x.has_level() { 5.0 * x.step } else { x.walk.size / 4.0 };
    let bound = |b: Bound| Bound { error: b.error, size }.rounded(1.0);
    let kind = x.kind.max(ErrorKind::Terms);
    Conditioning {
        trend: bound(x.trend),
        walk: bound(x.walk),
        kind,
        level: 0.0,
        lag: 0.0,
        spread: 0.0,
        side: None,
        steady: 0,
        whole: false,
        vanishes: true,
        nonnegative: false,
        ..x
    }
}
