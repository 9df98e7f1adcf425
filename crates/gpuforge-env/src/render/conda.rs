//! Renders `environment.yml`: conda-forge, and pip where conda-forge has no such build.
//!
//! The channel `pytorch` ended with 2.5 and is never named. conda-forge builds PyTorch itself: its version is left to
//! the solver, constrained by `cuda-version`.

use super::{ACTIVE_PIP, comments, headline, project, remarks};
use crate::profiles::EnvPlan;

pub(super) fn render(plan: &EnvPlan) -> String {
    let mut out = comments(&[
        headline(plan),
        format!("conda env create -f environment.yml && conda activate {}", project(plan)),
    ]);
    out.push_str(&format!(
        "name: {}\nchannels:\n  - conda-forge\n  - nodefaults\ndependencies:\n",
        project(plan)
    ));
    out.push_str(&format!("  - python={}\n  - pip\n", plan.candidate.python));
    // conda packages that depend on the framework would install conda's copy beside pip's: then pip installs them all.
    let ours = !plan.candidate.conda.is_empty();
    let (mut conda, mut pip) = (plan.candidate.conda.clone(), Vec::new());
    let skip = usize::from(ours);
    for package in plan.packages.iter().skip(skip) {
        match package.conda.as_ref().filter(|_| ours) {
            Some(name) => conda.push(name.clone()),
            None => pip.push(package.pip.clone()),
        }
    }
    for package in conda {
        out.push_str(&format!("  - {package}\n"));
    }
    if !pip.is_empty() {
        out.push_str("  - pip:\n");
        if let Some(index) = plan.candidate.index.as_ref().filter(|_| !ours) {
            out.push_str(&format!("      - --extra-index-url {index}\n"));
        }
        for package in pip {
            out.push_str(&format!("      - {package}\n"));
        }
    }
    out.push_str(&comments(&remarks(plan, &format!("conda run -n {} {ACTIVE_PIP}", project(plan)))));
    out
}
