//! Benchmark runs of a calibration: warm-up, repetitions, and a budget check before every run.

use std::{sync::Arc, time::Duration};

use gpuforge_ops::{Op, OpCost, OpError, OpKind, Variant, Work};

use super::{CalibrationOptions, CalibrationStep, fastest, is_warm, sampling, transfer_ns};
use crate::{
    backend::{Backend, BackendError, BackendRun},
    curve::{Curve, Point},
    model::CostModel,
};

/// Share of the budget for launches and transfers, and of a kind's share for tuning its kernel variants.
const TRANSFERS: f64 = 0.12;
const TUNING: f64 = 0.3;
/// Share of a kind's remaining time that one size may use; the last (largest) size may use all of it.
const PER_SIZE: f64 = 0.15;
/// Cold runs before a size is abandoned: each compiles something new.
const MAX_COLD_RUNS: usize = 3;

/// Builds an operation of a size.
pub(super) type MakeOp<'a> = &'a dyn Fn(usize) -> Result<Arc<dyn Op>, OpError>;
type OnStep<'a> = &'a mut dyn FnMut(CalibrationStep<'_>);

/// One sample: the cost of the operation, and its time without transfers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) cost: OpCost,
    pub(super) ns: f64,
}

/// Benchmark of one backend against a deadline.
pub(super) struct Bench<'a> {
    backend: &'a dyn Backend,
    options: &'a CalibrationOptions,
    clock: &'a dyn Fn() -> Duration,
    deadline: Duration,
    launch_ns: f64,
    /// Moving average of cold runs: predicts the first run of a kind.
    cold_ns: f64,
    /// Relative interquartile range per point.
    pub(super) spreads: Vec<f64>,
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        backend: &'a dyn Backend,
        options: &'a CalibrationOptions,
        clock: &'a dyn Fn() -> Duration,
    ) -> Self {
        let deadline = clock() + options.budget;
        Bench { backend, options, clock, deadline, launch_ns: 0.0, cold_ns: 0.0, spreads: Vec::new() }
    }

    fn left(&self, deadline: Duration) -> Duration {
        deadline.min(self.deadline).saturating_sub((self.clock)())
    }

    /// Deadline of one of `parts` equal parts of the remaining time.
    pub(super) fn part_deadline(&self, parts: usize) -> Duration {
        (self.clock)() + self.left(self.deadline).div_f64(parts.max(1) as f64)
    }

    /// Deadline after this share of the time until `deadline`.
    fn until(&self, deadline: Duration, share: f64) -> Duration {
        (self.clock)() + self.left(deadline).mul_f64(share)
    }

    /// Launch overhead: an empty submission.
    pub(super) fn launch(&mut self) -> Result<f64, BackendError> {
        let deadline = self.until(self.deadline, TRANSFERS / 4.0);
        let mut samples = Vec::new();
        let (min, max) = self.options.repeats;
        while sampling::needs_more(&mut samples, min, max, !self.left(deadline).is_zero())
            && !self.left(self.deadline).is_zero()
        {
            samples.push(ns(self.backend.launch()?));
        }
        self.launch_ns = sampling::median(&mut samples).unwrap_or(0.0);
        Ok(self.launch_ns)
    }

    /// Transfer curves, upload and download; `None` where nothing has to be moved.
    pub(super) fn transfers(
        &mut self,
        on_step: OnStep<'_>,
    ) -> Result<(Option<Curve>, Option<Curve>), BackendError> {
        let deadline = self.until(self.deadline, TRANSFERS);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut last: Option<(u64, f64)> = None;
        for bytes in &self.options.transfer_sizes {
            let units = *bytes as u64;
            // Each measurement takes three submissions.
            let run = last.map_or(0.0, |last| sampling::predict_run_ns(last, 3.0 * self.launch_ns, units));
            let min = sampling::min_repeats(run, self.options.repeats.0);
            if !sampling::fits_budget(run, min + 1, self.left(deadline)) {
                break;
            }
            on_step(CalibrationStep::Transfer(*bytes));
            let began = (self.clock)();
            if self.backend.transfer(*bytes)?.is_none() {
                return Ok((None, None));
            }
            let size_end = self.until(deadline, 0.4);
            let (mut there, mut back) = (Vec::new(), Vec::new());
            while sampling::needs_more(
                &mut there,
                min,
                self.options.repeats.1,
                !self.left(size_end).is_zero(),
            ) {
                if let Some(took) = self.backend.transfer(*bytes)? {
                    there.push(ns(took.upload));
                    back.push(ns(took.download));
                }
            }
            let runs = there.len() + 1;
            last = Some((units, ns((self.clock)().saturating_sub(began)) / runs as f64));
            let point = |samples: &mut [f64]| sampling::median(samples).map(|ns| Point { units, ns });
            up.extend(point(&mut there));
            down.extend(point(&mut back));
        }
        let curve = |points: Vec<Point>| Curve::try_from(sampling::monotone_transfers(&points)).ok();
        Ok((curve(up), curve(down)))
    }

    /// Samples of a kind, as many sizes as fit before the deadline.
    pub(super) fn measure_kind(
        &mut self,
        kind: OpKind,
        make: MakeOp<'_>,
        sizes: &[usize],
        model: &CostModel,
        deadline: Duration,
        on_step: OnStep<'_>,
    ) -> Result<Vec<Sample>, BackendError> {
        let mut measured = Vec::new();
        let mut ladder = SizeLadder::default();
        for (i, size) in sizes.iter().enumerate() {
            on_step(CalibrationStep::Measuring(kind, *size));
            // The first sample matters most: without it nothing is known of this kind. Later kinds share what then remains.
            let limit = if measured.is_empty() { self.deadline } else { deadline };
            let min_repeats = |run: f64| sampling::min_repeats(run, self.options.repeats.0);
            let Some((op, work)) = self.next(&mut ladder, make, *size, limit, &min_repeats) else {
                on_step(CalibrationStep::Stopped(kind, *size, ladder.why));
                break;
            };
            let size_end = if i + 1 == sizes.len() { deadline } else { self.until(deadline, PER_SIZE) };
            let Some(warm) = self.warm_up(op.as_ref(), limit)? else {
                on_step(CalibrationStep::Stopped(kind, *size, "no time is left after compiling"));
                break;
            };
            ladder.last = Some((work.cost.units, warm));
            let Some(total) = self.repeat(op.as_ref(), warm, size_end, limit)? else { continue };
            ladder.last = Some((work.cost.units, total));
            measured.push(Sample {
                cost: work.cost,
                ns: sampling::subtract_transfers(total, transfer_ns(model, &work)),
            });
        }
        Ok(measured)
    }

    /// The operation of the next size, if building and running it fits before the deadline.
    fn next(
        &self,
        ladder: &mut SizeLadder,
        make: MakeOp<'_>,
        size: usize,
        deadline: Duration,
        runs: &dyn Fn(f64) -> usize,
    ) -> Option<(Arc<dyn Op>, Work)> {
        ladder.why = "it would not fit into the time";
        if !sampling::fits_budget(sampling::predict_build_ns(&ladder.built, size), 1, self.left(deadline)) {
            return None;
        }
        let began = (self.clock)();
        let made = make(size).and_then(|op| Work::of(op.as_ref(), false).map(|work| (op, work)));
        let Ok((op, work)) = made else {
            ladder.why = "it cannot be done at this size";
            return None;
        };
        ladder.built.push((size, ns((self.clock)().saturating_sub(began))));
        let fits = match ladder.last {
            Some(last) => {
                let run = sampling::predict_run_ns(last, self.launch_ns, work.cost.units);
                sampling::fits_budget(run, runs(run) + 1, self.left(deadline))
            }
            // Compilation dominates the first size.
            None => sampling::fits_budget(self.cold_ns + self.launch_ns, 1, self.left(deadline)),
        };
        fits.then_some((op, work))
    }

    /// Warm-up: runs until nothing is compiled; the time of the last run, or `None` when the time is up before that.
    fn warm_up(&mut self, op: &dyn Op, deadline: Duration) -> Result<Option<f64>, BackendError> {
        for _ in 0..MAX_COLD_RUNS {
            let Some(run) = self.run(op)? else { return Ok(None) };
            let wall = ns(run.wall);
            if is_warm(&run) {
                return Ok(Some(wall));
            }
            self.cold_ns = if self.cold_ns > 0.0 { (self.cold_ns + wall) / 2.0 } else { wall };
            if self.left(deadline).is_zero() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// A run; `None` where the operation cannot run on this backend at this size.
    fn run(&self, op: &dyn Op) -> Result<Option<BackendRun>, BackendError> {
        match self.backend.run(op, false) {
            Ok(run) => Ok(Some(run)),
            Err(BackendError::Op(_) | BackendError::NoMemory(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Median of repeated runs, until they converge or the time of this size is up.
    fn repeat(
        &mut self,
        op: &dyn Op,
        warm: f64,
        size_end: Duration,
        deadline: Duration,
    ) -> Result<Option<f64>, BackendError> {
        let (min, max) = (sampling::min_repeats(warm, self.options.repeats.0), self.options.repeats.1);
        let mut samples = Vec::new();
        let mut run_ns = warm;
        let mut tries = 2 * max;
        while tries > 0
            && sampling::needs_more(
                &mut samples,
                min,
                max,
                sampling::fits_budget(run_ns, 1, self.left(size_end)),
            )
        {
            if !sampling::fits_budget(run_ns, 1, self.left(deadline)) {
                break;
            }
            tries -= 1;
            let Some(run) = self.run(op)? else { break };
            if is_warm(&run) {
                samples.push(ns(run.wall));
                run_ns = sampling::median(&mut samples).unwrap_or(run_ns);
            }
        }
        self.spreads.extend(sampling::relative_iqr(&mut samples));
        Ok(sampling::median(&mut samples))
    }

    /// Auto-tuning: the fastest kernel variant at a middle size, if it beats the default by more than noise.
    pub(super) fn tune(
        &mut self,
        kind: OpKind,
        make: MakeOp<'_>,
        sizes: &[usize],
        model: &CostModel,
        deadline: Duration,
        on_step: OnStep<'_>,
    ) -> Result<Option<Variant>, BackendError> {
        let deadline = self.until(deadline, TUNING);
        let mut ladder = SizeLadder::default();
        let mut chosen: Option<Arc<dyn Op>> = None;
        let middle = sizes.len().div_ceil(2);
        for size in sizes.iter().take(middle) {
            let variants = chosen.as_ref().map_or(1, |op| op.variants().len());
            let Some((op, work)) = self.next(&mut ladder, make, *size, deadline, &|_| 4 * variants) else {
                break;
            };
            if op.variants().len() < 2 {
                return Ok(None);
            }
            on_step(CalibrationStep::Tuning(kind));
            let Some(warm) = self.warm_up(op.as_ref(), deadline)? else { break };
            ladder.last = Some((work.cost.units, warm));
            chosen = Some(op);
        }
        let Some(op) = chosen else { return Ok(None) };
        let times = self.interleaved(kind, op.as_ref(), model, deadline);
        Ok(times.and_then(fastest))
    }

    /// Times of every variant, interleaved round-robin so that drift affects all equally; `None` when the time was not enough for
    /// three rounds.
    fn interleaved(
        &self,
        kind: OpKind,
        op: &dyn Op,
        model: &CostModel,
        deadline: Duration,
    ) -> Option<Vec<(Variant, Vec<f64>)>> {
        let mut times: Vec<(Variant, Vec<f64>)> = op.variants().iter().map(|v| (*v, Vec::new())).collect();
        let mut failed = vec![false; times.len()];
        // The first round compiles.
        for round in 0..=self.options.repeats.1.min(8) {
            for ((variant, samples), failed) in times.iter_mut().zip(&mut failed).filter(|(_, f)| !**f) {
                if self.left(deadline).is_zero() && round < 4 {
                    return None;
                }
                let mut tuning = model.tuning.clone();
                tuning.set(kind, *variant);
                self.backend.tune(tuning);
                // A variant the device refuses is skipped; a lost device shows with the next run.
                match self.backend.run(op, false) {
                    Ok(run) if is_warm(&run) => samples.push(ns(run.wall)),
                    Ok(_) => {}
                    Err(_) => (*failed, *samples) = (true, Vec::new()),
                }
            }
            if self.left(deadline).is_zero() {
                break;
            }
        }
        Some(times)
    }
}

/// What is known from the smaller sizes of a kind.
#[derive(Debug, Default)]
struct SizeLadder {
    /// Units and time of the last size.
    last: Option<(u64, f64)>,
    /// Size and build time of every example.
    built: Vec<(usize, f64)>,
    /// Why the ladder stopped.
    why: &'static str,
}
