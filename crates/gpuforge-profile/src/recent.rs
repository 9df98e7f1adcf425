//! How long did the last thousand calls take? From the windows of all threads, living and ended.

use crate::{
    clock::Scale,
    name::text_of,
    shared::Shared,
    window::{RECENT, Window},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The last calls of a name, up to [`RECENT`] of them, and what is known of all its calls.
///
/// Unlike the spans of a trace this survives the ring: it is right even when almost everything was dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recent {
    /// Name of the spans.
    pub name: String,
    /// Spans since the profiler was first switched on.
    pub count: u64,
    /// Their duration in all.
    pub total_ns: u64,
    /// How many of the last ones `mean_ns` covers.
    pub last: u64,
    /// Mean duration of those.
    pub mean_ns: f64,
}

/// Sums and last durations in one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Past {
    count: u64,
    total: u64,
    /// (end, duration)
    last: Vec<[u64; 2]>,
}

impl Past {
    fn merge(&mut self, other: Past) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.last.extend(other.last);
        self.last.sort_unstable();
        let surplus = self.last.len().saturating_sub(RECENT);
        self.last.drain(..surplus);
    }

    /// Takes over the window of a thread that ended.
    pub(crate) fn absorb(&mut self, window: &Window) {
        self.merge(Past::of(window));
    }

    fn of(window: &Window) -> Past {
        let read = window.ring.read(0);
        Past { count: read.next, total: window.total(), last: read.records }
    }

    fn in_ns(&self, scale: Scale) -> Past {
        let last = self.last.iter().map(|[end, duration]| [scale.at(*end), scale.long(*duration)]).collect();
        Past { count: self.count, total: scale.long(self.total), last }
    }
}

/// The last calls of every name, by name; and how many calls are not among them because a thread used more names than
/// it has windows.
pub(crate) fn recent(shared: &Shared, scale: Scale) -> (Vec<Recent>, u64) {
    let mut parts: Vec<((u32, bool), Past)> = Vec::new();
    let mut missed;
    {
        let inner = shared.inner();
        missed = inner.homeless;
        parts.extend(inner.past.iter().map(|(key, past)| (*key, past.clone())));
        for active in &inner.active {
            missed += active.log.windows.homeless();
            let windows = active.log.windows.iter();
            parts.extend(windows.map(|w| ((w.key.name, w.key.in_ns), Past::of(w))));
        }
    }
    let mut names: BTreeMap<u32, Past> = BTreeMap::new();
    for ((name, in_ns), past) in parts {
        let unit = if in_ns { Scale::NANOSECONDS } else { scale };
        names.entry(name).or_default().merge(past.in_ns(unit));
    }
    let mut recent: Vec<Recent> =
        names.into_iter().filter_map(|(name, past)| past.report(&text_of(name)?)).collect();
    recent.sort_by(|a, b| a.name.cmp(&b.name));
    (recent, missed)
}

impl Past {
    fn report(&self, name: &str) -> Option<Recent> {
        let last = self.last.len() as u64;
        let sum: f64 = self.last.iter().map(|[_, duration]| *duration as f64).sum();
        (last > 0).then(|| Recent {
            name: name.to_owned(),
            count: self.count,
            total_ns: self.total,
            last,
            mean_ns: sum / last as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_thousand_of_two_threads_are_kept() {
        let mut past = Past::default();
        let of = |from: u64| Past {
            count: 900,
            total: 900 * 7,
            last: (0..900).map(|i| [from + 2 * i, 7]).collect(),
        };
        past.merge(of(0));
        past.merge(of(1));
        assert_eq!((past.count, past.total, past.last.len()), (1800, 12_600, RECENT));
        assert_eq!(past.last.first(), Some(&[800, 7]));
        assert_eq!(past.report("x").map(|r| (r.last, r.mean_ns)), Some((1000, 7.0)));
        assert_eq!(Past::default().report("x"), None);
    }
}
