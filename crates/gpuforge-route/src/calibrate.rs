//! Calibration: benchmarks launch overhead, transfers and every op kind over sizes, within a time budget; yields a cost model.
//!
//! Every time is a median of warm runs. Transfers are predicted from the transfer curves and subtracted, so that cost curves hold
//! computation only. No run is started that is predicted to miss the deadline: a slow backend gets fewer sizes, not more time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_ops::{
    Op, OpCost, OpError, OpKind, Tuning, Variant, Work,
    registry::{self, OPS, OpEntry},
};

use crate::{
    backend::{Backend, BackendError, BackendRun},
    curve::{Curve, Point},
    model::CostModel,
};

mod measure;
pub mod sampling;

use measure::{Bench, Sample};

/// Measurement noise ([`CostModel::spread`]) above which a calibration should not be trusted.
pub const TOO_NOISY: f64 = 0.3;

/// What and how much is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationOptions {
    /// Time budget. Opening a device does not count: it happens before the clock starts.
    pub budget: Duration,
    /// Kinds to measure; `None` is all registered ones.
    pub kinds: Option<Vec<OpKind>>,
    /// Range of a kind's size list, as shares of its length.
    pub size_range: (f32, f32),
    /// Most sizes per kind.
    pub max_sizes: usize,
    /// Add geometric midpoints between the listed sizes?
    pub midpoints: bool,
    /// Auto-tune kernel variants on devices?
    pub tune: bool,
    /// Transfer sizes in bytes, ascending.
    pub transfer_sizes: Vec<usize>,
    /// Minimum (fewer where a run takes long) and maximum repetitions per point.
    pub repeats: (usize, usize),
    /// Passes over everything. The faster pass counts: a disturbance of a few seconds is gone by the next.
    pub passes: usize,
}

impl CalibrationOptions {
    /// Enough for a first decision: one memory-bound kind, one compute-bound kind.
    pub fn micro() -> Self {
        let memory = [OpKind::Map, OpKind::Xor].into_iter().find(|k| registry::entry(*k).is_some());
        CalibrationOptions {
            budget: Duration::from_millis(150),
            kinds: Some(memory.into_iter().chain([OpKind::Matmul]).collect()),
            size_range: (0.15, 0.6),
            max_sizes: 2,
            midpoints: false,
            tune: false,
            transfer_sizes: vec![64 << 10, 1 << 20],
            repeats: (3, 5),
            passes: 1,
        }
    }

    /// Every kind, in ten seconds for all backends together.
    pub fn quick() -> Self {
        CalibrationOptions {
            // One second is reserved for opening devices, which no budget counts, and for the last run.
            budget: Duration::from_millis(9_000),
            kinds: None,
            size_range: (0.0, 1.0),
            max_sizes: usize::MAX,
            midpoints: false,
            tune: true,
            transfer_sizes: vec![4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20],
            repeats: (3, 15),
            passes: 1,
        }
    }

    /// Every kind at twice the sizes, with more repetitions, in 90 seconds for all backends together.
    pub fn full() -> Self {
        CalibrationOptions {
            budget: Duration::from_secs(90),
            midpoints: true,
            transfer_sizes: vec![
                4 << 10,
                16 << 10,
                64 << 10,
                256 << 10,
                1 << 20,
                4 << 20,
                16 << 20,
                64 << 20,
            ],
            repeats: (5, 50),
            passes: 2,
            ..CalibrationOptions::quick()
        }
    }

    /// Registry entries it measures.
    fn entries(&self) -> Vec<&'static OpEntry> {
        let wanted = |entry: &&OpEntry| self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&entry.kind));
        OPS.iter().filter(wanted).collect()
    }
}

/// CalibrationProgress of a calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationProgress<'a> {
    /// Name of the backend.
    pub backend: &'a str,
    /// What is being measured.
    pub step: CalibrationStep<'a>,
    /// Completed share of this backend's kinds.
    pub done: f32,
}

/// Step of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalibrationStep<'a> {
    /// Opening the device.
    Opening,
    /// Launch overhead.
    Launch,
    /// Upload and download of this many bytes.
    Transfer(usize),
    /// Auto-tuning of a kind's kernel variants.
    Tuning(OpKind),
    /// A kind at this size.
    Measuring(OpKind, usize),
    /// A kind stops before this size: it would not fit into the budget, or cannot run.
    Stopped(OpKind, usize, &'a str),
}

