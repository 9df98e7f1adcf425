//! Placement decision: explicit preference first, then predicted CPU and GPU times.

use super::{GraphPartition, HybridExecutor, calibrate, rates_file};
use crate::cost_model::{self, DeviceChoice, GpuPrediction, PlacementDecision, PlacementReason};
use gpuforge_indicators::plan::ExecPlan;

/// Seconds of work below which no device is considered: opening one takes longer.
const MIN_SECONDS_TO_OPEN: f64 = 0.1;
/// Seconds of work after which an unknown device is calibrated; calibration takes about one.
const MIN_SECONDS_TO_CALIBRATE: f64 = 4.0;
/// Values below which measuring the CPU's throughput does not pay.
const MIN_VALUES_TO_TIME_CPU: usize = 1 << 20;

impl HybridExecutor<'_> {
    /// Where a batch runs, and what it is predicted to take on a device.
    pub(super) fn decide(&mut self, bars: &[usize]) -> (PlacementDecision, Option<GpuPrediction>) {
        let explicit = cost_model::explicit_choice(self.access.asked, self.access.setting);
        match explicit {
            Some(decision) if decision.place == DeviceChoice::Cpu => return (decision, None),
            _ => {}
        }
        if let Some(why) = &self.disabled {
            return (PlacementDecision::cpu(PlacementReason::NoDevice(why.clone())), None);
        }
        if let Some(decision) = explicit {
            if !self.partition().has_device_columns() {
                return (PlacementDecision::cpu(PlacementReason::NothingSuits), None);
            }
            if let Err(why) = self.open() {
                return (PlacementDecision::cpu(PlacementReason::NoDevice(why)), None);
            }
            let prediction = self.predict(bars).map(|(p, _)| p);
            return (decision, prediction);
        }
        self.decide_by_cost(bars)
    }

    fn decide_by_cost(&mut self, bars: &[usize]) -> (PlacementDecision, Option<GpuPrediction>) {
        let total: usize = bars.iter().sum();
        let values = total.saturating_mul(self.request.selection.columns.len());
        let spent = self.summary.measured.cpu;
        let too_little = (PlacementDecision::cpu(PlacementReason::TooLittle), None);
        if self.cpu_per_bar.is_none() {
            if values < MIN_VALUES_TO_TIME_CPU {
                return too_little;
            }
            self.cpu_per_bar = Some(calibrate::cpu_per_bar(&self.request.selection.plan, self.options));
        }
        let Some(cpu) = self.predicted_cpu_seconds(total) else { return too_little };
        if spent + cpu < MIN_SECONDS_TO_OPEN && self.rates.is_none() {
            return too_little;
        }
        if !self.partition().has_device_columns() {
            return (PlacementDecision::cpu(PlacementReason::NothingSuits), None);
        }
        match self.ensure_rates(spent + cpu >= MIN_SECONDS_TO_CALIBRATE) {
            Ok(true) => {}
            Ok(false) => return too_little,
            Err(why) => return (PlacementDecision::cpu(PlacementReason::NoDevice(why)), None),
        }
        match self.predict(bars) {
            Some((prediction, beside)) => {
                let decision = cost_model::choose_faster(cpu, &prediction, spent);
                // The CPU's own columns may be the bottleneck.
                if decision.place == DeviceChoice::Gpu && beside >= cpu {
                    return (PlacementDecision::cpu(PlacementReason::Faster(beside / cpu.max(1e-9))), None);
                }
                (decision, Some(prediction))
            }
            None => (PlacementDecision::cpu(PlacementReason::NothingSuits), None),
        }
    }

    /// Are the device's rates known: given, loaded from the file, or calibrated now if `may_calibrate`?
    pub(super) fn ensure_rates(&mut self, may_calibrate: bool) -> Result<bool, String> {
        if self.rates.is_some() {
            return Ok(true);
        }
        let exists = self.access.rates_file.as_ref().is_some_and(|f| f.exists());
        if !exists && !may_calibrate {
            return Ok(false);
        }
        let (runner, key) = self.access.find().inspect_err(|why| self.disabled = Some(why.clone()))?;
        let kept = self.access.rates_file.as_deref().zip(key.as_ref());
        self.rates = kept.and_then(|(file, key)| rates_file::load(file, key));
        if self.rates.is_none() && may_calibrate {
            match calibrate::calibrate(&runner) {
                Ok(rates) => {
                    if let Some((file, key)) = kept {
                        rates_file::save(file, key, &rates);
                    }
                    self.rates = Some(rates);
                }
                Err(error) => {
                    self.disable_device(error.to_string());
                    return Err(error.to_string());
                }
            }
        }
        Ok(self.rates.is_some())
    }

    /// Predicted seconds of so many bars on the CPU, if its throughput is known.
    pub(super) fn predicted_cpu_seconds(&self, bars: usize) -> Option<f64> {
        Some(self.cpu_per_bar? * self.cpu_correction.0 * bars as f64)
    }

    /// What a batch takes on the device, and on the CPU at the same time; `None` without rates.
    pub(super) fn predict(&mut self, bars: &[usize]) -> Option<(GpuPrediction, f64)> {
        let rates = self.rates?;
        let workload = self.workload(bars)?;
        let correction = self.gpu_correction.0;
        let p = cost_model::predict(&workload, &rates, self.opened.is_some());
        let (upload, dispatch) = (p.upload * correction, p.dispatch * correction);
        let (compute, download) = (p.compute * correction, p.download * correction);
        let total: usize = bars.iter().sum();
        let cpu_steps = |partition: &GraphPartition| {
            partition.cpu_plan.as_ref().map_or(0, |(plan, _)| steps_per_bar(plan))
        };
        let share =
            cpu_steps(self.partition()) as f64 / steps_per_bar(&self.request.selection.plan).max(1) as f64;
        let beside = self.predicted_cpu_seconds(total).unwrap_or(0.0) * share;
        Some((GpuPrediction { upload, dispatch, compute, download, ..p }, beside))
    }
}

/// Work of a plan per bar, in steps and columns.
fn steps_per_bar(plan: &ExecPlan) -> usize {
    plan.steps() + plan.starts().len()
}
