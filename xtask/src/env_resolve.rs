//! Resolves the generated environments: every profile's requirements against the package index, by `uv pip compile`.

use crate::sh;
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Plans whose packages all come from the default index, and the Python they are for.
const CASES: [(&str, &[&str]); 3] = [
    ("pytorch", &["--for", "RTX 4090", "--driver", "600"]),
    ("tensorflow", &["--for", "RTX 4090", "--driver", "600"]),
    ("jax", &["--for", "RTX 4090", "--driver", "600"]),
];

/// The wheels of the plans above; an sdist is never built here.
const PLATFORM: &str = "x86_64-manylinux_2_28";
const LIMIT: Duration = Duration::from_secs(300);

/// Arguments of `cargo xtask env-resolve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The uv to use
    #[arg(long, value_name = "PROGRAM", default_value = "uv")]
    uv: String,
}

/// Resolves; an error names every profile that does not resolve.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::works(Command::new(&args.uv).arg("--version")) {
        println!("env-resolve: skipped, `{}` is not installed", args.uv);
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let probe = directory.path().join("probe.txt");
    fs::write(&probe, "six\n")?;
    if let Err(error) = resolve(&args.uv, &probe, "3.12") {
        println!(
            "env-resolve: skipped, the package index does not answer: {}",
            last_line(&error.to_string())
        );
        return Ok(());
    }
    let built = sh::build(&["gpuforge-cli"], &[], false)?;
    let gpuforge = sh::executable(&built, "gpuforge")?;
    let mut failed = Vec::new();
    for profile in profiles(&gpuforge)? {
        for (framework, machine) in CASES {
            let plan = [
                "env",
                "create",
                "--profile",
                &profile,
                "--framework",
                framework,
                "--format",
                "pip",
                "-o",
                "-",
            ];
            let text = sh::capture(Command::new(&gpuforge).args(plan).args(machine))?;
            let file = directory.path().join(format!("{profile}-{framework}.txt"));
            fs::write(&file, &text)?;
            let outcome = resolve(&args.uv, &file, python(&text).unwrap_or("3.12"));
            match outcome {
                Ok(packages) => println!("{profile} with {framework}: {packages} packages"),
                Err(error) => failed.push(format!("{profile} with {framework}: {error:#}")),
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

fn profiles(gpuforge: &Path) -> Result<Vec<String>> {
    let text = sh::capture(Command::new(gpuforge).args(["env", "list", "--cpu-only", "--json"]))?;
    let list: serde_json::Value = serde_json::from_str(&text)?;
    let rows = list.get("profiles").and_then(|p| p.as_array()).context("`env list` names no profiles")?;
    Ok(rows.iter().filter_map(|row| Some(row.get("name")?.as_str()?.to_owned())).collect())
}

/// How many packages a file resolves to.
fn resolve(uv: &str, file: &Path, python: &str) -> Result<usize> {
    let out = file.with_extension("lock");
    let mut command = Command::new(uv);
    command.args(["pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:"]);
    // Pure Python that is published as source only (nothing to compile) is allowed by name.
    for name in PURE {
        command.args(["--no-binary", name]);
    }
    command.args(["--python-platform", PLATFORM, "--python-version", python, "-o"]).arg(&out).arg(file);
    sh::run_within(command.stdout(Stdio::null()), LIMIT)?;
    let text = fs::read_to_string(&out)?;
    Ok(text.lines().filter(|line| !line.starts_with(['#', ' ', '-']) && !line.is_empty()).count())
}

/// Published as source only, and nothing in them to compile.
const PURE: [&str; 1] = ["rouge-score"];

/// The Python that the first line of a requirements file names.
fn python(text: &str) -> Option<&str> {
    let (_, rest) = text.lines().next()?.split_once("Python ")?;
    rest.split(',').next()
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_python() {
        assert_eq!(
            python("# nlp with jax 0.10.2 for CUDA 13.0, Python 3.11, linux-x86_64; x\nnumpy\n"),
            Some("3.11")
        );
        assert_eq!(python("numpy\n"), None);
    }

    #[test]
    fn without_uv_it_is_skipped() {
        assert!(run(&Args { uv: "there-is-no-such-uv".to_owned() }).is_ok());
    }
}
