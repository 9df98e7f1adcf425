//! Is a state machine the same whether one series runs it or eight do? All that rest on one, on every kind of data, and one
//! machine said in all three ways.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{Bars, Random, flat, gaps, halt, monotone, no_volume, walk};
use gpuforge_indicators::{
    catalogue::{self, Indicator},
    exec::{How, Series, run},
    kernel::{
        Row, Simd,
        machine::{Machine, MachineDef, RowMachine, Rule, Value, lanes, select as choose},
    },
    select::{Instance, select},
};

/// Rows with a machine of their own, at least one of every machine.
const ROWS: [&str; 43] = [
    "sar",
    "sarext",
    "supertrend",
    "pmax",
    "zigzag",
    "cpr",
    "pivot",
    "fisher",
    "crsi",
    "stc",
    "wavetrend",
    "qqe",
    "rsx",
    "lrsi",
    "td_seq",
    "mcgd",
    "hwma",
    "hwc",
    "ssf",
    "butterworth",
    "gaussian",
    "laguerre",
    "decycler",
    "kalman",
    "jma",
    "decay",
    "edecay",
    "ebsw",
    "highpass",
    "highpass2",
    "bandpass",
    "correlation_cycle",
    "ht_dcperiod",
    "ht_dcphase",
    "ht_phasor",
    "ht_sine",
    "ht_trendline",
    "ht_trendmode",
    "mama",
    "vwap",
    "avwap",
    "avwap_bands",
    "avwap_final",
];

/// Some values are no numbers: single bars, a run of them, and the first and last.
fn holes(mut bars: Bars, seed: u64) -> Bars {
    let (n, mut r) = (bars.len(), Random(seed));
    let columns = [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close, &mut bars.volume];
    for column in columns {
        for at in [0, n / 2, n / 2 + 1, n / 2 + 2, n - 1, (r.next() * n as f64) as usize] {
            column[at] = f64::NAN;
        }
    }
    bars
}

/// Nine series of every kind, some shorter than others: eight side by side and one that is left over.
fn series() -> Vec<Bars> {
    vec![
        walk(700, 1),
        flat(640),
        holes(walk(700, 2), 5),
        monotone(500, 0.25),
        gaps(600),
        walk(1, 3),
        halt(650),
        no_volume(699),
        walk(1200, 4),
    ]
}

/// The bits of a number; every NaN is the same.
fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// Every series by itself with plain instructions, against all of them side by side with each instruction set.
fn same_bits(row: &'static Indicator) {
    let (selection, bars) = (select(&[Instance::of(row)]), series());
    let all: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let alone = How { threads: 1, simd: Simd::SCALAR, side_by_side: Some(false), ..How::default() };
    let want: Vec<Vec<Vec<f64>>> =
        all.iter().map(|one| run(&selection.plan, std::slice::from_ref(one), alone).remove(0)).collect();
    for (simd, block) in Simd::available().flat_map(|simd| [(simd, None), (simd, Some(37))]) {
        let got = run(&selection.plan, &all, How { simd, block, side_by_side: Some(true), ..alone });
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            for (name, (got, want)) in selection.columns.iter().zip(got.iter().zip(want)) {
                let differs = (0..want.len()).find(|t| bits(got[*t]) != bits(want[*t]));
                assert_eq!(differs, None, "{name}, series {at}, {simd:?}, blocks of {block:?}");
            }
        }
    }
}

#[test]
fn eight_series_have_the_bits_of_one() {
    for name in ROWS {
        same_bits(catalogue::find(name).unwrap_or_else(|| panic!("there is no row {name}")));
    }
}

/// The highest since it was last undercut by half: a bar can begin it anew.
#[derive(Clone, Copy)]
struct Peak {
    share: f64,
}

impl Rule<1, 2, 2> for Peak {
    fn new(params: &[f64]) -> Self {
        Peak { share: params[0] }
    }

    #[inline(always)]
    fn first(&self, [high, _]: [f64; 2]) -> ([f64; 1], [f64; 2]) {
        ([high], [high, 1.0])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [peak]: [V; 1], [high, low]: [V; 2]) -> ([V; 1], [V; 2]) {
        let anew = low.below(peak * self.share);
        let peak = V::either(anew | high.above(peak), high, peak);
        ([peak], [peak, V::either(anew, 1.0, 0.0)])
    }
}

/// The same, as rows.
#[derive(Clone)]
struct PeakRows<const L: usize> {
    share: f64,
    peak: Row<L>,
}

impl<const L: usize> RowMachine<2, 2, L> for PeakRows<L> {
    fn new(params: &[f64]) -> Self {
        PeakRows { share: params[0], peak: [f64::NAN; L] }
    }

    #[inline(always)]
    fn first(&mut self, [high, _]: [&Row<L>; 2]) -> [Row<L>; 2] {
        self.peak = *high;
        [*high, [1.0; L]]
    }

    #[inline(always)]
    fn step(&mut self, [high, low]: [&Row<L>; 2]) -> [Row<L>; 2] {
        let share = self.share;
        let [peak, anew] = lanes([&self.peak, high, low], |[peak, high, low]| {
            let anew = low < peak * share;
            [choose(anew | (high > peak), high, peak), choose(anew, 1.0, 0.0)]
        });
        self.peak = peak;
        [peak, anew]
    }
}

/// The same with branches.
#[derive(Clone)]
struct PeakBranches {
    share: f64,
    peak: Option<f64>,
}

