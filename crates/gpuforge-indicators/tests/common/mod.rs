//! Test fixtures: synthetic bars, TA-Lib by function name, comparison with tolerance.
#![allow(dead_code, reason = "each test file uses a part of it")]

use gpuforge_indicators::{
    catalogue::Indicator,
    exec::{ExecOptions, Series, run},
    select::{Instance, select},
};
use ta_lib::{
    Core,
    abstract_api::{InputType, OptInputType, OutputType, get_func_handle},
};

pub(crate) mod cases;

/// Bars of one series.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bars {
    pub(crate) open: Vec<f64>,
    pub(crate) high: Vec<f64>,
    pub(crate) low: Vec<f64>,
    pub(crate) close: Vec<f64>,
    pub(crate) volume: Vec<f64>,
    pub(crate) time: Vec<f64>,
}

impl Bars {
    pub(crate) fn series(&self) -> Series<'_> {
        Series {
            open: &self.open,
            high: &self.high,
            low: &self.low,
            close: &self.close,
            volume: &self.volume,
            time: &self.time,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.close.len()
    }

    /// The first `n` bars.
    pub(crate) fn first(&self, n: usize) -> Bars {
        self.between(0, n)
    }

    /// Slice of bars.
    pub(crate) fn between(&self, from: usize, to: usize) -> Bars {
        let cut = |v: &Vec<f64>| v[from.min(v.len())..to.min(v.len())].to_vec();
        Bars {
            open: cut(&self.open),
            high: cut(&self.high),
            low: cut(&self.low),
            close: cut(&self.close),
            volume: cut(&self.volume),
            time: cut(&self.time),
        }
    }
}

/// Deterministic LCG.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as f64) / (1u64 << 31) as f64
    }
}

fn bars_of(n: usize, mut bar: impl FnMut(usize, f64) -> (f64, f64, f64, f64, f64)) -> Bars {
    let mut bars = Bars::default();
    let mut last = 100.0;
    for t in 0..n {
        let (o, h, l, c, v) = bar(t, last);
        last = c;
        bars.open.push(o);
        bars.high.push(h);
        bars.low.push(l);
        bars.close.push(c);
        bars.volume.push(v);
        bars.time.push(1_700_000_000.0 + 60.0 * t as f64);
    }
    bars
}

fn cents(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

/// A random walk in cents, with the gaps and quiet bars of a market.
pub(crate) fn walk(n: usize, seed: u64) -> Bars {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    bars_of(n, |_, last| {
        let gap = if r.next() < 0.02 { (r.next() - 0.5) * 4.0 } else { 0.0 };
        let open = cents((last + gap + (r.next() - 0.5) * 0.2).max(1.0));
        let close = cents((open + (r.next() - 0.5) * 2.0).max(1.0));
        let high = cents(open.max(close) + r.next() * 0.7);
        let low = cents((open.min(close) - r.next() * 0.7).max(0.5));
        let volume = if r.next() < 0.01 { 0.0 } else { (r.next() * 10_000.0).floor() };
        (open, high, low, close, volume)
    })
}

/// Minutes of a market: moves in proportion to the price, days with a gap between them, bars without a trade.
pub(crate) fn market(n: usize, seed: u64) -> Bars {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    bars_of(n, |t, last| {
        // The sum of four is nearly normal.
        let mut normal = || (r.next() + r.next() + r.next() + r.next() - 2.0) * 1.7;
        let gap = if t % 390 == 0 { 0.008 * normal() } else { 0.0002 * normal() };
        let open = cents(last * (1.0 + gap));
        let close = cents(open * (1.0 + 0.0007 * normal()));
        let (up, down) = (0.0004 * normal().abs(), 0.0004 * normal().abs());
        let high = cents(open.max(close) * (1.0 + up));
        let low = cents(open.min(close) * (1.0 - down));
        let volume = if r.next() < 0.01 { 0.0 } else { (r.next() * 20_000.0).floor() };
        (open, high, low, close, volume)
    })
}

/// Nothing moves.
pub(crate) fn flat(n: usize) -> Bars {
    bars_of(n, |_, _| (50.0, 50.0, 50.0, 50.0, 1000.0))
}

/// Always up, or always down.
pub(crate) fn monotone(n: usize, step: f64) -> Bars {
    let from = if step < 0.0 { 100.0 - step * n as f64 } else { 100.0 };
    bars_of(n, |t, _| {
        let c = from + step * t as f64;
        // Whole quarters and eighths: what should be equal is equal.
        (c - step / 2.0, c + 0.25, c - 0.75, c, 500.0 + t as f64)
    })
}

/// Monotone with uneven steps: unlike on a straight line, differences of averages are not pure rounding.
pub(crate) fn uneven(n: usize, step: f64) -> Bars {
    let mut r = Random(0x57e9);
    let mut c = if step < 0.0 { 100.0 - 8.0 * step * n as f64 } else { 100.0 };
    bars_of(n, |t, _| {
        c += step * (r.next() * 8.0).ceil();
        (c - step / 2.0, c + 0.25 * (r.next() * 4.0).ceil(), c - 0.75, c, 500.0 + t as f64)
    })
}

/// A walk with zero volume.
pub(crate) fn no_volume(n: usize) -> Bars {
    let mut bars = walk(n, 99);
    bars.volume.fill(0.0);
    bars
}

/// A walk at a high price level: moves are a ten-thousandth of the price.
pub(crate) fn high(n: usize) -> Bars {
    let mut bars = walk(n, 23);
    for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
        // Whole 128ths, so that adding the level is exact.
        column.iter_mut().for_each(|x| *x = (*x * 128.0).round() / 128.0 + 16_384.0);
    }
    bars
}

