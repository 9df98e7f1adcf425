//! Command-line arguments of gpuforge-train.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use gpuforge_train::{
    config::{BatchSize, OnNan},
    data::{Scaling, target::Target},
    model::Architecture,
    net::{Optimiser, Precision},
};

const EXAMPLES: &str = "Examples:
  gpuforge sample -o bars.parquet --symbols 20 --interval day --bars 2000
  gpuforge train bars.parquet --indicators set:classic111 --model mlp --target direction
  gpuforge train bars.parquet --days 365 --epochs 20 --batch-size auto --model transformer
  gpuforge evaluate trained newer.parquet
  gpuforge predict trained newer.parquet -o answers.csv";

/// Trains models on indicators, tests them beside naive rules, and answers with them.
#[derive(Debug, Parser)]
#[command(name = "gpuforge-train", version, about, after_help = EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print results only: no progress, no hints.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on indicators of bars, and test it on time that it never saw.
    Train(Box<Train>),
    /// Test a model on other bars.
    Evaluate(Evaluate),
    /// Answer for every bar that has a window.
    Predict(Predict),
}

/// Where to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceArg {
    /// A GPU where one can be opened and the model is large, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU, or an error.
    SharedGpu,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Train {
    /// Files, folders, patterns or `-`: bars in Parquet, Arrow or CSV.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Only the last days of them.
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    /// Which indicators are the features (`gpuforge indicators list`).
    #[arg(long, value_name = "SELECTION", default_value = "set:classic111")]
    pub(crate) indicators: String,
    /// What is done to each by the bars before it: none, zscore:BARS or rank:BARS.
    #[arg(long, value_name = "HOW", default_value = "zscore:64")]
    pub(crate) normalise: Scaling,
    /// Bars that the model sees at once; 1 for linear and mlp, 32 for tcn and transformer.
    #[arg(long, value_name = "BARS")]
    pub(crate) window: Option<usize>,
    /// Bars from a decision to its target.
    #[arg(long, value_name = "BARS", default_value_t = 5)]
    pub(crate) horizon: usize,
    /// What is predicted: direction, return, vol-return or triple-barrier.
    #[arg(long, value_name = "TARGET", default_value = "direction", value_parser = target)]
    pub(crate) target: Target,
    /// The most that a return counts; of vol-return in units of what is usual.
    #[arg(long, value_name = "X")]
    pub(crate) clip: Option<f64>,
    /// Distance of triple-barrier's barriers, in units of what is usual.
    #[arg(long, value_name = "X")]
    pub(crate) barrier: Option<f64>,
    /// Which function: linear, mlp, tcn or transformer.
    #[arg(long, value_name = "MODEL", default_value = "mlp", value_parser = shape)]
    pub(crate) model: Architecture,
    /// Widths of mlp's layers.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    pub(crate) hidden: Option<Vec<usize>>,
    /// Width of tcn's layers or transformer's tokens.
    #[arg(long, value_name = "N")]
    pub(crate) width: Option<usize>,
    /// Heads of the transformer's attention.
    #[arg(long, value_name = "N")]
    pub(crate) heads: Option<usize>,
    /// Layers of tcn or transformer.
    #[arg(long, value_name = "N")]
    pub(crate) layers: Option<usize>,
    /// How often every sample is seen, at most.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) epochs: usize,
    /// Samples of a step; auto tries sizes for a moment.
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = batch)]
    pub(crate) batch_size: BatchSize,
    /// Adam or AdamW.
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = optimiser)]
    pub(crate) optimizer: Optimiser,
    /// The highest learning rate.
    #[arg(long, value_name = "RATE", default_value_t = 1e-3)]
    pub(crate) lr: f64,
    /// Share of training over which the rate rises; then it falls along a cosine.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub(crate) warm_up: f64,
    /// Decay of weights.
    #[arg(long, value_name = "X", default_value_t = 1e-2)]
    pub(crate) weight_decay: f64,
    /// The longest gradient; 0 leaves all as they are.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) clip_norm: f64,
    /// Epochs without a better validation before training ends; 0 never ends early.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) patience: usize,
    /// A step that gives no finite number: stop, skip or reduce-lr.
    #[arg(long, value_name = "POLICY", default_value = "stop", value_parser = on_nan)]
    pub(crate) on_nan: OnNan,
    /// Of first weights and orders.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Keep less between forward and backward and compute it again: long windows in little memory.
    #[arg(long)]
    pub(crate) recompute: bool,
    /// In what activations are computed: f32, or f16 or bf16 where the device has it.
    #[arg(long, value_name = "KIND", default_value = "f32", value_parser = precision)]
    pub(crate) precision: Precision,
    /// Threads that make features on the CPU; as many as cores and memory allow where nobody says.
    #[arg(long, value_name = "N", value_parser = workers)]
    pub(crate) workers: Option<usize>,
    /// Walk-forward tests, one after the other; each trains its own model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) folds: usize,
    /// Share of time for validation.
    #[arg(long, value_name = "SHARE", default_value_t = 0.15)]
    pub(crate) validation: f64,
    /// Share of time for the tests.
    #[arg(long, value_name = "SHARE", default_value_t = 0.15)]
    pub(crate) test: f64,
    /// Points of time between parts; at least the horizon, which is also the default.
    #[arg(long, value_name = "BARS")]
    pub(crate) embargo: Option<usize>,
    /// Where to compute.
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(crate) device: DeviceArg,
    /// Folder of checkpoint, model, card and report.
    #[arg(short, long, value_name = "FOLDER", default_value = "trained")]
    pub(crate) out: PathBuf,
    /// Go on from the checkpoint in the directory.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Steps between checkpoints, beside the one after every epoch.
    #[arg(long, value_name = "STEPS")]
    pub(crate) checkpoint_every: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Evaluate {
    /// Folder of the model.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Bars.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Only the last days of them.
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Predict {
    /// Folder of the model.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Bars.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Only the last days of them.
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    /// Where answers go: .parquet, .arrow, .csv or `-`.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
}

fn target(text: &str) -> Result<Target, String> {
    let found = Target::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, target)| target).ok_or_else(|| {
        let names: Vec<&str> = Target::ALL.iter().map(|(name, _)| *name).collect();
        format!("not one of {}", names.join(", "))
    })
}

fn shape(text: &str) -> Result<Architecture, String> {
    Architecture::named(text).ok_or_else(|| "not one of linear, mlp, tcn, transformer".to_owned())
}

fn batch(text: &str) -> Result<BatchSize, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(BatchSize::Auto),
        (_, Ok(n)) if n > 0 => Ok(BatchSize::Of(n)),
        _ => Err("not `auto` and not a number above 0".to_owned()),
    }
}

fn precision(text: &str) -> Result<Precision, String> {
    let found = Precision::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, precision)| precision).ok_or_else(|| "not one of f32, f16, bf16".to_owned())
}

fn workers(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "not a number above 0".to_owned())
}

fn optimiser(text: &str) -> Result<Optimiser, String> {
    match text {
        "adam" => Ok(Optimiser::Adam),
        "adamw" => Ok(Optimiser::AdamW),
        _ => Err("not one of adam, adamw".to_owned()),
    }
}

fn on_nan(text: &str) -> Result<OnNan, String> {
    match text {
        "stop" => Ok(OnNan::Stop),
        "skip" => Ok(OnNan::Skip),
        "reduce-lr" => Ok(OnNan::ReduceLr),
        _ => Err("not one of stop, skip, reduce-lr".to_owned()),
    }
}
