//! What do snapshots one after another tell? Speeds, anomalies, and how long memory will last; in the viewer alone.

use std::collections::{BTreeMap, VecDeque};

use super::{
    robust::{UNUSUAL, growth, time_to_full, z_about, z_of},
    snapshot::{Counter, Routed, Snapshot},
    view::{Against, Anomaly, Filling, Rate, State, View},
};

/// Snapshots that are remembered: a minute at the usual speed.
const HISTORY: usize = 120;
/// Unusual things that are shown.
const ANOMALIES: usize = 16;
/// Names that a history is kept of.
const NAMES: usize = 512;
/// Times that vary less than this share of their median do not become unusual.
const LEAST_SPREAD: f64 = 0.05;
/// The same for the logarithm of measured over predicted.
const LEAST_LOG: f64 = 0.1;

/// The past of one process.
#[derive(Debug, Default)]
pub struct Watch {
    view: View,
    /// Mean nanoseconds by name.
    times: BTreeMap<String, VecDeque<f64>>,
    /// Logarithms of measured over predicted by operation and place.
    errors: BTreeMap<(String, String), VecDeque<f64>>,
    /// (seconds, bytes) by memory.
    memory: BTreeMap<String, VecDeque<(f64, f64)>>,
    trend: VecDeque<f64>,
    /// The last decision that was looked at.
    decided: u64,
}

fn push<T>(list: &mut VecDeque<T>, value: T) {
    if list.len() >= HISTORY {
        list.pop_front();
    }
    list.push_back(value);
}

/// The list of a name; `None` when there are too many names already.
fn list<K: Ord, T>(map: &mut BTreeMap<K, VecDeque<T>>, key: K) -> Option<&mut VecDeque<T>> {
    if map.len() >= NAMES && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

impl Watch {
    /// What is to be shown.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The process is in another state now.
    pub fn set_state(&mut self, state: State) {
        self.view.state = state;
    }

    /// Takes in the next snapshot; one of another process begins anew.
    pub fn take(&mut self, snapshot: Snapshot) {
        let continues = |old: &Snapshot| old.pid == snapshot.pid && old.seq < snapshot.seq;
        if !self.view.snapshot.as_ref().is_some_and(continues) {
            *self = Watch::default();
        }
        let before = self.view.snapshot.take();
        self.memory(&snapshot);
        if let Some(before) = &before {
            self.speeds(before, &snapshot);
        }
        self.predictions(&snapshot);
        let surplus = self.view.anomalies.len().saturating_sub(ANOMALIES);
        self.view.anomalies.drain(..surplus);
        if before.is_none() {
            let unknown = |name: &String| Rate { name: name.clone(), per_second: None, mean_ns: None };
            self.view.rates = snapshot.operations.iter().map(|o| unknown(&o.name)).collect();
            self.view.flows = snapshot.counters.iter().map(|c| unknown(&c.name)).collect();
        }
        let up = snapshot.uptime_ms as f64 * 1e6;
        let percent = |ns: u64| ns as f64 / up * 100.0;
        self.view.cost_percent = snapshot.cost.cpu_ns.filter(|_| up > 0.0).map(percent);
        self.view.state = State::Live;
        self.view.snapshot = Some(snapshot);
    }

    fn speeds(&mut self, before: &Snapshot, now: &Snapshot) {
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
                self.compare(&op.name, mean, now.uptime_ms);
            }
            rates.push(Rate { name: op.name.clone(), per_second: Some(count as f64 / seconds), mean_ns });
        }
        self.view.rates = rates;
        let known: BTreeMap<&str, u64> = before.counters.iter().map(|c| (c.name.as_str(), c.value)).collect();
        let flow = |c: &Counter| {
            let more = c.value.saturating_sub(known.get(c.name.as_str()).copied().unwrap_or(0));
            Rate { name: c.name.clone(), per_second: Some(more as f64 / seconds), mean_ns: None }
        };
        self.view.flows = now.counters.iter().map(flow).collect();
        push(&mut self.trend, all as f64 / seconds);
        self.view.trend = self.trend.iter().copied().collect();
    }

    /// Is the time of an operation unusual beside its own past?
    fn compare(&mut self, name: &str, mean: f64, at_ms: u64) {
        let Some(past) = list(&mut self.times, name.to_owned()) else { return };
        let past_values = past.make_contiguous();
        let unusual = z_of(mean, past_values, LEAST_SPREAD).filter(|z| z.abs() >= UNUSUAL);
        let usual = super::robust::median(past_values);
        push(past, mean);
        if let (Some(z), Some(usual)) = (unusual, usual) {
            let operation = name.to_owned();
            let factor = mean / usual;
            self.view.anomalies.push(Anomaly { at_ms, operation, against: Against::History, factor, z });
        }
    }

    /// Which of the new decisions took far longer or shorter than predicted?
    fn predictions(&mut self, now: &Snapshot) {
        for routed in now.routing.iter().filter(|r| r.seq > self.decided) {
            let Some(error) = error(routed) else { continue };
            let key = (routed.operation.clone(), routed.place.clone());
            let Some(past) = list(&mut self.errors, key) else { continue };
            // About 0, not about its past: a prediction that is always wrong is wrong.
            let z = z_about(error, 0.0, past.make_contiguous(), LEAST_LOG).filter(|z| z.abs() >= UNUSUAL);
            push(past, error);
            let anomaly = |z| Anomaly {
                at_ms: routed.at_ms,
                operation: format!("{} on {}", routed.operation, routed.place),
                against: Against::Prediction,
                factor: error.exp(),
                z,
            };
            self.view.anomalies.extend(z.map(anomaly));
        }
        self.decided = now.routing.last().map_or(self.decided, |r| r.seq.max(self.decided));
    }

    fn memory(&mut self, now: &Snapshot) {
        self.view.filling.clear();
        for memory in &now.memory {
            let Some(past) = list(&mut self.memory, memory.name.clone()) else { continue };
            push(past, (now.uptime_ms as f64 / 1e3, memory.used as f64));
            let past = past.make_contiguous();
            let Some(budget) = memory.budget else { continue };
            if let (Some(per_second), Some(full_in)) = (growth(past), time_to_full(past, budget as f64)) {
                let name = memory.name.clone();
                self.view.filling.push(Filling { name, per_second, full_in });
            }
        }
    }
}

