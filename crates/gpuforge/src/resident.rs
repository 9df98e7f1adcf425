//! Are indicators computed on the processor or on a device? Decides per group of series, runs both at once where a column
//! suits only the processor, and falls back without an error.
//!
//! ```text
//!   series ──► decide (wish, else predicted times) ──► processor: the whole plan
//!                      │
//!                      └──► device: columns that suit it ──┐ at the same time
//!                           processor: the others, and series with values that are no numbers
//! ```
//! What a device needs once (opening, compiling, being measured) is paid when the processor has spent as much: see
//! [`cost::faster`].

mod access;
pub mod explain;
mod load;
mod long;
pub mod measure;
pub mod regret;

use std::{collections::HashSet, sync::Arc, time::Instant};

pub use access::Access;
use gpuforge_indicators::{
    exec::{self, Columns, How, Series},
    graph::{Graph, Val},
    plan::Plan,
    select,
};
pub use gpuforge_indicators_gpu::cost::{self, Device};
use gpuforge_indicators_gpu::cost::{Correction, Decision, Load, Prediction, Rates, Reason};
use gpuforge_indicators_gpu::{
    placement::{self, Placed},
    run::{Resident, ResidentError, Settings as Use, Stats},
};
use gpuforge_runtime::{runner::Runner, units::Bytes};
pub use measure::measure;
use measure::{load_rates, save_rates};
pub use regret::regret;
use serde::Serialize;

use crate::market::Request;

/// Seconds of work below which no device is thought of: opening one takes longer.
const WORTH_ASKING: f64 = 0.1;
/// Seconds of work after which a device is measured of which nothing is known; measuring takes about one.
const WORTH_MEASURING: f64 = 4.0;
/// Values below which the processor's speed is not worth finding out.
const WORTH_TRYING: usize = 1 << 20;

/// Why nothing can be computed as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A device was asked for, and none can be used.
    #[error(
        "no device can be used: {0}\n  hint: `gpuforge doctor` says what is wrong, `gpuforge detect` what there is; \
         leave --device out to compute on the processor"
    )]
    None(String),
}

/// What was done where, and what it took.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Done {
    /// What was asked for.
    pub asked: Device,
    /// The device, if one was opened.
    pub device: Option<String>,
    /// The last decision.
    pub decision: Option<Decision>,
    /// Groups of series.
    pub groups: Counts,
    /// Series; those with values that are no numbers count for the processor.
    pub series: Counts,
    /// Columns of series that were on the device.
    pub columns: Counts,
    /// Seconds that were predicted for the side that was taken, as far as there were predictions.
    pub predicted: Sides,
    /// Seconds that it took.
    pub measured: Sides,
    /// Batches, uploads, downloads and dispatches.
    pub batches: u64,
    /// Uploads.
    pub uploads: u64,
    /// Downloads.
    pub downloads: u64,
    /// Kernel calls.
    pub dispatches: u64,
    /// Bytes to the device.
    pub uploaded: u64,
    /// Bytes back.
    pub downloaded: u64,
    /// The most memory of one batch.
    pub peak: u64,
    /// Seconds that the device itself measured.
    pub device_seconds: Option<f64>,
    /// What went wrong, and what was done about it.
    pub events: Vec<String>,
}

/// How many on each side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// On the processor.
    pub cpu: u64,
    /// On the device.
    pub gpu: u64,
}

/// Seconds of each side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sides {
    /// The processor.
    pub cpu: f64,
    /// The device, and what the processor did at the same time.
    pub gpu: f64,
}

/// What is computed where, once somebody thinks of a device.
pub(crate) struct Parts {
    graph: Graph,
    values: Vec<Val>,
    pub(crate) placed: Vec<Placed>,
    on: Vec<bool>,
    /// Columns that the processor computes beside the device, and where they go.
    rest: Option<(Plan, Vec<usize>)>,
}

impl Parts {
    fn of(request: &Request) -> Parts {
        let (graph, values, columns) = select::graph(&request.wanted);
        let placed = placement::place(&request.wanted, &graph, &values, &columns);
        let on: Vec<bool> = placed.iter().map(|p| p.on_device).collect();
        let at: Vec<usize> = on.iter().enumerate().filter(|(_, on)| !**on).map(|(at, _)| at).collect();
        let vals: Vec<Val> = at.iter().filter_map(|at| values.get(*at).copied()).collect();
        let rest = (!at.is_empty()).then(|| (Plan::new(&graph, &vals), at));
        Parts { graph, values, placed, on, rest }
    }

