//! TA-Lib call path: a catalogue row planned once per parameter set (plan cache), computed straight into NumPy result arrays.
//!
//! TA-Lib's conventions are kept: leading NaN bars are not history, integer outputs are `int32` with zeros before the first
//! value, and errors are TA-Lib's.

mod moving_average;
mod precision;
mod stream;
mod table;
mod unstable;
mod variable;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use gpuforge::indicators::{
    catalogue::{self, Indicator, Param},
    exec::{self, Columns, ExecOptions, Series},
    graph::Field,
    select::{self, Instance, Selection},
};
use moving_average::{MA_DOC, MA_PARAMS, moving_average};
use numpy::{Element, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use precision::Precision;
pub(crate) use precision::{talib_precision, talib_set_precision};
use pyo3::{
    exceptions::{PyException, PyTypeError},
    prelude::*,
    types::PyTuple,
};
pub(crate) use stream::{InsufficientHistory, TalibStream};
use table::{FLAGS, FROM_NOTHING, Function, LIMITS, ORDERED, OUTPUT_FLAGS, STREAMING, TABLE};
pub(crate) use unstable::{talib_set_unstable, talib_unstable};

use crate::{
    arrays::{copy_to_vec, count_copy, is_zero_copy},
    buffer_pool,
};

/// TA-Lib's sentinels for "the default".
const INTEGER_DEFAULT: f64 = i32::MIN as f64;
const REAL_DEFAULT: f64 = -4e37;
/// Capacity of a function's plan cache.
const PLAN_CACHE: usize = 64;
/// Rows from which on the GIL is released: below, releasing costs more than it gains.
const RELEASE_GIL_ROWS: usize = 4096;

/// A TA-Lib function bound to its computation.
struct BoundFunction {
    function: &'static Function,
    computation: Computation,
    /// Parameters with TA-Lib's limits.
    params: Vec<Param>,
    /// Bar field of each input array.
    fields: Vec<Field>,
    outputs: Vec<Output>,
    /// Parameter pair that must be in ascending order.
    ordered: Option<(usize, usize)>,
    plans: Mutex<Vec<(Vec<f64>, Arc<Selection>)>>,
}

/// How a function is computed.
#[derive(Clone, Copy)]
enum Computation {
    /// A catalogue indicator.
    Indicator(&'static Indicator),
    /// The moving average selected by its second parameter.
    MovingAverage,
}

/// Kind of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Real,
    Integer,
    /// A bar index, counted from the first of the array.
    Bar,
}

impl Output {
    /// An array without rows.
    fn empty_array(self, py: Python<'_>) -> Bound<'_, PyAny> {
        match self {
            Output::Real => PyArray1::<f64>::from_vec(py, Vec::new()).into_any(),
            Output::Integer | Output::Bar => PyArray1::<i32>::from_vec(py, Vec::new()).into_any(),
        }
    }
}

static FUNCTIONS: LazyLock<Vec<BoundFunction>> =
    LazyLock::new(|| TABLE.iter().filter_map(BoundFunction::of).collect());

impl BoundFunction {
    fn of(function: &'static Function) -> Option<BoundFunction> {
        let row = catalogue::all().find(|r| r.aliases.first() == Some(&function.name));
        let computation = match row {
            Some(row) => Computation::Indicator(row),
            None if function.name == "MA" => Computation::MovingAverage,
            None => return None,
        };
        let inputs = row.map_or(&[Field::Close] as &[Field], |row| row.inputs);
        let mut params = row.map_or(&MA_PARAMS as &[Param], |row| row.params).to_vec();
        for (param, (name, _)) in params.iter_mut().zip(words(function.params)) {
            let limit = LIMITS
                .iter()
                .find(|(of, pattern, ..)| (of.is_empty() || *of == function.name) && fits(pattern, name));
            (param.min, param.max) = limit.map_or((param.min, param.max), |(.., min, max)| (*min, *max));
        }
        let named = |name: &str| Field::ALL.into_iter().find(|f| format!("{f:?}").eq_ignore_ascii_case(name));
        let field = |(at, name)| named(name).or_else(|| inputs.get(at).copied());
        let fields = function.inputs.split_whitespace().enumerate().map(field).collect::<Option<_>>()?;
        let output = |flags: &str| match flags {
            flags if flags.contains('x') => Output::Bar,
            flags if flags.contains('i') => Output::Integer,
            _ => Output::Real,
        };
        let outputs = words(function.outputs).map(|(_, flags)| output(flags)).collect();
        let ordered = ORDERED.iter().find(|(name, ..)| *name == function.name).map(|(_, a, b)| (*a, *b));
        Some(BoundFunction {
            function,
            computation,
            params,
            fields,
            outputs,
            ordered,
            plans: Mutex::default(),
        })
    }

    /// The plan for these parameters. Locked only while the GIL is held, so no fork happens meanwhile.
    fn plan(&self, params: Vec<f64>) -> Arc<Selection> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(key, _)| *key == params) {
            return plan.clone();
        }
        let plan = Arc::new(self.build_plan(&params));
        if plans.len() >= PLAN_CACHE {
            plans.remove(0);
        }
        plans.push((params, plan.clone()));
        plan
    }

    fn build_plan(&self, params: &[f64]) -> Selection {
        let row = match self.computation {
            Computation::Indicator(row) => row,
            Computation::MovingAverage => {
                let [n, kind] = [0, 1].map(|at| params.get(at).map_or(0, |x| *x as usize));
                return moving_average(n, kind);
            }
        };
        select::select(&[Instance::with(row, params)])
    }

    /// pandas and Polars Series are unwrapped and wrapped in Python.
    fn call_series<'py>(
        &self,
        id: usize,
        args: &Bound<'py, PyTuple>,
        precision: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let names: Vec<&str> = self.function.inputs.split_whitespace().collect();
        let module = args.py().import("gpuforge.talib._series")?;
        module.getattr("call")?.call1((id, names, args, precision))
    }

    /// Validated parameters with defaults filled in.
    fn params_of<'py>(&self, given: impl Iterator<Item = Bound<'py, PyAny>>) -> Result<Vec<f64>, ParamError> {
        let mut params: Vec<f64> = self.params.iter().map(|p| p.default).collect();
        for ((slot, param), given) in params.iter_mut().zip(&self.params).zip(given) {
            let x: f64 = given.extract()?;
            if x == INTEGER_DEFAULT || x == REAL_DEFAULT {
                continue;
            }
            let x = if param.integer { x.trunc() } else { x };
            if !(param.min..=param.max).contains(&x) || (param.even && x % 2.0 != 0.0) {
                return Err(ParamError::OutOfRange);
            }
            *slot = x;
        }
        let descending =
            |(a, b): &(usize, usize)| params.get(*a).zip(params.get(*b)).is_some_and(|(a, b)| a > b);
        if self.ordered.is_some_and(|ordered| descending(&ordered)) {
            Err(ParamError::OutOfRange)
        } else {
            Ok(params)
        }
    }

    /// TA-Lib's "Bad Parameter" error.
    fn bad_param(&self, call: &str) -> PyErr {
        let name = self.function.name;
        PyException::new_err(format!(
            "TA_{name}{call} function failed with error code 2: Bad Parameter (TA_BAD_PARAM)"
        ))
    }

    /// Lookback: the first bar at which every output has a value, by the parameters alone.
    fn lookback(&self, params: &[f64]) -> PyResult<usize> {
        let plan = if self.is_wide(params) { self.widest(params) } else { self.plan(params.to_vec()) };
        Ok(plan.plan.starts().iter().copied().max().unwrap_or(0))
    }

    fn call<'py>(
        &self,
        id: usize,
        args: &Bound<'py, PyTuple>,
        given_precision: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let precision = Precision::of(given_precision)?;
        let n_inputs = self.fields.len();
        let mut inputs = Vec::with_capacity(n_inputs);
        for array in args.iter().take(n_inputs) {
            match Input::of(array)? {
                Some(input) => inputs.push(input),
                None => return self.call_series(id, args, given_precision),
            }
        }
        let rows = inputs.first().map_or(0, |i| i.slice().len());
        if inputs.iter().any(|i| i.slice().len() != rows) {
            return Err(PyException::new_err("input array lengths are different"));
        }
        if rows == 0 {
            // TA-Lib computes nothing then, and checks no parameter.
            return to_python(py, self.outputs.iter().map(|output| output.empty_array(py)).collect());
        }
        let params = self.params_of(args.iter().skip(n_inputs)).map_err(|error| error.into_py(self, ""))?;
        let slices: Vec<&[f64]> = inputs.iter().map(Input::slice).collect();
        let first_valid = first_valid_bar(&slices);
        // If every bar has a NaN, TA-Lib starts at the last bar.
        let first_valid_bar = first_valid.unwrap_or(rows.saturating_sub(1));
        if self.outputs.contains(&Output::Bar) {
            return self.bars(py, slices.first().copied().unwrap_or(&[]), first_valid_bar, &params);
        }
        let nothing = first_valid.is_none() && FROM_NOTHING.contains(&self.function.name);
        if nothing || self.is_short(rows, &params) {
            let empty = self.outputs.iter().map(|_| PyArray1::from_vec(py, vec![f64::NAN; rows]).into_any());
            return to_python(py, empty.collect());
        }
        let unstable_bars = unstable::extra_bars(self, &params)?;
        if self.is_wide(&params) {
            let run = || self.variable_period(&slices, first_valid_bar, &params, precision);
            let mut column = py.detach(run);
            fill_nan(&mut column, first_valid_bar + self.lookback(&params)?, unstable_bars);
            return Ok(PyArray1::from_vec(py, column).into_any());
        }
        let selection = self.plan(params);
        let mut series = Series::default();
        for (field, slice) in self.fields.iter().zip(&slices) {
            *field_slot(&mut series, *field) = slice.get(first_valid_bar..).unwrap_or(&[]);
        }
        let reals: Vec<Option<Bound<'py, PyArray1<f64>>>> =
            self.outputs.iter().map(|o| (*o == Output::Real).then(|| result_array(py, rows))).collect();
        let mut scratch: Vec<Vec<f64>> = self
            .outputs
            .iter()
            .map(|o| if *o == Output::Real { Vec::new() } else { take_scratch(rows) })
            .collect();
        let mut columns = Columns::with_capacity(self.outputs.len());
        for (array, scratch) in reals.iter().zip(&mut scratch) {
            let column = array.as_ref().map_or(scratch.as_mut_slice(), as_slice_mut);
            let (before, column) = column.split_at_mut(first_valid_bar);
            before.fill(f64::NAN);
            columns.push(column);
        }
        let mut columns = [columns];
        // A candle pattern may depend on the last digit: no relaxed floating point.
        let all_real = self.outputs.iter().all(|output| *output == Output::Real);
        let options = exec_options(rows, if all_real { precision } else { Precision::Exact });
        let mut compute = || {
            exec::run_into(&selection.plan, &[series], &mut columns, options);
            if unstable_bars > 0 {
                let starts = selection.plan.starts();
                columns
                    .iter_mut()
                    .flatten()
                    .zip(starts)
                    .for_each(|(c, start)| fill_nan(c, *start, unstable_bars));
            }
        };
        if rows < RELEASE_GIL_ROWS {
            compute();
        } else {
            py.detach(compute);
        }
        let mut results: Vec<Bound<'py, PyAny>> = Vec::with_capacity(self.outputs.len());
        for (array, scratch) in reals.into_iter().zip(scratch) {
            results.push(match array {
                Some(array) => array.into_any(),
                None => {
                    let whole = to_int32(py, &scratch).into_any();
                    if rows <= SCRATCH_CAPACITY {
                        SCRATCH.set(scratch);
                    }
                    whole
                }
            });
        }
        to_python(py, results)
    }

    /// Bar indices of extremes (MAXINDEX, MININDEX, MINMAXINDEX).
    fn bars<'py>(
        &self,
        py: Python<'py>,
        values: &[f64],
        first_valid_bar: usize,
        params: &[f64],
    ) -> PyResult<Bound<'py, PyAny>> {
        let n = params.first().map_or(1, |n| *n as usize);
        let max = words(self.function.outputs).map(|(_, flags)| flags.contains('>'));
        let bars = |max: bool| match max {
            true => extreme_bars::<true>(values, first_valid_bar, n),
            false => extreme_bars::<false>(values, first_valid_bar, n),
        };
        let short = values.len() < RELEASE_GIL_ROWS;
        let run = |max: bool| if short { bars(max) } else { py.detach(|| bars(max)) };
        let all = max.map(|max| PyArray1::from_vec(py, run(max)).into_any());
        to_python(py, all.collect())
    }
}

