//! `gpuforge env`: framework builds and packages that run on a machine: recommend, list, show; files by `env/create.rs`.

mod create;
mod data;
mod install;
pub(crate) mod target;

use std::{fmt::Write as _, path::Path};

use anyhow::Result;
use gpuforge::{
    env::{
        compat::{self, Candidate, CompatTable, Framework, HostSpec, Resolution},
        data::DataError,
        profiles::{self, EnvPlan, Profile, ProfileFit, Profiles},
    },
    settings::Origin,
};
use serde::Serialize;

use crate::{
    args::env::{Env, EnvArgs, FrameworkArgs, TargetArgs},
    context::Context,
    error::Hinted,
    format::{dotted, width, wrap},
    output::{CARE, DIM, GOOD, HEAD},
};

pub(crate) fn run(args: &Env, context: &Context) -> Result<()> {
    match args {
        Env::Recommend(args) => recommend(args, context),
        Env::Create(create) => create::run(create, context),
        Env::List(target) => list(target, context),
        Env::Show { name, framework, target } => show(name, framework, target, context),
        Env::Update { from } => data::update(from, context),
        Env::CheckData => data::check(context),
    }
}

/// The tables of this run.
pub(crate) struct Tables {
    pub(crate) compat: CompatTable,
    pub(crate) profiles: Profiles,
}

impl Tables {
    /// The user's tables if valid, else the embedded ones; an invalid table is a warning.
    pub(crate) fn load(context: &Context) -> Result<Tables> {
        let places = context.places()?;
        let compat = compat::load(Some(&places.data_dir));
        let (profiles, own_problems) = profiles::load(Some(&places.data_dir));
        let table_problems = [compat.problem, profiles.problem];
        for problem in table_problems.into_iter().flatten() {
            warn(
                context,
                &problem,
                "the table that came with gpuforge is used; `gpuforge env check-data` checks yours",
            );
        }
        for problem in own_problems {
            warn(context, &problem, "the profile is skipped");
        }
        Ok(Tables { compat: compat.value, profiles: profiles.value })
    }
}

fn warn(context: &Context, problem: &DataError, hint: &str) {
    context.out.warn("data", &problem.to_string(), Some(hint));
}

/// The chosen build, profile and packages, with the rejected candidates.
#[derive(Serialize)]
pub(crate) struct Choice {
    pub(crate) machine: HostSpec,
    pub(crate) framework: String,
    pub(crate) plan: EnvPlan,
    pub(crate) fit: ProfileFit,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) rejected: Vec<compat::Rejected>,
}

/// Chooses a build and a profile for a machine.
pub(crate) fn decide(
    tables: &Tables,
    args: &EnvArgs,
    machine: HostSpec,
    context: &Context,
) -> Result<Choice> {
    let framework = framework(tables, args.framework.framework.as_deref(), context)?;
    let answer = compat::resolve(&tables.compat, framework, &machine, args.framework.python.as_ref());
    let best = best(framework, &answer, &machine)?;
    let make = |profile: &Profile| {
        let plan = profiles::plan_env(&tables.profiles, profile, best, &framework.import, &machine);
        let fit = profiles::fit(profile, &machine, &plan);
        (plan, fit)
    };
    let own;
    let (plan, fit) = match asked_profile(args.profile.as_deref(), context)? {
        Some(name) => {
            own = profile(tables, &name)?;
            make(&own)
        }
        // Ties go to the profile with the larger memory requirement: it makes better use of the machine.
        None => {
            let all = tables.profiles.profile.iter().map(|p| (make(p), p.good));
            let best = all.max_by(|((_, a), x), ((_, b), y)| a.points.cmp(&b.points).then(x.total_cmp(y)));
            best.map(|(made, _)| made)
                .ok_or_else(|| Hinted::new("there is no profile", "`gpuforge env check-data`"))?
        }
    };
    let framework = framework.name.clone();
    Ok(Choice { framework, plan, fit, candidates: answer.candidates, rejected: answer.rejected, machine })
}

/// `--profile`, else the setting `preferred_profile` unless it is the default.
fn asked_profile(flag: Option<&str>, context: &Context) -> Result<Option<String>> {
    if let Some(name) = flag {
        return Ok(Some(name.to_owned()));
    }
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    let set = settings.get("preferred_profile").is_ok_and(|r| !matches!(r.origin, Origin::Default));
    Ok(set.then(|| settings.preferred_profile().to_owned()))
}

pub(crate) fn framework<'a>(
    tables: &'a Tables,
    flag: Option<&str>,
    context: &Context,
) -> Result<&'a Framework> {
    let places = context.places()?;
    let name = flag.unwrap_or_else(|| context.settings(&places, &[]).default_framework());
    tables.compat.framework(name).ok_or_else(|| {
        let names: Vec<&str> = tables.compat.framework.iter().map(|f| f.name.as_str()).collect();
        let hint = match compat::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("one of {}", names.join(", ")),
        };
        Hinted::usage(format!("there is no framework {name:.40?}"), hint).into()
    })
}

