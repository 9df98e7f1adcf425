//! `pixi.toml`: a workspace for pixi; Python from conda-forge, the rest from the indexes that the choice names.

use super::{ACTIVE_PIP, comments, headline, parts, project, remarks, serves_all};
use crate::{
    compat::Accelerator,
    profiles::{Member, Plan},
};

/// Our platforms as pixi calls them.
const PLATFORMS: [(&str, &str); 5] = [
    ("linux-x86_64", "linux-64"),
    ("linux-aarch64", "linux-aarch64"),
    ("windows-x86_64", "win-64"),
    ("macos-aarch64", "osx-arm64"),
    ("macos-x86_64", "osx-64"),
];

pub(super) fn render(plan: &Plan) -> String {
    let candidate = &plan.candidate;
    let platform =
        PLATFORMS.iter().find(|(ours, _)| *ours == plan.platform).map_or("linux-64", |(_, pixi)| pixi);
    let mut out = comments(&[headline(plan), "pixi install && pixi run check".to_owned()]);
    out.push_str(&format!("[workspace]\nname = \"{}\"\nchannels = [\"conda-forge\"]\n", project(plan)));
    out.push_str(&format!("platforms = [\"{platform}\"]\n\n[tasks]\ncheck = \"python check_gpu.py\"\n"));
    if let (Accelerator::Cuda, Some(toolkit)) = (candidate.accelerator, &candidate.toolkit) {
        out.push_str(&format!("\n[system-requirements]\ncuda = \"{}\"\n", toolkit.major()));
    }
    let all = candidate.index.as_ref().filter(|_| serves_all(candidate));
    if let Some(index) = all {
        out.push_str(&format!(
            "\n[pypi-options]\nextra-index-urls = [\"{index}\"]\nindex-strategy = \"unsafe-best-match\"\n"
        ));
    }
    // Without it the environment could not install what has no wheels.
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

fn dependency(package: &Member, index: Option<&str>) -> String {
    let parts = parts(&package.pip);
    let version = parts.version.map_or_else(|| "*".to_owned(), |v| format!("=={v}"));
    if parts.extras.is_empty() && index.is_none() {
        return format!("{} = \"{version}\"\n", parts.name);
    }
    let mut fields = vec![format!("version = \"{version}\"")];
    if !parts.extras.is_empty() {
        let extras: Vec<String> = parts.extras.iter().map(|e| format!("\"{e}\"")).collect();
        fields.push(format!("extras = [{}]", extras.join(", ")));
    }
    fields.extend(index.map(|index| format!("index = \"{index}\"")));
    format!("{} = {{ {} }}\n", parts.name, fields.join(", "))
}
