//! How fast is a device with indicators? Small graphs, each with much of one thing; and where that is kept.

use std::{
    collections::HashSet,
    fs,
    io::Write as _,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use gpuforge_frame::sample::{Interval, Sample};
use gpuforge_indicators::{
    exec::{self, Columns, How, Series},
    graph::{Graph, Val},
    plan::Plan,
    select::{self, Selector},
};
use gpuforge_indicators_gpu::{
    lower,
    run::{Resident, ResidentError, Settings},
    tune::{self, Variants},
};
use gpuforge_runtime::{engine::EngineError, plan::Plan as DevicePlan, runner::Runner};
use serde::{Deserialize, Serialize};

use super::{
    cost::{Probe, Probes, Rates},
    load,
};

/// The most that measuring may take. It takes a fraction of a second where compilers are not waited for.
const MOST: Duration = Duration::from_secs(8);
/// Series and bars of small and of large probes.
const SMALL: (usize, usize) = (4, 64);
const LARGE: (usize, usize) = (32, 1024);
const LONG: (usize, usize) = (1, 4096);

const WIDE: &str = "p1, p2, p3, p4, p5, p6, p7, p8";

/// Selections of the probes: one column, many stages, columns of arithmetic, then one kind of kernel each.
const PROBES: [(&str, (usize, usize)); 8] = [
    ("p1", SMALL),
    ("t3(5)", SMALL),
    ("p1", LARGE),
    (WIDE, LARGE),
    ("sma(3|8|21|55), max(14|30), stddev(20), var(9)", LARGE),
    ("ema(3|5|8|13|21|34|55|89)", LARGE),
    ("sar(0.02|0.03|0.04)", LARGE),
    ("sar(0.02|0.03|0.04)", LONG),
];

/// Why a device could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] EngineError),
    /// It failed on the way.
    #[error(transparent)]
    Run(#[from] ResidentError),
    /// What it has not shown is not known.
    #[error("it could not be measured in {} s", MOST.as_secs())]
    Slow,
}

/// Opens a device and measures it; that all of it takes too long is an error.
pub fn measure(runner: &Runner) -> Result<Rates, MeasureError> {
    let began = Instant::now();
    let caps = runner.warm()?;
    // What opening took at first, whoever did it.
    let first = runner.session().and_then(|s| s.init().map(|i| i.total));
    let open = first.unwrap_or_else(|| began.elapsed()).as_secs_f64();
    let variants = variants(runner);
    let settings = Settings { largest: caps.largest_block, ..Settings::default() };
    // Long enough for all probes: the rates are those of what will run.
    let settings = variants.map_or(settings, |v| v.settings(settings, &[LARGE.1; LARGE.0]));
    let mut compiled = HashSet::new();
    let mut found: Vec<Probe> = Vec::new();
    for (selection, size) in PROBES {
        if began.elapsed() > MOST {
            return Err(MeasureError::Slow);
        }
        found.push(probe(runner, selection, size, settings, &mut compiled)?.unwrap_or_default());
    }
    let at = |i: usize| found.get(i).copied().unwrap_or_default();
    let kinds = [at(4), at(5), at(6)];
    let probes = Probes { tiny: at(0), stages: at(1), thin: at(2), wide: at(3), kinds, chain: at(7) };
    Ok(Rates { variants, ..probes.rates(open) })
}

/// The fastest variants of its kernels; nothing where none of them runs.
fn variants(runner: &Runner) -> Option<Variants> {
    let session = runner.session()?;
    let run = |plan: &Arc<DevicePlan>| {
        let began = Instant::now();
        let done = session.run(plan, MOST).ok()?;
        Some(done.device_time.unwrap_or_else(|| began.elapsed()))
    };
    tune::tune(run).ok().filter(|t| t.trials.iter().any(|t| t.time.is_some())).map(|t| t.variants())
}

/// The values of a selection, which may use p1 to p8: the close times a number.
fn graph(selection: &str) -> Option<(Graph, Vec<Val>)> {
    let mut selector = Selector::new();
    for k in 1..=8 {
        selector.define(&format!("p{k} = close * {k}")).ok()?;
    }
    let (graph, values, _) = select::graph(&selector.select(selection).ok()?);
    Some((graph, values))
}

fn probe(
    runner: &Runner,
    selection: &str,
    (symbols, bars): (usize, usize),
    settings: Settings,
    compiled: &mut HashSet<u64>,
) -> Result<Option<Probe>, MeasureError> {
    let Some((graph, values)) = graph(selection) else { return Ok(None) };
    let on = lower::fits(&graph, &values);
    let Some(resident) = Resident::new(&graph, &values, &on, bars, settings) else { return Ok(None) };
    let lengths = vec![bars; symbols];
    let load = load::of(resident.programs(), &settings, &lengths, compiled);
    compiled.extend(resident.programs().flat_map(|p| load::kernels(&p.lowered)));
    let data = Data::new(symbols, bars);
    let series = data.series();
    let mut room = vec![vec![vec![0.0; bars]; values.len()]; symbols];
    let mut run = || {
        let mut columns: Vec<Columns<'_>> =
            room.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
        let began = Instant::now();
        let stats = resident.run_into(runner, &series, &mut columns)?;
        Ok::<_, ResidentError>((began.elapsed().as_secs_f64(), stats.device_time))
    };
    let (cold, _) = run()?;
    // The least of three: what others do on the machine only ever adds.
    let mut best = run()?;
    for _ in 0..2 {
        let next = run()?;
        best = if next.0 < best.0 { next } else { best };
    }
    Ok(Some(Probe { load, wall: best.0, device: best.1.map(|d| d.as_secs_f64()), cold }))
}

/// Bars to measure with.
pub(super) struct Data {
    bars: Vec<gpuforge_frame::Bars>,
    times: Vec<Vec<f64>>,
}

impl Data {
    pub(super) fn new(symbols: usize, bars: usize) -> Self {
        let sample = Sample::new(symbols, Interval::Minute, bars, 11);
        let layout = sample.layout();
        let bars: Vec<gpuforge_frame::Bars> = sample.series().collect();
        let times = bars.iter().map(|b| layout.seconds(&b.time)).collect();
        Data { bars, times }
    }

    pub(super) fn series(&self) -> Vec<Series<'_>> {
        self.bars.iter().zip(&self.times).map(|(b, t)| crate::market::series(b, t)).collect()
    }
}

