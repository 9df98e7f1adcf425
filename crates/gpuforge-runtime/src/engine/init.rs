//! Device initialisation times: phases (instance, adapter, device, pipeline cache), their overlap, and warnings.

use std::time::{Duration, Instant};

use serde::Serialize;

/// One phase of device initialisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitPhase {
    /// Name.
    pub name: &'static str,
    /// Start, relative to the start of the initialisation.
    pub began: Duration,
    /// Duration.
    pub took: Duration,
}

/// Cold or warm start of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverStart {
    /// The first device of this process: the driver libraries had to be loaded.
    Cold,
    /// A later one.
    Warm,
}

/// Initialisation times of a device. Serialised in milliseconds, with the overlap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "InitStatsJson")]
pub struct DeviceInitStats {
    /// Cold or warm start.
    pub start: DriverStart,
    /// Sorted by start; they may overlap.
    pub phases: Vec<InitPhase>,
    /// From the first call to a usable device.
    pub total: Duration,
    /// Bytes loaded from the pipeline cache on disk; `None` when there were none.
    pub cached_pipelines: Option<u64>,
    /// What was ignored, and why; the device works without it.
    pub warnings: Vec<String>,
}

impl DeviceInitStats {
    /// Sum of the phases ÷ total: above 1, phases ran concurrently.
    pub fn overlap(&self) -> Option<f64> {
        let sum: Duration = self.phases.iter().map(|p| p.took).sum();
        (!self.total.is_zero()).then(|| sum.as_secs_f64() / self.total.as_secs_f64())
    }
}

/// JSON form of [`DeviceInitStats`].
#[derive(Serialize)]
struct InitStatsJson {
    start: DriverStart,
    total_ms: f64,
    overlap: Option<f64>,
    phases: Vec<InitPhaseJson>,
    cached_pipelines: Option<u64>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct InitPhaseJson {
    name: &'static str,
    began_ms: f64,
    took_ms: f64,
}

impl From<DeviceInitStats> for InitStatsJson {
    fn from(stats: DeviceInitStats) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let phase =
            |p: &InitPhase| InitPhaseJson { name: p.name, began_ms: ms(p.began), took_ms: ms(p.took) };
        InitStatsJson {
            start: stats.start,
            total_ms: ms(stats.total),
            overlap: stats.overlap(),
            phases: stats.phases.iter().map(phase).collect(),
            cached_pipelines: stats.cached_pipelines,
            warnings: stats.warnings,
        }
    }
}

/// Measures the phases.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    origin: Instant,
    phases: Vec<InitPhase>,
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
        self.phases.push(InitPhase { name, began: began.saturating_duration_since(self.origin), took });
    }

    /// Ends the measurement.
    pub(crate) fn stop(
        mut self,
        start: DriverStart,
        cached_pipelines: Option<u64>,
        warnings: Vec<String>,
    ) -> DeviceInitStats {
        self.phases.sort_by_key(|p| p.began);
        DeviceInitStats {
            start,
            phases: self.phases,
            total: self.origin.elapsed(),
            cached_pipelines,
            warnings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_sorted_and_overlap_is_sum_over_total() {
        let ms = Duration::from_millis;
        let phase = |name, began, took| InitPhase { name, began: ms(began), took: ms(took) };
        let stats = DeviceInitStats {
            start: DriverStart::Cold,
            phases: vec![phase("instance", 0, 6), phase("adapter", 6, 4), phase("cache", 0, 5)],
            total: ms(10),
            cached_pipelines: None,
            warnings: Vec::new(),
        };
        assert_eq!(stats.overlap(), Some(1.5));
        let written = serde_json::to_value(&stats).unwrap();
        assert_eq!((&written["start"], &written["overlap"]), (&"cold".into(), &1.5.into()), "{written}");
        assert_eq!((&written["total_ms"], &written["phases"][1]["began_ms"]), (&10.0.into(), &6.0.into()));
        assert_eq!(DeviceInitStats { total: Duration::ZERO, ..stats }.overlap(), None);

        let mut watch = Stopwatch::new();
        let origin = watch.origin;
        assert_eq!(watch.time("second", || 7), 7);
        watch.add("first", origin, ms(1));
        let stats = watch.stop(DriverStart::Warm, Some(96), vec!["x".to_owned()]);
        assert_eq!(stats.phases.iter().map(|p| p.name).collect::<Vec<_>>(), ["first", "second"]);
        assert!(stats.total >= stats.phases[1].began);
    }
}
