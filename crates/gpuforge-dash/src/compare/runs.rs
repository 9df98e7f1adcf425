//! Run profile: sampled durations by operation, and self time by stack.
//!
//! Consecutive spans are autocorrelated (clock rate, noisy neighbours); taken one by one they would look like far more
//! evidence than they are. So of a long run [`MAX_BLOCKS_PER_RUN`] blocks of consecutive spans are kept, spread over its
//! whole length, and a comparison takes one value of each.

use std::collections::BTreeMap;

use gpuforge_profile::{SpanRecord, Trace, TrackKind};
use serde::{Deserialize, Serialize};

use super::stacks;

/// Maximum number of blocks per run.
pub const MAX_BLOCKS_PER_RUN: usize = 32;
/// Maximum spans per block.
pub const BLOCK_SPANS: usize = 32;

/// Calls of one operation in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationCalls {
    /// Number of calls.
    pub count: u64,
    /// Total duration.
    pub total_ns: u64,
    /// Durations in start order: all of them, or blocks of consecutive ones.
    pub kept_ns: Vec<f64>,
}

impl OperationCalls {
    /// From durations in start order.
    pub fn of(durations: &[f64]) -> OperationCalls {
        let total_ns = durations.iter().sum::<f64>() as u64;
        OperationCalls { count: durations.len() as u64, total_ns, kept_ns: sample_blocks(durations) }
    }
}

/// All values, or evenly spread blocks of consecutive ones.
fn sample_blocks(values: &[f64]) -> Vec<f64> {
    if values.len() <= MAX_BLOCKS_PER_RUN * BLOCK_SPANS {
        return values.to_vec();
    }
    let starts = (0..MAX_BLOCKS_PER_RUN).map(|i| i * values.len() / MAX_BLOCKS_PER_RUN);
    starts.flat_map(|start| values.iter().skip(start).take(BLOCK_SPANS)).copied().collect()
}

/// Profile of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunProfile {
    /// By operation: span name, with the track kind unless it is a thread.
    pub operations: BTreeMap<String, OperationCalls>,
    /// Self time by stack, outermost span first, separated by semicolons.
    pub stacks: BTreeMap<String, u64>,
    /// Dropped records.
    pub dropped: u64,
}

impl RunProfile {
    /// From a trace.
    pub fn of(trace: &Trace) -> RunProfile {
        let mut spans: Vec<&SpanRecord> = trace.spans.iter().collect();
        spans.sort_by_key(|span| span.start_ns);
        let mut groups: BTreeMap<(u32, &str), Vec<f64>> = BTreeMap::new();
        for span in spans {
            groups
                .entry((span.name, track_suffix(trace.kind_of(span))))
                .or_default()
                .push(span.duration_ns as f64);
        }
        let named = |((name, place), durations): ((u32, &str), Vec<f64>)| {
            (format!("{}{place}", trace.name(name)), OperationCalls::of(&durations))
        };
        let operations = groups.into_iter().map(named).collect();
        RunProfile { operations, stacks: stacks::of(trace), dropped: trace.dropped }
    }
}

/// A kernel and the function that launches it often share a name; the track kind tells them apart.
fn track_suffix(kind: Option<TrackKind>) -> &'static str {
    match kind {
        Some(TrackKind::Device) => " [device]",
        Some(TrackKind::Async) => " [async]",
        _ => "",
    }
}

/// One side of a comparison: runs of one program version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSet {
    /// The runs, in the given order.
    pub runs: Vec<RunProfile>,
}

impl RunSet {
    /// Calls of an operation in the runs that have it.
    pub fn calls<'a>(&'a self, operation: &'a str) -> impl Iterator<Item = &'a OperationCalls> {
        self.runs.iter().filter_map(move |run| run.operations.get(operation))
    }

    /// Every operation of any run.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().flat_map(|run| run.operations.keys()).map(String::as_str)
    }
}

/// Medians of blocks of `length` consecutive values. At most [`MAX_BLOCKS_PER_RUN`] blocks, spread evenly.
pub(super) fn block_medians(values: &[f64], length: usize) -> Vec<f64> {
    let length = length.max(1);
    let count = (values.len() / length).min(MAX_BLOCKS_PER_RUN);
    let block = |i: usize| {
        let mut block: Vec<f64> =
            values.iter().skip(i * values.len() / count).take(length).copied().collect();
        block.sort_by(f64::total_cmp);
        super::rank_test::median(&block)
    };
    match length {
        1 if count == values.len() => values.to_vec(),
        _ => (0..count).filter_map(block).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_are_sampled_in_even_blocks() {
        let values: Vec<f64> = (0..10_240).map(f64::from).collect();
        let calls = OperationCalls::of(&values);
        assert_eq!((calls.count, calls.kept_ns.len()), (10_240, MAX_BLOCKS_PER_RUN * BLOCK_SPANS));
        assert_eq!(calls.kept_ns[..2], [0.0, 1.0]);
        assert_eq!(calls.kept_ns[BLOCK_SPANS], 320.0);
        let short: Vec<f64> = (0..1024).map(f64::from).collect();
        assert_eq!(OperationCalls::of(&short).kept_ns, short);
    }

    #[test]
    fn block_medians_stay_within_sampled_blocks() {
        let values: Vec<f64> = (0..10_240).map(f64::from).collect();
        let kept = OperationCalls::of(&values).kept_ns;
        let medians = block_medians(&kept, BLOCK_SPANS);
        assert_eq!(medians.len(), MAX_BLOCKS_PER_RUN);
        assert_eq!(medians[1], 320.0 + 15.5);
        assert_eq!(block_medians(&kept, 1).len(), MAX_BLOCKS_PER_RUN);
        assert_eq!(block_medians(&[3.0, 1.0, 2.0], 1), [3.0, 1.0, 2.0]);
        assert_eq!(block_medians(&[3.0, 1.0, 2.0], 3), [2.0]);
        assert!(block_medians(&[3.0], 2).is_empty() && block_medians(&[], 1).is_empty());
    }
}
