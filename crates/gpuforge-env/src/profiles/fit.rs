//! Profile fit: how well a host suits a profile, 0 to 100, with a reason for every term. Pure.

use serde::Serialize;

use super::{plan::EnvPlan, table::Profile};
use crate::compat::{Accelerator, HostSpec};

/// A fit and its terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileFit {
    /// 0-100.
    pub points: u8,
    /// One line per term.
    pub reasons: Vec<String>,
}

/// Points at `least` GiB; `good` GiB gives 100.
const AT_LEAST: f64 = 60.0;
/// Deduction per package that has to be left out, and its max.
const MISSING: f64 = 3.0;
const MOST_MISSING: f64 = 15.0;

/// Share of the frameworks' features that run on an accelerator.
fn maturity(accelerator: Accelerator) -> f64 {
    match accelerator {
        Accelerator::Cuda | Accelerator::Cpu => 1.0,
        Accelerator::Rocm => 0.9,
        Accelerator::Xpu | Accelerator::Mps => 0.8,
    }
}

/// The fit of a profile, given the environment that would be made for it.
pub fn fit(profile: &Profile, host: &HostSpec, plan: &EnvPlan) -> ProfileFit {
    let floor = f64::from(profile.cpu_fit);
    let accelerator = plan.candidate.accelerator;
    let mut reasons = Vec::new();
    let gpu = host.gpu.as_ref().filter(|_| accelerator != Accelerator::Cpu);
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
        reasons.push(format!("the CPU alone reaches {floor:.0}"));
        points = floor;
    }
    ProfileFit { points: points.round().clamp(0.0, 100.0) as u8, reasons }
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
