//! Many at once: what is equal becomes one, what is not shares a submission where it can, and each item has its own result.
//!
//! ```text
//!   items ─► check each ─► lots of equal work ─► per lot: place and size of the next chunk ─► chunk (see `chunk.rs`)
//!                 │                                   ▲  decided and sized from what was measured   │
//!                 └── what is wrong fails alone       └─────────────────────────────────────────────┘
//! ```
//! On the processor nothing is fused: putting items beside each other would only copy them. They run as they are, small ones
//! on all threads at once.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_ops::{Kind, Op, Work};
use gpuforge_runtime::{tensor::Tensor, units::Bytes};
use serde::Serialize;

use crate::{
    chunk::{Chunk, Lot, Member},
    duty::Pace,
    model::Lane,
    route::{Decision, Reason, Wish},
    router::{Ran, RouteError, Router},
    share_out::HandedOn,
    sizing::Sizer,
};

/// Calls a batch off: what has not begun yet is not begun. Clones are the same token.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Not called off yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls it off.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Was it called off?
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) type Call = Box<dyn FnOnce() -> Result<Vec<Tensor>, String> + Send>;

/// One of many: an operation, or a function of the user's.
pub struct Item(Task);

enum Task {
    Op(Arc<dyn Op>),
    Call(Call),
}

impl Item {
    /// An operation that is held elsewhere, too.
    pub fn shared(op: Arc<dyn Op>) -> Self {
        Item(Task::Op(op))
    }

    /// A function that runs on the processor's threads. A panic is its item's error.
    pub fn call(function: impl FnOnce() -> Result<Vec<Tensor>, String> + Send + 'static) -> Self {
        Item(Task::Call(Box::new(function)))
    }
}

impl<T: Op> From<T> for Item {
    fn from(op: T) -> Self {
        Item::shared(Arc::new(op))
    }
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Task::Op(op) => write!(f, "Item({op:?})"),
            Task::Call(_) => write!(f, "Item(a function)"),
        }
    }
}

/// Called with how many are done and how many there are.
pub type Progress = Box<dyn FnMut(usize, usize) + Send>;

/// How a batch is run.
#[derive(Default)]
pub struct BatchOptions {
    /// Which place; [`Wish::Only`] wins over `spread`.
    pub wish: Wish,
    /// The most of the time that work may run, between 0.01 and 1.
    pub duty: Option<f64>,
    /// Asked between chunks.
    pub cancel: Option<CancelToken>,
    /// Called after each chunk.
    pub progress: Option<Progress>,
    /// The fewest items of a chunk, as long as there are so many.
    pub least: Option<usize>,
    /// The most items of a chunk; memory may set a lower limit.
    pub most: Option<usize>,
    /// Results stay on the device where they were made. Then nothing is fused, only recorded together.
    pub stays: bool,
    /// All places at once, each with a share by its speed.
    pub spread: bool,
}

/// Items that a place did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlaceCount {
    /// Its name.
    pub place: String,
    /// How many.
    pub items: usize,
}

/// What a batch took.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BatchStats {
    /// All of them.
    pub items: usize,
    /// Items without a result.
    pub failed: usize,
    /// Chunks that were run.
    pub chunks: usize,
    /// Items that became part of a larger operation.
    pub fused: usize,
    /// Pieces of work that devices were given.
    pub submissions: usize,
    /// Dispatches in them, as the operations count them.
    pub dispatches: usize,
    /// From the first item to the last.
    pub wall: Duration,
    /// Time in which work ran, summed over places.
    pub busy: Duration,
    /// Time that places had, summed over those that took part at once.
    pub available: Duration,
    /// Who did how many.
    pub places: Vec<PlaceCount>,
}

impl BatchStats {
    /// Share of the time in which work ran; `None` when there was no time at all.
    pub fn busy_share(&self) -> Option<f64> {
        let available = self.available.as_secs_f64();
        (available > 0.0).then(|| self.busy.as_secs_f64() / available)
    }
}

/// Results of a batch, in the order of its items. Times in the reports of items that shared a run are their shares of it.
#[derive(Debug)]
pub struct BatchRun {
    /// One per item.
    pub results: Vec<Result<Ran, RouteError>>,
    /// What it took.
    pub stats: BatchStats,
}

/// Results so far.
pub(crate) struct Tally {
    results: Vec<Option<Result<Ran, RouteError>>>,
    done: usize,
    counts: Vec<usize>,
    pub(crate) stats: BatchStats,
    progress: Option<Progress>,
}

