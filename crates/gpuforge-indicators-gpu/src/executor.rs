//! Hybrid CPU/GPU executor: decides per batch of series where the indicator graph runs, splits columns between device and
//! CPU, and falls back to the CPU without an error.
//!
//! ```text
//!   series ──► decide (explicit preference, else cost model) ──► CPU: the whole plan
//!                      │
//!                      └──► GPU: columns that f32 is precise enough for ──┐ concurrently
//!                           CPU: the others, and series with NaN or infinities
//! ```
//! One-time costs of a device (opening, compiling pipelines, calibration) are paid only after the CPU has lost as much:
//! see [`cost_model::choose_faster`].

mod access;
pub mod calibrate;
mod decide;
pub mod explain;
mod partition;
mod rates_file;
pub mod regret;
mod spill;
mod summary;
mod verify;
mod workload;

use std::{collections::HashSet, sync::Arc, time::Instant};

use gpuforge_indicators::{
    exec::{self, Columns, ExecOptions, Series},
    plan::ExecPlan,
    select::{SelectItem, Selection},
};
use gpuforge_runtime::{runner::Runner, units::Bytes};

pub use access::{DeviceAccess, DeviceKey, DeviceProvider};
use partition::{BatchSplit, GraphPartition};
pub use summary::{CpuGpuCounts, CpuGpuSeconds, ExecSummary};

use crate::{
    cost_model::{self, Correction, DeviceChoice, DeviceRates, GpuPrediction, GpuWorkload},
    gpu_executor::{GpuExecError, GpuExecSettings, GpuExecutor},
    placement::ColumnPlacement,
};

/// Why a selection cannot be computed where the user asked for it.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A device was asked for, and none can be used.
    #[error(
        "no device can be used: {0}\n  hint: `gpuforge doctor` says what is wrong, `gpuforge detect` what there is; \
         leave --device out to compute on the CPU"
    )]
    Unavailable(String),
}

/// The input of an executor: what is selected, and its CPU plan.
#[derive(Debug, Clone, Copy)]
pub struct ExecRequest<'r> {
    /// Selected indicators and expressions.
    pub wanted: &'r [SelectItem],
    /// Their plan and column names.
    pub selection: &'r Selection,
}

/// An open device.
struct OpenDevice {
    runner: Arc<Runner>,
    settings: GpuExecSettings,
}

/// Computes a selection, batch after batch, on the CPU, a GPU, or both.
pub struct HybridExecutor<'r> {
    request: ExecRequest<'r>,
    options: ExecOptions,
    access: &'r DeviceAccess,
    /// Device columns and CPU columns; made when a device is first considered.
    partition: Option<GraphPartition>,
    opened: Option<OpenDevice>,
    /// Why no device is considered any more.
    disabled: Option<String>,
    /// The lowered graph, with the longest series that it was lowered for.
    gpu: Option<(usize, GpuExecutor)>,
    compiled: HashSet<u64>,
    /// Were the device columns verified on a sample?
    verified: bool,
    rates: Option<DeviceRates>,
    /// Seconds per bar on the CPU.
    cpu_per_bar: Option<f64>,
    cpu_correction: Correction,
    gpu_correction: Correction,
    summary: ExecSummary,
}

impl<'r> HybridExecutor<'r> {
    /// Touches no device, unless one was asked for: then it is opened, and failing to open it is an error.
    pub fn new(
        request: impl Into<ExecRequest<'r>>,
        options: ExecOptions,
        access: &'r DeviceAccess,
    ) -> Result<Self, DeviceError> {
        let mut executor = HybridExecutor {
            request: request.into(),
            options,
            access,
            partition: None,
            opened: None,
            disabled: None,
            gpu: None,
            compiled: HashSet::new(),
            verified: false,
            rates: access.rates,
            cpu_per_bar: access.cpu_per_bar,
            cpu_correction: Correction::default(),
            gpu_correction: Correction::default(),
            summary: ExecSummary { asked: access.asked, ..ExecSummary::default() },
        };
        access.check().map_err(DeviceError::Unavailable)?;
        if access.asked == DeviceChoice::Gpu {
            executor.open().map_err(DeviceError::Unavailable)?;
        }
        Ok(executor)
    }

    /// What ran where so far.
    pub fn summary(&self) -> &ExecSummary {
        &self.summary
    }

    /// Where each column runs if a device is used, and why not there; after a run, with what was measured.
    pub fn placements(&mut self) -> &[ColumnPlacement] {
        &self.partition().placed
    }

