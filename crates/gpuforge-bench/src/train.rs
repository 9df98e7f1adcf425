//! Training step on the CPU beside JAX and PyTorch: the same model, batch size and cores, interleaved. A step gathers its batch
//! by index, computes loss and gradient, clips the gradient norm, and applies AdamW.
//!
//! `GPUFORGE_BENCH_PYTHON` names the Python that has the peers; without them the case is skipped.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use gpuforge_indicators_gpu::features::HostRows;
use gpuforge_train::{
    data::target::Target,
    device_table::{DeviceTable, SampleOrder, TrainBackend},
    model::{Architecture, ModelSpec},
    net::{Net, OptimiserConfig},
    rng::SeededRng,
};

use crate::{
    measure::{Sample, ms},
    row::Row,
};

const BENCH: &str = "train";
const FEATURES: usize = 111;
const ROWS: usize = 32_768;
/// Largest acceptable fraction of the peer's time for the MLP: 0.8 of its speed.
const SHARE: f64 = 1.0 / 0.8;

/// A model, its batch, steps per round and rounds.
struct Case {
    architecture: fn() -> Architecture,
    window: usize,
    batch: usize,
    steps: usize,
    rounds: usize,
    /// Has it a target?
    has_target: bool,
}

const CASES: [Case; 3] = [
    Case { architecture: mlp, window: 1, batch: 256, steps: 200, rounds: 15, has_target: true },
    Case { architecture: mlp, window: 1, batch: 4096, steps: 20, rounds: 15, has_target: true },
    Case { architecture: transformer, window: 32, batch: 8, steps: 1, rounds: 5, has_target: false },
];

fn mlp() -> Architecture {
    Architecture::Mlp { hidden: vec![128, 64] }
}

fn transformer() -> Architecture {
    Architecture::Transformer { width: 256, heads: 8, layers: 6 }
}

/// Names and scripts of the peers.
const PEERS: [(&str, &str); 2] =
    [("JAX", include_str!("train_jax.py")), ("PyTorch", include_str!("train_torch.py"))];

pub(crate) fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in &CASES {
        let mut ours = Ours::new(case)?;
        for (name, script) in PEERS {
            match Peer::start(name, script, case) {
                Ok(mut peer) => rows.push(vs_framework(&mut ours, &mut peer, case)?),
                Err(why) => eprintln!("train: {name} skipped: {why:#}"),
            }
        }
        if rows.iter().all(|row: &Row| row.case != label(case)) {
            eprintln!("train: {}: {:.0} samples/s", label(case), 1e3 * case.batch as f64 / ours.round(case)?);
        }
    }
    Ok(rows)
}

fn label(case: &Case) -> String {
    let architecture = (case.architecture)();
    let what = match architecture {
        Architecture::Mlp { .. } => "MLP 111-128-64-1".to_owned(),
        other => format!("{} 256/8/6, window {}", other.name(), case.window),
    };
    format!("{what}, batch {}, a step", case.batch)
}

/// Our side: a table on the CPU and a model.
struct Ours {
    table: DeviceTable,
    net: Net,
    order: SampleOrder,
    at: usize,
}

impl Ours {
    fn new(case: &Case) -> Result<Ours> {
        let mut rng = SeededRng::new(1, 7);
        let values = (0..ROWS * FEATURES).map(|_| rng.normal() as f32).collect();
        let backend = TrainBackend::cpu();
        let rows = backend.rows(HostRows { columns: FEATURES, values, valid: Vec::new() });
        let ends: Vec<u32> = (case.window as u32 - 1..ROWS as u32).collect();
        let targets = ends.iter().map(|_| f32::from(rng.unit() > 0.5)).collect();
        let mut samples: Vec<u32> = (0..ends.len() as u32).collect();
        rng.shuffle(&mut samples);
        let order = backend.order(&samples);
        let spec = ModelSpec {
            architecture: (case.architecture)(),
            features: FEATURES,
            window: case.window,
            outputs: 1,
        };
        let net = Net::init(&spec, 1, &backend);
        let table = DeviceTable::from_parts(backend, rows, &ends, targets, case.window);
        Ok(Ours { table, net, order, at: 0 })
    }

    /// Milliseconds per step over one round.
    fn round(&mut self, case: &Case) -> Result<f64> {
        let how = OptimiserConfig::default();
        let took = ms(|| {
            for _ in 0..case.steps {
                if self.at + case.batch > ROWS - case.window {
                    self.at = 0;
                }
                let of = self.at..self.at + case.batch;
                self.at += case.batch;
                let gradient = self.net.gradient_of(&self.table, &self.order, of, Target::Direction);
                let scalars = self.table.backend.scalars(gradient.scalars).map_err(|why| anyhow!(why))?;
                let norm = scalars.get(1).copied().unwrap_or(f32::NAN);
                ensure!(norm.is_finite(), "the gradient is NaN");
                self.net.step(gradient.flat, how.clip_factor(norm), 1e-4, &how);
            }
            Ok(())
        })?;
        Ok(took / case.steps as f64)
    }
}

/// Ours and the peer, interleaved; the first round is warm-up.
fn vs_framework(ours: &mut Ours, peer: &mut Peer, case: &Case) -> Result<Row> {
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=case.rounds {
        let (own, other) = (ours.round(case)?, peer.round()?);
        if round > 0 {
            mine.push(own);
            theirs.push(other);
        }
    }
    let (mine, theirs) = (Sample::of(&mine), Sample::of(&theirs));
    let speed = |sample: &Sample| 1e3 * case.batch as f64 / sample.median;
    eprintln!(
        "train: {}: {:.0} samples/s, {} {:.0} samples/s",
        label(case),
        speed(&mine),
        peer.name,
        speed(&theirs)
    );
    // Only JAX has a target.
    let share = (case.has_target && peer.name.starts_with("JAX")).then_some(SHARE);
    Ok(Row::vs_peer(BENCH, &label(case), &mine, &peer.name, &theirs, share))
}

/// A Python process that runs a round of steps per line of input.
struct Peer {
    name: String,
    child: Child,
    /// `None` once its input is closed.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn start(name: &str, script: &str, case: &Case) -> Result<Peer> {
        let python = std::env::var("GPUFORGE_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let model = (case.architecture)().name();
        let sizes = [FEATURES, case.window, case.batch, case.steps, ROWS].map(|n| n.to_string());
        let mut command = Command::new(python);
        command.args(["-c", script, model]).args(sizes).env("JAX_PLATFORMS", "cpu");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("there is no python3")?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut peer = Peer { name: String::new(), child, to, from };
        peer.name = peer.line().with_context(|| format!("this python3 has no {name}"))?;
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.from.read_line(&mut line)? > 0, "python3 has ended");
        Ok(line.trim().to_owned())
    }

    /// Milliseconds per step.
    fn round(&mut self) -> Result<f64> {
        writeln!(self.to.as_mut().context("no pipe")?)?;
        Ok(self.line()?.parse()?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.to.take());
        drop(self.child.wait());
    }
}
