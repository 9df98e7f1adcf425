//! Indicator call: a request planned once, rows grouped by symbol, columns computed in place with the GIL released.

use std::{path::Path, sync::Arc};

use gpuforge::{
    frame::{
        column_roles::{self, ColumnMapping, Role},
        group_by_symbol::{gather, group_by_symbol, scatter},
    },
    indicators::{
        catalogue::Convention,
        describe,
        exec::{self, Columns, ExecOptions, Series},
        graph::Field,
        select::Selector,
    },
    indicators_gpu::{DeviceChoice, HybridExecutor},
    market,
    route::batch::CancelToken,
};
use numpy::PyArray1;
use pyo3::{
    exceptions::{PyMemoryError, PyValueError},
    prelude::*,
};

use crate::{
    arrays::{Arrays, Column, copy_to_vec, count_copy, into_numpy},
    arrow_data::{self, Table},
    errors,
    process::{self, ProcessRuntime},
};

/// Values (rows times columns) below which a call runs on the calling thread: it is done before a pool thread would start.
const INLINE_VALUES: usize = 1 << 17;
/// Values below which no device is considered; the facade has the same limit.
const MIN_DEVICE_VALUES: usize = 1 << 20;
/// Series computed between two checks for cancellation.
const SERIES_PER_CHECK: usize = 64;

/// A selection, planned.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Request {
    inner: Arc<market::Request>,
    described: String,
}

#[pymethods]
impl Request {
    /// `select` in the command line's syntax; definitions as `name = expression`.
    #[new]
    fn new(select: &str, define: Vec<String>, convention: &str) -> PyResult<Self> {
        let convention = match convention {
            "talib" => Convention::TaLib,
            "pandas" => Convention::Pandas,
            other => {
                let why = format!("there is no convention `{other}`\n  hint: \"talib\" or \"pandas\"");
                return Err(PyValueError::new_err(why));
            }
        };
        let mut selector = Selector::by(convention);
        for text in &define {
            selector.define(text).map_err(|e| errors::select(&e))?;
        }
        let wanted = match select.trim().is_empty() && !define.is_empty() {
            true => selector.defined().collect(),
            false => selector.select(select).map_err(|e| errors::select(&e))?,
        };
        let described = serde_json::to_string(&describe::selection(&wanted));
        let described = described.map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Request { inner: Arc::new(market::Request::of(&wanted)), described })
    }

    /// Names of the computed columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inner.selection.columns.clone()
    }

    /// Bar columns that are read.
    #[getter]
    fn needs(&self) -> Vec<&'static str> {
        market::needed(&self.inner.selection).into_iter().map(Role::name).collect()
    }

    /// Description of the selection, as JSON.
    #[getter]
    fn described(&self) -> &str {
        &self.described
    }

    /// Resolves column roles: role and position.
    fn resolve(
        &self,
        names: Vec<String>,
        columns: Vec<(String, String)>,
    ) -> PyResult<Vec<(&'static str, usize)>> {
        let needed = market::needed(&self.inner.selection);
        resolve(&names, &columns, &needed)
    }
}

/// Roles with the positions of their columns.
pub(crate) fn resolve(
    names: &[String],
    columns: &[(String, String)],
    needed: &[Role],
) -> PyResult<Vec<(&'static str, usize)>> {
    let mut mapping = ColumnMapping::default();
    for (role, name) in columns {
        let known = Role::of(role).ok_or_else(|| {
            let roles: Vec<&str> = column_roles::NAMES.iter().map(|(_, name, _)| *name).collect();
            PyValueError::new_err(format!(
                "`{role}` is not a column role\n  hint: columns={{ROLE: NAME}}, where ROLE is one of {}",
                roles.join(", ")
            ))
        })?;
        mapping.set(known, name.as_str());
    }
    let found = column_roles::resolve(Path::new("data"), names, &mapping, needed).map_err(errors::frame)?;
    Ok(column_roles::NAMES.iter().filter_map(|(role, name, _)| Some((*name, found.get(*role)?))).collect())
}

