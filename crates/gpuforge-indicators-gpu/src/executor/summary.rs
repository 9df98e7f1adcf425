//! Execution summary: batches, transfers, dispatches, predicted and measured seconds of both sides, as `--json` prints them.

use serde::Serialize;

use crate::{
    cost_model::{DeviceChoice, GpuWorkload, PlacementDecision},
    gpu_executor::GpuExecStats,
};

/// What ran where, and what it took.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExecSummary {
    /// What the user asked for.
    pub asked: DeviceChoice,
    /// The device, if one was opened.
    pub device: Option<String>,
    /// The last decision.
    pub decision: Option<PlacementDecision>,
    /// Batches of series.
    pub groups: CpuGpuCounts,
    /// Series; those with NaN or infinities count for the CPU.
    pub series: CpuGpuCounts,
    /// Columns of series that were on the device.
    pub columns: CpuGpuCounts,
    /// Seconds that were predicted for the chosen side, where there were predictions.
    pub predicted: CpuGpuSeconds,
    /// Seconds that it took.
    pub measured: CpuGpuSeconds,
    /// Device batches.
    pub batches: u64,
    /// Uploads.
    pub uploads: u64,
    /// Downloads.
    pub downloads: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Bytes uploaded.
    pub uploaded: u64,
    /// Bytes downloaded.
    pub downloaded: u64,
    /// Peak device memory of one batch, in bytes.
    pub peak: u64,
    /// Seconds by the device's timestamp queries.
    pub device_seconds: Option<f64>,
    /// Failures, and how they were handled.
    pub events: Vec<String>,
}

/// A count per side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CpuGpuCounts {
    /// On the CPU.
    pub cpu: u64,
    /// On the device.
    pub gpu: u64,
}

/// Seconds per side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuGpuSeconds {
    /// CPU only.
    pub cpu: f64,
    /// The device, and the CPU beside it.
    pub gpu: f64,
}

impl ExecSummary {
    /// Adds a batch that ran on the device.
    pub(super) fn add(
        &mut self,
        stats: &GpuExecStats,
        workload: Option<GpuWorkload>,
        columns: CpuGpuCounts,
        series: CpuGpuCounts,
    ) {
        let workload = workload.unwrap_or_default();
        self.columns = columns;
        self.series.gpu += series.gpu;
        self.series.cpu += series.cpu;
        self.batches += stats.batches;
        self.uploads += stats.uploads;
        self.downloads += stats.downloads;
        // What was not counted is known from the lowered graph.
        self.dispatches += if stats.dispatches > 0 { stats.dispatches } else { workload.dispatches };
        self.uploaded += if stats.uploaded.0 > 0 { stats.uploaded.0 } else { workload.up };
        self.downloaded += stats.downloaded.0;
        self.peak = self.peak.max(stats.peak.0);
        let seconds = stats.device_time.map(|d| d.as_secs_f64());
        self.device_seconds = match (self.device_seconds, seconds) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.record_events(stats);
    }

    /// Adds failures of the device, and how they were handled.
    pub(super) fn record_events(&mut self, stats: &GpuExecStats) {
        self.events.extend(stats.events.iter().map(|e| format!("{} ({})", e.error, e.step.as_str())));
    }
}
