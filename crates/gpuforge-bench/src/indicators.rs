//! Indicator throughput: many series and one long one, beside TA-Lib function by function, in one process.
//!
//! Every side writes into preallocated buffers and runs on one thread, unless the case says otherwise. TA-Lib is called
//! through its abstract interface, whose overhead is negligible over a hundred thousand bars.

use std::{hint::black_box, time::Instant};

use anyhow::{Context as _, Result, anyhow};
use gpuforge_indicators::{
    catalogue::{self, Indicator, Oracle},
    exec::{Columns, ExecOptions, Series, run_into},
    graph::Field,
    select::{Instance, Selection, select},
};
use ta_lib::{
    Core,
    abstract_api::{FuncId, InputType, OptInputType, OutputType, get_func_handle},
};

use crate::{
    measure::{Sample, median},
    row::Row,
};

const BENCH: &str = "indicators";
const SERIES: usize = 30;
const BARS: usize = 100_000;
const LONG: usize = 1_000_000;
/// Interleaved rounds; the median counts.
const TURNS: usize = 3;

/// Bars of one series, in cents, with the gaps and quiet bars of a market.
pub(crate) struct Market {
    open: Vec<f64>,
    pub(crate) high: Vec<f64>,
    pub(crate) low: Vec<f64>,
    pub(crate) close: Vec<f64>,
    pub(crate) volume: Vec<f64>,
    time: Vec<f64>,
}

impl Market {
    pub(crate) fn walk(n: usize, seed: u64) -> Market {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        let cents = |x: f64| (x * 100.0).round() / 100.0;
        let column = || Vec::with_capacity(n);
        let mut m = Market {
            open: column(),
            high: column(),
            low: column(),
            close: column(),
            volume: column(),
            time: column(),
        };
        let mut last = 100.0;
        for t in 0..n {
            let gap = if random() < 0.02 { (random() - 0.5) * 4.0 } else { 0.0 };
            let open = cents((last + gap + (random() - 0.5) * 0.2).max(1.0));
            last = cents((open + (random() - 0.5) * 2.0).max(1.0));
            m.open.push(open);
            m.high.push(cents(open.max(last) + random() * 0.7));
            m.low.push(cents((open.min(last) - random() * 0.7).max(0.5)));
            m.close.push(last);
            m.volume.push(if random() < 0.01 { 0.0 } else { (random() * 10_000.0).floor() });
            m.time.push(1_700_000_000.0 + 60.0 * t as f64);
        }
        m
    }

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
}

/// Preallocated buffers for every output of every series.
struct OutputBuffers(Vec<Vec<Vec<f64>>>);

impl OutputBuffers {
    fn new(outputs: usize, series: usize, bars: usize) -> OutputBuffers {
        OutputBuffers(vec![vec![vec![0.0; bars]; outputs]; series])
    }

    fn columns(&mut self, outputs: usize) -> Vec<Columns<'_>> {
        self.0.iter_mut().map(|s| s.iter_mut().take(outputs).map(Vec::as_mut_slice).collect()).collect()
    }
}

/// A function of TA-Lib with the row's parameters.
struct Peer {
    row: &'static Indicator,
    id: FuncId,
    core: Core,
}

impl Peer {
    fn of(row: &'static Indicator) -> Option<Peer> {
        let id = get_func_handle(row.aliases.first()?)?;
        (row.oracle == Oracle::TaLib).then(|| Peer { row, id, core: Core::new() })
    }

    fn run(&self, bars: &Market, real: &mut [Vec<f64>], int: &mut [Vec<i32>]) -> Result<()> {
        let fail = |e: ta_lib::RetCode| anyhow!("{}: {e:?}", self.row.name);
        let info = self.id.info();
        let mut call = self.id.new_call(&self.core);
        let column = |field: &Field| match field {
            Field::Volume => &bars.volume,
            Field::High => &bars.high,
            Field::Low => &bars.low,
            Field::Open => &bars.open,
            _ => &bars.close,
        };
        let mut reals = self.row.inputs.iter().map(column);
        for (slot, input) in info.inputs.iter().enumerate() {
            match input.kind {
                InputType::Price => {
                    let (o, h, l) = (Some(&*bars.open), Some(&*bars.high), Some(&*bars.low));
                    let (c, v) = (Some(&*bars.close), Some(&*bars.volume));
                    call.set_price_input(slot, o, h, l, c, v, None).map_err(fail)?
                }
                _ => call.set_input(slot, reals.next().context("inputs")?).map_err(fail)?,
            };
        }
        for (at, (opt, x)) in info.opt_inputs.iter().zip(self.row.defaults()).enumerate() {
            match opt.kind {
                OptInputType::RealRange { .. } | OptInputType::RealList { .. } => {
                    call.set_opt_input(at, x).map_err(fail)?
                }
                _ => call.set_opt_input(at, x as i32).map_err(fail)?,
            };
        }
        for (at, (out, (real, int))) in info.outputs.iter().zip(real.iter_mut().zip(int)).enumerate() {
            match out.kind {
                OutputType::Real => call.set_output(at, real).map_err(fail)?,
                _ => call.set_int_output(at, int).map_err(fail)?,
            };
        }
        black_box(call.call(0, bars.close.len() - 1).map_err(fail)?);
        Ok(())
    }
}

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64())
}

