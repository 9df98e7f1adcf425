//! `gpuforge config`: settings with their origin, stored with the user's comments kept.

use std::{fmt::Write as _, path::Path, process::Command};

use anyhow::{Context as _, Result};
use gpuforge::settings::{self, Settings, UserPaths};
use serde_json::json;

use crate::{
    args::upkeep::Config,
    context::{Context, env, of_device},
    error::Hinted,
    format::{width, wrap},
    output::{DIM, HEAD},
};

pub(crate) fn run(args: &Config, context: &Context) -> Result<()> {
    let places = context.places()?;
    match args {
        Config::List => list(context, &places),
        Config::Get { key } => get(context, &places, key),
        Config::Set { key, value } => {
            let stored = settings::set(&places.config_file, key, value)?;
            if context.out.json {
                return context
                    .out
                    .json(&json!({ "name": key, "value": stored, "file": places.config_file }));
            }
            context.out.text(&format!("{key} = {stored}\n"))?;
            shadowed(context, &places, key)
        }
        Config::Unset { key } => {
            let was_there = settings::unset(&places.config_file, key)?;
            if context.out.json {
                return context.out.json(&json!({ "name": key, "removed": was_there }));
            }
            let what = if was_there { "removed" } else { "was not set" };
            context.out.text(&format!("{key}: {what}\n"))
        }
        Config::Edit => edit(context, &places),
        Config::Path => {
            if context.out.json {
                return context.out.json(
                    &json!({ "config_file": places.config_file, "exists": places.config_file.exists() }),
                );
            }
            context.out.text(&format!("{}\n", places.config_file.display()))
        }
    }
}

/// An invalid device is an error in commands that choose one; here a warning, so that the list is still shown.
fn warn_of_device(context: &Context, settings: &Settings) {
    for problem in settings.warnings().iter().filter(|p| of_device(p)) {
        context.out.warn("settings", &problem.to_string(), problem.hint().as_deref());
    }
}

fn list(context: &Context, places: &UserPaths) -> Result<()> {
    let settings = context.settings(places, &[]);
    warn_of_device(context, settings);
    if context.out.json {
        let rows: Vec<_> = settings
            .all()
            .map(|(key, r)| {
                json!({
                    "name": key.name, "value": r.value, "origin": r.origin.to_string(),
                    "default": key.default_value(), "env": key.env, "doc": key.doc,
                })
            })
            .collect();
        return context.out.json(&rows);
    }
    let mut out = String::new();
    for (key, resolved) in settings.all() {
        let _ = writeln!(
            out,
            "{HEAD}{:<18}{HEAD:#} {:<12} {DIM}{}{DIM:#}",
            key.name,
            resolved.value.to_string(),
            resolved.origin
        );
        if context.out.verbose {
            out.push_str(&wrap(key.doc, 4, width()));
        }
    }
    context.out.text(&out)
}

fn get(context: &Context, places: &UserPaths, key: &str) -> Result<()> {
    let settings = context.settings(places, &[]);
    let resolved = settings.get(key)?;
    if key == "device" {
        warn_of_device(context, settings);
    }
    if context.out.json {
        let origin = resolved.origin.to_string();
        return context.out.json(&json!({ "name": key, "value": resolved.value, "origin": origin }));
    }
    context.out.text(&format!("{}\n", resolved.value))
}

/// Warns if an environment variable overrides the stored value.
fn shadowed(context: &Context, places: &UserPaths, key: &str) -> Result<()> {
    let now = Settings::load_lenient(places, &env, &[]);
    if let settings::Origin::Env(variable) = now.get(key)?.origin {
        context.out.warn("settings", &format!("{variable} is set and overrides the file"), None);
    }
    Ok(())
}

fn edit(context: &Context, places: &UserPaths) -> Result<()> {
    let file = &places.config_file;
    if !file.exists() {
        write_template(file)?;
    }
    let editor = env("VISUAL").or_else(|| env("EDITOR")).filter(|e| !e.trim().is_empty());
    let Some(editor) = editor else {
        let what = "no editor is named".to_owned();
        return Err(Hinted::new(what, format!("set VISUAL or EDITOR, or open {}", file.display())).into());
    };
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(file).status();
    let status = status.with_context(|| format!("cannot start {editor:?}"))?;
    if !status.success() {
        return Err(Hinted::new(format!("{program} ended with {status}"), "the file was not checked").into());
    }
    Settings::load(places, &|_| None, &[])?;
    if context.out.json {
        return context.out.json(&json!({ "config_file": file, "valid": true }));
    }
    context.out.text(&format!("{} is valid\n", file.display()))
}

/// A commented file with every key, for the first edit.
fn write_template(file: &Path) -> Result<()> {
    use std::io::Write as _;
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    // Another process may have been first: its file stays.
    let new = std::fs::File::options().write(true).create_new(true).open(file);
    match new.and_then(|mut f| f.write_all(settings::template().as_bytes())) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(e).with_context(|| format!("cannot write {}", file.display()))
        }
        _ => Ok(()),
    }
}
