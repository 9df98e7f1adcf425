//! Trace statistics: per-name totals and percentiles (HDR histogram), bottlenecks by self time, breakdown by category.

use crate::{category::Category, self_time, trace::Trace};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Precision of percentiles in significant decimal digits.
pub const PERCENTILE_DIGITS: u8 = 3;

/// Statistics of all spans of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpanStats {
    /// Name of the spans.
    pub name: String,
    /// Number of spans in the trace.
    pub count: u64,
    /// Sum of durations; nested spans of the same name count twice.
    pub total_ns: u64,
    /// Self time: excluding nested spans; `None` for async spans, which have none.
    pub self_ns: Option<u64>,
    /// Mean duration.
    pub mean_ns: f64,
    /// Sample standard deviation; `None` for a single span.
    pub std_ns: Option<f64>,
    /// Minimum.
    pub min_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Median, to [`PERCENTILE_DIGITS`].
    pub p50_ns: u64,
    /// 95th percentile, to [`PERCENTILE_DIGITS`].
    pub p95_ns: u64,
    /// 99th percentile, to [`PERCENTILE_DIGITS`].
    pub p99_ns: u64,
    /// Sum of bytes of the spans that stated them; `None` if none did.
    pub bytes: Option<u64>,
}

/// A name with a large self time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Name of the spans.
    pub name: String,
    /// Number of spans.
    pub count: u64,
    /// Self time.
    pub self_ns: u64,
    /// Self time ÷ wall time of the trace; above 1 with several threads.
    pub share_of_wall: Option<f64>,
}

/// Self time by category, over all threads and devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// From the first start to the last end; `None` without spans.
    pub wall_ns: Option<u64>,
    /// CPU time; each `None` if nothing of the category was measured.
    pub cpu_ns: Option<u64>,
    /// Device time, from its own timestamps.
    pub gpu_ns: Option<u64>,
    /// Transfers.
    pub transfer_ns: Option<u64>,
    /// Waiting.
    pub wait_ns: Option<u64>,
    /// Runtime overhead.
    pub overhead_ns: Option<u64>,
}

impl Breakdown {
    /// The time of one category.
    pub fn of(&self, category: Category) -> Option<u64> {
        match category {
            Category::Cpu => self.cpu_ns,
            Category::Gpu => self.gpu_ns,
            Category::Transfer => self.transfer_ns,
            Category::Wait => self.wait_ns,
            Category::Overhead => self.overhead_ns,
        }
    }

    fn of_mut(&mut self, category: Category) -> &mut Option<u64> {
        match category {
            Category::Cpu => &mut self.cpu_ns,
            Category::Gpu => &mut self.gpu_ns,
            Category::Transfer => &mut self.transfer_ns,
            Category::Wait => &mut self.wait_ns,
            Category::Overhead => &mut self.overhead_ns,
        }
    }
}

/// Durations of one name.
#[derive(Default)]
struct NameGroup {
    durations: Vec<u64>,
    self_ns: Option<u64>,
    bytes: Option<u64>,
}

