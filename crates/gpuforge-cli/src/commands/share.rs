//! `gpuforge share`: hands a calibration on to equal hardware, or takes one over.

use std::path::Path;

use anyhow::Result;
use gpuforge::{
    Forge,
    route::{
        share::{Bundle, ShareError},
        store::{self, Key},
    },
};
use serde_json::json;

use super::probe;
use crate::{
    args::Share,
    context::{Context, env},
    error::Hinted,
};

pub(crate) fn run(args: &Share, context: &Context) -> Result<()> {
    match args {
        Share::Export { file } => export(file, context),
        Share::Import { file } => import(file, context),
    }
}

fn export(file: &Path, context: &Context) -> Result<()> {
    let places = context.places()?;
    let (models, notes) = store::read(&places.data_dir.join(store::FILE));
    notes.iter().for_each(|note| context.out.warn("calibration", note, None));
    if models.is_empty() {
        return Err(Hinted::new("there is nothing to share", "gpuforge calibrate measures first").into());
    }
    let forge = Forge::with_isolation(context.settings(&places, &[]), &places, &env, probe::isolation());
    let inventory = serde_json::to_value(forge.inventory().map_err(anyhow::Error::msg)?)?;
    Bundle::new(&inventory, &models).save(file)?;
    done("wrote", file, &models.iter().map(Key::of).collect::<Vec<_>>(), context)
}

fn import(file: &Path, context: &Context) -> Result<()> {
    let bundle = Bundle::load(file).map_err(hinted)?;
    let places = context.places()?;
    let forge = Forge::with_isolation(context.settings(&places, &[]), &places, &env, probe::isolation());
    let inventory = serde_json::to_value(forge.inventory().map_err(anyhow::Error::msg)?)?;
    let here: Vec<Key> = forge.router()?.sites().iter().map(|s| Key::at(s.as_ref())).collect();
    let models = bundle.accept(file, &inventory, &here).map_err(hinted)?;
    store::save(&places.data_dir.join(store::FILE), &models)?;
    done("took over", file, &models.iter().map(Key::of).collect::<Vec<_>>(), context)
}

/// Every refusal has the same way out.
fn hinted(error: ShareError) -> anyhow::Error {
    let hint = match error {
        ShareError::File { .. } => "give the file that `gpuforge share export` wrote",
        _ => "nothing was changed; `gpuforge calibrate` measures this machine itself",
    };
    Hinted::new(error.to_string(), hint).into()
}

fn done(what: &str, file: &Path, places: &[Key], context: &Context) -> Result<()> {
    if context.out.json {
        return context.out.json(&json!({"file": file, "places": places}));
    }
    let names: Vec<String> = places.iter().map(Key::to_string).collect();
    context.out.text(&format!("{what} the calibration of {}: {}\n", names.join(" and "), file.display()))
}
