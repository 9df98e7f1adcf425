//! Device campaign: does a selection give on a GPU what the CPU gives, within the stated tolerance? On prices in whole ticks, for
//! which that tolerance is stated (`forge_resident::placement`).

use std::sync::Arc;

use forge_resident::placement::{SHARE, USUAL, WORST};
use gpuforge::{
    indicators::{
        catalogue::{self, Kind},
        exec::{self, How},
    },
    market::Request,
    resident::{Access, Computer, Device},
    runtime::{
        engine::gpu::GpuOpener,
        memory::{Budget, BudgetOrigin, StackSettings},
        runner::{Runner, RunnerSettings},
        units::Bytes,
    },
};

use crate::{bars::Dataset, compare::Mismatch, cpu::Failure, selection::Selection};

/// An open adapter.
pub struct Adapter {
    runner: Arc<Runner>,
    /// Its name.
    pub name: String,
}

impl Adapter {
    /// The one that this machine has; why not, where there is none.
    pub fn open() -> Result<Adapter, String> {
        let budget = Budget { bytes: Bytes::mib(512), origin: BudgetOrigin::User };
        let settings =
            RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(StackSettings::new(budget)) };
        let runner = Runner::new(Box::new(GpuOpener::default()), settings);
        runner.warm().map_err(|e| e.to_string())?;
        Ok(Adapter { runner: Arc::new(runner), name: "the adapter".to_owned() })
    }

    /// Runs a selection on it and on the CPU. How many columns were on the device.
    pub fn check(&self, selection: &Selection, data: &Dataset) -> Result<u64, Failure> {
        let request = Request::of(&selection.wanted().map_err(Failure::Refused)?);
        let access = Access::over(self.runner.clone(), Device::Gpu);
        let mut computer =
            Computer::new(&request, How::on(1), &access).map_err(|e| Failure::Refused(e.to_string()))?;
        let series = data.as_series();
        let got = computer.run(&series);
        let want = exec::run(&request.selection.plan, &series, How::on(1));
        for (at, column) in request.selection.columns.iter().enumerate() {
            let exact = catalogue::find(column).is_some_and(|row| row.kind == Kind::Candlestick);
            for (series, (got, want)) in got.iter().zip(&want).enumerate() {
                let (Some(got), Some(want)) = (got.get(at), want.get(at)) else { continue };
                if let Some((bar, got, want)) = beyond(got, want, exact) {
                    return Err(Failure::Wrong(Mismatch { column: column.clone(), series, bar, got, want }));
                }
            }
        }
        Ok(computer.done().columns.gpu)
    }
}

/// The first value beyond the worst error, or the first beyond the usual one where more than their share are.
fn beyond(got: &[f64], want: &[f64], exact: bool) -> Option<(usize, f64, f64)> {
    let scale = want.iter().filter(|x| x.is_finite()).fold(1e-30f64, |max, x| max.max(x.abs()));
    let error = |g: f64, w: f64| match () {
        () if g == w || (g.is_nan() && w.is_nan()) => 0.0,
        () if g.is_nan() || w.is_nan() => f64::INFINITY,
        () => (g - w).abs() / scale,
    };
    let rows = || got.iter().zip(want).enumerate().map(|(t, (g, w))| (t, *g, *w));
    let worst = if exact { 0.0 } else { WORST };
    let first = |limit: f64| rows().find(|(_, g, w)| error(*g, *w) > limit);
    let over = rows().filter(|(_, g, w)| error(*g, *w) > USUAL).count();
    // One row of a short series is more than its share.
    let allowed = ((1.0 - SHARE) * want.len() as f64).ceil() as usize;
    first(worst).or_else(|| if over > allowed { first(USUAL) } else { None })
}