/// Bars per series with which a plan is tried out on the processor.
const TRIED: usize = 256;

/// Seconds that the processor takes for a bar of a plan, after what it compiles at first.
pub(super) fn processor(plan: &Plan, how: How) -> f64 {
    let symbols = exec::LANES * how.threads.max(1);
    let data = Data::new(symbols, TRIED);
    let series = data.series();
    let mut room = vec![vec![vec![0.0; TRIED]; plan.starts().len()]; symbols];
    let mut run = || {
        let mut columns: Vec<Columns<'_>> =
            room.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
        let began = Instant::now();
        exec::run_into(plan, &series, &mut columns, how);
        began.elapsed().as_secs_f64()
    };
    run();
    (0..5).map(|_| run()).fold(f64::INFINITY, f64::min) / (symbols * TRIED) as f64
}

/// Name of the file in the data folder.
pub(super) const FILE: &str = "indicator-rates.json";
const VERSION: u32 = 1;
/// No such file is larger.
const MOST_BYTES: u64 = 64 << 10;
/// Devices that are kept.
const MOST_DEVICES: usize = 16;

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    gpuforge: String,
    devices: Vec<Known>,
}

/// A device with its driver, and its rates.
#[derive(Clone, Serialize, Deserialize)]
struct Known {
    name: String,
    driver: Option<String>,
    rates: Rates,
}

/// Whose rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) driver: Option<String>,
}

fn read(path: &Path) -> Vec<Known> {
    let small = fs::metadata(path).is_ok_and(|m| m.len() <= MOST_BYTES);
    let text = small.then(|| fs::read(path).ok()).flatten().unwrap_or_default();
    match serde_json::from_slice::<File>(&text) {
        Ok(file) if file.version == VERSION && file.gpuforge == env!("CARGO_PKG_VERSION") => file.devices,
        _ => Vec::new(),
    }
}

/// What was measured before; nothing that no measurement gives is believed.
pub(super) fn load_rates(path: &Path, key: &Key) -> Option<Rates> {
    let known = read(path).into_iter().find(|k| k.name == key.name && k.driver == key.driver)?;
    Some(known.rates).filter(Rates::is_sound)
}

/// One writer at a time in this process; others' files are whole because they are renamed.
static WRITING: Mutex<()> = Mutex::new(());

/// Keeps it for the next process; where that is not possible, that one measures again.
pub(super) fn save_rates(path: &Path, key: &Key, rates: &Rates) {
    let _one = WRITING.lock();
    let mut devices = read(path);
    devices.retain(|k| k.name != key.name || k.driver != key.driver);
    devices.insert(0, Known { name: key.name.clone(), driver: key.driver.clone(), rates: *rates });
    devices.truncate(MOST_DEVICES);
    let file = File { version: VERSION, gpuforge: env!("CARGO_PKG_VERSION").to_owned(), devices };
    let write = || {
        let folder = path.parent()?;
        fs::create_dir_all(folder).ok()?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder).ok()?;
        temporary.write_all(&serde_json::to_vec_pretty(&file).ok()?).ok()?;
        temporary.persist(path).ok()
    };
    let _ = write();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn every_probe_selects_what_a_device_computes() {
        for (selection, _) in PROBES {
            let (graph, values) = graph(selection).unwrap();
            assert!(lower::fits(&graph, &values).iter().all(|fits| *fits), "{selection}");
        }
    }

    #[test]
    fn rates_are_kept_per_device_and_driver_and_damage_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join(FILE);
        let key = |driver: &str| Key { name: "Card".to_owned(), driver: Some(driver.to_owned()) };
        let mut rates = Probes::default().rates(0.25);
        save_rates(&path, &key("1"), &rates);
        rates.up = 1e-9;
        save_rates(&path, &key("2"), &rates);
        assert_eq!(load_rates(&path, &key("1")).unwrap().up, 0.0);
        assert_eq!(load_rates(&path, &key("2")), Some(rates));
        assert_eq!(load_rates(&path, &key("3")), None);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("0.25", "-0.25")).unwrap();
        assert_eq!(load_rates(&path, &key("1")), None);
        fs::write(&path, text.get(..text.len() / 2).unwrap()).unwrap();
        assert_eq!(load_rates(&path, &key("1")), None);
    }
}
