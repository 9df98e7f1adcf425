//! `gpuforge train`: bars to models, fold by fold.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use gpuforge_frame::read::Input;
use gpuforge_runtime::runner::Runner;
use gpuforge_train::{
    checkpoint::{self, Checkpoint},
    data::{
        Dataset, MarketData, Recipe,
        split::{self, Fold, SplitConfig},
        target::Target,
    },
    device_table::TrainBackend,
    model::{Architecture, ModelSpec},
    model_card::Card,
    net::OptimiserConfig,
    report::{self, when},
    resources, shared_device,
    train::{self, CHECKPOINT, FoldOptions, TrainRequest},
};
use serde::Serialize;

use crate::{
    args::{DeviceArg, Train},
    console::Console,
};

/// `--device auto` opens a GPU from this many parameters on.
const GPU_MIN_PARAMETERS: usize = 1 << 20;

#[derive(Serialize)]
struct TrainReport<'a> {
    out: &'a Path,
    folds: Vec<Card>,
}

pub(crate) fn run(args: &Train, console: &Console) -> Result<()> {
    let recipe = recipe(args);
    recipe.check()?;
    let market = MarketData::read(&Input::new(args.data.clone()), &recipe, args.days)?;
    let spec = ModelSpec {
        architecture: architecture(args),
        features: recipe.columns()?.len(),
        window: recipe.window,
        outputs: recipe.target.outputs(),
    };
    spec.check()?;
    let chosen = choose_device(args.device, spec.len(), console)?;
    let data = match &chosen.runner {
        Some(runner) => Dataset::on_device(&market, &recipe, runner)?,
        None => with_workers(args.workers, &market, spec.features, console, || {
            Dataset::on_cpu(&market, &recipe)
        })??,
    };
    let split = SplitConfig {
        folds: args.folds,
        validation: args.validation,
        test: args.test,
        embargo: args.embargo.unwrap_or(args.horizon),
    };
    let folds = split::walk_forward(&data.samples, split, recipe.horizon)?;
    let request = request(args, spec.architecture, split);
    let recover = |lost: &TrainBackend, times: usize| shared_device::recover(lost, times, &market, &recipe);
    let mut cards = Vec::new();
    for (at, fold) in folds.iter().enumerate() {
        let directory =
            if folds.len() == 1 { args.out.clone() } else { args.out.join(format!("fold-{}", at + 1)) };
        describe(&data, fold, at, folds.len(), console);
        let config = request.config(&data, at);
        if args.resume {
            check_checkpoint_indicators(&directory.join(CHECKPOINT))?;
        }
        let options = FoldOptions {
            backend: chosen.backend.clone(),
            device: &chosen.name,
            directory: Some(&directory),
            every: args.checkpoint_every,
            resume: args.resume,
            recover: Some(&recover),
            faults: Default::default(),
        };
        let trained =
            train::train(&data, fold, &config, options, &mut |event| console.event(&event, args.epochs))?;
        checkpoint::write_atomic(&directory.join("report.html"), report::page(&trained.card).as_bytes())?;
        if !console.json {
            console.print(&summary(&trained.card, &directory))?;
        }
        cards.push(trained.card);
    }
    if console.json {
        console.document(&TrainReport { out: &args.out, folds: cards })?;
    }
    Ok(())
}

/// Runs feature computation on a pool of worker threads.
fn with_workers<T: Send>(
    asked: Option<usize>,
    market: &MarketData,
    features: usize,
    console: &Console,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let longest = market.bars.iter().map(|b| b.close.len()).max().unwrap_or(0);
    let (count, why) = match asked {
        Some(count) => (count, "as requested".to_owned()),
        None => resources::workers(longest, features),
    };
    console.status(&format!("{features} features with {count} threads ({why})"));
    Ok(rayon::ThreadPoolBuilder::new().num_threads(count).build()?.install(work))
}

fn recipe(args: &Train) -> Recipe {
    let target = match args.target {
        Target::Direction => Target::Direction,
        Target::Return { clip } => Target::Return { clip: args.clip.unwrap_or(clip) },
        Target::VolReturn { clip } => Target::VolReturn { clip: args.clip.unwrap_or(clip) },
        Target::TripleBarrier { width } => Target::TripleBarrier { width: args.barrier.unwrap_or(width) },
    };
    Recipe {
        indicators: args.indicators.clone(),
        scaling: args.normalise,
        window: args.window.unwrap_or(args.model.default_window()),
        horizon: args.horizon,
        target,
    }
}

