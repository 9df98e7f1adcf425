//! Relaxed floating point (chunked recurrences, prefix scans) against the sequential result: equal to twelve digits, NaN and
//! infinity included; and prefix-stable: a value does not depend on the bars that follow. And forks of streams are independent.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use gpuforge_indicators::{
    catalogue,
    exec::{Columns, ExecOptions, Series, Stream, run, run_into},
    select::{Instance, Selection, select},
};

/// Indicators that compare two averages: the last digit decides.
const DISCONTINUOUS: [&str; 3] = ["hilo", "long_run", "ttm_trend"];

/// Indicators with every kind of recurrence, single and nested.
const NAMES: [&str; 16] = [
    "sma", "ema", "wma", "rma", "rsi", "atr", "macd", "bbands", "obv", "adx", "mfi", "trix", "dema", "ad",
    "cci", "stoch",
];

fn selection(name: &str) -> Selection {
    select(&[Instance::of(catalogue::find(name).unwrap())])
}

/// A seeded random walk in cents.
fn walk(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut price = 10_000i64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        price = (price + (state % 141) as i64 - 70).max(100);
        price as f64 / 100.0
    };
    (0..n).map(step).collect()
}

/// Columns of bars: open, high, low, close, volume.
fn bars(n: usize) -> [Vec<f64>; 5] {
    let (open, close) = (walk(n, 1), walk(n, 1).into_iter().skip(1).chain([100.0]).collect::<Vec<f64>>());
    let high = open.iter().zip(&close).map(|(o, c)| o.max(*c) + 0.25).collect();
    let low = open.iter().zip(&close).map(|(o, c)| o.min(*c) - 0.5).collect();
    let volume = walk(n, 7).iter().map(|x| (x * 10.0).floor()).collect();
    [open, high, low, close, volume]
}

fn series([open, high, low, close, volume]: &[Vec<f64>; 5]) -> Series<'_> {
    Series { open, high, low, close, volume, time: &[] }
}

fn options(relaxed_fp: bool) -> ExecOptions {
    ExecOptions { threads: 1, relaxed_fp, ..ExecOptions::default() }
}

/// Every indicator, with both options.
#[track_caller]
fn all_near(data: &[Vec<f64>; 5], both: [ExecOptions; 2]) {
    let time: Vec<f64> = (0..data[0].len()).map(|t| t as f64 * 60.0).collect();
    for row in catalogue::all().filter(|row| !DISCONTINUOUS.contains(&row.name)) {
        let plan = select(&[Instance::of(row)]).plan;
        let bars = Series { time: &time, ..series(data) };
        let [got, want] = both.map(|options| run(&plan, &[bars], options));
        near(row.name, &got[0], &want[0]);
    }
}

#[track_caller]
fn near(name: &str, got: &[Vec<f64>], want: &[Vec<f64>]) {
    for (g, w) in got.iter().zip(want) {
        let scale = w.iter().filter(|x| x.is_finite()).fold(0.0f64, |max, x| max.max(x.abs()));
        for (t, (g, w)) in g.iter().zip(w).enumerate() {
            assert_eq!(g.is_nan(), w.is_nan(), "{name} at {t}: {g} instead of {w}");
            assert!(
                w.is_nan() || g == w || (g - w).abs() <= 1e-11 * scale,
                "{name} at {t}: {g} instead of {w}"
            );
        }
    }
}

#[test]
fn relaxed_results_equal_sequential_ones_to_twelve_digits() {
    for n in [1, 500, 2_300, 10_000, 40_007] {
        let data = bars(n);
        for name in NAMES {
            let plan = selection(name).plan;
            let [got, want] =
                [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], options(relaxed_fp)));
            near(name, &got[0], &want[0]);
        }
    }
}

