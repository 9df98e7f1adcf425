//! Renders `pyproject.toml`: a project for `uv sync`.

use super::{comments, headline, index_for_all, parse_requirement, project, remarks};
use crate::profiles::EnvPlan;

pub(super) fn render(plan: &EnvPlan) -> String {
    let candidate = &plan.candidate;
    let mut out = comments(&[headline(plan), "uv sync && uv run check_gpu.py".to_owned()]);
    out.push_str(&format!("[project]\nname = \"{}\"\nversion = \"0.1.0\"\n", project(plan)));
    out.push_str(&format!("requires-python = \"=={}.*\"\ndependencies = [\n", candidate.python));
    for package in &plan.packages {
        out.push_str(&format!("    \"{}\",\n", package.pip));
    }
    out.push_str("]\n\n[tool.uv]\npackage = false\n");
    // The resolution is for one platform; resolving for others would fail on missing wheels.
    out.push_str(&format!("environments = [\"{}\"]\n", markers(&plan.platform)));
    if let Some(index) = &candidate.index {
        let name = format!("{}-{}", candidate.framework, candidate.build.replace('.', "-"));
        let all = index_for_all(candidate);
        if all {
            out.push_str("index-strategy = \"unsafe-best-match\"\n");
        }
        out.push_str(&format!("\n[[tool.uv.index]]\nname = \"{name}\"\nurl = \"{index}\"\n"));
        if !all {
            out.push_str("explicit = true\n");
        }
        out.push_str("\n[tool.uv.sources]\n");
        for package in plan.packages.iter().filter(|p| p.from_index) {
            out.push_str(&format!("{} = {{ index = \"{name}\" }}\n", parse_requirement(&package.pip).name));
        }
    }
    let remarks = remarks(plan, "uv pip");
    if !remarks.is_empty() {
        out.push('\n');
        out.push_str(&comments(&remarks));
    }
    out
}

/// A platform as environment markers.
fn markers(platform: &str) -> String {
    const SYSTEMS: [(&str, &str); 3] = [("linux", "linux"), ("windows", "win32"), ("macos", "darwin")];
    let (system, arch) = platform.split_once('-').unwrap_or((platform, "x86_64"));
    let named = SYSTEMS.iter().find(|(ours, _)| *ours == system).map_or(system, |(_, theirs)| *theirs);
    // Each OS has its own name for the same CPU architecture.
    let machine = match (system, arch) {
        ("windows", "x86_64") => "AMD64",
        ("macos", "aarch64") => "arm64",
        (_, other) => other,
    };
    format!("sys_platform == '{named}' and platform_machine == '{machine}'")
}
