//! Partitioning of items over backends of different throughput, so that all finish at the same time: guided self-scheduling
//! with a linear cost per backend, predicted first and then measured. Pure: the clock is the caller's.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use crate::backend::BackendError;

/// Linear cost of `n` items on a backend: `fixed + n * item` nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearCost {
    /// Fixed cost.
    pub fixed: f64,
    /// Cost per item.
    pub item: f64,
}

/// Smallest cost per item: a cost of zero cannot be compared.
const MIN_ITEM_NS: f64 = 1e-3;

impl LinearCost {
    /// Fits the cost to the times of one item and of `n` items.
    pub fn fit(one: f64, many: f64, n: usize) -> LinearCost {
        let item = if n > 1 { (many - one) / (n - 1) as f64 } else { one };
        // Times that fall with the size are noise: then only the mean is known.
        let item = if item > MIN_ITEM_NS { item } else { (many / n.max(1) as f64).max(MIN_ITEM_NS) };
        LinearCost { fixed: (one - item).max(0.0), item }
    }

    /// Nanoseconds for `n` items.
    pub fn of(&self, n: usize) -> f64 {
        self.fixed + n as f64 * self.item
    }

    fn scaled(&self, factor: f64) -> LinearCost {
        LinearCost { fixed: self.fixed * factor, item: (self.item * factor).max(MIN_ITEM_NS) }
    }
}

/// Optimal static partition of `n` items: all backends finish at the same time; one that could only start after the others have
/// finished gets none. The fixed part of a cost includes whatever has to finish first. Remainders go to the largest fractions.
pub fn partition(costs: &[LinearCost], n: usize) -> Vec<usize> {
    if costs.is_empty() {
        return Vec::new();
    }
    let mut by_start: Vec<&LinearCost> = costs.iter().collect();
    by_start.sort_unstable_by(|a, b| a.fixed.total_cmp(&b.fixed));
    // Finish time if only the first few take part; the next joins while it would start before that.
    let (mut rate, mut head_start, mut finish) = (0.0, 0.0, f64::INFINITY);
    for cost in by_start {
        if cost.fixed >= finish {
            break;
        }
        let speed = 1.0 / cost.item.max(MIN_ITEM_NS);
        rate += speed;
        head_start += cost.fixed * speed;
        finish = (n as f64 + head_start) / rate;
    }
    let exact: Vec<f64> =
        costs.iter().map(|c| ((finish - c.fixed) / c.item.max(MIN_ITEM_NS)).clamp(0.0, n as f64)).collect();
    let mut shares: Vec<usize> = exact.iter().map(|e| e.floor() as usize).collect();
    let mut order: Vec<usize> = (0..costs.len()).collect();
    let fraction = |i: &usize| exact.get(*i).map_or(0.0, |e| e.fract());
    order.sort_by(|a, b| fraction(b).total_cmp(&fraction(a)));
    let mut missing = n.saturating_sub(shares.iter().sum());
    for i in order.iter().cycle().take(missing.min(costs.len())) {
        if let Some(share) = shares.get_mut(*i) {
            *share += 1;
            missing -= 1;
        }
    }
    // Floating-point rounding of very large counts: the first backend takes the rest.
    if missing > 0
        && let Some(share) = shares.first_mut()
    {
        *share += missing;
    }
    shares
}

/// Failover: which backend failed and why its items were handed on.
#[derive(Debug, Clone)]
pub(crate) struct Failover {
    pub(crate) backend_id: usize,
    pub(crate) error: BackendError,
}

/// A range of items to run next.
#[derive(Debug, Clone)]
pub(crate) struct ItemRange {
    pub(crate) items: Range<usize>,
    /// Set when another backend had them and failed.
    pub(crate) failover: Option<Arc<Failover>>,
}

/// What a backend does next.
#[derive(Debug)]
pub(crate) enum NextWork {
    /// Run these items.
    Items(ItemRange),
    /// Nothing now, but another backend may fail and hand its items on: ask again.
    Wait,
    /// Everything is done.
    Done,
}

