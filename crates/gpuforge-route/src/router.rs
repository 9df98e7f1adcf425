//! Who decides and learns? Routes an operation, runs it there, falls back when a place fails, and remembers what it took.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use gpuforge_ops::{
    Kind, Op, OpError, Work,
    view::{Number, expect, numbers},
};
use gpuforge_runtime::{runner::Event, tensor::Tensor, units::Bytes};
use serde::Serialize;

use crate::{
    feedback::{Corrections, ENOUGH, Exploration},
    model::{Lane, MOST_CUSTOM, Model},
    route::{Candidate, Decision, MOST_PLACES, Reason, Wish, route},
    site::{Site, SiteError, SiteRun},
};

/// How a router behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterSettings {
    /// May it try places that the model does not prefer, for at most a hundredth of the time?
    pub explore: bool,
    /// May the processor take over when a device fails?
    pub cpu_fallback: bool,
    /// What the user prefers in general.
    pub wish: Wish,
    /// Work that reads and writes less than this stays on the processor, whatever the model says.
    pub least: Bytes,
}

impl Default for RouterSettings {
    fn default() -> Self {
        RouterSettings { explore: true, cpu_fallback: true, wish: Wish::Fastest, least: Bytes::ZERO }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The operation is wrong.
    #[error(transparent)]
    Op(#[from] OpError),
    /// Where it was sent it could not be done, and nowhere else was allowed.
    #[error("{place} could not do it: {error}")]
    Place {
        /// Name of the place.
        place: String,
        /// Why.
        error: SiteError,
    },
    /// There is no such place.
    #[error("there is no place {asked}: there are {there} (0 is the processor)")]
    NoPlace {
        /// Asked for.
        asked: usize,
        /// How many there are.
        there: usize,
    },
    /// It was called off.
    #[error("called off")]
    Cancelled,
    /// One of many failed.
    #[error("item {index}: {error}")]
    Item {
        /// Which one, counted from 0.
        index: usize,
        /// Why.
        #[source]
        error: Box<RouteError>,
    },
    /// A function of the user's failed.
    #[error("{0}")]
    User(String),
}

/// What a run took, beside what was expected.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Where it ran in the end.
    pub place: String,
    /// Wall time.
    pub wall: Duration,
    /// Predicted time of the place it ran at.
    pub predicted: Option<Duration>,
    /// Time that the device itself measured; `None` on the processor and where it cannot tell.
    pub device_time: Option<Duration>,
    /// Something was compiled on the way.
    pub cold: bool,
    /// Parts it was cut into.
    pub pieces: usize,
    /// What went wrong on the way, and what was done about it.
    pub events: Vec<Event>,
    /// Why it did not run where it was sent.
    pub fallback: Option<String>,
}

/// Results of an operation, with where they came from and why.
#[derive(Debug, Clone)]
pub struct Ran {
    outputs: Vec<Tensor>,
    decision: Decision,
    report: Report,
}

impl Ran {
    /// For batches, whose items share a run.
    pub(crate) fn new(outputs: Vec<Tensor>, decision: Decision, report: Report) -> Self {
        Ran { outputs, decision, report }
    }

    /// For runs whose report is put together from several.
    pub(crate) fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }

    /// All results.
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    /// The first result; every operation has one.
    pub fn tensor(&self) -> Option<&Tensor> {
        self.outputs.first()
    }

    /// The numbers of the first result; an error if they are of another kind, or on a device only.
    pub fn to_vec<T: Number>(&self) -> Result<Vec<T>, OpError> {
        let missing = OpError::Call { op: "to_vec", what: "results on the host", want: 1, have: 0 };
        let tensor = self.tensor().ok_or_else(|| missing.clone())?;
        expect("to_vec", "the result", tensor, T::DTYPE)?;
        let bytes = tensor.host().ok_or(missing)?;
        Ok(numbers::<T>("to_vec", &bytes)?.to_vec())
    }

    /// Where it was sent and why.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// What it took.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The results alone.
    pub fn into_outputs(self) -> Vec<Tensor> {
        self.outputs
    }
}

/// How one operation is to be run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Which place; a wish other than [`Wish::Fastest`] wins over the settings.
    pub wish: Wish,
    /// Results stay on the device if it runs on one, instead of coming back at once.
    pub stays: bool,
}

