//! Loop limit probe: how many loop iterations really run on this device? Software adapters truncate long loops and
//! report success.

use std::{sync::Arc, time::Duration};

use super::GpuEngine;
use crate::{
    engine::{BlockId, Engine as _, EngineError, Job},
    kernel::{Access, CpuReferenceError, Kernel, KernelCall, put_words, words},
    memory::BlockClass,
    plan::{Plan, PlanError},
    units::Bytes,
};

/// Trip counts that are probed, each by its own invocation. Our kernels rely on the second.
const LENGTHS: [u32; 6] = [1 << 10, 1 << 14, 65_535, 1 << 16, 1 << 18, 1 << 20];
/// A million steps take milliseconds; a device that needs longer is not worth waiting for.
const DEADLINE: Duration = Duration::from_secs(20);

/// One step of a recurrence (LCG) that no compiler can shorten.
fn step(state: u32) -> u32 {
    state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
}

const WGSL: &str = "
struct Params { v: array<vec4<u32>, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> lengths: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>) {
    let n = lengths[id.x];
    var state = p.v[0].x;
    for (var i = 0u; i < n; i++) { state = state * 1664525u + 1013904223u; }
    out[id.x] = state;
}
";

fn kernel() -> Arc<Kernel> {
    let cpu_reference = |call: &mut KernelCall<'_>| -> Result<(), CpuReferenceError> {
        let seed = call.params.first().copied().unwrap_or(0);
        if let ([lengths], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
            put_words(out, words(lengths).map(|n| (0..n).fold(seed, |state, _| step(state))));
        }
        Ok(())
    };
    Arc::new(Kernel {
        name: "gpuforge-loops".into(),
        wgsl: WGSL.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(cpu_reference),
    })
}

fn plan(seed: u32) -> Result<Plan, PlanError> {
    let mut plan = Plan::new("loop probe");
    let bytes: Vec<u8> = LENGTHS.iter().flat_map(|n| n.to_le_bytes()).collect();
    let out = Bytes(bytes.len() as u64);
    let lengths = plan.upload(bytes, "loop probe")?;
    let out = plan.slot(out, "loop probe");
    plan.dispatch(&kernel(), &[lengths, out], &[seed], [LENGTHS.len() as u32, 1, 1])?;
    plan.download(out)?;
    Ok(plan)
}

/// The largest trip count whose result is right, with all smaller ones; 0 when none is. Pure.
fn verified(seed: u32, states: &[u8]) -> u32 {
    let mut state = seed;
    let mut done = 0;
    let mut longest = 0;
    for (length, got) in LENGTHS.iter().zip(words(states)) {
        state = (done..*length).fold(state, |state, _| step(state));
        done = *length;
        if state != got {
            break;
        }
        longest = *length;
    }
    longest
}

/// Runs the probe.
pub(super) fn probe(gpu: &GpuEngine) -> Result<u32, EngineError> {
    let seed = 0x9e37_79b9;
    let plan = plan(seed).map_err(|e| EngineError::Validation { reason: e.to_string() })?;
    let mut blocks: Vec<BlockId> = Vec::new();
    let made = plan.slots().iter().try_for_each(|slot| {
        blocks.push(gpu.create(slot.size, BlockClass::Storage)?);
        Ok(())
    });
    let ran = made.and_then(|()| {
        let ticket = gpu.submit(Job { plan: Arc::new(plan), blocks: blocks.clone() })?;
        gpu.wait(ticket, DEADLINE)
    });
    for block in blocks {
        gpu.destroy(block);
    }
    Ok(verified(seed, ran?.outputs.first().map_or(&[], Vec::as_slice)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::reference;

    #[test]
    fn truncated_loop_is_detected() {
        let plan = plan(7).unwrap();
        let whole = reference::run(&plan).unwrap().outputs.remove(0);
        assert_eq!(verified(7, &whole), 1 << 20);
        // A device that ends every loop after 65 535 iterations.
        let cut = |n: u32| (0..n.min(65_535)).fold(7, |state, _| step(state));
        let short: Vec<u8> = LENGTHS.iter().flat_map(|n| cut(*n).to_le_bytes()).collect();
        assert_eq!(verified(7, &short), 65_535);
        assert_eq!(verified(7, &[0; 24]), 0);
        assert_eq!(verified(7, &[]), 0);
    }
}
