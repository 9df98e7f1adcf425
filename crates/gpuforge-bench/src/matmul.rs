//! Matrix products: on the CPU beside NumPy (OpenBLAS); on a device every kernel variant, the best with subgroups beside the
//! best without.
//!
//! A Python process per number of threads multiplies once per line of input, so that both sides are interleaved. Without a
//! `python3` with NumPy the case is skipped.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    thread::sleep,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use gpuforge_ops::{Matmul, Op as _, Target, Threads, Tuning, Variant, matmul, record, view::tensor};
use gpuforge_runtime::{
    engine::{Opener as _, gpu::GpuOpener},
    memory::{Budget, BudgetOrigin, StackSettings},
    plan::{self, Plan},
    session::Session,
    units::Bytes,
};

use crate::{
    measure::{Sample, median, ms},
    row::Row,
};

const BENCH: &str = "matmul";
const SIDE: usize = 1024;
const ROUNDS: usize = 51;
/// Largest acceptable fraction of NumPy's time: 0.9 of its speed.
const SHARE: f64 = 1.0 / 0.9;
/// Idle threads of either side spin for a while before they sleep; the other side must not be measured then. NumPy's
/// keep a core busy for a tenth of a second after a product.
const PAUSE: Duration = Duration::from_millis(250);

/// On a device: software adapters are slow.
const DEVICE_SIDE: usize = 512;
const DEVICE_ROUNDS: usize = 5;
const DEADLINE: Duration = Duration::from_secs(60);

/// Products of a turn: the first after a pause finds cold caches and sleeping threads on either side and does not count, the
/// middle of the others does.
const IN_A_ROW: usize = 6;

/// Multiplies as often per line and says the milliseconds of the middle one, and one number.
const SCRIPT: &str = r#"
import sys, time
import numpy as np
n, many = int(sys.argv[1]), int(sys.argv[2])
i = np.arange(n * n, dtype=np.int64)
a = ((i * 7 % 251) / 125 - 1).astype(np.float32).reshape(n, n)
b = ((i * 11 % 241) / 120 - 1).astype(np.float32).reshape(n, n)
c = np.empty((n, n), np.float32)
print("NumPy", np.__version__, flush=True)
for line in sys.stdin:
    took = []
    for _ in range(many):
        began = time.perf_counter()
        np.matmul(a, b, out=c)
        took.append(time.perf_counter() - began)
    print(np.median(took[1:]) * 1e3, c[n // 2, n // 3], flush=True)
"#;

pub(crate) fn run() -> Result<Vec<Row>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rows = Vec::new();
    for threads in [1, 2] {
        if threads > cores {
            eprintln!("matmul: skipped with {threads} threads: there is {cores} core");
            continue;
        }
        match Peer::start(threads) {
            Ok(mut peer) => rows.push(vs_numpy(&mut peer, threads)?),
            Err(why) => {
                eprintln!("matmul: skipped: {why:#}");
                break;
            }
        }
    }
    rows.extend(on_device()?);
    Ok(rows)
}

/// A kernel variant on a device.
struct KernelVariant {
    variant: Variant,
    plan: Arc<Plan>,
    /// Milliseconds.
    times: Vec<f64>,
}

impl KernelVariant {
    fn new(op: &Matmul, session: &Session, variant: Variant) -> Result<KernelVariant> {
        let mut tuning = Tuning::default();
        tuning.set(op.kind(), variant);
        let plan = record::plan(op, &Target { caps: session.caps(), tuning: &tuning }, false)?;
        Ok(KernelVariant { variant, plan: Arc::new(plan), times: Vec::new() })
    }

    /// Does it use subgroup operations?
    fn uses_subgroups(&self) -> bool {
        let text = |c: &plan::Command| match c {
            plan::Command::Dispatch(d) => d.kernel.wgsl.contains("quadBroadcast"),
            _ => false,
        };
        self.plan.commands().iter().any(text)
    }

    fn name(&self) -> String {
        let Variant { group, width, items } = self.variant;
        format!(
            "{group} x {items}, {width} at once{}",
            if self.uses_subgroups() { ", subgroups" } else { "" }
        )
    }

    /// Milliseconds of one product, by the device's clock where it has one.
    fn once(&self, session: &Session) -> Result<f64> {
        let mut device = None;
        let wall = ms(|| {
            device = session.run(&self.plan, DEADLINE)?.device_time;
            Ok(())
        })?;
        Ok(device.map_or(wall, |t| t.as_secs_f64() * 1e3))
    }
}

/// Every variant, interleaved.
fn on_device() -> Result<Option<Row>> {
    let engine = match GpuOpener::default().open() {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("matmul: skipped on a device: {error}");
            return Ok(None);
        }
    };
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User });
    let session = Session::new(engine, memory);
    let side = [DEVICE_SIDE, DEVICE_SIDE];
    let numbers: Vec<f32> =
        (0..DEVICE_SIDE * DEVICE_SIDE).map(|i| (i * 7 % 251) as f32 / 125.0 - 1.0).collect();
    let a = tensor(&numbers, &side, BENCH)?;
    let op = matmul(&a, &a);
    let made = op.variants().iter().map(|v| KernelVariant::new(&op, &session, *v));
    let mut variants = made.collect::<Result<Vec<_>>>()?;
    if session.caps().subgroup.is_none() {
        variants.retain(|m| !m.uses_subgroups());
    }
    // The first round compiles.
    for round in 0..=DEVICE_ROUNDS {
        for variant in &mut variants {
            let time = variant.once(&session)?;
            if round > 0 {
                variant.times.push(time);
            }
        }
    }
    for variant in &variants {
        let name = variant.name();
        eprintln!(
            "matmul: {DEVICE_SIDE}x{DEVICE_SIDE} on a device: {name:<28} {:8.2} ms",
            median(&variant.times)
        );
    }
    let (sharing, others): (Vec<KernelVariant>, Vec<KernelVariant>) =
        variants.into_iter().partition(KernelVariant::uses_subgroups);
    let best = |all: Vec<KernelVariant>| {
        all.into_iter().min_by(|a, b| median(&a.times).total_cmp(&median(&b.times)))
    };
    let (Some(ours), Some(other)) = (best(sharing), best(others)) else { return Ok(None) };
    let case = format!("{DEVICE_SIDE}x{DEVICE_SIDE} f32, device, with subgroups");
    let peer = format!("best without ({})", other.name());
    Ok(Some(Row::vs_peer(BENCH, &case, &Sample::of(&ours.times), &peer, &Sample::of(&other.times), None)))
}