/// Calibrates a backend. A device failure ends its calibration; no partial model is returned.
pub fn calibrate(
    backend: &dyn Backend,
    options: &CalibrationOptions,
    progress: &mut dyn FnMut(CalibrationProgress<'_>),
) -> Result<CostModel, BackendError> {
    let began = Instant::now();
    calibrate_with_clock(backend, options, &|| began.elapsed(), progress)
}

/// Calibrates several backends in turn within one budget; what one leaves the next may use. A failure affects only its backend.
pub fn calibrate_all(
    backends: &[Arc<dyn Backend>],
    options: &CalibrationOptions,
    progress: &mut dyn FnMut(CalibrationProgress<'_>),
) -> Vec<Result<CostModel, BackendError>> {
    let mut left = options.budget;
    let mut models = Vec::new();
    for (i, backend) in backends.iter().enumerate() {
        let share = left / u32::try_from(backends.len() - i).unwrap_or(1);
        // Opening a device counts here: the caller waits for it too.
        let began = Instant::now();
        let options = CalibrationOptions { budget: share, ..options.clone() };
        models.push(calibrate(backend.as_ref(), &options, progress));
        left = left.saturating_sub(began.elapsed());
    }
    models
}

/// As [`calibrate`], with a given clock.
pub fn calibrate_with_clock(
    backend: &dyn Backend,
    options: &CalibrationOptions,
    clock: &dyn Fn() -> Duration,
    progress: &mut dyn FnMut(CalibrationProgress<'_>),
) -> Result<CostModel, BackendError> {
    let name = backend.name();
    progress(CalibrationProgress { backend: &name, step: CalibrationStep::Opening, done: 0.0 });
    backend.launch()?;
    let mut bench = Bench::new(backend, options, clock);
    let mut model = CostModel::named(name.clone());
    model.driver = backend.driver();
    progress(CalibrationProgress { backend: &name, step: CalibrationStep::Launch, done: 0.0 });
    model.launch_ns = bench.launch()?;
    let mut on_step =
        |step: CalibrationStep<'_>| progress(CalibrationProgress { backend: &name, step, done: 0.0 });
    (model.upload, model.download) = bench.transfers(&mut on_step)?;
    if options.tune {
        backend.tune(Tuning::default());
    }
    let entries = options.entries();
    let all = entries.len() * options.passes.max(1);
    let mut known: Vec<Vec<Sample>> = vec![Vec::new(); entries.len()];
    for (i, (at, entry)) in entries.iter().enumerate().cycle().take(all).enumerate() {
        let done = i as f32 / all as f32;
        let mut on_step =
            |step: CalibrationStep<'_>| progress(CalibrationProgress { backend: &name, step, done });
        let deadline = bench.part_deadline(all - i);
        let make = |size: usize| (entry.example)(&[size]);
        let sizes =
            sampling::sample_sizes(entry.calibrate, options.size_range, options.midpoints, options.max_sizes);
        let is_device = model.launch_ns > 0.0;
        if options.tune && is_device && i < entries.len() {
            let variant = bench.tune(entry.kind, &make, &sizes, &model, deadline, &mut on_step)?;
            variant.into_iter().for_each(|v| model.tune(entry.kind, v));
            backend.tune(model.tuning.clone());
        }
        let measured = bench.measure_kind(entry.kind, &make, &sizes, &model, deadline, &mut on_step)?;
        known.get_mut(at).into_iter().for_each(|known| merge_min(known, &measured));
    }
    let mut roofline = Roofline::default();
    for (entry, measured) in entries.iter().zip(&known) {
        roofline.add(entry.kind, measured, model.launch_ns);
        if let Ok(curve) = Curve::try_from(points(measured)) {
            model.set(entry.kind, curve);
        }
    }
    (model.byte_ns, model.flop_ns) = (roofline.byte_ns(), roofline.flop_ns);
    // An empty submission may never reach the device: the smallest real operation is a better launch estimate.
    if let Some(first) =
        model.curve(OpKind::Xor).and_then(|c| c.points().first()).filter(|_| model.launch_ns > 0.0)
    {
        model.launch_ns = model.launch_ns.max(first.ns);
    }
    model.spread = sampling::median(&mut bench.spreads);
    Ok(model)
}

/// Measures the cost curve of a user operation at several sizes, ascending, against a model that has the backend's transfers.
/// `None` when not even the first size fits into the budget.
pub fn measure_curve(
    backend: &dyn Backend,
    model: &CostModel,
    make: &dyn Fn(usize) -> Result<Arc<dyn Op>, OpError>,
    sizes: &[usize],
    options: &CalibrationOptions,
) -> Result<Option<Curve>, BackendError> {
    let began = Instant::now();
    let clock = || began.elapsed();
    let mut bench = Bench::new(backend, options, &clock);
    let deadline = bench.part_deadline(1);
    let measured = bench.measure_kind(OpKind::Custom, make, sizes, model, deadline, &mut |_| {})?;
    Ok(Curve::try_from(points(&measured)).ok())
}

/// Keeps the faster of two passes per size.
fn merge_min(known: &mut Vec<Sample>, again: &[Sample]) {
    for new in again {
        match known.iter_mut().find(|k| k.cost.units == new.cost.units) {
            Some(old) => old.ns = old.ns.min(new.ns),
            None => known.push(*new),
        }
    }
    known.sort_by_key(|k| k.cost.units);
}

/// Points of a curve; duplicate sizes are merged.
fn points(measured: &[Sample]) -> Vec<Point> {
    let mut points: Vec<Point> = measured.iter().map(|m| Point { units: m.cost.units, ns: m.ns }).collect();
    points.retain(|p| p.units > 0 && p.ns > 0.0);
    points.sort_by_key(|p| p.units);
    points.dedup_by_key(|p| p.units);
    points
}

/// Roofline parameters: memory and compute speed, from the kinds bound by each.
#[derive(Debug, Default)]
struct Roofline {
    /// Ranked by kind: a streaming pass first.
    bytes: Vec<(usize, f64)>,
    flop_ns: Option<f64>,
}

impl Roofline {
    fn add(&mut self, kind: OpKind, measured: &[Sample], launch_ns: f64) {
        let Some(Sample { cost, ns, .. }) = measured.last() else { return };
        let (OpCost { flops, .. }, bytes) = (cost, cost.read.0 + cost.written.0);
        let ns = sampling::subtract_transfers(*ns, launch_ns);
        if kind == OpKind::Matmul && *flops > 0 {
            self.flop_ns = Some(ns / *flops as f64);
        }
        let rank = [OpKind::Map, OpKind::Xor, OpKind::Sum].iter().position(|k| *k == kind);
        if let Some(rank) = rank.filter(|_| bytes > 0) {
            self.bytes.push((rank, ns / bytes as f64));
        }
    }

    fn byte_ns(&self) -> Option<f64> {
        self.bytes.iter().min_by_key(|(rank, _)| *rank).map(|(_, ns)| *ns)
    }
}

/// Does a variant beat the default by more than the noise of both?
fn beats(default: &mut [f64], other: &mut [f64]) -> bool {
    let noise = sampling::relative_iqr(default)
        .unwrap_or(0.0)
        .max(sampling::relative_iqr(other).unwrap_or(0.0))
        .max(MIN_GAIN);
    match (sampling::median(default), sampling::median(other)) {
        (Some(before), Some(after)) => after < before * (1.0 - noise.min(0.5)),
        _ => false,
    }
}

/// Smallest gain worth leaving the default variant for.
const MIN_GAIN: f64 = 0.03;

/// The fastest variant, if it beats the first (default) by more than noise.
fn fastest(mut times: Vec<(Variant, Vec<f64>)>) -> Option<Variant> {
    if times.is_empty() {
        return None;
    }
    let (_, mut default) = times.remove(0);
    let best = times.iter_mut().filter_map(|(v, t)| Some((*v, sampling::median(t)?, t)));
    let (variant, _, times) = best.min_by(|a, b| a.1.total_cmp(&b.1))?;
    beats(&mut default, times).then_some(variant)
}

/// A warm run: nothing was compiled, nothing retried.
fn is_warm(run: &BackendRun) -> bool {
    !run.cold && run.events.is_empty()
}

/// Predicted transfer time of `work` on a backend.
fn transfer_ns(model: &CostModel, work: &Work) -> f64 {
    let ns = |curve: &Option<Curve>, bytes: u64| match curve {
        Some(curve) if bytes > 0 => f64::from(curve.at(bytes)),
        _ => 0.0,
    };
    ns(&model.upload, work.upload.0) + ns(&model.download, work.download.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_must_beat_the_default_by_more_than_noise() {
        let v = |group| Variant::new(group, 1, 1);
        let times = |default: &[f64], other: &[f64]| {
            fastest(vec![(v(64), default.to_vec()), (v(128), other.to_vec()), (v(256), vec![1e9; 3])])
        };
        assert_eq!(times(&[100.0, 101.0, 99.0], &[50.0, 51.0, 52.0]), Some(v(128)));
        assert_eq!(times(&[100.0, 101.0, 99.0], &[98.0, 98.0, 98.0]), None, "too little");
        assert_eq!(times(&[100.0, 60.0, 140.0], &[70.0, 90.0, 110.0]), None, "noise");
        assert_eq!(times(&[100.0], &[]), None);
        assert_eq!(fastest(Vec::new()), None);
    }

    #[test]
    fn presets_keep_their_budgets_and_have_entries() {
        assert!(CalibrationOptions::micro().budget <= Duration::from_millis(150));
        assert_eq!(CalibrationOptions::micro().entries().len(), 2, "memory and arithmetic");
        assert_eq!(CalibrationOptions::quick().entries().len(), OPS.len());
        assert!(CalibrationOptions::quick().budget < Duration::from_secs(10));
        assert!(CalibrationOptions::full().budget <= Duration::from_secs(90));
    }

    #[test]
    fn the_faster_pass_counts() {
        let at = |units, ns| Sample { cost: OpCost { units, ..OpCost::default() }, ns };
        let mut known = Vec::new();
        merge_min(&mut known, &[at(5, 2.0), at(9, 8.0)]);
        merge_min(&mut known, &[at(7, 3.0), at(9, 4.0), at(5, 6.0)]);
        let found: Vec<(u64, f64)> = known.iter().map(|k| (k.cost.units, k.ns)).collect();
        assert_eq!(found, [(5, 2.0), (7, 3.0), (9, 4.0)]);
    }

    #[test]
    fn duplicate_sizes_are_merged() {
        let at = |units, ns| Sample { cost: OpCost { units, ..OpCost::default() }, ns };
        let points = points(&[at(5, 2.0), at(5, 3.0), at(9, 4.0), at(0, 1.0)]);
        assert_eq!(points, [Point { units: 5, ns: 2.0 }, Point { units: 9, ns: 4.0 }]);
    }
}
