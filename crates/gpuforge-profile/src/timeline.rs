//! Timeline: busy time by category in equal buckets of the run.

use crate::{category::Category, self_time, trace::Trace};
use serde::{Deserialize, Serialize};

/// Maximum number of buckets: more than any screen is wide.
pub const MAX_BUCKETS: usize = 10_000;

/// One bucket of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineBucket {
    /// Start.
    pub start_ns: u64,
    /// Width.
    pub width_ns: u64,
    /// Spans that started in it, async ones included.
    pub began: u64,
    /// Self time within it by category, in the order of [`Category::ALL`]; above `width_ns` if several tracks were busy,
    /// `None` if there was none.
    pub busy_ns: [Option<u64>; 5],
}

impl TimelineBucket {
    /// The busy time of one category.
    pub fn busy(&self, category: Category) -> Option<u64> {
        self.busy_ns.get(category.index()).copied().flatten()
    }
}

impl Trace {
    /// The run in `buckets` equal buckets (1 to [`MAX_BUCKETS`]), fewer when it is shorter than as many nanoseconds; empty
    /// without spans.
    pub fn timeline(&self, buckets: usize) -> Vec<TimelineBucket> {
        let Some((from, to)) = self.extent() else { return Vec::new() };
        let width = (to - from).div_ceil(buckets.clamp(1, MAX_BUCKETS) as u64).max(1);
        let count = (to - from).div_ceil(width).max(1);
        let mut timeline: Vec<TimelineBucket> = (0..count)
            .map(|index| TimelineBucket {
                start_ns: from + index * width,
                width_ns: width,
                began: 0,
                busy_ns: [None; 5],
            })
            .collect();
        let bucket_of = |ns: u64| (((ns - from) / width).min(count - 1)) as usize;
        for span in &self.spans {
            if let Some(bucket) = timeline.get_mut(bucket_of(span.start_ns)) {
                bucket.began += 1;
            }
        }
        self_time::segments(self, |index, start, end| {
            let Some(span) = self.spans.get(index) else { return };
            for bucket in timeline.iter_mut().take(bucket_of(end) + 1).skip(bucket_of(start)) {
                let within =
                    end.min(bucket.start_ns.saturating_add(width)).saturating_sub(start.max(bucket.start_ns));
                if let (Some(busy), 1..) = (bucket.busy_ns.get_mut(span.category.index()), within) {
                    *busy = Some(busy.unwrap_or(0) + within);
                }
            }
        });
        timeline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trace::{span, trace};

    #[test]
    fn time_is_distributed_over_the_buckets_it_covers() {
        let mut spans = [span("a", 0, 0, 100, 190), span("b", 0, 1, 120, 130), span("k", 1, 0, 195, 200)];
        spans[2].5 = Category::Gpu;
        let timeline = trace(&spans).timeline(4);
        assert_eq!(timeline.iter().map(|b| b.start_ns).collect::<Vec<_>>(), [100, 125, 150, 175]);
        assert_eq!(timeline.iter().map(|b| b.began).collect::<Vec<_>>(), [2, 0, 0, 1]);
        let cpu: Vec<_> = timeline.iter().map(|b| b.busy(Category::Cpu)).collect();
        assert_eq!(cpu, [Some(25), Some(25), Some(25), Some(15)]);
        assert_eq!(timeline[3].busy(Category::Gpu), Some(5));
        assert_eq!(timeline[0].busy(Category::Gpu), None);
    }

    #[test]
    fn empty_point_and_maximal_timelines() {
        assert_eq!(trace(&[]).timeline(10), []);
        let point = trace(&[span("a", 0, 0, 9, 9)]).timeline(10);
        assert_eq!((point.len(), point[0].began, point[0].busy_ns), (1, 1, [None; 5]));
        assert_eq!(trace(&[span("a", 0, 0, 0, 3)]).timeline(0).len(), 1);
        assert_eq!(trace(&[span("a", 0, 0, 0, 3)]).timeline(usize::MAX).len(), 3);
        assert_eq!(trace(&[span("a", 0, 0, 0, u64::MAX)]).timeline(usize::MAX).len(), MAX_BUCKETS);
    }

    proptest::proptest! {
        #[test]
        fn buckets_sum_to_the_breakdown(raw in proptest::collection::vec((0_u64..500, 0_u64..90), 1..30), n in 1_usize..60) {
            let spans: Vec<_> = raw.iter().map(|(at, long)| span("x", 0, 0, *at, at + long)).collect();
            let trace = trace(&spans);
            let busy: u64 = trace.timeline(n).iter().filter_map(|b| b.busy(Category::Cpu)).sum();
            proptest::prop_assert_eq!(Some(busy), trace.breakdown().cpu_ns);
        }
    }
}
