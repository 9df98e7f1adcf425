//! `gpuforge env`: which builds and packages fit a machine; the choice as text, as JSON, as files.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;
use gpuforge::{
    env::{
        compat::{self, Answer, Candidate, Compat, Framework, Machine},
        data::DataError,
        profiles::{self, Fit, Plan, Profile, Profiles},
    },
    settings::Origin,
};
use serde::Serialize;

use super::{
    env_args::{Env, Target, What},
    env_create, env_data, env_machine,
};
use crate::{
    context::Context,
    error::Hinted,
    format::{dotted, width, wrap},
    output::{CARE, DIM, GOOD, HEAD},
};

pub(crate) fn run(args: &Env, context: &Context) -> Result<()> {
    match args {
        Env::Recommend(what) => recommend(what, context),
        Env::Create(create) => env_create::run(create, context),
        Env::List(target) => list(target, context),
        Env::Show { name, what, target } => show(name, what, target, context),
        Env::Update { from } => env_data::update(from, context),
        Env::CheckData => env_data::check(context),
    }
}

/// The tables of this run.
pub(crate) struct Tables {
    pub(crate) compat: Compat,
    pub(crate) profiles: Profiles,
}

impl Tables {
    /// The user's where they hold, else ours; what does not hold is said.
    pub(crate) fn load(context: &Context) -> Result<Tables> {
        let places = context.places()?;
        let compat = compat::load(Some(&places.data_dir));
        let (profiles, own) = profiles::load(Some(&places.data_dir));
        let ours = [compat.problem, profiles.problem];
        for problem in ours.into_iter().flatten() {
            warn(
                context,
                &problem,
                "the table that came with gpuforge is used; `gpuforge env check-data` checks yours",
            );
        }
        for problem in own {
            warn(context, &problem, "the profile is passed over");
        }
        Ok(Tables { compat: compat.value, profiles: profiles.value })
    }
}

fn warn(context: &Context, problem: &DataError, hint: &str) {
    context.out.warn("data", &problem.to_string(), Some(hint));
}

/// Everything that was decided.
#[derive(Serialize)]
pub(crate) struct Choice {
    pub(crate) machine: Machine,
    pub(crate) framework: String,
    pub(crate) plan: Plan,
    pub(crate) fit: Fit,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) rejected: Vec<compat::Rejected>,
}

/// Decides for a machine.
pub(crate) fn decide(tables: &Tables, what: &What, machine: Machine, context: &Context) -> Result<Choice> {
    let framework = framework(tables, what.framework.framework.as_deref(), context)?;
    let answer = compat::choose(&tables.compat, framework, &machine, what.framework.python.as_ref());
    let best = best(framework, &answer, &machine)?;
    let make = |profile: &Profile| {
        let plan = profiles::plan(&tables.profiles, profile, best, &framework.import, &machine);
        let fit = profiles::fit(profile, &machine, &plan);
        (plan, fit)
    };
    let own;
    let (plan, fit) = match asked_profile(what.profile.as_deref(), context)? {
        Some(name) => {
            own = profile(tables, &name)?;
            make(&own)
        }
        // Of equal fits the one that asks for more: it makes use of the machine.
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

/// The flag, or the setting if somebody set it.
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

/// A profile by name, or the file that is named.
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

fn best<'a>(framework: &Framework, answer: &'a Answer, machine: &Machine) -> Result<&'a Candidate> {
    answer.candidates.first().ok_or_else(|| {
        let what = format!("no build of {} runs on {}", framework.title, machine.platform());
        let why = answer.rejected.first().map_or_else(String::new, |r| format!("{} {}", r.build, r.reason));
        Hinted::new(what, if why.is_empty() { "another framework or Python".to_owned() } else { why }).into()
    })
}

fn recommend(what: &What, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let machine = env_machine::machine(&what.target, &tables.compat, context)?;
    let choice = decide(&tables, what, machine, context)?;
    if context.out.json {
        return context.out.json(&choice);
    }
    context.out.text(&page(&choice, context.out.verbose, width()))
}

/// The choice for people.
fn page(choice: &Choice, verbose: bool, width: usize) -> String {
    let Plan { candidate, .. } = &choice.plan;
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

/// Builds by the reason that speaks against them, in the order in which reasons come.
fn not_chosen(choice: &Choice) -> Vec<(String, Vec<String>)> {
    let behind = choice.candidates.iter().skip(1).map(|other| {
        let why = match other.cautions.first() {
            Some(caution) => format!("ranks behind: {caution}"),
            None if other.version < choice.plan.candidate.version => "would do; older".to_owned(),
            None => "would do; ranks behind".to_owned(),
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

/// The machine in a line or two.
pub(crate) fn machine_lines(machine: &Machine, width: usize) -> String {
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

/// A profile in a list.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    title: &'a str,
    fit: u8,
    reasons: Vec<String>,
    least_gib: f64,
    good_gib: f64,
}

fn list(target: &Target, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let machine = env_machine::machine(target, &tables.compat, context)?;
    let framework = framework(&tables, None, context)?;
    let answer = compat::choose(&tables.compat, framework, &machine, None);
    let best = best(framework, &answer, &machine)?;
    let mut listed: Vec<Listed<'_>> = tables
        .profiles
        .profile
        .iter()
        .map(|profile| {
            let plan = profiles::plan(&tables.profiles, profile, best, &framework.import, &machine);
            let Fit { points, reasons } = profiles::fit(profile, &machine, &plan);
            Listed {
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

fn show(name: &str, what: &super::env_args::Framework, target: &Target, context: &Context) -> Result<()> {
    let tables = Tables::load(context)?;
    let profile = profile(&tables, name)?;
    let machine = env_machine::machine(target, &tables.compat, context)?;
    let framework = framework(&tables, what.framework.as_deref(), context)?;
    let answer = compat::choose(&tables.compat, framework, &machine, what.python.as_ref());
    let best = best(framework, &answer, &machine)?;
    let plan = profiles::plan(&tables.profiles, &profile, best, &framework.import, &machine);
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
