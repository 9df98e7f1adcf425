//! Is one long series in pieces, or eight bars at once, the same to twelve digits, and does it break where one chain breaks?
//! And does a fork of a stream go its own way?
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use gpuforge_indicators::{
    catalogue,
    exec::{Columns, ExecOptions, Series, Stream, run, run_into},
    select::{Instance, Selection, select},
};

/// Rows whose values are which of two means is the greater: the last digit decides.
const HANGS_ON_A_DIGIT: [&str; 3] = ["hilo", "long_run", "ttm_trend"];

/// Rows with every kind of chain, alone and after one another.
const NAMES: [&str; 16] = [
    "sma", "ema", "wma", "rma", "rsi", "atr", "macd", "bbands", "obv", "adx", "mfi", "trix", "dema", "ad",
    "cci", "stoch",
];

fn selection(name: &str) -> Selection {
    select(&[Instance::of(catalogue::find(name).unwrap())])
}

/// A walk in cents, the same for every seed.
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

fn how(relaxed_fp: bool) -> ExecOptions {
    ExecOptions { threads: 1, relaxed_fp, ..ExecOptions::default() }
}

/// Every row, in one way and the other.
#[track_caller]
fn all_near(data: &[Vec<f64>; 5], how: [ExecOptions; 2]) {
    let time: Vec<f64> = (0..data[0].len()).map(|t| t as f64 * 60.0).collect();
    for row in catalogue::all().filter(|row| !HANGS_ON_A_DIGIT.contains(&row.name)) {
        let plan = select(&[Instance::of(row)]).plan;
        let bars = Series { time: &time, ..series(data) };
        let [got, want] = how.map(|how| run(&plan, &[bars], how));
        near(row.name, &got[0], &want[0]);
    }
}

#[track_caller]
fn near(name: &str, got: &[Vec<f64>], want: &[Vec<f64>]) {
    for (g, w) in got.iter().zip(want) {
        let scale = w.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
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
fn twelve_digits_are_the_same() {
    for n in [1, 500, 2_300, 10_000, 40_007] {
        let data = bars(n);
        for name in NAMES {
            let plan = selection(name).plan;
            let [got, want] = [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], how(relaxed_fp)));
            near(name, &got[0], &want[0]);
        }
    }
}

#[test]
fn what_stays_in_a_chain_stays_in_its_pieces() {
    for (at, what) in [(900, f64::NAN), (6_000, f64::NAN), (11_990, f64::NAN), (5_000, f64::INFINITY)] {
        let mut data = bars(12_000);
        data.iter_mut().for_each(|column| column[at] = what);
        for name in NAMES {
            let plan = selection(name).plan;
            let [got, want] = [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], how(relaxed_fp)));
            near(name, &got[0], &want[0]);
        }
    }
}

#[test]
fn every_row_whatever_it_is_given() {
    let plain = |how: ExecOptions| ExecOptions { jit: false, ..how };
    for (at, what) in
        [(0, None), (900, Some(f64::NAN)), (7_995, Some(f64::NAN)), (5_000, Some(f64::INFINITY))]
    {
        let mut data = bars(8_003);
        if let Some(what) = what {
            data.iter_mut().for_each(|column| column[at] = what);
        }
        all_near(&data, [how(true), how(false)]);
        // In pieces, where no loops are compiled.
        all_near(&data, [plain(how(true)), plain(how(false))]);
    }
}

#[test]
fn prices_that_do_not_move_stay_as_they_are() {
    let data: [Vec<f64>; 5] = [12.5, 12.5, 12.5, 12.5, 700.0].map(|x| vec![x; 9_000]);
    for name in ["sma", "ema", "rma", "dema", "macd", "atr", "rsi", "trix"] {
        let plan = selection(name).plan;
        let [got, want] = [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], how(relaxed_fp)));
        for (got, want) in got[0].iter().zip(&want[0]) {
            let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(got.iter().zip(want).all(same), "{name}");
        }
    }
}

#[test]
fn a_jump_that_leaves_its_rounding_errors_behind() {
    let mut data = bars(12_000);
    data.iter_mut().for_each(|column| column[4_000] *= 1e12);
    for name in ["sma", "ema", "wma", "rma", "obv"] {
        let plan = selection(name).plan;
        let [got, want] = [true, false].map(|relaxed_fp| run(&plan, &[series(&data)], how(relaxed_fp)));
        near(name, &got[0], &want[0]);
    }
}

#[test]
fn values_do_not_depend_on_where_they_lie() {
    let data = bars(15_000);
    for name in NAMES {
        let selection = selection(name);
        let outputs = selection.columns.len();
        let mut seen: Option<Vec<Vec<u64>>> = None;
        for beyond in 0..9 {
            let mut room = vec![vec![-1.0; 15_000 + 9]; outputs];
            let columns: Columns<'_> = room.iter_mut().map(|c| &mut c[beyond..beyond + 15_000]).collect();
            run_into(&selection.plan, &[series(&data)], &mut [columns], how(true));
            let bits = room.iter().map(|c| c[beyond..beyond + 15_000].iter().map(|x| x.to_bits()).collect());
            let bits: Vec<Vec<u64>> = bits.collect();
            assert!(room.iter().all(|c| c[..beyond].iter().chain(&c[beyond + 15_000..]).all(|x| *x == -1.0)));
            assert_eq!(
                seen.get_or_insert_with(|| bits.clone()),
                &bits,
                "{name}, {beyond} numbers further on"
            );
        }
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let data = bars(700);
    for name in NAMES {
        let plan = selection(name).plan;
        let outputs = plan.starts().len();
        let part = |from: usize, to: usize| {
            let [open, high, low, close, volume] = data.each_ref().map(|c| &c[from..to]);
            Series { open, high, low, close, volume, time: &[] }
        };
        let push = |stream: &mut Stream<&_>, bars: Series<'_>| {
            let mut room = vec![vec![0.0; bars.close.len()]; outputs];
            stream.push(&bars, &mut room.iter_mut().map(Vec::as_mut_slice).collect());
            room
        };
        let mut stream = Stream::new(&plan, ExecOptions { block: Some(64), ..how(false) });
        push(&mut stream, part(0, 400));
        let mut fork = stream.fork();
        let other = push(&mut fork, part(0, 150));
        let want = push(&mut stream, part(400, 700));
        assert_eq!((fork.bars(), stream.bars()), (550, 700));
        let whole = run(&plan, &[part(0, 700)], how(false));
        for (column, (whole, other)) in want.iter().zip(whole[0].iter().zip(&other)) {
            for ((a, b), at) in column.iter().zip(&whole[400..]).zip(400..) {
                assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{name} at {at}: {a}, {b}");
            }
            assert_ne!(&column[..150], other.as_slice(), "{name}");
        }
    }
}