/// The architecture with the sizes from the command line.
fn architecture(args: &Train) -> Architecture {
    match args.model.clone() {
        Architecture::Linear => Architecture::Linear,
        Architecture::Mlp { hidden } => Architecture::Mlp { hidden: args.hidden.clone().unwrap_or(hidden) },
        Architecture::Tcn { channels, kernel, layers } => Architecture::Tcn {
            channels: args.width.unwrap_or(channels),
            kernel,
            layers: args.layers.unwrap_or(layers),
        },
        Architecture::Transformer { width, heads, layers } => Architecture::Transformer {
            width: args.width.unwrap_or(width),
            heads: args.heads.unwrap_or(heads),
            layers: args.layers.unwrap_or(layers),
        },
    }
}

fn request(args: &Train, architecture: Architecture, split: SplitConfig) -> TrainRequest {
    TrainRequest {
        architecture,
        split,
        optimiser: OptimiserConfig {
            optimiser: args.optimizer,
            learning_rate: args.lr,
            warm_up: args.warm_up,
            weight_decay: args.weight_decay,
            clip_norm: args.clip_norm,
        },
        epochs: args.epochs,
        batch: args.batch_size,
        patience: args.patience,
        on_nan: args.on_nan,
        seed: args.seed,
        recompute: args.recompute,
        precision: args.precision,
    }
}

/// The training device, and the runner if features are computed on it.
struct ChosenDevice {
    backend: TrainBackend,
    name: String,
    runner: Option<Arc<Runner>>,
}

/// Chooses the training device.
fn choose_device(asked: DeviceArg, parameters: usize, console: &Console) -> Result<ChosenDevice> {
    let cpu = || ChosenDevice { backend: TrainBackend::cpu(), name: "cpu".to_owned(), runner: None };
    let gpu = || {
        shared_device::gpu().map(|gpu| ChosenDevice {
            backend: gpu.backend,
            name: gpu.name,
            runner: Some(gpu.runner),
        })
    };
    match asked {
        DeviceArg::Cpu => Ok(cpu()),
        DeviceArg::Gpu => Ok(gpu()?),
        DeviceArg::Auto if parameters < GPU_MIN_PARAMETERS => Ok(cpu()),
        DeviceArg::Auto => Ok(gpu().unwrap_or_else(|error| {
            console.status(&error.to_string());
            cpu()
        })),
    }
}

/// An unknown indicator in a checkpoint is reported before any other difference.
fn check_checkpoint_indicators(file: &Path) -> Result<()> {
    if file.exists() {
        let found = Checkpoint::read(file)?;
        gpuforge_train::model_card::check_indicators(file, &found.config, checkpoint::VERSION)?;
    }
    Ok(())
}

/// Prints the split.
fn describe(data: &Dataset, fold: &Fold, at: usize, of: usize, console: &Console) {
    let (samples, symbols) = (data.samples.len(), data.symbols.len());
    console.status(&format!(
        "fold {}/{of}: {samples} samples of {symbols} series, {} features, embargo {}",
        at + 1,
        data.columns.len(),
        fold.embargo
    ));
    for part in gpuforge_train::model_card::time_ranges(data, fold) {
        console.status(&format!(
            "  {:<10} {} to {}, {} samples ({} purged)",
            part.part,
            when(part.from),
            when(part.to),
            part.samples,
            part.purged
        ));
    }
}

fn summary(card: &Card, directory: &Path) -> String {
    let line = |name: &str, scores: &gpuforge_train::score::Scores| {
        let loss = scores.loss.map_or(String::new(), |x| format!("  loss {x:.4}"));
        format!("  {name:<12} {:6.2} % ± {:.2}{loss}\n", 100.0 * scores.accuracy, 100.0 * scores.std_error)
    };
    let mut text = format!("test, {} samples, accuracy:\n", card.test.samples);
    text += &line(card.config.spec.architecture.name(), &card.test);
    for baseline in &card.baselines {
        text += &line(&baseline.name, &baseline.scores);
    }
    text + &format!("{:.0} samples/s on {}; {}\n", card.samples_per_second, card.device, directory.display())
}
