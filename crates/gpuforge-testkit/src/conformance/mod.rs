//! What must every engine do? Checks by name; an engine's test calls [`run`] and asserts that nothing is wrong.

use std::{sync::Arc, time::Duration};

use gpuforge_runtime::{
    engine::{BlockId, Engine, EngineError, Health, Job, Opener},
    memory::{BlockClass, Budget, BudgetOrigin, StackSettings},
    plan::Plan,
    session::Session,
    units::Bytes,
};

mod blocks;
mod jobs;
mod results;

/// One check: `Err` says what is wrong.
pub type Check = fn(&dyn Opener) -> Result<(), String>;

/// Every check. The last one gives its device up, which may keep the machine busy for a while.
pub const CHECKS: &[(&str, Check)] = &[
    ("sizes around a work group give the known answer", results::sizes),
    ("a chain of commands gives the known answer", results::chain),
    ("more than 1000 kernel calls in one plan give the known answer", results::many_calls),
    ("more groups than one dimension holds are all run", results::many_groups),
    ("odd byte counts survive the way there and back", results::odd_sizes),
    ("what is uploaded comes back without any kernel", results::there_and_back),
    ("a chain of copies keeps every byte", results::copies),
    ("a plan with nothing in it ends at once with nothing", results::empty),
    ("a plan gives the same result when it is run again", results::again),
    ("memory is shared between slots that do not overlap, and all of it comes back", blocks::memory),
    ("a block that is too large is refused, and the device lives on", blocks::too_large),
    ("a block that is larger than its slot changes nothing", blocks::roomy),
    ("a job whose blocks are gone is a mistake, not a loss", blocks::destroyed),
    ("pressure is told as memory fills and empties", blocks::pressure),
    ("a device that was opened, used and closed leaves nothing behind", blocks::leaks),
    ("a shader that does not compile is a mistake, not a loss", jobs::bad_shader),
    ("two devices run side by side", jobs::two_devices),
    ("a job can be waited for once; a second time is a mistake", jobs::wait_twice),
    ("results do not depend on the order of waiting", jobs::any_order),
    ("a wait ends within twice its deadline", jobs::deadline),
];

/// Runs every check; returns what is wrong.
pub fn run(opener: &dyn Opener) -> Vec<String> {
    CHECKS
        .iter()
        .filter_map(|(name, check)| check(opener).err().map(|why| format!("{name}: {why}")))
        .collect()
}

/// Ample time on a slow machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A stack over `limit` bytes.
pub fn settings(limit: Bytes) -> StackSettings {
    StackSettings::new(Budget { bytes: limit, origin: BudgetOrigin::User })
}

fn engine(opener: &dyn Opener) -> Result<Arc<dyn Engine>, String> {
    opener.open().map_err(|e| e.to_string())
}

fn session(opener: &dyn Opener) -> Result<Session, String> {
    Ok(Session::new(engine(opener)?, settings(Bytes::gib(1))))
}

/// Runs a plan and compares what it brings.
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

/// A job with a block of its own for every slot, each `extra` bytes larger than it must be.
fn job(engine: &dyn Engine, plan: Plan, extra: Bytes) -> Result<Job, EngineError> {
    let create = |size: Bytes| engine.create(size + extra, BlockClass::Storage);
    let blocks: Vec<BlockId> = plan.slots().iter().map(|slot| create(slot.size)).collect::<Result<_, _>>()?;
    Ok(Job { plan: Arc::new(plan), blocks })
}

/// The device still gives blocks and says that it is well.
fn alive(engine: &dyn Engine) -> Result<(), String> {
    let block = engine.create(Bytes(256), BlockClass::Storage).map_err(|e| format!("afterwards: {e}"))?;
    engine.destroy(block);
    if engine.health() == Health::Good { Ok(()) } else { Err(format!("{:?}", engine.health())) }
}