/// The indicator catalogue, as JSON.
#[pyfunction]
pub(crate) fn catalogue() -> PyResult<String> {
    serde_json::to_string(&describe::all()).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Time values of rows, and their ticks per second.
pub(crate) struct Times {
    pub(crate) values: Vec<i64>,
    pub(crate) per_second: f64,
}

/// Input of one computation; owns or keeps alive everything it reads, so that it can move to the pool.
pub(crate) struct IndicatorJob {
    pub(crate) request: Arc<market::Request>,
    pub(crate) rows: usize,
    pub(crate) fields: Vec<(Field, Column)>,
    pub(crate) codes: Option<Vec<i64>>,
    pub(crate) times: Option<Times>,
    pub(crate) device: DeviceChoice,
    pub(crate) threads: Option<usize>,
}

/// Bar field of a role name.
pub(crate) fn field(role: &str) -> Option<Field> {
    Field::ALL.into_iter().find(|f| format!("{f:?}").eq_ignore_ascii_case(role))
}

/// `auto`, `cpu` or `gpu`.
pub(crate) fn device(text: &str) -> PyResult<DeviceChoice> {
    match text {
        "auto" => Ok(DeviceChoice::Auto),
        "cpu" => Ok(DeviceChoice::Cpu),
        "gpu" => Ok(DeviceChoice::Gpu),
        other => {
            let why = format!("there is no device `{other}`\n  hint: \"auto\", \"cpu\" or \"gpu\"");
            Err(PyValueError::new_err(why))
        }
    }
}

/// Results, and the placement summary (JSON) if a device was considered.
pub(crate) struct Computed {
    pub(crate) columns: Vec<Vec<f64>>,
    pub(crate) done: Option<String>,
}

impl IndicatorJob {
    /// Computes on the calling thread or on the pool.
    pub(crate) fn run(self, py: Python<'_>) -> PyResult<Computed> {
        let values = self.rows.saturating_mul(self.request.selection.columns.len());
        let reach = self.device == DeviceChoice::Gpu
            || (self.device == DeviceChoice::Auto && values >= MIN_DEVICE_VALUES);
        let runtime = reach.then(|| process::runtime(py));
        if values < INLINE_VALUES && runtime.is_none() {
            let options = ExecOptions { threads: 1, ..exec_options(1) };
            return py.detach(|| self.compute(options, None, &CancelToken::default()));
        }
        process::wait_for(py, move |cancel| {
            let threads = self.threads.unwrap_or_else(rayon::current_num_threads);
            self.compute(exec_options(threads), runtime.as_ref(), cancel)
        })?
    }

    fn compute(
        &self,
        options: ExecOptions,
        runtime: Option<&ProcessRuntime>,
        cancel: &CancelToken,
    ) -> PyResult<Computed> {
        let plan = &self.request.selection.plan;
        let groups = group_by_symbol(
            self.rows,
            self.codes.as_deref(),
            self.times.as_ref().map(|t| t.values.as_slice()),
        );
        let order = groups.order.as_deref();
        let seconds = self.seconds(plan.fields().any(|f| f == Field::Time));
        let moved = |values: &[f64]| {
            order.map(|order| {
                count_copy(8 * values.len() as u64);
                gather(values, order)
            })
        };
        let mut inputs: Vec<(Field, std::borrow::Cow<'_, [f64]>)> = Vec::new();
        let given = self.fields.iter().map(|(f, c)| (*f, c.slice()));
        for (field, values) in given.chain(seconds.as_deref().map(|s| (Field::Time, s))) {
            inputs.push((field, moved(values).map_or(values.into(), Into::into)));
        }
        let series: Vec<Series<'_>> =
            groups.ranges.iter().map(|part| series(&inputs, part.clone())).collect();
        let mut columns = allocate_columns(plan.starts().len(), self.rows)?;
        let mut rest: Vec<&mut [f64]> = columns.iter_mut().map(Vec::as_mut_slice).collect();
        let mut outputs: Vec<Columns<'_>> = Vec::with_capacity(series.len());
        for part in &groups.ranges {
            let mut output = Columns::with_capacity(rest.len());
            for column in &mut rest {
                let (now, later) = std::mem::take(column).split_at_mut(part.len());
                *column = later;
                output.push(now);
            }
            outputs.push(output);
        }
        let done = self.run_series(&series, &mut outputs, options, runtime, cancel)?;
        drop(outputs);
        if let Some(order) = order {
            columns.iter_mut().for_each(|column| *column = scatter(column, order));
        }
        Ok(Computed { columns, done })
    }

    /// Computes chunks of series until done or cancelled.
    fn run_series(
        &self,
        series: &[Series<'_>],
        outputs: &mut [Columns<'_>],
        options: ExecOptions,
        runtime: Option<&ProcessRuntime>,
        cancel: &CancelToken,
    ) -> PyResult<Option<String>> {
        let Some(ProcessRuntime { forge, settings, places }) = runtime else {
            for (series, outputs) in series.chunks(SERIES_PER_CHECK).zip(outputs.chunks_mut(SERIES_PER_CHECK))
            {
                if cancel.is_cancelled() {
                    break;
                }
                exec::run_into(&self.request.selection.plan, series, outputs, options);
            }
            return Ok(None);
        };
        let access = forge.device_access(settings, places, self.device);
        let mut executor =
            HybridExecutor::new(self.request.as_ref(), options, &access).map_err(|e| errors::device(&e))?;
        executor.run_into(series, outputs);
        Ok(serde_json::to_string(executor.summary()).ok())
    }

    /// Seconds since the epoch, where the plan reads time.
    fn seconds(&self, wanted: bool) -> Option<Vec<f64>> {
        let times = self.times.as_ref().filter(|_| wanted)?;
        Some(times.values.iter().map(|t| *t as f64 / times.per_second).collect())
    }
}

/// Why plans of this process fell back from JIT code to the kernels, if any did.
#[pyfunction]
pub(crate) fn jit_fallbacks() -> Vec<String> {
    gpuforge::indicators::exec::jit_fallbacks().reasons
}

fn exec_options(threads: usize) -> ExecOptions {
    ExecOptions::with_threads(threads)
}

/// Result columns; `calloc` pages are zeroed by the kernel on first write.
fn allocate_columns(columns: usize, rows: usize) -> PyResult<Vec<Vec<f64>>> {
    let mut all = Vec::with_capacity(columns);
    for _ in 0..columns {
        let mut probe: Vec<f64> = Vec::new();
        probe.try_reserve_exact(rows).map_err(|_| {
            PyMemoryError::new_err(format!(
                "{columns} columns of {rows} rows do not fit into memory\n  hint: select fewer columns, or pass fewer symbols \
                 at once"
            ))
        })?;
        drop(probe);
        all.push(vec![0.0; rows]);
    }
    Ok(all)
}

/// A row range of the columns as one series.
fn series<'a>(
    inputs: &'a [(Field, std::borrow::Cow<'a, [f64]>)],
    part: std::ops::Range<usize>,
) -> Series<'a> {
    let of = |field: Field| {
        let found = inputs.iter().find(|(f, _)| *f == field);
        found.and_then(|(_, values)| values.get(part.clone())).unwrap_or(&[])
    };
    Series {
        open: of(Field::Open),
        high: of(Field::High),
        low: of(Field::Low),
        close: of(Field::Close),
        volume: of(Field::Volume),
        time: of(Field::Time),
    }
}

