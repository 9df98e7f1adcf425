//! Memory bandwidth of element-wise expressions: on the CPU beside `memcpy`, on the device beside the best of six copy
//! kernels, interleaved, on the same buffers.
//!
//! The expression is `a*2 + 1`: it reads and writes as many bytes as a copy. `a*b + c` moves twice as many, so that its peer
//! is two copies.

use std::{hint::black_box, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use gpuforge_ops::{Expr, Map, Op, Target, Threads, Tuning, map};
use gpuforge_runtime::{
    engine::{Opener as _, gpu::GpuOpener},
    kernel::{Access, Kernel, floats},
    memory::{Budget, BudgetOrigin, StackSettings},
    plan::Plan,
    session::Session,
    tensor::Tensor,
    units::Bytes,
};

use crate::{
    measure::{Sample, median, ms},
    row::Row,
};

const BENCH: &str = "elementwise";
const DEADLINE: Duration = Duration::from_secs(60);
/// Bytes per buffer, repetitions per round, rounds, and the smallest acceptable fraction of memcpy's throughput.
const SIZES: [(&str, usize, usize, usize, f64); 3] = [
    ("128 MiB", 128 << 20, 1, 15, 0.8),
    ("4 MiB", 4 << 20, 8, 41, 0.5),
    ("256 KiB", 256 << 10, 100, 41, 0.5),
];
/// Elements on the device: 64 MiB, more than caches hold and half of what every binding may have.
const DEVICE_ELEMENTS: usize = 1 << 24;
const DEVICE_ROUNDS: usize = 11;
/// Smallest acceptable fraction of the best copy kernel's throughput.
const DEVICE_SHARE: f64 = 0.7;

pub(crate) fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, bytes, repeats, rounds, share) in SIZES {
        rows.extend(on_cpu(name, bytes / 4, repeats, rounds, share)?);
    }
    rows.extend(on_device()?);
    Ok(rows)
}

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + seed) % 251) as f32).collect()
}

fn op(text: &str, inputs: &[&Tensor]) -> Result<Map> {
    Ok(map(&Expr::parse(text, &["a", "b", "c"])?, inputs))
}

fn on_cpu(name: &str, n: usize, repeats: usize, rounds: usize, share: f64) -> Result<Vec<Row>> {
    let tensors = (0..3)
        .map(|seed| Tensor::from_floats(&numbers(n, seed), &[n], BENCH))
        .collect::<Result<Vec<_>, _>>()?;
    let [a, b, c] = tensors.as_slice() else { return Ok(Vec::new()) };
    let ops = [op("a*2 + 1", &[a])?, op("a*b + c", &[a, b, c])?];
    let held: Vec<Arc<[u8]>> = tensors.iter().filter_map(Tensor::host).collect();
    let bytes: Vec<&[u8]> = held.iter().map(AsRef::as_ref).collect();
    let mut out = vec![1u8; n * 4];
    let (mut ours, mut copies) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..=rounds {
        let mut took = [0.0; 2];
        for ((op, inputs), took) in ops.iter().zip([1, 3]).zip(&mut took) {
            let inputs = bytes.get(..inputs).unwrap_or_default();
            *took = ms(|| {
                for _ in 0..repeats {
                    op.cpu(black_box(inputs), &mut [&mut out], Threads::ONE)?;
                }
                Ok(())
            })?;
        }
        let copied = ms(|| {
            for _ in 0..repeats {
                out.copy_from_slice(black_box(bytes.first().copied().unwrap_or_default()));
                black_box(&out);
            }
            Ok(())
        })?;
        // The first round is warm-up.
        if round > 0 {
            for (ours, took) in ours.iter_mut().zip(took) {
                ours.push(took / repeats as f64);
            }
            copies.push(copied / repeats as f64);
        }
    }
    let [simple, three] = ours.map(|times| Sample::of(&times));
    let copy = Sample::of(&copies);
    let twice = Sample::of(&copies.iter().map(|c| 2.0 * c).collect::<Vec<_>>());
    Ok(vec![
        Row::vs_peer(BENCH, &format!("a*2 + 1, {name}, CPU"), &simple, "memcpy", &copy, Some(1.0 / share)),
        Row::vs_peer(BENCH, &format!("a*b + c, {name}, CPU"), &three, "two memcpys", &twice, None),
    ])
}

/// A kernel that copies numbers or vectors of four.
pub(crate) fn copy_kernel(width: usize, group: usize) -> Arc<Kernel> {
    let v = if width == 4 { "vec4<u32>" } else { "u32" };
    let wgsl = format!(
        "struct Params {{ v: array<vec4<u32>, 4> }}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<{v}>;
@group(0) @binding(2) var<storage, read_write> b: array<{v}>;
@compute @workgroup_size({group})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {{
    let i = (id.y * groups.x + id.x) * {group}u + lane;
    if (i < p.v[0].x) {{ b[i] = a[i]; }}
}}"
    );
    Arc::new(Kernel {
        name: format!("copy {width} {group}").into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            for (to, from) in call.outputs.iter_mut().zip(&call.inputs) {
                to.copy_from_slice(from);
            }
            Ok(())
        }),
    })
}

