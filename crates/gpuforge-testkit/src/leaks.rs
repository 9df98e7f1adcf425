//! Leak check: opens, uses and closes a device repeatedly, and reports memory and handles that were not freed.

use std::sync::Arc;

use gpuforge_runtime::{engine::Opener, session::Session, units::Bytes};

use crate::{conformance, plans};

/// `rounds` times: open, run twice, free everything, close. `Err` names the leak.
pub fn check(opener: &dyn Opener, rounds: u32) -> Result<(), String> {
    for round in 0..rounds {
        once(opener).map_err(|why| format!("round {round}: {why}"))?;
    }
    Ok(())
}

fn once(opener: &dyn Opener) -> Result<(), String> {
    let engine = opener.open().map_err(|e| e.to_string())?;
    let closed = Arc::downgrade(&engine);
    let session = Session::new(engine, conformance::settings(Bytes::mib(64)));
    for (n, rounds) in [(100, 12), (5000, 5)] {
        let (plan, expected) = plans::chain(n, rounds).map_err(|e| e.to_string())?;
        let done = session.run(&Arc::new(plan), conformance::DEADLINE).map_err(|e| e.to_string())?;
        if done.outputs != expected {
            return Err("wrong result".to_owned());
        }
    }
    no_memory_held(&session)?;
    drop(session);
    match closed.strong_count() {
        0 => Ok(()),
        n => Err(format!("the closed device is still held {n} times")),
    }
}

/// No memory is in use, and after a trim the pool holds none either: in bytes and in blocks, above and below the pool.
pub fn no_memory_held(session: &Session) -> Result<(), String> {
    session.memory().trim(Bytes::ZERO);
    let stats = session.memory().stats();
    let views = [("users hold", &stats.users), ("the device holds", &stats.device)];
    match views.iter().find(|(_, view)| view.live != Bytes::ZERO || view.live_blocks != 0) {
        Some((who, view)) => Err(format!("{who} {} in {} blocks", view.live, view.live_blocks)),
        None if stats.limit.used != Bytes::ZERO => Err(format!("{} are still reserved", stats.limit.used)),
        None => Ok(()),
    }
}
