//! How well does a machine serve a kind of work? 0 to 100, with a reason for every step; pure.

use serde::Serialize;

use super::{plan::Plan, table::Profile};
use crate::compat::{Accelerator, Machine};

/// A fit and how it came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// 0-100.
    pub points: u8,
    /// One line a step.
    pub reasons: Vec<String>,
}

/// What is reached at `least`; `good` reaches all of it.
const AT_LEAST: f64 = 60.0;
/// Taken off for a package that has to be left out, and the most that is taken off.
const MISSING: f64 = 3.0;
const MOST_MISSING: f64 = 15.0;

/// How much of the frameworks runs on it, as a share.
fn maturity(accelerator: Accelerator) -> f64 {
    match accelerator {
        Accelerator::Cuda | Accelerator::Cpu => 1.0,
        Accelerator::Rocm => 0.9,
        Accelerator::Xpu | Accelerator::Mps => 0.8,
    }
}

/// The fit of a profile, given the environment that would be made for it.
pub fn fit(profile: &Profile, machine: &Machine, plan: &Plan) -> Fit {
    let floor = f64::from(profile.processor);
    let accelerator = plan.candidate.accelerator;
    let mut reasons = Vec::new();
    let gpu = machine.gpu.as_ref().filter(|_| accelerator != Accelerator::Cpu);
    let mut points = match gpu {
        None => {
            reasons.push(format!("without a GPU: {floor:.0}"));
            floor
        }
        Some(gpu) => {
            let (points, why) = memory(profile, gpu.gib());
            reasons.push(why);
            let share = maturity(accelerator);
            if share < 1.0 {
                reasons.push(format!(
                    "× {share}: less of the packages runs on {} than on CUDA",
                    accelerator.title()
                ));
            }
            points * share
        }
    };
    if !plan.left_out.is_empty() {
        let off = (MISSING * plan.left_out.len() as f64).min(MOST_MISSING);
        let names: Vec<&str> = plan.left_out.iter().map(|l| l.name.as_str()).collect();
        reasons.push(format!("− {off:.0}: left out {}", names.join(", ")));
        points -= off;
    }
    // A GPU that is too small does not make the CPU worse.
    if gpu.is_some() && points < floor {
        reasons.push(format!("the processor alone reaches {floor:.0}"));
        points = floor;
    }
    Fit { points: points.round().clamp(0.0, 100.0) as u8, reasons }
}

fn memory(profile: &Profile, gib: Option<f64>) -> (f64, String) {
    let Profile { least, good, .. } = *profile;
    match gib {
        None => (AT_LEAST, format!("GPU memory not known: counts as the least ({least} GiB)")),
        Some(gib) if gib >= good => (100.0, format!("{gib} GiB of GPU memory; {good} is good")),
        Some(gib) if gib >= least => {
            let share = (gib - least) / (good - least);
            (
                AT_LEAST + (100.0 - AT_LEAST) * share,
                format!("{gib} GiB of GPU memory; {least} is the least, {good} is good"),
            )
        }
        Some(gib) => (AT_LEAST * gib / least, format!("{gib} GiB of GPU memory is below the least, {least}")),
    }
}