fn copy_plan(from: &Tensor, width: usize, group: usize) -> Result<Plan> {
    let mut plan = Plan::new("copy kernel");
    let input = plan.import(from);
    let out = plan.slot(Bytes(DEVICE_ELEMENTS as u64 * 4), BENCH);
    let calls = DEVICE_ELEMENTS / width;
    let groups = gpuforge_ops::record::groups(BENCH, calls.div_ceil(group) as u64)?;
    plan.dispatch(&copy_kernel(width, group), &[input, out], &[u32::try_from(calls)?], groups)?;
    plan.keep(out, from.spec().clone())?;
    Ok(plan)
}

fn map_plan(op: &Map, target: &Target<'_>) -> Result<Plan> {
    let mut plan = Plan::new("map");
    let inputs: Vec<_> = op.inputs().into_iter().map(|t| plan.import(t)).collect();
    let spec = op.outputs()?.into_iter().next().context("no output")?;
    let out = op.record(&mut plan, &inputs, target)?.into_iter().next().context("no slot")?;
    plan.keep(out, spec)?;
    Ok(plan)
}

/// A plan and its times.
struct Case {
    name: String,
    plan: Arc<Plan>,
    times: Vec<f64>,
}

impl Case {
    fn new(name: String, plan: Plan) -> Self {
        Case { name, plan: Arc::new(plan), times: Vec::new() }
    }
}

/// The case with the smallest median.
fn best(cases: &[Case]) -> Result<&Case> {
    let by_median = |a: &&Case, b: &&Case| median(&a.times).total_cmp(&median(&b.times));
    cases.iter().filter(|c| !c.times.is_empty()).min_by(by_median).context("no kernel ran")
}

fn on_device() -> Result<Vec<Row>> {
    let engine = match GpuOpener::default().open() {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("elementwise: skipped on a device: {error}");
            return Ok(Vec::new());
        }
    };
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let session = Session::new(engine, memory);
    let tensors = (0..3)
        .map(|seed| Tensor::from_floats(&numbers(DEVICE_ELEMENTS, seed), &[DEVICE_ELEMENTS], BENCH))
        .collect::<Result<Vec<_>, _>>()?;
    let [a, b, c] = tensors.as_slice() else { return Ok(Vec::new()) };
    let mut copies = Vec::new();
    for (width, group) in [1, 4].into_iter().flat_map(|w| [64, 256, 1024].map(|g| (w, g))) {
        copies.push(Case::new(format!("copy {width} x {group}"), copy_plan(a, width, group)?));
    }
    let mut ours: [Vec<Case>; 2] = [Vec::new(), Vec::new()];
    for (op, cases) in [op("a*2 + 1", &[a])?, op("a*b + c", &[a, b, c])?].iter().zip(&mut ours) {
        for variant in op.variants() {
            let mut tuning = Tuning::default();
            tuning.set(op.kind(), *variant);
            let target = Target { caps: session.caps(), tuning: &tuning };
            cases.push(Case::new(format!("{} x {}", variant.width, variant.group), map_plan(op, &target)?));
        }
    }
    check(&session, a)?;
    for round in 0..=DEVICE_ROUNDS {
        for case in copies.iter_mut().chain(ours.iter_mut().flatten()) {
            let mut device = None;
            let wall = ms(|| {
                // A group size that this adapter does not allow is no candidate.
                device = session.run(&case.plan, DEADLINE).ok().map(|done| done.device_time);
                Ok(())
            })?;
            if let (Some(time), true) = (device, round > 0) {
                case.times.push(time.map_or(wall, |t| t.as_secs_f64() * 1e3));
            }
        }
    }
    for case in copies.iter().chain(ours.iter().flatten()) {
        eprintln!("elementwise: {:<16} {:8.2} ms", case.name, median(&case.times));
    }
    let copy = best(&copies)?;
    let twice = Sample::of(&copy.times.iter().map(|t| 2.0 * t).collect::<Vec<_>>());
    let [simple, three] = [best(&ours[0])?, best(&ours[1])?];
    let name = |text: &str, case: &Case| format!("{text}, 64 MiB, device ({})", case.name);
    let share = Some(1.0 / DEVICE_SHARE);
    let (ours, peer) = (Sample::of(&simple.times), Sample::of(&copy.times));
    Ok(vec![
        Row::vs_peer(BENCH, &name("a*2 + 1", simple), &ours, &copy.name, &peer, share),
        Row::vs_peer(BENCH, &name("a*b + c", three), &Sample::of(&three.times), "two copies", &twice, None),
    ])
}

/// Checks the result of the kernel that is timed.
fn check(session: &Session, a: &Tensor) -> Result<()> {
    let op = op("a*2 + 1", &[a])?;
    let target = Target { caps: session.caps(), tuning: &Tuning::default() };
    let plan = gpuforge_ops::record::plan(&op, &target, false)?;
    let out = session.run(&Arc::new(plan), DEADLINE)?.outputs.into_iter().next().context("no output")?;
    let host = a.host().context("not on the host")?;
    ensure!(floats(&out).zip(floats(&host)).all(|(y, x)| y == x * 2.0 + 1.0), "wrong numbers came back");

    Ok(())
}
