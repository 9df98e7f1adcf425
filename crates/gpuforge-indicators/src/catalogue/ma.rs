//! Moving averages by TA-Lib's `MAType`: SMA, EMA, WMA, DEMA, TEMA, TRIMA, KAMA, MAMA, T3, HMA, ZLEMA, RMA, VIDYA, ALMA.

use super::cycle::hilbert::{DEGREES, EARLY, Hilbert, hilbert};
use crate::{
    graph::Expr,
    kernel::state_machine::{BranchlessMachine, StateMachineDef, Value},
};

/// Parameter for the moving average type: TA-Lib's `MAType` numbers, see [`ma`].
pub(super) const MA_TYPE: super::Param = super::int("ma_type", 0, 0, 15);

/// Moving average of TA-Lib's `MAType`: 0 SMA, 1 EMA, 2 WMA, 3 DEMA, 4 TEMA, 5 TRIMA, 6 KAMA, 7 MAMA (0.5, 0.05,
/// whatever `n` is), 8 T3 (0.7), 9 HMA, 10 the value itself, 11 the default (SMA), 12 ZLEMA, 13 RMA, 14 VIDYA, 15 ALMA
/// (6, 0.85). A period of 1 is the value itself.
pub(super) fn ma<'g>(x: Expr<'g>, n: usize, kind: usize) -> Expr<'g> {
    if n <= 1 {
        return x;
    }
    match kind {
        1 => x.ema(n),
        2 => x.wma(n),
        3 => dema(x, n),
        4 => tema(x, n),
        5 => trima(x, n),
        6 => kama(x, n),
        7 => mama(x, 0.5, 0.05).first().copied().unwrap_or(x),
        8 => t3(x, n, 0.7),
        9 => hma(x, n),
        10 => x,
        12 => zlema(x, n),
        13 => x.wilder(n),
        14 => vidya(x, n, (3 * n + 2) / 4),
        15 => alma(x, n, 6.0, 0.85),
        _ => x.sma(n),
    }
}