#[derive(Debug, Clone)]
struct Worker {
    /// Index of the backend.
    backend_id: usize,
    cost: LinearCost,
    /// Is the cost based on a measurement, from calibration or from this run?
    known: bool,
    measured: bool,
    max_items: usize,
    /// Start and predicted end of its current range.
    running: Option<(f64, f64)>,
    failed: bool,
}

/// What is known of a backend when the run begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerSpec {
    pub(crate) backend_id: usize,
    /// `None` where nothing was measured.
    pub(crate) cost: Option<LinearCost>,
    /// Most items per range.
    pub(crate) max_items: usize,
}

/// Work queue with guided self-scheduling: small ranges first, then half of the remaining share, smaller towards the end, so
/// that a wrong prediction costs little.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    rest: VecDeque<ItemRange>,
    workers: Vec<Worker>,
}

/// Ratio of work to fixed cost below which a range is not worth starting.
const MIN_WORK_RATIO: f64 = 4.0;

/// Longest range, in nanoseconds, while another backend is still unmeasured.
const TRIAL_NS: f64 = 10e6;

impl WorkQueue {
    pub(crate) fn new(items: usize, specs: &[WorkerSpec]) -> Self {
        // An unmeasured backend is assumed to be as fast as the best, and tried with a small range.
        let known = specs.iter().filter_map(|s| s.cost).map(|p| p.item).fold(f64::INFINITY, f64::min);
        let guess = LinearCost { fixed: 0.0, item: if known.is_finite() { known } else { 1e3 } };
        let worker = |s: &WorkerSpec| Worker {
            backend_id: s.backend_id,
            cost: s.cost.unwrap_or(guess),
            known: s.cost.is_some(),
            measured: false,
            max_items: s.max_items.max(1),
            running: None,
            failed: false,
        };
        let rest = if items > 0 { vec![ItemRange { items: 0..items, failover: None }] } else { Vec::new() };
        WorkQueue { rest: rest.into(), workers: specs.iter().map(worker).collect() }
    }

    fn left(&self) -> usize {
        self.rest.iter().map(|p| p.items.len()).sum()
    }

    /// Items that no backend could run.
    pub(crate) fn into_rest(self) -> Vec<ItemRange> {
        self.rest.into()
    }

    /// Next work for a backend that is idle at time `now`.
    pub(crate) fn next(&mut self, backend_id: usize, now: f64) -> NextWork {
        let left = self.left();
        let alive = |s: &&Worker| !s.failed;
        if left == 0 {
            let others = self.workers.iter().any(|s| s.backend_id != backend_id && s.running.is_some());
            return if others { NextWork::Wait } else { NextWork::Done };
        }
        let costs: Vec<LinearCost> = self
            .workers
            .iter()
            .filter(alive)
            .map(|s| LinearCost { fixed: s.cost.fixed + s.ready_in(now), ..s.cost })
            .collect();
        let shares = partition(&costs, left);
        let mine = self.workers.iter().filter(alive).position(|s| s.backend_id == backend_id);
        let share = mine.and_then(|i| shares.get(i)).copied().unwrap_or(0);
        let workers = self.workers.iter().filter(alive).count();
        let untried =
            self.workers.iter().filter(alive).any(|s| s.backend_id != backend_id && !s.known && !s.measured);
        let Some(worker) = self.workers.iter_mut().find(|s| s.backend_id == backend_id && !s.failed) else {
            return NextWork::Done;
        };
        // An unmeasured backend is tried, whatever its share by the guess.
        let trial = !worker.known && !worker.measured;
        if share == 0 && !trial {
            return NextWork::Wait;
        }
        let min = (MIN_WORK_RATIO * worker.cost.fixed / worker.cost.item).ceil() as usize;
        // Before the first measurement of this run, a small range: a prediction may be off by a factor.
        let part = share.div_ceil(if worker.measured { 2 } else { 8 }).max(min).min(share);
        let part = if trial { left.div_ceil(8 * workers) } else { part };
        // While another backend is unmeasured, it may be far faster: leave most of the work to it.
        let short = if untried && worker.known {
            (TRIAL_NS - worker.cost.fixed) / worker.cost.item
        } else {
            f64::MAX
        };
        if short < 1.0 {
            return NextWork::Wait;
        }
        let n = part.min(worker.max_items).min(short as usize);
        let Some(mut range) = self.rest.pop_front() else { return NextWork::Done };
        if range.items.len() > n {
            let middle = range.items.start + n;
            let later = ItemRange { items: middle..range.items.end, failover: range.failover.clone() };
            self.rest.push_front(later);
            range.items.end = middle;
        }
        worker.running = Some((now, now + worker.cost.of(range.items.len())));
        NextWork::Items(range)
    }

