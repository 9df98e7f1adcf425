//! Routing decision: a pure function of the work, the cost models, the online corrections and the placement policy. It returns
//! its reason.

use std::fmt;

use gpuforge_ops::Work;
use gpuforge_runtime::units::Bytes;
use serde::Serialize;

use crate::{
    correction::Corrections,
    model::{Basis, CostModel, OpClass},
};

/// Most backends a decision compares.
pub const MAX_BACKENDS: usize = 8;

/// Placement policy: which backend the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlacementPolicy {
    /// The backend that is predicted to be fastest.
    #[default]
    Fastest,
    /// Prefer this backend (a setting); another one if it is not usable.
    Prefer(usize),
    /// Only this backend (an explicit request): never another one.
    Only(usize),
}

/// One backend as seen by a decision.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its cost model.
    pub model: &'a CostModel,
    /// Its online corrections.
    pub corrections: &'a Corrections,
    /// May it be used? Not while it keeps failing.
    pub usable: bool,
    /// Largest buffer it can bind; `None` is no limit.
    pub max_buffer: Option<Bytes>,
    /// Memory budget; `None` is no limit.
    pub memory_budget: Option<Bytes>,
}

/// Why a backend was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum Reason {
    /// This call requested it.
    #[serde(rename = "asked")]
    Requested,
    /// A setting prefers it.
    Preferred,
    /// The preferred backend is not usable now.
    PreferredUnusable,
    /// There is no other backend.
    Only,
    /// Predicted to be faster than the runner-up by this factor.
    Faster {
        /// Ratio of the predicted times.
        factor: f32,
    },
    /// No other backend can run it: not usable, or too large for it and not splittable.
    OthersCannot,
    /// Nothing is calibrated yet.
    NotMeasured,
    /// Below the setting `device_min_bytes`: stays on the CPU.
    Small,
    /// Exploration: to check the model's prediction.
    Exploring,
    /// The chosen backend failed.
    Fallback,
    /// Partitioned over several backends.
    #[serde(rename = "shared")]
    MultiDevice,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Requested => write!(f, "it was asked for"),
            Reason::Preferred => write!(f, "the setting `device` prefers it"),
            Reason::PreferredUnusable => write!(f, "the preferred device cannot be used now"),
            Reason::Only => write!(f, "there is no other"),
            Reason::Faster { factor } => write!(f, "predicted {factor:.1} times faster than the next"),
            Reason::OthersCannot => write!(f, "the others cannot take it"),
            Reason::NotMeasured => write!(f, "nothing was measured yet: gpuforge calibrate"),
            Reason::Small => write!(f, "the setting `device_min_bytes` keeps small work on the CPU"),
            Reason::Exploring => write!(f, "to learn whether the model is right about it"),
            Reason::Fallback => write!(f, "the device failed"),
            Reason::MultiDevice => write!(f, "several places share it, each by its speed"),
        }
    }
}

/// Chosen backend, predicted times and reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Index of the chosen backend; 0 is the CPU.
    pub backend_id: usize,
    /// Predicted nanoseconds per backend; infinite where it cannot run or nothing is known.
    predicted: [f32; MAX_BACKENDS],
    /// Model predictions before online corrections: what a run is compared with.
    model: [f32; MAX_BACKENDS],
    backend_count: usize,
    /// Is every prediction based on a measured curve?
    pub calibrated: bool,
    /// The reason.
    pub reason: Reason,
}

impl Decision {
    /// Predicted nanoseconds on a backend.
    pub fn predicted_ns(&self, backend_id: usize) -> Option<f32> {
        self.predicted
            .get(..self.backend_count)?
            .get(backend_id)
            .copied()
            .filter(|ns| ns.is_finite() && *ns < f32::MAX)
    }

    /// The model's prediction, before online corrections.
    pub fn model_ns(&self, backend_id: usize) -> Option<f32> {
        self.model
            .get(..self.backend_count)?
            .get(backend_id)
            .copied()
            .filter(|ns| ns.is_finite() && *ns < f32::MAX)
    }

    /// Number of backends compared.
    pub fn backend_count(&self) -> usize {
        self.backend_count
    }