/// Parameter errors.
enum ParamError {
    /// Out of range.
    OutOfRange,
    /// Not convertible to a number.
    Python(PyErr),
}

impl From<PyErr> for ParamError {
    fn from(error: PyErr) -> Self {
        ParamError::Python(error)
    }
}

impl ParamError {
    fn into_py(self, function: &BoundFunction, call: &str) -> PyErr {
        match self {
            ParamError::OutOfRange => function.bad_param(call),
            ParamError::Python(error) => error,
        }
    }
}

/// The first bar without NaN in any input; bars before it are not history.
fn first_valid_bar(slices: &[&[f64]]) -> Option<usize> {
    let rows = slices.first().map_or(0, |s| s.len());
    (0..rows).find(|at| slices.iter().all(|s| s.get(*at).is_some_and(|x| !x.is_nan())))
}

/// NaN fill of `bars` values from `start` on: the unstable period.
fn fill_nan(column: &mut [f64], start: usize, bars: usize) {
    column.iter_mut().skip(start).take(bars).for_each(|x| *x = f64::NAN);
}

/// One array, or a tuple of arrays.
fn to_python<'py>(py: Python<'py>, mut results: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    match results.len() {
        1 => results.pop().ok_or_else(|| PyTypeError::new_err("no output")),
        _ => Ok(PyTuple::new(py, results)?.into_any()),
    }
}

