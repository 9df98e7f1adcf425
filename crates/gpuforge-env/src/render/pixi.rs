//! Renders `pixi.toml`: Python from conda-forge, the rest from the resolved package indexes.

use super::{ACTIVE_PIP, comments, headline, index_for_all, parse_requirement, project, remarks};
use crate::{
    compat::Accelerator,
    profiles::{EnvPlan, PlannedPackage},
};

/// Our platforms as pixi calls them.
const PLATFORMS: [(&str, &str); 5] = [
    ("linux-x86_64", "linux-64"),
    ("linux-aarch64", "linux-aarch64"),
    ("windows-x86_64", "win-64"),
    ("macos-aarch64", "osx-arm64"),
    ("macos-x86_64", "osx-64"),
];

pub(super) fn render(plan: &EnvPlan) -> String {
    let candidate = &plan.candidate;
    let platform =
        PLATFORMS.iter().find(|(ours, _)| *ours == plan.platform).map_or("linux-64", |(_, pixi)| pixi);
    let mut out = comments(&[headline(plan), "pixi install && pixi run check".to_owned()]);
    out.push_str(&format!("[workspace]\nname = \"{}\"\nchannels = [\"conda-forge\"]\n", project(plan)));
    out.push_str(&format!("platforms = [\"{platform}\"]\n\n[tasks]\ncheck = \"python check_gpu.py\"\n"));
    if let (Accelerator::Cuda, Some(toolkit)) = (candidate.accelerator, &candidate.toolkit) {
        out.push_str(&format!("\n[system-requirements]\ncuda = \"{}\"\n", toolkit.major()));
    }
    let all = candidate.index.as_ref().filter(|_| index_for_all(candidate));
    if let Some(index) = all {
        out.push_str(&format!(
            "\n[pypi-options]\nextra-index-urls = [\"{index}\"]\nindex-strategy = \"unsafe-best-match\"\n"
        ));
    }
    // pip is needed to install packages without wheels.
    let pip = if plan.by_hand.is_empty() { "" } else { "pip = \"*\"\n" };
    out.push_str(&format!(
        "\n[dependencies]\npython = \"{}.*\"\n{pip}\n[pypi-dependencies]\n",
        candidate.python
    ));
    let index = candidate.index.as_deref().filter(|_| all.is_none());
    for package in &plan.packages {
        out.push_str(&dependency(package, index.filter(|_| package.from_index)));
    }
    let remarks = remarks(plan, &format!("pixi run {ACTIVE_PIP}"));
    if !remarks.is_empty() {
        out.push('\n');
        out.push_str(&comments(&remarks));
    }
    out
}

fn dependency(package: &PlannedPackage, index: Option<&str>) -> String {
    let parse_requirement = parse_requirement(&package.pip);
    let version = parse_requirement.version.map_or_else(|| "*".to_owned(), |v| format!("=={v}"));
    if parse_requirement.extras.is_empty() && index.is_none() {
        return format!("{} = \"{version}\"\n", parse_requirement.name);
    }
    let mut fields = vec![format!("version = \"{version}\"")];
    if !parse_requirement.extras.is_empty() {
        let extras: Vec<String> = parse_requirement.extras.iter().map(|e| format!("\"{e}\"")).collect();
        fields.push(format!("extras = [{}]", extras.join(", ")));
    }
    fields.extend(index.map(|index| format!("index = \"{index}\"")));
    format!("{} = {{ {} }}\n", parse_requirement.name, fields.join(", "))
}
