//! How fast are matrix products on the processor? Beside NumPy, whose products come from OpenBLAS, in the same run.
//!
//! A Python process is started per number of threads and multiplies once for every line that it is sent, so that both sides
//! are measured by turns. Where there is no `python3` with NumPy, that is said and there is no row.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use forge_ops::{Op as _, Threads, matmul, view::tensor};

use crate::{
    measure::{Sample, median, ms},
    row::Row,
};

const BENCH: &str = "matmul";
const SIDE: usize = 1024;
const ROUNDS: usize = 51;
/// The most of NumPy's time that ours may take: 0.9 of its speed.
const SHARE: f64 = 1.0 / 0.9;
/// Idle threads of either side look for work for a while before they sleep; the other side must not be measured then. NumPy's
/// keep a core busy for a tenth of a second after a product.
const PAUSE: Duration = Duration::from_millis(250);

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
            Ok(mut peer) => rows.push(beside(&mut peer, threads)?),
            Err(why) => {
                eprintln!("matmul: skipped: {why:#}");
                break;
            }
        }
    }
    Ok(rows)
}

/// Ours and the peer's by turns.
fn beside(peer: &mut Peer, threads: usize) -> Result<Row> {
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
        // The first round wakes threads and makes room.
        if round > 0 {
            ours.push(mine);
            theirs.push(other);
        }
        number = theirs_number;
    }
    let own = c.get(SIDE / 2 * SIDE + SIDE / 3).copied().unwrap_or(f32::NAN);
    ensure!((own - number).abs() < 1e-2, "not the same product: {own} and {number}");
    let case = format!("{SIDE}x{SIDE} f32, {}", if threads == 1 { "one thread" } else { "two threads" });
    Ok(Row::beside(BENCH, &case, &Sample::of(&ours), &peer.name, &Sample::of(&theirs), Some(SHARE)))
}

/// A Python process that multiplies when it is told to.
struct Peer {
    name: String,
    child: Child,
    /// `None` once it has been told to end.
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
