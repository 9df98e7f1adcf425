//! How is one figure taken? Warm-up, repetitions, and a look at the clock before every run.

use std::{sync::Arc, time::Duration};

use gpuforge_ops::{Effort, Kind, Op, OpError, Variant, Work};

use super::{Options, Step, fastest, moved_ns, plain, plan};
use crate::{
    curve::{Curve, Point},
    model::Model,
    site::{Site, SiteError, SiteRun},
};

/// Share of the budget for launches and transfers, and of a kind's share for its variants.
const TRANSFERS: f64 = 0.12;
const TUNING: f64 = 0.3;
/// Share of what a kind has left that one size may use; the last size may use all of it. Large sizes come last and need
/// the most.
const SIZE: f64 = 0.15;
/// Runs that may be cold before a size is given up: each compiles something new.
const COLD_RUNS: usize = 3;

/// Makes an operation of a size.
pub(super) type Make<'a> = &'a dyn Fn(usize) -> Result<Arc<dyn Op>, OpError>;
type Told<'a> = &'a mut dyn FnMut(Step<'_>);

/// One point: what was computed, and its time without transfers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) effort: Effort,
    pub(super) ns: f64,
}

/// A place on the bench.
pub(super) struct Bench<'a> {
    site: &'a dyn Site,
    options: &'a Options,
    clock: &'a dyn Fn() -> Duration,
    end: Duration,
    launch_ns: f64,
    /// Runs in which something was compiled, the last ones counting most: what the first run of a kind will take.
    cold_ns: f64,
    /// How far repetitions lay apart, per point.
    pub(super) spreads: Vec<f64>,
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

impl<'a> Bench<'a> {
    pub(super) fn new(site: &'a dyn Site, options: &'a Options, clock: &'a dyn Fn() -> Duration) -> Self {
        let end = clock() + options.budget;
        Bench { site, options, clock, end, launch_ns: 0.0, cold_ns: 0.0, spreads: Vec::new() }
    }

    fn left(&self, end: Duration) -> Duration {
        end.min(self.end).saturating_sub((self.clock)())
    }

    /// When one of so many equal parts of the remaining time ends.
    pub(super) fn share(&self, parts: usize) -> Duration {
        (self.clock)() + self.left(self.end).div_f64(parts.max(1) as f64)
    }

    /// When this share of the time until `end` is over.
    fn until(&self, end: Duration, share: f64) -> Duration {
        (self.clock)() + self.left(end).mul_f64(share)
    }

    /// A submission with nothing to do.
    pub(super) fn launch(&mut self) -> Result<f64, SiteError> {
        let end = self.until(self.end, TRANSFERS / 4.0);
        let mut samples = Vec::new();
        let (least, most) = self.options.repeat;
        while plan::again(&mut samples, least, most, !self.left(end).is_zero())
            && !self.left(self.end).is_zero()
        {
            samples.push(ns(self.site.launch()?));
        }
        self.launch_ns = plan::median(&mut samples).unwrap_or(0.0);
        Ok(self.launch_ns)
    }

    /// Curves of bytes up and down; none where nothing has to be moved.
    pub(super) fn transfers(&mut self, told: Told<'_>) -> Result<(Option<Curve>, Option<Curve>), SiteError> {
        let end = self.until(self.end, TRANSFERS);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut last: Option<(u64, f64)> = None;
        for bytes in &self.options.transfers {
            let units = *bytes as u64;
            // Each measurement is three submissions.
            let run = last.map_or(0.0, |last| plan::grow(last, 3.0 * self.launch_ns, units));
            let least = plan::least(run, self.options.repeat.0);
            if !plan::fits(run, least + 1, self.left(end)) {
                break;
            }
            told(Step::Transfer(*bytes));
            let began = (self.clock)();
            if self.site.transfer(*bytes)?.is_none() {
                return Ok((None, None));
            }
            let size_end = self.until(end, 0.4);
            let (mut there, mut back) = (Vec::new(), Vec::new());
            while plan::again(&mut there, least, self.options.repeat.1, !self.left(size_end).is_zero()) {
                if let Some(took) = self.site.transfer(*bytes)? {
                    there.push(ns(took.up));
                    back.push(ns(took.down));
                }
            }
            let runs = there.len() + 1;
            last = Some((units, ns((self.clock)().saturating_sub(began)) / runs as f64));
            let point = |samples: &mut [f64]| plan::median(samples).map(|ns| Point { units, ns });
            up.extend(point(&mut there));
            down.extend(point(&mut back));
        }
        let curve = |points: Vec<Point>| Curve::try_from(plan::plausible(&points)).ok();
        Ok((curve(up), curve(down)))
    }