/// Bar index of the extreme of the last `n` values. Of equals TA-Lib takes the newest as it arrives, but the oldest when the
/// previous extreme leaves the window and it rescans; the catalogue's indicators always take the newest.
fn extreme_bars<const MAX: bool>(values: &[f64], first_valid_bar: usize, n: usize) -> Vec<i32> {
    let mut bars = vec![0; values.len()];
    let beats = |x: f64, best: f64| if MAX { x > best } else { x < best };
    let first = (first_valid_bar + n).saturating_sub(1);
    let days = values.iter().enumerate().zip(&mut bars).skip(first);
    // Before the first window: rescan, as if the extreme had just left.
    let (mut best, mut extreme) = (0, f64::NAN);
    let mut has_extreme = false;
    for ((today, x), bar) in days {
        let oldest = today + 1 - n;
        if !has_extreme || best < oldest {
            let window = values.get(oldest..=today).unwrap_or(&[]);
            (best, extreme, has_extreme) = (oldest, window.first().copied().unwrap_or(f64::NAN), true);
            for (at, x) in (oldest..).zip(window) {
                if beats(*x, extreme) {
                    (best, extreme) = (at, *x);
                }
            }
        } else if beats(*x, extreme) || *x == extreme {
            (best, extreme) = (today, *x);
        }
        *bar = i32::try_from(best).unwrap_or(i32::MAX);
    }
    bars
}

