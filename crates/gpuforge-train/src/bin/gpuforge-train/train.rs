//! `gpuforge train`: bars to models, fold by fold.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use gpuforge_frame::read::Input;
use gpuforge_runtime::runner::Runner;
use gpuforge_train::{
    bridge,
    card::Card,
    checkpoint::{self, Checkpoint},
    data::{
        Dataset, Market, Recipe,
        split::{self, Fold, Shares},
        target::Target,
    },
    machine,
    model::{Shape, Spec},
    net::Steps,
    report::{self, when},
    run::{self, Ask, CHECKPOINT, Way},
    table::Place,
};
use serde::Serialize;

use crate::{
    args::{Train, Where},
    talk::Talk,
};

/// Parameters from which a GPU is worth opening where nobody said which device.
const LARGE: usize = 1 << 20;

#[derive(Serialize)]
struct Report<'a> {
    out: &'a Path,
    folds: Vec<Card>,
}

pub(crate) fn run(args: &Train, talk: &Talk) -> Result<()> {
    let recipe = recipe(args);
    recipe.check()?;
    let market = Market::read(&Input::new(args.data.clone()), &recipe, args.days)?;
    let spec = Spec {
        shape: shape(args),
        features: recipe.columns()?.len(),
        window: recipe.window,
        outputs: recipe.target.outputs(),
    };
    spec.check()?;
    let seat = seat(args.device, spec.len(), talk)?;
    let data = match &seat.runner {
        Some(runner) => Dataset::on_device(&market, &recipe, runner)?,
        None => with_workers(args.workers, &market, spec.features, talk, || {
            Dataset::on_processor(&market, &recipe)
        })??,
    };
    let shares = Shares {
        folds: args.folds,
        validation: args.validation,
        test: args.test,
        embargo: args.embargo.unwrap_or(args.horizon),
    };
    let folds = split::walk_forward(&data.samples, shares, recipe.horizon)?;
    let ask = ask(args, spec.shape, shares);
    let rescue = |lost: &Place, times: usize| bridge::replace(lost, times, &market, &recipe);
    let mut cards = Vec::new();
    for (at, fold) in folds.iter().enumerate() {
        let folder =
            if folds.len() == 1 { args.out.clone() } else { args.out.join(format!("fold-{}", at + 1)) };
        describe(&data, fold, at, folds.len(), talk);
        let setup = ask.setup(&data, at);
        if args.resume {
            known(&folder.join(CHECKPOINT))?;
        }
        let way = Way {
            place: seat.place.clone(),
            device: &seat.name,
            folder: Some(&folder),
            every: args.checkpoint_every,
            resume: args.resume,
            rescue: Some(&rescue),
            faults: Default::default(),
        };
        let trained = run::train(&data, fold, &setup, way, &mut |event| talk.event(&event, args.epochs))?;
        checkpoint::write_whole(&folder.join("report.html"), report::page(&trained.card).as_bytes())?;
        if !talk.json {
            talk.print(&summary(&trained.card, &folder))?;
        }
        cards.push(trained.card);
    }
    if talk.json {
        talk.document(&Report { out: &args.out, folds: cards })?;
    }
    Ok(())
}

/// Makes features with so many threads.
fn with_workers<T: Send>(
    asked: Option<usize>,
    market: &Market,
    features: usize,
    talk: &Talk,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    let longest = market.bars.iter().map(|b| b.close.len()).max().unwrap_or(0);
    let (count, why) = match asked {
        Some(count) => (count, "as asked".to_owned()),
        None => machine::workers(longest, features),
    };
    talk.say(&format!("{features} features with {count} threads ({why})"));
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
        window: args.window.unwrap_or(args.model.usual_window()),
        horizon: args.horizon,
        target,
    }
}

/// The shape with the sizes that were given.
fn shape(args: &Train) -> Shape {
    match args.model.clone() {
        Shape::Linear => Shape::Linear,
        Shape::Mlp { hidden } => Shape::Mlp { hidden: args.hidden.clone().unwrap_or(hidden) },
        Shape::Tcn { channels, kernel, layers } => Shape::Tcn {
            channels: args.width.unwrap_or(channels),
            kernel,
            layers: args.layers.unwrap_or(layers),
        },
        Shape::Transformer { width, heads, layers } => Shape::Transformer {
            width: args.width.unwrap_or(width),
            heads: args.heads.unwrap_or(heads),
            layers: args.layers.unwrap_or(layers),
        },
    }
}

fn ask(args: &Train, shape: Shape, shares: Shares) -> Ask {
    Ask {
        shape,
        shares,
        steps: Steps {
            optimiser: args.optimizer,
            rate: args.lr,
            warm_up: args.warm_up,
            decay: args.weight_decay,
            clip: args.clip_norm,
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

/// Where a training runs: the device, and whether features are made on it.
struct Seat {
    place: Place,
    name: String,
    runner: Option<Arc<Runner>>,
}

/// The device that is used.
fn seat(asked: Where, parameters: usize, talk: &Talk) -> Result<Seat> {
    let cpu = || Seat { place: Place::cpu(), name: "cpu".to_owned(), runner: None };
    let gpu = || bridge::gpu().map(|gpu| Seat { place: gpu.place, name: gpu.name, runner: Some(gpu.runner) });
    match asked {
        Where::Cpu => Ok(cpu()),
        Where::Gpu => Ok(gpu()?),
        Where::Auto if parameters < LARGE => Ok(cpu()),
        Where::Auto => Ok(gpu().unwrap_or_else(|error| {
            talk.say(&error.to_string());
            cpu()
        })),
    }
}

/// A checkpoint that names an indicator which is not there says so before anything else is compared.
fn known(file: &Path) -> Result<()> {
    if file.exists() {
        let found = Checkpoint::read(file)?;
        gpuforge_train::card::known(file, &found.setup, checkpoint::VERSION)?;
    }
    Ok(())
}

/// The split, before anything is learned from it.
fn describe(data: &Dataset, fold: &Fold, at: usize, of: usize, talk: &Talk) {
    let (samples, symbols) = (data.samples.len(), data.symbols.len());
    talk.say(&format!(
        "fold {}/{of}: {samples} samples of {symbols} series, {} features, embargo {}",
        at + 1,
        data.columns.len(),
        fold.embargo
    ));
    for part in gpuforge_train::card::stretches(data, fold) {
        talk.say(&format!(
            "  {:<10} {} to {}, {} samples ({} left out)",
            part.part,
            when(part.from),
            when(part.to),
            part.samples,
            part.purged
        ));
    }
}

fn summary(card: &Card, folder: &Path) -> String {
    let line = |name: &str, scores: &gpuforge_train::score::Scores| {
        let loss = scores.loss.map_or(String::new(), |x| format!("  loss {x:.4}"));
        format!("  {name:<12} {:6.2} % ± {:.2}{loss}\n", 100.0 * scores.accuracy, 100.0 * scores.deviation)
    };
    let mut text = format!("test, {} samples, right answers:\n", card.test.samples);
    text += &line(card.setup.spec.shape.name(), &card.test);
    for baseline in &card.baselines {
        text += &line(&baseline.name, &baseline.scores);
    }
    text + &format!("{:.0} samples/s on {}; {}\n", card.samples_per_second, card.device, folder.display())
}