    fn suits(&self) -> bool {
        self.on.contains(&true)
    }
}

/// A device that can be used.
struct Opened {
    runner: Arc<Runner>,
    settings: Use,
}

/// Computes a request, group after group.
pub struct Computer<'r> {
    request: &'r Request,
    how: How,
    access: &'r Access,
    parts: Option<Parts>,
    opened: Option<Opened>,
    /// Why no device is thought of any more.
    gone: Option<String>,
    resident: Option<(usize, Resident)>,
    compiled: HashSet<u64>,
    rates: Option<Rates>,
    /// Seconds of a bar on the processor.
    per_bar: Option<f64>,
    corrections: (Correction, Correction),
    done: Done,
}

impl<'r> Computer<'r> {
    /// Touches no device, unless one was asked for: then it is opened, and that none can be is an error.
    pub fn new(request: &'r Request, how: How, access: &'r Access) -> Result<Self, DeviceError> {
        let done = Done { asked: access.asked, ..Done::default() };
        let mut computer = Computer {
            request,
            how,
            access,
            parts: None,
            opened: None,
            gone: None,
            resident: None,
            compiled: HashSet::new(),
            rates: access.rates,
            per_bar: access.per_bar,
            corrections: Default::default(),
            done,
        };
        access.check().map_err(DeviceError::None)?;
        if access.asked == Device::Gpu {
            computer.open().map_err(DeviceError::None)?;
        }
        Ok(computer)
    }

    /// What was done so far.
    pub fn done(&self) -> &Done {
        &self.done
    }

