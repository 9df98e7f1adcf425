//! How is work run from Python? `Forge`: operations where they are fastest, batches, calibration, memory, events.

use std::sync::{Arc, Mutex, PoisonError};

use gpuforge::{
    ops::Work,
    route::{
        Decision, Options as RunOptions, Ran as Done, Router, Wish,
        batch::{BatchOptions, CancelToken, Item},
        calibrate::{self, Step, calibrate_all},
        store,
    },
    runtime::{
        memory::{MemoryStack, PressureEvent},
        session::Device,
        units::Bytes,
    },
    settings::{Key, Place, Places, Settings},
};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde_json::json;

use crate::{
    errors,
    machine::json as as_json,
    ops::{Op, Tensor},
    process::{self, Machine, env},
};

/// A runtime with settings of its own. One that a fork has brought into another process begins anew there.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Forge {
    flags: Vec<(String, String)>,
    own: Mutex<(u32, Machine)>,
}

fn made(flags: &[(String, String)]) -> PyResult<Machine> {
    let places = Places::of(&env).unwrap_or_else(|_| Places::nowhere());
    let flags: Vec<(&str, &str)> = flags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    for (name, text) in &flags {
        let key = Key::find(name).ok_or_else(|| {
            PyValueError::new_err(format!(
                "there is no setting `{name}`\n  hint: `gpuforge config list` has them"
            ))
        })?;
        let read = key.parse(text, Place::Flag((*name).to_owned()));
        read.map_err(|e| PyValueError::new_err(e.to_string()))?;
    }
    let settings = Settings::load_lenient(&places, &env, &flags);
    let forge = gpuforge::Forge::with(&settings, &places, &env);
    Ok(Machine { forge, settings: Arc::new(settings), places })
}

/// A result, with where it came from and why.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Ran {
    #[pyo3(get)]
    outputs: Vec<Py<Tensor>>,
    #[pyo3(get)]
    report: String,
}

fn decided(decision: &Decision, router: &Router) -> serde_json::Value {
    let place = |at: usize| router.sites().get(at).map(|s| s.name());
    let predicted: Vec<serde_json::Value> = (0..decision.places())
        .map(|at| json!({ "place": place(at), "seconds": decision.predicted_ns(at).map(|ns| f64::from(ns) / 1e9) }))
        .collect();
    json!({
        "place": place(decision.place), "index": decision.place, "reason": decision.reason.to_string(),
        "calibrated": decision.calibrated, "predicted": predicted,
    })
}

fn ran(py: Python<'_>, ran: Done, router: &Router) -> PyResult<Ran> {
    let report = ran.report();
    let text = json!({
        "place": report.place,
        "seconds": report.wall.as_secs_f64(),
        "predicted_seconds": report.predicted.map(|d| d.as_secs_f64()),
        "device_seconds": report.device_time.map(|d| d.as_secs_f64()),
        "cold": report.cold,
        "pieces": report.pieces,
        "events": report.events,
        "fallback": report.fallback,
        "decision": decided(ran.decision(), router),
    });
    let outputs = ran.into_outputs().into_iter().map(|inner| Py::new(py, Tensor { inner }));
    Ok(Ran { outputs: outputs.collect::<PyResult<_>>()?, report: text.to_string() })
}

/// Where it may run.
fn wish(router: &Router, device: Option<&str>) -> PyResult<Wish> {
    let places = router.sites().len();
    let gpus = places.saturating_sub(1);
    match device {
        None | Some("auto") => Ok(Wish::Fastest),
        Some("cpu") => Ok(Wish::Only(0)),
        Some("gpu") if gpus > 0 => Ok(Wish::Only(1)),
        Some("gpu") => Err(errors::no_device("this machine has none that can be used")),
        Some(other) => {
            let at = other.strip_prefix("gpu:").and_then(|n| n.parse::<usize>().ok()).filter(|n| *n < gpus);
            let hint = format!("\"auto\", \"cpu\", \"gpu\", or \"gpu:N\" with N below {gpus}");
            let wrong = || PyValueError::new_err(format!("there is no device {other:?}\n  hint: {hint}"));
            at.map(|n| Wish::Only(n + 1)).ok_or_else(wrong)
        }
    }
}

impl Forge {
    /// What belongs to this process.
    fn machine(&self, _: Python<'_>) -> PyResult<Machine> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let here = std::process::id();
        if own.0 != here {
            // The parent's device must not be closed from here.
            std::mem::forget(std::mem::replace(&mut *own, (here, made(&self.flags)?)));
        }
        Ok(own.1.clone())
    }
}

