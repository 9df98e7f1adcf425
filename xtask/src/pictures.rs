//! Pictures of the README: a chart and a profile report, made by the program itself from sample bars.
//!
//! `cargo xtask pictures` writes `docs/images/chart.svg` (by `gpuforge chart`) and `docs/images/report.png` (the page of
//! `gpuforge report`, photographed in headless Chromium; skipped where none is installed).

use crate::{devtools, sh};
use anyhow::{Context as _, Result, ensure};
use std::{fs, path::Path, process::Command};

/// Largest file that belongs into the repository.
const MOST_BYTES: u64 = 300_000;

/// Width and height of the photographed page.
const PAGE: (u32, u32) = (1180, 800);

/// Writes both pictures; an error when one is too large.
pub(crate) fn run() -> Result<()> {
    let built = sh::build(&["gpuforge-cli"], &[], true)?;
    let gpuforge = sh::executable(&built, "gpuforge")?;
    let images = sh::root().join("docs/images");
    fs::create_dir_all(&images)?;
    let work = tempfile::tempdir()?;
    chart(&gpuforge, work.path(), &images.join("chart.svg"))?;
    match devtools::installed() {
        Some(browser) => report(&gpuforge, browser, work.path(), &images.join("report.png"))?,
        None => eprintln!("skipped: docs/images/report.png (no Chromium is installed)"),
    }
    Ok(())
}

/// Candles of one symbol with indicators over and under them.
fn chart(gpuforge: &Path, work: &Path, output: &Path) -> Result<()> {
    let bars = work.join("daily.parquet");
    let sample = ["sample", "-q", "--symbols", "1", "--interval", "day", "--bars", "600", "-o"];
    quietly(Command::new(gpuforge).args(sample).arg(&bars))?;
    let select = "bbands(20,2,2), ema(50), rsi(14), macd(12,26,9)";
    let mut draw = Command::new(gpuforge);
    draw.args(["chart", "-q", "--last", "180", "--size", "1200x680", "--theme", "light", "--select", select]);
    quietly(draw.arg(&bars).arg("-o").arg(output))?;
    within_limit(output)
}

/// The report of a run that computes 111 indicators on an adapter where there is one.
fn report(gpuforge: &Path, browser: &str, work: &Path, output: &Path) -> Result<()> {
    let (bars, trace, page) =
        (work.join("bars.parquet"), work.join("indicators.json"), work.join("report.html"));
    let sample = ["sample", "-q", "--symbols", "8", "--bars", "4000", "-o"];
    quietly(Command::new(gpuforge).args(sample).arg(&bars))?;
    let profiled = |device: &str| {
        let mut run = Command::new(gpuforge);
        run.args(["profile", "run", "-q", "-o"]).arg(&trace).args(["--", "indicators"]).arg(&bars);
        run.args(["--select", "set:classic111", "--device", device, "-o"]).arg(work.join("out.parquet"));
        quietly(&mut run)
    };
    if let Err(error) = profiled("gpu") {
        eprintln!("no GPU adapter, so the report is of a run on the CPU: {error:#}");
        profiled("cpu")?;
    }
    quietly(Command::new(gpuforge).arg("report").arg(&trace).arg("-q").arg("-o").arg(&page))?;
    let mut browser = devtools::Browser::start(browser)?;
    browser.emulate(PAGE.0, PAGE.1, false)?;
    browser.open(&format!("file://{}", page.display()))?;
    browser.until("document.querySelector('#timeline').dataset.drawn === 'yes'")?;
    browser.screenshot(output)?;
    within_limit(output)
}

fn quietly(command: &mut Command) -> Result<()> {
    sh::run(command.stdout(std::process::Stdio::null()))
}

fn within_limit(path: &Path) -> Result<()> {
    let bytes = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
    ensure!(bytes <= MOST_BYTES, "{} has {bytes} bytes, {MOST_BYTES} at most", path.display());
    println!("{} ({bytes} bytes)", path.display());
    Ok(())
}
