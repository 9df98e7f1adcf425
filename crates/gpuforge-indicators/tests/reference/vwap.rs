//! Reference implementations of anchored VWAP, its bands and support/resistance: find the anchor, sum from there.

use crate::{
    columns::Reference,
    common::{Bars, compare, ours, talib, walk},
};
use gpuforge_indicators::{
    catalogue::{self, Indicator},
    exec::{ExecOptions, run},
    select::{Instance, select},
};

/// Every row, by its name.
pub(super) const REFERENCES: &[(&str, Reference)] = &[
    ("avwap", |b, p| lines(b, 1, |t| anchor(b, p, t))),
    ("avwap_bands", |b, p| lines(b, 7, |t| anchor(b, p, t))),
    ("avwap_final", |b, p| lines(b, 7, |t| final_anchor(b, p, t))),
    ("support_resistance", |b, p| distance(b, p[0] as usize)),
];

fn typical(bars: &Bars, t: usize) -> f64 {
    (bars.high[t] + bars.low[t] + bars.close[t]) / 3.0
}

/// Mean and deviation of the bars `from..=t`, in two passes.
fn weighted(bars: &Bars, from: usize, t: usize) -> (f64, f64) {
    let weight: f64 = bars.volume[from..=t].iter().sum();
    if weight == 0.0 {
        return (typical(bars, t), 0.0);
    }
    let base = typical(bars, from);
    let sum: f64 = (from..=t).map(|s| bars.volume[s] * (typical(bars, s) - base)).sum();
    let mean = base + sum / weight;
    let squares: f64 = (from..=t).map(|s| bars.volume[s] * (typical(bars, s) - mean).powi(2)).sum();
    (mean, (squares / weight).sqrt())
}

/// Year and month of a day, by counting years and months.
fn month_of(day: i64) -> (i64, usize) {
    let leap = |y: i64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let (mut year, mut rest) = (1970, day);
    while rest < 0 {
        year -= 1;
        rest += if leap(year) { 366 } else { 365 };
    }
    while rest >= if leap(year) { 366 } else { 365 } {
        rest -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while rest >= lengths[month] {
        rest -= lengths[month];
        month += 1;
    }
    (year, month)
}

fn day_of(bars: &Bars, t: usize, offset: f64) -> i64 {
    ((bars.time[t] + offset) / 86_400.0).floor() as i64
}

/// The first bar of the run with the same key as `t`.
fn first_of<K: PartialEq>(t: usize, key: impl Fn(usize) -> K) -> usize {
    (0..=t).rev().take_while(|s| key(*s) == key(t)).last().unwrap()
}

/// The first bar of `from..to` with the max value.
fn best(from: usize, to: usize, x: impl Fn(usize) -> f64) -> usize {
    (from..to).fold(from, |best, s| if x(s) > x(best) { s } else { best })
}

fn extreme(bars: &Bars, which: usize) -> impl Fn(usize) -> f64 + '_ {
    move |s| match which {
        0 => bars.high[s],
        1 => -bars.low[s],
        _ => bars.volume[s],
    }
}

/// Anchor bar of bar `t`.
fn anchor(bars: &Bars, p: &[f64], t: usize) -> Option<usize> {
    let (kind, offset, session, at) = (p[0] as usize, p[1], p[2], p[3]);
    let day = |s: usize| day_of(bars, s, offset);
    let begin = first_of(t, day);
    match kind {
        0 => Some(0),
        1 => Some(first_of(t, |s| day_of(bars, s, offset - session))),
        2 => Some(begin),
        3 => Some(first_of(t, |s| (day(s) + 3).div_euclid(7))),
        4 => Some(first_of(t, |s| month_of(day(s)))),
        5..=7 => Some(best(begin, t + 1, extreme(bars, kind - 5))),
        8..=10 if begin == 0 => Some(0),
        8..=10 => Some(best(first_of(begin - 1, day), begin, extreme(bars, kind - 8))),
        11 => Some((t + 1).saturating_sub(at.max(1.0) as usize)),
        12 => Some(at as usize).filter(|at| *at <= t),
        _ => (0..=t).find(|s| bars.time[*s] >= at),
    }
}

fn lines(bars: &Bars, outputs: usize, anchor: impl Fn(usize) -> Option<usize>) -> Vec<Vec<f64>> {
    let mut columns = vec![Vec::new(); outputs];
    for t in 0..bars.len() {
        let (mean, deviation) = anchor(t).map_or((f64::NAN, f64::NAN), |from| weighted(bars, from, t));
        for (at, column) in columns.iter_mut().enumerate() {
            let k = at.div_ceil(2) as f64 * if at % 2 == 1 { 1.0 } else { -1.0 };
            column.push(if at == 0 { mean } else { mean + k * deviation });
        }
    }
    columns
}

/// The bar of the day's final record if reached, else that of the previous day, else the first bar.
fn final_anchor(bars: &Bars, p: &[f64], t: usize) -> Option<usize> {
    let day = |s: usize| day_of(bars, s, p[1]);
    let mut begin = first_of(t, day);
    loop {
        let end = (begin..bars.len()).find(|s| day(*s) != day(begin)).unwrap_or(bars.len());
        let bar = best(begin, end, extreme(bars, p[0] as usize));
        if bar <= t {
            return Some(bar);
        }
        if begin == 0 {
            return Some(0);
        }
        begin = first_of(begin - 1, day);
    }
}