impl Machine<2, 2> for PeakBranches {
    fn new(params: &[f64]) -> Self {
        PeakBranches { share: params[0], peak: None }
    }

    fn step(&mut self, [high, low]: [f64; 2]) -> [f64; 2] {
        let Some(peak) = self.peak else {
            self.peak = Some(high);
            return [high, 1.0];
        };
        let anew = low < peak * self.share;
        let peak = if anew || high > peak { high } else { peak };
        self.peak = Some(peak);
        [peak, if anew { 1.0 } else { 0.0 }]
    }
}

static RULE: MachineDef = MachineDef::rule::<Peak, 1, 2, 2>("test: peak, a rule", |_| 0);
static ROW: MachineDef = MachineDef::rows::<PeakRows<1>, PeakRows<8>, 2, 2>("test: peak, rows", |_| 0);
static BRANCHES: MachineDef = MachineDef::of::<PeakBranches, 2, 2>("test: peak, branches", |_| 0);
/// What it gives is seen later.
static LATE: MachineDef = MachineDef::rule::<Peak, 1, 2, 2>("test: peak, shown late", |_| 45);

/// All of them, for highs that are known from bar 5 on.
static PEAKS: Indicator = Indicator {
    name: "peaks",
    outputs: &["rule", "rule_anew", "rows", "rows_anew", "branches", "branches_anew", "late", "late_anew"],
    build: |a| {
        let inputs = [a.bars.high().shift(5), a.bars.low().shift(2)];
        let machine = |def: &'static MachineDef| a.bars.state_machine(def, &[0.97], &inputs);
        [&RULE, &ROW, &BRANCHES, &LATE].into_iter().flat_map(machine).collect()
    },
    ..Indicator::BASE
};

#[test]
fn three_ways_to_say_a_machine_are_one() {
    same_bits(&PEAKS);
    let selection = select(&[Instance::of(&PEAKS)]);
    for (at, bars) in series().iter().enumerate() {
        let columns = run(&selection.plan, &[bars.series()], How::default()).remove(0);
        for (port, rule) in columns[..2].iter().enumerate() {
            for t in 0..rule.len() {
                assert_eq!(bits(columns[2 + port][t]), bits(rule[t]), "rows, series {at}, bar {t}");
                assert_eq!(bits(columns[4 + port][t]), bits(rule[t]), "branches, series {at}, bar {t}");
                let late = if t < 50 { f64::NAN } else { rule[t] };
                assert_eq!(bits(columns[6 + port][t]), bits(late), "shown late, series {at}, bar {t}");
            }
        }
        // Not in vain: peaks begin anew, and there is none before the inputs are.
        let anew = columns[1].iter().skip(6).filter(|x| **x == 1.0).count();
        assert!(!matches!(at, 0 | 8) || anew > 3, "series {at}: {anew}");
        assert!(columns[0].iter().take(5).all(|x| x.is_nan()));
    }
}

/// Everything that a compiled loop has to get right about states: they change places, are passed on, stay, and are results
/// themselves, the old ones.
#[derive(Clone, Copy)]
struct Juggler;

impl Rule<7, 2, 5> for Juggler {
    fn new(_: &[f64]) -> Self {
        Juggler
    }

    #[inline(always)]
    fn first(&self, [x, y]: [f64; 2]) -> ([f64; 7], [f64; 5]) {
        ([x, y, x + y, x - y, 1.0, 0.5, x], [0.0; 5])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [a, b, c, d, e, half, last]: [V; 7], [x, y]: [V; 2]) -> ([V; 7], [V; 5]) {
        let sum = (c - d) * half + (x - last).size().root() - (y / e).down();
        let odd = !(x.above(y) ^ sum.at_least(c)) | a.is_none();
        let next = [b, a, sum, c, V::either(odd, -e, e), half, x];
        let same = V::either(x.is(last), 1.0, 0.0);
        (next, [a, b, last, sum, V::either(odd & e.differs(0.0), same, V::either(y.at_most(x), 1.0, 0.0))])
    }
}

static JUGGLER: MachineDef = MachineDef::rule::<Juggler, 7, 2, 5>("test: juggler", |_| 3);

/// Alone, and among steps that are compiled with it.
static JUGGLED: Indicator = Indicator {
    name: "juggled",
    outputs: &["a", "b", "last", "sum", "odd", "mixed"],
    build: |a| {
        let inputs = [a.bars.close() * 2.0, a.bars.open()];
        let mut all = a.bars.state_machine(&JUGGLER, &[], &inputs);
        let mixed = all[0] - all[3] + a.bars.close().ema(7);
        all.push(mixed);
        all
    },
    ..Indicator::BASE
};

#[test]
fn states_that_change_places_are_read_before_they_are_overwritten() {
    same_bits(&JUGGLED);
    // Blocks so long that the loop runs for many bars, over the caches and past them.
    let selection = select(&[Instance::of(&JUGGLED)]);
    let bars: Vec<Bars> = (0..8).map(|seed| walk(3000, seed)).collect();
    let all: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let kernels = How { threads: 1, side_by_side: Some(true), compiled: false, ..How::default() };
    let want = run(&selection.plan, &all, kernels);
    for (side_by_side, past) in [(true, true), (true, false), (false, false)] {
        let how = How { compiled: true, side_by_side: Some(side_by_side), past: Some(past), ..kernels };
        let got = run(&selection.plan, &all, how);
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!(got.iter().zip(want).all(|(g, w)| bits(*g) == bits(*w)), "{side_by_side} {past}");
        }
    }
}
