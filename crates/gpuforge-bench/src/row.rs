//! Benchmark row: median, peer, ratio, noise and target of one case; a ratio above 1 means that gpuforge is better.

use serde::Serialize;

use crate::measure::Sample;

/// One case.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// Which benchmark.
    pub(crate) bench: &'static str,
    /// Which case of it.
    pub(crate) case: String,
    /// Our median.
    pub(crate) ours: f64,
    /// The peer's median in the same run.
    pub(crate) peer: Option<f64>,
    /// Name of the peer.
    pub(crate) peer_name: Option<String>,
    /// Unit of both; less is better.
    pub(crate) unit: &'static str,
    /// Peer ÷ ours; without a peer, target ÷ ours.
    pub(crate) ratio: Option<f64>,
    /// Number of our measurements.
    pub(crate) n: u64,
    /// Interquartile range ÷ median, the larger of the two sides.
    pub(crate) noise: f64,
    /// Without a peer the largest acceptable value; with one the smallest acceptable ratio.
    pub(crate) target: Option<f64>,
}

impl Row {
    /// A case with a limit and no peer.
    pub(crate) fn vs_limit(bench: &'static str, case: &str, ours: &Sample, target: f64) -> Self {
        Row {
            bench,
            case: case.to_owned(),
            ours: ours.median,
            peer: None,
            peer_name: None,
            unit: "ms",
            ratio: Some(target / ours.median),
            n: ours.n,
            noise: ours.noise,
            target: Some(target),
        }
    }

    /// A case with a peer; `share` is the largest acceptable fraction of the peer's time, if there is a target.
    pub(crate) fn vs_peer(
        bench: &'static str,
        case: &str,
        ours: &Sample,
        name: &str,
        peer: &Sample,
        share: Option<f64>,
    ) -> Self {
        Row {
            bench,
            case: case.to_owned(),
            ours: ours.median,
            peer: Some(peer.median),
            peer_name: Some(name.to_owned()),
            unit: "ms",
            ratio: Some(peer.median / ours.median),
            n: ours.n.min(peer.n),
            noise: ours.noise.max(peer.noise),
            target: share.map(|share| 1.0 / share),
        }
    }
}