    /// Points of a kind, as many as fit until `end`.
    pub(super) fn kind(
        &mut self,
        kind: Kind,
        make: Make<'_>,
        sizes: &[usize],
        model: &Model,
        end: Duration,
        told: Told<'_>,
    ) -> Result<Vec<Measured>, SiteError> {
        let mut measured = Vec::new();
        let mut climb = Climb::default();
        for (i, size) in sizes.iter().enumerate() {
            told(Step::Kind(kind, *size));
            // One point is worth more than anything else: without it nothing is known of this kind. Later kinds share what
            // then remains.
            let limit = if measured.is_empty() { self.end } else { end };
            let least = |run: f64| plan::least(run, self.options.repeat.0);
            let Some((op, work)) = self.next(&mut climb, make, *size, limit, &least) else {
                told(Step::Ends(kind, *size, climb.why));
                break;
            };
            let size_end = if i + 1 == sizes.len() { end } else { self.until(end, SIZE) };
            let Some(warm) = self.warm(op.as_ref(), limit)? else {
                told(Step::Ends(kind, *size, "no time is left after compiling"));
                break;
            };
            climb.last = Some((work.effort.units, warm));
            let Some(total) = self.repeat(op.as_ref(), warm, size_end, limit)? else { continue };
            climb.last = Some((work.effort.units, total));
            measured.push(Measured { effort: work.effort, ns: plan::without(total, moved_ns(model, &work)) });
        }
        Ok(measured)
    }

    /// The operation of the next size, if making it and running it so often fits until `end`.
    fn next(
        &self,
        climb: &mut Climb,
        make: Make<'_>,
        size: usize,
        end: Duration,
        runs: &dyn Fn(f64) -> usize,
    ) -> Option<(Arc<dyn Op>, Work)> {
        climb.why = "it would not fit into the time";
        if !plan::fits(plan::build(&climb.built, size), 1, self.left(end)) {
            return None;
        }
        let began = (self.clock)();
        let made = make(size).and_then(|op| Work::of(op.as_ref(), false).map(|work| (op, work)));
        let Ok((op, work)) = made else {
            climb.why = "it cannot be done at this size";
            return None;
        };
        climb.built.push((size, ns((self.clock)().saturating_sub(began))));
        let fits = match climb.last {
            Some(last) => {
                let run = plan::grow(last, self.launch_ns, work.effort.units);
                plan::fits(run, runs(run) + 1, self.left(end))
            }
            // The first size is small: what may take long is compiling.
            None => plan::fits(self.cold_ns + self.launch_ns, 1, self.left(end)),
        };
        fits.then_some((op, work))
    }

