//! Our side of `bench first-result`: the same small kernel as the wgpu peer, through the runtime's public API.
//!
//! Prints the sum. `--jobs N` runs it N times on one open device and prints the milliseconds of each after the first;
//! `--pipeline-cache DIR` keeps compiled pipelines there; `--phases` prints start-up phases to stderr.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a binary: printing is its job")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use gpuforge_runtime::{
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
        cpu_reference: Arc::new(|call| {
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

fn once(runner: &Runner, kernel: &Arc<Kernel>) -> Result<u32> {
    let outcome = runner.run(plan(kernel)?)?;
    let output = outcome.chunks.first().and_then(|p| p.outputs.first()).context("no output")?;
    Ok(words(output).fold(0u32, u32::wrapping_add))
}

fn main() -> Result<()> {
    let mut opener = GpuOpener::default();
    let (mut jobs, mut phases) = (1, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--jobs" => jobs = args.next().context("--jobs N")?.parse()?,
            "--pipeline-cache" => {
                opener.pipeline_cache_dir = Some(args.next().context("--pipeline-cache DIR")?.into());
            }
            "--phases" => phases = true,
            other => anyhow::bail!("unknown argument {other:?}"),
        }
    }
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let deadline = Duration::from_secs(60);
    let settings = RunnerSettings { deadline, cpu_fallback: false, ..RunnerSettings::new(memory) };
    let runner = Runner::new(Box::new(opener), settings);
    let kernel = kernel();
    for job in 0..jobs {
        let started = Instant::now();
        let sum = once(&runner, &kernel)?;
        match job {
            0 => println!("{sum}"),
            _ => println!("{}", started.elapsed().as_secs_f64() * 1e3),
        }
        if phases {
            eprintln!("job {job}: {:?}", started.elapsed());
        }
    }
    if let (true, Some(init)) = (phases, runner.session().as_ref().and_then(|s| s.init())) {
        for phase in &init.phases {
            eprintln!("{:>8.3} ms {:>8.3} ms  {}", ms(phase.began), ms(phase.took), phase.name);
        }
        eprintln!("{:>20.3} ms  total, overlap {:.2}", ms(init.total), init.overlap().unwrap_or(1.0));
        init.warnings.iter().for_each(|w| eprintln!("{w}"));
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