/// A profile by name, or from a TOML file.
pub(crate) fn profile(tables: &Tables, name: &str) -> Result<Profile> {
    if name.ends_with(".toml") || name.contains(['/', '\\']) {
        return profiles::read_one(Path::new(name))
            .map_err(|e| Hinted::usage(e.to_string(), "docs/environments.md shows such a file").into());
    }
    tables.profiles.find(name).cloned().ok_or_else(|| {
        let names = tables.profiles.profile.iter().map(|p| p.name.as_str());
        let hint = match compat::nearest(&name.replace('-', "_"), names) {
            Some(near) => format!("did you mean {near}?"),
            None => "`gpuforge env list` has the names".to_owned(),
        };
        Hinted::usage(format!("there is no profile {name:.40?}"), hint).into()
    })
}

fn best<'a>(framework: &Framework, answer: &'a Resolution, machine: &HostSpec) -> Result<&'a Candidate> {
    answer.candidates.first().ok_or_else(|| {
        let what = format!("no build of {} runs on {}", framework.title, machine.platform());
        let why = answer.rejected.first().map_or_else(String::new, |r| format!("{} {}", r.build, r.reason));
        Hinted::new(what, if why.is_empty() { "another framework or Python".to_owned() } else { why }).into()
    })
}

fn recommend(args: &EnvArgs, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let machine = target::machine(&args.target, &tables.compat, context)?;
    let choice = decide(&tables, args, machine, context)?;
    if context.out.json {
        return context.out.json(&choice);
    }
    context.out.text(&page(&choice, context.out.verbose, width()))
}

/// The recommendation as text.
fn page(choice: &Choice, verbose: bool, width: usize) -> String {
    let EnvPlan { candidate, .. } = &choice.plan;
    let mut out = machine_lines(&choice.machine, width);
    let _ = writeln!(out, "{HEAD}Use{HEAD:#}\n  {GOOD}{}{GOOD:#}", candidate.requirement);
    let place =
        candidate.index.as_ref().map_or_else(|| "the default index".to_owned(), |i| format!("index {i}"));
    out.push_str(&dotted(&[format!("Python {}", candidate.python), place], 2, width));
    lines(&mut out, "because", &candidate.reasons, width);
    lines(&mut out, "careful", &candidate.cautions, width);
    lines(&mut out, "note", &candidate.notes, width);
    let _ = writeln!(
        out,
        "{HEAD}Profile{HEAD:#}\n  {} {DIM}· fit {} of 100{DIM:#}",
        choice.plan.profile, choice.fit.points
    );
    lines(&mut out, "because", &choice.fit.reasons, width);
    lines(&mut out, "advice", &choice.plan.advice, width);
    let _ = writeln!(out, "{HEAD}Not chosen{HEAD:#}");
    let few = if verbose { usize::MAX } else { 4 };
    let others = not_chosen(choice);
    for (why, builds) in others.iter().take(few) {
        let named = builds.get(..few.min(builds.len())).unwrap_or_default().join(", ");
        let rest = builds.len().saturating_sub(few);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        out.push_str(&wrap(&format!("{named}{rest}: {why}"), 2, width));
    }
    let more = others.len().saturating_sub(few);
    if more > 0 {
        let _ = writeln!(out, "  {DIM}and {more} more reasons: --verbose lists all{DIM:#}");
    }
    let next = "`gpuforge env create` with the same flags writes the files that install it";
    let _ = write!(out, "{DIM}{}{DIM:#}", wrap(next, 0, width));
    out
}

/// Rejected builds, grouped by reason.
fn not_chosen(choice: &Choice) -> Vec<(String, Vec<String>)> {
    let behind = choice.candidates.iter().skip(1).map(|other| {
        let why = match other.cautions.first() {
            Some(caution) => format!("ranks lower: {caution}"),
            None if other.version < choice.plan.candidate.version => "works; older".to_owned(),
            None => "works; ranks lower".to_owned(),
        };
        (why, format!("{} {}", other.version, other.build))
    });
    let rejected = choice.rejected.iter().map(|other| {
        let version = other.version.as_ref().map_or_else(String::new, |v| format!("{v} "));
        (other.reason.clone(), format!("{version}{}", other.build))
    });
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (why, build) in behind.chain(rejected) {
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, builds)) => builds.push(build),
            None => groups.push((why, vec![build])),
        }
    }
    groups
}

