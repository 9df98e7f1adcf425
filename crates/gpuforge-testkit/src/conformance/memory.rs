//! Conformance: memory is allocated, refused, shared and freed correctly; pressure events; no leaks.

use std::sync::{Arc, Mutex, PoisonError};

use gpuforge_runtime::{
    engine::{EngineError, Opener},
    memory::{AllocError, AllocRequest, BlockClass, Pressure, PressureEvent, Tag},
    session::Session,
    units::Bytes,
};

use super::{DEADLINE, alive, compare, engine, job, same, session, settings};
use crate::plans;

pub(super) fn slots_share_memory(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    for _ in 0..3 {
        let (plan, expected) = plans::chain(4096, 60).map_err(|e| e.to_string())?;
        let (slots, peak) = (plan.slots().len(), plan.cost().peak);
        compare(&session, plan, &expected)?;
        let stats = session.memory().stats();
        if stats.users.live.0 != 0 {
            return Err(format!("{} are still in use", stats.users.live));
        }
        if stats.device.peak > Bytes(peak.0 * 2) {
            return Err(format!(
                "{} on the device for {slots} slots with a peak of {peak}",
                stats.device.peak
            ));
        }
    }
    Ok(())
}

pub(super) fn too_large(opener: &dyn Opener) -> Result<(), String> {
    let engine = engine(opener)?;
    let asked = engine.caps().largest_block + Bytes(4);
    if asked.0 < u64::MAX / 2 {
        match engine.create(asked, BlockClass::Storage) {
            Err(EngineError::Memory(AllocError::TooLarge { .. } | AllocError::OutOfMemory { .. })) => {}
            other => return Err(format!("{other:?}")),
        }
    }
    alive(engine.as_ref())
}

pub(super) fn oversized_block(opener: &dyn Opener) -> Result<(), String> {
    let engine = engine(opener)?;
    for extra in [4, 256, 65_536] {
        let (plan, expected) = plans::chain(100, 12).map_err(|e| e.to_string())?;
        let job = job(engine.as_ref(), plan, Bytes(extra)).map_err(|e| e.to_string())?;
        let blocks = job.blocks.clone();
        let ticket = engine.submit(job).map_err(|e| e.to_string())?;
        let done = engine.wait(ticket, DEADLINE).map_err(|e| e.to_string())?;
        same(&done.outputs, &expected).map_err(|why| format!("{extra} bytes more: {why}"))?;
        blocks.into_iter().for_each(|block| engine.destroy(block));
    }
    alive(engine.as_ref())
}

pub(super) fn destroyed_block(opener: &dyn Opener) -> Result<(), String> {
    let engine = engine(opener)?;
    let (plan, _) = plans::chain(100, 4).map_err(|e| e.to_string())?;
    let job = job(engine.as_ref(), plan, Bytes::ZERO).map_err(|e| e.to_string())?;
    for block in &job.blocks {
        engine.destroy(*block);
        // Double free: no effect.
        engine.destroy(*block);
    }
    match engine.submit(job).and_then(|ticket| engine.wait(ticket, DEADLINE)) {
        Err(EngineError::Validation { .. }) => alive(engine.as_ref()),
        other => Err(format!("{other:?}")),
    }
}

pub(super) fn pressure(opener: &dyn Opener) -> Result<(), String> {
    let engine = engine(opener)?;
    let session = Session::new(engine.clone(), settings(Bytes::mib(16) + engine.reserved()));
    let heard: Arc<Mutex<Vec<PressureEvent>>> = Arc::default();
    let sink = heard.clone();
    let events = || heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    session.memory().subscribe(move |event| sink.lock().unwrap_or_else(PoisonError::into_inner).push(*event));
    let request = AllocRequest { size: Bytes::mib(1), tag: Tag("pressure"), class: BlockClass::Storage };
    let allocate = |_| session.memory().allocate(request);
    let grants = (0..15).map(allocate).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let level = |event: Option<&PressureEvent>| event.map(|e| e.to);
    let full = events();
    grants.into_iter().for_each(|grant| session.memory().release(grant));
    session.memory().trim(Bytes::ZERO);
    let all = events();
    let contiguous = all.iter().zip(all.iter().skip(1)).all(|(one, next)| one.to == next.from);
    match (level(full.last()), level(all.last()), contiguous) {
        (Some(Pressure::Critical), Some(Pressure::Low), true) => crate::leaks::no_memory_held(&session),
        other => Err(format!("full, empty, contiguous: {other:?} in {all:?}")),
    }
}

pub(super) fn leaks(opener: &dyn Opener) -> Result<(), String> {
    crate::leaks::check(opener, 4)
}
