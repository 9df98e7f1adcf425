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

/// Trains models on indicators, evaluates them against naive baselines, and predicts with them.
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
    /// The hint.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on indicators of bars, and test it out of sample.
    Train(Box<Train>),
    /// Test a model on other bars.
    Evaluate(Evaluate),
    /// Predict for every bar that has a full window.
    Predict(Predict),
}

/// Training device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceArg {
    /// A GPU where one can be opened and the model is large, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU, or an error.
    Gpu,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Train {
    /// Files, directories, globs or `-`: bars in Parquet, Arrow or CSV.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Use only the last N days.
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    /// Indicators used as features (`gpuforge indicators list`).
    #[arg(long, value_name = "SELECTION", default_value = "set:classic111")]
    pub(crate) indicators: String,
    /// Causal normalisation of each feature: none, zscore:BARS or rank:BARS.
    #[arg(long, value_name = "METHOD", default_value = "zscore:64")]
    pub(crate) normalise: Scaling,
    /// Window length in bars; defaults to 1 for linear and mlp, 32 for tcn and transformer.
    #[arg(long, value_name = "BARS")]
    pub(crate) window: Option<usize>,
    /// Bars from the prediction to its target.
    #[arg(long, value_name = "BARS", default_value_t = 5)]
    pub(crate) horizon: usize,
    /// Prediction target: direction, return, vol-return or triple-barrier.
    #[arg(long, value_name = "TARGET", default_value = "direction", value_parser = target)]
    pub(crate) target: Target,
    /// Clip limit of return targets; for vol-return in units of volatility.
    #[arg(long, value_name = "X")]
    pub(crate) clip: Option<f64>,
    /// Barrier distance of triple-barrier, in units of volatility.
    #[arg(long, value_name = "X")]
    pub(crate) barrier: Option<f64>,
    /// Architecture: linear, mlp, tcn or transformer.
    #[arg(long, value_name = "MODEL", default_value = "mlp", value_parser = architecture)]
    pub(crate) model: Architecture,
    /// Widths of the mlp's hidden layers.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    pub(crate) hidden: Option<Vec<usize>>,
    /// Channels of the tcn, or token width of the transformer.
    #[arg(long, value_name = "N")]
    pub(crate) width: Option<usize>,
    /// Attention heads of the transformer.
    #[arg(long, value_name = "N")]
    pub(crate) heads: Option<usize>,
    /// Layers of tcn or transformer.
    #[arg(long, value_name = "N")]
    pub(crate) layers: Option<usize>,
    /// Epochs, at most.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) epochs: usize,
    /// Batch size; auto runs short trials.
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = batch)]
    pub(crate) batch_size: BatchSize,
    /// Optimiser: adam or adamw.
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = optimiser)]
    pub(crate) optimizer: Optimiser,
    /// Peak learning rate.
    #[arg(long, value_name = "RATE", default_value_t = 1e-3)]
    pub(crate) lr: f64,
    /// Fraction of training for linear warm-up; cosine decay follows.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.05)]
    pub(crate) warm_up: f64,
    /// Weight decay.
    #[arg(long, value_name = "X", default_value_t = 1e-2)]
    pub(crate) weight_decay: f64,
    /// Gradient norm clipping; 0 disables it.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) clip_norm: f64,
    /// Early stopping: epochs without a better validation loss; 0 disables it.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) patience: usize,
    /// Policy for a NaN or infinite loss or gradient: stop, skip or reduce-lr.
    #[arg(long, value_name = "POLICY", default_value = "stop", value_parser = on_nan)]
    pub(crate) on_nan: OnNan,
    /// Seed of initial weights and shuffles.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Gradient checkpointing: recompute activations in the backward pass to save memory.
    #[arg(long)]
    pub(crate) recompute: bool,
    /// Precision of activations: f32, or f16 or bf16 if the device supports it.
    #[arg(long, value_name = "KIND", default_value = "f32", value_parser = precision)]
    pub(crate) precision: Precision,
    /// Threads for feature computation on the CPU; by default as many as cores and memory allow.
    #[arg(long, value_name = "N", value_parser = workers)]
    pub(crate) workers: Option<usize>,
    /// Walk-forward folds; each trains its own model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) folds: usize,
    /// Fraction of time for validation.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.15)]
    pub(crate) validation: f64,
    /// Fraction of time for the test parts.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.15)]
    pub(crate) test: f64,
    /// Time steps between parts; at least the horizon, which is the default.
    #[arg(long, value_name = "BARS")]
    pub(crate) embargo: Option<usize>,
    /// Training device.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: DeviceArg,
    /// Output directory: checkpoint, model, card and report.
    #[arg(short, long, value_name = "DIR", default_value = "trained")]
    pub(crate) out: PathBuf,
    /// Resume from the checkpoint in the output directory.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Steps between checkpoints, beside the one after every epoch.
    #[arg(long, value_name = "STEPS")]
    pub(crate) checkpoint_every: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Evaluate {
    /// Model directory.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Bars.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Use only the last N days.
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Predict {
    /// Model directory.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Bars.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Use only the last N days.
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    /// Output of the predictions: .parquet, .arrow, .csv or `-`.
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

fn architecture(text: &str) -> Result<Architecture, String> {
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
