//! What must every engine do? Checks by name; an engine's test calls [`run`] and asserts that nothing is wrong.

use std::{sync::Arc, time::Duration};

use forge_runtime::{
    engine::{Engine, EngineError, Health, Opener},
    kernel::{Access, Kernel},
    memory::{AllocError, BlockClass, Budget, BudgetOrigin, StackSettings},
    plan::Plan,
    session::Session,
    units::Bytes,
};

use crate::{kernels, plans};

/// One check: `Err` says what is wrong.
pub type Check = fn(&dyn Opener) -> Result<(), String>;

/// Every check.
pub const CHECKS: [(&str, Check); 7] = [
    ("sizes around a work group give the known answer", sizes),
    ("a chain of commands gives the known answer", chain),
    ("memory is shared between slots that do not overlap, and all of it comes back", memory),
    ("a block that is too large is refused, and the device lives on", too_large),
    ("a shader that does not compile is a mistake, not a loss", bad_shader),
    ("two devices run side by side", two_devices),
    ("odd byte counts survive the way there and back", odd_sizes),
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

fn session(opener: &dyn Opener) -> Result<Session, String> {
    Ok(Session::new(opener.open().map_err(|e| e.to_string())?, settings(Bytes::gib(1))))
}

fn compare(session: &Session, plan: Plan, expected: &[Vec<u8>]) -> Result<(), String> {
    let label = plan.label().to_owned();
    let done = session.run(&Arc::new(plan), DEADLINE).map_err(|e| format!("{label}: {e}"))?;
    for (i, (got, want)) in done.outputs.iter().zip(expected).enumerate() {
        if got != want {
            let at = got.iter().zip(want).position(|(g, w)| g != w);
            return Err(format!("{label}: output {i} differs at byte {at:?} of {}", want.len()));
        }
    }
    if done.outputs.len() == expected.len() {
        Ok(())
    } else {
        Err(format!("{label}: {} outputs", done.outputs.len()))
    }
}

fn sizes(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    let group = kernels::GROUP;
    for n in [1, 2, group - 1, group, group + 1, 1000, 65_535, 1 << 20] {
        let (plan, expected) = plans::chain(n, 2).map_err(|e| e.to_string())?;
        compare(&session, plan, &expected).map_err(|e| format!("{n} items: {e}"))?;
    }
    Ok(())
}

fn chain(opener: &dyn Opener) -> Result<(), String> {
    let (plan, expected) = plans::chain(257, 80).map_err(|e| e.to_string())?;
    compare(&session(opener)?, plan, &expected)
}

fn memory(opener: &dyn Opener) -> Result<(), String> {
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

fn too_large(opener: &dyn Opener) -> Result<(), String> {
    let engine = opener.open().map_err(|e| e.to_string())?;
    let asked = engine.caps().largest_block + Bytes(4);
    if asked.0 < u64::MAX / 2 {
        match engine.create(asked, BlockClass::Storage) {
            Err(EngineError::Memory(AllocError::TooLarge { .. } | AllocError::OutOfMemory { .. })) => {}
            other => return Err(format!("{other:?}")),
        }
    }
    alive(engine.as_ref())
}

fn alive(engine: &dyn Engine) -> Result<(), String> {
    let block = engine.create(Bytes(256), BlockClass::Storage).map_err(|e| format!("afterwards: {e}"))?;
    engine.destroy(block);
    if engine.health() == Health::Good { Ok(()) } else { Err(format!("{:?}", engine.health())) }
}

fn bad_shader(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    let kernel = Arc::new(Kernel {
        name: "testkit-broken".into(),
        wgsl: "this is no shader".into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        twin: Arc::new(|_| {
            Err(forge_runtime::kernel::TwinError {
                kernel: "testkit-broken".to_owned(),
                why: "by design".to_owned(),
            })
        }),
    });
    let mut plan = Plan::new("broken");
    let build = |plan: &mut Plan| {
        let a = plan.upload(vec![0; 16], "a")?;
        let b = plan.slot(Bytes(16), "b");
        plan.dispatch(&kernel, &[a, b], &[], [1, 1, 1])?;
        plan.download(b)
    };
    build(&mut plan).map_err(|e| e.to_string())?;
    match session.run(&Arc::new(plan), DEADLINE) {
        Err(EngineError::Validation { .. }) => {}
        other => return Err(format!("{other:?}")),
    }
    chain(opener)?;
    let (plan, expected) = plans::chain(64, 4).map_err(|e| e.to_string())?;
    compare(&session, plan, &expected).map_err(|e| format!("the same device afterwards: {e}"))
}

fn two_devices(opener: &dyn Opener) -> Result<(), String> {
    let (one, two) = (session(opener)?, session(opener)?);
    let work = |session: &Session| {
        let (plan, expected) = plans::chain(10_000, 20).map_err(|e| e.to_string())?;
        compare(session, plan, &expected)
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| work(&one));
        let second = work(&two);
        first.join().map_err(|_| "a thread panicked".to_owned())?.and(second)
    })
}

fn odd_sizes(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    for n in [1usize, 3, 5, 7, 9, 4095] {
        let data: Vec<u8> = (0..n).map(|i| (i * 7 + 1) as u8).collect();
        let mut plan = Plan::new("odd");
        let record = |plan: &mut Plan| {
            let a = plan.upload(data.clone(), "odd")?;
            let b = plan.copy(a, "odd copy")?;
            plan.download(b)
        };
        record(&mut plan).map_err(|e| e.to_string())?;
        let mut expected = data;
        expected.resize(n.max(4).next_multiple_of(4), 0);
        compare(&session, plan, &[expected]).map_err(|e| format!("{n} bytes: {e}"))?;
    }
    Ok(())
}