impl Tally {
    fn new(items: usize, places: usize, progress: Option<Progress>) -> Self {
        let results = std::iter::repeat_with(|| None).take(items).collect();
        let stats = BatchStats { items, ..BatchStats::default() };
        Tally { results, done: 0, counts: vec![0; places], stats, progress }
    }

    /// Notes what became of an item.
    fn set(&mut self, index: usize, result: Result<Ran, RouteError>) {
        let result = result.map_err(|error| match error {
            RouteError::Cancelled => error,
            error => RouteError::Item { index, error: Box::new(error) },
        });
        self.stats.failed += usize::from(result.is_err());
        if let Some(room) = self.results.get_mut(index) {
            *room = Some(result);
            self.done += 1;
        }
    }

    pub(crate) fn add(&mut self, chunk: Chunk) {
        self.stats.chunks += 1;
        self.stats.fused += chunk.fused;
        self.stats.submissions += chunk.submissions;
        self.stats.dispatches += chunk.dispatches;
        self.stats.busy += chunk.busy;
        if let Some(count) = self.counts.get_mut(chunk.place) {
            *count += chunk.results.len();
        }
        for (index, result) in chunk.results {
            self.set(index, result);
        }
        let (done, all) = (self.done, self.results.len());
        if let Some(progress) = &mut self.progress {
            progress(done, all);
        }
    }

    fn finish(mut self, router: &Router, wall: Duration) -> BatchRun {
        self.stats.wall = wall;
        let counted = router.sites().iter().zip(&self.counts).filter(|(_, items)| **items > 0);
        self.stats.places = counted.map(|(s, n)| PlaceCount { place: s.name(), items: *n }).collect();
        // What has no result by now was not begun.
        let cancelled = || Err(RouteError::Cancelled);
        self.stats.failed += self.results.iter().filter(|r| r.is_none()).count();
        let results = self.results.into_iter().map(|r| r.unwrap_or_else(cancelled)).collect();
        BatchRun { results, stats: self.stats }
    }
}

/// The longest that a chunk should take: whoever calls it off waits for it; and with a duty limit, rest comes after it.
const LONGEST: Duration = Duration::from_millis(100);
const LONGEST_WITH_DUTY: Duration = Duration::from_millis(20);
/// What a first chunk holds, inputs and results: on the processor about what its caches hold, on a device enough that the
/// submission counts for little.
const START_PROCESSOR: u64 = 8 << 20;
const START_DEVICE: u64 = 16 << 20;
/// Share of a device's memory that a chunk may take; intermediates and what else lives there need room, too.
const SHARE_OF_ROOM: u64 = 4;

/// What all parts of a batch need.
pub(crate) struct Rules {
    pub(crate) wish: Wish,
    pub(crate) duty: Option<f64>,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) stays: bool,
    spread: bool,
}

impl Rules {
    pub(crate) fn cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    fn longest(&self) -> Duration {
        if self.duty.is_some() { LONGEST_WITH_DUTY } else { LONGEST }
    }
}

impl Router {
    /// Runs many operations and functions. Results are in their order; one that fails, fails alone, and its error says which
    /// one it was ([`RouteError::Item`]).
    pub fn batch<I>(&self, items: I, options: BatchOptions) -> BatchRun
    where
        I: IntoIterator,
        I::Item: Into<Item>,
    {
        let began = Instant::now();
        let BatchOptions { wish, duty, cancel, progress, least, most, stays, spread } = options;
        let (least, most) = (least.unwrap_or(1).max(1), most.unwrap_or(usize::MAX).max(1));
        let rules = Rules { wish, duty, cancel, least: least.min(most), most, stays, spread };
        let (mut ops, mut calls) = (Vec::new(), Vec::new());
        for (index, item) in items.into_iter().enumerate() {
            match item.into().0 {
                Task::Op(op) => ops.push((index, op)),
                Task::Call(call) => calls.push((index, call)),
            }
        }
        let mut tally = Tally::new(ops.len() + calls.len(), self.sites().len(), progress);
        let mut pace = Pace::new(rules.duty);
        for lot in self.lots(&ops, &rules, &mut tally) {
            let places = if rules.spread { self.sharers(&rules) } else { Vec::new() };
            let before = Instant::now();
            let at_once = if places.len() > 1 && lot.members.len() > 1 {
                self.spread(&lot, &places, &rules, &mut tally);
                places.len()
            } else {
                self.one_after_the_other(&lot, &rules, &mut tally, &mut pace);
                1
            };
            tally.stats.available += before.elapsed() * u32::try_from(at_once).unwrap_or(1);
        }
        let before = Instant::now();
        self.calls(calls, &rules, &mut tally, &mut pace);
        tally.stats.available += before.elapsed();
        tally.finish(self, began.elapsed())
    }

