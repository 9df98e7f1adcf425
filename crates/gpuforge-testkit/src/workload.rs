//! What is run while things fail? Several plans and a batch that must be split, with all answers known.

use gpuforge_runtime::{
    runner::{Batch as _, Place, RunError, Runner, RunnerSettings},
    units::Bytes,
};

use crate::{conformance, plans};

/// Plans one after the other, then a batch that does not fit and is done in pieces.
pub struct Workload {
    /// Words and rounds of each chain.
    pub chains: Vec<(u32, u32)>,
    /// The batch.
    pub items: plans::Items,
}

/// What a run of the workload brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    /// Everything downloaded, in order.
    pub outputs: Vec<Vec<u8>>,
    /// Pieces made on the device.
    pub device: u64,
    /// Pieces made by the twins.
    pub cpu: u64,
    /// Steps of recovery, with the splits that happen without any fault.
    pub events: usize,
}

impl Workload {
    /// More than 200 commands in four plans and more.
    pub fn standard() -> Self {
        Workload {
            chains: vec![(33, 40), (257, 30), (1000, 12)],
            items: plans::Items { items: 16, words: 1024 },
        }
    }

    /// As many commands on less data, for every event of an engine that computes on the processor.
    pub fn small() -> Self {
        Workload { chains: vec![(8, 40), (65, 30), (33, 12)], items: plans::Items { items: 16, words: 256 } }
    }

    /// Commands of all plans together, when nothing is split.
    pub fn commands(&self) -> Result<usize, String> {
        let chain =
            |(n, rounds): &(u32, u32)| plans::chain(*n, *rounds).map(|(plan, _)| plan.commands().len());
        let chains = self.chains.iter().map(chain).sum::<Result<usize, _>>();
        let batch = self.items.record(0..self.items.len()).map(|plan| plan.commands().len());
        Ok(chains.map_err(|e| e.to_string())? + batch.map_err(|e| e.to_string())?)
    }

    /// Room for a third of the batch.
    pub fn limit(&self) -> Bytes {
        Bytes(u64::from(self.items.words) * 4 * 3 * self.items.items as u64 / 3)
    }

    /// How a runner is set up for it.
    pub fn settings(&self) -> RunnerSettings {
        RunnerSettings {
            deadline: conformance::DEADLINE,
            ..RunnerSettings::new(conformance::settings(self.limit()))
        }
    }

    /// What it must bring, by plain Rust.
    pub fn expected(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut all = Vec::new();
        for (n, rounds) in &self.chains {
            all.extend(plans::chain(*n, *rounds).map_err(|e| e.to_string())?.1);
        }
        all.extend((0..self.items.len()).map(|i| self.items.expected(i)));
        Ok(all)
    }

    /// Runs it.
    pub fn run(&self, runner: &Runner) -> Result<Ran, RunError> {
        let mut ran = Ran::default();
        let mut outcomes = Vec::new();
        for (n, rounds) in &self.chains {
            outcomes.push(runner.run(plans::chain(*n, *rounds)?.0)?);
        }
        outcomes.push(runner.run_batch(&self.items)?);
        for outcome in outcomes {
            ran.events += outcome.events.len();
            for piece in outcome.pieces {
                match piece.place {
                    Place::Device => ran.device += 1,
                    Place::Cpu => ran.cpu += 1,
                }
                ran.outputs.extend(piece.outputs);
            }
        }
        Ok(ran)
    }
}
