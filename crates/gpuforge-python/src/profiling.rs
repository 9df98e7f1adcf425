//! Profiler for Python: spans of `gpuforge.profile` in the same trace as the library's own.

use std::{cell::RefCell, path::Path};

use gpuforge::{
    dash::report::TraceReport,
    profile::{Category, Name, OwnedSpan, Profiler, Trace},
};
use pyo3::{
    exceptions::{PyOSError, PyRuntimeError, PyValueError},
    prelude::*,
};

use crate::machine::json;

thread_local! {
    /// Open spans of this thread, the innermost last: a guard stays on its thread.
    static OPEN: RefCell<Vec<OwnedSpan>> = const { RefCell::new(Vec::new()) };
}

/// Opens a span on this thread; returns its depth.
#[pyfunction]
pub(crate) fn span_enter(name: &str, category: &str) -> PyResult<usize> {
    let known = Category::ALL.into_iter().find(|c| c.as_str() == category);
    let category = known.ok_or_else(|| {
        let names: Vec<&str> = Category::ALL.into_iter().map(|c| c.as_str()).collect();
        PyValueError::new_err(format!(
            "there is no category {category:?}\n  hint: one of {}",
            names.join(", ")
        ))
    })?;
    let span = Profiler::global().span(Name::new(name), category);
    Ok(OPEN.with_borrow_mut(|open| {
        open.push(span);
        open.len()
    }))
}

/// Closes the span of this depth, and those left open inside it.
#[pyfunction]
pub(crate) fn span_exit(depth: usize, bytes: Option<u64>) {
    OPEN.with_borrow_mut(|open| {
        while open.len() > depth {
            open.pop();
        }
        if open.len() == depth
            && let Some(mut span) = open.pop()
            && let Some(bytes) = bytes
        {
            span.bytes(bytes);
        }
    });
}

/// Enables or disables recording.
#[pyfunction]
pub(crate) fn profiler_enable(on: bool) {
    match on {
        true => Profiler::global().enable(),
        false => Profiler::global().disable(),
    }
}

/// Whether recording is enabled.
#[pyfunction]
pub(crate) fn profiler_is_enabled() -> bool {
    Profiler::global().is_enabled()
}

/// Clears the recorded spans.
#[pyfunction]
pub(crate) fn profiler_reset(py: Python<'_>) {
    py.detach(|| drop(Profiler::global().drain()));
}

fn trace(py: Python<'_>) -> Trace {
    py.detach(|| Profiler::global().snapshot())
}

/// Summary per span name, as JSON.
#[pyfunction]
pub(crate) fn profiler_summary(py: Python<'_>) -> PyResult<String> {
    json(&trace(py).summary())
}

/// Span names with the largest self time, as JSON.
#[pyfunction]
pub(crate) fn profiler_bottlenecks(py: Python<'_>, n: usize) -> PyResult<String> {
    json(&trace(py).bottlenecks(n))
}

/// The trace, as JSON.
#[pyfunction]
pub(crate) fn profiler_json(py: Python<'_>) -> PyResult<String> {
    trace(py).to_json().map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// Writes the trace; the format follows from the extension.
#[pyfunction]
pub(crate) fn profiler_write(py: Python<'_>, path: &str) -> PyResult<()> {
    trace(py).write_file(Path::new(path)).map_err(|e| PyOSError::new_err(e.to_string()))
}

/// The report as HTML.
#[pyfunction]
pub(crate) fn profiler_html(py: Python<'_>, title: &str) -> String {
    let trace = trace(py);
    py.detach(|| TraceReport::of(&trace).html(&trace, title))
}
