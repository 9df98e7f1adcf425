//! `Forge` for Python: run, batch, route, calibrate, memory and event listeners.

use std::sync::{Arc, Mutex, PoisonError};

use gpuforge::{
    ops::Work,
    route::{
        Decision, PlacementPolicy, Router, RunOptions, RunOutput,
        batch::{BatchOptions, Item},
        calibrate::{self, CalibrationStep, calibrate_all},
        store,
    },
    runtime::{
        memory::{MemoryStack, PressureEvent},
        session::DeviceAllocator,
        units::Bytes,
    },
    settings::{SettingKey, SettingLocation, Settings, UserPaths},
};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde_json::json;

use crate::{
    errors,
    machine::json as as_json,
    ops::{Op, Tensor},
    process::{self, ProcessRuntime, env},
};

/// A runtime with its settings; reopened in a forked child.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Forge {
    flags: Vec<(String, String)>,
    state: Mutex<(u32, ProcessRuntime)>,
}

fn open_runtime(flags: &[(String, String)]) -> PyResult<ProcessRuntime> {
    let places = UserPaths::resolve(&env).unwrap_or_else(|_| UserPaths::unavailable());
    let flags: Vec<(&str, &str)> = flags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    for (name, text) in &flags {
        let key = SettingKey::find(name).ok_or_else(|| {
            PyValueError::new_err(format!(
                "there is no setting `{name}`\n  hint: `gpuforge config list` has them"
            ))
        })?;
        let read = key.parse(text, SettingLocation::Flag((*name).to_owned()));
        read.map_err(|e| PyValueError::new_err(e.to_string()))?;
    }
    let settings = Settings::load_lenient(&places, &env, &flags);
    let forge = gpuforge::Forge::with(&settings, &places, &env);
    Ok(ProcessRuntime { forge, settings: Arc::new(settings), places })
}

/// A result with the report of its run.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Ran {
    #[pyo3(get)]
    outputs: Vec<Py<Tensor>>,
    #[pyo3(get)]
    report: String,
}

fn decision_json(decision: &Decision, router: &Router) -> serde_json::Value {
    let backend_name = |at: usize| router.backends().get(at).map(|s| s.name());
    let predicted: Vec<serde_json::Value> = (0..decision.backend_count())
        .map(|at| json!({ "place": backend_name(at), "seconds": decision.predicted_ns(at).map(|ns| f64::from(ns) / 1e9) }))
        .collect();
    json!({
        "place": backend_name(decision.backend_id), "index": decision.backend_id, "reason": decision.reason.to_string(),
        "calibrated": decision.calibrated, "predicted": predicted,
    })
}

fn ran_to_python(py: Python<'_>, output: RunOutput, router: &Router) -> PyResult<Ran> {
    let report = output.report();
    let text = json!({
        "place": report.backend,
        "seconds": report.wall.as_secs_f64(),
        "predicted_seconds": report.predicted.map(|d| d.as_secs_f64()),
        "device_seconds": report.device_time.map(|d| d.as_secs_f64()),
        "cold": report.cold,
        "pieces": report.pieces,
        "events": report.events,
        "fallback": report.fallback,
        "decision": decision_json(output.decision(), router),
    });
    let outputs = output.into_outputs().into_iter().map(|inner| Py::new(py, Tensor { inner }));
    Ok(Ran { outputs: outputs.collect::<PyResult<_>>()?, report: text.to_string() })
}

/// Placement policy of a `device` argument.
fn placement(router: &Router, device: Option<&str>) -> PyResult<PlacementPolicy> {
    let places = router.backends().len();
    let gpus = places.saturating_sub(1);
    match device {
        None | Some("auto") => Ok(PlacementPolicy::Fastest),
        Some("cpu") => Ok(PlacementPolicy::Only(0)),
        Some("gpu") if gpus > 0 => Ok(PlacementPolicy::Only(1)),
        Some("gpu") => Err(errors::no_device("this runtime has none that can be used")),
        Some(other) => {
            let at = other.strip_prefix("gpu:").and_then(|n| n.parse::<usize>().ok()).filter(|n| *n < gpus);
            let hint = format!("\"auto\", \"cpu\", \"gpu\", or \"gpu:N\" with N below {gpus}");
            let wrong = || PyValueError::new_err(format!("there is no device {other:?}\n  hint: {hint}"));
            at.map(|n| PlacementPolicy::Only(n + 1)).ok_or_else(wrong)
        }
    }
}

impl Forge {
    /// The runtime of this process.
    fn runtime(&self, _: Python<'_>) -> PyResult<ProcessRuntime> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let here = std::process::id();
        if state.0 != here {
            // The parent's device must not be closed in the child.
            std::mem::forget(std::mem::replace(&mut *state, (here, open_runtime(&self.flags)?)));
        }
        Ok(state.1.clone())
    }
}

