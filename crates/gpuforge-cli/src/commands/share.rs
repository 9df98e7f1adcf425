//! `gpuforge share`: exports a calibration for equal hardware, or imports one.

use std::path::Path;

use anyhow::Result;
use gpuforge::{
    Forge,
    route::{
        bundle::{BundleError, CalibrationBundle},
        store::{self, CalibrationKey},
    },
};
use serde_json::json;

use super::probe;
use crate::{
    args::calibration::Share,
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
    CalibrationBundle::new(&inventory, &models).save(file)?;
    done("wrote", file, &models.iter().map(CalibrationKey::of).collect::<Vec<_>>(), context)
}

fn import(file: &Path, context: &Context) -> Result<()> {
    let bundle = CalibrationBundle::load(file).map_err(hinted)?;
    let places = context.places()?;
    let forge = Forge::with_isolation(context.settings(&places, &[]), &places, &env, probe::isolation());
    let inventory = serde_json::to_value(forge.inventory().map_err(anyhow::Error::msg)?)?;
    let here: Vec<CalibrationKey> =
        forge.router()?.backends().iter().map(|s| CalibrationKey::of_backend(s.as_ref())).collect();
    let models = bundle.accept(file, &inventory, &here).map_err(hinted)?;
    store::save(&places.data_dir.join(store::FILE), &models)?;
    done("imported", file, &models.iter().map(CalibrationKey::of).collect::<Vec<_>>(), context)
}

/// The hint of a rejected bundle.
fn hinted(error: BundleError) -> anyhow::Error {
    let hint = match error {
        BundleError::File { .. } => "give the file that `gpuforge share export` wrote",
        _ => "nothing was changed; `gpuforge calibrate` measures this machine itself",
    };
    Hinted::new(error.to_string(), hint).into()
}

fn done(what: &str, file: &Path, places: &[CalibrationKey], context: &Context) -> Result<()> {
    if context.out.json {
        return context.out.json(&json!({"file": file, "places": places}));
    }
    let names: Vec<String> = places.iter().map(CalibrationKey::to_string).collect();
    context.out.text(&format!("{what} the calibration of {}: {}\n", names.join(" and "), file.display()))
}