#[test]
fn nan_and_infinity_stay_in_a_relaxed_recurrence() {
    for (at, what) in [(900, f64::NAN), (6_000, f64::NAN), (11_990, f64::NAN), (5_000, f64::INFINITY)] {
        let mut data = bars(12_000);
        data.iter_mut().for_each(|column| column[at] = what);
        for name in NAMES {
            let plan = selection(name).plan;
            let [got, want] =
                [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], options(relaxed_fp)));
            near(name, &got[0], &want[0]);
        }
    }
}

#[test]
fn every_indicator_is_close_with_and_without_jit_on_irregular_input() {
    let kernels = |options: ExecOptions| ExecOptions { jit: false, ..options };
    for (at, what) in
        [(0, None), (900, Some(f64::NAN)), (7_995, Some(f64::NAN)), (5_000, Some(f64::INFINITY))]
    {
        let mut data = bars(8_003);
        if let Some(what) = what {
            data.iter_mut().for_each(|column| column[at] = what);
        }
        all_near(&data, [options(true), options(false)]);
        // Chunked kernels, without the JIT.
        all_near(&data, [kernels(options(true)), kernels(options(false))]);
    }
}

#[test]
fn flat_prices_stay_flat_to_the_last_bit() {
    let data: [Vec<f64>; 5] = [12.5, 12.5, 12.5, 12.5, 700.0].map(|x| vec![x; 9_000]);
    for name in ["sma", "ema", "rma", "dema", "macd", "atr", "rsi", "trix"] {
        let plan = selection(name).plan;
        let [got, want] = [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], options(relaxed_fp)));
        for (got, want) in got[0].iter().zip(&want[0]) {
            let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(got.iter().zip(want).all(same), "{name}");
        }
    }
}

#[test]
fn rounding_errors_of_a_jump_do_not_differ() {
    let mut data = bars(12_000);
    data.iter_mut().for_each(|column| column[4_000] *= 1e12);
    for name in ["sma", "ema", "wma", "rma", "obv"] {
        let plan = selection(name).plan;
        let [got, want] = [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], options(relaxed_fp)));
        near(name, &got[0], &want[0]);
    }
}

#[test]
fn values_do_not_depend_on_the_alignment_of_columns() {
    let data = bars(15_000);
    for name in NAMES {
        let selection = selection(name);
        let outputs = selection.columns.len();
        let mut seen: Option<Vec<Vec<u64>>> = None;
        for offset in 0..9 {
            let mut targets = vec![vec![-1.0; 15_000 + 9]; outputs];
            let columns: Columns<'_> = targets.iter_mut().map(|c| &mut c[offset..offset + 15_000]).collect();
            run_into(&selection.plan, &[series(&data)], &mut [columns], options(true));
            let bits =
                targets.iter().map(|c| c[offset..offset + 15_000].iter().map(|x| x.to_bits()).collect());
            let bits: Vec<Vec<u64>> = bits.collect();
            assert!(
                targets.iter().all(|c| c[..offset].iter().chain(&c[offset + 15_000..]).all(|x| *x == -1.0))
            );
            assert_eq!(seen.get_or_insert_with(|| bits.clone()), &bits, "{name}, {offset} doubles of offset");
        }
    }
}

#[test]
fn a_forked_stream_is_independent() {
    let data = bars(700);
    for name in NAMES {
        let plan = selection(name).plan;
        let outputs = plan.starts().len();
        let part = |from: usize, to: usize| {
            let [open, high, low, close, volume] = data.each_ref().map(|c| &c[from..to]);
            Series { open, high, low, close, volume, time: &[] }
        };
        let push = |stream: &mut Stream<&_>, bars: Series<'_>| {
            let mut targets = vec![vec![0.0; bars.close.len()]; outputs];
            stream.push(&bars, &mut targets.iter_mut().map(Vec::as_mut_slice).collect());
            targets
        };
        let mut stream = Stream::new(&plan, ExecOptions { block: Some(64), ..options(false) });
        push(&mut stream, part(0, 400));
        let mut fork = stream.fork();
        let other = push(&mut fork, part(0, 150));
        let want = push(&mut stream, part(400, 700));
        assert_eq!((fork.bars(), stream.bars()), (550, 700));
        let whole = run(&plan, &[part(0, 700)], options(false));
        for (column, (whole, other)) in want.iter().zip(whole[0].iter().zip(&other)) {
            for ((a, b), at) in column.iter().zip(&whole[400..]).zip(400..) {
                assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{name} at {at}: {a}, {b}");
            }
            assert_ne!(&column[..150], other.as_slice(), "{name}");
        }
    }
}

