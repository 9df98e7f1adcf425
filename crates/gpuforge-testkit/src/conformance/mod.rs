//! Engine conformance suite: named checks; an engine's test calls [`run`] and asserts that nothing failed.

use std::{sync::Arc, time::Duration};

use gpuforge_runtime::{
    engine::{BlockId, Engine, EngineError, Health, Job, Opener},
    memory::{BlockClass, Budget, BudgetOrigin, StackSettings},
    plan::Plan,
    session::Session,
    units::Bytes,
};

mod jobs;
mod memory;
mod results;

/// One check; `Err` is the failure.
pub type ConformanceCheck = fn(&dyn Opener) -> Result<(), String>;

/// All checks. The last one abandons its device, which may keep the machine busy for a while.
pub const CHECKS: &[(&str, ConformanceCheck)] = &[
    ("sizes around a workgroup give the known answer", results::sizes),
    ("a chain of commands gives the known answer", results::chain),
    ("more than 1000 dispatches in one plan give the known answer", results::many_calls),
    ("more workgroups than fit one dimension all run", results::many_groups),
    ("odd byte counts survive the round trip", results::odd_sizes),
    ("uploads are downloaded unchanged without any kernel", results::round_trip),
    ("a chain of copies keeps every byte", results::copies),
    ("an empty plan completes without outputs", results::empty_plan),
    ("replaying a plan gives the same result", results::rerun),
    ("slots with disjoint lifetimes share memory, and all of it is freed", memory::slots_share_memory),
    ("an allocation that is too large fails, and the device stays usable", memory::too_large),
    ("a block larger than its slot gives the same result", memory::oversized_block),
    ("a job with destroyed blocks is a validation error, not a device loss", memory::destroyed_block),
    ("pressure events follow memory usage up and down", memory::pressure),
    ("a device that was opened, used and closed leaks nothing", memory::leaks),
    ("a shader that does not compile is a validation error, not a device loss", jobs::bad_shader),
    ("two devices run concurrently", jobs::two_devices),
    ("waiting for a job a second time is a validation error", jobs::wait_twice),
    ("results do not depend on the order of waits", jobs::any_order),
    ("a wait ends within twice its deadline", jobs::deadline),
];

/// Runs every check; returns the failures.
pub fn run(opener: &dyn Opener) -> Vec<String> {
    CHECKS
        .iter()
        .filter_map(|(name, check)| check(opener).err().map(|why| format!("{name}: {why}")))
        .collect()
}

/// Generous deadline for a slow machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Stack settings with a limit of `limit` bytes.
pub fn settings(limit: Bytes) -> StackSettings {
    StackSettings::new(Budget { bytes: limit, origin: BudgetOrigin::User })
}

fn engine(opener: &dyn Opener) -> Result<Arc<dyn Engine>, String> {
    opener.open().map_err(|e| e.to_string())
}

fn session(opener: &dyn Opener) -> Result<Session, String> {
    Ok(Session::new(engine(opener)?, settings(Bytes::gib(1))))
}

/// Runs a plan and compares its outputs.
fn compare(session: &Session, plan: Plan, expected: &[Vec<u8>]) -> Result<(), String> {
    let label = plan.label().to_owned();
    let done = session.run(&Arc::new(plan), DEADLINE).map_err(|e| format!("{label}: {e}"))?;
    same(&done.outputs, expected).map_err(|why| format!("{label}: {why}"))
}

fn same(outputs: &[Vec<u8>], expected: &[Vec<u8>]) -> Result<(), String> {
    if outputs.len() != expected.len() {
        return Err(format!("{} outputs of {}", outputs.len(), expected.len()));
    }
    match outputs.iter().zip(expected).enumerate().find(|(_, (got, want))| got != want) {
        None => Ok(()),
        Some((i, (got, want))) if got.len() != want.len() => {
            Err(format!("output {i} has {} bytes of {}", got.len(), want.len()))
        }
        Some((i, (got, want))) => {
            let at = got.iter().zip(want).position(|(g, w)| g != w);
            Err(format!("output {i} differs at byte {at:?} of {}", want.len()))
        }
    }
}

/// A job with a separate block for every slot, each `extra` bytes larger than necessary.
fn job(engine: &dyn Engine, plan: Plan, extra: Bytes) -> Result<Job, EngineError> {
    let create = |size: Bytes| engine.create(size + extra, BlockClass::Storage);
    let blocks: Vec<BlockId> = plan.slots().iter().map(|slot| create(slot.size)).collect::<Result<_, _>>()?;
    Ok(Job { plan: Arc::new(plan), blocks })
}

/// The device still allocates and reports good health.
fn alive(engine: &dyn Engine) -> Result<(), String> {
    let block = engine.create(Bytes(256), BlockClass::Storage).map_err(|e| format!("afterwards: {e}"))?;
    engine.destroy(block);
    if engine.health() == Health::Good { Ok(()) } else { Err(format!("{:?}", engine.health())) }
}
