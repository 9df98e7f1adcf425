//! Snapshot tracker: rates, anomaly detection and memory growth from consecutive snapshots; runs in the viewer.

use std::collections::{BTreeMap, VecDeque};

use super::{
    robust_stats::{UNUSUAL, growth, time_to_full, z_about, z_of},
    snapshot::{CounterValue, RoutingDecision, Snapshot},
    view::{Anomaly, AnomalyReference, ConnectionState, LiveView, MemoryGrowth, Rate},
};

/// History length in snapshots: a minute at the usual rate.
const HISTORY: usize = 120;
/// Maximum anomalies kept.
const MAX_ANOMALIES: usize = 16;
/// Maximum names with a history.
const MAX_NAMES: usize = 512;
/// Minimum spread of times, as a fraction of their median.
const MIN_SPREAD: f64 = 0.05;
/// Minimum spread of the log prediction error.
const MIN_LOG_SPREAD: f64 = 0.1;

/// History of one process.
#[derive(Debug, Default)]
pub struct SnapshotTracker {
    view: LiveView,
    /// Mean times by name.
    times: BTreeMap<String, VecDeque<f64>>,
    /// Log prediction errors by operation and backend.
    errors: BTreeMap<(String, String), VecDeque<f64>>,
    /// (seconds, bytes) by memory pool.
    memory: BTreeMap<String, VecDeque<(f64, f64)>>,
    trend: VecDeque<f64>,
    /// Sequence number of the last decision processed.
    decided: u64,
}

fn push<T>(list: &mut VecDeque<T>, value: T) {
    if list.len() >= HISTORY {
        list.pop_front();
    }
    list.push_back(value);
}