/// Logarithm of measured over predicted.
fn error(routed: &Routed) -> Option<f64> {
    let predicted = routed.predicted_ns.filter(|ns| *ns > 0)?;
    Some((routed.wall_ns.max(1) as f64 / predicted as f64).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::snapshot::{Memory, Operation};

    fn at(seq: u64, count: u64, total_ns: u64, used: u64) -> Snapshot {
        Snapshot {
            pid: 7,
            seq,
            uptime_ms: seq * 500,
            cpu_ms: Some(seq * 250),
            operations: vec![Operation { name: "xor".into(), count, total_ns, mean_ns: 0.0 }],
            counters: vec![Counter { name: "bytes".into(), value: 7 * count }],
            memory: vec![Memory { name: "gpu".into(), used, budget: Some(10_000), ..Memory::default() }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn speeds_are_differences_and_unknown_at_first() {
        let mut watch = Watch::default();
        watch.take(at(1, 10, 1000, 0));
        assert_eq!(watch.view().rates, [Rate { name: "xor".into(), per_second: None, mean_ns: None }]);
        watch.take(at(2, 60, 6000, 0));
        let view = watch.view();
        assert_eq!(view.rates[0], Rate { name: "xor".into(), per_second: Some(100.0), mean_ns: Some(100.0) });
        assert_eq!(view.flows, [Rate { name: "bytes".into(), per_second: Some(700.0), mean_ns: None }]);
        assert_eq!((view.cores, view.trend.as_slice()), (Some(0.5), [100.0].as_slice()));
        watch.take(at(3, 60, 6000, 0));
        assert_eq!(watch.view().rates[0].mean_ns, None);
        // Another process: everything begins anew.
        watch.take(Snapshot { pid: 8, ..at(1, 5, 5, 0) });
        assert_eq!((watch.view().rates[0].per_second, watch.view().trend.len()), (None, 0));
    }

    #[test]
    fn a_slow_stretch_is_unusual_once_the_usual_is_known() {
        let mut watch = Watch::default();
        let (mut count, mut total) = (0, 0);
        for seq in 1..=20 {
            count += 100;
            total += 100 * (1000 + seq % 5);
            watch.take(at(seq, count, total, 0));
        }
        assert_eq!(watch.view().anomalies, []);
        watch.take(at(21, count + 100, total + 100 * 3000, 0));
        let found = &watch.view().anomalies;
        assert_eq!((found.len(), found[0].against), (1, Against::History));
        assert!((found[0].factor - 3.0).abs() < 0.1 && found[0].z > UNUSUAL, "{found:?}");
        assert!(found[0].line().starts_with("xor: 3.0 times as long as usual"));
    }

    #[test]
    fn a_prediction_that_is_far_off_is_unusual_and_each_decision_counts_once() {
        let routed = |seq, wall_ns| Routed {
            seq,
            operation: "sort".into(),
            place: "cpu".into(),
            predicted_ns: Some(1000),
            wall_ns,
            ..Routed::default()
        };
        let mut watch = Watch::default();
        let routing: Vec<Routed> = (1..=12).map(|seq| routed(seq, 1000 + seq)).collect();
        watch.take(Snapshot { routing: routing.clone(), ..at(1, 0, 0, 0) });
        let mut more = routing.clone();
        more.push(routed(13, 4000));
        watch.take(Snapshot { routing: more.clone(), ..at(2, 0, 0, 0) });
        watch.take(Snapshot { routing: more, ..at(3, 0, 0, 0) });
        let found = &watch.view().anomalies;
        assert_eq!((found.len(), found[0].against), (1, Against::Prediction));
        assert!((found[0].factor - 4.0).abs() < 1e-9);
    }

    #[test]
    fn growing_memory_says_when_it_is_full() {
        let mut watch = Watch::default();
        for seq in 1..=10 {
            watch.take(at(seq, 0, 0, seq * 500));
        }
        let filling = &watch.view().filling[0];
        assert_eq!((filling.per_second, filling.full_in), (1000.0, 5.0));
        for seq in 11..=60 {
            watch.take(at(seq, 0, 0, 5000));
        }
        assert_eq!(watch.view().filling, []);
    }
}
