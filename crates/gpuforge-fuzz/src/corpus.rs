//! Corpus export: cases with expected results for the Python and SQL front ends.
//!
//! Directories `case-00001` and so on, each with `bars.parquet`, `select.txt`, `define.txt`, and `expected.parquet` as computed
//! by the command line.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use gpuforge::indicators::catalogue::Convention;

use crate::{
    bars::{Dataset, Shape},
    files::write_bars,
    random::Rng,
    selection::Selection,
};

/// Max bars of a case.
const BARS: usize = 1500;
/// Selections that share a dataset.
const SHARED: usize = 10;

/// Writes cases and lets `gpuforge` compute the expected results.
pub fn export(seed: u64, count: usize, directory: &Path, gpuforge: &Path) -> Result<()> {
    let mut rng = Rng::new(seed);
    let mut data = None;
    for at in 0..count {
        if at.is_multiple_of(SHARED) {
            data = Some(finite(&mut rng));
        }
        let Some(data) = &data else { continue };
        let mut selection = Selection::random(&mut rng, 2, 30);
        // The convention is a separate setting of each front end; here rows are compared.
        selection.convention = Convention::TaLib;
        let case = directory.join(format!("case-{at:05}"));
        fs::create_dir_all(&case)?;
        write_bars(data, &case.join("bars.parquet")).map_err(anyhow::Error::msg)?;
        fs::write(case.join("select.txt"), selection.text())?;
        fs::write(case.join("define.txt"), selection.definitions.join("\n"))?;
        expected(&case, &selection, gpuforge)?;
    }
    Ok(())
}

/// Data that every front end accepts: no infinities, no empty series.
fn finite(rng: &mut Rng) -> Dataset {
    loop {
        let data = Dataset::random(rng, BARS);
        let odd = |shape| matches!(shape, Shape::Infinite | Shape::AllNan | Shape::Huge | Shape::Tiny);
        if data.specs.iter().all(|s| !odd(s.shape) && s.bars > 1) {
            return data;
        }
    }
}

fn expected(case: &Path, selection: &Selection, gpuforge: &Path) -> Result<()> {
    let output: PathBuf = case.join("expected.parquet");
    let mut command = Command::new(gpuforge);
    command.args(["indicators", "--quiet", "--device", "cpu"]).arg(case.join("bars.parquet"));
    command.arg("-o").arg(&output).arg("--select").arg(selection.text());
    for definition in &selection.definitions {
        command.arg("--define").arg(definition);
    }
    let done = command.output().with_context(|| format!("cannot run {}", gpuforge.display()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{}: {said}", case.display());
    Ok(())
}
