//! State machines: single-series and batched execution are bit-identical, and the three ways to define one are equivalent.
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
    exec::{ExecOptions, Series, run},
    kernel::{
        Row, Simd,
        state_machine::{
            BranchlessMachine, RowStateMachine, StateMachine, StateMachineDef, Value, lanes, select as choose,
        },
    },
    select::{Instance, select},
};

/// Rows with a state machine, at least one per machine.
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

/// With NaNs: single bars, a run of them, and the first and last.
fn with_nans(mut bars: Bars, seed: u64) -> Bars {
    let (n, mut r) = (bars.len(), Random(seed));
    let columns = [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close, &mut bars.volume];
    for column in columns {
        for at in [0, n / 2, n / 2 + 1, n / 2 + 2, n - 1, (r.next() * n as f64) as usize] {
            column[at] = f64::NAN;
        }
    }
    bars
}

/// Nine series of different shapes and lengths: a full batch of eight and a remainder.
fn series() -> Vec<Bars> {
    vec![
        walk(700, 1),
        flat(640),
        with_nans(walk(700, 2), 5),
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

/// Each series alone and scalar, against all of them batched at every SIMD level.
fn same_bits(row: &'static Indicator) {
    let (selection, bars) = (select(&[Instance::of(row)]), series());
    let all: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let alone =
        ExecOptions { threads: 1, simd: Simd::SCALAR, batched: Some(false), ..ExecOptions::default() };
    let want: Vec<Vec<Vec<f64>>> =
        all.iter().map(|one| run(&selection.plan, std::slice::from_ref(one), alone).remove(0)).collect();
    for (simd, block) in Simd::available().flat_map(|simd| [(simd, None), (simd, Some(37))]) {
        let got = run(&selection.plan, &all, ExecOptions { simd, block, batched: Some(true), ..alone });
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            for (name, (got, want)) in selection.columns.iter().zip(got.iter().zip(want)) {
                let differs = (0..want.len()).find(|t| bits(got[*t]) != bits(want[*t]));
                assert_eq!(differs, None, "{name}, series {at}, {simd:?}, blocks of {block:?}");
            }
        }
    }
}

#[test]
fn batched_is_bit_identical_to_single_series() {
    for name in ROWS {
        same_bits(catalogue::find(name).unwrap_or_else(|| panic!("there is no row {name}")));
    }
}

/// Running peak that restarts when the low falls below a fraction of it.
#[derive(Clone, Copy)]
struct Peak {
    share: f64,
}

impl BranchlessMachine<1, 2, 2> for Peak {
    fn new(params: &[f64]) -> Self {
        Peak { share: params[0] }
    }

    #[inline(always)]
    fn first(&self, [high, _]: [f64; 2]) -> ([f64; 1], [f64; 2]) {
        ([high], [high, 1.0])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [peak]: [V; 1], [high, low]: [V; 2]) -> ([V; 1], [V; 2]) {
        let anew = low.cmp_lt(peak * self.share);
        let peak = V::select(anew | high.cmp_gt(peak), high, peak);
        ([peak], [peak, V::select(anew, 1.0, 0.0)])
    }
}

/// The same, as a row machine.
#[derive(Clone)]
struct PeakRows<const L: usize> {
    share: f64,
    peak: Row<L>,
}

impl<const L: usize> RowStateMachine<2, 2, L> for PeakRows<L> {
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

impl StateMachine<2, 2> for PeakBranches {
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

static RULE: StateMachineDef = StateMachineDef::branchless::<Peak, 1, 2, 2>("test: peak, a rule", |_| 0);
static ROW: StateMachineDef =
    StateMachineDef::rows::<PeakRows<1>, PeakRows<8>, 2, 2>("test: peak, rows", |_| 0);
static BRANCHES: StateMachineDef = StateMachineDef::of::<PeakBranches, 2, 2>("test: peak, branches", |_| 0);
/// With a warm-up.
static LATE: StateMachineDef = StateMachineDef::branchless::<Peak, 1, 2, 2>("test: peak, shown late", |_| 45);

/// All of them, on inputs with a start of 5.
static PEAKS: Indicator = Indicator {
    name: "peaks",
    outputs: &["rule", "rule_anew", "rows", "rows_anew", "branches", "branches_anew", "late", "late_anew"],
    build: |a| {
        let inputs = [a.bars.high().shift(5), a.bars.low().shift(2)];
        let machine = |def: &'static StateMachineDef| a.bars.state_machine(def, &[0.97], &inputs);
        [&RULE, &ROW, &BRANCHES, &LATE].into_iter().flat_map(machine).collect()
    },
    ..Indicator::BASE
};

#[test]
fn branchless_row_and_scalar_definitions_are_equivalent() {
    same_bits(&PEAKS);
    let selection = select(&[Instance::of(&PEAKS)]);
    for (at, bars) in series().iter().enumerate() {
        let columns = run(&selection.plan, &[bars.series()], ExecOptions::default()).remove(0);
        for (port, rule) in columns[..2].iter().enumerate() {
            for t in 0..rule.len() {
                assert_eq!(bits(columns[2 + port][t]), bits(rule[t]), "rows, series {at}, bar {t}");
                assert_eq!(bits(columns[4 + port][t]), bits(rule[t]), "branches, series {at}, bar {t}");
                let late = if t < 50 { f64::NAN } else { rule[t] };
                assert_eq!(bits(columns[6 + port][t]), bits(late), "shown late, series {at}, bar {t}");
            }
        }
        // The test is effective: peaks restart, and nothing is valid before the inputs are.
        let anew = columns[1].iter().skip(6).filter(|x| **x == 1.0).count();
        assert!(!matches!(at, 0 | 8) || anew > 3, "series {at}: {anew}");
        assert!(columns[0].iter().take(5).all(|x| x.is_nan()));
    }
}

/// Everything that a compiled loop has to get right about states: they change places, are passed on, stay, and are results
/// themselves, the old ones.
#[derive(Clone, Copy)]
struct Juggler;

impl BranchlessMachine<7, 2, 5> for Juggler {
    fn new(_: &[f64]) -> Self {
        Juggler
    }

    #[inline(always)]
    fn first(&self, [x, y]: [f64; 2]) -> ([f64; 7], [f64; 5]) {
        ([x, y, x + y, x - y, 1.0, 0.5, x], [0.0; 5])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [a, b, c, d, e, half, last]: [V; 7], [x, y]: [V; 2]) -> ([V; 7], [V; 5]) {
        let sum = (c - d) * half + (x - last).abs().sqrt() - (y / e).floor();
        let odd = !(x.cmp_gt(y) ^ sum.cmp_ge(c)) | a.is_nan();
        let next = [b, a, sum, c, V::select(odd, -e, e), half, x];
        let same = V::select(x.cmp_eq(last), 1.0, 0.0);
        (next, [a, b, last, sum, V::select(odd & e.cmp_ne(0.0), same, V::select(y.cmp_le(x), 1.0, 0.0))])
    }
}

static JUGGLER: StateMachineDef = StateMachineDef::branchless::<Juggler, 7, 2, 5>("test: juggler", |_| 3);

/// The machine's outputs, and a step that is JIT-compiled into the same loop.
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
fn swapped_states_are_read_before_they_are_overwritten() {
    same_bits(&JUGGLED);
    // Blocks so long that the loop runs for many bars, over the caches and past them.
    let selection = select(&[Instance::of(&JUGGLED)]);
    let bars: Vec<Bars> = (0..8).map(|seed| walk(3000, seed)).collect();
    let all: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let kernels = ExecOptions { threads: 1, batched: Some(true), jit: false, ..ExecOptions::default() };
    let want = run(&selection.plan, &all, kernels);
    for (batched, past) in [(true, true), (true, false), (false, false)] {
        let how =
            ExecOptions { jit: true, batched: Some(batched), nontemporal_stores: Some(past), ..kernels };
        let got = run(&selection.plan, &all, how);
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!(got.iter().zip(want).all(|(g, w)| bits(*g) == bits(*w)), "{batched} {past}");
        }
    }
}
