//! How fast is a place? Launches, transfers, and every kind of operation at several sizes, within a budget of time.
//!
//! Every figure is a median of runs with everything compiled; cold runs never count. What a run moves is predicted from
//! the transfers that were measured before and taken off: a model's curves are of the computation alone. No run is started
//! that is predicted to end after the budget, so that a slow place gets fewer sizes, not more time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_ops::{
    Effort, Kind, Op, OpError, Tuning, Variant, Work,
    table::{self, OPS, Row},
};

use crate::{
    curve::{Curve, Point},
    model::Model,
    site::{Site, SiteError, SiteRun},
};

mod measure;
pub mod plan;

use measure::{Bench, Measured};

/// A model whose repetitions lie further apart than this (see [`Model::spread`]) was measured on a machine too busy to be
/// trusted.
pub const TOO_NOISY: f64 = 0.3;

/// How much is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The most that calibrating may take. Opening a device does not count: it happens before the clock starts.
    pub budget: Duration,
    /// Only these kinds; `None` is all that have an example.
    pub kinds: Option<Vec<Kind>>,
    /// Which part of a kind's sizes is tried: from and to, as shares of their list.
    pub part: (f32, f32),
    /// The most sizes per kind.
    pub points: usize,
    /// Also sizes halfway between those of the list.
    pub between: bool,
    /// Try the variants of kernels on devices and keep the fastest?
    pub tune: bool,
    /// Bytes of the transfers that are measured, ascending.
    pub transfers: Vec<usize>,
    /// Repetitions of a measurement: at least (fewer where one takes long) and at most.
    pub repeat: (usize, usize),
    /// How often everything is visited. The faster visit counts: what disturbed a machine for a few seconds has gone by the
    /// next.
    pub visits: usize,
}

impl Options {
    /// Enough for a first decision: one kind that memory decides, one that arithmetic decides.
    pub fn micro() -> Self {
        let memory = [Kind::Map, Kind::Xor].into_iter().find(|k| table::row(*k).is_some());
        Options {
            budget: Duration::from_millis(150),
            kinds: Some(memory.into_iter().chain([Kind::Matmul]).collect()),
            part: (0.15, 0.6),
            points: 2,
            between: false,
            tune: false,
            transfers: vec![64 << 10, 1 << 20],
            repeat: (3, 5),
            visits: 1,
        }
    }

    /// Every kind, in ten seconds for all places together.
    pub fn quick() -> Self {
        Options {
            // A second is for opening devices, which no budget counts, and for the last run.
            budget: Duration::from_millis(9_000),
            kinds: None,
            part: (0.0, 1.0),
            points: usize::MAX,
            between: false,
            tune: true,
            transfers: vec![4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20],
            repeat: (3, 15),
            visits: 1,
        }
    }

    /// Every kind at twice the sizes, with more repetitions, in a minute and a half for all places together.
    pub fn full() -> Self {
        Options {
            budget: Duration::from_secs(90),
            between: true,
            transfers: vec![4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20],
            repeat: (5, 50),
            visits: 2,
            ..Options::quick()
        }
    }

    /// Rows of the operations that it measures.
    fn rows(&self) -> Vec<&'static Row> {
        let wanted = |row: &&Row| self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&row.kind));
        OPS.iter().filter(wanted).collect()
    }
}

/// How far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// Which place.
    pub place: &'a str,
    /// What is measured now.
    pub step: Step<'a>,
    /// Share of this place's kinds that is done.
    pub done: f32,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// The device is opened.
    Opening,
    /// A submission with nothing to do.
    Launch,
    /// This many bytes there and back.
    Transfer(usize),
    /// Variants of a kind's kernels.
    Tuning(Kind),
    /// A kind at this size.
    Kind(Kind, usize),
    /// A kind ends here, before this size: it would not fit into the time, or cannot be done.
    Ends(Kind, usize, &'a str),
}