/// Nanoseconds per bar of both sides.
struct PeerTimes {
    name: &'static str,
    ours: f64,
    peer: f64,
}

impl PeerTimes {
    fn ratio(&self) -> f64 {
        self.peer / self.ours
    }
}

fn single_threaded(options: ExecOptions) -> ExecOptions {
    ExecOptions { threads: 1, ..options }
}

/// Input and output buffers of both sides.
struct Buffers {
    markets: Vec<Market>,
    ours: OutputBuffers,
    real: Vec<Vec<Vec<f64>>>,
    int: Vec<Vec<Vec<i32>>>,
}

const MOST_OUTPUTS: usize = 8;

impl Buffers {
    fn new(series: usize, bars: usize) -> Buffers {
        Buffers {
            markets: (0..series).map(|i| Market::walk(bars, i as u64 + 1)).collect(),
            ours: OutputBuffers::new(MOST_OUTPUTS, series, bars),
            real: vec![vec![vec![0.0; bars]; MOST_OUTPUTS]; series],
            int: vec![vec![vec![0; bars]; MOST_OUTPUTS]; series],
        }
    }

    fn bars(&self) -> f64 {
        self.markets.iter().map(|m| m.close.len()).sum::<usize>() as f64
    }

    fn ours(&mut self, selection: &Selection, how: ExecOptions) -> Result<f64> {
        let series: Vec<Series<'_>> = self.markets.iter().map(Market::series).collect();
        let mut columns = self.ours.columns(selection.columns.len());
        seconds(|| {
            run_into(&selection.plan, &series, &mut columns, how);
            Ok(())
        })
    }

    fn peer(&mut self, peer: &Peer) -> Result<f64> {
        let all = self.markets.iter().zip(self.real.iter_mut().zip(&mut self.int));
        seconds(|| {
            for (bars, (real, int)) in all {
                peer.run(bars, real, int)?;
            }
            Ok(())
        })
    }

    /// Every function of the peer, each into columns of its own: where our call writes, so that both leave all results
    /// behind. Patterns are integers there.
    fn peers(&mut self, peers: &[Peer], patterns: &mut [Vec<Vec<i32>>]) -> Result<f64> {
        let (mut at, mut sum) = (0, 0.0);
        for (which, peer) in peers.iter().enumerate() {
            let outputs = peer.id.info().outputs.len();
            let all = self.markets.iter().zip(self.ours.0.iter_mut().zip(patterns.iter_mut()));
            sum += seconds(|| {
                for (bars, (real, int)) in all {
                    let real = real.get_mut(at..at + outputs).context("a buffer for every output")?;
                    let int = int.get_mut(which..).context("a buffer for every pattern")?;
                    peer.run(bars, real, int)?;
                }
                Ok(())
            })?;
            at += outputs;
        }
        Ok(sum)
    }

    fn pair(&mut self, peer: &Peer) -> Result<PeerTimes> {
        let selection = select(&[Instance::of(peer.row)]);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // Twice each, the second counts: what a side has left in the caches to be written is its own to pay for.
        for _ in 0..TURNS {
            self.ours(&selection, single_threaded(ExecOptions::default()))?;
            ours.push(self.ours(&selection, single_threaded(ExecOptions::default()))?);
            self.peer(peer)?;
            theirs.push(self.peer(peer)?);
        }
        let per = 1e9 / self.bars();
        Ok(PeerTimes { name: peer.row.name, ours: median(&ours) * per, peer: median(&theirs) * per })
    }
}

fn mean(pairs: &[PeerTimes], of: impl Fn(&PeerTimes) -> f64) -> f64 {
    (pairs.iter().map(|p| of(p).ln()).sum::<f64>() / pairs.len().max(1) as f64).exp()
}

