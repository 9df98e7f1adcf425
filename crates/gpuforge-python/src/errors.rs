//! Exceptions: each error maps to a subclass of the built-in exception that callers expect, with the hint in its message.

use gpuforge::{
    forge::ForgeError as Forge,
    frame::FrameError,
    indicators::select::SelectError as Select,
    indicators_gpu::DeviceError as Device,
    ops::OpError,
    route::{RouteError, backend::BackendError},
};
use pyo3::{PyErr, create_exception, exceptions::*, types::PyAnyMethods as _};

create_exception!(gpuforge, SelectError, PyValueError, "Invalid selection.");
create_exception!(gpuforge, ColumnError, PyValueError, "A missing or unusable column.");
create_exception!(gpuforge, DeviceError, PyRuntimeError, "The requested device is not usable.");
create_exception!(gpuforge, ForgeError, PyRuntimeError, "Execution failed.");
create_exception!(gpuforge, DeviceMemoryError, PyMemoryError, "Out of device memory.");

/// A message with a hint.
fn hinted(message: impl std::fmt::Display, hint: &str) -> String {
    format!("{message}\n  hint: {hint}")
}

pub(crate) fn select(error: &Select) -> PyErr {
    SelectError::new_err(hinted(error, "gpuforge.catalogue() lists all indicators"))
}

pub(crate) fn device(error: &Device) -> PyErr {
    let Device::Unavailable(why) = error;
    let hint = "gpuforge.doctor() says what is wrong; device=\"cpu\" computes on the CPU";
    DeviceError::new_err(hinted(format!("no device can be used: {why}"), hint))
}

pub(crate) fn no_device(why: impl std::fmt::Display) -> PyErr {
    device(&Device::Unavailable(why.to_string()))
}

/// Errors of operations.
pub(crate) fn op(error: &OpError) -> PyErr {
    match error {
        OpError::DType { .. } => PyTypeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn backend(error: &BackendError) -> PyErr {
    match error {
        BackendError::Op(error) => op(error),
        BackendError::NoMemory(_) => {
            DeviceMemoryError::new_err(hinted(error, "process smaller chunks, or free unused tensors"))
        }
        _ => ForgeError::new_err(hinted(
            error,
            "gpuforge.doctor() says what is wrong; device=\"cpu\" avoids it",
        )),
    }
}

pub(crate) fn route(error: &RouteError) -> PyErr {
    match error {
        RouteError::Op(error) => op(error),
        RouteError::Backend { error, .. } => backend(error),
        RouteError::Item { error, index } => {
            let inner = route(error);
            let Ok(text) = pyo3::Python::attach(|py| inner.value(py).str().map(|t| t.to_string())) else {
                return inner;
            };
            pyo3::Python::attach(|py| PyErr::from_type(inner.get_type(py), format!("item {index}: {text}")))
        }
        RouteError::NoBackend { .. } => PyValueError::new_err(error.to_string()),
        _ => ForgeError::new_err(error.to_string()),
    }
}

pub(crate) fn forge(error: Forge) -> PyErr {
    match error {
        Forge::Route(error) => route(&error),
        other => ForgeError::new_err(hinted(other, "gpuforge.doctor() says what is wrong")),
    }
}

pub(crate) fn frame(error: FrameError) -> PyErr {
    match error {
        FrameError::Column { message, found, hint, .. } => {
            // Hints name command-line flags: rewrite them as keyword arguments.
            let hint = match hint.split_once("--column ").and_then(|(before, flag)| {
                let (role, name) = flag.split_once('=')?;
                Some(format!("{before}columns={{\"{role}\": \"{}\"}}", name.trim_end_matches('?')))
            }) {
                Some(ours) => ours,
                None => hint,
            };
            ColumnError::new_err(format!("{message}\n  found: {found}\n  hint: {hint}"))
        }
        other => PyValueError::new_err(other.to_string()),
    }
}