/// Measures a place. The error of a device that fails ends its calibration; nothing half-measured is returned.
pub fn calibrate(
    site: &dyn Site,
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Model, SiteError> {
    let began = Instant::now();
    calibrate_by(site, options, &|| began.elapsed(), progress)
}

/// Measures several places one after the other; the budget is for all of them, and what one leaves the next may use. A
/// place that fails does so alone.
pub fn calibrate_all(
    sites: &[Arc<dyn Site>],
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Vec<Result<Model, SiteError>> {
    let mut left = options.budget;
    let mut models = Vec::new();
    for (i, site) in sites.iter().enumerate() {
        let share = left / u32::try_from(sites.len() - i).unwrap_or(1);
        // Opening a device comes first and counts here: who waits for all places waits for that too.
        let began = Instant::now();
        let options = Options { budget: share, ..options.clone() };
        models.push(calibrate(site.as_ref(), &options, progress));
        left = left.saturating_sub(began.elapsed());
    }
    models
}

/// As [`calibrate`], by another clock.
pub fn calibrate_by(
    site: &dyn Site,
    options: &Options,
    clock: &dyn Fn() -> Duration,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Model, SiteError> {
    let name = site.name();
    progress(Progress { place: &name, step: Step::Opening, done: 0.0 });
    site.launch()?;
    let mut bench = Bench::new(site, options, clock);
    let mut model = Model::named(name.clone());
    model.driver = site.driver();
    progress(Progress { place: &name, step: Step::Launch, done: 0.0 });
    model.launch_ns = bench.launch()?;
    let mut told = |step: Step<'_>| progress(Progress { place: &name, step, done: 0.0 });
    (model.up, model.down) = bench.transfers(&mut told)?;
    if options.tune {
        site.tune(Tuning::default());
    }
    let rows = options.rows();
    let all = rows.len() * options.visits.max(1);
    let mut known: Vec<Vec<Measured>> = vec![Vec::new(); rows.len()];
    for (i, (at, row)) in rows.iter().enumerate().cycle().take(all).enumerate() {
        let done = i as f32 / all as f32;
        let mut told = |step: Step<'_>| progress(Progress { place: &name, step, done });
        let end = bench.share(all - i);
        let make = |size: usize| (row.example)(&[size]);
        let sizes = plan::sizes(row.calibrate, options.part, options.between, options.points);
        let is_device = model.launch_ns > 0.0;
        if options.tune && is_device && i < rows.len() {
            let variant = bench.tune(row.kind, &make, &sizes, &model, end, &mut told)?;
            variant.into_iter().for_each(|v| model.tune(row.kind, v));
            site.tune(model.tuning.clone());
        }
        let measured = bench.kind(row.kind, &make, &sizes, &model, end, &mut told)?;
        known.get_mut(at).into_iter().for_each(|known| faster(known, &measured));
    }
    let mut roof = Roof::default();
    for (row, measured) in rows.iter().zip(&known) {
        roof.see(row.kind, measured, model.launch_ns);
        if let Ok(curve) = Curve::try_from(points(measured)) {
            model.set(row.kind, curve);
        }
    }
    (model.byte_ns, model.flop_ns) = (roof.byte_ns(), roof.flop_ns);
    // A submission without a dispatch may never reach the device: the smallest real operation tells more.
    if let Some(first) =
        model.curve(Kind::Xor).and_then(|c| c.points().first()).filter(|_| model.launch_ns > 0.0)
    {
        model.launch_ns = model.launch_ns.max(first.ns);
    }
    model.spread = plan::median(&mut bench.spreads);
    Ok(model)
}

/// Measures one operation of the caller's at several sizes, ascending, against a model that has the place's transfers.
/// `None` when not even the first size fits into the budget.
pub fn curve(
    site: &dyn Site,
    model: &Model,
    make: &dyn Fn(usize) -> Result<Arc<dyn Op>, OpError>,
    sizes: &[usize],
    options: &Options,
) -> Result<Option<Curve>, SiteError> {
    let began = Instant::now();
    let clock = || began.elapsed();
    let mut bench = Bench::new(site, options, &clock);
    let end = bench.share(1);
    let measured = bench.kind(Kind::Custom, make, sizes, model, end, &mut |_| {})?;
    Ok(Curve::try_from(points(&measured)).ok())
}

/// Of two visits to a size the faster counts.
fn faster(known: &mut Vec<Measured>, again: &[Measured]) {
    for new in again {
        match known.iter_mut().find(|k| k.effort.units == new.effort.units) {
            Some(old) => old.ns = old.ns.min(new.ns),
            None => known.push(*new),
        }
    }
    known.sort_by_key(|k| k.effort.units);
}

/// Points of a curve: sizes that count as equally much are one.
fn points(measured: &[Measured]) -> Vec<Point> {
    let mut points: Vec<Point> = measured.iter().map(|m| Point { units: m.effort.units, ns: m.ns }).collect();
    points.retain(|p| p.units > 0 && p.ns > 0.0);
    points.sort_by_key(|p| p.units);
    points.dedup_by_key(|p| p.units);
    points
}

/// Speed of memory and arithmetic, from the kinds that each of them decides.
#[derive(Debug, Default)]
struct Roof {
    /// By the preference of the kind: a plain pass over memory first.
    bytes: Vec<(usize, f64)>,
    flop_ns: Option<f64>,
}

impl Roof {
    fn see(&mut self, kind: Kind, measured: &[Measured], launch_ns: f64) {
        let Some(Measured { effort, ns, .. }) = measured.last() else { return };
        let (Effort { flops, .. }, bytes) = (effort, effort.read.0 + effort.written.0);
        let ns = plan::without(*ns, launch_ns);
        if kind == Kind::Matmul && *flops > 0 {
            self.flop_ns = Some(ns / *flops as f64);
        }
        let rank = [Kind::Map, Kind::Xor, Kind::Sum].iter().position(|k| *k == kind);
        if let Some(rank) = rank.filter(|_| bytes > 0) {
            self.bytes.push((rank, ns / bytes as f64));
        }
    }

    fn byte_ns(&self) -> Option<f64> {
        self.bytes.iter().min_by_key(|(rank, _)| *rank).map(|(_, ns)| *ns)
    }
}

/// Does a variant beat the default by more than both of them vary?
fn beats(default: &mut [f64], other: &mut [f64]) -> bool {
    let noise = plan::spread(default).unwrap_or(0.0).max(plan::spread(other).unwrap_or(0.0)).max(LEAST_GAIN);
    match (plan::median(default), plan::median(other)) {
        (Some(before), Some(after)) => after < before * (1.0 - noise.min(0.5)),
        _ => false,
    }
}

/// A variant that is faster by less than this is not worth leaving the default.
const LEAST_GAIN: f64 = 0.03;

/// The variant that is the fastest, if it beats the first by more than noise.
fn fastest(mut times: Vec<(Variant, Vec<f64>)>) -> Option<Variant> {
    if times.is_empty() {
        return None;
    }
    let (_, mut default) = times.remove(0);
    let best = times.iter_mut().filter_map(|(v, t)| Some((*v, plan::median(t)?, t)));
    let (variant, _, times) = best.min_by(|a, b| a.1.total_cmp(&b.1))?;
    beats(&mut default, times).then_some(variant)
}

/// A run that counts: nothing was compiled, nothing had to be repeated.
fn plain(run: &SiteRun) -> bool {
    !run.cold && run.events.is_empty()
}

/// What a piece of work moves at a place, by its measured transfers.
fn moved_ns(model: &Model, work: &Work) -> f64 {
    let ns = |curve: &Option<Curve>, bytes: u64| match curve {
        Some(curve) if bytes > 0 => f64::from(curve.at(bytes)),
        _ => 0.0,
    };
    ns(&model.up, work.up.0) + ns(&model.down, work.down.0)
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
    fn presets_are_within_their_budgets_and_have_rows() {
        assert!(Options::micro().budget <= Duration::from_millis(150));
        assert_eq!(Options::micro().rows().len(), 2, "memory and arithmetic");
        assert_eq!(Options::quick().rows().len(), OPS.len());
        assert!(Options::quick().budget < Duration::from_secs(10));
        assert!(Options::full().budget <= Duration::from_secs(90));
    }

    #[test]
    fn the_faster_visit_counts() {
        let at = |units, ns| Measured { effort: Effort { units, ..Effort::default() }, ns };
        let mut known = Vec::new();
        faster(&mut known, &[at(5, 2.0), at(9, 8.0)]);
        faster(&mut known, &[at(7, 3.0), at(9, 4.0), at(5, 6.0)]);
        let found: Vec<(u64, f64)> = known.iter().map(|k| (k.effort.units, k.ns)).collect();
        assert_eq!(found, [(5, 2.0), (7, 3.0), (9, 4.0)]);
    }

    #[test]
    fn equal_sizes_are_one_point() {
        let at = |units, ns| Measured { effort: Effort { units, ..Effort::default() }, ns };
        let points = points(&[at(5, 2.0), at(5, 3.0), at(9, 4.0), at(0, 1.0)]);
        assert_eq!(points, [Point { units: 5, ns: 2.0 }, Point { units: 9, ns: 4.0 }]);
    }
}