/// Computes a request for NumPy columns; one array per output, and the placement summary.
#[pyfunction]
#[pyo3(signature = (request, columns, rows, codes, times, per_second, device, threads))]
#[allow(clippy::too_many_arguments, reason = "the Python side has one call for it")]
pub(crate) fn indicators_arrays<'py>(
    py: Python<'py>,
    request: &Request,
    columns: Vec<(String, Bound<'py, PyAny>)>,
    rows: usize,
    codes: Option<&Bound<'py, PyArray1<i64>>>,
    times: Option<&Bound<'py, PyArray1<i64>>>,
    per_second: f64,
    device: &str,
    threads: Option<usize>,
) -> PyResult<(Arrays<'py>, Option<String>)> {
    let mut fields = Vec::new();
    for (role, array) in &columns {
        if let Some(field) = field(role) {
            fields.push((field, Column::of(array)?));
        }
    }
    let job = IndicatorJob {
        request: request.inner.clone(),
        rows,
        fields,
        codes: codes.map(copy_to_vec),
        times: times.map(|t| Times { values: copy_to_vec(t), per_second }),
        device: self::device(device)?,
        threads,
    };
    let computed = job.run(py)?;
    Ok((computed.columns.into_iter().map(|column| into_numpy(py, column)).collect(), computed.done))
}

/// Computes a request for an Arrow table; kept columns come first.
#[pyfunction]
#[pyo3(signature = (request, data, columns, by, time, keep, device, threads))]
#[allow(clippy::too_many_arguments, reason = "the Python side has one call for it")]
pub(crate) fn indicators_arrow(
    py: Python<'_>,
    request: &Request,
    data: pyo3_arrow::input::AnyRecordBatch,
    columns: Vec<(String, String)>,
    by: Option<&str>,
    time: Option<&str>,
    keep: Option<Vec<String>>,
    device: &str,
    threads: Option<usize>,
) -> PyResult<(Table, Option<String>)> {
    let device = self::device(device)?;
    let read = arrow_data::read(data)?;
    let keys = arrow_data::Keys { by, time, columns: &columns };
    let (job, found) = read.job(request.inner.clone(), &keys, device, threads)?;
    let keep = keep.unwrap_or(found);
    let names = request.inner.selection.columns.clone();
    let computed = job.run(py)?;
    Ok((read.table(&keep, names, computed.columns)?, computed.done))
}
