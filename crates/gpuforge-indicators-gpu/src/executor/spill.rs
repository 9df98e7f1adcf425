//! Out-of-core execution: a series whose results exceed the memory limit, column after column into a spill file.
//!
//! ```text
//!   device: its columns, batch by batch ──┐
//!   CPU, concurrently: the others ────────┴──► spill file [column][bar]
//! ```
//! On any failure nothing is kept, and the CPU streams the series in chunks instead.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use gpuforge_frame::FrameError;
use gpuforge_indicators::{
    exec::{self, ExecOptions, Series},
    graph::ValueId,
    plan::ExecPlan,
};

use super::{CpuGpuCounts, GraphPartition, HybridExecutor, fits_f32, workload};
use crate::{
    cost_model::{DeviceChoice, GpuPrediction, PlacementDecision, PlacementReason},
    gpu_executor::ColumnSink,
    spill_file::SpillFile,
};

/// Writes the columns of one series to the spill file.
struct SpillSink<'a> {
    spill: &'a SpillFile,
    buffer: Vec<f64>,
    failed: &'a Mutex<Option<FrameError>>,
}

impl ColumnSink for SpillSink<'_> {
    fn take(&mut self, _: usize, wanted: usize, bars: usize, fill: &mut dyn FnMut(&mut [f64])) {
        self.buffer.resize(bars, 0.0);
        fill(&mut self.buffer);
        keep_first_error(self.failed, self.spill.write(wanted * bars, &self.buffer));
    }
}

fn keep_first_error(failed: &Mutex<Option<FrameError>>, written: Result<(), FrameError>) {
    if let Err(error) = written {
        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl HybridExecutor<'_> {
    /// Computes a series on a device into `spill` if the decision is for it; `false` leaves it to the CPU. At most
    /// `max_bytes` of results are held at once.
    pub fn run_spilled(&mut self, one: Series<'_>, max_bytes: usize, spill: &mut Option<SpillFile>) -> bool {
        let bars = one.len(&self.request.selection.plan);
        let (mut decision, prediction) = self.decide(&[bars]);
        if decision.place == DeviceChoice::Gpu {
            let result = self.try_spilled(one, bars, max_bytes, spill, (&decision, prediction));
            match result {
                Ok(()) => {
                    self.summary.decision = Some(decision);
                    return true;
                }
                Err(instead) => decision = instead,
            }
        }
        self.summary.decision = Some(decision);
        false
    }

    fn try_spilled(
        &mut self,
        one: Series<'_>,
        bars: usize,
        max_bytes: usize,
        spill: &mut Option<SpillFile>,
        (decision, prediction): (&PlacementDecision, Option<GpuPrediction>),
    ) -> Result<(), PlacementDecision> {
        let on_cpu = |why: String| PlacementDecision::cpu(PlacementReason::NoDevice(why));
        if spill.is_none() {
            *spill = Some(SpillFile::new().map_err(|e| self.without_spill_file(&e))?);
        }
        let Some(spill) = spill.as_ref() else { return Err(on_cpu("no spill file".to_owned())) };
        let values = bars.saturating_mul(self.request.selection.columns.len());
        if let (PlacementReason::Faster(_), Some(prediction), Some(cpu)) =
            (&decision.reason, prediction, self.predicted_cpu_seconds(bars))
        {
            // The CPU streams and needs no spill file.
            let gpu = prediction.each() + spill.seconds(values);
            if gpu >= cpu {
                return Err(PlacementDecision::cpu(PlacementReason::Faster(gpu / cpu.max(1e-9))));
            }
        }
        if !fits_f32(&one, &self.request.selection.plan) {
            return Err(on_cpu("the series has NaN or infinite values".to_owned()));
        }
        let began = Instant::now();
        self.compute_spilled(one, bars, max_bytes, spill)?;
        self.record_gpu_time(prediction, began.elapsed().as_secs_f64());
        Ok(())
    }

    /// A full disk costs throughput, not the result.
    fn without_spill_file(&mut self, error: &FrameError) -> PlacementDecision {
        let why = error.to_string();
        self.disable_device(why.clone());
        PlacementDecision::cpu(PlacementReason::NoDevice(why))
    }

    fn compute_spilled(
        &mut self,
        one: Series<'_>,
        bars: usize,
        max_bytes: usize,
        spill: &SpillFile,
    ) -> Result<(), PlacementDecision> {
        let on_cpu = |why: &str| PlacementDecision::cpu(PlacementReason::NoDevice(why.to_owned()));
        if let Err(why) = self.open() {
            self.disable_device(why.clone());
            return Err(on_cpu(&why));
        }
        let workload = self.verified_workload(&[one], &[true], &[bars]);
        let options = self.options;
        let (Some(partition), Some(opened), Some((_, gpu))) = (&self.partition, &self.opened, &self.gpu)
        else {
            self.disable_device("the graph cannot be lowered".to_owned());
            return Err(on_cpu("the graph cannot be lowered"));
        };
        let failed = Mutex::new(None);
        let result = std::thread::scope(|scope| {
            let device = scope.spawn(|| {
                let mut sink = SpillSink { spill, buffer: Vec::new(), failed: &failed };
                gpu.run_with(&opened.runner, &[one], &mut sink)
            });
            spill_cpu_columns(partition, one, bars, (max_bytes, options), spill, &failed);
            device.join()
        });
        let kernels: Vec<u64> = gpu.programs().flat_map(|p| workload::kernels(&p.lowered)).collect();
        let columns = partition.column_counts();
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(self.without_spill_file(&error));
        }
        match result {
            Ok(Ok(stats)) => {
                self.compiled.extend(kernels);
                self.summary.add(&stats, workload, columns, CpuGpuCounts { gpu: 1, cpu: 0 });
                Ok(())
            }
            Ok(Err(error)) => {
                self.record_events(&error);
                self.disable_device(error.to_string());
                Err(on_cpu(&error.to_string()))
            }
            Err(_) => {
                self.disable_device("the device thread panicked".to_owned());
                Err(on_cpu("the device thread panicked"))
            }
        }
    }
}

/// The CPU's columns, as many at once as fit.
fn spill_cpu_columns(
    partition: &GraphPartition,
    one: Series<'_>,
    bars: usize,
    (max_bytes, options): (usize, ExecOptions),
    spill: &SpillFile,
    failed: &Mutex<Option<FrameError>>,
) {
    let Some((_, positions)) = &partition.cpu_plan else { return };
    let at_once = (max_bytes / bars.saturating_mul(8).max(1)).max(1);
    for positions in positions.chunks(at_once) {
        let values: Vec<ValueId> =
            positions.iter().filter_map(|at| partition.values.get(*at).copied()).collect();
        let columns =
            exec::run(&ExecPlan::new(&partition.graph, &values), &[one], options).pop().unwrap_or_default();
        for (at, column) in positions.iter().zip(&columns) {
            keep_first_error(failed, spill.write(at * bars, column));
        }
    }
}