    /// Columns of each series, as [`exec::run`] gives them. Never fails: what a device cannot do, the processor does.
    pub fn run(&mut self, series: &[Series<'_>]) -> Vec<Vec<Vec<f64>>> {
        let plan = &self.request.selection.plan;
        let outputs = plan.starts().len();
        let mut all: Vec<Vec<Vec<f64>>> =
            series.iter().map(|s| vec![vec![0.0; s.len(plan)]; outputs]).collect();
        self.run_into(series, &mut rooms(&mut all));
        all
    }

    /// As [`Computer::run`], into room that the caller has: for every series one slice per column, as long as it.
    pub fn run_into(&mut self, series: &[Series<'_>], all: &mut [Columns<'_>]) {
        let plan = &self.request.selection.plan;
        let bars: Vec<usize> = series.iter().map(|s| s.len(plan)).collect();
        let (decision, prediction) = self.decide(&bars);
        let total: usize = bars.iter().sum();
        let began = Instant::now();
        let on_device = decision.place == Device::Gpu && self.on_device(series, &bars, all).unwrap_or(false);
        let took = began.elapsed().as_secs_f64();
        if on_device {
            self.took_there(prediction, took);
        } else {
            let began = Instant::now();
            exec::run_into(plan, series, all, self.how);
            self.streamed(series.len() as u64, total, began.elapsed().as_secs_f64());
        }
        self.done.decision = Some(decision);
    }

    /// The device computed a group.
    fn took_there(&mut self, prediction: Option<Prediction>, took: f64) {
        self.done.groups.gpu += 1;
        self.done.measured.gpu += took;
        let Some(prediction) = prediction else { return };
        self.done.predicted.gpu += prediction.total();
        let off = self.corrections.1.0;
        // Opening and compiling are no part of what is corrected: they do not come again.
        self.corrections.1 = self.corrections.1.learn(prediction.each() / off, took - prediction.once());
    }

    /// The processor computed so many bars of some series, in this time.
    pub(crate) fn streamed(&mut self, series: u64, bars: usize, took: f64) {
        let predicted = self.on_processor(bars);
        self.done.groups.cpu += u64::from(series > 0);
        self.done.series.cpu += series;
        self.done.measured.cpu += took;
        match (predicted, self.per_bar) {
            (Some(predicted), Some(per_bar)) => {
                self.done.predicted.cpu += predicted;
                self.corrections.0 = self.corrections.0.learn(per_bar * bars as f64, took);
            }
            _ if bars > 0 => self.per_bar = Some(took / bars as f64),
            _ => {}
        }
    }

    /// Something stays on the processor although a device was asked for.
    pub(crate) fn stays(&mut self, why: &str) {
        if cost::wish(self.access.asked, self.access.setting).is_some_and(|w| w.place == Device::Gpu) {
            self.done.events.push(why.to_owned());
        }
    }

    /// Predicted seconds of so many bars on the processor, if it is known how fast it is.
    fn on_processor(&self, bars: usize) -> Option<f64> {
        Some(self.per_bar? * self.corrections.0.0 * bars as f64)
    }

    /// Where a group is computed, and what that takes on a device if it is predicted.
    pub(crate) fn decide(&mut self, bars: &[usize]) -> (Decision, Option<Prediction>) {
        let wish = cost::wish(self.access.asked, self.access.setting);
        match wish {
            Some(decision) if decision.place == Device::Cpu => return (decision, None),
            _ => {}
        }
        if let Some(why) = &self.gone {
            return (Decision::cpu(Reason::NoDevice(why.clone())), None);
        }
        if let Some(decision) = wish {
            if !self.parts().suits() {
                return (Decision::cpu(Reason::NothingSuits), None);
            }
            if let Err(why) = self.open() {
                return (Decision::cpu(Reason::NoDevice(why)), None);
            }
            let prediction = self.predict(bars).map(|(p, _)| p);
            return (decision, prediction);
        }
        self.by_measurement(bars)
    }

    fn by_measurement(&mut self, bars: &[usize]) -> (Decision, Option<Prediction>) {
        let total: usize = bars.iter().sum();
        let values = total.saturating_mul(self.request.selection.columns.len());
        let spent = self.done.measured.cpu;
        let too_little = (Decision::cpu(Reason::TooLittle), None);
        if self.per_bar.is_none() {
            if values < WORTH_TRYING {
                return too_little;
            }
            self.per_bar = Some(measure::processor(&self.request.selection.plan, self.how));
        }
        let Some(cpu) = self.on_processor(total) else { return too_little };
        if spent + cpu < WORTH_ASKING && self.rates.is_none() {
            return too_little;
        }
        if !self.parts().suits() {
            return (Decision::cpu(Reason::NothingSuits), None);
        }
        match self.known_rates(spent + cpu >= WORTH_MEASURING) {
            Ok(true) => {}
            Ok(false) => return too_little,
            Err(why) => return (Decision::cpu(Reason::NoDevice(why)), None),
        }
        match self.predict(bars) {
            Some((prediction, beside)) => {
                let decision = cost::faster(cpu, &prediction, spent);
                // The processor's own part may be what everybody waits for.
                if decision.place == Device::Gpu && beside >= cpu {
                    return (Decision::cpu(Reason::Faster(beside / cpu.max(1e-9))), None);
                }
                (decision, Some(prediction))
            }
            None => (Decision::cpu(Reason::NothingSuits), None),
        }
    }

    /// Are rates of the device known: given, kept from another process, or measured now if `may` says so?
    fn known_rates(&mut self, may: bool) -> Result<bool, String> {
        if self.rates.is_some() {
            return Ok(true);
        }
        let there = self.access.file.as_ref().is_some_and(|f| f.exists());
        if !there && !may {
            return Ok(false);
        }
        let (runner, key) = self.access.find().inspect_err(|why| self.gone = Some(why.clone()))?;
        let kept = self.access.file.as_deref().zip(key.as_ref());
        self.rates = kept.and_then(|(file, key)| load_rates(file, key));
        if self.rates.is_none() && may {
            match measure(&runner) {
                Ok(rates) => {
                    if let Some((file, key)) = kept {
                        save_rates(file, key, &rates);
                    }
                    self.rates = Some(rates);
                }
                Err(error) => {
                    self.fail(error.to_string());
                    return Err(error.to_string());
                }
            }
        }
        Ok(self.rates.is_some())
    }

    pub(crate) fn parts(&mut self) -> &Parts {
        let request = self.request;
        self.parts.get_or_insert_with(|| Parts::of(request))
    }

    /// What is on the device for series of these lengths; the first ones decide how long runs are.
    fn prepare(&mut self, bars: &[usize]) -> Option<&Resident> {
        let longest = bars.iter().copied().max().unwrap_or(0);
        let settings = self.settings();
        let variants = self.rates.and_then(|r| r.variants);
        let settings = variants.map_or(settings, |v| v.settings(settings, bars));
        let request = self.request;
        let parts = self.parts.get_or_insert_with(|| Parts::of(request));
        if self.resident.as_ref().is_none_or(|(most, _)| *most < longest) {
            let resident = Resident::new(&parts.graph, &parts.values, &parts.on, longest, settings)?;
            self.resident = Some((longest, resident));
        }
        self.resident.as_ref().map(|(_, resident)| resident)
    }

    /// How the device is used; by its own limits once it is open.
    fn settings(&self) -> Use {
        match &self.opened {
            Some(opened) => opened.settings,
            None => limited(self.access.memory, None),
        }
    }

    pub(crate) fn load(&mut self, bars: &[usize]) -> Option<Load> {
        let settings = self.settings();
        self.prepare(bars)?;
        let (_, resident) = self.resident.as_ref()?;
        let steps = resident.steps();
        let settings = Use { steps: Some(steps), ..settings };
        Some(load::of(resident.programs(), &settings, bars, &self.compiled))
    }

    /// What a group takes on the device, and on the processor beside it; `None` without rates.
    pub(crate) fn predict(&mut self, bars: &[usize]) -> Option<(Prediction, f64)> {
        let rates = self.rates?;
        let load = self.load(bars)?;
        let off = self.corrections.1.0;
        let p = cost::predict(&load, &rates, self.opened.is_some());
        let (upload, dispatch) = (p.upload * off, p.dispatch * off);
        let (compute, download) = (p.compute * off, p.download * off);
        let total: usize = bars.iter().sum();
        let share = self.parts().rest.as_ref().map_or(0, |(plan, _)| units(plan)) as f64
            / units(&self.request.selection.plan).max(1) as f64;
        let beside = self.on_processor(total).unwrap_or(0.0) * share;
        Some((Prediction { upload, dispatch, compute, download, ..p }, beside))
    }

    /// Opens the device, once.
    fn open(&mut self) -> Result<(), String> {
        if self.opened.is_some() {
            return Ok(());
        }
        if let Some(why) = &self.gone {
            return Err(why.clone());
        }
        let opened = self.access.find().and_then(|(runner, key)| {
            let caps = runner.warm().map_err(|e| e.to_string())?;
            Ok((runner, key, caps))
        });
        let (runner, key, caps) = opened.inspect_err(|why| self.gone = Some(why.clone()))?;
        if self.rates.is_none() {
            self.rates = self.access.file.as_deref().zip(key).and_then(|(file, key)| load_rates(file, &key));
        }
        self.done.device = Some(caps.name.clone());
        // What is left beside staging; a part of it goes to tables, and to what the pool rounds up to.
        let room = runner.session().map(|s| s.memory().stats().limit.limit.0 / 4 * 3);
        let memory = [self.access.memory, room].into_iter().flatten().min();
        let settings = limited(memory, Some(caps.largest_block));
        self.opened = Some(Opened { runner, settings });
        // Its limits are known only now.
        self.resident = None;
        Ok(())
    }

    /// No device any more, and why.
    fn fail(&mut self, why: String) {
        self.done.events.push(format!("{why}; the processor computed everything instead"));
        self.gone = Some(why);
    }

    /// Runs what suits the device there and the rest here, at the same time; `None` or `false` if nothing came of it.
    fn on_device(&mut self, series: &[Series<'_>], bars: &[usize], all: &mut [Columns<'_>]) -> Option<bool> {
        if let Err(why) = self.open() {
            self.fail(why);
            return None;
        }
        let load = self.load(bars);
        let plan = &self.request.selection.plan;
        let finite: Vec<bool> = series.iter().map(|s| is_finite(s, plan)).collect();
        let how = self.how;
        let (parts, opened) = (self.parts.as_ref()?, self.opened.as_ref()?);
        let Some((_, resident)) = &self.resident else {
            self.fail("the graph cannot be lowered".to_owned());
            return None;
        };
        let split = Split::of(parts, series, all, &finite);
        let Split { there, mut on_device, mut beside, here, mut whole } = split;
        let result = std::thread::scope(|scope| {
            let device = scope.spawn(|| resident.run_into(&opened.runner, &there, &mut on_device));
            if let Some((rest, _)) = &parts.rest {
                exec::run_into(rest, &there, &mut beside, how);
            }
            exec::run_into(plan, &here, &mut whole, how);
            device.join()
        });
        let kernels: Vec<u64> = resident.programs().flat_map(|p| load::kernels(&p.lowered)).collect();
        let on_it = parts.on.iter().filter(|on| **on).count() as u64;
        let columns = Counts { gpu: on_it, cpu: parts.on.len() as u64 - on_it };
        let counts = Counts { gpu: there.len() as u64, cpu: here.len() as u64 };
        match result {
            Ok(Ok(stats)) => {
                self.compiled.extend(kernels);
                self.count(&stats, load, columns, counts);
                Some(true)
            }
            Ok(Err(error)) => {
                self.note(&error);
                self.fail(error.to_string());
                Some(false)
            }
            Err(_) => {
                self.fail("the thread of the device ended early".to_owned());
                Some(false)
            }
        }
    }

    fn count(&mut self, stats: &Stats, load: Option<Load>, columns: Counts, series: Counts) {
        let load = load.unwrap_or_default();
        let done = &mut self.done;
        done.columns = columns;
        done.series.gpu += series.gpu;
        done.series.cpu += series.cpu;
        done.batches += stats.batches;
        done.uploads += stats.uploads;
        done.downloads += stats.downloads;
        // What was not counted is known from the plan.
        done.dispatches += if stats.dispatches > 0 { stats.dispatches } else { load.dispatches };
        done.uploaded += if stats.uploaded.0 > 0 { stats.uploaded.0 } else { load.up };
        done.downloaded += stats.downloaded.0;
        done.peak = done.peak.max(stats.peak.0);
        let seconds = stats.device_time.map(|d| d.as_secs_f64());
        done.device_seconds = match (done.device_seconds, seconds) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        done.events.extend(stats.events.iter().map(|e| format!("{} ({})", e.error, e.step.word())));
    }

    fn note(&mut self, error: &ResidentError) {
        if let ResidentError::Device(stopped) = error {
            let events = stopped.events.iter().map(|e| format!("{} ({})", e.error, e.step.word()));
            self.done.events.extend(events);
        }
    }
}

/// Work of a plan for one bar, in steps and columns.
fn units(plan: &Plan) -> usize {
    plan.steps() + plan.starts().len()
}

fn limited(memory: Option<u64>, largest: Option<Bytes>) -> Use {
    let usual = Use::default();
    Use {
        memory: memory.map_or(usual.memory, |m| Bytes(m).min(usual.memory)),
        largest: largest.unwrap_or(usual.largest),
        ..usual
    }
}

/// Does f32 hold every value that a plan reads? NaN and infinities have rules that shaders do not know.
fn is_finite(series: &Series<'_>, plan: &Plan) -> bool {
    let most = f64::from(f32::MAX);
    // Time is never computed with there.
    let fields = plan.fields().filter(|f| *f != gpuforge_indicators::graph::Field::Time);
    fields.map(|f| series.field(f)).all(|column| column.iter().all(|x| x.abs() < most))
}

fn rooms(all: &mut [Vec<Vec<f64>>]) -> Vec<Columns<'_>> {
    all.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect()
}