#[pymethods]
impl Forge {
    /// With these settings over the user's; touches no device.
    #[new]
    fn new(flags: Vec<(String, String)>) -> PyResult<Self> {
        let machine = made(&flags)?;
        Ok(Forge { flags, own: Mutex::new((std::process::id(), machine)) })
    }

    /// Runs an operation.
    fn run(&self, py: Python<'_>, op: PyRef<'_, Op>, device: Option<String>, stays: bool) -> PyResult<Ran> {
        let machine = self.machine(py)?;
        let op = op.inner.clone();
        let forge = machine.forge.clone();
        let done = process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            let options = RunOptions { wish: wish(router, device.as_deref())?, stays };
            forge.run_with(op.as_ref(), options).map_err(errors::forge)
        })??;
        ran(py, done, machine.forge.router().map_err(errors::forge)?)
    }

    /// Runs many; an item that fails is its exception. `progress` is called with how many are done and how many there are.
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
            return Err(PyValueError::new_err("duty is the share of time that work may run: from 0.01 to 1"));
        }
        let machine = self.machine(py)?;
        let items: Vec<Item> = ops.iter().map(|op| Item::shared(op.inner.clone())).collect();
        drop(ops);
        let forge = machine.forge.clone();
        let run = process::wait_for(py, move |gone| {
            let router = forge.router().map_err(errors::forge)?;
            let cancel = CancelToken::new();
            let (token, gone) = (cancel.clone(), gone.clone());
            let told = move |done: usize, all: usize| {
                if gone.is() {
                    token.cancel();
                } else if let Some(progress) = &progress
                    && Python::attach(|py| progress.call1(py, (done, all))).is_err()
                {
                    // Who raises does not want to go on.
                    token.cancel();
                }
            };
            let wish = wish(router, device.as_deref())?;
            let options = BatchOptions {
                wish,
                duty,
                cancel: Some(cancel),
                progress: Some(Box::new(told)),
                stays,
                spread,
                ..BatchOptions::default()
            };
            forge.batch_with(items, options).map_err(errors::forge)
        })??;
        let stats = run.stats.clone();
        let router = machine.forge.router().map_err(errors::forge)?;
        let mut results: Vec<Py<PyAny>> = Vec::with_capacity(run.results.len());
        for result in run.results {
            results.push(match result {
                Ok(done) => Py::new(py, ran(py, done, router)?)?.into_any(),
                Err(error) => errors::route(&error).into_value(py).into_any(),
            });
        }
        let text = json!({
            "items": stats.items, "failed": stats.failed, "chunks": stats.chunks, "fused": stats.fused,
            "submissions": stats.submissions, "dispatches": stats.dispatches, "seconds": stats.wall.as_secs_f64(),
            "busy_seconds": stats.busy.as_secs_f64(), "busy_share": stats.busy_share(), "places": stats.places,
        });
        Ok((results, text.to_string()))
    }

    /// Where an operation would run, and why; runs nothing.
    fn route(&self, py: Python<'_>, op: PyRef<'_, Op>, device: Option<String>) -> PyResult<String> {
        let forge = self.machine(py)?.forge;
        let op = op.inner.clone();
        process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            let work = Work::of(op.as_ref(), false).map_err(|e| errors::op(&e))?;
            let wish = wish(router, device.as_deref())?;
            let decision = router.decide(&work, router.lane(op.as_ref()), wish);
            Ok(decided(&decision.map_err(|e| errors::route(&e))?, router).to_string())
        })?
    }

    /// Measures every place and keeps what was found.
    fn calibrate(&self, py: Python<'_>, full: bool, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let forge = self.machine(py)?.forge;
        process::wait_for(py, move |gone| {
            let options = if full { calibrate::Options::full() } else { calibrate::Options::quick() };
            let router = forge.router().map_err(errors::forge)?;
            let mut told = |p: calibrate::Progress<'_>| {
                if let Some(progress) = progress.as_ref().filter(|_| !gone.is()) {
                    let what = match p.step {
                        Step::Opening => "opening".to_owned(),
                        Step::Launch => "launch".to_owned(),
                        Step::Transfer(bytes) => format!("transfer of {bytes} bytes"),
                        Step::Tuning(kind) => format!("variants of {}", kind.name()),
                        Step::Kind(kind, size) | Step::Ends(kind, size, _) => {
                            format!("{} {size}", kind.name())
                        }
                    };
                    let _ = Python::attach(|py| progress.call1(py, (p.place, what, p.done)));
                }
            };
            let measured = calibrate_all(router.sites(), &options, &mut told);
            let mut models = router.models().as_ref().clone();
            let mut places = Vec::new();
            for ((site, model), measured) in router.sites().iter().zip(&mut models).zip(measured) {
                let (launch, error) = match measured {
                    Ok(found) => {
                        *model = found;
                        (Some(f64::from(model.launch_ns as f32) / 1e9), None)
                    }
                    Err(error) => (None, Some(error.to_string())),
                };
                places.push(json!({ "place": site.name(), "launch_seconds": launch, "error": error }));
            }
            if !gone.is() {
                let known: Vec<_> = models.iter().filter(|m| m.is_known()).cloned().collect();
                let _ = store::save(&forge.calibration_file(), &known);
                router.set_models(models);
            }
            Ok(json!({ "places": places }).to_string())
        })?
    }

    /// Names of the places, the processor first.
    fn places(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let forge = self.machine(py)?.forge;
        process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            Ok(router.sites().iter().map(|s| s.name()).collect())
        })?
    }

    /// Brings a tensor's numbers to the host.
    fn bring(&self, py: Python<'_>, tensor: PyRef<'_, Tensor>) -> PyResult<()> {
        let forge = self.machine(py)?.forge;
        let tensor = tensor.inner.clone();
        process::wait_for(py, move |_| {
            let router = forge.router().map_err(errors::forge)?;
            router.bring(&tensor).map_err(|e| errors::site(&e))
        })?
    }

    /// Opens the device and loads every part now.
    fn load(&self, py: Python<'_>) -> PyResult<()> {
        let forge = self.machine(py)?.forge;
        process::wait_for(py, move |_| forge.load().map_err(errors::forge))?
    }

    /// What is loaded, open and in use, as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        as_json(&self.machine(py)?.forge.status())
    }

    /// Figures of the moment, as JSON.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        as_json(&self.machine(py)?.forge.metrics())
    }

    /// Would a block of this size fit? Why not, if not; opens the device.
    fn can_allocate(&self, py: Python<'_>, bytes: u64) -> PyResult<Option<String>> {
        let none = Some("no device can be used".to_owned());
        let asked = self.memory(py, move |memory| memory.can_allocate(Bytes(bytes)).err());
        Ok(asked?.map_or(none, |why| why.map(|why| why.to_string())))
    }

    /// Gives idle memory back to the device; how many bytes that were.
    fn cleanup(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.memory(py, |memory| memory.trim(Bytes::ZERO).0)?.unwrap_or(0))
    }

    /// What the device's memory holds, as JSON; `None` while no device is open.
    fn memory_stats(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let status = self.machine(py)?.forge.status();
        status.device.map(|d| as_json(&d.memory)).transpose()
    }

    /// Calls `listener` with every change of memory pressure, as JSON; `False` without a device.
    fn on_pressure(&self, py: Python<'_>, listener: Py<PyAny>) -> PyResult<bool> {
        let told = move |event: &PressureEvent| {
            let text = serde_json::to_string(event).unwrap_or_default();
            let _ = Python::attach(|py| listener.call1(py, (text,)));
        };
        Ok(self.memory(py, move |memory| memory.subscribe(told))?.is_some())
    }

    /// Calls `listener` when parts begin and end to load: name, seconds or None, failed.
    fn on_progress(&self, py: Python<'_>, listener: Py<PyAny>) -> PyResult<()> {
        let told = move |p: &gpuforge::runtime::lazy::Progress| {
            let seconds = p.finished.map(|d| d.as_secs_f64());
            let _ = Python::attach(|py| listener.call1(py, (p.component, seconds, p.failed)));
        };
        self.machine(py)?.forge.on_progress(Arc::new(told));
        Ok(())
    }

    /// Gives the device up; the next work opens it anew.
    fn reset_device(&self, py: Python<'_>) -> PyResult<()> {
        let forge = self.machine(py)?.forge;
        process::wait_for(py, move |_| forge.reset_device())
    }
}

impl Forge {
    /// Asks about the memory of the chosen device, which is opened; `None` without one.
    fn memory<T: Send + 'static>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&MemoryStack<Device>) -> T + Send + 'static,
    ) -> PyResult<Option<T>> {
        let forge = self.machine(py)?.forge;
        process::wait_for(py, move |_| forge.memory(ask).map_err(errors::forge))?
    }
}