/// DEMA: 2 EMA(x) - EMA(EMA(x)).
pub(super) fn dema(x: Expr<'_>, n: usize) -> Expr<'_> {
    let one = x.ema(n);
    2.0 * one - one.ema(n)
}

/// TEMA: three nested EMAs, each correcting the lag of the one before.
pub(super) fn tema(x: Expr<'_>, n: usize) -> Expr<'_> {
    let one = x.ema(n);
    let two = one.ema(n);
    3.0 * one - 3.0 * two + two.ema(n)
}

/// TRIMA: an SMA of an SMA, that is, triangular weights.
pub(super) fn trima(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.sma(n.div_ceil(2)).sma(n / 2 + 1)
}

/// T3: six nested EMAs, combined with powers of the volume factor.
pub(super) fn t3(x: Expr<'_>, n: usize, v: f64) -> Expr<'_> {
    if n <= 1 {
        return x;
    }
    let third = x.ema(n).ema(n).ema(n);
    let fourth = third.ema(n);
    let fifth = fourth.ema(n);
    let sixth = fifth.ema(n);
    let (square, cube) = (v * v, v * v * v);
    let weights = (
        1.0 + 3.0 * v + 3.0 * square + cube,
        -3.0 * v - 6.0 * square - 3.0 * cube,
        3.0 * square + 3.0 * cube,
        -cube,
    );
    weights.0 * third + weights.1 * fourth + weights.2 * fifth + weights.3 * sixth
}

/// HMA: a WMA of twice the fast WMA minus the slow one.
pub(super) fn hma(x: Expr<'_>, n: usize) -> Expr<'_> {
    if n <= 1 {
        return x;
    }
    (2.0 * x.wma(n / 2) - x.wma(n)).wma(n.isqrt())
}

/// ZLEMA: an EMA of the value plus its change over the EMA's lag.
pub(super) fn zlema(x: Expr<'_>, n: usize) -> Expr<'_> {
    if n <= 1 { x } else { (2.0 * x - x.shift((n - 1) / 2)).ema(n) }
}

/// ALMA: Gaussian weights around a point of the window.
pub(super) fn alma(x: Expr<'_>, n: usize, sigma: f64, offset: f64) -> Expr<'_> {
    if n <= 1 {
        return x;
    }
    let centre = (offset * (n - 1) as f64).floor();
    let width = n as f64 / sigma;
    let bell = |i: usize| (-(i as f64 - centre).powi(2) / (2.0 * width * width)).exp();
    weighted_average(x, (0..n).map(bell).collect())
}

/// Weighted moving average with these weights, oldest first, normalised to sum to 1.
pub(super) fn weighted_average(x: Expr<'_>, mut weights: Vec<f64>) -> Expr<'_> {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= sum);
    x.fir(&weights)
}

/// KAMA: an EMA whose smoothing factor grows with the efficiency ratio of the last `n` changes.
pub(super) fn kama(x: Expr<'_>, n: usize) -> Expr<'_> {
    if n <= 1 {
        return x;
    }
    let (slow, fast) = (2.0 / 31.0, 2.0 / 3.0);
    let change = x - x.shift(1);
    // Counting changes is exact; a rolling sum of them may keep a rounding residue after they have stopped.
    let still = change.ne(0.0).sum(n).eq(0.0);
    let efficiency = ((x - x.shift(n)).abs() / change.abs().sum(n)).min(1.0);
    let root = still.select(1.0, efficiency) * (fast - slow) + slow;
    x.adaptive_ema(root * root, x.shift(1))
}

/// VIDYA: an EMA whose smoothing factor is scaled by the absolute CMO of the last changes.
pub(super) fn vidya(x: Expr<'_>, n: usize, changes: usize) -> Expr<'_> {
    if n <= 1 {
        return x;
    }
    let change = x - x.shift(1);
    let still = change.ne(0.0).partial_sum(changes).eq(0.0);
    let (up, down) = (change.max(0.0).partial_sum(changes), (-change).max(0.0).partial_sum(changes));
    let strength = still.select(0.0, ((up - down) / (up + down)).abs());
    let k = strength * (2.0 / (n as f64 + 1.0));
    x.adaptive_ema(k, x.shift(1)).from_bar(x.start() + changes)
}

/// MAMA and FAMA (Ehlers, 2001): the faster the phase of the dominant cycle changes, the slower the average. Valid from the
/// 33rd bar on.
pub(super) fn mama(x: Expr<'_>, fast: f64, slow: f64) -> Vec<Expr<'_>> {
    let Hilbert { in_phase, quadrature, .. } = hilbert(x, EARLY);
    let phase = in_phase.eq(0.0).select(0.0, (quadrature / in_phase).atan() * DEGREES);
    x.builder().state_machine(&MAMA, &[fast, slow], &[x, phase])
}

static MAMA: StateMachineDef = StateMachineDef::branchless::<Mama, 3, 2, 2>("mama", |_| 32 - EARLY);

/// MAMA and FAMA from a value and the phase in degrees. State: the previous phase, and both averages.
#[derive(Clone, Copy)]
struct Mama {
    fast: f64,
    slow: f64,
}

impl BranchlessMachine<3, 2, 2> for Mama {
    fn new(params: &[f64]) -> Self {
        let at = |i: usize| params.get(i).copied().unwrap_or(0.5);
        Mama { fast: at(0), slow: at(1) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 3], [f64; 2]) {
        self.step([0.0; 3], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [before, mama, fama]: [V; 3], [x, phase]: [V; 2]) -> ([V; 3], [V; 2]) {
        let turn = before - phase;
        let slowed = V::from(self.fast) / turn;
        let slowed = V::select(slowed.cmp_gt(self.slow), slowed, self.slow);
        let alpha = V::select(turn.cmp_gt(1.0), slowed, self.fast);
        let one = V::from(1.0);
        let mama = alpha * x + (one - alpha) * mama;
        let fama = alpha * 0.5 * mama + (one - alpha * 0.5) * fama;
        ([phase, mama, fama], [mama, fama])
    }
}
