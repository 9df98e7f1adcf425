//! Hikkake and modified hikkake: stateful patterns (inside bar, false breakout, confirmation within three bars).

use super::{
    super::Indicator,
    candle::{Candles, NEAR},
    row,
};
use crate::kernel::state_machine::{StateMachine, StateMachineDef};

/// Bars within which a confirmation counts.
const CONFIRMATION_BARS: u8 = 3;

/// Waits for a confirming close beyond the inside bar.
#[derive(Clone)]
struct Hikkake {
    /// Sign of the last pattern, and the range of its inside bar.
    sign: f64,
    high: f64,
    low: f64,
    /// Bars left to confirm it.
    left: u8,
}

impl StateMachine<4, 1> for Hikkake {
    fn new(_: &[f64]) -> Self {
        Hikkake { sign: 0.0, high: f64::NAN, low: f64::NAN, left: 0 }
    }

    /// Inputs: 1 or -1 where a pattern ends, high and low of its inside bar, the close.
    #[inline(always)]
    fn step(&mut self, [found, high, low, close]: [f64; 4]) -> [f64; 1] {
        if found != 0.0 {
            *self = Hikkake { sign: found, high, low, left: CONFIRMATION_BARS };
            return [100.0 * found];
        }
        let beyond = if self.sign > 0.0 { close > self.high } else { close < self.low };
        let confirmed = self.left > 0 && beyond;
        self.left = if confirmed { 0 } else { self.left.saturating_sub(1) };
        [if confirmed { 200.0 * self.sign } else { 0.0 }]
    }
}

static PLAIN: StateMachineDef = StateMachineDef::of::<Hikkake, 4, 1>("hikkake", |_| 3);

/// Bars that the state machine runs before its first valid value: the length of its memory.
const WARM_UP: usize = CONFIRMATION_BARS as usize;

pub(super) const ROWS: &[Indicator] = &[
    row(
        "cdlhikkake",
        &["CDLHIKKAKE"],
        "Hikkake: an inside bar and then a bar that leaves its range down (100) or up (-100); twice that where one of the next three closes beyond the inside bar on the other side.",
        |a| {
            let k = Candles::new(a, 5 - WARM_UP);
            let inside = k.h(1).lt(k.h(2)).and(k.l(1).gt(k.l(2)));
            let bull = k.h(0).lt(k.h(1)).and(k.l(0).lt(k.l(1)));
            let bear = k.h(0).gt(k.h(1)).and(k.l(0).gt(k.l(1)));
            let found = inside.select(bull - bear, 0.0);
            a.bars.state_machine(&PLAIN, &[], &[found, k.h(1), k.l(1), k.c(0)])
        },
    ),
    row(
        "cdlhikkakemod",
        &["CDLHIKKAKEMOD"],
        "Modified hikkake: two inside bars, the first of them closing near its low (100) or its high (-100), then the false break; twice that where one of the next three bars closes beyond the second inside bar on the other side.",
        |a| {
            let k = Candles::new(a, 10 - WARM_UP);
            let inside = |i: usize| k.h(i).lt(k.h(i + 1)).and(k.l(i).gt(k.l(i + 1)));
            let near = k.limit(NEAR, 2);
            let bull = k.h(0).lt(k.h(1)).and(k.l(0).lt(k.l(1))).and(k.c(2).le(k.l(2) + near));
            let bear = k.h(0).gt(k.h(1)).and(k.l(0).gt(k.l(1))).and(k.c(2).ge(k.h(2) - near));
            let found = inside(2).and(inside(1)).select(bull - bear, 0.0);
            a.bars.state_machine(&PLAIN, &[], &[found, k.h(1), k.l(1), k.c(0)])
        },
    ),
];
