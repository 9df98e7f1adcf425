//! How are dispatches laid out on a device? Variants of kernels, groups in two dimensions, and what the device allows.

use gpuforge_runtime::{
    engine::Caps,
    plan::{MAX_GROUPS, Plan},
    tensor::Tensor,
    units::Bytes,
};
use serde::{Deserialize, Serialize};

use crate::{Kind, Op, OpError};

/// One member of a family of kernels. What the figures mean is the operation's business; a calibration only tries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Invocations per group.
    pub group: u32,
    /// Numbers that one invocation loads at once: 1 or 4.
    pub width: u32,
    /// Items per invocation.
    pub items: u32,
}

impl Variant {
    /// Nothing special.
    pub const PLAIN: Variant = Variant { group: 64, width: 1, items: 1 };

    /// A variant in the order of its figures.
    pub const fn new(group: u32, width: u32, items: u32) -> Variant {
        Variant { group, width, items }
    }
}

/// The variant that a calibration found best, per kind; `None` is the operation's default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning(Vec<Option<Variant>>);

impl Default for Tuning {
    fn default() -> Self {
        Tuning(vec![None; Kind::COUNT])
    }
}

impl Tuning {
    /// What was found for this kind.
    pub fn get(&self, kind: Kind) -> Option<Variant> {
        self.0.get(kind.index()).copied().flatten()
    }

    /// Notes what was found.
    pub fn set(&mut self, kind: Kind, variant: Variant) {
        self.0.resize(Kind::COUNT.max(self.0.len()), None);
        if let Some(entry) = self.0.get_mut(kind.index()) {
            *entry = Some(variant);
        }
    }
}

/// The device that a plan is recorded for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// What it can do.
    pub caps: &'a Caps,
    /// What was found best on it.
    pub tuning: &'a Tuning,
}

/// Iterations of loops that every device is taken to run.
pub const LOOPS: u32 = 16_384;

impl Target<'_> {
    /// The tuned variant if it is one that the operation offers, else the operation's default.
    pub fn variant(&self, kind: Kind, offered: &[Variant]) -> Variant {
        let tuned = self.tuning.get(kind).filter(|v| offered.contains(v));
        tuned.or(offered.first().copied()).unwrap_or(Variant::PLAIN)
    }

    /// Iterations that one invocation's loops may run: what was proven, or where nobody tried, what our own kernels keep to.
    pub fn loop_iterations(&self) -> u32 {
        self.caps.loop_iterations.unwrap_or(LOOPS)
    }
}

/// The whole of an operation as a plan: its inputs are taken from the device where they are there and uploaded where not,
/// its results are downloaded, or kept as tensors if they are to stay. A guard ([`Op::guard`]) is downloaded after them in
/// any case.
pub fn plan(op: &dyn Op, target: &Target<'_>, stays: bool) -> Result<Plan, OpError> {
    let outputs = op.outputs()?;
    let mut plan = Plan::new(op.name());
    let mut slots = Vec::new();
    for tensor in op.inputs() {
        slots.push(match tensor.pieces().filter(|_| !tensor.on_device()) {
            Some(bytes) => plan.upload(bytes, tensor.spec().tag)?,
            None => plan.import(tensor),
        });
    }
    let results = op.record(&mut plan, &slots, target)?;
    for (slot, spec) in results.iter().zip(outputs) {
        if stays {
            plan.keep(*slot, spec)?;
        } else {
            plan.download(*slot)?;
        }
    }
    if let Some(guard) = op.guard().and_then(|at| results.get(at)) {
        plan.download(*guard)?;
    }
    Ok(plan)
}

/// Bytes of a tensor's numbers; more than there can be when they cannot be counted.
pub fn size(tensor: &Tensor) -> Bytes {
    tensor.spec().size().unwrap_or(Bytes(u64::MAX))
}

/// `n` groups, in two dimensions where one is not enough. A kernel finds its number as `id.y * groups.x + id.x` and must
/// check that it is below `n`: the last row may be longer than needed.
pub fn groups(op: &'static str, n: u64) -> Result<[u32; 3], OpError> {
    let most = u64::from(MAX_GROUPS) * u64::from(MAX_GROUPS);
    let y = n.div_ceil(u64::from(MAX_GROUPS)).max(1);
    let x = n.div_ceil(y).max(1);
    match (u32::try_from(x), u32::try_from(y)) {
        (Ok(x), Ok(y)) if n <= most => Ok([x, y, 1]),
        _ => Err(OpError::TooMany { op, elements: n, most }),
    }
}

/// An element count as a shader's word.
pub fn word(op: &'static str, n: u64) -> Result<u32, OpError> {
    u32::try_from(n).map_err(|_| OpError::TooMany { op, elements: n, most: u64::from(u32::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_use_a_second_dimension_when_they_must() {
        assert_eq!(groups("t", 0), Ok([1, 1, 1]));
        assert_eq!(groups("t", 65_535), Ok([65_535, 1, 1]));
        let [x, y, _] = groups("t", 65_536).unwrap();
        assert!(y == 2 && x * y >= 65_536 && x <= 65_535);
        assert!(groups("t", u64::from(MAX_GROUPS) * u64::from(MAX_GROUPS) + 1).is_err());
    }
}
