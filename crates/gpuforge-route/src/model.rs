//! What is known about a place? Curves per lane, transfers, and a roofline for what was never measured; all of it measured.

use gpuforge_ops::{Kind, Tuning, Variant, Work};
use gpuforge_runtime::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::curve::Curve;

/// Whose curve: a kind of operation, or one custom kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(u16);

/// Custom kernels with a lane of their own; any more share one.
pub const MOST_CUSTOM: usize = 47;
/// Lanes in all.
pub const LANES: usize = Kind::COUNT + MOST_CUSTOM;

impl Lane {
    /// The lane of a kind.
    pub const fn of(kind: Kind) -> Lane {
        Lane(kind.index() as u16)
    }

    /// The lane of the n-th custom kernel.
    pub fn custom(n: usize) -> Lane {
        if n < MOST_CUSTOM { Lane((Kind::COUNT + n) as u16) } else { Lane::of(Kind::Custom) }
    }

    /// Position in tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What was measured on a place. Times are those of `Site::run` without transfers, with everything compiled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The place's name.
    pub name: String,
    /// Driver and version where it is a device; another driver is another model.
    pub driver: Option<String>,
    /// A submission with nothing to do, in nanoseconds; 0 for the processor.
    pub launch_ns: f64,
    /// Bytes to the device; none for the processor, which reads where the bytes are.
    pub up: Option<Curve>,
    /// Bytes back.
    pub down: Option<Curve>,
    /// Nanoseconds per byte of a plain pass over memory, for lanes without a curve.
    pub byte_ns: Option<f64>,
    /// Nanoseconds per multiply-add of a large product, for lanes without a curve.
    pub flop_ns: Option<f64>,
    /// Curves by kind.
    curves: Vec<(Kind, Curve)>,
    /// Curves of custom kernels by name.
    pub custom: Vec<(String, Curve)>,
    /// Kernel variants that were fastest.
    pub tuning: Tuning,
    /// How far repetitions of one measurement lay apart, as a share of the median; the median of all.
    pub spread: Option<f64>,
    /// Where each lane's curve is, rebuilt when read from a file.
    #[serde(skip)]
    lanes: Lanes,
}

/// Curves by lane; `u16::MAX` is none.
#[derive(Debug, Clone, PartialEq)]
struct Lanes(Vec<Option<Curve>>);

impl Default for Lanes {
    fn default() -> Self {
        Lanes(vec![None; LANES])
    }
}

/// What a prediction rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The lane's curve.
    Measured,
    /// Memory and arithmetic speed of other lanes.
    Roofline,
    /// Nothing is known about this place.
    Unknown,
}

impl Model {
    /// Nothing known yet.
    pub fn named(name: impl Into<String>) -> Self {
        Model { name: name.into(), ..Model::default() }
    }

    /// Sets the curve of a kind.
    pub fn set(&mut self, kind: Kind, curve: Curve) {
        self.curves.retain(|(k, _)| *k != kind);
        self.set_lane(Lane::of(kind), curve.clone());
        self.curves.push((kind, curve));
    }

    /// The curve of a kind.
    pub fn curve(&self, kind: Kind) -> Option<&Curve> {
        self.curves.iter().find(|(k, _)| *k == kind).map(|(_, c)| c)
    }

    /// Kinds with a curve.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.curves.iter().map(|(k, _)| *k)
    }

    /// Notes the fastest variant of a kind.
    pub fn tune(&mut self, kind: Kind, variant: Variant) {
        self.tuning.set(kind, variant);
    }

    /// Sets the curve of a lane; for custom kernels, whose numbers are given when they are first seen.
    pub fn set_lane(&mut self, lane: Lane, curve: Curve) {
        self.lanes.0.resize(LANES, None);
        if let Some(entry) = self.lanes.0.get_mut(lane.index()) {
            *entry = Some(curve);
        }
    }

    /// After reading from a file: makes look-ups fast again.
    pub fn index(&mut self) {
        for (kind, curve) in self.curves.clone() {
            self.set_lane(Lane::of(kind), curve);
        }
    }

    /// Anything measured at all?
    pub fn is_known(&self) -> bool {
        !self.curves.is_empty() || self.byte_ns.is_some()
    }

    /// Nanoseconds of a piece of work here, transfers included, before corrections; and what that rests on.
    #[inline]
    pub fn predict(&self, lane: Lane, work: &Work) -> (f32, Basis) {
        let (compute, basis) = match self.lanes.0.get(lane.index()) {
            Some(Some(curve)) => (curve.at(work.effort.units), Basis::Measured),
            _ => self.roofline(work),
        };
        (compute + self.transfers(work), basis)
    }

    /// What moving costs: to a device and back, or home from one.
    #[inline]
    fn transfers(&self, work: &Work) -> f32 {
        let moved = |curve: &Option<Curve>, bytes: Bytes| match curve {
            Some(curve) if bytes.0 > 0 => curve.at(bytes.0),
            _ => 0.0,
        };
        moved(&self.up, work.up) + moved(&self.down, work.down)
    }

    fn roofline(&self, work: &Work) -> (f32, Basis) {
        let (Some(byte), flop) = (self.byte_ns, self.flop_ns.unwrap_or(0.0)) else {
            return (f32::MAX, Basis::Unknown);
        };
        let memory = (work.effort.read.0 + work.effort.written.0) as f64 * byte;
        let arithmetic = work.effort.flops as f64 * flop;
        let launches = f64::from(work.effort.launches.max(1)) * self.launch_ns;
        ((launches + memory.max(arithmetic)) as f32, Basis::Roofline)
    }

    /// The times of each kind multiplied by a factor of its own; for experiments with a place that is slower by known
    /// factors.
    pub fn slowed(&self, factor: impl Fn(Kind) -> f64) -> Model {
        let mut slower = self.clone();
        for (kind, curve) in &self.curves {
            if let Some(curve) = curve.scaled(factor(*kind)) {
                slower.set(*kind, curve);
            }
        }
        slower
    }

    /// Every time of it multiplied; for experiments with wrong models.
    pub fn scaled(&self, factor: f64) -> Model {
        let mut wrong = self.clone();
        let scaled = |c: &Curve| c.scaled(factor);
        wrong.curves = self.curves.iter().filter_map(|(k, c)| Some((*k, scaled(c)?))).collect();
        wrong.up = self.up.as_ref().and_then(scaled);
        wrong.down = self.down.as_ref().and_then(scaled);
        wrong.launch_ns *= factor;
        wrong.byte_ns = self.byte_ns.map(|b| b * factor);
        wrong.flop_ns = self.flop_ns.map(|b| b * factor);
        wrong.index();
        wrong
    }
}