    /// Runs until nothing is compiled any more; the time of the last run, or `None` when the time is up before that.
    fn warm(&mut self, op: &dyn Op, end: Duration) -> Result<Option<f64>, SiteError> {
        for _ in 0..COLD_RUNS {
            let Some(run) = self.run(op)? else { return Ok(None) };
            let wall = ns(run.wall);
            if plain(&run) {
                return Ok(Some(wall));
            }
            self.cold_ns = if self.cold_ns > 0.0 { (self.cold_ns + wall) / 2.0 } else { wall };
            if self.left(end).is_zero() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// A run; `None` where the operation cannot be done at this place and size, though the place is well.
    fn run(&self, op: &dyn Op) -> Result<Option<SiteRun>, SiteError> {
        match self.site.run(op, false) {
            Ok(run) => Ok(Some(run)),
            Err(SiteError::Op(_) | SiteError::NoMemory(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The median of runs, until they agree or the time of this size is up. A first run that is not the first of its
    /// kernel says whether there is time for another.
    fn repeat(
        &mut self,
        op: &dyn Op,
        warm: f64,
        size_end: Duration,
        end: Duration,
    ) -> Result<Option<f64>, SiteError> {
        let (least, most) = (plan::least(warm, self.options.repeat.0), self.options.repeat.1);
        let mut samples = Vec::new();
        let mut run_ns = warm;
        let mut tries = 2 * most;
        while tries > 0 && plan::again(&mut samples, least, most, plan::fits(run_ns, 1, self.left(size_end)))
        {
            if !plan::fits(run_ns, 1, self.left(end)) {
                break;
            }
            tries -= 1;
            let Some(run) = self.run(op)? else { break };
            if plain(&run) {
                samples.push(ns(run.wall));
                run_ns = plan::median(&mut samples).unwrap_or(run_ns);
            }
        }
        self.spreads.extend(plan::spread(&mut samples));
        Ok(plan::median(&mut samples))
    }

    /// The fastest variant of a kind's kernels at a middle size, if it beats the default by more than noise.
    pub(super) fn tune(
        &mut self,
        kind: Kind,
        make: Make<'_>,
        sizes: &[usize],
        model: &Model,
        end: Duration,
        told: Told<'_>,
    ) -> Result<Option<Variant>, SiteError> {
        let end = self.until(end, TUNING);
        let mut climb = Climb::default();
        let mut chosen: Option<Arc<dyn Op>> = None;
        let middle = sizes.len().div_ceil(2);
        for size in sizes.iter().take(middle) {
            let variants = chosen.as_ref().map_or(1, |op| op.variants().len());
            let Some((op, work)) = self.next(&mut climb, make, *size, end, &|_| 4 * variants) else { break };
            if op.variants().len() < 2 {
                return Ok(None);
            }
            told(Step::Tuning(kind));
            let Some(warm) = self.warm(op.as_ref(), end)? else { break };
            climb.last = Some((work.effort.units, warm));
            chosen = Some(op);
        }
        let Some(op) = chosen else { return Ok(None) };
        let times = self.by_turns(kind, op.as_ref(), model, end);
        Ok(times.and_then(fastest))
    }

    /// Times of every variant, by turns, so that a machine that slows down does so for all; `None` when the time was not
    /// enough for three rounds.
    fn by_turns(
        &self,
        kind: Kind,
        op: &dyn Op,
        model: &Model,
        end: Duration,
    ) -> Option<Vec<(Variant, Vec<f64>)>> {
        let mut times: Vec<(Variant, Vec<f64>)> = op.variants().iter().map(|v| (*v, Vec::new())).collect();
        let mut failed = vec![false; times.len()];
        // The first round compiles.
        for round in 0..=self.options.repeat.1.min(8) {
            for ((variant, samples), failed) in times.iter_mut().zip(&mut failed).filter(|(_, f)| !**f) {
                if self.left(end).is_zero() && round < 4 {
                    return None;
                }
                let mut tuning = model.tuning.clone();
                tuning.set(kind, *variant);
                self.site.tune(tuning);
                // A variant that this device refuses is no variant; a device that is gone shows with the next run.
                match self.site.run(op, false) {
                    Ok(run) if plain(&run) => samples.push(ns(run.wall)),
                    Ok(_) => {}
                    Err(_) => (*failed, *samples) = (true, Vec::new()),
                }
            }
            if self.left(end).is_zero() {
                break;
            }
        }
        Some(times)
    }
}

/// What the smaller sizes of a kind took.
#[derive(Debug, Default)]
struct Climb {
    /// Units and time of the last run.
    last: Option<(u64, f64)>,
    /// Size and time of every example that was made.
    built: Vec<(usize, f64)>,
    /// Why there is no next one.
    why: &'static str,
}