fn groups(trace: &Trace) -> BTreeMap<u32, NameGroup> {
    let mut groups: BTreeMap<u32, NameGroup> = BTreeMap::new();
    for (span, own) in trace.spans.iter().zip(self_time::self_times(trace)) {
        let group = groups.entry(span.name).or_default();
        group.durations.push(span.duration_ns);
        add(&mut group.self_ns, own);
        add(&mut group.bytes, span.bytes);
    }
    groups
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

impl Trace {
    /// Statistics per name, sorted by descending total.
    pub fn summary(&self) -> Vec<SpanStats> {
        let mut rows: Vec<SpanStats> =
            groups(self).into_iter().map(|(name, group)| group.stats(self.name(name))).collect();
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
        rows
    }

    /// The `n` names with the largest self times, largest first.
    pub fn bottlenecks(&self, n: usize) -> Vec<Bottleneck> {
        let wall = self.wall_ns().filter(|wall| *wall > 0);
        let mut rows: Vec<Bottleneck> = groups(self)
            .into_iter()
            .filter_map(|(name, group)| {
                let self_ns = group.self_ns?;
                Some(Bottleneck {
                    name: self.name(name).to_owned(),
                    count: group.durations.len() as u64,
                    self_ns,
                    share_of_wall: wall.map(|wall| self_ns as f64 / wall as f64),
                })
            })
            .collect();
        rows.sort_by(|a, b| b.self_ns.cmp(&a.self_ns).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(n);
        rows
    }

    /// Self time by category. The sum is the busy time of all tracks, not the wall time.
    pub fn breakdown(&self) -> Breakdown {
        let mut breakdown = Breakdown { wall_ns: self.wall_ns(), ..Breakdown::default() };
        for (span, own) in self.spans.iter().zip(self_time::self_times(self)) {
            add(breakdown.of_mut(span.category), own);
        }
        breakdown
    }
}

impl NameGroup {
    fn stats(&self, name: &str) -> SpanStats {
        let count = self.durations.len() as u64;
        let total = self.durations.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        let mean = self.durations.iter().map(|ns| *ns as f64).sum::<f64>() / count.max(1) as f64;
        // Two passes: the difference of sums of squares cancels catastrophically for long spans.
        let squares: f64 = self.durations.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
        let [p50_ns, p95_ns, p99_ns] = percentiles(&self.durations, [0.50, 0.95, 0.99]);
        SpanStats {
            name: name.to_owned(),
            count,
            total_ns: total,
            self_ns: self.self_ns,
            mean_ns: mean,
            std_ns: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
            min_ns: self.durations.iter().copied().min().unwrap_or(0),
            max_ns: self.durations.iter().copied().max().unwrap_or(0),
            p50_ns,
            p95_ns,
            p99_ns,
            bytes: self.bytes,
        }
    }
}

/// Percentiles from an HDR histogram, so that no sorted copy is needed; clamped to the recorded range.
fn percentiles<const N: usize>(durations: &[u64], quantiles: [f64; N]) -> [u64; N] {
    let max = durations.iter().copied().max().unwrap_or(0);
    // The bounds are valid for any duration up to 2^62; longer ones are recorded at the bound.
    let bound = max.clamp(2, 1 << 62);
    let Ok(mut histogram) = Histogram::<u64>::new_with_bounds(1, bound, PERCENTILE_DIGITS) else {
        return [max; N];
    };
    for ns in durations {
        histogram.saturating_record(*ns);
    }
    let min = durations.iter().copied().min().unwrap_or(0);
    quantiles.map(|quantile| histogram.value_at_quantile(quantile).clamp(min, max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trace::{span, trace};

    #[test]
    fn statistics_of_a_small_trace() {
        let trace = trace(&[
            span("step", 0, 0, 0, 100),
            span("load", 0, 1, 10, 40),
            span("load", 0, 1, 50, 60),
            span("fetch", 2, 0, 0, 500),
        ]);
        let rows = trace.summary();
        let short: Vec<_> =
            rows.iter().map(|r| (r.name.as_str(), r.count, r.total_ns, r.self_ns, r.std_ns)).collect();
        assert_eq!(
            short,
            [
                ("fetch", 1, 500, None, None),
                ("step", 1, 100, Some(60), None),
                ("load", 2, 40, Some(40), Some(200_f64.sqrt()))
            ]
        );
        assert_eq!((rows[2].mean_ns, rows[2].min_ns, rows[2].max_ns), (20.0, 10, 30));
        let worst = trace.bottlenecks(1);
        assert_eq!((worst.len(), worst[0].name.as_str(), worst[0].self_ns), (1, "step", 60));
        assert_eq!(worst[0].share_of_wall, Some(60.0 / 500.0));
        assert_eq!(trace.bottlenecks(99).len(), 2);
    }

    #[test]
    fn unmeasured_category_is_none() {
        let mut spans = [span("a", 0, 0, 0, 100), span("b", 0, 1, 20, 50), span("k", 1, 0, 30, 45)];
        spans[1].5 = Category::Wait;
        spans[2].5 = Category::Gpu;
        let breakdown = trace(&spans).breakdown();
        assert_eq!(breakdown.wall_ns, Some(100));
        let all = Category::ALL.map(|category| breakdown.of(category));
        assert_eq!(all, [Some(70), Some(15), None, Some(30), None]);
    }

    #[test]
    fn empty_trace_has_no_statistics() {
        let empty = trace(&[]);
        assert_eq!(empty.summary(), []);
        assert_eq!(empty.bottlenecks(5), []);
        assert_eq!(empty.breakdown(), Breakdown::default());
        // Zero wall time: no share, rather than a division by zero.
        assert_eq!(trace(&[span("a", 0, 0, 5, 5)]).bottlenecks(1)[0].share_of_wall, None);
    }

    fn exact(sorted: &[u64], quantile: f64) -> u64 {
        let rank = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[rank - 1]
    }

    proptest::proptest! {
        #[test]
        fn percentiles_agree_with_sorting(mut values in proptest::collection::vec(0_u64..10_000_000_000, 1..400)) {
            let quantiles = [0.5, 0.95, 0.99];
            let ours = percentiles(&values, quantiles);
            values.sort_unstable();
            for (quantile, ours) in quantiles.into_iter().zip(ours) {
                let exact = exact(&values, quantile);
                proptest::prop_assert!(ours.abs_diff(exact) <= exact / 1000 + 1, "{quantile}: {ours} {exact}");
            }
        }
    }

    #[test]
    fn percentiles_are_clamped_to_extreme_durations() {
        assert_eq!(percentiles(&[0, 0, 0], [0.5, 0.99]), [0, 0]);
        assert_eq!(percentiles(&[], [0.5]), [0]);
        assert_eq!(percentiles(&[7], [0.0, 0.5, 1.0]), [7, 7, 7]);
        let [low, high] = percentiles(&[1, u64::MAX], [0.5, 0.99]);
        assert!(low == 1 && high >= 1 << 62, "{low} {high}");
    }
}
