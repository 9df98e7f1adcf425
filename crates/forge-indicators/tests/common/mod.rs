//! Bars to test with, TA-Lib by name, and what counts as equal.
#![allow(dead_code, reason = "each test file uses a part of it")]

use forge_indicators::{catalogue::Indicator, exec::Series};
use ta_lib::{
    Core,
    abstract_api::{InputType, OptInputType, OutputType, get_func_handle},
};

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
        let cut = |v: &Vec<f64>| v[..n.min(v.len())].to_vec();
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

/// A small generator: the same numbers everywhere.
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

/// Nothing moves.
pub(crate) fn flat(n: usize) -> Bars {
    bars_of(n, |_, _| (50.0, 50.0, 50.0, 50.0, 1000.0))
}

/// Always up, or always down.
pub(crate) fn monotone(n: usize, step: f64) -> Bars {
    let from = if step < 0.0 { 100.0 - step * n as f64 } else { 100.0 };
    bars_of(n, |t, _| {
        let c = from + step * t as f64;
        (c - step / 2.0, c + 0.3, c - 0.7, c, 500.0 + t as f64)
    })
}

/// Nobody trades.
pub(crate) fn no_volume(n: usize) -> Bars {
    let mut bars = walk(n, 99);
    bars.volume.fill(0.0);
    bars
}

/// One comparison.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bars: Bars,
    pub(crate) params: Vec<f64>,
}

/// What a row is tried with.
pub(crate) fn cases(row: &'static Indicator) -> Vec<Case> {
    let mut r = Random(row.name.bytes().fold(7, |h: u64, b| h.wrapping_mul(31).wrapping_add(u64::from(b))));
    let mut sets = vec![row.defaults()];
    for _ in 0..4 {
        let pick = |p: &forge_indicators::catalogue::Param| {
            // Small windows: a test of 400 bars must reach past them.
            let (lo, hi) =
                (p.min, p.max.min(p.min.max(2.0) + 38.0).min(p.default.abs().max(1.0) * 3.0 + 2.0));
            let x = lo + r.next() * (hi.max(lo) - lo);
            match p {
                _ if p.even => (x / 2.0).round() * 2.0,
                _ if p.whole => x.round(),
                _ => (x * 100.0).round() / 100.0,
            }
        };
        sets.push(row.params.iter().map(pick).collect());
    }
    let mut cases = Vec::new();
    for (i, params) in sets.into_iter().enumerate() {
        let mut case = |name: String, bars: Bars| cases.push(Case { name, bars, params: params.clone() });
        case("a walk of 1500".into(), walk(1500, 3 + i as u64));
        if i == 0 {
            case("a walk of 20000".into(), walk(20_000, 1));
            case("a flat series".into(), flat(600));
            case("a rising series".into(), monotone(600, 0.25));
            case("a falling series".into(), monotone(600, -0.25));
            case("no volume".into(), no_volume(600));
        }
        for n in [0, 1, 2, 3, 5, 10, 20, 33, 34, 40, 60, 90, 130] {
            case(format!("{n} bars"), walk(n, 11));
        }
    }
    cases
}

/// A row's function of TA-Lib: one vector per output, NaN before the first.
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
    let columns = [&bars.close, &bars.high, &bars.low, &bars.volume];
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
                let column = if real == 1 { source(row, bars) } else { columns[(real - 1) % 4] };
                call.set_input(slot, column).map_err(|e| fail("input", e))?
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

/// What the first real input of a function is: the column that the row reads first.
fn source<'a>(row: &Indicator, bars: &'a Bars) -> &'a [f64] {
    use forge_indicators::graph::Field;
    match row.inputs.first() {
        Some(Field::Volume) => &bars.volume,
        Some(Field::High) => &bars.high,
        Some(Field::Low) => &bars.low,
        Some(Field::Open) => &bars.open,
        _ => &bars.close,
    }
}

/// The worst error, as a share of the value or of the column's scale; an explanation when it is too large.
pub(crate) fn compare(got: &[Vec<f64>], want: &[Vec<f64>], exact: bool) -> Result<f64, String> {
    if got.len() != want.len() {
        return Err(format!("{} outputs, TA-Lib has {}", got.len(), want.len()));
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
            let limit = if exact { 0.0 } else { 1e-9 };
            if error.is_nan() || error > limit {
                return Err(format!("output {at}, bar {t}: {g} instead of {w} (error {error:.1e})"));
            }
            worst = worst.max(error);
        }
    }
    Ok(worst)
}