/// Prices that jump to three times as much, or to a third, every now and then.
pub(crate) fn gaps(n: usize) -> Bars {
    let mut r = Random(0x5eed);
    let mut bars = walk(n, 17);
    let mut times = 1.0;
    for t in 0..n {
        if r.next() < 0.02 {
            times = if times > 20.0 || (times > 0.1 && r.next() < 0.5) { times / 3.0 } else { times * 3.0 };
        }
        for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
            column[t] = cents(column[t] * times);
        }
    }
    bars
}

/// A trading halt in the middle third: constant price, no volume.
pub(crate) fn halt(n: usize) -> Bars {
    let mut bars = walk(n, 5);
    let (from, to) = (n / 3, 2 * n / 3);
    let price = if from == 0 { 100.0 } else { bars.close[from - 1] };
    for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
        column[from..to].fill(price);
    }
    bars.volume[from..to].fill(0.0);
    bars
}

/// Our result for one row: one vector per output.
pub(crate) fn ours(row: &'static Indicator, params: &[f64], bars: &Bars) -> Vec<Vec<f64>> {
    let selection = select(&[Instance::with(row, params)]);
    run(&selection.plan, &[bars.series()], ExecOptions { threads: 1, ..ExecOptions::default() }).remove(0)
}

/// Which outputs of a row are integers in TA-Lib.
pub(crate) fn integer_outputs(row: &Indicator) -> Vec<bool> {
    let found = row.aliases.first().and_then(|alias| get_func_handle(alias));
    found.map_or_else(Vec::new, |id| id.info().outputs.iter().map(|o| o.kind != OutputType::Real).collect())
}

