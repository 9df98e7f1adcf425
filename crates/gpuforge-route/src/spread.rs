//! How do several places work on one thing? Each on its own thread takes portions by its speed; what one cannot do, the
//! others take over.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use gpuforge_ops::{Op, OpError, Work};
use gpuforge_runtime::{
    tensor::{Spec, Tensor},
    units::Bytes,
};

use crate::{
    batch::{CancelToken, Rules, Tally},
    chunk::{Chunk, Lot, portion},
    duty::Pace,
    route::{Reason, Wish},
    router::{Ran, RouteError, Router},
    share_out::{HandedOn, Offer, Pool, Portion, Price, Take},
    site::{SiteError, SiteRun, room},
};

/// How long a place that has nothing to do waits before it asks again; it is told when something changes.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// What became of a portion.
pub(crate) struct Did<T> {
    pub(crate) brought: T,
    /// Why not all was done, and from which item on.
    pub(crate) failed: Option<(SiteError, usize)>,
    /// How long it took.
    pub(crate) busy: Duration,
    /// Something was compiled: the time says nothing about the next portion.
    pub(crate) cold: bool,
}

/// What the threads share.
struct Table {
    pool: Mutex<Pool>,
    changed: Condvar,
    began: Instant,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next portion of a place; waits while others may still fail.
    fn next(&self, place: usize, stop: &dyn Fn() -> bool) -> Option<Portion> {
        let mut pool = self.lock();
        loop {
            if stop() {
                return None;
            }
            let now = self.began.elapsed().as_nanos() as f64;
            match pool.take(place, now) {
                Take::Items(portion) => return Some(portion),
                Take::Nothing => return None,
                Take::Wait => {
                    let waited = self.changed.wait_timeout(pool, ASK_AGAIN);
                    pool = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Notes what a place did with a portion.
    fn note<T>(&self, place: usize, portion: Portion, did: &Did<T>) {
        let mut pool = self.lock();
        match &did.failed {
            None => pool.done(place, portion.items.len(), did.busy.as_nanos() as f64, !did.cold),
            Some((error, from)) => {
                let items = portion.items.start + from..portion.items.end;
                pool.failed(place, Portion { items, ..portion }, error.clone());
            }
        }
        drop(pool);
        self.changed.notify_all();
    }
}

/// Runs a pool dry. `job` does portions, on one thread per place; `sink` gets what they bring, on this one. Returns what
/// nobody could do.
pub(crate) fn over<T: Send>(
    pool: Pool,
    places: &[usize],
    (duty, stop): (Option<f64>, &(dyn Fn() -> bool + Sync)),
    cancel: Option<&CancelToken>,
    job: &(dyn Fn(usize, &Portion) -> Did<Option<T>> + Sync),
    mut sink: impl FnMut(T),
) -> Vec<Portion> {
    let table = Table { pool: Mutex::new(pool), changed: Condvar::new(), began: Instant::now() };
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for place in places.iter().copied() {
            let (table, send) = (&table, send.clone());
            scope.spawn(move || {
                let mut pace = Pace::new(duty);
                while let Some(portion) = table.next(place, stop) {
                    // A place that panics must not leave the others waiting for it.
                    let did = catch_unwind(AssertUnwindSafe(|| job(place, &portion))).unwrap_or_else(|_| {
                        let error = SiteError::Device { error: "it panicked".to_owned(), events: Vec::new() };
                        Did { brought: None, failed: Some((error, 0)), busy: Duration::ZERO, cold: true }
                    });
                    table.note(place, portion, &did);
                    let busy = did.busy;
                    if let Some(brought) = did.brought {
                        // Nobody listens any more only after a panic over there.
                        let _ = send.send(brought);
                    }
                    pace.after(busy, cancel);
                }
            });
        }
        drop(send);
        receive.into_iter().for_each(&mut sink);
    });
    table.pool.into_inner().unwrap_or_else(PoisonError::into_inner).into_rest()
}

impl Router {
    /// Places that can share work now.
    pub(crate) fn sharers(&self, rules: &Rules) -> Vec<usize> {
        if matches!(rules.wish, Wish::Only(_)) || matches!(self.settings().wish, Wish::Only(_)) {
            return Vec::new();
        }
        (0..self.sites().len()).filter(|p| self.sites().get(*p).is_some_and(|s| s.usable())).collect()
    }

    /// A lot of a batch, on all these places.
    pub(crate) fn spread(&self, lot: &Lot<'_>, places: &[usize], rules: &Rules, tally: &mut Tally) {
        let n = lot.members.len();
        let Ok(one) = self.decide(&lot.one, lot.lane, Wish::Fastest) else { return };
        let priced = |n: usize, place: usize| -> Option<f64> {
            let decision = self.for_chunk(lot, n, &one, None, Wish::Fastest).ok()?;
            decision.predicted_ns(place).map(f64::from)
        };
        let offer = |place: usize| {
            let most = self.sizer(lot, place, rules).most();
            let many = most.min(n).max(1);
            let price = priced(1, place).zip(priced(many, place));
            Offer { place, price: price.map(|(one, all)| Price::between(one, all, many)), most }
        };
        let offers: Vec<Offer> = places.iter().copied().map(offer).collect();
        let job = |place: usize, portion: &Portion| {
            let (chunk, failed) = self.portion(lot, place, portion, &one, rules);
            let (busy, cold) = (chunk.busy, chunk.cold);
            Did { brought: (!chunk.results.is_empty()).then_some(chunk), failed, busy, cold }
        };
        let stop = || rules.cancelled();
        let cancel = rules.cancel.as_ref();
        let rest = over(Pool::new(n, &offers), places, (rules.duty, &stop), cancel, &job, |c| tally.add(c));
        if rules.cancelled() {
            return;
        }
        // Every place has failed: the processor is asked once more, or the error is what there is.
        for Portion { items, handed_on } in rest {
            let members = lot.members.get(items).unwrap_or_default();
            let place = handed_on.as_ref().map_or(0, |h| h.place);
            tally.add(if place != 0 && !self.settings().cpu_fallback {
                self.each_on_device(members, &one.instead(place, Reason::Shared))
            } else {
                self.on_processor(lot, members, &one, Reason::Fallback, handed_on.as_deref())
            });
        }
    }

    fn portion(
        &self,
        lot: &Lot<'_>,
        place: usize,
        portion: &Portion,
        one: &crate::route::Decision,
        rules: &Rules,
    ) -> (Chunk, Option<(SiteError, usize)>) {
        let members = lot.members.get(portion.items.clone()).unwrap_or_default();
        let why = portion.handed_on.as_deref();
        if place == 0 {
            return (self.on_processor(lot, members, one, Reason::Shared, why), None);
        }
        let decision = self.for_chunk(lot, members.len(), one, None, Wish::Fastest).unwrap_or(*one);
        let (mut chunk, failed) =
            self.on_device(lot, members, &decision.instead(place, Reason::Shared), rules.stays);
        if let Some(why) = why {
            chunk.results.iter_mut().filter_map(|(_, r)| r.as_mut().ok()).for_each(|ran| note(ran, why));
        }
        (chunk, failed)
    }

    /// Runs one operation on all places at once, each with a share by its speed. The bits are those of a run at one place,
    /// where all places compute the same bits. What cannot be cut runs as with [`Router::run`].
    pub fn run_shared(&self, op: &dyn Op) -> Result<Ran, RouteError> {
        let work = Work::of(op, false)?;
        let places: Vec<usize> =
            (0..self.sites().len()).filter(|p| self.sites().get(*p).is_some_and(|s| s.usable())).collect();
        let Some(items) = op.items().filter(|i| i.count > i.grain && places.len() > 1) else {
            return self.run(op);
        };
        for tensor in op.inputs().into_iter().filter(|t| !t.on_host()) {
            self.bring(tensor).map_err(|error| self.place_error(error, 0))?;
        }
        let began = Instant::now();
        let grain = items.grain.max(1);
        let units = items.count.div_ceil(grain);
        let lane = self.lane(op);
        let whole = self.decide(&work, lane, Wish::Fastest)?;
        let unit = self.decide(&portion(&work, 1, units), lane, Wish::Fastest)?;
        let offer = |place: usize| {
            let price = unit.predicted_ns(place).zip(whole.predicted_ns(place));
            let price = price.map(|(one, all)| Price::between(one.into(), all.into(), units));
            Offer { place, price, most: usize::MAX }
        };
        let offers: Vec<Offer> = places.iter().copied().map(offer).collect();
        // An operation that is wrong is wrong everywhere: nobody goes on.
        let wrong = AtomicBool::new(false);
        let job = |place: usize, portion: &Portion| {
            let range = portion.items.start * grain..(portion.items.end * grain).min(items.count);
            let did = self.part_at(op, range, place, portion);
            if matches!(did.failed, Some((SiteError::Op(_), _))) {
                wrong.store(true, Ordering::Release);
            }
            did
        };
        let stop = || wrong.load(Ordering::Acquire);
        let mut parts = Vec::new();
        let rest = over(Pool::new(units, &offers), &places, (None, &stop), None, &job, |p| parts.push(p));
        for left in rest {
            let before = left.handed_on.as_ref().map(|h| (h.error.clone(), h.place));
            match before {
                Some((SiteError::Op(error), _)) => return Err(error.into()),
                // Nobody has tried it because something else was wrong: that error is to be found among the rest.
                None if stop() => continue,
                _ => {}
            }
            let did = job(0, &left);
            parts.push(did.brought.ok_or_else(|| {
                let now = did.failed.map(|(error, _)| (error, 0));
                let (error, place) = now.or(before).unwrap_or((SiteError::NoMemory(Bytes::ZERO), 0));
                self.place_error(error, place)
            })?);
        }
        self.joined(op, parts, whole.instead(whole.place, Reason::Shared), began)
    }

    /// One part of an operation at one place.
    fn part_at(
        &self,
        op: &dyn Op,
        range: Range<usize>,
        place: usize,
        portion: &Portion,
    ) -> Did<Option<Part>> {
        let began = Instant::now();
        let part = op.part(range).map_err(SiteError::from);
        let run = part.and_then(|part| self.at(part.as_ref(), place, false));
        let busy = began.elapsed();
        match run {
            Ok(run) => {
                let (start, cold) = (portion.items.start, run.cold);
                let part = Part { start, place, run, handed_on: portion.handed_on.clone() };
                Did { brought: Some(part), failed: None, busy, cold }
            }
            Err(error) => Did { brought: None, failed: Some((error, 0)), busy, cold: true },
        }
    }

    /// The parts as one result.
    fn joined(
        &self,
        op: &dyn Op,
        mut parts: Vec<Part>,
        decision: crate::route::Decision,
        began: Instant,
    ) -> Result<Ran, RouteError> {
        parts.sort_by_key(|p| p.start);
        let specs = op.outputs()?;
        let size = |s: &Spec| room(s.size().unwrap_or(Bytes(u64::MAX)));
        let made: Result<Vec<Arc<[u8]>>, SiteError> = specs.iter().map(size).collect();
        let mut results = made.map_err(|error| self.place_error(error, 0))?;
        let bytes: Vec<Vec<Vec<u8>>> = parts
            .iter()
            .map(|p| p.run.outputs.iter().filter_map(Tensor::host).map(|b| b.to_vec()).collect())
            .collect();
        let mut views: Vec<&mut [u8]> = results.iter_mut().filter_map(Arc::get_mut).collect();
        op.join(&bytes, &mut views)?;
        let tensor = |(bytes, spec)| Tensor::from_bytes(bytes, spec).map_err(OpError::from);
        let outputs = results.into_iter().zip(specs).map(tensor).collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<usize> = parts.iter().map(|p| p.place).collect();
        names.sort_unstable();
        names.dedup();
        let place = names.iter().map(|p| self.site_name(*p)).collect::<Vec<_>>().join(" + ");
        let run = SiteRun {
            outputs,
            wall: began.elapsed(),
            device_time: None,
            cold: parts.iter().any(|p| p.run.cold),
            pieces: parts.iter().map(|p| p.run.pieces).sum(),
            events: parts.iter().flat_map(|p| p.run.events.iter().cloned()).collect(),
        };
        let mut ran = self.ran(run, decision, decision.place, None);
        ran.report_mut().place = place;
        for why in parts.iter().filter_map(|p| p.handed_on.as_deref()) {
            note(&mut ran, why);
        }
        Ok(ran)
    }
}

/// Says in a report that another place had it first and failed.
fn note(ran: &mut Ran, why: &HandedOn) {
    let report = ran.report_mut();
    if let SiteError::Device { events, .. } = &why.error {
        report.events.splice(0..0, events.iter().cloned());
    }
    report.fallback.get_or_insert_with(|| why.error.to_string());
}

/// One part of an operation, done.
struct Part {
    start: usize,
    place: usize,
    run: SiteRun,
    handed_on: Option<Arc<HandedOn>>,
}