/// Glob match with a `*` at the beginning or end.
fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(beginning)) => name.starts_with(beginning),
        (None, None) => name == pattern,
    }
}

/// Single series on this thread. A short one that is exact is computed as one block; the block of relaxed floating point is the
/// plan's, since the last digits depend on it.
fn exec_options(rows: usize, precision: Precision) -> ExecOptions {
    let short = rows < RELEASE_GIL_ROWS;
    let relaxed_fp = precision == Precision::Fast;
    ExecOptions {
        block: (short && !relaxed_fp).then_some(rows.clamp(64, 512)),
        batched: short.then_some(false),
        relaxed_fp,
        ..ExecOptions::with_threads(1)
    }
}

/// An input array of a call: zero-copy where it is contiguous and aligned.
enum Input<'py> {
    Borrowed(Bound<'py, PyArray1<f64>>),
    Copied(Vec<f64>),
}

impl<'py> Input<'py> {
    /// `None` if it is not an array.
    fn of(given: Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        match given.cast_into::<PyArray1<f64>>() {
            Ok(array) if is_zero_copy(&array) => Ok(Some(Input::Borrowed(array))),
            Ok(array) => {
                count_copy(8 * array.len() as u64);
                Ok(Some(Input::Copied(copy_to_vec(&array))))
            }
            Err(error) => from_other_array(&error.into_inner()),
        }
    }

