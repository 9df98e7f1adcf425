//! Precision of float outputs: reassociated (`"fast"`) or sequential (`"exact"`) arithmetic, and the default of the process.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::{exceptions::PyValueError, prelude::*, types::PyString};

/// How float outputs are computed. Integer outputs are always exact: a candle pattern may depend on the last digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// The bits of the sequential recurrence.
    Exact,
    /// Reassociated sums: twelve digits.
    Fast,
}

/// Is the default exact? One flag for all threads, read once per call.
static EXACT_BY_DEFAULT: AtomicBool = AtomicBool::new(false);

impl Precision {
    /// What a call asked for, or the default.
    pub(super) fn of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Precision> {
        match given {
            Some(given) => Precision::parse(given),
            None if EXACT_BY_DEFAULT.load(Ordering::Relaxed) => Ok(Precision::Exact),
            None => Ok(Precision::Fast),
        }
    }

    fn parse(given: &Bound<'_, PyAny>) -> PyResult<Precision> {
        let text = given.cast::<PyString>().ok().map(|text| text.to_cow()).transpose()?;
        match text.as_deref() {
            Some("exact") => Ok(Precision::Exact),
            Some("fast") => Ok(Precision::Fast),
            _ => Err(PyValueError::new_err(format!(
                "precision is \"exact\" or \"fast\", not {}",
                given.repr()?.to_cow()?
            ))),
        }
    }
}

/// Sets the default of the process.
#[pyfunction]
pub(crate) fn talib_set_precision(precision: &Bound<'_, PyAny>) -> PyResult<()> {
    let exact = Precision::parse(precision)? == Precision::Exact;
    EXACT_BY_DEFAULT.store(exact, Ordering::Relaxed);
    Ok(())
}

/// The default of the process.
#[pyfunction]
pub(crate) fn talib_precision() -> &'static str {
    if EXACT_BY_DEFAULT.load(Ordering::Relaxed) { "exact" } else { "fast" }
}