#[pymethods]
impl Forge {
    /// With these settings over the user's; opens no device.
    #[new]
    fn new(flags: Vec<(String, String)>) -> PyResult<Self> {
        let runtime = open_runtime(&flags)?;
        Ok(Forge { flags, state: Mutex::new((std::process::id(), runtime)) })
    }

    /// Runs an operation.
    fn run(&self, py: Python<'_>, op: PyRef<'_, Op>, device: Option<String>, stays: bool) -> PyResult<Ran> {
        let runtime = self.runtime(py)?;
        let op = op.inner.clone();
        let forge = runtime.forge.clone();
        let done = process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            let options =
                RunOptions { placement: placement(router, device.as_deref())?, keep_on_device: stays };
            forge.run_with(op.as_ref(), options).map_err(errors::forge)
        })??;
        ran_to_python(py, done, runtime.forge.router().map_err(errors::forge)?)
    }

    /// Runs a batch; a failed item is returned as its exception. `progress` is called with (done, total).
    #[pyo3(signature = (ops, device, duty, stays, spread, progress))]
    #[allow(clippy::too_many_arguments, reason = "the Python side has one call for it")]
    fn batch(
        &self,
        py: Python<'_>,
        ops: Vec<PyRef<'_, Op>>,
        device: Option<String>,
        duty: Option<f64>,
        stays: bool,
        spread: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Vec<Py<PyAny>>, String)> {
        if duty.is_some_and(|d| !(0.01..=1.0).contains(&d)) {
            return Err(PyValueError::new_err(
                "duty is the fraction of time that work may run: from 0.01 to 1",
            ));
        }
        let runtime = self.runtime(py)?;
        let items: Vec<Item> = ops.iter().map(|op| Item::shared(op.inner.clone())).collect();
        drop(ops);
        let forge = runtime.forge.clone();
        let run = process::wait_for(py, move |cancel| {
            let router = forge.router().map_err(errors::forge)?;
            let token = cancel.clone();
            let on_event = move |done: usize, all: usize| {
                if !token.is_cancelled()
                    && let Some(progress) = &progress
                    && Python::attach(|py| progress.call1(py, (done, all))).is_err()
                {
                    // A callback that raises cancels the batch.
                    token.cancel();
                }
            };
            let placement = placement(router, device.as_deref())?;
            let options = BatchOptions {
                placement,
                duty_cycle: duty,
                cancel: Some(cancel.clone()),
                progress: Some(Box::new(on_event)),
                keep_on_device: stays,
                multi_device: spread,
                ..BatchOptions::default()
            };
            forge.batch_with(items, options).map_err(errors::forge)
        })??;
        let stats = run.stats.clone();
        let router = runtime.forge.router().map_err(errors::forge)?;
        let mut results: Vec<Py<PyAny>> = Vec::with_capacity(run.results.len());
        for result in run.results {
            results.push(match result {
                Ok(done) => Py::new(py, ran_to_python(py, done, router)?)?.into_any(),
                Err(error) => errors::route(&error).into_value(py).into_any(),
            });
        }
        let text = json!({
            "items": stats.items, "failed": stats.failed, "chunks": stats.chunks, "fused": stats.fused,
            "submissions": stats.submissions, "dispatches": stats.dispatches, "seconds": stats.wall.as_secs_f64(),
            "busy_seconds": stats.busy.as_secs_f64(), "busy_share": stats.busy_share(), "places": stats.backends,
        });
        Ok((results, text.to_string()))
    }

    /// Routing decision for an operation; runs nothing.
    fn route(&self, py: Python<'_>, op: PyRef<'_, Op>, device: Option<String>) -> PyResult<String> {
        let forge = self.runtime(py)?.forge;
        let op = op.inner.clone();
        process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            let work = Work::of(op.as_ref(), false).map_err(|e| errors::op(&e))?;
            let placement = placement(router, device.as_deref())?;
            let decision = router.decide(&work, router.op_class(op.as_ref()), placement);
            Ok(decision_json(&decision.map_err(|e| errors::route(&e))?, router).to_string())
        })?
    }

    /// Measures every backend and stores the calibration.
    fn calibrate(&self, py: Python<'_>, full: bool, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let forge = self.runtime(py)?.forge;
        process::wait_for(py, move |cancel| {
            let options = if full {
                calibrate::CalibrationOptions::full()
            } else {
                calibrate::CalibrationOptions::quick()
            };
            let router = forge.router().map_err(errors::forge)?;
            let mut on_event = |p: calibrate::CalibrationProgress<'_>| {
                if let Some(progress) = progress.as_ref().filter(|_| !cancel.is_cancelled()) {
                    let what = match p.step {
                        CalibrationStep::Opening => "opening".to_owned(),
                        CalibrationStep::Launch => "launch".to_owned(),
                        CalibrationStep::Transfer(bytes) => format!("transfer of {bytes} bytes"),
                        CalibrationStep::Tuning(kind) => format!("variants of {}", kind.name()),
                        CalibrationStep::Measuring(kind, size) | CalibrationStep::Stopped(kind, size, _) => {
                            format!("{} {size}", kind.name())
                        }
                    };
                    let _ = Python::attach(|py| progress.call1(py, (p.backend, what, p.done)));
                }
            };
            let measured = calibrate_all(router.backends(), &options, &mut on_event);
            let mut models = router.models().as_ref().clone();
            let mut places = Vec::new();
            for ((backend, model), measured) in router.backends().iter().zip(&mut models).zip(measured) {
                let (launch, error) = match measured {
                    Ok(found) => {
                        *model = found;
                        (Some(f64::from(model.launch_ns as f32) / 1e9), None)
                    }
                    Err(error) => (None, Some(error.to_string())),
                };
                places.push(json!({ "place": backend.name(), "launch_seconds": launch, "error": error }));
            }
            if !cancel.is_cancelled() {
                let known: Vec<_> = models.iter().filter(|m| m.is_known()).cloned().collect();
                let _ = store::save(&forge.calibration_file(), &known);
                router.set_models(models);
            }
            Ok(json!({ "places": places }).to_string())
        })?
    }

    /// Names of the backends, the CPU first.
    fn places(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let forge = self.runtime(py)?.forge;
        process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            Ok(router.backends().iter().map(|s| s.name()).collect())
        })?
    }

    /// Downloads a tensor to the host.
    fn bring(&self, py: Python<'_>, tensor: PyRef<'_, Tensor>) -> PyResult<()> {
        let forge = self.runtime(py)?.forge;
        let tensor = tensor.inner.clone();
        process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            router.download(&tensor).map_err(|e| errors::backend(&e))
        })?
    }

    /// Loads every component and opens the device.
    fn load(&self, py: Python<'_>) -> PyResult<()> {
        let forge = self.runtime(py)?.forge;
        process::wait_for(py, move |_| forge.load().map_err(errors::forge))?
    }

    /// Loaded components and open device, as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        as_json(&self.runtime(py)?.forge.status())
    }

    /// Current statistics, as JSON.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        as_json(&self.runtime(py)?.forge.metrics())
    }

    /// Whether a block of this size fits: `None`, or why not; opens the device.
    fn can_allocate(&self, py: Python<'_>, bytes: u64) -> PyResult<Option<String>> {
        let none = Some("no device can be used".to_owned());
        let answer = self.memory(py, move |memory| memory.can_allocate(Bytes(bytes)).err());
        Ok(answer?.map_or(none, |why| why.map(|why| why.to_string())))
    }

    /// Frees idle pool memory; returns the bytes.
    fn cleanup(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.memory(py, |memory| memory.trim(Bytes::ZERO).0)?.unwrap_or(0))
    }

    /// Device memory statistics as JSON; `None` while no device is open.
    fn memory_stats(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let status = self.runtime(py)?.forge.status();
        status.device.map(|d| as_json(&d.memory)).transpose()
    }

    /// Calls `listener` with every change of memory pressure, as JSON; `False` without a device.
    fn on_pressure(&self, py: Python<'_>, listener: Py<PyAny>) -> PyResult<bool> {
        let on_event = move |event: &PressureEvent| {
            let text = serde_json::to_string(event).unwrap_or_default();
            let _ = Python::attach(|py| listener.call1(py, (text,)));
        };
        Ok(self.memory(py, move |memory| memory.subscribe(on_event))?.is_some())
    }

    /// Calls `listener` when components start and finish loading: name, seconds or None, failed.
    fn on_progress(&self, py: Python<'_>, listener: Py<PyAny>) -> PyResult<()> {
        let on_event = move |p: &gpuforge::runtime::lazy::LoadProgress| {
            let seconds = p.finished.map(|d| d.as_secs_f64());
            let _ = Python::attach(|py| listener.call1(py, (p.component, seconds, p.failed)));
        };
        self.runtime(py)?.forge.on_progress(Arc::new(on_event));
        Ok(())
    }

    /// Closes the device; the next run reopens it.
    fn reset_device(&self, py: Python<'_>) -> PyResult<()> {
        let forge = self.runtime(py)?.forge;
        process::wait_for(py, move |_| forge.reset_device())
    }
}

impl Forge {
    /// Queries the memory of the device, opening it; `None` without one.
    fn memory<T: Send + 'static>(
        &self,
        py: Python<'_>,
        query: impl FnOnce(&MemoryStack<DeviceAllocator>) -> T + Send + 'static,
    ) -> PyResult<Option<T>> {
        let forge = self.runtime(py)?.forge;
        process::wait_for(py, move |_| forge.memory(query).map_err(errors::forge))?
    }
}
