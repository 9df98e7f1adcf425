//! Conformance: jobs are independent, waits respect deadlines, validation errors are told from device loss.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_runtime::{
    engine::{Engine, EngineError, Health, Job, Opener},
    kernel::{Access, CpuReferenceError, Kernel},
    memory::BlockClass,
    plan::{Plan, PlanError},
    session::Session,
    units::Bytes,
};

use super::{DEADLINE, alive, compare, engine, job, results, same, session};
use crate::{kernels, plans};

pub(super) fn bad_shader(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    let refuse = || CpuReferenceError { kernel: "testkit-broken".to_owned(), why: "by design".to_owned() };
    let kernel = Arc::new(Kernel {
        name: "testkit-broken".into(),
        wgsl: "this is no shader".into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(move |_| Err(refuse())),
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
    results::chain(opener)?;
    let (plan, expected) = plans::chain(64, 4).map_err(|e| e.to_string())?;
    compare(&session, plan, &expected).map_err(|e| format!("the same device afterwards: {e}"))
}

pub(super) fn two_devices(opener: &dyn Opener) -> Result<(), String> {
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

fn small(engine: &dyn Engine, n: u32) -> Result<(Job, Vec<Vec<u8>>), String> {
    let (plan, expected) = plans::chain(n, 12).map_err(|e| e.to_string())?;
    Ok((job(engine, plan, Bytes::ZERO).map_err(|e| e.to_string())?, expected))
}

pub(super) fn wait_twice(opener: &dyn Opener) -> Result<(), String> {
    let engine = engine(opener)?;
    let (job, expected) = small(engine.as_ref(), 50)?;
    let ticket = engine.submit(job).map_err(|e| e.to_string())?;
    same(&engine.wait(ticket, DEADLINE).map_err(|e| e.to_string())?.outputs, &expected)?;
    match engine.wait(ticket, DEADLINE) {
        Err(EngineError::Validation { .. }) => alive(engine.as_ref()),
        other => Err(format!("{other:?}")),
    }
}

pub(super) fn any_order(opener: &dyn Opener) -> Result<(), String> {
    let engine = engine(opener)?;
    for backwards in [false, true] {
        let mut tickets = Vec::new();
        for n in [10, 2000, 300] {
            let (job, expected) = small(engine.as_ref(), n)?;
            tickets.push((n, engine.submit(job).map_err(|e| e.to_string())?, expected));
        }
        if backwards {
            tickets.reverse();
        }
        for (n, ticket, expected) in tickets {
            let done = engine.wait(ticket, DEADLINE).map_err(|e| format!("{n} items: {e}"))?;
            same(&done.outputs, &expected).map_err(|why| format!("{n} items, {backwards}: {why}"))?;
        }
    }
    alive(engine.as_ref())
}

/// The deadline in [`deadline`].
const SHORT: Duration = Duration::from_millis(200);

/// A plan of `size` times about 4 million steps.
fn long(size: u32) -> Result<Plan, PlanError> {
    // Items first, then rounds, within the loop limit of every adapter; then more dispatches.
    let n = (4096u64 * u64::from(size)).min(1 << 20) as u32;
    let rounds = (1024 * size.div_ceil(256)).min(16_384);
    let calls = size.div_ceil(256 * 16);
    let mut plan = Plan::new("long");
    let mut last = plan.upload(plans::bytes(&plans::numbers(n, 9)), "long in")?;
    for _ in 0..calls {
        let out = plan.slot(Bytes(u64::from(n) * 4), "long out");
        plan.dispatch(&kernels::spin(), &[last, out], &[n, rounds], kernels::groups(n))?;
        plan.free(last)?;
        last = out;
    }
    plan.download(last)?;
    Ok(plan)
}

/// Exceeds any deadline here, on every device.
const LONGEST: u32 = 1 << 24;

/// A plan that takes more than four times [`SHORT`], found by calibration.
fn too_long(opener: &dyn Opener) -> Result<Plan, String> {
    let session = session(opener)?;
    let mut size = 1;
    while size <= LONGEST {
        let plan = Arc::new(long(size).map_err(|e| e.to_string())?);
        let started = Instant::now();
        session.run(&plan, DEADLINE).map_err(|e| e.to_string())?;
        let took = started.elapsed();
        if took > SHORT * 4 {
            return long(size).map_err(|e| e.to_string());
        }
        let factor = (SHORT * 6).as_millis() / took.as_millis().max(1);
        size *= u32::try_from(factor).unwrap_or(8).clamp(2, 8);
    }
    Err(format!("{size} is still not enough work"))
}

/// The wait for such a plan must respect its deadline, and the device must then report that it hangs. A synchronous
/// engine has nothing left to wait for: its waits must be short all the same.
pub(super) fn deadline(opener: &dyn Opener) -> Result<(), String> {
    let plan = too_long(opener)?;
    let engine = engine(opener)?;
    let largest = plan.slots().iter().map(|slot| slot.size).max().unwrap_or(Bytes::ZERO);
    let block = || engine.create(largest, BlockClass::Storage).map_err(|e| e.to_string());
    let (one, other) = (block()?, block()?);
    // Every dispatch reads the previous slot: two alternating blocks are enough (ping-pong).
    let blocks = (0..plan.slots().len()).map(|i| if i % 2 == 0 { one } else { other }).collect();
    let ticket = engine.submit(Job { plan: Arc::new(plan), blocks }).map_err(|e| e.to_string())?;
    let started = Instant::now();
    let answer = engine.wait(ticket, SHORT);
    let took = started.elapsed();
    match answer {
        _ if took > SHORT * 2 => Err(format!("{took:?} instead of {SHORT:?}")),
        Ok(_) => Ok(()),
        Err(EngineError::DeviceHung { .. }) if engine.health() == Health::Hung => Ok(()),
        Err(other) => Err(format!("{other}, health {:?}", engine.health())),
    }
}