    /// A backend finished its range; `usual` if the time is representative (nothing was compiled).
    pub(crate) fn done(&mut self, backend_id: usize, n: usize, ns: f64, usual: bool) {
        let Some(worker) = self.workers.iter_mut().find(|s| s.backend_id == backend_id) else { return };
        worker.running = None;
        let factor = ns / worker.cost.of(n).max(MIN_ITEM_NS);
        // A cold run is an upper bound: it only corrects downwards.
        if usual || factor < 1.0 {
            // The first sample replaces the prediction, later ones are damped: one outlier must not decide.
            let factor = if worker.measured { factor.sqrt() } else { factor };
            worker.cost = worker.cost.scaled(factor.max(f64::MIN_POSITIVE));
            worker.measured |= usual;
        }
    }

    /// A backend failed: it gets no more items, and its range goes to the others.
    pub(crate) fn failed(&mut self, backend_id: usize, range: ItemRange, error: BackendError) {
        if let Some(worker) = self.workers.iter_mut().find(|s| s.backend_id == backend_id) {
            (worker.running, worker.failed) = (None, true);
        }
        let failover = Some(Arc::new(Failover { backend_id, error }));
        self.rest.push_back(ItemRange { items: range.items, failover });
    }
}

impl Worker {
    /// Nanoseconds until it is idle; one that is overdue is expected to take as long again.
    fn ready_in(&self, now: f64) -> f64 {
        self.running.map_or(0.0, |(began, end)| if now < end { end - now } else { now - began })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(fixed: f64, item: f64) -> LinearCost {
        LinearCost { fixed, item }
    }

    #[test]
    fn shares_are_proportional_to_throughput() {
        let speeds = [cost(0.0, 4.0), cost(0.0, 2.0), cost(0.0, 1.0)];
        assert_eq!(partition(&speeds, 700), [100, 200, 400]);
        assert_eq!(partition(&speeds, 0), [0, 0, 0]);
        assert_eq!(partition(&speeds, 1), [0, 0, 1]);
        assert_eq!(partition(&[], 5), Vec::<usize>::new());
        assert_eq!(partition(&[cost(0.0, 1.0); 3], 8).iter().sum::<usize>(), 8);
    }

    #[test]
    fn a_backend_that_starts_too_late_gets_nothing() {
        // 100 items finish at 100; the second would start at 120.
        assert_eq!(partition(&[cost(0.0, 1.0), cost(120.0, 0.1)], 100), [100, 0]);
        // Starting at 20 it does most of the work.
        assert_eq!(partition(&[cost(0.0, 1.0), cost(20.0, 0.1)], 100), [27, 73]);
    }

    #[test]
    fn a_linear_cost_is_fitted_to_two_times() {
        assert_eq!(LinearCost::fit(11.0, 1010.0, 1000), cost(10.0, 1.0));
        // Noise: many took less time than one.
        assert_eq!(LinearCost::fit(100.0, 50.0, 10), cost(95.0, 5.0));
        assert_eq!(LinearCost::fit(0.0, 0.0, 1).item, MIN_ITEM_NS);
    }

    /// Simulates backends with these true costs; returns the items each did and the finish time.
    fn simulate(
        items: usize,
        specs: &[WorkerSpec],
        real: &[LinearCost],
        dies: Option<(usize, f64)>,
    ) -> (Vec<usize>, f64) {
        let mut pool = WorkQueue::new(items, specs);
        let mut done = vec![0; real.len()];
        let mut running: Vec<Option<(f64, f64, ItemRange)>> = vec![None; real.len()];
        let (mut now, mut seen) = (0.0, vec![false; items]);
        loop {
            let mut waiting = false;
            for backend_id in 0..real.len() {
                if running[backend_id].is_some() {
                    continue;
                }
                match pool.next(backend_id, now) {
                    NextWork::Items(p) => {
                        running[backend_id] = Some((now, now + real[backend_id].of(p.items.len()), p))
                    }
                    NextWork::Wait => waiting = true,
                    NextWork::Done => {}
                }
            }
            let next = running.iter().flatten().map(|r| r.1).fold(f64::INFINITY, f64::min);
            if !next.is_finite() {
                assert!(!waiting, "everybody waits");
                return (done, now);
            }
            now = next;
            for backend_id in 0..real.len() {
                let Some((began, end, range)) = running[backend_id].take_if(|r| r.1 <= now) else { continue };
                if dies.is_some_and(|(who, when)| who == backend_id && end > when) {
                    pool.failed(
                        backend_id,
                        range,
                        BackendError::NoMemory(gpuforge_runtime::units::Bytes::ZERO),
                    );
                    continue;
                }
                for i in range.items.clone() {
                    assert!(!std::mem::replace(&mut seen[i], true), "{i} was done twice");
                }
                done[backend_id] += range.items.len();
                pool.done(backend_id, range.items.len(), end - began, true);
            }
        }
    }

    fn specs(costs: &[Option<LinearCost>]) -> Vec<WorkerSpec> {
        let spec = |(backend_id, cost): (usize, &Option<LinearCost>)| WorkerSpec {
            backend_id,
            cost: *cost,
            max_items: usize::MAX,
        };
        costs.iter().enumerate().map(spec).collect()
    }

    #[test]
    fn all_backends_finish_together_despite_wrong_predictions() {
        let real = [cost(10.0, 4.0), cost(10.0, 2.0), cost(10.0, 1.0)];
        let ideal = 10_000.0 / (0.25 + 0.5 + 1.0);
        let wrong = [cost(10.0, 1.0), cost(10.0, 1.0), cost(10.0, 10.0)];
        for predicted in [real.map(Some), wrong.map(Some), [None; 3], [Some(real[0]), None, None]] {
            let (done, end) = simulate(10_000, &specs(&predicted), &real, None);
            assert_eq!(done.iter().sum::<usize>(), 10_000);
            let most = if predicted == real.map(Some) { 1.05 } else { 1.35 };
            assert!(end < ideal * most, "{predicted:?}: {end} beside {ideal}, {done:?}");
        }
    }

    #[test]
    fn a_far_slower_backend_does_not_delay_the_end() {
        let real = [cost(0.0, 1000.0), cost(50.0, 1.0)];
        let (done, end) = simulate(1_000, &specs(&real.map(Some)), &real, None);
        assert!(done[0] <= 2 && end < 1_300.0, "{done:?} {end}");
    }

    #[test]
    fn a_slow_backend_waits_while_an_unmeasured_one_is_tried() {
        let real = [cost(0.0, 4e9), cost(0.0, 1e6)];
        let (done, end) = simulate(500, &specs(&[Some(real[0]), None]), &real, None);
        assert!(done[0] == 0 && end < 501e6, "{done:?} {end}");
        // Unless no other backend is left.
        let (done, _) = simulate(5, &specs(&[Some(real[0]), None]), &real, Some((1, 0.0)));
        assert_eq!(done, [5, 0]);
    }

    #[test]
    fn items_of_a_failed_backend_go_to_the_others() {
        let real = [cost(0.0, 2.0), cost(0.0, 1.0)];
        let (done, _) = simulate(3_000, &specs(&real.map(Some)), &real, Some((1, 700.0)));
        assert_eq!(done.iter().sum::<usize>(), 3_000);
        assert!(done[0] > done[1] && done[1] > 0, "{done:?}");
        let mut alone = WorkQueue::new(5, &specs(&[Some(real[0])]));
        let NextWork::Items(range) = alone.next(0, 0.0) else { panic!("nothing to take") };
        alone.failed(0, range, BackendError::NoMemory(gpuforge_runtime::units::Bytes::ZERO));
        assert!(matches!(alone.next(0, 1.0), NextWork::Done));
        assert_eq!(alone.into_rest().iter().map(|p| p.items.len()).sum::<usize>(), 5);
    }
}
