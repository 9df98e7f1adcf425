//! Workload for fault tests: several plans and a batch that must be split, with known answers.

use gpuforge_runtime::{
    runner::{ExecutedOn, RunError, Runner, RunnerSettings, SplittableBatch as _},
    units::Bytes,
};

use crate::{conformance, plans};

/// Sequential plans, then a batch that does not fit and is split into chunks.
pub struct Workload {
    /// Words and rounds of each chain.
    pub chains: Vec<(u32, u32)>,
    /// The batch.
    pub items: plans::ItemBatch,
}

/// Result of one run of the workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadResult {
    /// All downloads, in order.
    pub outputs: Vec<Vec<u8>>,
    /// Chunks executed on the device.
    pub device: u64,
    /// Chunks that fell back to the CPU.
    pub cpu: u64,
    /// Recovery steps, including the splits that happen without any fault.
    pub events: usize,
}

impl Workload {
    /// More than 200 commands in at least four plans.
    pub fn standard() -> Self {
        Workload {
            chains: vec![(33, 40), (257, 30), (1000, 12)],
            items: plans::ItemBatch { items: 16, words: 1024 },
        }
    }

    /// As many commands on less data, for exhaustive runs on engines that compute on the CPU.
    pub fn small() -> Self {
        Workload {
            chains: vec![(8, 40), (65, 30), (33, 12)],
            items: plans::ItemBatch { items: 16, words: 256 },
        }
    }

    /// Total number of commands, when nothing is split.
    pub fn commands(&self) -> Result<usize, String> {
        let chain =
            |(n, rounds): &(u32, u32)| plans::chain(*n, *rounds).map(|(plan, _)| plan.commands().len());
        let chains = self.chains.iter().map(chain).sum::<Result<usize, _>>();
        let batch = self.items.record(0..self.items.len()).map(|plan| plan.commands().len());
        Ok(chains.map_err(|e| e.to_string())? + batch.map_err(|e| e.to_string())?)
    }

    /// Memory limit: a third of the batch.
    pub fn limit(&self) -> Bytes {
        Bytes(u64::from(self.items.words) * 4 * 3 * self.items.items as u64 / 3)
    }

    /// Runner settings for it.
    pub fn settings(&self) -> RunnerSettings {
        RunnerSettings {
            deadline: conformance::DEADLINE,
            ..RunnerSettings::new(conformance::settings(self.limit()))
        }
    }

    /// Expected outputs, by plain Rust.
    pub fn expected(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut all = Vec::new();
        for (n, rounds) in &self.chains {
            all.extend(plans::chain(*n, *rounds).map_err(|e| e.to_string())?.1);
        }
        all.extend((0..self.items.len()).map(|i| self.items.expected(i)));
        Ok(all)
    }

    /// Runs it.
    pub fn run(&self, runner: &Runner) -> Result<WorkloadResult, RunError> {
        let mut result = WorkloadResult::default();
        let mut outcomes = Vec::new();
        for (n, rounds) in &self.chains {
            outcomes.push(runner.run(plans::chain(*n, *rounds)?.0)?);
        }
        outcomes.push(runner.run_batch(&self.items)?);
        for outcome in outcomes {
            result.events += outcome.events.len();
            for chunk in outcome.chunks {
                match chunk.executed_on {
                    ExecutedOn::Device => result.device += 1,
                    ExecutedOn::Cpu => result.cpu += 1,
                }
                result.outputs.extend(chunk.outputs);
            }
        }
        Ok(result)
    }
}
