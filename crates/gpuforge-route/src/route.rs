//! Which place? A pure function of the work, the models, what runs taught, and the user's wish. It returns its reason.

use std::fmt;

use gpuforge_ops::Work;
use gpuforge_runtime::units::Bytes;
use serde::Serialize;

use crate::{
    feedback::Corrections,
    model::{Basis, Lane, Model},
};

/// The most places that are compared.
pub const MOST_PLACES: usize = 8;

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    /// Whatever is fastest.
    #[default]
    Fastest,
    /// This place, by a setting: another one if it cannot be used.
    Prefer(usize),
    /// This place, asked for with this very call: no other one.
    Only(usize),
}

/// One place as a decision sees it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// What was measured there.
    pub model: &'a Model,
    /// What runs taught.
    pub corrections: &'a Corrections,
    /// Can it be used? Not while it keeps failing.
    pub usable: bool,
    /// The largest buffer it can bind; `None` is no limit.
    pub largest: Option<Bytes>,
    /// Memory that may be in use there at once; `None` is no limit.
    pub room: Option<Bytes>,
}

/// Why a place was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum Reason {
    /// This call asked for it.
    Asked,
    /// A setting prefers it.
    Preferred,
    /// The setting's place cannot be used now.
    PreferredUnusable,
    /// There is no other.
    Only,
    /// It is predicted to be faster by this factor than the next.
    Faster {
        /// How many times.
        factor: f32,
    },
    /// The faster place cannot take it: not usable, or too large for it and not to be cut.
    OthersCannot,
    /// Nothing was measured yet.
    NotMeasured,
    /// The setting `device_min_bytes` keeps it on the processor.
    Small,
    /// To learn whether the model is right about it.
    Exploring,
    /// The place it was sent to failed.
    Fallback,
    /// Several places share it.
    Shared,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Asked => write!(f, "it was asked for"),
            Reason::Preferred => write!(f, "the setting `device` prefers it"),
            Reason::PreferredUnusable => write!(f, "the preferred device cannot be used now"),
            Reason::Only => write!(f, "there is no other"),
            Reason::Faster { factor } => write!(f, "predicted {factor:.1} times faster than the next"),
            Reason::OthersCannot => write!(f, "the others cannot take it"),
            Reason::NotMeasured => write!(f, "nothing was measured yet: gpuforge calibrate"),
            Reason::Small => write!(f, "the setting `device_min_bytes` keeps small work on the processor"),
            Reason::Exploring => write!(f, "to learn whether the model is right about it"),
            Reason::Fallback => write!(f, "the device failed"),
            Reason::Shared => write!(f, "several places share it, each by its speed"),
        }
    }
}

/// Where, at what predicted price, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Position among the candidates; 0 is the processor.
    pub place: usize,
    /// Nanoseconds per place; infinite where it cannot run or nothing is known.
    predicted: [f32; MOST_PLACES],
    /// Before corrections: what a run is compared with.
    model: [f32; MOST_PLACES],
    places: usize,
    /// Does each of the figures rest on a measured curve?
    pub calibrated: bool,
    /// Why.
    pub reason: Reason,
}

impl Decision {
    /// Predicted nanoseconds at this place.
    pub fn predicted_ns(&self, place: usize) -> Option<f32> {
        self.predicted.get(..self.places)?.get(place).copied().filter(|ns| ns.is_finite() && *ns < f32::MAX)
    }

    /// The model's own figure, before what runs taught.
    pub fn model_ns(&self, place: usize) -> Option<f32> {
        self.model.get(..self.places)?.get(place).copied().filter(|ns| ns.is_finite() && *ns < f32::MAX)
    }

    /// How many places were compared.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The same with other figures for a place: predicted, and before corrections. Infinite is unknown.
    #[must_use]
    pub(crate) fn priced(mut self, place: usize, predicted: f32, model: f32) -> Decision {
        if let (Some(p), Some(m)) = (self.predicted.get_mut(place), self.model.get_mut(place)) {
            (*p, *m) = (predicted, model);
        }
        self
    }

    /// The same with another place and reason.
    #[must_use]
    pub fn instead(self, place: usize, reason: Reason) -> Decision {
        Decision { place, reason, ..self }
    }
}

/// Decides. Reads plain data and atomics only: no lock, no allocation, no clock.
pub fn route(work: &Work, lane: Lane, candidates: &[Candidate<'_>], wish: Wish) -> Decision {
    let mut predicted = [f32::INFINITY; MOST_PLACES];
    let mut model = [f32::INFINITY; MOST_PLACES];
    let places = candidates.len().min(MOST_PLACES);
    let mut calibrated = places > 0;
    let mut able = 0u32;
    for (i, c) in candidates.iter().take(MOST_PLACES).enumerate() {
        let (ns, basis) = c.model.predict(lane, work);
        calibrated &= basis == Basis::Measured;
        let (Some(predicted), Some(model)) = (predicted.get_mut(i), model.get_mut(i)) else { continue };
        if basis != Basis::Unknown {
            // What lies only on a device must come home first if the processor is to read it.
            let home =
                candidates.get(1).and_then(|d| d.model.down.as_ref()).filter(|_| i == 0 && work.home.0 > 0);
            let ns = ns + home.map_or(0.0, |down| down.at(work.home.0));
            *model = ns;
            *predicted = ns * c.corrections.factor(lane, work.effort.units);
        }
        able |= u32::from(can(c, work)) << i;
    }
    let decide = |place, reason| Decision { place, predicted, model, places, calibrated, reason };
    match wish {
        Wish::Only(place) if place < places => return decide(place, Reason::Asked),
        Wish::Prefer(place) if place < places && able & (1 << place) != 0 => {
            return decide(place, Reason::Preferred);
        }
        _ => {}
    }
    let (place, reason) = fastest(&predicted, places, able);
    let missed = matches!(wish, Wish::Prefer(_));
    decide(place, if missed { Reason::PreferredUnusable } else { reason })
}

/// Can it be done there at all, whole or in parts?
fn can(c: &Candidate<'_>, work: &Work) -> bool {
    let fits = |limit: Option<Bytes>, need: Bytes| limit.is_none_or(|most| need <= most);
    let whole = Bytes(work.up.0.saturating_add(work.effort.written.0));
    c.usable && (work.splittable || (fits(c.largest, work.largest) && fits(c.room, whole)))
}

fn fastest(predicted: &[f32; MOST_PLACES], places: usize, able: u32) -> (usize, Reason) {
    let mut best: Option<(usize, f32)> = None;
    let mut next = f32::INFINITY;
    for (i, ns) in predicted.iter().copied().enumerate().take(places).filter(|(i, _)| able & (1 << i) != 0) {
        match best {
            Some((_, b)) if ns >= b => next = next.min(ns),
            Some((_, b)) => (best, next) = (Some((i, ns)), b),
            None => best = Some((i, ns)),
        }
    }
    match best {
        // Nothing can take it: the processor answers for it, with whatever error that gives.
        None => (0, Reason::OthersCannot),
        Some((i, _)) if places == 1 => (i, Reason::Only),
        Some((i, _)) if able.count_ones() == 1 => (i, Reason::OthersCannot),
        // An infinite figure is one that nobody measured.
        Some((i, _)) if !next.is_finite() => (i, Reason::NotMeasured),
        Some((i, ns)) => (i, Reason::Faster { factor: next / ns.max(f32::MIN_POSITIVE) }),
    }
}