/// The machine, one or two lines.
pub(crate) fn machine_lines(machine: &HostSpec, width: usize) -> String {
    let mut parts = vec![machine.platform()];
    match &machine.gpu {
        Some(gpu) => {
            parts.push(gpu.name.clone());
            parts.extend(gpu.target.clone());
            parts.extend(gpu.gib().map(|gib| format!("{gib} GiB")));
        }
        None => parts.push("no GPU".to_owned()),
    }
    parts.extend(machine.driver.as_ref().map(|d| format!("driver {d}")));
    let mut out = format!("{HEAD}Machine{HEAD:#}\n{}", dotted(&parts, 2, width));
    lines(&mut out, "note", &machine.notes, width);
    out
}

/// Labelled lines.
fn lines(out: &mut String, label: &str, texts: &[String], width: usize) {
    let style = if label == "careful" { CARE } else { DIM };
    for text in texts {
        let wrapped = wrap(&format!("{label}: {text}"), 2, width);
        out.push_str(&wrapped.replacen(&format!("{label}:"), &format!("{style}{label}:{style:#}"), 1));
    }
}

/// A row of `env list`.
#[derive(Serialize)]
struct ListedProfile<'a> {
    name: &'a str,
    title: &'a str,
    fit: u8,
    reasons: Vec<String>,
    least_gib: f64,
    good_gib: f64,
}

fn list(target_args: &TargetArgs, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let machine = target::machine(target_args, &tables.compat, context)?;
    let framework = framework(&tables, None, context)?;
    let answer = compat::resolve(&tables.compat, framework, &machine, None);
    let best = best(framework, &answer, &machine)?;
    let mut listed: Vec<ListedProfile<'_>> = tables
        .profiles
        .profile
        .iter()
        .map(|profile| {
            let plan = profiles::plan_env(&tables.profiles, profile, best, &framework.import, &machine);
            let ProfileFit { points, reasons } = profiles::fit(profile, &machine, &plan);
            ListedProfile {
                name: &profile.name,
                title: &profile.title,
                fit: points,
                reasons,
                least_gib: profile.least,
                good_gib: profile.good,
            }
        })
        .collect();
    listed.sort_by_key(|l| std::cmp::Reverse(l.fit));
    if context.out.json {
        return context
            .out
            .json(&serde_json::json!({"machine": machine, "framework": framework.name, "profiles": listed}));
    }
    let width = width();
    let mut out = machine_lines(&machine, width);
    let _ = writeln!(out, "{HEAD}Profiles{HEAD:#} {DIM}· fit of 100, with {}{DIM:#}", framework.title);
    for item in &listed {
        let style = if item.fit >= 60 { GOOD } else { CARE };
        let _ = writeln!(out, "  {style}{:>3}{style:#}  {HEAD}{}{HEAD:#}", item.fit, item.name);
        out.push_str(&wrap(item.title, 7, width));
        if context.out.verbose {
            item.reasons.iter().for_each(|reason| out.push_str(&wrap(reason, 7, width)));
        }
    }
    context.out.text(&out)
}

fn show(name: &str, wanted: &FrameworkArgs, target_args: &TargetArgs, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let profile = profile(&tables, name)?;
    let machine = target::machine(target_args, &tables.compat, context)?;
    let framework = framework(&tables, wanted.framework.as_deref(), context)?;
    let answer = compat::resolve(&tables.compat, framework, &machine, wanted.python.as_ref());
    let best = best(framework, &answer, &machine)?;
    let plan = profiles::plan_env(&tables.profiles, &profile, best, &framework.import, &machine);
    let fit = profiles::fit(&profile, &machine, &plan);
    if context.out.json {
        return context.out.json(&serde_json::json!({"machine": machine, "plan": plan, "fit": fit,
            "least_gib": profile.least, "good_gib": profile.good}));
    }
    let width = width();
    let mut out = format!("{HEAD}{}{HEAD:#} {DIM}· fit {} of 100{DIM:#}\n", profile.name, fit.points);
    out.push_str(&wrap(&profile.title, 2, width));
    let memory = format!("GPU memory: {} GiB at least, {} GiB is good", profile.least, profile.good);
    out.push_str(&wrap(&memory, 2, width));
    lines(&mut out, "because", &fit.reasons, width);
    let packages: Vec<String> = plan.packages.iter().map(|p| p.pip.clone()).collect();
    let _ = writeln!(out, "{HEAD}Packages{HEAD:#}");
    out.push_str(&dotted(&packages, 2, width));
    let by_hand: Vec<String> = plan.by_hand.iter().map(|b| format!("{}: {}", b.name, b.command)).collect();
    lines(&mut out, "afterwards", &by_hand, width);
    let left_out: Vec<String> = plan.left_out.iter().map(|l| format!("{}: {}", l.name, l.reason)).collect();
    lines(&mut out, "left out", &left_out, width);
    lines(&mut out, "advice", &plan.advice, width);
    context.out.text(&out)
}
