//! How did it change over time? Busy time by category in equal stretches of the run.

use crate::{category::Category, sweep, trace::Trace};
use serde::{Deserialize, Serialize};

/// Most stretches a series is cut into: more than any screen is wide.
pub const MAX_BUCKETS: usize = 10_000;

/// One stretch of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// When it begins.
    pub start_ns: u64,
    /// How long it is.
    pub width_ns: u64,
    /// Spans that began in it, async ones included.
    pub began: u64,
    /// Self time within it by category, in the order of [`Category::ALL`]; above `width_ns` where several tracks
    /// were busy, `None` where nothing of the kind was.
    pub busy_ns: [Option<u64>; 5],
}

impl Bucket {
    /// The busy time of one category.
    pub fn busy(&self, category: Category) -> Option<u64> {
        self.busy_ns.get(category.index()).copied().flatten()
    }
}

impl Trace {
    /// The run in `buckets` equal stretches (1 to [`MAX_BUCKETS`]), fewer when it is shorter than as many nanoseconds;
    /// empty without spans.
    pub fn series(&self, buckets: usize) -> Vec<Bucket> {
        let Some((from, to)) = self.extent() else { return Vec::new() };
        let width = (to - from).div_ceil(buckets.clamp(1, MAX_BUCKETS) as u64).max(1);
        let count = (to - from).div_ceil(width).max(1);
        let mut series: Vec<Bucket> = (0..count)
            .map(|index| Bucket {
                start_ns: from + index * width,
                width_ns: width,
                began: 0,
                busy_ns: [None; 5],
            })
            .collect();
        let place = |ns: u64| (((ns - from) / width).min(count - 1)) as usize;
        for span in &self.spans {
            if let Some(bucket) = series.get_mut(place(span.start_ns)) {
                bucket.began += 1;
            }
        }
        sweep::segments(self, |index, start, end| {
            let Some(span) = self.spans.get(index) else { return };
            for bucket in series.iter_mut().take(place(end) + 1).skip(place(start)) {
                let within =
                    end.min(bucket.start_ns.saturating_add(width)).saturating_sub(start.max(bucket.start_ns));
                if let (Some(busy), 1..) = (bucket.busy_ns.get_mut(span.category.index()), within) {
                    *busy = Some(busy.unwrap_or(0) + within);
                }
            }
        });
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{span, trace};

    #[test]
    fn time_is_spread_over_the_stretches_it_covers() {
        let mut spans = [span("a", 0, 0, 100, 190), span("b", 0, 1, 120, 130), span("k", 1, 0, 195, 200)];
        spans[2].5 = Category::Gpu;
        let series = trace(&spans).series(4);
        assert_eq!(series.iter().map(|b| b.start_ns).collect::<Vec<_>>(), [100, 125, 150, 175]);
        assert_eq!(series.iter().map(|b| b.began).collect::<Vec<_>>(), [2, 0, 0, 1]);
        let cpu: Vec<_> = series.iter().map(|b| b.busy(Category::Cpu)).collect();
        assert_eq!(cpu, [Some(25), Some(25), Some(25), Some(15)]);
        assert_eq!(series[3].busy(Category::Gpu), Some(5));
        assert_eq!(series[0].busy(Category::Gpu), None);
    }

    #[test]
    fn edges() {
        assert_eq!(trace(&[]).series(10), []);
        let point = trace(&[span("a", 0, 0, 9, 9)]).series(10);
        assert_eq!((point.len(), point[0].began, point[0].busy_ns), (1, 1, [None; 5]));
        assert_eq!(trace(&[span("a", 0, 0, 0, 3)]).series(0).len(), 1);
        assert_eq!(trace(&[span("a", 0, 0, 0, 3)]).series(usize::MAX).len(), 3);
        assert_eq!(trace(&[span("a", 0, 0, 0, u64::MAX)]).series(usize::MAX).len(), MAX_BUCKETS);
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost_between_stretches(raw in proptest::collection::vec((0_u64..500, 0_u64..90), 1..30), n in 1_usize..60) {
            let spans: Vec<_> = raw.iter().map(|(at, long)| span("x", 0, 0, *at, at + long)).collect();
            let trace = trace(&spans);
            let busy: u64 = trace.series(n).iter().filter_map(|b| b.busy(Category::Cpu)).sum();
            proptest::prop_assert_eq!(Some(busy), trace.breakdown().cpu_ns);
        }
    }
}
