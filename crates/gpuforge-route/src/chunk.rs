//! How are some equal items done at one place? On a device as one operation, or recorded together; on the processor each as
//! it is, small ones side by side.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_ops::{Fused, Op, OpError, Work};
use gpuforge_runtime::{tensor::Tensor, units::Bytes};
use rayon::prelude::*;

use crate::{
    batch::Call,
    crew::{self, caught},
    model::Lane,
    route::{Decision, Reason},
    router::{Ran, Report, RouteError, Router},
    several::{self, Several},
    share_out::HandedOn,
    site::{SiteError, SiteRun},
};

/// An item: where its result belongs, and what it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) index: usize,
    pub(crate) op: &'a Arc<dyn Op>,
}

/// Items of equal work.
#[derive(Debug)]
pub(crate) struct Lot<'a> {
    pub(crate) members: Vec<Member<'a>>,
    /// The work of one of them.
    pub(crate) one: Work,
    pub(crate) lane: Lane,
    /// They have a key for fusing.
    fusible: bool,
    /// The share of one of them in a fused operation, and whose curve that has.
    pub(crate) fused: Option<(Work, Lane)>,
    /// They can be recorded into one plan.
    pub(crate) together: bool,
}

/// Items with more bytes than this gain nothing from being put together: moving them takes longer than a submission.
const WORTH_PUTTING_TOGETHER: u64 = 8 << 20;
/// Items with more bytes than this are not made one but recorded together: copying them beside each other, and their
/// results apart, takes longer than a dispatch of their own in the same submission.
const WORTH_FUSING: u64 = 64 << 10;
/// Items with fewer bytes than this run side by side on the processor: several of them stay in its caches.
const SIDE_BY_SIDE: u64 = 2 << 20;
/// Work that is worth waking other threads for.
const WORTH_WAKING: Duration = Duration::from_micros(300);

/// `n` of what this is the `of`-th part; launches stay, because they are done together.
pub(crate) fn portion(work: &Work, n: usize, of: usize) -> Work {
    let (n, of) = (n as u128, (of as u128).max(1));
    let part = |v: u64| u64::try_from((u128::from(v) * n).div_ceil(of)).unwrap_or(u64::MAX);
    let bytes = |b: Bytes| Bytes(part(b.0));
    let mut scaled = *work;
    scaled.effort.units = part(work.effort.units);
    scaled.effort.flops = part(work.effort.flops);
    scaled.effort.read = bytes(work.effort.read);
    scaled.effort.written = bytes(work.effort.written);
    (scaled.up, scaled.down, scaled.home) = (bytes(work.up), bytes(work.down), bytes(work.home));
    scaled.largest = bytes(work.largest);
    scaled.splittable |= n > 1;
    scaled
}

impl<'a> Lot<'a> {
    pub(crate) fn new(first: Member<'a>, one: Work, lane: Lane, fusible: bool) -> Self {
        Lot { members: vec![first], one, lane, fusible, fused: None, together: false }
    }

    /// Finds out how a device could do several at once.
    pub(crate) fn probe(&mut self, router: &Router, stays: bool) {
        let Some(first) = self.members.first().filter(|_| self.members.len() > 1) else { return };
        if self.bytes() > WORTH_PUTTING_TOGETHER {
            return;
        }
        self.together = first.op.guard().is_none();
        if self.fusible
            && !stays
            && self.bytes() <= WORTH_FUSING
            && let Ok(Some(Fused { op, .. })) = first.op.fuse(&[first.op.as_ref()])
            && let Ok(work) = Work::of(op.as_ref(), false)
        {
            self.fused = Some((work, router.lane(op.as_ref())));
        }
    }

    /// Bytes of one item, inputs and results.
    pub(crate) fn bytes(&self) -> u64 {
        self.one.effort.read.0.saturating_add(self.one.effort.written.0)
    }

    /// The most that a place takes at once for other reasons than memory.
    pub(crate) fn most_at_once(&self, place: usize) -> usize {
        if place > 0 && self.fused.is_none() { several::MOST } else { usize::MAX }
    }

    /// The work of `n` of them on a device, and whose curve it has.
    pub(crate) fn work(&self, n: usize) -> (Work, Lane) {
        let (one, lane) = self.fused.as_ref().map_or((&self.one, self.lane), |(work, lane)| (work, *lane));
        (portion(one, n, 1), lane)
    }
}

/// What became of a chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) place: usize,
    pub(crate) results: Vec<(usize, Result<Ran, RouteError>)>,
    pub(crate) busy: Duration,
    pub(crate) fused: usize,
    pub(crate) submissions: usize,
    pub(crate) dispatches: usize,
    /// Something was compiled on the way.
    pub(crate) cold: bool,
}

impl Chunk {
    fn at(place: usize) -> Self {
        let (results, busy) = (Vec::new(), Duration::ZERO);
        Chunk { place, results, busy, fused: 0, submissions: 0, dispatches: 0, cold: false }
    }

    fn count(&mut self, op: &dyn Op, run: &SiteRun) {
        self.submissions += run.pieces;
        self.dispatches += run.pieces * op.effort().launches as usize;
        self.cold |= run.cold;
    }
}