    /// Checks every operation and sorts them by equal work; what is wrong has its result now.
    fn lots<'a>(&self, ops: &'a [(usize, Arc<dyn Op>)], rules: &Rules, tally: &mut Tally) -> Vec<Lot<'a>> {
        let mut lots: Vec<Lot<'a>> = Vec::new();
        let mut known: HashMap<(Lane, bool, u64, Bytes, Bytes), usize> = HashMap::new();
        for (index, op) in ops {
            let work = match Work::of(op.as_ref(), rules.stays) {
                Ok(work) => work,
                Err(error) => {
                    tally.set(*index, Err(error.into()));
                    continue;
                }
            };
            let lane = self.lane(op.as_ref());
            let fuse = op.fuse_key();
            let key = (lane, fuse.is_some(), fuse.unwrap_or(work.effort.units), work.up, work.home);
            let member = Member { index: *index, op };
            match known.get(&key).and_then(|at| lots.get_mut(*at)) {
                Some(lot) => lot.members.push(member),
                None => {
                    known.insert(key, lots.len());
                    lots.push(Lot::new(member, work, lane, fuse.is_some()));
                }
            }
        }
        let devices = self.sites().iter().skip(1).any(|s| s.usable()) && rules.wish != Wish::Only(0);
        if devices {
            lots.iter_mut().for_each(|lot| lot.probe(self, rules.stays));
        }
        lots
    }

    /// One place at a time, whichever is best for the next chunk.
    fn one_after_the_other(&self, lot: &Lot<'_>, rules: &Rules, tally: &mut Tally, pace: &mut Pace) {
        let mut sizers: Vec<Sizer> = (0..self.sites().len()).map(|p| self.sizer(lot, p, rules)).collect();
        let mut here: Option<f32> = None;
        let mut rest = lot.members.as_slice();
        while !rest.is_empty() && !rules.cancelled() {
            let (one, decision, n) = match self.next_chunk(lot, rest.len(), &mut sizers, here, rules) {
                Ok(choice) => choice,
                Err(error) => {
                    let again = || match &error {
                        RouteError::NoPlace { asked, there } => {
                            RouteError::NoPlace { asked: *asked, there: *there }
                        }
                        other => RouteError::User(other.to_string()),
                    };
                    return rest.iter().for_each(|m| tally.set(m.index, Err(again())));
                }
            };
            let (now, later) = rest.split_at_checked(n).unwrap_or((rest, &[]));
            let place = decision.place;
            let chunk = if place == 0 {
                self.on_processor(lot, now, &one, decision.reason, None)
            } else {
                let (done, failed) = self.on_device(lot, now, &decision, rules.stays);
                match failed {
                    None => done,
                    Some((error, from)) => {
                        let (tried, left) = now.split_at_checked(from).unwrap_or((now, &[]));
                        if !tried.is_empty() {
                            tally.add(done);
                        }
                        self.instead(lot, left, &one, &decision, error)
                    }
                }
            };
            let busy = chunk.busy;
            // A fused run on a device has been learned from.
            if place == 0 || lot.fused.is_none() {
                self.spent(&decision, busy);
            }
            if place == 0 && decision.reason != Reason::Exploring {
                here = Some(busy.as_nanos() as f32 / n.max(1) as f32);
            }
            if let Some(sizer) = sizers.get_mut(place) {
                sizer.took(n, busy);
            }
            tally.add(chunk);
            pace.after(busy, rules.cancel.as_ref());
            rest = later;
        }
    }

    /// After a device has failed: the processor, if it may; else each by itself, so that what failed alone fails alone.
    fn instead(
        &self,
        lot: &Lot<'_>,
        left: &[Member<'_>],
        one: &Decision,
        decision: &Decision,
        error: crate::site::SiteError,
    ) -> Chunk {
        if self.settings().cpu_fallback {
            let why = HandedOn { place: decision.place, error };
            self.on_processor(lot, left, one, Reason::Fallback, Some(&why))
        } else {
            self.each_on_device(left, decision)
        }
    }

    pub(crate) fn sizer(&self, lot: &Lot<'_>, place: usize, rules: &Rules) -> Sizer {
        let item = lot.bytes().max(1);
        let most = match self.sites().get(place) {
            Some(site) if place > 0 => {
                let room = site.room().map_or(u64::MAX, |r| r.0 / SHARE_OF_ROOM / item);
                let block = site.largest().map_or(u64::MAX, |l| l.0 / lot.one.largest.0.max(1));
                room.min(block)
            }
            _ => u64::MAX,
        };
        let start = (if place == 0 { START_PROCESSOR } else { START_DEVICE } / item).max(1);
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let most = count(most).min(rules.most).min(lot.most_at_once(place));
        Sizer::new(count(start), rules.least, most, rules.longest())
    }

    /// The decision about one item, the one about the next chunk, and how many that has.
    fn next_chunk(
        &self,
        lot: &Lot<'_>,
        left: usize,
        sizers: &mut [Sizer],
        here: Option<f32>,
        rules: &Rules,
    ) -> Result<(Decision, Decision, usize), RouteError> {
        let one = self.decide(&lot.one, lot.lane, rules.wish)?;
        let usual = sizers.iter().map(Sizer::size).max().unwrap_or(1).min(left);
        let decision = self.for_chunk(lot, usual, &one, here, rules.wish)?;
        let place = decision.place;
        let Some(sizer) = sizers.get_mut(place) else { return Ok((one, decision, usual)) };
        if let Some(ns) = decision.predicted_ns(place) {
            sizer.expect(Duration::from_nanos((ns / usual.max(1) as f32) as u64));
        }
        let n = sizer.size().min(left).max(1);
        if n == usual {
            return Ok((one, decision, n));
        }
        let exact = self.for_chunk(lot, n, &one, here, rules.wish)?;
        Ok((one, exact.instead(place, decision.reason), n))
    }

    /// The best place for `n` items of a lot. The processor does them one by one, a device all at once: its price is that of
    /// the fused work, where it can be fused.
    pub(crate) fn for_chunk(
        &self,
        lot: &Lot<'_>,
        n: usize,
        one: &Decision,
        here: Option<f32>,
        wish: Wish,
    ) -> Result<Decision, RouteError> {
        let (work, lane) = lot.work(n);
        let mut decision = self.decide(&work, lane, wish)?;
        let each = |place: usize, saved: f32| {
            let price = |ns: Option<f32>| ns.map_or(f32::INFINITY, |ns| ns * n as f32 - saved);
            (price(one.predicted_ns(place)), price(one.model_ns(place)))
        };
        let (predicted, model) = each(0, 0.0);
        decision = decision.priced(0, here.map_or(predicted, |ns| ns * n as f32), model);
        if lot.fused.is_none() {
            let models = self.models();
            for (place, known) in models.iter().enumerate().skip(1) {
                let submissions = if lot.together { n.saturating_sub(1) } else { 0 };
                let (predicted, model) = each(place, known.launch_ns as f32 * submissions as f32);
                decision = decision.priced(place, predicted, model);
            }
        }
        if !matches!(decision.reason, Reason::Faster { .. } | Reason::NotMeasured) {
            return Ok(decision);
        }
        let usable = |p: &usize| self.sites().get(*p).is_some_and(|s| s.usable());
        let mut prices: Vec<(usize, f32)> = (0..decision.places())
            .filter(usable)
            .filter_map(|p| Some((p, decision.predicted_ns(p)?)))
            .collect();
        prices.sort_by(|a, b| a.1.total_cmp(&b.1));
        let decision = match prices.as_slice() {
            [(place, best), (_, next), ..] => {
                decision.instead(*place, Reason::Faster { factor: next / best.max(f32::MIN_POSITIVE) })
            }
            _ => decision,
        };
        Ok(if lot.fused.is_some() { self.maybe_explore(&work, lane, decision) } else { decision })
    }

    /// Functions of the user's, on the processor's threads.
    fn calls(&self, calls: Vec<(usize, Call)>, rules: &Rules, tally: &mut Tally, pace: &mut Pace) {
        if calls.is_empty() {
            return;
        }
        let work = Work {
            kind: Kind::Custom,
            effort: gpuforge_ops::Effort::default(),
            up: Bytes::ZERO,
            down: Bytes::ZERO,
            home: Bytes::ZERO,
            largest: Bytes::ZERO,
            splittable: false,
        };
        let Ok(decision) = self.decide(&work, Lane::of(Kind::Custom), Wish::Only(0)) else { return };
        let decision = decision.priced(0, f32::INFINITY, f32::INFINITY).instead(0, Reason::Only);
        let start = rayon::current_num_threads();
        // Fewer than there are threads are never faster, whatever a disturbed machine seems to say.
        let least = rules.least.max(start).min(rules.most);
        let mut sizer = Sizer::new(start, least, rules.most, rules.longest());
        let mut rest = calls.into_iter();
        while rest.len() > 0 && !rules.cancelled() {
            let now: Vec<_> = rest.by_ref().take(sizer.size()).collect();
            let n = now.len();
            let chunk = self.call_each(now, decision);
            let busy = chunk.busy;
            sizer.took(n, busy);
            tally.add(chunk);
            pace.after(busy, rules.cancel.as_ref());
        }
    }
}
