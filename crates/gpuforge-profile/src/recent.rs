//! Recent-call statistics: averages over the last 1000 calls per name, merged from the rolling windows of all threads.

use crate::{
    clock::Scale,
    name::text_of,
    state::ProfilerState,
    window::{RECENT_CALLS, Window},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Statistics of the last calls of a name, up to [`RECENT_CALLS`], and totals over all its calls.
///
/// Unlike the spans of a trace these survive the ring: they are right even when almost everything was dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecentStats {
    /// Name of the spans.
    pub name: String,
    /// Spans since the profiler was first enabled.
    pub count: u64,
    /// Their total duration.
    pub total_ns: u64,
    /// Number of recent calls in `mean_ns`.
    pub last: u64,
    /// Mean duration of the recent calls.
    pub mean_ns: f64,
}

/// Totals and last durations of a window, in one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WindowSnapshot {
    count: u64,
    total: u64,
    /// (end, duration)
    last: Vec<[u64; 2]>,
}

impl WindowSnapshot {
    fn merge(&mut self, other: WindowSnapshot) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.last.extend(other.last);
        self.last.sort_unstable();
        let surplus = self.last.len().saturating_sub(RECENT_CALLS);
        self.last.drain(..surplus);
    }

    /// Merges the window of a thread that ended.
    pub(crate) fn absorb(&mut self, window: &Window) {
        self.merge(WindowSnapshot::of(window));
    }

    fn of(window: &Window) -> WindowSnapshot {
        let read = window.ring.read(0);
        WindowSnapshot { count: read.next, total: window.total(), last: read.records }
    }

    fn in_ns(&self, scale: Scale) -> WindowSnapshot {
        let last =
            self.last.iter().map(|[end, duration]| [scale.at(*end), scale.duration(*duration)]).collect();
        WindowSnapshot { count: self.count, total: scale.duration(self.total), last }
    }
}

/// Recent-call statistics sorted by name; and the number of calls not covered because a thread used more names than it
/// has windows.
pub(crate) fn recent(state: &ProfilerState, scale: Scale) -> (Vec<RecentStats>, u64) {
    let mut parts: Vec<((u32, bool), WindowSnapshot)> = Vec::new();
    let mut missed;
    {
        let table = state.thread_table();
        missed = table.untracked;
        parts.extend(table.retired_windows.iter().map(|(key, past)| (*key, past.clone())));
        for live in &table.live {
            missed += live.log.windows.untracked();
            let windows = live.log.windows.iter();
            parts.extend(windows.map(|w| ((w.key.name, w.key.in_ns), WindowSnapshot::of(w))));
        }
    }
    let mut names: BTreeMap<u32, WindowSnapshot> = BTreeMap::new();
    for ((name, in_ns), past) in parts {
        let unit = if in_ns { Scale::NANOSECONDS } else { scale };
        names.entry(name).or_default().merge(past.in_ns(unit));
    }
    let mut recent: Vec<RecentStats> =
        names.into_iter().filter_map(|(name, past)| past.report(&text_of(name)?)).collect();
    recent.sort_by(|a, b| a.name.cmp(&b.name));
    (recent, missed)
}

impl WindowSnapshot {
    fn report(&self, name: &str) -> Option<RecentStats> {
        let last = self.last.len() as u64;
        let sum: f64 = self.last.iter().map(|[_, duration]| *duration as f64).sum();
        (last > 0).then(|| RecentStats {
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
    fn latest_thousand_calls_of_two_threads_are_kept() {
        let mut past = WindowSnapshot::default();
        let of = |from: u64| WindowSnapshot {
            count: 900,
            total: 900 * 7,
            last: (0..900).map(|i| [from + 2 * i, 7]).collect(),
        };
        past.merge(of(0));
        past.merge(of(1));
        assert_eq!((past.count, past.total, past.last.len()), (1800, 12_600, RECENT_CALLS));
        assert_eq!(past.last.first(), Some(&[800, 7]));
        assert_eq!(past.report("x").map(|r| (r.last, r.mean_ns)), Some((1000, 7.0)));
        assert_eq!(WindowSnapshot::default().report("x"), None);
    }
}