fn row(
    case: impl Into<String>,
    ours: f64,
    peer: (&str, f64),
    unit: &'static str,
    target: Option<f64>,
) -> Row {
    let (name, peer) = peer;
    Row {
        bench: BENCH,
        case: case.into(),
        ours,
        peer: Some(peer),
        peer_name: Some(name.to_owned()),
        unit,
        ratio: Some(peer / ours),
        n: TURNS as u64,
        noise: 0.0,
        target,
    }
}

/// Every function alone: table on stderr, geometric mean and the worst as rows.
fn each(
    label: &str,
    table: &mut Buffers,
    peers: &[Peer],
    mean_target: f64,
    worst: Option<f64>,
) -> Result<Vec<Row>> {
    let mut pairs = peers.iter().map(|p| table.pair(p)).collect::<Result<Vec<PeerTimes>>>()?;
    pairs.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    for p in &pairs {
        eprintln!(
            "{label}: {:<24} {:>8.2} ns/bar, TA-Lib {:>8.2}, ratio {:>6.2}",
            p.name,
            p.ours,
            p.peer,
            p.ratio()
        );
    }
    let (ours, theirs) = (mean(&pairs, |p| p.ours), mean(&pairs, |p| p.peer));
    let case = format!("{label}: {} functions one by one, geometric mean", pairs.len());
    let mut rows = vec![row(case, ours, ("TA-Lib", theirs), "ns/bar", Some(mean_target))];
    if let (Some(target), Some(p)) = (worst, pairs.first()) {
        rows.push(row(
            format!("{label}: the worst, {}", p.name),
            p.ours,
            ("TA-Lib", p.peer),
            "ns/bar",
            Some(target),
        ));
    }
    Ok(rows)
}

/// All functions in one call, beside TA-Lib function by function; and two threads beside one.
fn together(table: &mut Buffers, peers: &[Peer]) -> Result<Vec<Row>> {
    let instances: Vec<Instance> = peers.iter().map(|p| Instance::of(p.row)).collect();
    let selection = select(&instances);
    let outputs = selection.columns.len();
    eprintln!("together: {} functions, {outputs} columns, {} steps", peers.len(), selection.plan.steps());
    table.ours = OutputBuffers::new(outputs, SERIES, BARS);
    let most = peers.len() + MOST_OUTPUTS;
    let mut patterns = vec![vec![vec![0i32; BARS]; most]; SERIES];
    let (mut single, mut double, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        single.push(table.ours(&selection, single_threaded(ExecOptions::default()))?);
        double.push(table.ours(&selection, ExecOptions { threads: 2, ..ExecOptions::default() })?);
        theirs.push(table.peers(peers, &mut patterns)?);
    }
    let (single, double, theirs) = (Sample::of(&single), Sample::of(&double), Sample::of(&theirs));
    let case = format!("{SERIES}×100k: all {} functions in one call", peers.len());
    Ok(vec![
        row(case, single.median, ("TA-Lib, function by function", theirs.median), "s", Some(6.0)),
        row("two threads", double.median, ("one thread", single.median), "s", Some(1.8)),
    ])
}

/// Rows whose first run is timed with and without the comparison of JIT code with the kernels.
const VERIFIED: [&str; 8] = ["sma", "ema", "rsi", "macd", "atr", "adx", "stoch", "bbands"];
/// Turns of it: the difference is small.
const VERIFY_TURNS: usize = 9;

/// The first run of a plan, in which its JIT code is compared with the kernels, beside the same without that.
fn self_verification(table: &mut Buffers) -> Result<Vec<Row>> {
    let found = VERIFIED.iter().filter_map(|name| catalogue::find(name)).map(Instance::of);
    let alone: Vec<Vec<Instance>> = found.map(|one| vec![one]).collect();
    let all: Vec<Instance> = catalogue::all().take(60).map(Instance::of).collect();
    let outputs = select(&all).columns.len();
    let mut rows = Vec::new();
    for (case, selections) in
        [("each of 8 rows, first run of its plan", alone), ("60 rows in one plan, first run", vec![all])]
    {
        table.ours = OutputBuffers::new(outputs, SERIES, BARS);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..VERIFY_TURNS {
            for (verify_jit, times) in [(true, &mut with), (false, &mut without)] {
                let mut sum = 0.0;
                for instances in &selections {
                    // A plan of its own: what is verified stays verified.
                    sum += table.ours(
                        &select(instances),
                        ExecOptions { verify_jit, ..single_threaded(ExecOptions::default()) },
                    )?;
                }
                times.push(sum);
            }
        }
        let case = format!("{SERIES}×100k: {case}");
        rows.push(row(case, median(&with), ("without self-verification", median(&without)), "s", Some(0.98)));
    }
    Ok(rows)
}