/// Ours and the peer, interleaved.
fn vs_numpy(peer: &mut Peer, threads: usize) -> Result<Row> {
    let numbers = |step: usize, most: usize, half: f64| -> Vec<f32> {
        (0..SIDE * SIDE).map(|i| ((i * step % most) as f64 / half - 1.0) as f32).collect()
    };
    let (a, b) = (numbers(7, 251, 125.0), numbers(11, 241, 120.0));
    let (a, b) = (tensor(&a, &[SIDE, SIDE], BENCH)?, tensor(&b, &[SIDE, SIDE], BENCH)?);
    let product = matmul(&a, &b);
    let (a, b) = (a.host().context("no left side")?, b.host().context("no right side")?);
    let mut c = vec![0f32; SIDE * SIDE];
    let mut once = || {
        let out: &mut [u8] = bytemuck::cast_slice_mut(&mut c);
        ms(|| Ok(product.cpu(&[&a, &b], &mut [out], Threads(threads))?))
    };
    let (mut ours, mut theirs, mut number) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..=ROUNDS {
        sleep(PAUSE);
        let turn = (0..IN_A_ROW).map(|_| once()).collect::<Result<Vec<f64>>>()?;
        let mine = median(turn.get(1..).unwrap_or(&[]));
        sleep(PAUSE);
        let (other, theirs_number) = peer.once()?;
        // The first round is warm-up: threads, page faults.
        if round > 0 {
            ours.push(mine);
            theirs.push(other);
        }
        number = theirs_number;
    }
    let own = c.get(SIDE / 2 * SIDE + SIDE / 3).copied().unwrap_or(f32::NAN);
    ensure!((own - number).abs() < 1e-2, "not the same product: {own} and {number}");
    let case = format!("{SIDE}x{SIDE} f32, {}", if threads == 1 { "one thread" } else { "two threads" });
    Ok(Row::vs_peer(BENCH, &case, &Sample::of(&ours), &peer.name, &Sample::of(&theirs), Some(SHARE)))
}

/// A Python process that multiplies once per line of input.
struct Peer {
    name: String,
    child: Child,
    /// `None` once its input is closed.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn start(threads: usize) -> Result<Peer> {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT]).args([SIDE.to_string(), IN_A_ROW.to_string()]);
        for name in ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
            python.env(name, threads.to_string());
        }
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = python.spawn().context("there is no python3")?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut peer = Peer { name: String::new(), child, to, from };
        peer.name = peer.line().context("this python3 has no NumPy")?;
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.from.read_line(&mut line)? > 0, "python3 has ended");
        Ok(line.trim().to_owned())
    }

    /// Milliseconds of one product, and one of its numbers.
    fn once(&mut self) -> Result<(f64, f32)> {
        writeln!(self.to.as_mut().context("no pipe")?)?;
        let line = self.line()?;
        let (ms, number) = line.split_once(' ').context("not two numbers")?;
        Ok((ms.parse()?, number.parse()?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.to.take());
        drop(self.child.wait());
    }
}