fn distance(bars: &Bars, n: usize) -> Vec<Vec<f64>> {
    let at = |t: usize| {
        let from = (t + 1).checked_sub(n)?;
        let top = bars.high[from..=t].iter().copied().fold(f64::MIN, f64::max);
        let bottom = bars.low[from..=t].iter().copied().fold(f64::MAX, f64::min);
        let (up, down) = ((top - bars.close[t]) / bars.close[t], (bars.close[t] - bottom) / bars.close[t]);
        Some(if up <= down { up } else { -down })
    };
    vec![(0..bars.len()).map(|t| at(t).unwrap_or(f64::NAN)).collect()]
}

fn check(row: &'static Indicator, params: &[f64], bars: &Bars, what: &str) {
    let (_, reference) = REFERENCES.iter().find(|(name, _)| *name == row.name).unwrap();
    let want = reference(bars, params);
    if let Err(why) = compare(&ours(row, params, bars), &want, false) {
        panic!("{} {params:?} on {what}: {why}", row.name);
    }
}

/// Bars this many seconds apart, with gaps in time.
fn spaced(n: usize, seconds: f64) -> Bars {
    let mut bars = walk(n, 21);
    for (t, time) in bars.time.iter_mut().enumerate() {
        *time = 1_698_000_000.0 + seconds * (t + 40 * (t / 100)) as f64;
    }
    bars
}

#[test]
fn all_anchors_match_the_reference_at_several_intervals_and_utc_offsets() {
    let row = catalogue::find("avwap_bands").unwrap();
    for seconds in [60.0, 3600.0, 20_000.0] {
        let bars = spaced(900, seconds);
        for kind in 0..=13 {
            for offset in [0.0, -18_000.0, 19_800.0] {
                let at = if kind == 13 { bars.time[317] - 1.0 } else { 37.0 };
                check(row, &[f64::from(kind), offset, 34_200.0, at], &bars, &format!("bars of {seconds} s"));
            }
        }
    }
}

#[test]
fn final_record_anchors_match_the_reference() {
    let row = catalogue::find("avwap_final").unwrap();
    assert!(!row.causal);
    for seconds in [60.0, 3600.0] {
        let bars = spaced(900, seconds);
        for kind in 0..3 {
            for offset in [0.0, -18_000.0] {
                check(row, &[f64::from(kind), offset], &bars, &format!("bars of {seconds} s"));
            }
        }
    }
}

#[test]
fn whole_series_columns_do_not_depend_on_blocks_or_other_series() {
    let row = catalogue::find("avwap_final").unwrap();
    let selection = select(&[Instance::of(row)]);
    let all: Vec<Bars> = (0..11).map(|i| spaced(200 + 70 * i, 3600.0)).collect();
    let series: Vec<_> = all.iter().map(Bars::series).collect();
    let together = run(&selection.plan, &series, ExecOptions { block: Some(17), ..ExecOptions::default() });
    for (bars, got) in all.iter().zip(together) {
        let alone = ours(row, &row.defaults(), bars);
        let bits = |c: &[Vec<f64>]| c.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&alone));
    }
}

#[test]
fn avwap_equals_talib_vwap_of_the_slice_from_the_anchor() {
    let (bars, vwap) = (spaced(900, 3600.0), catalogue::find("vwap").unwrap());
    let got = ours(catalogue::find("avwap").unwrap(), &[12.0, 0.0, 0.0, 250.0], &bars).remove(0);
    let cut = |v: &[f64]| v[250..].to_vec();
    let slice = Bars {
        open: cut(&bars.open),
        high: cut(&bars.high),
        low: cut(&bars.low),
        close: cut(&bars.close),
        volume: cut(&bars.volume),
        time: cut(&bars.time),
    };
    compare(&[cut(&got)], &talib(vwap, &[], &slice).unwrap(), false).unwrap();
    assert!(got[..250].iter().all(|x| x.is_nan()));
}

/// No cancellation at a price of a million with cent steps.
#[test]
fn deviation_does_not_lose_precision_at_high_price_levels() {
    let low = spaced(900, 60.0);
    let mut high = low.clone();
    for column in [&mut high.high, &mut high.low, &mut high.close] {
        // 2^20: adding it to prices that are multiples of 2^-7 is exact.
        column.iter_mut().for_each(|x| *x = (*x * 128.0).round() / 128.0 + 1_048_576.0);
    }
    let mut base = high.clone();
    for column in [&mut base.high, &mut base.low, &mut base.close] {
        column.iter_mut().for_each(|x| *x -= 1_048_576.0);
    }
    let row = catalogue::find("avwap_bands").unwrap();
    let width = |bars: &Bars| {
        let c = ours(row, &[0.0, 0.0, 0.0, 0.0], bars);
        c[5].iter().zip(&c[6]).map(|(u, l)| u - l).collect::<Vec<_>>()
    };
    for (t, (a, b)) in width(&high).iter().zip(&width(&base)).enumerate() {
        assert!((a - b).abs() < 1e-8, "bar {t}: {a} and {b}");
    }
}

#[test]
fn non_finite_bars_have_no_weight() {
    let mut bars = spaced(300, 3600.0);
    bars.volume[0] = f64::NAN;
    bars.close[40] = f64::NAN;
    bars.volume[41] = f64::INFINITY;
    let got = ours(catalogue::find("vwap").unwrap(), &[], &bars).remove(0);
    let want = talib(catalogue::find("vwap").unwrap(), &[], &bars).unwrap();
    compare(&[got], &want, false).unwrap();
}
