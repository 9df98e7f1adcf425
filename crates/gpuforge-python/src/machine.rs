//! detect, doctor, explain, recommend_env and status for Python: the facade's answers as JSON, which Python turns into objects.

use std::sync::Arc;

use gpuforge::{
    env::{
        compat::{self, Version, host_spec},
        doctor::{self as checks, SystemView},
        explain::{CheckEvidence, HostEvidence, PatternDb, explain_with_checks},
        profiles,
    },
    hardware,
};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::Serialize;

use crate::process::{self, ProcessRuntime, env};

/// Serialises to JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn invalid(what: impl std::fmt::Display, hint: &str) -> PyErr {
    PyValueError::new_err(format!("{what}\n  hint: {hint}"))
}

/// Detects the devices of this machine, as JSON.
#[pyfunction]
pub(crate) fn detect(py: Python<'_>) -> PyResult<String> {
    let ProcessRuntime { settings, places, .. } = process::runtime(py);
    process::wait_for(py, move |_| json(&gpuforge::detect(&settings, &places, &env)))?
}

/// Runs the doctor's checks, as JSON.
#[pyfunction]
pub(crate) fn doctor(py: Python<'_>, offline: bool, deep: bool) -> PyResult<String> {
    process::wait_for(py, move |_| {
        json(&checks::run(&Arc::new(SystemView::live().offline(offline).deep(deep))))
    })?
}

/// Tier 0 detection, without waking a device: kernel files and the cache.
fn tier0(machine: &ProcessRuntime) -> hardware::Inventory {
    let mut options = gpuforge::detection::options(&machine.settings, &machine.places, &env);
    options.tier0_only = true;
    hardware::detect(&options, &env)
}

/// Root cause of a log, as JSON.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, text: String) -> PyResult<String> {
    let machine = process::runtime(py);
    process::wait_for(py, move |_| {
        let known = PatternDb::load(Some(&machine.places.data_dir));
        let mut facts = HostEvidence::of(&tier0(&machine));
        facts.library_path = env("LD_LIBRARY_PATH");
        let shown = |ids: &[String]| -> Vec<CheckEvidence> {
            let view = SystemView::live().without_tools().offline(true);
            ids.iter()
                .filter_map(|id| checks::run_check(&view, id))
                .filter_map(|c| CheckEvidence::of(&c))
                .collect()
        };
        let found = explain_with_checks(text.as_bytes(), &known, &facts, shown);
        json(&found.map_err(|e| PyValueError::new_err(e.to_string()))?)
    })?
}

/// Runtime status as JSON; loads nothing.
#[pyfunction]
pub(crate) fn status(py: Python<'_>) -> PyResult<String> {
    json(&process::runtime(py).forge.status())
}

/// Environment recommendation.
#[derive(Serialize)]
struct Choice<'a> {
    machine: &'a compat::HostSpec,
    framework: &'a str,
    plan: profiles::EnvPlan,
    fit: profiles::ProfileFit,
    candidates: &'a [compat::Candidate],
    rejected: &'a [compat::Rejected],
}

/// Arguments of `recommend_env`.
#[derive(FromPyObject)]
pub(crate) struct Wanted {
    #[pyo3(item)]
    framework: Option<String>,
    #[pyo3(item)]
    profile: Option<String>,
    #[pyo3(item)]
    python: Option<String>,
    #[pyo3(item)]
    gpu: Option<String>,
    #[pyo3(item)]
    driver: Option<String>,
    #[pyo3(item)]
    platform: Option<String>,
    #[pyo3(item)]
    cpu_only: bool,
}

fn version(text: Option<&String>) -> PyResult<Option<Version>> {
    let read = |text: &String| {
        text.parse()
            .map_err(|_| invalid(format!("{text:?} is no version"), "numbers with dots, such as 3.12"))
    };
    text.map(read).transpose()
}

/// Recommends a framework build and packages for a machine.
#[pyfunction]
pub(crate) fn recommend_env(py: Python<'_>, wanted: Wanted) -> PyResult<String> {
    let machine = process::runtime(py);
    process::wait_for(py, move |_| recommend(&machine, &wanted))?
}

fn recommend(runtime: &ProcessRuntime, wanted: &Wanted) -> PyResult<String> {
    let table = compat::load(Some(&runtime.places.data_dir)).value;
    let (profiles, _) = profiles::load(Some(&runtime.places.data_dir));
    let profiles = profiles.value;
    let mut machine = match &wanted.gpu {
        Some(gpu) => host_spec::named(&table, gpu).map_err(|e| PyValueError::new_err(e.to_string()))?,
        None => host_spec::from_inventory(&table, &tier0(runtime)),
    };
    if let Some(platform) = &wanted.platform {
        machine.set_platform(platform).map_err(|e| PyValueError::new_err(e.to_string()))?;
    }
    if let Some(driver) = version(wanted.driver.as_ref())? {
        machine.driver = Some(driver);
    }
    if wanted.cpu_only {
        machine = machine.without_gpu("cpu_only asks for the CPU");
    }
    let name = wanted.framework.as_deref().unwrap_or_else(|| runtime.settings.default_framework());
    let framework = table.framework(name).ok_or_else(|| {
        let names: Vec<&str> = table.framework.iter().map(|f| f.name.as_str()).collect();
        invalid(format!("there is no framework {name:?}"), &format!("one of {}", names.join(", ")))
    })?;
    let answer = compat::resolve(&table, framework, &machine, version(wanted.python.as_ref())?.as_ref());
    let best = answer.candidates.first().ok_or_else(|| {
        let why = answer.rejected.first().map_or_else(String::new, |r| format!("{} {}", r.build, r.reason));
        invalid(format!("no build of {} runs on {}", framework.title, machine.platform()), &why)
    })?;
    let make = |profile: &profiles::Profile| {
        let plan = profiles::plan_env(&profiles, profile, best, &framework.import, &machine);
        let fit = profiles::fit(profile, &machine, &plan);
        (plan, fit, profile.good)
    };
    let chosen = match &wanted.profile {
        Some(name) => profiles.find(name).map(make),
        // Of equal fits the more demanding profile: it makes use of the machine.
        None => profiles
            .profile
            .iter()
            .map(make)
            .max_by(|(_, a, x), (_, b, y)| a.points.cmp(&b.points).then(x.total_cmp(y))),
    };
    let (plan, fit, _) = chosen.ok_or_else(|| {
        let names: Vec<&str> = profiles.profile.iter().map(|p| p.name.as_str()).collect();
        let name = wanted.profile.as_deref().unwrap_or_default();
        invalid(format!("there is no profile {name:?}"), &format!("one of {}", names.join(", ")))
    })?;
    let (candidates, rejected) = (&answer.candidates, &answer.rejected);
    json(&Choice { machine: &machine, framework: &framework.name, plan, fit, candidates, rejected })
}
