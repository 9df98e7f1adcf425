//! Benchmarks: builds and runs `gpuforge-bench`, prints its rows, and writes them into the marked blocks of documents.

use crate::{bench_summary, machine, markdown, rows, rows::Row, sh};
use anyhow::{Context as _, Result, anyhow, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Benchmarks to run
    #[arg(required_unless_present_any = ["list", "rows"])]
    names: Vec<String>,
    /// Print the names of all benchmarks
    #[arg(long)]
    list: bool,
    /// Rows that gpuforge-bench printed on this machine before, instead of a new run: a line each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "list"])]
    rows: Option<PathBuf>,
    /// Write the rows as a JSON array
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Refresh BENCHMARKS.md and the marked blocks of README.md, ARCHITECTURE.md and docs
    #[arg(long)]
    write: bool,
}

/// Benchmarks whose peers take long to build, and the cargo feature of each.
const FEATURES: [(&str, &str); 3] = [
    ("indicators", "gpuforge-bench/vector-ta"),
    ("cluster", "gpuforge-bench/cluster"),
    ("train", "gpuforge-bench/train"),
];

/// Runs; an error if a row misses its target.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (rows, whole) = match &args.rows {
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            (rows::parse(&text)?, Ok(()))
        }
        None => match measure(args)? {
            Some(measured) => measured,
            None => return Ok(()),
        },
    };
    show(&rows);
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&rows)?;
        fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    whole?;
    if rows.is_empty() {
        bail!(
            "gpuforge-bench printed no row for {}; `cargo xtask bench --list` has the names",
            args.names.join(", ")
        );
    }
    if args.write {
        write(&sh::root(), &rows, &machine::describe(), &machine::today())?;
    }
    match missed(&rows).as_slice() {
        [] => Ok(()),
        list => bail!("{} of {} rows miss their target: {}", list.len(), rows.len(), list.join(", ")),
    }
}

/// Builds and runs; returns the rows and whether the run finished. `None` for `--list`.
fn measure(args: &Args) -> Result<Option<(Vec<Row>, Result<()>)>> {
    // Both in one build: gpuforge-bench starts the CLI as users do, from the same directory.
    let wanted = |(name, _): &&(&str, &str)| args.names.iter().any(|n| n == name);
    let peers: Vec<&str> = FEATURES.iter().filter(wanted).map(|(_, feature)| *feature).collect();
    let built = sh::build(&["gpuforge-cli", "gpuforge-bench"], &peers, true)?;
    let mut bench = Command::new(sh::executable(&built, "gpuforge-bench")?);
    bench.current_dir(sh::root()).env("GPUFORGE_BIN", sh::executable(&built, "gpuforge")?);
    if args.list {
        print!("{}", sh::capture(bench.arg("--list"))?);
        return Ok(None);
    }
    let output =
        bench.args(&args.names).stderr(Stdio::inherit()).output().context("cannot start gpuforge-bench")?;
    let rows = rows::parse(&String::from_utf8_lossy(&output.stdout))?;
    let whole = match output.status.success() {
        true => Ok(()),
        false => Err(anyhow!("gpuforge-bench failed ({}); nothing is written into documents", output.status)),
    };
    Ok(Some((rows, whole)))
}

fn show(rows: &[Row]) {
    for bench in rows::benches(rows) {
        println!("{bench}\n{}", rows::table(rows.iter().filter(|row| row.bench == bench)));
    }
    for row in rows.iter().filter(|row| row.noisy()) {
        let noise = row.noise.unwrap_or_default();
        eprintln!(
            "warning: {}/{}: spread {noise:.2} of the median, above {}: too noisy to trust",
            row.bench,
            row.case,
            rows::NOISE_LIMIT
        );
    }
}

/// `bench/case` of every row that misses its target.
fn missed(rows: &[Row]) -> Vec<String> {
    rows.iter()
        .filter(|row| row.met() == Some(false))
        .map(|row| format!("{}/{}", row.bench, row.case))
        .collect()
}