/// TA-Lib's result for a row: one vector per output, NaN during the warm-up.
pub(crate) fn talib(row: &Indicator, params: &[f64], bars: &Bars) -> Result<Vec<Vec<f64>>, String> {
    let alias = row.aliases.first().ok_or("it has no alias")?;
    let id = get_func_handle(alias).ok_or_else(|| format!("it has no function {alias}"))?;
    let core = Core::new();
    let info = id.info();
    let n = bars.len();
    if n == 0 {
        return Ok(vec![Vec::new(); info.outputs.len()]);
    }
    let mut reals = vec![vec![f64::NAN; n]; info.outputs.len()];
    let mut ints = vec![vec![0i32; n]; info.outputs.len()];
    let mut call = id.new_call(&core);
    let fail = |what: &str, e: ta_lib::RetCode| format!("{what}: {e:?}");
    let mut real = 0;
    for (slot, input) in info.inputs.iter().enumerate() {
        match input.kind {
            InputType::Price => call
                .set_price_input(
                    slot,
                    Some(&bars.open),
                    Some(&bars.high),
                    Some(&bars.low),
                    Some(&bars.close),
                    Some(&bars.volume),
                    None,
                )
                .map_err(|e| fail("price", e))?,
            _ => {
                real += 1;
                call.set_input(slot, real_input(row, real - 1, bars)).map_err(|e| fail("input", e))?
            }
        };
    }
    if params.len() != info.opt_inputs.len() {
        return Err(format!("it has {} parameters, the row {}", info.opt_inputs.len(), params.len()));
    }
    for (at, (opt, x)) in info.opt_inputs.iter().zip(params).enumerate() {
        match opt.kind {
            OptInputType::RealRange { .. } | OptInputType::RealList { .. } => {
                call.set_opt_input(at, *x).map_err(|e| fail(opt.param_name, e))?
            }
            _ => call.set_opt_input(at, *x as i32).map_err(|e| fail(opt.param_name, e))?,
        };
    }
    for (at, (real, int)) in reals.iter_mut().zip(&mut ints).enumerate() {
        match info.outputs[at].kind {
            OutputType::Real => call.set_output(at, real).map_err(|e| fail("output", e))?,
            _ => call.set_int_output(at, int).map_err(|e| fail("output", e))?,
        };
    }
    let range = call.call(0, n - 1).map_err(|e| fail("call", e))?;
    let place = |(at, real): (usize, &Vec<f64>)| {
        let mut column = vec![f64::NAN; n];
        for i in 0..range.count {
            let int = info.outputs[at].kind != OutputType::Real;
            column[range.beg_idx + i] = if int { f64::from(ints[at][i]) } else { real[i] };
        }
        column
    };
    Ok(reals.iter().enumerate().map(place).collect())
}

/// A real input of a function: the input column of the row.
fn real_input<'a>(row: &Indicator, at: usize, bars: &'a Bars) -> &'a [f64] {
    use gpuforge_indicators::graph::Field;
    match row.inputs.get(at) {
        Some(Field::Volume) => &bars.volume,
        Some(Field::High) => &bars.high,
        Some(Field::Low) => &bars.low,
        Some(Field::Open) => &bars.open,
        _ => &bars.close,
    }
}

/// Relative tolerance.
pub(crate) const BOUND: f64 = 1e-9;

/// Max error relative to the value or the column's scale; a message if it exceeds the tolerance.
pub(crate) fn compare(got: &[Vec<f64>], want: &[Vec<f64>], exact: bool) -> Result<f64, String> {
    compare_by(got, want, |_| exact)
}

/// The same, with some outputs exact.
pub(crate) fn compare_by(
    got: &[Vec<f64>],
    want: &[Vec<f64>],
    exact: impl Fn(usize) -> bool,
) -> Result<f64, String> {
    if got.len() != want.len() {
        return Err(format!("{} outputs, not {}", got.len(), want.len()));
    }
    let mut worst = 0f64;
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        if got.len() != want.len() {
            return Err(format!("output {at}: {} values, not {}", got.len(), want.len()));
        }
        let finite = want.iter().filter(|x| x.is_finite());
        let scale = finite.map(|x| x.abs()).fold(0.0, f64::max);
        for (t, (g, w)) in got.iter().zip(want).enumerate() {
            if g.is_nan() && w.is_nan() || g == w {
                continue;
            }
            let error = (g - w).abs() / w.abs().max(scale).max(f64::MIN_POSITIVE);
            let limit = if exact(at) { 0.0 } else { BOUND };
            if error.is_nan() || error > limit {
                return Err(format!("output {at}, bar {t}: {g} instead of {w} (error {error:.1e})"));
            }
            worst = worst.max(error);
        }
    }
    Ok(worst)
}