/// History of a name; `None` when there are too many names.
fn list<K: Ord, T>(map: &mut BTreeMap<K, VecDeque<T>>, key: K) -> Option<&mut VecDeque<T>> {
    if map.len() >= MAX_NAMES && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

impl SnapshotTracker {
    /// Current view.
    pub fn view(&self) -> &LiveView {
        &self.view
    }

    /// Sets the connection state.
    pub fn set_state(&mut self, state: ConnectionState) {
        self.view.state = state;
    }

    /// Adds a snapshot; one of another process resets the history.
    pub fn add(&mut self, snapshot: Snapshot) {
        let continues = |old: &Snapshot| old.pid == snapshot.pid && old.seq < snapshot.seq;
        if !self.view.snapshot.as_ref().is_some_and(continues) {
            *self = SnapshotTracker::default();
        }
        let before = self.view.snapshot.take();
        self.update_memory(&snapshot);
        if let Some(before) = &before {
            self.update_rates(before, &snapshot);
        }
        self.check_predictions(&snapshot);
        let surplus = self.view.anomalies.len().saturating_sub(MAX_ANOMALIES);
        self.view.anomalies.drain(..surplus);
        if before.is_none() {
            let unknown = |name: &String| Rate { name: name.clone(), per_second: None, mean_ns: None };
            self.view.rates = snapshot.operations.iter().map(|o| unknown(&o.name)).collect();
            self.view.flows = snapshot.counters.iter().map(|c| unknown(&c.name)).collect();
        }
        let up = snapshot.uptime_ms as f64 * 1e6;
        let percent = |ns: u64| ns as f64 / up * 100.0;
        self.view.cost_percent = snapshot.cost.cpu_ns.filter(|_| up > 0.0).map(percent);
        self.view.state = ConnectionState::Live;
        self.view.snapshot = Some(snapshot);
    }

    fn update_rates(&mut self, before: &Snapshot, now: &Snapshot) {
        let seconds = now.uptime_ms.saturating_sub(before.uptime_ms) as f64 / 1e3;
        if seconds <= 0.0 {
            return;
        }
        let spent = now.cpu_ms.zip(before.cpu_ms).map(|(now, before)| now.saturating_sub(before) as f64);
        self.view.cores = spent.map(|ms| ms / 1e3 / seconds);
        let known: BTreeMap<&str, _> = before.operations.iter().map(|o| (o.name.as_str(), o)).collect();
        let (mut rates, mut all) = (Vec::with_capacity(now.operations.len()), 0);
        for op in &now.operations {
            let old = known.get(op.name.as_str());
            let count = op.count.saturating_sub(old.map_or(0, |o| o.count));
            let time = op.total_ns.saturating_sub(old.map_or(0, |o| o.total_ns)) as f64;
            let mean_ns = (count > 0).then(|| time / count as f64);
            all += count;
            if let Some(mean) = mean_ns {
                self.check_history(&op.name, mean, now.uptime_ms);
            }
            rates.push(Rate { name: op.name.clone(), per_second: Some(count as f64 / seconds), mean_ns });
        }
        self.view.rates = rates;
        let known: BTreeMap<&str, u64> = before.counters.iter().map(|c| (c.name.as_str(), c.value)).collect();
        let flow = |c: &CounterValue| {
            let more = c.value.saturating_sub(known.get(c.name.as_str()).copied().unwrap_or(0));
            Rate { name: c.name.clone(), per_second: Some(more as f64 / seconds), mean_ns: None }
        };
        self.view.flows = now.counters.iter().map(flow).collect();
        push(&mut self.trend, all as f64 / seconds);
        self.view.trend = self.trend.iter().copied().collect();
    }

    /// Detects an anomaly of an operation's time against its history.
    fn check_history(&mut self, name: &str, mean: f64, at_ms: u64) {
        let Some(past) = list(&mut self.times, name.to_owned()) else { return };
        let past_values = past.make_contiguous();
        let unusual = z_of(mean, past_values, MIN_SPREAD).filter(|z| z.abs() >= UNUSUAL);
        let usual = super::robust_stats::median(past_values);
        push(past, mean);
        if let (Some(z), Some(usual)) = (unusual, usual) {
            let operation = name.to_owned();
            let factor = mean / usual;
            self.view.anomalies.push(Anomaly {
                at_ms,
                operation,
                against: AnomalyReference::History,
                factor,
                z,
            });
        }
    }

    /// Detects decisions whose time is far from the prediction.
    fn check_predictions(&mut self, now: &Snapshot) {
        for routed in now.routing.iter().filter(|r| r.seq > self.decided) {
            let Some(error) = error(routed) else { continue };
            let key = (routed.operation.clone(), routed.place.clone());
            let Some(past) = list(&mut self.errors, key) else { continue };
            // About 0, not about its history: a prediction that is always wrong is wrong.
            let z =
                z_about(error, 0.0, past.make_contiguous(), MIN_LOG_SPREAD).filter(|z| z.abs() >= UNUSUAL);
            push(past, error);
            let anomaly = |z| Anomaly {
                at_ms: routed.at_ms,
                operation: format!("{} on {}", routed.operation, routed.place),
                against: AnomalyReference::Prediction,
                factor: error.exp(),
                z,
            };
            self.view.anomalies.extend(z.map(anomaly));
        }
        self.decided = now.routing.last().map_or(self.decided, |r| r.seq.max(self.decided));
    }

    fn update_memory(&mut self, now: &Snapshot) {
        self.view.filling.clear();
        for memory in &now.memory {
            let Some(past) = list(&mut self.memory, memory.name.clone()) else { continue };
            push(past, (now.uptime_ms as f64 / 1e3, memory.used as f64));
            let past = past.make_contiguous();
            let Some(budget) = memory.budget else { continue };
            if let (Some(per_second), Some(full_in)) = (growth(past), time_to_full(past, budget as f64)) {
                let name = memory.name.clone();
                self.view.filling.push(MemoryGrowth { name, per_second, full_in });
            }
        }
    }
}

/// Log prediction error.
fn error(routed: &RoutingDecision) -> Option<f64> {
    let predicted = routed.predicted_ns.filter(|ns| *ns > 0)?;
    Some((routed.wall_ns.max(1) as f64 / predicted as f64).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::snapshot::{MemoryStatus, OperationStats};

    fn at(seq: u64, count: u64, total_ns: u64, used: u64) -> Snapshot {
        Snapshot {
            pid: 7,
            seq,
            uptime_ms: seq * 500,
            cpu_ms: Some(seq * 250),
            operations: vec![OperationStats { name: "xor".into(), count, total_ns, mean_ns: 0.0 }],
            counters: vec![CounterValue { name: "bytes".into(), value: 7 * count }],
            memory: vec![MemoryStatus {
                name: "gpu".into(),
                used,
                budget: Some(10_000),
                ..MemoryStatus::default()
            }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_are_differences_and_unknown_at_first() {
        let mut tracker = SnapshotTracker::default();
        tracker.add(at(1, 10, 1000, 0));
        assert_eq!(tracker.view().rates, [Rate { name: "xor".into(), per_second: None, mean_ns: None }]);
        tracker.add(at(2, 60, 6000, 0));
        let view = tracker.view();
        assert_eq!(view.rates[0], Rate { name: "xor".into(), per_second: Some(100.0), mean_ns: Some(100.0) });
        assert_eq!(view.flows, [Rate { name: "bytes".into(), per_second: Some(700.0), mean_ns: None }]);
        assert_eq!((view.cores, view.trend.as_slice()), (Some(0.5), [100.0].as_slice()));
        tracker.add(at(3, 60, 6000, 0));
        assert_eq!(tracker.view().rates[0].mean_ns, None);
        // Another process: everything begins anew.
        tracker.add(Snapshot { pid: 8, ..at(1, 5, 5, 0) });
        assert_eq!((tracker.view().rates[0].per_second, tracker.view().trend.len()), (None, 0));
    }

    #[test]
    fn slow_operation_is_an_anomaly_after_enough_history() {
        let mut tracker = SnapshotTracker::default();
        let (mut count, mut total) = (0, 0);
        for seq in 1..=20 {
            count += 100;
            total += 100 * (1000 + seq % 5);
            tracker.add(at(seq, count, total, 0));
        }
        assert_eq!(tracker.view().anomalies, []);
        tracker.add(at(21, count + 100, total + 100 * 3000, 0));
        let found = &tracker.view().anomalies;
        assert_eq!((found.len(), found[0].against), (1, AnomalyReference::History));
        assert!((found[0].factor - 3.0).abs() < 0.1 && found[0].z > UNUSUAL, "{found:?}");
        assert!(found[0].line().starts_with("xor: 3.0 times as long as usual"));
    }

    #[test]
    fn wrong_prediction_is_an_anomaly_once() {
        let routed = |seq, wall_ns| RoutingDecision {
            seq,
            operation: "sort".into(),
            place: "cpu".into(),
            predicted_ns: Some(1000),
            wall_ns,
            ..RoutingDecision::default()
        };
        let mut tracker = SnapshotTracker::default();
        let routing: Vec<RoutingDecision> = (1..=12).map(|seq| routed(seq, 1000 + seq)).collect();
        tracker.add(Snapshot { routing: routing.clone(), ..at(1, 0, 0, 0) });
        let mut more = routing.clone();
        more.push(routed(13, 4000));
        tracker.add(Snapshot { routing: more.clone(), ..at(2, 0, 0, 0) });
        tracker.add(Snapshot { routing: more, ..at(3, 0, 0, 0) });
        let found = &tracker.view().anomalies;
        assert_eq!((found.len(), found[0].against), (1, AnomalyReference::Prediction));
        assert!((found[0].factor - 4.0).abs() < 1e-9);
    }

    #[test]
    fn growing_memory_predicts_time_to_full() {
        let mut tracker = SnapshotTracker::default();
        for seq in 1..=10 {
            tracker.add(at(seq, 0, 0, seq * 500));
        }
        let filling = &tracker.view().filling[0];
        assert_eq!((filling.per_second, filling.full_in), (1000.0, 5.0));
        for seq in 11..=60 {
            tracker.add(at(seq, 0, 0, 5000));
        }
        assert_eq!(tracker.view().filling, []);
    }
}