    /// The decision with other predictions for a backend: corrected, and before corrections. Infinite is unknown.
    #[must_use]
    pub(crate) fn with_prediction(mut self, backend_id: usize, predicted: f32, model: f32) -> Decision {
        if let (Some(p), Some(m)) = (self.predicted.get_mut(backend_id), self.model.get_mut(backend_id)) {
            (*p, *m) = (predicted, model);
        }
        self
    }

    /// The decision with another backend and reason.
    #[must_use]
    pub fn with_backend(self, backend_id: usize, reason: Reason) -> Decision {
        Decision { backend_id, reason, ..self }
    }
}

/// Decides. Reads plain data and atomics only: no lock, no allocation, no clock.
pub fn route(
    work: &Work,
    class: OpClass,
    candidates: &[Candidate<'_>],
    placement: PlacementPolicy,
) -> Decision {
    let mut predicted = [f32::INFINITY; MAX_BACKENDS];
    let mut model = [f32::INFINITY; MAX_BACKENDS];
    let backend_count = candidates.len().min(MAX_BACKENDS);
    let mut calibrated = backend_count > 0;
    let mut able = 0u32;
    for (i, c) in candidates.iter().take(MAX_BACKENDS).enumerate() {
        let (ns, basis) = c.model.predict(class, work);
        calibrated &= basis == Basis::Measured;
        let (Some(predicted), Some(model)) = (predicted.get_mut(i), model.get_mut(i)) else { continue };
        if basis != Basis::Unknown {
            // Inputs resident only on a device are read back before the CPU can use them.
            let readback = candidates
                .get(1)
                .and_then(|d| d.model.download.as_ref())
                .filter(|_| i == 0 && work.input_readback.0 > 0);
            let ns = ns + readback.map_or(0.0, |down| down.at(work.input_readback.0));
            *model = ns;
            *predicted = ns * c.corrections.factor(class, work.cost.units);
        }
        able |= u32::from(can_run(c, work)) << i;
    }
    let decide =
        |backend_id, reason| Decision { backend_id, predicted, model, backend_count, calibrated, reason };
    match placement {
        PlacementPolicy::Only(backend_id) if backend_id < backend_count => {
            return decide(backend_id, Reason::Requested);
        }
        PlacementPolicy::Prefer(backend_id)
            if backend_id < backend_count && able & (1 << backend_id) != 0 =>
        {
            return decide(backend_id, Reason::Preferred);
        }
        _ => {}
    }
    let (backend_id, reason) = fastest(&predicted, backend_count, able);
    let missed = matches!(placement, PlacementPolicy::Prefer(_));
    decide(backend_id, if missed { Reason::PreferredUnusable } else { reason })
}

/// Can this backend run it at all, whole or partitioned?
fn can_run(c: &Candidate<'_>, work: &Work) -> bool {
    let fits = |limit: Option<Bytes>, need: Bytes| limit.is_none_or(|most| need <= most);
    let whole = Bytes(work.upload.0.saturating_add(work.cost.written.0));
    c.usable && (work.splittable || (fits(c.max_buffer, work.largest_buffer) && fits(c.memory_budget, whole)))
}

fn fastest(predicted: &[f32; MAX_BACKENDS], backend_count: usize, able: u32) -> (usize, Reason) {
    let mut best: Option<(usize, f32)> = None;
    let mut next = f32::INFINITY;
    for (i, ns) in
        predicted.iter().copied().enumerate().take(backend_count).filter(|(i, _)| able & (1 << i) != 0)
    {
        match best {
            Some((_, b)) if ns >= b => next = next.min(ns),
            Some((_, b)) => (best, next) = (Some((i, ns)), b),
            None => best = Some((i, ns)),
        }
    }
    match best {
        // No backend can run it: the CPU path reports whatever error that gives.
        None => (0, Reason::OthersCannot),
        Some((i, _)) if backend_count == 1 => (i, Reason::Only),
        Some((i, _)) if able.count_ones() == 1 => (i, Reason::OthersCannot),
        // An infinite prediction means nothing was measured.
        Some((i, _)) if !next.is_finite() => (i, Reason::NotMeasured),
        Some((i, ns)) => (i, Reason::Faster { factor: next / ns.max(f32::MIN_POSITIVE) }),
    }
}