/// Series and their columns by who computes them.
struct Split<'s, 'c> {
    /// Series that go to the device,
    there: Vec<Series<'s>>,
    /// their columns there,
    on_device: Vec<Columns<'c>>,
    /// and those that are computed beside it.
    beside: Vec<Columns<'c>>,
    /// Series that stay here,
    here: Vec<Series<'s>>,
    /// with all columns.
    whole: Vec<Columns<'c>>,
}

impl<'s, 'c> Split<'s, 'c> {
    fn of(parts: &Parts, series: &[Series<'s>], all: &'c mut [Columns<'_>], finite: &[bool]) -> Self {
        let (there, here) = (Vec::new(), Vec::new());
        let mut split = Split { there, on_device: Vec::new(), beside: Vec::new(), here, whole: Vec::new() };
        for ((one, columns), finite) in series.iter().zip(all.iter_mut()).zip(finite) {
            if !finite {
                split.here.push(*one);
                split.whole.push(columns.iter_mut().map(|column| &mut **column).collect());
                continue;
            }
            split.there.push(*one);
            let (mut on_device, mut beside): (Columns<'c>, Columns<'c>) = Default::default();
            for (column, on) in columns.iter_mut().zip(&parts.on) {
                if *on {
                    on_device.push(column);
                } else {
                    // A place is kept for it: columns are found by their position.
                    on_device.push(&mut []);
                    beside.push(column);
                }
            }
            split.on_device.push(on_device);
            split.beside.push(beside);
        }
        split
    }
}
