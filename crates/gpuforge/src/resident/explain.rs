//! What would be done for series of these lengths? The plan as data: what is computed where and why, what moves, and what
//! it is predicted to take.

use gpuforge_indicators_gpu::lower::Call;
use serde::Serialize;

use super::{
    Computer, Placed,
    cost::{Decision, Device, Load, Prediction, Rates, Reason},
    load, measure,
};

/// The plan of a request.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// Series.
    pub series: usize,
    /// Bars of all of them.
    pub bars: u64,
    /// The device that was opened for it.
    pub device: Option<String>,
    /// Columns, and where each is computed if a device is used.
    pub columns: Vec<Placed>,
    /// Values of the graph that the device computes.
    pub nodes: usize,
    /// Kernels that were generated, each for several values that need no memory between them.
    pub fused_groups: usize,
    /// Columns that are written, and those that would be if nothing were fused.
    pub written: usize,
    /// Columns that would be written if every value had one.
    pub unfused: usize,
    /// Kernel calls by stage; stages wait for each other.
    pub stages: Vec<Vec<CallOf>>,
    /// Bytes, dispatches, pipelines and memory.
    pub load: Option<Load>,
    /// Predicted seconds on the processor.
    pub cpu_seconds: Option<f64>,
    /// Predicted seconds on the device; `None` where it was not measured.
    pub gpu: Option<Predicted>,
    /// What the device was measured to take.
    pub rates: Option<Rates>,
    /// Where it is computed, and why.
    pub decision: Decision,
}

/// A kernel call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallOf {
    /// Which kernel.
    pub kernel: String,
    /// How many values it computes.
    pub values: usize,
}

/// Seconds on a device.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Predicted {
    /// By what they go into.
    #[serde(flatten)]
    pub parts: Prediction,
    /// All of it.
    pub total: f64,
    /// The processor's part at the same time.
    pub beside: f64,
}

impl Computer<'_> {
    /// The plan for series of these lengths. Opens and measures a device, unless the processor is asked for.
    pub fn explain(&mut self, bars: &[usize]) -> Explanation {
        let total: usize = bars.iter().sum();
        let wants = super::cost::wish(self.access.asked, self.access.setting);
        let mut none = None;
        if wants.as_ref().is_none_or(|d| d.place == Device::Gpu) {
            none = self.open().and_then(|()| self.known_rates(true).map(drop)).err();
        }
        if self.per_bar.is_none() && total > 0 {
            self.per_bar = Some(measure::processor(&self.request.selection.plan, self.how));
        }
        let load = self.load(bars);
        let gpu = self.predict(bars).map(|(parts, beside)| Predicted { parts, total: parts.total(), beside });
        let decision = match none {
            Some(why) => Decision::cpu(Reason::NoDevice(why)),
            None => self.decide(bars).0,
        };
        let (mut nodes, mut unfused, mut stages) = (0, 0, Vec::new());
        for program in self.resident.iter().flat_map(|(_, r)| r.programs()) {
            nodes += program.lowered.nodes;
            unfused += program.lowered.unfused;
            stages.extend(
                program.lowered.stages.iter().map(|calls| calls.iter().map(call).collect::<Vec<_>>()),
            );
        }
        let all = || stages.iter().flatten();
        Explanation {
            series: bars.len(),
            bars: total as u64,
            device: self.done.device.clone(),
            columns: self.parts().placed.clone(),
            nodes,
            fused_groups: all().filter(|c| c.kernel == "pointwise").count(),
            written: all().map(|c| c.values).sum(),
            unfused,
            stages,
            load,
            cpu_seconds: self.on_processor(total),
            gpu,
            rates: self.rates,
            decision,
        }
    }
}

fn call(call: &Call) -> CallOf {
    let values = match call {
        Call::Pointwise(p) => p.stores.len(),
        Call::Windows(_, jobs) | Call::Scan(jobs) | Call::Machines(jobs) => {
            jobs.iter().map(|j| j.outputs.len()).sum()
        }
    };
    CallOf { kernel: load::name(call), values }
}
