//! Where did the time go when a device was opened? Phases, what overlapped, and what was put aside with a warning.

use std::time::{Duration, Instant};

use serde::Serialize;

/// One phase of opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// What was done.
    pub name: &'static str,
    /// When it began, counted from the beginning of all.
    pub began: Duration,
    /// How long it took.
    pub took: Duration,
}

/// Was the driver here already?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// The first device of this process: the driver's libraries were loaded for it.
    Cold,
    /// A later one.
    Warm,
}

/// What opening a device took. As data: milliseconds, and the overlap with them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "Written")]
pub struct InitStats {
    /// First device of this process?
    pub start: Start,
    /// In the order of their beginning; they may overlap.
    pub phases: Vec<Phase>,
    /// From the first call to a device that takes work.
    pub total: Duration,
    /// Bytes of compiled pipelines that were found on disk and taken; `None` when there were none.
    pub cached_pipelines: Option<u64>,
    /// What was ignored, and why. None of it keeps the device from working.
    pub warnings: Vec<String>,
}

impl InitStats {
    /// Time of all phases ÷ time that passed: above 1, phases ran side by side.
    pub fn overlap(&self) -> Option<f64> {
        let sum: Duration = self.phases.iter().map(|p| p.took).sum();
        (!self.total.is_zero()).then(|| sum.as_secs_f64() / self.total.as_secs_f64())
    }
}

/// The figures as they are written down.
#[derive(Serialize)]
struct Written {
    start: Start,
    total_ms: f64,
    overlap: Option<f64>,
    phases: Vec<WrittenPhase>,
    cached_pipelines: Option<u64>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct WrittenPhase {
    name: &'static str,
    began_ms: f64,
    took_ms: f64,
}

impl From<InitStats> for Written {
    fn from(stats: InitStats) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let phase = |p: &Phase| WrittenPhase { name: p.name, began_ms: ms(p.began), took_ms: ms(p.took) };
        Written {
            start: stats.start,
            total_ms: ms(stats.total),
            overlap: stats.overlap(),
            phases: stats.phases.iter().map(phase).collect(),
            cached_pipelines: stats.cached_pipelines,
            warnings: stats.warnings,
        }
    }
}

/// Takes the times.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    origin: Instant,
    phases: Vec<Phase>,
}

impl Stopwatch {
    /// Starts now.
    pub(crate) fn new() -> Self {
        Stopwatch { origin: Instant::now(), phases: Vec::new() }
    }

    /// Runs one phase.
    pub(crate) fn time<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let made = work();
        self.add(name, began, began.elapsed());
        made
    }

    /// A phase that ran on another thread.
    pub(crate) fn add(&mut self, name: &'static str, began: Instant, took: Duration) {
        self.phases.push(Phase { name, began: began.saturating_duration_since(self.origin), took });
    }

    /// The figures.
    pub(crate) fn stop(
        mut self,
        start: Start,
        cached_pipelines: Option<u64>,
        warnings: Vec<String>,
    ) -> InitStats {
        self.phases.sort_by_key(|p| p.began);
        InitStats { start, phases: self.phases, total: self.origin.elapsed(), cached_pipelines, warnings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_ordered_and_overlap_is_their_sum_over_the_whole() {
        let ms = Duration::from_millis;
        let phase = |name, began, took| Phase { name, began: ms(began), took: ms(took) };
        let stats = InitStats {
            start: Start::Cold,
            phases: vec![phase("instance", 0, 6), phase("adapter", 6, 4), phase("cache", 0, 5)],
            total: ms(10),
            cached_pipelines: None,
            warnings: Vec::new(),
        };
        assert_eq!(stats.overlap(), Some(1.5));
        let written = serde_json::to_value(&stats).unwrap();
        assert_eq!((&written["start"], &written["overlap"]), (&"cold".into(), &1.5.into()), "{written}");
        assert_eq!((&written["total_ms"], &written["phases"][1]["began_ms"]), (&10.0.into(), &6.0.into()));
        assert_eq!(InitStats { total: Duration::ZERO, ..stats }.overlap(), None);

        let mut watch = Stopwatch::new();
        let origin = watch.origin;
        assert_eq!(watch.time("second", || 7), 7);
        watch.add("first", origin, ms(1));
        let stats = watch.stop(Start::Warm, Some(96), vec!["x".to_owned()]);
        assert_eq!(stats.phases.iter().map(|p| p.name).collect::<Vec<_>>(), ["first", "second"]);
        assert!(stats.total >= stats.phases[1].began);
    }
}