/// Every causal indicator of `data`, of its first bars alone: the same bits as in the whole series.
#[track_caller]
fn prefixes_are_stable(data: &[Vec<f64>; 5], lengths: &[usize], options: ExecOptions) {
    let time: Vec<f64> = (0..data[0].len()).map(|t| t as f64 * 60.0).collect();
    let mut differing = Vec::new();
    for row in catalogue::all() {
        let selection = select(&[Instance::of(row)]);
        // What looks ahead changes as bars arrive.
        if !selection.plan.supports_streaming() {
            continue;
        }
        let whole = run(&selection.plan, &[Series { time: &time, ..series(data) }], options);
        for n in lengths {
            let [open, high, low, close, volume] = data.each_ref().map(|column| &column[..*n]);
            let bars = Series { open, high, low, close, volume, time: &time[..*n] };
            let part = run(&selection.plan, &[bars], options);
            for ((part, whole), column) in part[0].iter().zip(&whole[0]).zip(&selection.columns) {
                let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                if let Some(t) = part.iter().zip(whole).position(|pair| !same(pair)) {
                    differing.push(format!(
                        "{column:?} of {n} bars, bar {t}: {:e}, in the longer series {:e}",
                        part[t], whole[t]
                    ));
                }
            }
        }
    }
    let count = differing.len();
    differing.truncate(20);
    assert!(differing.is_empty(), "{count} differ, the first:\n{}", differing.join("\n"));
}

/// Lengths around iterations of prefix scans, blocks, and the rows from which on Python releases the GIL.
const LENGTHS: [usize; 13] = [1, 7, 8, 9, 63, 100, 1_000, 1_003, 4_095, 4_096, 4_097, 8_191, 19_999];

#[test]
fn a_value_does_not_depend_on_the_bars_that_follow() {
    let data = bars(20_000);
    for jit in [true, false] {
        prefixes_are_stable(&data, &LENGTHS, ExecOptions { jit, ..options(true) });
    }
}

#[test]
fn a_nan_does_not_change_the_bars_before_it() {
    for (at, what) in [(700, f64::NAN), (5_003, f64::NAN), (3_001, f64::INFINITY)] {
        let mut data = bars(6_000);
        data.iter_mut().for_each(|column| column[at] = what);
        let lengths = [-300, -8, -5, -2, -1, 0, 1, 2, 5, 8, 60, 300].map(|n| at.strict_add_signed(n));
        for jit in [true, false] {
            prefixes_are_stable(&data, &lengths, ExecOptions { jit, ..options(true) });
        }
    }
}

/// Zeros and negative zeros, flat prices, a volume of 0.
#[test]
fn prefixes_of_zeros_are_stable() {
    let mut data = bars(3_000);
    data[4].iter_mut().step_by(3).for_each(|volume| *volume = 0.0);
    data[4][..700].fill(0.0);
    data[4][1_000..1_700].fill(-0.0);
    data.iter_mut().take(4).for_each(|column| column[300..800].fill(12.5));
    data.iter_mut().take(4).for_each(|column| column[1_300..1_800].fill(-0.0));
    for jit in [true, false] {
        prefixes_are_stable(
            &data,
            &[9, 333, 700, 701, 999, 1_003, 1_311, 2_999],
            ExecOptions { jit, ..options(true) },
        );
    }
}