/// Decides, runs and learns.
pub struct Router {
    sites: Vec<Arc<dyn Site>>,
    models: RwLock<Arc<Vec<Model>>>,
    corrections: Vec<Corrections>,
    exploration: Exploration,
    custom: Mutex<Vec<String>>,
    settings: RouterSettings,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Router {
    /// Over these places, the processor first; at most [`MOST_PLACES`] are used. Models of the same length, or empty ones
    /// where nothing is known.
    pub fn new(mut sites: Vec<Arc<dyn Site>>, models: Vec<Model>, settings: RouterSettings) -> Self {
        sites.truncate(MOST_PLACES);
        let corrections = sites.iter().map(|_| Corrections::default()).collect();
        let (custom, exploration) = (Mutex::default(), Exploration::default());
        let router = Router { sites, models: RwLock::default(), corrections, exploration, custom, settings };
        router.set_models(models);
        router
    }

    /// The places.
    pub fn sites(&self) -> &[Arc<dyn Site>] {
        &self.sites
    }

    /// How it behaves.
    pub fn settings(&self) -> RouterSettings {
        self.settings
    }

    /// What is known about each place.
    pub fn models(&self) -> Arc<Vec<Model>> {
        self.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces what is known, after a calibration or from a file; places take over their tuning.
    pub fn set_models(&self, mut models: Vec<Model>) {
        for (i, site) in self.sites.iter().enumerate() {
            match models.get_mut(i) {
                Some(model) => {
                    model.index();
                    site.tune(model.tuning.clone());
                }
                None => models.push(Model::named(site.name())),
            }
        }
        models.truncate(self.sites.len());
        let names = lock(&self.custom).clone();
        for (n, name) in names.iter().enumerate() {
            models.iter_mut().for_each(|m| adopt(m, name, n));
        }
        *self.models.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(models);
    }

    /// Is something known about every place?
    pub fn is_calibrated(&self) -> bool {
        self.models().iter().all(Model::is_known)
    }

    /// Share of all time that trying out has cost.
    pub fn explored(&self) -> Option<f64> {
        self.exploration.share()
    }

    /// What runs taught about each place.
    pub fn corrections(&self) -> &[Corrections] {
        &self.corrections
    }

    /// The lane of an operation; a custom kernel gets one when it is first seen.
    pub fn lane(&self, op: &dyn Op) -> Lane {
        if op.kind() != Kind::Custom {
            return Lane::of(op.kind());
        }
        let name = op.name();
        let (n, new) = {
            let mut names = lock(&self.custom);
            match names.iter().position(|known| known == name) {
                Some(n) => (n, false),
                None if names.len() >= MOST_CUSTOM => (MOST_CUSTOM, false),
                None => {
                    names.push(name.to_owned());
                    (names.len() - 1, true)
                }
            }
        };
        if new && self.models().iter().any(|m| m.custom.iter().any(|(known, _)| known == name)) {
            let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut models).iter_mut().for_each(|m| adopt(m, name, n));
        }
        Lane::custom(n)
    }

    /// Where this work would go, and why. Runs nothing.
    pub fn decide(&self, work: &Work, lane: Lane, wish: Wish) -> Result<Decision, RouteError> {
        let wish = if wish == Wish::Fastest { self.settings.wish } else { wish };
        let there = self.sites.len();
        if let Wish::Only(asked) | Wish::Prefer(asked) = wish
            && asked >= there
        {
            return Err(RouteError::NoPlace { asked, there });
        }
        let models = self.models();
        let candidates: Vec<Candidate<'_>> = self
            .sites
            .iter()
            .zip(models.iter())
            .zip(&self.corrections)
            .map(|((site, model), corrections)| Candidate {
                model,
                corrections,
                usable: site.usable(),
                largest: site.largest(),
                room: site.room(),
            })
            .collect();
        let decision = route(work, lane, &candidates, wish);
        let small = work.effort.read.0.saturating_add(work.effort.written.0) < self.settings.least.0;
        let decided = matches!(decision.reason, Reason::Asked | Reason::Preferred);
        Ok(if small && !decided { decision.instead(0, Reason::Small) } else { decision })
    }

    /// Runs an operation where it is predicted to be fastest.
    pub fn run(&self, op: &dyn Op) -> Result<Ran, RouteError> {
        self.run_with(op, Options::default())
    }

    /// Runs an operation.
    pub fn run_with(&self, op: &dyn Op, options: Options) -> Result<Ran, RouteError> {
        let work = Work::of(op, options.stays)?;
        let lane = self.lane(op);
        let decision = self.decide(&work, lane, options.wish)?;
        let decision = self.maybe_explore(&work, lane, decision);
        match self.at(op, decision.place, options.stays) {
            Ok(run) => {
                self.learn(&work, lane, &decision, &run);
                Ok(self.ran(run, decision, decision.place, None))
            }
            Err(SiteError::Op(error)) => Err(error.into()),
            Err(error) => self.fall_back(op, decision, error),
        }
    }

    fn fall_back(&self, op: &dyn Op, decision: Decision, error: SiteError) -> Result<Ran, RouteError> {
        let place = self.sites.get(decision.place).map_or_else(String::new, |s| s.name());
        let allowed = decision.place != 0 && self.settings.cpu_fallback;
        if !allowed {
            return Err(RouteError::Place { place, error });
        }
        let why = error.to_string();
        let before = match error {
            SiteError::Device { events, .. } => events,
            _ => Vec::new(),
        };
        let mut run = self.at(op, 0, false).map_err(|error| match error {
            SiteError::Op(error) => RouteError::Op(error),
            error => RouteError::Place { place: "cpu".to_owned(), error },
        })?;
        run.events = before;
        Ok(self.ran(run, decision.instead(0, Reason::Fallback), 0, Some(why)))
    }

    /// Runs at a place, with the inputs brought to where it can read them.
    pub(crate) fn at(&self, op: &dyn Op, place: usize, stays: bool) -> Result<SiteRun, SiteError> {
        let site = self.sites.get(place).ok_or(SiteError::NoMemory(Bytes::ZERO))?;
        if place == 0 {
            for tensor in op.inputs().into_iter().filter(|t| !t.on_host()) {
                self.bring(tensor)?;
            }
        }
        site.run(op, stays)
    }

    /// Brings a tensor to the host from whichever device has it.
    pub fn bring(&self, tensor: &Tensor) -> Result<(), SiteError> {
        let mut last = None;
        for site in self.sites.iter().skip(1) {
            match site.read(tensor) {
                Ok(()) if tensor.on_host() => return Ok(()),
                Ok(()) => {}
                Err(error) => last = Some(error),
            }
        }
        let lost = || SiteError::Device { error: format!("{tensor:?} is on no device"), events: Vec::new() };
        Err(last.unwrap_or_else(lost))
    }

    /// Another place than the best, if it is not known well and trying it is paid for.
    pub(crate) fn maybe_explore(&self, work: &Work, lane: Lane, decision: Decision) -> Decision {
        let free = matches!(decision.reason, Reason::Faster { .. } | Reason::NotMeasured);
        let Some(best) = decision.predicted_ns(decision.place).filter(|_| free && self.settings.explore)
        else {
            return decision;
        };
        let units = work.effort.units;
        let unknown = |place: &usize| {
            let seen = self.corrections.get(*place).map_or(ENOUGH, |c| c.seen(lane, units));
            seen < ENOUGH && *place != decision.place && self.sites.get(*place).is_some_and(|s| s.usable())
        };
        let affordable = |place: &usize| {
            decision.predicted_ns(*place).is_some_and(|ns| self.exploration.allows((ns - best).max(0.0)))
        };
        let trial = (0..decision.places()).filter(unknown).find(affordable);
        trial.map_or(decision, |place| decision.instead(place, Reason::Exploring))
    }

    /// Notes the time of a run, and what it cost if it was a trial.
    pub(crate) fn spent(&self, decision: &Decision, wall: Duration) {
        self.exploration.ran(wall);
        let best =
            (0..decision.places()).filter_map(|p| decision.predicted_ns(p)).fold(f32::INFINITY, f32::min);
        if decision.reason == Reason::Exploring && best.is_finite() {
            self.exploration.tried(wall, best);
        }
    }

    pub(crate) fn learn(&self, work: &Work, lane: Lane, decision: &Decision, run: &SiteRun) {
        self.spent(decision, run.wall);
        // A run that compiled, was cut or had to be repeated says nothing about the next one.
        let plain = !run.cold && run.events.is_empty();
        let model = decision.model_ns(decision.place);
        if let (true, Some(model), Some(corrections)) = (plain, model, self.corrections.get(decision.place)) {
            corrections.learn(lane, work.effort.units, model, run.wall);
        }
    }

    pub(crate) fn ran(
        &self,
        run: SiteRun,
        decision: Decision,
        place: usize,
        fallback: Option<String>,
    ) -> Ran {
        let predicted = decision.predicted_ns(place).map(|ns| Duration::from_nanos(ns as u64));
        let report = Report {
            place: self.sites.get(place).map_or_else(String::new, |s| s.name()),
            wall: run.wall,
            predicted,
            device_time: run.device_time,
            cold: run.cold,
            pieces: run.pieces,
            events: run.events,
            fallback,
        };
        Ran { outputs: run.outputs, decision, report }
    }
}

/// Gives a custom kernel's curve its lane.
fn adopt(model: &mut Model, name: &str, n: usize) {
    let found = model.custom.iter().find(|(known, _)| known == name).map(|(_, c)| c.clone());
    if let Some(curve) = found {
        model.set_lane(Lane::custom(n), curve);
    }
}
