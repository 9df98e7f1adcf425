//! `--explain`: the execution plan as data (placement of each column, stages and kernels, transfers, predicted times).

use serde::Serialize;

use super::{HybridExecutor, calibrate, workload};
use crate::{
    cost_model::{
        self, DeviceChoice, DeviceRates, GpuPrediction, GpuWorkload, PlacementDecision, PlacementReason,
    },
    lower::Call,
    placement::ColumnPlacement,
};

/// The execution plan of a request.
#[derive(Debug, Clone, Serialize)]
pub struct ExecExplanation {
    /// Series.
    pub series: usize,
    /// Total bars.
    pub bars: u64,
    /// The opened device.
    pub device: Option<String>,
    /// Columns, and where each runs if a device is used.
    pub columns: Vec<ColumnPlacement>,
    /// Graph nodes that the device computes.
    pub nodes: usize,
    /// Generated (fused) pointwise kernels.
    pub fused_groups: usize,
    /// Columns that are written.
    pub written: usize,
    /// Columns that would be written without fusion.
    pub unfused: usize,
    /// Kernel calls by stage, with a barrier between stages.
    pub stages: Vec<Vec<KernelCall>>,
    /// Bytes, dispatches, pipelines and memory.
    #[serde(rename = "load")]
    pub workload: Option<GpuWorkload>,
    /// Predicted seconds on the CPU.
    pub cpu_seconds: Option<f64>,
    /// Predicted seconds on the device; `None` where it was not calibrated.
    pub gpu: Option<PredictedGpu>,
    /// Calibrated rates of the device.
    pub rates: Option<DeviceRates>,
    /// Where it runs, and why.
    pub decision: PlacementDecision,
}

/// A kernel call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelCall {
    /// Kernel family.
    pub kernel: String,
    /// Columns that it computes.
    pub values: usize,
}

/// Seconds on a device.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PredictedGpu {
    /// By phase.
    #[serde(flatten)]
    pub parts: GpuPrediction,
    /// Total.
    pub total: f64,
    /// The CPU's columns, computed concurrently.
    pub beside: f64,
}

impl HybridExecutor<'_> {
    /// The plan for series of these lengths. Opens and calibrates a device, unless the CPU is asked for.
    pub fn explain(&mut self, bars: &[usize]) -> ExecExplanation {
        let total: usize = bars.iter().sum();
        let explicit = cost_model::explicit_choice(self.access.asked, self.access.setting);
        let mut unavailable = None;
        if explicit.as_ref().is_none_or(|d| d.place == DeviceChoice::Gpu) {
            unavailable = self.open().and_then(|()| self.ensure_rates(true).map(drop)).err();
        }
        if self.cpu_per_bar.is_none() && total > 0 {
            self.cpu_per_bar = Some(calibrate::cpu_per_bar(&self.request.selection.plan, self.options));
        }
        let workload = self.workload(bars);
        let gpu =
            self.predict(bars).map(|(parts, beside)| PredictedGpu { parts, total: parts.total(), beside });
        let decision = match unavailable {
            Some(why) => PlacementDecision::cpu(PlacementReason::NoDevice(why)),
            None => self.decide(bars).0,
        };
        let (mut nodes, mut unfused, mut stages) = (0, 0, Vec::new());
        for program in self.gpu.iter().flat_map(|(_, r)| r.programs()) {
            nodes += program.lowered.nodes;
            unfused += program.lowered.unfused;
            stages.extend(
                program.lowered.stages.iter().map(|calls| calls.iter().map(call).collect::<Vec<_>>()),
            );
        }
        let all = || stages.iter().flatten();
        ExecExplanation {
            series: bars.len(),
            bars: total as u64,
            device: self.summary.device.clone(),
            columns: self.partition().placed.clone(),
            nodes,
            fused_groups: all().filter(|c| c.kernel == "pointwise").count(),
            written: all().map(|c| c.values).sum(),
            unfused,
            stages,
            workload,
            cpu_seconds: self.predicted_cpu_seconds(total),
            gpu,
            rates: self.rates,
            decision,
        }
    }
}

fn call(call: &Call) -> KernelCall {
    let values = match call {
        Call::Pointwise(p) => p.stores.len(),
        Call::Rolling(_, jobs) | Call::Scan(jobs) | Call::StateMachines(jobs) => {
            jobs.iter().map(|j| j.outputs.len()).sum()
        }
    };
    KernelCall { kernel: workload::name(call), values }
}
