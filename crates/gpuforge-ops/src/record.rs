//! Recording for devices: kernel variants and tuning, workgroup grids in two dimensions, an operation as a whole plan.

use gpuforge_runtime::{
    engine::Caps,
    plan::{MAX_GROUPS, Plan},
    tensor::Tensor,
    units::Bytes,
};
use serde::{Deserialize, Serialize};

use crate::{Op, OpError, OpKind};

/// A kernel variant (auto-tuning point). What the figures mean is up to the operation; calibration only tries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Workgroup size.
    pub group: u32,
    /// Vector width of loads: 1 or 4.
    pub width: u32,
    /// Items per invocation.
    pub items: u32,
}

impl Variant {
    /// Workgroup of 64, scalar loads, one item per invocation.
    pub const PLAIN: Variant = Variant { group: 64, width: 1, items: 1 };

    /// A variant from workgroup size, vector width and items per invocation.
    pub const fn new(group: u32, width: u32, items: u32) -> Variant {
        Variant { group, width, items }
    }
}

/// Auto-tuning result: the fastest variant per kind; `None` is the operation's default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning(Vec<Option<Variant>>);

impl Default for Tuning {
    fn default() -> Self {
        Tuning(vec![None; OpKind::COUNT])
    }
}

impl Tuning {
    /// The tuned variant of this kind.
    pub fn get(&self, kind: OpKind) -> Option<Variant> {
        self.0.get(kind.index()).copied().flatten()
    }

    /// Sets the tuned variant of a kind.
    pub fn set(&mut self, kind: OpKind, variant: Variant) {
        self.0.resize(OpKind::COUNT.max(self.0.len()), None);
        if let Some(entry) = self.0.get_mut(kind.index()) {
            *entry = Some(variant);
        }
    }
}

/// The device that a plan is recorded for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Device capabilities.
    pub caps: &'a Caps,
    /// Tuned kernel variants.
    pub tuning: &'a Tuning,
}

/// Loop iterations that every device is assumed to run.
pub const DEFAULT_LOOP_ITERATIONS: u32 = 16_384;

impl Target<'_> {
    /// The tuned variant if it is one that the operation offers, else the operation's default.
    pub fn variant(&self, kind: OpKind, offered: &[Variant]) -> Variant {
        let tuned = self.tuning.get(kind).filter(|v| offered.contains(v));
        tuned.or(offered.first().copied()).unwrap_or(Variant::PLAIN)
    }

    /// Loop iterations per invocation: the probed limit, or the default that our own kernels respect.
    pub fn loop_iterations(&self) -> u32 {
        self.caps.loop_iterations.unwrap_or(DEFAULT_LOOP_ITERATIONS)
    }
}

/// An operation as a complete plan: inputs are imported where resident on the device and uploaded otherwise; results are
/// downloaded, or kept as tensors. A guard ([`Op::guard`]) is always downloaded, after the results.
pub fn plan(op: &dyn Op, target: &Target<'_>, keep_on_device: bool) -> Result<Plan, OpError> {
    let outputs = op.outputs()?;
    let mut plan = Plan::new(op.name());
    let mut slots = Vec::new();
    for tensor in op.inputs() {
        slots.push(match tensor.host_chunks().filter(|_| !tensor.on_device()) {
            Some(bytes) => plan.upload(bytes, tensor.spec().tag)?,
            None => plan.import(tensor),
        });
    }
    let results = op.record(&mut plan, &slots, target)?;
    for (slot, spec) in results.iter().zip(outputs) {
        if keep_on_device {
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

/// Size of a tensor in bytes; saturates when it overflows.
pub fn size(tensor: &Tensor) -> Bytes {
    tensor.spec().size().unwrap_or(Bytes(u64::MAX))
}

/// Workgroup grid for `n` groups, in two dimensions where one is not enough. A kernel computes its group as
/// `id.y * groups.x + id.x` and must check that it is below `n`: the last row may be padded.
pub fn groups(op: &'static str, n: u64) -> Result<[u32; 3], OpError> {
    let most = u64::from(MAX_GROUPS) * u64::from(MAX_GROUPS);
    let y = n.div_ceil(u64::from(MAX_GROUPS)).max(1);
    let x = n.div_ceil(y).max(1);
    match (u32::try_from(x), u32::try_from(y)) {
        (Ok(x), Ok(y)) if n <= most => Ok([x, y, 1]),
        _ => Err(OpError::TooMany { op, elements: n, most }),
    }
}

/// A count as `u32`, as shaders need it.
pub fn word(op: &'static str, n: u64) -> Result<u32, OpError> {
    u32::try_from(n).map_err(|_| OpError::TooMany { op, elements: n, most: u64::from(u32::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroup_grid_uses_a_second_dimension_when_needed() {
        assert_eq!(groups("t", 0), Ok([1, 1, 1]));
        assert_eq!(groups("t", 65_535), Ok([65_535, 1, 1]));
        let [x, y, _] = groups("t", 65_536).unwrap();
        assert!(y == 2 && x * y >= 65_536 && x <= 65_535);
        assert!(groups("t", u64::from(MAX_GROUPS) * u64::from(MAX_GROUPS) + 1).is_err());
    }
}