    fn slice(&self) -> &[f64] {
        match self {
            Input::Copied(numbers) => numbers,
            Input::Borrowed(array) => {
                #[allow(
                    unsafe_code,
                    reason = "the borrow checks of the numpy crate cost as much as a short call"
                )]
                // SAFETY: the array is held, contiguous and aligned; it is only read. A concurrent writer races with us as with
                // NumPy.
                let slice = unsafe { array.as_slice() };
                slice.unwrap_or(&[])
            }
        }
    }
}

/// A non-native array: byte-swapped float64 is converted, else TA-Lib's error.
fn from_other_array<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Input<'py>>> {
    let Ok(array) = given.cast::<PyUntypedArray>() else { return Ok(None) };
    let kind = array.dtype();
    let native = f64::get_dtype(given.py());
    let doubles = kind.kind() == native.kind() && kind.itemsize() == native.itemsize();
    if !doubles {
        return Err(PyException::new_err("input array type is not double"));
    }
    if array.ndim() != 1 {
        return Err(PyException::new_err("input array has wrong dimensions"));
    }
    let swapped = given.call_method1("astype", (native,))?.cast_into::<PyArray1<f64>>()?;
    count_copy(8 * swapped.len() as u64);
    // A subclass may return any layout.
    let fits = is_zero_copy(&swapped);
    Ok(Some(if fits { Input::Borrowed(swapped) } else { Input::Copied(copy_to_vec(&swapped)) }))
}

thread_local! {
    /// Scratch of integer outputs before their conversion; reused, since allocating takes as long as filling.
    static SCRATCH: std::cell::Cell<Vec<f64>> = const { std::cell::Cell::new(Vec::new()) };
}
/// Values of scratch kept per thread.
const SCRATCH_CAPACITY: usize = 1 << 17;

/// Scratch buffer, contents unspecified.
fn take_scratch(rows: usize) -> Vec<f64> {
    let mut scratch = if rows <= SCRATCH_CAPACITY { SCRATCH.take() } else { Vec::new() };
    scratch.resize(rows, 0.0);
    scratch
}

