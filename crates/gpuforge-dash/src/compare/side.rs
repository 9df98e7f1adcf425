//! What is kept of a run? Durations by operation, thinned so that they can be compared, and where its time went.
//!
//! Spans that follow each other are alike: the clock was fast, a neighbour was busy. Taken one by one they would look like
//! far more evidence than they are. So of a long run [`STRETCHES`] stretches of neighbours are kept, spread over its whole
//! length, and a comparison makes one value of each.

use std::collections::BTreeMap;

use gpuforge_profile::{SpanRecord, Trace, TrackKind};
use serde::{Deserialize, Serialize};

use super::stacks;

/// Values that a run contributes to one comparison, at most.
pub const STRETCHES: usize = 32;
/// Neighbours in a stretch, at most.
pub const LENGTH: usize = 32;

/// One operation in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// How often it ran.
    pub count: u64,
    /// Its durations added up.
    pub total_ns: u64,
    /// Durations in order of their start: all of them, or stretches of neighbours.
    pub kept_ns: Vec<f64>,
}

impl Calls {
    /// Of durations in order of their start.
    pub fn of(durations: &[f64]) -> Calls {
        let total_ns = durations.iter().sum::<f64>() as u64;
        Calls { count: durations.len() as u64, total_ns, kept_ns: thin(durations) }
    }
}

/// All values, or stretches of neighbours spread evenly.
fn thin(values: &[f64]) -> Vec<f64> {
    if values.len() <= STRETCHES * LENGTH {
        return values.to_vec();
    }
    let starts = (0..STRETCHES).map(|i| i * values.len() / STRETCHES);
    starts.flat_map(|start| values.iter().skip(start).take(LENGTH)).copied().collect()
}

/// What one run left behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// By operation: the name of its spans, and where they ran unless that is a thread.
    pub operations: BTreeMap<String, Calls>,
    /// Time of its own, by path from the outermost span inwards, with semicolons between.
    pub stacks: BTreeMap<String, u64>,
    /// Records that were lost while it ran.
    pub dropped: u64,
}

impl Run {
    /// Of a trace.
    pub fn of(trace: &Trace) -> Run {
        let mut spans: Vec<&SpanRecord> = trace.spans.iter().collect();
        spans.sort_by_key(|span| span.start_ns);
        let mut groups: BTreeMap<(u32, &str), Vec<f64>> = BTreeMap::new();
        for span in spans {
            groups.entry((span.name, place(trace.kind_of(span)))).or_default().push(span.duration_ns as f64);
        }
        let named = |((name, place), durations): ((u32, &str), Vec<f64>)| {
            (format!("{}{place}", trace.name(name)), Calls::of(&durations))
        };
        let operations = groups.into_iter().map(named).collect();
        Run { operations, stacks: stacks::of(trace), dropped: trace.dropped }
    }
}

/// A kernel and the function that starts it often share a name; their times are different things.
fn place(kind: Option<TrackKind>) -> &'static str {
    match kind {
        Some(TrackKind::Device) => " [device]",
        Some(TrackKind::Async) => " [async]",
        _ => "",
    }
}

/// One side of a comparison: runs of one program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The runs, in the order they were given.
    pub runs: Vec<Run>,
}

impl Side {
    /// The runs of an operation that have it.
    pub fn calls<'a>(&'a self, operation: &'a str) -> impl Iterator<Item = &'a Calls> {
        self.runs.iter().filter_map(move |run| run.operations.get(operation))
    }

    /// Every operation of any run.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().flat_map(|run| run.operations.keys()).map(String::as_str)
    }
}

/// One value per block of `length` neighbours: their median. At most [`STRETCHES`] blocks, spread evenly.
pub(super) fn blocks(values: &[f64], length: usize) -> Vec<f64> {
    let length = length.max(1);
    let count = (values.len() / length).min(STRETCHES);
    let block = |i: usize| {
        let mut block: Vec<f64> =
            values.iter().skip(i * values.len() / count).take(length).copied().collect();
        block.sort_by(f64::total_cmp);
        super::rank::median(&block)
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
    fn long_runs_are_thinned_evenly() {
        let values: Vec<f64> = (0..10_240).map(f64::from).collect();
        let calls = Calls::of(&values);
        assert_eq!((calls.count, calls.kept_ns.len()), (10_240, STRETCHES * LENGTH));
        assert_eq!(calls.kept_ns[..2], [0.0, 1.0]);
        assert_eq!(calls.kept_ns[LENGTH], 320.0);
        let short: Vec<f64> = (0..1024).map(f64::from).collect();
        assert_eq!(Calls::of(&short).kept_ns, short);
    }

    #[test]
    fn blocks_never_reach_over_a_stretch() {
        let values: Vec<f64> = (0..10_240).map(f64::from).collect();
        let kept = Calls::of(&values).kept_ns;
        let medians = blocks(&kept, LENGTH);
        assert_eq!(medians.len(), STRETCHES);
        assert_eq!(medians[1], 320.0 + 15.5);
        assert_eq!(blocks(&kept, 1).len(), STRETCHES);
        assert_eq!(blocks(&[3.0, 1.0, 2.0], 1), [3.0, 1.0, 2.0]);
        assert_eq!(blocks(&[3.0, 1.0, 2.0], 3), [2.0]);
        assert!(blocks(&[3.0], 2).is_empty() && blocks(&[], 1).is_empty());
    }
}
