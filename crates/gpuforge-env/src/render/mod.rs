//! Environment file renderers: requirements.txt, pyproject.toml (uv), environment.yml (conda), pixi.toml, Dockerfile, Apptainer.
//!
//! Every format is a pure function from a [`EnvPlan`] to the text of a file, and a row of [`FORMATS`]. All of them require
//! the same packages; they differ in who installs them.

mod apptainer;
mod check_script;
mod conda;
mod docker;
mod pip;
mod pixi;
mod uv;

pub use check_script::{CHECK_FILE, check_script};

use crate::{
    compat::{Accelerator, Candidate},
    profiles::EnvPlan,
};

/// An environment file format.
#[derive(Debug, Clone, Copy)]
pub struct EnvFormat {
    /// Its name on the command line.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// The file it is written to.
    pub file: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// It runs in a container, whatever the machine's own system is.
    pub container: bool,
    /// The text of the file.
    pub render: fn(&EnvPlan) -> String,
}

/// Every format; the first is the usual one.
pub const FORMATS: [EnvFormat; 6] = [
    EnvFormat {
        name: "pip",
        aliases: &["requirements", "requirements.txt"],
        file: "requirements.txt",
        about: "requirements for pip and uv, with index lines",
        container: false,
        render: pip::render,
    },
    EnvFormat {
        name: "uv",
        aliases: &["pyproject", "pyproject.toml"],
        file: "pyproject.toml",
        about: "a project for uv",
        container: false,
        render: uv::render,
    },
    EnvFormat {
        name: "conda",
        aliases: &["mamba", "environment.yml"],
        file: "environment.yml",
        about: "an environment for conda, mamba and micromamba",
        container: false,
        render: conda::render,
    },
    EnvFormat {
        name: "pixi",
        aliases: &["pixi.toml"],
        file: "pixi.toml",
        about: "a workspace for pixi",
        container: false,
        render: pixi::render,
    },
    EnvFormat {
        name: "docker",
        aliases: &["dockerfile", "podman"],
        file: "Dockerfile",
        about: "an image for Docker and Podman",
        container: true,
        render: docker::render,
    },
    EnvFormat {
        name: "apptainer",
        aliases: &["singularity"],
        file: "gpuforge.def",
        about: "an image for Apptainer",
        container: true,
        render: apptainer::render,
    },
];

/// A format by name.
pub fn find(name: &str) -> Option<&'static EnvFormat> {
    let name = name.to_ascii_lowercase();
    FORMATS.iter().find(|f| f.name == name || f.aliases.contains(&name.as_str()))
}

/// Is this name safe in every format without quoting: letters, digits, and the signs of requirements?
pub fn is_safe_name(word: &str) -> bool {
    let sign = |c: char| c.is_ascii_alphanumeric() || "-_.[]=,".contains(c);
    word.len() <= 100 && word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(sign)
}

/// The first comment of a file: what it is for.
fn headline(plan: &EnvPlan) -> String {
    let Candidate { framework, version, accelerator, toolkit, python, .. } = &plan.candidate;
    let with = toolkit
        .as_ref()
        .map_or_else(|| accelerator.title().to_owned(), |t| format!("{} {t}", accelerator.title()));
    format!(
        "{} with {framework} {version} for {with}, Python {python}, {}; written by gpuforge",
        plan.profile, plan.platform
    )
}

/// Name of the project or environment.
fn project(plan: &EnvPlan) -> String {
    format!("gpuforge-{}", plan.profile.to_ascii_lowercase().replace('_', "-"))
}

/// pip of the active environment, as the tables spell it.
const ACTIVE_PIP: &str = "python -m pip";

/// Comments on what the file cannot express; `pip` is the environment's own.
fn remarks(plan: &EnvPlan, pip: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(floor) = &plan.candidate.driver_floor {
        lines.push(format!("needs NVIDIA driver {floor} or newer"));
    }
    if !plan.by_hand.is_empty() {
        lines.push(
            "no wheels; with a compiler, the CUDA toolkit, setuptools and ninja, afterwards:".to_owned(),
        );
        lines.extend(plan.by_hand.iter().map(|b| format!("  {}", b.command.replacen(ACTIVE_PIP, pip, 1))));
    }
    if !plan.left_out.is_empty() {
        lines.push("left out:".to_owned());
        lines.extend(plan.left_out.iter().map(|l| format!("  {}: {}", l.name, l.reason)));
    }
    lines
}

/// Lines as comments with `#`.
fn comments(lines: &[String]) -> String {
    lines.iter().map(|line| format!("# {line}\n")).collect()
}

/// ROCm and XPU wheels depend on packages that only their index has: it must apply to every package, not only torch.
fn index_for_all(candidate: &Candidate) -> bool {
    matches!(candidate.accelerator, Accelerator::Rocm | Accelerator::Xpu)
}

/// Options and requirements of `pip install`, one a line, for a shell.
fn pip_lines(plan: &EnvPlan) -> Vec<String> {
    let index = plan.candidate.index.iter().map(|index| format!("--extra-index-url {index}"));
    index.chain(plan.packages.iter().map(|p| format!("\"{}\"", p.pip))).collect()
}

/// Parsed requirement `name[extra]==version`.
struct Requirement<'a> {
    name: &'a str,
    extras: Vec<&'a str>,
    version: Option<&'a str>,
}

fn parse_requirement(requirement: &str) -> Requirement<'_> {
    let (full, version) = match requirement.split_once("==") {
        Some((full, version)) => (full, Some(version)),
        None => (requirement, None),
    };
    let (name, extras) = match full.split_once('[') {
        Some((name, extras)) => (name, extras.trim_end_matches(']').split(',').collect()),
        None => (full, Vec::new()),
    };
    Requirement { name, extras, version }
}