    /// Columns of each series, as [`exec::run`] returns them. Never fails: what a device cannot do, the CPU does.
    pub fn run(&mut self, series: &[Series<'_>]) -> Vec<Vec<Vec<f64>>> {
        let plan = &self.request.selection.plan;
        let outputs = plan.starts().len();
        let mut all: Vec<Vec<Vec<f64>>> =
            series.iter().map(|s| vec![vec![0.0; s.len(plan)]; outputs]).collect();
        let mut slices: Vec<Columns<'_>> =
            all.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
        self.run_into(series, &mut slices);
        all
    }

    /// As [`HybridExecutor::run`], into the caller's buffers: for every series one slice per column, as long as the series.
    pub fn run_into(&mut self, series: &[Series<'_>], all: &mut [Columns<'_>]) {
        let plan = &self.request.selection.plan;
        let bars: Vec<usize> = series.iter().map(|s| s.len(plan)).collect();
        let (decision, prediction) = self.decide(&bars);
        let total: usize = bars.iter().sum();
        let began = Instant::now();
        let on_device =
            decision.place == DeviceChoice::Gpu && self.run_on_device(series, &bars, all).unwrap_or(false);
        let elapsed = began.elapsed().as_secs_f64();
        if on_device {
            self.record_gpu_time(prediction, elapsed);
        } else {
            let began = Instant::now();
            exec::run_into(plan, series, all, self.options);
            self.record_cpu_time(series.len() as u64, total, began.elapsed().as_secs_f64());
        }
        self.summary.decision = Some(decision);
    }

    /// Records a batch that ran on the device, and corrects the cost model by it.
    fn record_gpu_time(&mut self, prediction: Option<GpuPrediction>, elapsed: f64) {
        self.summary.groups.gpu += 1;
        self.summary.measured.gpu += elapsed;
        let Some(prediction) = prediction else { return };
        self.summary.predicted.gpu += prediction.total();
        let correction = self.gpu_correction.0;
        // One-time costs are not corrected: they do not recur.
        self.gpu_correction =
            self.gpu_correction.learn(prediction.each() / correction, elapsed - prediction.once());
    }

    /// Records bars that ran on the CPU (here or in the caller's streaming path), and corrects the cost model by them.
    pub fn record_cpu_time(&mut self, series: u64, bars: usize, elapsed: f64) {
        let predicted = self.predicted_cpu_seconds(bars);
        self.summary.groups.cpu += u64::from(series > 0);
        self.summary.series.cpu += series;
        self.summary.measured.cpu += elapsed;
        match (predicted, self.cpu_per_bar) {
            (Some(predicted), Some(per_bar)) => {
                self.summary.predicted.cpu += predicted;
                self.cpu_correction = self.cpu_correction.learn(per_bar * bars as f64, elapsed);
            }
            _ if bars > 0 => self.cpu_per_bar = Some(elapsed / bars as f64),
            _ => {}
        }
    }

    /// Notes why something ran on the CPU, if a device was asked for.
    pub fn note_cpu_only(&mut self, why: &str) {
        let preferred = cost_model::explicit_choice(self.access.asked, self.access.setting);
        if preferred.is_some_and(|d| d.place == DeviceChoice::Gpu) {
            self.summary.events.push(why.to_owned());
        }
    }

    fn partition(&mut self) -> &GraphPartition {
        let wanted = self.request.wanted;
        self.partition.get_or_insert_with(|| GraphPartition::of(wanted))
    }

    /// The graph lowered for series of these lengths; the first ones decide the segment length.
    fn lowered(&mut self, bars: &[usize]) -> Option<&GpuExecutor> {
        let longest = bars.iter().copied().max().unwrap_or(0);
        let settings = self.settings();
        let variants = self.rates.and_then(|r| r.variants);
        let settings = variants.map_or(settings, |v| v.settings(settings, bars));
        let wanted = self.request.wanted;
        let partition = self.partition.get_or_insert_with(|| GraphPartition::of(wanted));
        if self.gpu.as_ref().is_none_or(|(most, _)| *most < longest) {
            let GraphPartition { graph, values, on_device, .. } = partition;
            let gpu = GpuExecutor::new(graph, values, on_device, longest, settings)?;
            self.gpu = Some((longest, gpu));
        }
        self.gpu.as_ref().map(|(_, gpu)| gpu)
    }

    /// GpuExecSettings of the device; limited by its own capabilities once it is open.
    fn settings(&self) -> GpuExecSettings {
        match &self.opened {
            Some(opened) => opened.settings,
            None => limited(self.access.memory, None),
        }
    }

    fn workload(&mut self, bars: &[usize]) -> Option<GpuWorkload> {
        let settings = self.settings();
        self.lowered(bars)?;
        let (_, gpu) = self.gpu.as_ref()?;
        let settings = GpuExecSettings { segment_log2: Some(gpu.segment_log2()), ..settings };
        Some(workload::of(gpu.programs(), &settings, bars, &self.compiled))
    }

    /// As [`HybridExecutor::workload`], after columns that a sample shows to be inexact have moved to the CPU.
    fn verified_workload(
        &mut self,
        series: &[Series<'_>],
        finite: &[bool],
        bars: &[usize],
    ) -> Option<GpuWorkload> {
        let workload = self.workload(bars);
        let finite: Vec<Series<'_>> =
            series.iter().zip(finite).filter(|(_, finite)| **finite).map(|(s, _)| *s).collect();
        if self.verify(&finite) { self.workload(bars) } else { workload }
    }

    /// Opens the device, once.
    fn open(&mut self) -> Result<(), String> {
        if self.opened.is_some() {
            return Ok(());
        }
        if let Some(why) = &self.disabled {
            return Err(why.clone());
        }
        let opened = self.access.find().and_then(|(runner, key)| {
            let caps = runner.warm().map_err(|e| e.to_string())?;
            Ok((runner, key, caps))
        });
        let (runner, key, caps) = opened.inspect_err(|why| self.disabled = Some(why.clone()))?;
        if self.rates.is_none() {
            let kept = self.access.rates_file.as_deref().zip(key);
            self.rates = kept.and_then(|(file, key)| rates_file::load(file, &key));
        }
        self.summary.device = Some(caps.name.clone());
        // The limit less staging; a quarter is left for tables and for the pool's size classes.
        let free = runner.session().map(|s| s.memory().stats().limit.limit.0 / 4 * 3);
        let memory = [self.access.memory, free].into_iter().flatten().min();
        let settings = limited(memory, Some(caps.largest_block));
        self.opened = Some(OpenDevice { runner, settings });
        // Lowered before the device's limits were known.
        self.gpu = None;
        Ok(())
    }

    /// Stops using the device, and notes why.
    fn disable_device(&mut self, why: String) {
        self.summary.events.push(format!("{why}; fell back to the CPU for everything"));
        self.disabled = Some(why);
    }

    /// Runs device columns on the device and the others on the CPU, concurrently; `None` or `false` if that failed.
    fn run_on_device(
        &mut self,
        series: &[Series<'_>],
        bars: &[usize],
        all: &mut [Columns<'_>],
    ) -> Option<bool> {
        if let Err(why) = self.open() {
            self.disable_device(why);
            return None;
        }
        let plan = &self.request.selection.plan;
        let finite: Vec<bool> = series.iter().map(|s| fits_f32(s, plan)).collect();
        let workload = self.verified_workload(series, &finite, bars);
        if !self.partition().has_device_columns() {
            return None;
        }
        let options = self.options;
        let (partition, opened) = (self.partition.as_ref()?, self.opened.as_ref()?);
        let Some((_, gpu)) = &self.gpu else {
            self.disable_device("the graph cannot be lowered".to_owned());
            return None;
        };
        let split = BatchSplit::of(partition, series, all, &finite);
        let BatchSplit { gpu_series, mut gpu_columns, mut beside, cpu_series, mut cpu_columns } = split;
        let result = std::thread::scope(|scope| {
            let device = scope.spawn(|| gpu.run_into(&opened.runner, &gpu_series, &mut gpu_columns));
            if let Some((rest, _)) = &partition.cpu_plan {
                exec::run_into(rest, &gpu_series, &mut beside, options);
            }
            exec::run_into(plan, &cpu_series, &mut cpu_columns, options);
            device.join()
        });
        let kernels: Vec<u64> = gpu.programs().flat_map(|p| workload::kernels(&p.lowered)).collect();
        let columns = partition.column_counts();
        let counts = CpuGpuCounts { gpu: gpu_series.len() as u64, cpu: cpu_series.len() as u64 };
        match result {
            Ok(Ok(stats)) => {
                self.compiled.extend(kernels);
                self.summary.add(&stats, workload, columns, counts);
                Some(true)
            }
            Ok(Err(error)) => {
                self.record_events(&error);
                self.disable_device(error.to_string());
                Some(false)
            }
            Err(_) => {
                self.disable_device("the device thread panicked".to_owned());
                Some(false)
            }
        }
    }

    fn record_events(&mut self, error: &GpuExecError) {
        if let GpuExecError::Device(stopped) = error {
            let events = stopped.events.iter().map(|e| format!("{} ({})", e.error, e.step.as_str()));
            self.summary.events.extend(events);
        }
    }
}

fn limited(memory: Option<u64>, largest: Option<Bytes>) -> GpuExecSettings {
    let usual = GpuExecSettings::default();
    GpuExecSettings {
        memory: memory.map_or(usual.memory, |m| Bytes(m).min(usual.memory)),
        largest: largest.unwrap_or(usual.largest),
        ..usual
    }
}

/// Is every value that a plan reads finite in f32? WGSL leaves NaN and infinities undefined.
fn fits_f32(series: &Series<'_>, plan: &ExecPlan) -> bool {
    let most = f64::from(f32::MAX);
    // Time is never computed with on a device.
    let fields = plan.fields().filter(|f| *f != gpuforge_indicators::graph::Field::Time);
    fields.map(|f| series.field(f)).all(|column| column.iter().all(|x| x.abs() < most))
}