/// A result array, contents unspecified.
fn result_array(py: Python<'_>, rows: usize) -> Bound<'_, PyArray1<f64>> {
    buffer_pool::pooled_array(py, rows).unwrap_or_else(|| uninit_array(py, rows))
}

/// An uninitialised array: every value is written before anybody sees it.
fn uninit_array<T: Element>(py: Python<'_>, rows: usize) -> Bound<'_, PyArray1<T>> {
    #[allow(unsafe_code, reason = "writing zeros first takes an eighth of a call")]
    // SAFETY: only used for numeric types, for which any bits are valid.
    unsafe {
        PyArray1::new(py, [rows], false)
    }
}

/// Magic number 1.5 * 2^52: adding it leaves the rounded integer in the low bits, and 0 for NaN.
const ROUND_TO_INT_MAGIC: f64 = 6_755_399_441_055_744.0;

/// Converts to int32; NaN becomes 0.
fn to_int32<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyArray1<i32>> {
    let array = uninit_array(py, numbers.len());
    for (to, x) in as_slice_mut::<i32>(&array).iter_mut().zip(numbers) {
        *to = (x + ROUND_TO_INT_MAGIC).to_bits() as u32 as i32;
    }
    array
}

/// Mutable slice of a new array that nobody else has yet.
#[allow(clippy::mut_from_ref, reason = "an array of Python is a handle: who holds one may write through it")]
fn as_slice_mut<'a, T: Element>(array: &'a Bound<'_, PyArray1<T>>) -> &'a mut [T] {
    #[allow(unsafe_code, reason = "the borrow checks of the numpy crate cost as much as a short call")]
    // SAFETY: the array was created for this call: it is contiguous and nobody else has it.
    let slice = unsafe { array.as_slice_mut() };
    slice.unwrap_or(&mut [])
}

fn field_slot<'s, 'a>(series: &'s mut Series<'a>, field: Field) -> &'s mut &'a [f64] {
    match field {
        Field::Open => &mut series.open,
        Field::High => &mut series.high,
        Field::Low => &mut series.low,
        Field::Close => &mut series.close,
        Field::Volume => &mut series.volume,
        Field::Time => &mut series.time,
    }
}

/// Words with the suffix after their colon.
fn words(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split_whitespace().map(|word| word.split_once(':').unwrap_or((word, "")))
}

fn find_function(id: usize) -> PyResult<&'static BoundFunction> {
    FUNCTIONS.get(id).ok_or_else(|| PyTypeError::new_err("no such function"))
}

/// Calls a function by its position in [`talib_functions`], with its arrays and then its parameters.
#[pyfunction]
#[pyo3(signature = (id, *args, precision=None))]
pub(crate) fn talib_call<'py>(
    id: usize,
    args: &Bound<'py, PyTuple>,
    precision: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    find_function(id)?.call(id, args, precision)
}

/// Lookback of a function, unstable period included.
#[pyfunction]
#[pyo3(signature = (id, *params))]
pub(crate) fn talib_lookback(id: usize, params: &Bound<'_, PyTuple>) -> PyResult<usize> {
    let function = find_function(id)?;
    let params = function.params_of(params.iter()).map_err(|error| error.into_py(function, ""))?;
    Ok(function.lookback(&params)? + unstable::extra_bars(function, &params)?)
}

/// All functions as JSON: name, group, inputs, parameters with defaults, outputs and flags.
#[pyfunction]
pub(crate) fn talib_functions() -> String {
    let all: Vec<serde_json::Value> = FUNCTIONS.iter().map(function_json).collect();
    serde_json::Value::from(all).to_string()
}

fn function_json(bound: &BoundFunction) -> serde_json::Value {
    let BoundFunction { function, computation, .. } = bound;
    let doc = match computation {
        Computation::Indicator(row) => row.doc,
        Computation::MovingAverage => MA_DOC,
    };
    let named = |flags: &str, table: &[(char, &'static str)]| -> Vec<&'static str> {
        flags
            .chars()
            .filter_map(|c| table.iter().find(|(flag, _)| *flag == c).map(|(_, name)| *name))
            .collect()
    };
    // Every function can stream; TA-Lib lists that flag in the middle.
    let scale = function.flags.find(|c| !"1s".contains(c)).unwrap_or(function.flags.len());
    let (before, after) = function.flags.split_at(scale);
    let flags = [named(before, &FLAGS), vec![STREAMING], named(after, &FLAGS)].concat();
    let params: Vec<serde_json::Value> = words(function.params)
        .zip(&bound.params)
        .map(|((name, kind), param)| {
            let real = matches!(kind, "f" | "e");
            let default =
                if real { param.default.into() } else { serde_json::Value::from(param.default as i64) };
            let shown = matches!(kind, "t" | "e");
            serde_json::json!({ "name": name, "real": real, "default": default, "shown": shown })
        })
        .collect();
    let outputs: Vec<serde_json::Value> = words(function.outputs)
        .map(|(name, flags)| {
            let whole = flags.contains('i');
            serde_json::json!({ "name": name, "whole": whole, "flags": named(flags, &OUTPUT_FLAGS) })
        })
        .collect();
    serde_json::json!({
        "name": function.name,
        "group": function.group,
        "display_name": function.display,
        "inputs": function.inputs.split_whitespace().collect::<Vec<_>>(),
        "params": params,
        "outputs": outputs,
        "flags": flags,
        "doc": doc,
    })
}
