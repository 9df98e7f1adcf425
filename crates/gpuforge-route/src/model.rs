//! Cost model of a backend: measured curves per op class, transfer curves, and a roofline fallback for what was never measured.

use gpuforge_ops::{OpKind, Tuning, Variant, Work};
use gpuforge_runtime::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::curve::Curve;

/// Op class: the unit of cost modelling. An operation kind, or one custom kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpClass(u16);

/// Custom kernels with an op class of their own; any more share one.
pub const MAX_CUSTOM: usize = 47;
/// Number of op classes.
pub const OP_CLASSES: usize = OpKind::COUNT + MAX_CUSTOM;

impl OpClass {
    /// The op class of a kind.
    pub const fn of(kind: OpKind) -> OpClass {
        OpClass(kind.index() as u16)
    }

    /// The op class of the n-th custom kernel.
    pub fn custom(n: usize) -> OpClass {
        if n < MAX_CUSTOM { OpClass((OpKind::COUNT + n) as u16) } else { OpClass::of(OpKind::Custom) }
    }

    /// Index into per-class tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Measurements of one backend. Times are those of `Backend::run` without transfers and with every kernel compiled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Name of the backend.
    pub name: String,
    /// Driver and version of a device; another driver invalidates the model.
    pub driver: Option<String>,
    /// Launch overhead: an empty submission, in nanoseconds; 0 for the CPU.
    pub launch_ns: f64,
    /// Host-to-device transfer time by bytes; `None` for the CPU, which reads in place.
    #[serde(rename = "up")]
    pub upload: Option<Curve>,
    /// Device-to-host transfer time by bytes.
    #[serde(rename = "down")]
    pub download: Option<Curve>,
    /// Memory roof: nanoseconds per byte of a streaming pass, for op classes without a curve.
    pub byte_ns: Option<f64>,
    /// Compute roof: nanoseconds per multiply-add of a large matmul, for op classes without a curve.
    pub flop_ns: Option<f64>,
    /// Cost curves by kind.
    curves: Vec<(OpKind, Curve)>,
    /// Cost curves of custom kernels by name.
    pub custom: Vec<(String, Curve)>,
    /// Auto-tuned kernel variants.
    pub tuning: Tuning,
    /// Measurement noise: interquartile range over median of repeated runs, median over all points.
    pub spread: Option<f64>,
    /// Curves by op class, rebuilt after deserialisation.
    #[serde(skip)]
    by_class: CurvesByClass,
}

/// Cost curves indexed by op class.
#[derive(Debug, Clone, PartialEq)]
struct CurvesByClass(Vec<Option<Curve>>);

impl Default for CurvesByClass {
    fn default() -> Self {
        CurvesByClass(vec![None; OP_CLASSES])
    }
}

/// What a prediction is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The cost curve of the op class.
    Measured,
    /// The roofline: memory and compute speed of other op classes.
    Roofline,
    /// Nothing was measured on this backend.
    Unknown,
}

impl CostModel {
    /// An empty model.
    pub fn named(name: impl Into<String>) -> Self {
        CostModel { name: name.into(), ..CostModel::default() }
    }

    /// Sets the curve of a kind.
    pub fn set(&mut self, kind: OpKind, curve: Curve) {
        self.curves.retain(|(k, _)| *k != kind);
        self.set_class(OpClass::of(kind), curve.clone());
        self.curves.push((kind, curve));
    }

    /// The curve of a kind.
    pub fn curve(&self, kind: OpKind) -> Option<&Curve> {
        self.curves.iter().find(|(k, _)| *k == kind).map(|(_, c)| c)
    }

    /// Kinds with a cost curve.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> + '_ {
        self.curves.iter().map(|(k, _)| *k)
    }

    /// Sets the tuned variant of a kind.
    pub fn tune(&mut self, kind: OpKind, variant: Variant) {
        self.tuning.set(kind, variant);
    }

    /// Sets the curve of an op class; for custom kernels, which are numbered when first seen.
    pub fn set_class(&mut self, class: OpClass, curve: Curve) {
        self.by_class.0.resize(OP_CLASSES, None);
        if let Some(entry) = self.by_class.0.get_mut(class.index()) {
            *entry = Some(curve);
        }
    }

    /// Rebuilds the lookup table after deserialisation.
    pub fn rebuild_index(&mut self) {
        for (kind, curve) in self.curves.clone() {
            self.set_class(OpClass::of(kind), curve);
        }
    }

    /// Was anything measured?
    pub fn is_known(&self) -> bool {
        !self.curves.is_empty() || self.byte_ns.is_some()
    }

    /// Predicted nanoseconds of `work` on this backend, transfers included, before online corrections; and the basis of it.
    #[inline]
    pub fn predict(&self, class: OpClass, work: &Work) -> (f32, Basis) {
        let (compute, basis) = match self.by_class.0.get(class.index()) {
            Some(Some(curve)) => (curve.at(work.cost.units), Basis::Measured),
            _ => self.roofline(work),
        };
        (compute + self.transfers(work), basis)
    }

    /// Transfer time: upload of inputs plus download of results.
    #[inline]
    fn transfers(&self, work: &Work) -> f32 {
        let moved = |curve: &Option<Curve>, bytes: Bytes| match curve {
            Some(curve) if bytes.0 > 0 => curve.at(bytes.0),
            _ => 0.0,
        };
        moved(&self.upload, work.upload) + moved(&self.download, work.download)
    }

    fn roofline(&self, work: &Work) -> (f32, Basis) {
        let (Some(byte), flop) = (self.byte_ns, self.flop_ns.unwrap_or(0.0)) else {
            return (f32::MAX, Basis::Unknown);
        };
        let memory = (work.cost.read.0 + work.cost.written.0) as f64 * byte;
        let arithmetic = work.cost.flops as f64 * flop;
        let launches = f64::from(work.cost.launches.max(1)) * self.launch_ns;
        ((launches + memory.max(arithmetic)) as f32, Basis::Roofline)
    }

    /// The model with the times of each kind multiplied by its own factor; for experiments with a slowed backend.
    pub fn slowed(&self, factor: impl Fn(OpKind) -> f64) -> CostModel {
        let mut slower = self.clone();
        for (kind, curve) in &self.curves {
            if let Some(curve) = curve.scaled(factor(*kind)) {
                slower.set(*kind, curve);
            }
        }
        slower
    }

    /// The model with every time multiplied; for experiments with wrong models.
    pub fn scaled(&self, factor: f64) -> CostModel {
        let mut wrong = self.clone();
        let scaled = |c: &Curve| c.scaled(factor);
        wrong.curves = self.curves.iter().filter_map(|(k, c)| Some((*k, scaled(c)?))).collect();
        wrong.upload = self.upload.as_ref().and_then(scaled);
        wrong.download = self.download.as_ref().and_then(scaled);
        wrong.launch_ns *= factor;
        wrong.byte_ns = self.byte_ns.map(|b| b * factor);
        wrong.flop_ns = self.flop_ns.map(|b| b * factor);
        wrong.rebuild_index();
        wrong
    }
}
