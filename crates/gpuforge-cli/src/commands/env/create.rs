//! `gpuforge env create`: writes the files of an environment; existing files are kept without --force.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use gpuforge::env::{
    compat,
    render::{self, CHECK_FILE, EnvFormat, FORMATS},
};
use serde::Serialize;

use super::{
    Choice, Tables, decide,
    install::{self, InstallReport, Installer},
    target,
};
use crate::{
    args::env::EnvCreate,
    context::Context,
    error::Hinted,
    format::{width, wrap},
    output::DIM,
};

/// A file to write.
struct OutputFile {
    path: PathBuf,
    text: String,
}

/// JSON document.
#[derive(Serialize)]
struct CreateReport<'a> {
    files: Vec<PathBuf>,
    #[serde(flatten)]
    choice: &'a Choice,
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<InstallReport>,
}

pub(crate) fn run(args: &EnvCreate, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let machine = target::machine(&args.env.target, &tables.compat, context)?;
    let (formats, tool) = formats(args)?;
    let choice = decide(&tables, &args.env, machine.clone(), context)?;
    // Containers run Linux, whatever the host is.
    let inside = formats
        .iter()
        .any(|f| f.container)
        .then(|| decide(&tables, &args.env, machine.in_container(), context));
    let inside = inside.transpose()?;
    let of = |format: &EnvFormat| inside.as_ref().filter(|_| format.container).unwrap_or(&choice);
    if args.output == Path::new("-") {
        return match formats.as_slice() {
            [one] => context.out.text(&(one.render)(&of(one).plan)),
            _ => Err(Hinted::usage("-o - prints one format", "name one: --format pip").into()),
        };
    }
    let mut pages: Vec<OutputFile> = formats
        .iter()
        .map(|f| OutputFile { path: args.output.join(f.file), text: (f.render)(&of(f).plan) })
        .collect();
    let last = formats.last().map_or(&choice, |f| of(f));
    pages.push(OutputFile { path: args.output.join(CHECK_FILE), text: render::check_script(&last.plan) });
    let files = write_all(&pages, &args.output, args.force)?;
    for file in files.iter().filter(|_| context.out.prints_notes()) {
        context.out.text(&format!("wrote {}\n", file.display()))?;
    }
    for caution in choice.plan.candidate.cautions.iter().filter(|_| !context.out.json) {
        context.out.warn(&choice.plan.candidate.requirement, caution, None);
    }
    let installed = tool.map(|tool| install::run(tool, &args.output, &choice.plan, context)).transpose()?;
    let failed = installed.as_ref().and_then(InstallReport::failure);
    if context.out.json {
        context.out.json(&CreateReport { files, choice: &choice, installed })?;
    } else if !args.install && context.out.prints_notes() {
        context.out.text(&next_steps(&formats))?;
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// The requested formats, and the tool that installs one of them.
fn formats(args: &EnvCreate) -> Result<(Vec<&'static EnvFormat>, Option<&'static Installer>)> {
    let named = |name: &String| {
        render::find(name).ok_or_else(|| {
            let names = FORMATS.map(|f| f.name);
            let hint = match compat::nearest(name, names) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("one of {}, or all", names.join(", ")),
            };
            anyhow::Error::from(Hinted::usage(format!("there is no format {name:.40?}"), hint))
        })
    };
    let asked: Vec<&'static EnvFormat> = match args.format.as_slice() {
        [all] if all.eq_ignore_ascii_case("all") => FORMATS.iter().collect(),
        names => names.iter().map(named).collect::<Result<_>>()?,
    };
    let usual = || FORMATS.iter().take(1).collect::<Vec<_>>();
    if !args.install {
        return Ok((if asked.is_empty() { usual() } else { asked }, None));
    }
    if args.output == Path::new("-") {
        return Err(
            Hinted::usage("--install needs files, -o - writes none", "name a directory: -o DIR").into()
        );
    }
    let tool = install::tool(&asked)?;
    let its = render::find(tool.format).into_iter().collect();
    Ok((if asked.is_empty() { its } else { asked }, Some(tool)))
}

/// Writes all files or none: conflicts are found before anything is written.
fn write_all(pages: &[OutputFile], dir: &Path, force: bool) -> Result<Vec<PathBuf>> {
    let same = |page: &OutputFile| std::fs::read_to_string(&page.path).is_ok_and(|text| text == page.text);
    let conflicts = |page: &&OutputFile| !force && page.path.symlink_metadata().is_ok() && !same(page);
    if let Some(page) = pages.iter().find(conflicts) {
        let what = format!("{} exists already; nothing was written", page.path.display());
        return Err(Hinted::new(what, "--force replaces it; -o DIR writes somewhere else").into());
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for page in pages.iter().filter(|page| !same(page)) {
        write(page, dir, force).with_context(|| format!("cannot write {}", page.path.display()))?;
    }
    Ok(pages.iter().map(|page| page.path.clone()).collect())
}

fn write(page: &OutputFile, dir: &Path, force: bool) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".gpuforge-").tempfile_in(dir)?;
    file.write_all(page.text.as_bytes())?;
    // Temporary files are created with mode 0600; these are for everybody who works here.
    if let Some(mode) = gpuforge::os::files::with_mode(0o644) {
        file.as_file().set_permissions(mode)?;
    }
    // Without --force a file that appeared meanwhile is not overwritten either.
    let kept = if force { file.persist(&page.path) } else { file.persist_noclobber(&page.path) };
    kept.map(drop).map_err(|e| e.error)
}

/// Next step: the header of each file has the install command.
fn next_steps(formats: &[&EnvFormat]) -> String {
    let files: Vec<&str> = formats.iter().map(|f| f.file).collect();
    let text = format!("the first lines of {} say how to install; then run {CHECK_FILE}", files.join(", "));
    format!("{DIM}{}{DIM:#}", wrap(&text, 0, width()))
}