/// Refreshes the blocks of these rows' benchmarks; other blocks stay as they are.
fn write(root: &Path, rows: &[Row], machine: &str, date: &str) -> Result<()> {
    let benchmarks = root.join("BENCHMARKS.md");
    for name in rows::benches(rows) {
        let content = block(name, rows, machine, date);
        let text = fs::read_to_string(&benchmarks).unwrap_or_else(|_| "# Benchmarks\n".to_owned());
        let text = markdown::replace_or_append(&text, name, &content).context("BENCHMARKS.md")?;
        fs::write(&benchmarks, text)?;
        for path in quoting(root) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let replaced =
                markdown::replace(&text, name, &content).with_context(|| path.display().to_string())?;
            if let Some(text) = replaced {
                fs::write(&path, text)?;
                eprintln!("refreshed bench:{name} in {}", path.display());
            }
        }
    }
    summarise(root, &fs::read_to_string(&benchmarks)?)
}

/// Refreshes the speed table of README.md, where it has one.
fn summarise(root: &Path, benchmarks: &str) -> Result<()> {
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme)?;
    if !text.lines().any(|line| markdown::opens(line) == Some(bench_summary::BLOCK)) {
        return Ok(());
    }
    let table = bench_summary::table(benchmarks)?;
    if let Some(text) = markdown::replace(&text, bench_summary::BLOCK, &table)? {
        fs::write(&readme, text)?;
    }
    Ok(())
}

/// Documents that may quote a benchmark.
fn quoting(root: &Path) -> Vec<PathBuf> {
    let mut paths = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    if let Ok(entries) = fs::read_dir(root.join("docs")) {
        let docs = entries.flatten().map(|entry| entry.path());
        paths.extend(docs.filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    }
    paths
}

/// Number → command → machine → date.
fn block(name: &str, rows: &[Row], machine: &str, date: &str) -> String {
    let table = rows::table(rows.iter().filter(|row| row.bench == name));
    format!(
        "{table}\n`cargo xtask bench {name}` · {machine} · {date} · medians; a ratio above 1 means gpuforge is better\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::limit;

    #[test]
    fn writing_refreshes_only_the_benchmarks_that_ran() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("docs")).unwrap();
        fs::write(
            at("BENCHMARKS.md"),
            "# Benchmarks\n\n## old\n\n<!-- bench:old -->\nkept\n<!-- /bench -->\n",
        )
        .unwrap();
        fs::write(at("README.md"), "# R\n<!-- bench:detect -->\nstale\n<!-- /bench -->\nend\n").unwrap();
        fs::write(at("docs/x.md"), "no block\n").unwrap();
        let rows = [limit("detect", "cached", 0.5, 1.0), limit("other", "x", 2.0, 1.0)];
        write(home.path(), &rows, "Example 9000, 2 cores", "2026-11-20").unwrap();
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        let benchmarks = read("BENCHMARKS.md");
        assert!(
            benchmarks.contains("kept")
                && benchmarks.contains("## detect")
                && benchmarks.contains("## other")
        );
        assert!(benchmarks.contains("`cargo xtask bench detect` · Example 9000, 2 cores · 2026-11-20"));
        let readme = read("README.md");
        assert!(
            readme.contains("cached") && !readme.contains("stale") && readme.ends_with("end\n"),
            "{readme}"
        );
        assert!(!readme.contains("bench other"));
        assert_eq!(read("docs/x.md"), "no block\n");
        write(home.path(), &rows, "Example 9000, 2 cores", "2026-11-20").unwrap();
        assert_eq!(read("BENCHMARKS.md"), benchmarks, "a second run changes nothing");
    }

    #[test]
    fn rows_that_miss_are_named() {
        assert_eq!(missed(&[limit("a", "fits", 1.0, 1.0), limit("a", "slow", 2.0, 1.0)]), ["a/slow"]);
    }

    #[test]
    fn an_unclosed_block_names_its_file() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("README.md"), "<!-- bench:a -->\n").unwrap();
        let error = write(home.path(), &[limit("a", "b", 1.0, 1.0)], "m", "d").unwrap_err();
        assert!(format!("{error:#}").contains("README.md"), "{error:#}");
    }
}
