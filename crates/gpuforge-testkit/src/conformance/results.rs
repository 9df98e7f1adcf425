//! Conformance: results equal the known answers, for all sizes, copies, round trips and replays.

use std::sync::Arc;

use gpuforge_runtime::{
    engine::Opener,
    plan::{MAX_GROUPS, Plan, PlanError},
};

use super::{DEADLINE, compare, same, session};
use crate::{kernels, plans};

pub(super) fn sizes(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    let group = kernels::GROUP;
    for n in [1, 2, group - 1, group, group + 1, 1000, 65_535, 1 << 20] {
        let (plan, expected) = plans::chain(n, 2).map_err(|e| e.to_string())?;
        compare(&session, plan, &expected).map_err(|e| format!("{n} items: {e}"))?;
    }
    Ok(())
}

pub(super) fn chain(opener: &dyn Opener) -> Result<(), String> {
    let (plan, expected) = plans::chain(257, 80).map_err(|e| e.to_string())?;
    compare(&session(opener)?, plan, &expected)
}

pub(super) fn many_calls(opener: &dyn Opener) -> Result<(), String> {
    let (plan, expected) = plans::chain(65, 1200).map_err(|e| e.to_string())?;
    let calls = plan.cost().dispatches;
    if calls <= 1000 {
        return Err(format!("only {calls} calls"));
    }
    compare(&session(opener)?, plan, &expected)
}

pub(super) fn many_groups(opener: &dyn Opener) -> Result<(), String> {
    // One workgroup more than fits the first dimension, with one item in it.
    let n = MAX_GROUPS * kernels::GROUP + 1;
    let [x, y, _] = kernels::groups(n);
    if y < 2 || u64::from(x) * u64::from(y) <= u64::from(MAX_GROUPS) {
        return Err(format!("{x} × {y} groups need no second dimension"));
    }
    let (plan, expected) = plans::chain(n, 1).map_err(|e| e.to_string())?;
    compare(&session(opener)?, plan, &expected)
}

pub(super) fn odd_sizes(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    for n in [1usize, 3, 5, 7, 9, 4095] {
        let data: Vec<u8> = (0..n).map(|i| (i * 7 + 1) as u8).collect();
        let plan = record("odd", |plan| {
            let a = plan.upload(data.clone(), "odd")?;
            let b = plan.copy(a, "odd copy")?;
            plan.download(b)
        })?;
        let mut expected = data;
        expected.resize(n.max(4).next_multiple_of(4), 0);
        compare(&session, plan, &[expected]).map_err(|e| format!("{n} bytes: {e}"))?;
    }
    Ok(())
}

/// A plan, or why it cannot be recorded.
fn record<T>(label: &str, build: impl FnOnce(&mut Plan) -> Result<T, PlanError>) -> Result<Plan, String> {
    let mut plan = Plan::new(label);
    build(&mut plan).map_err(|e| e.to_string())?;
    Ok(plan)
}

pub(super) fn round_trip(opener: &dyn Opener) -> Result<(), String> {
    let data: Vec<Vec<u8>> = (1..20).map(|i| plans::bytes(&plans::numbers(i * i * 50, i))).collect();
    let plan = record("round trip", |plan| {
        // All uploads before the first download, and the first slot once more at the end.
        let slots = data.iter().map(|d| plan.upload(d.clone(), "there")).collect::<Result<Vec<_>, _>>()?;
        for slot in slots.iter().chain(slots.first()) {
            plan.download(*slot)?;
        }
        Ok(())
    })?;
    let expected: Vec<Vec<u8>> = data.iter().chain(data.first()).cloned().collect();
    compare(&session(opener)?, plan, &expected)
}

pub(super) fn copies(opener: &dyn Opener) -> Result<(), String> {
    let data = plans::bytes(&plans::numbers(3001, 4));
    let plan = record("copies", |plan| {
        let mut last = plan.upload(data.clone(), "copied")?;
        for _ in 0..64 {
            let next = plan.copy(last, "copied")?;
            plan.free(last)?;
            last = next;
        }
        plan.download(last)
    })?;
    compare(&session(opener)?, plan, &[data])
}

pub(super) fn empty_plan(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    compare(&session, Plan::new("empty"), &[])?;
    let (plan, expected) = plans::chain(64, 4).map_err(|e| e.to_string())?;
    compare(&session, plan, &expected).map_err(|e| format!("afterwards: {e}"))
}

pub(super) fn rerun(opener: &dyn Opener) -> Result<(), String> {
    let session = session(opener)?;
    let (plan, expected) = plans::chain(777, 25).map_err(|e| e.to_string())?;
    let plan = Arc::new(plan);
    for time in 1..=3 {
        let done = session.run(&plan, DEADLINE).map_err(|e| format!("time {time}: {e}"))?;
        same(&done.outputs, &expected).map_err(|e| format!("time {time}: {e}"))?;
    }
    Ok(())
}