/// Bytes in and out per second, beside a plain copy of the same columns.
fn bandwidth(table: &mut Buffers) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in ["sma", "ema", "medprice"] {
        let found = catalogue::find(name).with_context(|| format!("{name} is not in the catalogue"))?;
        let selection = select(&[Instance::of(found)]);
        let (mut ours, mut copy) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            ours.push(table.ours(&selection, single_threaded(ExecOptions::default()))?);
            let all = table.markets.iter().zip(&mut table.ours.0);
            copy.push(seconds(|| {
                for (bars, out) in all {
                    out.first_mut().context("an output buffer")?.copy_from_slice(&bars.close);
                    black_box(&out);
                }
                Ok(())
            })?);
        }
        let bytes = table.bars() * 8.0 * (1 + found.inputs.len()) as f64 / 1e9;
        let copied = table.bars() * 16.0 / 1e9;
        let (ours, copy) = (median(&ours), median(&copy));
        eprintln!("{name}: {:.2} GB/s, a plain copy {:.2} GB/s", bytes / ours, copied / copy);
        let case = format!("{name}: bytes moved, share of a plain copy's speed");
        rows.push(row(case, copied / copy, ("ours", bytes / ours), "GB/s", None));
    }
    Ok(rows)
}

/// The functions that vector-ta has too.
#[cfg(feature = "vector-ta")]
fn beside_vector_ta(table: &mut Buffers) -> Result<Vec<Row>> {
    let mut pairs = Vec::new();
    for (name, function) in crate::vector_ta::FUNCTIONS {
        let found = catalogue::find(name).with_context(|| format!("{name} is not in the catalogue"))?;
        let window = found.defaults().first().copied().unwrap_or(0.0) as usize;
        let selection = select(&[Instance::of(found)]);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            ours.push(table.ours(&selection, single_threaded(ExecOptions::default()))?);
            let all = table.markets.iter().zip(&mut table.real);
            theirs.push(seconds(|| {
                for (bars, out) in all {
                    function(bars, window, out.first_mut().context("an output buffer")?)?;
                }
                Ok(())
            })?);
        }
        let per = 1e9 / table.bars();
        let pair = PeerTimes { name, ours: median(&ours) * per, peer: median(&theirs) * per };
        eprintln!(
            "vector-ta: {name:<20} {:>8.2} ns/bar, vector-ta {:>8.2}, ratio {:>6.2}",
            pair.ours,
            pair.peer,
            pair.ratio()
        );
        pairs.push(pair);
    }
    let (ours, theirs) = (mean(&pairs, |p| p.ours), mean(&pairs, |p| p.peer));
    let case = format!("30×100k: {} functions of vector-ta one by one, geometric mean", pairs.len());
    Ok(vec![row(case, ours, ("vector-ta", theirs), "ns/bar", None)])
}

#[cfg(not(feature = "vector-ta"))]
fn beside_vector_ta(_: &mut Buffers) -> Result<Vec<Row>> {
    eprintln!(
        "skipped: vector-ta (built with `--features vector-ta`, as `cargo xtask bench indicators` does)"
    );
    Ok(Vec::new())
}

/// `ONLY=rsi,macd` measures some functions only, `PART=each,together` some parts only.
pub(crate) fn run() -> Result<Vec<Row>> {
    let named = |variable: &str, name: &str| {
        let list = std::env::var(variable).unwrap_or_default();
        list.is_empty() || list.split(',').any(|n| n == name)
    };
    let rows = catalogue::all().filter(|row| named("ONLY", row.name));
    let peers: Vec<Peer> = rows.filter_map(Peer::of).collect();
    let part = |name: &str| named("PART", name);
    let mut table = Buffers::new(SERIES, BARS);
    let mut rows = Vec::new();
    if part("bandwidth") {
        rows.extend(bandwidth(&mut table)?);
    }
    if part("each") {
        rows.extend(each("30×100k", &mut table, &peers, 2.0, Some(0.8))?);
    }
    if part("vector-ta") {
        rows.extend(beside_vector_ta(&mut table)?);
    }
    if part("together") {
        rows.extend(together(&mut table, &peers)?);
    }
    if part("verify") {
        rows.extend(self_verification(&mut table)?);
    }
    if part("long") {
        rows.extend(each("1×1M", &mut Buffers::new(1, LONG), &peers, 1.3, None)?);
    }
    Ok(rows)
}