impl Router {
    /// Each item by itself on the processor.
    pub(crate) fn on_processor(
        &self,
        lot: &Lot<'_>,
        members: &[Member<'_>],
        one: &Decision,
        reason: Reason,
        why: Option<&HandedOn>,
    ) -> Chunk {
        let began = Instant::now();
        let decision = one.instead(0, reason);
        let mut chunk = Chunk::at(0);
        chunk.results.reserve_exact(members.len());
        let mut rest = members;
        while let Some((first, later)) = rest.split_first() {
            let run = caught(|| self.at(first.op.as_ref(), 0, false));
            chunk.results.push((first.index, self.on_this_account(run, &decision, why)));
            rest = later;
            let n = chunk.results.len();
            if !n.is_power_of_two() || rest.is_empty() {
                continue;
            }
            let each = began.elapsed() / u32::try_from(n).unwrap_or(u32::MAX);
            let left = each.saturating_mul(u32::try_from(rest.len()).unwrap_or(u32::MAX));
            // Threads that sleep are woken only once it is known that it pays.
            if left > WORTH_WAKING && lot.bytes() <= SIDE_BY_SIDE && lot.one.home == Bytes::ZERO {
                self.taught(lot, one, each);
                if let Some(site) = self.sites().first() {
                    let ops = rest.iter().map(|m| m.op.clone()).collect();
                    let runs = crew::side_by_side(site, ops, each).into_iter();
                    let result = |run| self.on_this_account(run, &decision, why);
                    chunk.results.extend(rest.iter().map(|m| m.index).zip(runs.map(result)));
                    rest = &[];
                }
            }
        }
        chunk.busy = began.elapsed();
        chunk
    }

    /// What items took that ran one after the other.
    fn taught(&self, lot: &Lot<'_>, one: &Decision, each: Duration) {
        if let (Some(model), Some(corrections)) = (one.model_ns(0), self.corrections().first()) {
            corrections.learn(lot.lane, lot.one.effort.units, model, each);
        }
    }

    /// A run on the processor as an item's result.
    fn on_this_account(
        &self,
        run: Result<Result<SiteRun, SiteError>, String>,
        decision: &Decision,
        why: Option<&HandedOn>,
    ) -> Result<Ran, RouteError> {
        let mut run = run.map_err(RouteError::User)?.map_err(|error| self.place_error(error, 0))?;
        if let Some(HandedOn { error: SiteError::Device { events, .. }, .. }) = why {
            run.events.splice(0..0, events.iter().cloned());
        }
        Ok(self.ran(run, *decision, 0, why.map(|w| w.error.to_string())))
    }

    pub(crate) fn place_error(&self, error: SiteError, place: usize) -> RouteError {
        match error {
            SiteError::Op(error) => RouteError::Op(error),
            error => RouteError::Place { place: self.site_name(place), error },
        }
    }

    pub(crate) fn site_name(&self, place: usize) -> String {
        self.sites().get(place).map_or_else(String::new, |s| s.name())
    }

    /// All items on a device: as one, or together, or each by itself. What the device could not do is named with its first
    /// position; another place can.
    pub(crate) fn on_device(
        &self,
        lot: &Lot<'_>,
        members: &[Member<'_>],
        decision: &Decision,
        stays: bool,
    ) -> (Chunk, Option<(SiteError, usize)>) {
        let began = Instant::now();
        let mut chunk = Chunk::at(decision.place);
        let failed = self.try_on_device(lot, members, decision, stays, &mut chunk).err();
        chunk.busy = began.elapsed();
        (chunk, failed)
    }

    fn try_on_device(
        &self,
        lot: &Lot<'_>,
        members: &[Member<'_>],
        decision: &Decision,
        stays: bool,
        chunk: &mut Chunk,
    ) -> Result<(), (SiteError, usize)> {
        let place = decision.place;
        if members.len() > 1 && lot.fused.is_some() {
            let ops: Vec<&dyn Op> = members.iter().map(|m| m.op.as_ref()).collect();
            // What cannot be fused after all is recorded together.
            if let Some(Ok(Some(fused))) = ops.first().map(|first| first.fuse(&ops)) {
                match self.at(fused.op.as_ref(), place, false) {
                    Ok(run) => {
                        let (work, lane) = lot.work(members.len());
                        self.learn(&work, lane, decision, &run);
                        chunk.fused += members.len();
                        chunk.count(fused.op.as_ref(), &run);
                        return self.cut(members, &fused, run, decision, chunk);
                    }
                    Err(SiteError::Op(_)) => return self.singly(members, decision, stays, chunk),
                    Err(error) => return Err((error, 0)),
                }
            }
        }
        if members.len() > 1 && lot.together {
            let all = Several::new(members.iter().map(|m| m.op.clone()).collect());
            match self.at(&all, place, stays) {
                Ok(run) => {
                    chunk.count(&all, &run);
                    return self.deal(members, run, decision, chunk);
                }
                Err(SiteError::Op(_)) => {}
                Err(error) => return Err((error, 0)),
            }
        }
        self.singly(members, decision, stays, chunk)
    }

    /// One after the other, until the device fails.
    fn singly(
        &self,
        members: &[Member<'_>],
        decision: &Decision,
        stays: bool,
        chunk: &mut Chunk,
    ) -> Result<(), (SiteError, usize)> {
        for (at, member) in members.iter().enumerate() {
            match self.at(member.op.as_ref(), decision.place, stays) {
                Ok(run) => {
                    chunk.count(member.op.as_ref(), &run);
                    let ran = self.shared_run(run.outputs.clone(), &run, decision, members.len(), 1);
                    chunk.results.push((member.index, Ok(ran)));
                }
                Err(SiteError::Op(error)) => chunk.results.push((member.index, Err(error.into()))),
                Err(error) => return Err((error, at)),
            }
        }
        Ok(())
    }

    /// One after the other on a device for which nobody can stand in: each has its own result or error.
    pub(crate) fn each_on_device(&self, members: &[Member<'_>], decision: &Decision) -> Chunk {
        let began = Instant::now();
        let mut chunk = Chunk::at(decision.place);
        let mut rest = members;
        while let Err((error, at)) = self.singly(rest, decision, false, &mut chunk) {
            if let Some(member) = rest.get(at) {
                chunk.results.push((member.index, Err(self.place_error(error, decision.place))));
            }
            rest = rest.get(at + 1..).unwrap_or_default();
        }
        chunk.busy = began.elapsed();
        chunk
    }

    /// The results of a fused run, each item's own.
    fn cut(
        &self,
        members: &[Member<'_>],
        fused: &Fused,
        run: SiteRun,
        decision: &Decision,
        chunk: &mut Chunk,
    ) -> Result<(), (SiteError, usize)> {
        let whole: Vec<Arc<[u8]>> = run.outputs.iter().filter_map(Tensor::host).collect();
        for (at, member) in members.iter().enumerate() {
            let own = || -> Result<Vec<Tensor>, OpError> {
                let specs = member.op.outputs()?;
                let places = fused.places.get(at).map_or(&[][..], Vec::as_slice);
                let mut tensors = Vec::with_capacity(specs.len());
                for ((spec, place), bytes) in specs.into_iter().zip(places).zip(&whole) {
                    let have = bytes.len();
                    let short = OpError::Call { op: "batch", what: "bytes", want: place.end, have };
                    tensors.push(Tensor::from_bytes(bytes.get(place.clone()).ok_or(short)?, spec)?);
                }
                Ok(tensors)
            };
            let n = members.len();
            let result = own().map(|outputs| self.shared_run(outputs, &run, decision, n, n));
            chunk.results.push((member.index, result.map_err(RouteError::from)));
        }
        Ok(())
    }

    /// The results of operations that were recorded together.
    fn deal(
        &self,
        members: &[Member<'_>],
        mut run: SiteRun,
        decision: &Decision,
        chunk: &mut Chunk,
    ) -> Result<(), (SiteError, usize)> {
        let mut all = std::mem::take(&mut run.outputs).into_iter();
        for member in members {
            let own = member.op.outputs().map(|specs| all.by_ref().take(specs.len()).collect());
            let n = members.len();
            let result = own.map(|outputs| self.shared_run(outputs, &run, decision, n, n));
            chunk.results.push((member.index, result.map_err(RouteError::from)));
        }
        Ok(())
    }

    /// An item's part in a run: `of` is how many shared the prediction, `ran` how many shared the run.
    fn shared_run(
        &self,
        outputs: Vec<Tensor>,
        run: &SiteRun,
        decision: &Decision,
        of: usize,
        ran: usize,
    ) -> Ran {
        let part = |n: usize| u32::try_from(n.max(1)).unwrap_or(u32::MAX);
        let predicted = decision.predicted_ns(decision.place).map(|ns| Duration::from_nanos(ns as u64));
        let report = Report {
            place: self.site_name(decision.place),
            wall: run.wall / part(ran),
            predicted: predicted.map(|p| p / part(of)),
            device_time: run.device_time.map(|t| t / part(ran)),
            cold: run.cold,
            pieces: run.pieces,
            events: run.events.clone(),
            fallback: None,
        };
        Ran::new(outputs, *decision, report)
    }

    /// Functions of the user's, side by side.
    pub(crate) fn call_each(&self, calls: Vec<(usize, Call)>, decision: Decision) -> Chunk {
        let began = Instant::now();
        let run = |(index, call): (usize, Call)| {
            let began = Instant::now();
            let result = match caught(call) {
                Ok(Ok(outputs)) => {
                    let wall = began.elapsed();
                    let events = Vec::new();
                    let run = SiteRun { outputs, wall, device_time: None, cold: false, pieces: 1, events };
                    Ok(self.ran(run, decision, 0, None))
                }
                Ok(Err(error)) | Err(error) => Err(RouteError::User(error)),
            };
            (index, result)
        };
        let mut chunk = Chunk::at(0);
        chunk.results = match calls.len() {
            1 => calls.into_iter().map(run).collect(),
            _ => calls.into_par_iter().map(run).collect(),
        };
        chunk.busy = began.elapsed();
        chunk
    }
}
