//! `gpuforge env create`: the files of an environment; nothing that is there is replaced unless that is asked for.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use gpuforge::env::{
    compat,
    render::{self, CHECK_FILE, FORMATS, Format},
};
use serde::Serialize;

use super::{
    env::{Choice, Tables, decide},
    env_args::Create,
    env_install::{self, Installed, Tool},
    env_machine,
};
use crate::{
    context::Context,
    error::Hinted,
    format::{width, wrap},
    output::DIM,
};

/// A file to write.
struct Page {
    path: PathBuf,
    text: String,
}

/// What was done.
#[derive(Serialize)]
struct Done<'a> {
    files: Vec<PathBuf>,
    #[serde(flatten)]
    choice: &'a Choice,
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<Installed>,
}

pub(crate) fn run(args: &Create, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let machine = env_machine::machine(&args.what.target, &tables.compat, context)?;
    let (formats, tool) = formats(args)?;
    let choice = decide(&tables, &args.what, machine.clone(), context)?;
    // Containers run Linux, whatever runs them.
    let inside = formats
        .iter()
        .any(|f| f.container)
        .then(|| decide(&tables, &args.what, machine.in_container(), context));
    let inside = inside.transpose()?;
    let of = |format: &Format| inside.as_ref().filter(|_| format.container).unwrap_or(&choice);
    if args.output == Path::new("-") {
        return match formats.as_slice() {
            [one] => context.out.text(&(one.render)(&of(one).plan)),
            _ => Err(Hinted::usage("-o - prints one format", "name one: --format pip").into()),
        };
    }
    let mut pages: Vec<Page> = formats
        .iter()
        .map(|f| Page { path: args.output.join(f.file), text: (f.render)(&of(f).plan) })
        .collect();
    let last = formats.last().map_or(&choice, |f| of(f));
    pages.push(Page { path: args.output.join(CHECK_FILE), text: render::check_script(&last.plan) });
    let files = write_all(&pages, &args.output, args.force)?;
    for file in files.iter().filter(|_| context.out.talks()) {
        context.out.text(&format!("wrote {}\n", file.display()))?;
    }
    for caution in choice.plan.candidate.cautions.iter().filter(|_| !context.out.json) {
        context.out.warn(&choice.plan.candidate.requirement, caution, None);
    }
    let installed =
        tool.map(|tool| env_install::run(tool, &args.output, &choice.plan, context)).transpose()?;
    let failed = installed.as_ref().and_then(Installed::failure);
    if context.out.json {
        context.out.json(&Done { files, choice: &choice, installed })?;
    } else if !args.install && context.out.talks() {
        context.out.text(&next_steps(&formats))?;
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// The formats that were asked for, and what installs one of them.
fn formats(args: &Create) -> Result<(Vec<&'static Format>, Option<&'static Tool>)> {
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
    let asked: Vec<&'static Format> = match args.format.as_slice() {
        [all] if all.eq_ignore_ascii_case("all") => FORMATS.iter().collect(),
        names => names.iter().map(named).collect::<Result<_>>()?,
    };
    let usual = || FORMATS.iter().take(1).collect::<Vec<_>>();
    if !args.install {
        return Ok((if asked.is_empty() { usual() } else { asked }, None));
    }
    if args.output == Path::new("-") {
        return Err(Hinted::usage("--install needs files, -o - writes none", "name a folder: -o DIR").into());
    }
    let tool = env_install::tool(&asked)?;
    let its = render::find(tool.format).into_iter().collect();
    Ok((if asked.is_empty() { its } else { asked }, Some(tool)))
}

/// Writes all or nothing: what is in the way is found before anything is written.
fn write_all(pages: &[Page], dir: &Path, force: bool) -> Result<Vec<PathBuf>> {
    let same = |page: &Page| std::fs::read_to_string(&page.path).is_ok_and(|text| text == page.text);
    let in_the_way = |page: &&Page| !force && page.path.symlink_metadata().is_ok() && !same(page);
    if let Some(page) = pages.iter().find(in_the_way) {
        let what = format!("{} is there already; nothing was written", page.path.display());
        return Err(Hinted::new(what, "--force replaces it; -o DIR writes somewhere else").into());
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for page in pages.iter().filter(|page| !same(page)) {
        write(page, dir, force).with_context(|| format!("cannot write {}", page.path.display()))?;
    }
    Ok(pages.iter().map(|page| page.path.clone()).collect())
}

fn write(page: &Page, dir: &Path, force: bool) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".gpuforge-").tempfile_in(dir)?;
    file.write_all(page.text.as_bytes())?;
    #[cfg(unix)]
    {
        // A temporary file is its owner's alone; these are for everybody who works here.
        use std::os::unix::fs::PermissionsExt as _;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    // Without --force a file that appeared meanwhile is not replaced either.
    let kept = if force { file.persist(&page.path) } else { file.persist_noclobber(&page.path) };
    kept.map(drop).map_err(|e| e.error)
}

/// What to do with the files: their own second line says it.
fn next_steps(formats: &[&Format]) -> String {
    let files: Vec<&str> = formats.iter().map(|f| f.file).collect();
    let text = format!("the first lines of {} say how to install; then run {CHECK_FILE}", files.join(", "));
    format!("{DIM}{}{DIM:#}", wrap(&text, 0, width()))
}
