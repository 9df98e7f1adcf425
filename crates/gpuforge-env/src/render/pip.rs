//! Renders `requirements.txt` for pip and uv, with index lines.

use super::{comments, headline, remarks};
use crate::profiles::EnvPlan;

pub(super) fn render(plan: &EnvPlan) -> String {
    let python = &plan.candidate.python;
    let mut out = comments(&[headline(plan)]);
    // uv uses only the first index that has a package, unless the index strategy says otherwise.
    let strategy = if plan.candidate.index.is_some() { " --index-strategy unsafe-best-match" } else { "" };
    let (maker, own) = match plan.platform.starts_with("windows") {
        true => (format!("py -{python}"), ".venv\\Scripts\\python -m pip"),
        false => (format!("python{python}"), ".venv/bin/python -m pip"),
    };
    let pip = format!("{maker} -m venv .venv && {own} install -r requirements.txt");
    let uv = format!("uv venv --python {python} && uv pip install{strategy} -r requirements.txt");
    out.push_str(&comments(&[format!("pip: {pip}"), format!("uv:  {uv}")]));
    if let Some(index) = &plan.candidate.index {
        out.push_str(&format!("--extra-index-url {index}\n"));
    }
    for package in &plan.packages {
        out.push_str(&package.pip);
        out.push('\n');
    }
    out.push_str(&comments(&remarks(plan, own)));
    out
}
