//! TA-Lib call path: a catalogue row planned once per parameter set (plan cache), computed straight into NumPy result arrays.
//!
//! What callers of TA-Lib rely on is kept: leading bars with NaN are no history, whole numbers are `int32` with zeros before
//! the first, and mistakes raise what TA-Lib raises.

mod stream;
mod table;
mod unstable;
mod variable;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use gpuforge::indicators::{
    catalogue::{self, Indicator, Param, whole},
    exec::{self, Columns, ExecOptions, Series},
    graph::Field,
    select::{self, Instance, Selection, Selector},
};
use numpy::{Element, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::{
    exceptions::{PyException, PyTypeError},
    prelude::*,
    types::PyTuple,
};
pub(crate) use stream::{InsufficientHistory, TalibStream};
use table::{FLAGS, FROM_NOTHING, Function, LIMITS, ORDERED, OUTPUT_FLAGS, STREAMING, TABLE};
pub(crate) use unstable::{talib_set_unstable, talib_unstable};

use crate::{
    arrays::{copied, count_copy, is_zero_copy},
    buffer_pool,
};

/// TA-Lib's marks for "the default".
const WHOLE_DEFAULT: f64 = i32::MIN as f64;
const REAL_DEFAULT: f64 = -4e37;
/// Capacity of a function's plan cache.
const PLAN_CACHE: usize = 64;
/// Rows from which on the GIL is released: below, releasing costs more than it gains.
const RELEASE_GIL_ROWS: usize = 4096;

/// A TA-Lib function bound to what computes it.
struct BoundFunction {
    function: &'static Function,
    maker: Maker,
    /// Its parameters, with the defaults of TA-Lib.
    params: Vec<Param>,
    /// Where each array goes.
    fields: Vec<Field>,
    outputs: Vec<Output>,
    /// Parameters of which the first must not be greater than the second.
    ordered: Option<(usize, usize)>,
    plans: Mutex<Vec<(Vec<f64>, Arc<Selection>)>>,
}

/// What computes a function.
#[derive(Clone, Copy)]
enum Maker {
    /// A row of the catalogue.
    Row(&'static Indicator),
    /// The moving average that its second parameter names: one of [`MEANS`].
    Mean,
}

/// Selections of moving averages by TA-Lib's number of their kind, with `{n}` for the period. Of a period of 1 all are the value.
const MEANS: [&str; 16] = [
    "sma({n})",
    "ema({n})",
    "wma({n})",
    "dema({n})",
    "tema({n})",
    "trima({n})",
    "kama({n})",
    "mama(0.5, 0.05).mama",
    "t3({n}, 0.7)",
    "hma({n})",
    "close",
    "sma({n})",
    "zlema({n})",
    "rma({n})",
    "vidya({n}, {m})",
    "alma({n})",
];
const MEAN_PARAMS: [Param; 2] = [whole("period", 30, 1, 100_000), whole("ma_type", 0, 0, 15)];
const MEAN_DOC: &str = "The moving average that `matype` names.";

/// What an output is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Real,
    Whole,
    /// The number of a bar, counted from the first of the array.
    Bar,
}

static FUNCTIONS: LazyLock<Vec<BoundFunction>> =
    LazyLock::new(|| TABLE.iter().filter_map(BoundFunction::of).collect());

impl BoundFunction {
    fn of(function: &'static Function) -> Option<BoundFunction> {
        let row = catalogue::all().find(|r| r.aliases.first() == Some(&function.name));
        let maker = match row {
            Some(row) => Maker::Row(row),
            None if function.name == "MA" => Maker::Mean,
            None => return None,
        };
        let inputs = row.map_or(&[Field::Close] as &[Field], |row| row.inputs);
        let mut params = row.map_or(&MEAN_PARAMS as &[Param], |row| row.params).to_vec();
        for (param, (name, kind)) in params.iter_mut().zip(words(function.params)) {
            let limit = LIMITS
                .iter()
                .find(|(of, known, ..)| (of.is_empty() || *of == function.name) && fits(known, name));
            (param.min, param.max) = limit.map_or((param.min, param.max), |(.., min, max)| (*min, *max));
            param.default = kind.strip_prefix('=').and_then(|x| x.parse().ok()).unwrap_or(param.default);
        }
        let named = |name: &str| Field::ALL.into_iter().find(|f| format!("{f:?}").eq_ignore_ascii_case(name));
        let place = |(at, name)| named(name).or_else(|| inputs.get(at).copied());
        let fields = function.inputs.split_whitespace().enumerate().map(place).collect::<Option<_>>()?;
        let output = |flags: &str| match flags {
            flags if flags.contains('x') => Output::Bar,
            flags if flags.contains('i') => Output::Whole,
            _ => Output::Real,
        };
        let outputs = words(function.outputs).map(|(_, flags)| output(flags)).collect();
        let ordered = ORDERED.iter().find(|(name, ..)| *name == function.name).map(|(_, a, b)| (*a, *b));
        Some(BoundFunction { function, maker, params, fields, outputs, ordered, plans: Mutex::default() })
    }

    /// The plan for these parameters. Locked only while the GIL is held, so no fork happens meanwhile.
    fn plan(&self, params: Vec<f64>) -> Arc<Selection> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(known, _)| *known == params) {
            return plan.clone();
        }
        let made = Arc::new(self.made(&params));
        if plans.len() >= PLAN_CACHE {
            plans.remove(0);
        }
        plans.push((params, made.clone()));
        made
    }

    fn made(&self, params: &[f64]) -> Selection {
        let row = match self.maker {
            Maker::Row(row) => row,
            Maker::Mean => {
                let [n, kind] = [0, 1].map(|at| params.get(at).map_or(0, |x| *x as usize));
                return mean(n, kind);
            }
        };
        select::select(&[Instance::with(row, params)])
    }

    /// Series of pandas and Polars are Python's to take apart and put together again.
    fn otherwise<'py>(&self, id: usize, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let names: Vec<&str> = self.function.inputs.split_whitespace().collect();
        let there = args.py().import("gpuforge.talib._series")?;
        there.getattr("call")?.call1((id, names, args))
    }

    /// Parameters as the row takes them.
    fn params_of<'py>(&self, given: impl Iterator<Item = Bound<'py, PyAny>>) -> Result<Vec<f64>, Wrong> {
        let mut params: Vec<f64> = self.params.iter().map(|p| p.default).collect();
        for ((slot, param), given) in params.iter_mut().zip(&self.params).zip(given) {
            let x: f64 = given.extract()?;
            if x == WHOLE_DEFAULT || x == REAL_DEFAULT {
                continue;
            }
            let x = if param.integer { x.trunc() } else { x };
            if !(param.min..=param.max).contains(&x) || (param.even && x % 2.0 != 0.0) {
                return Err(Wrong::Parameter);
            }
            *slot = x;
        }
        let turned = |(a, b): &(usize, usize)| params.get(*a).zip(params.get(*b)).is_some_and(|(a, b)| a > b);
        if self.ordered.is_some_and(|ordered| turned(&ordered)) { Err(Wrong::Parameter) } else { Ok(params) }
    }

    /// TA-Lib's words for what it refuses.
    fn refused(&self, call: &str) -> PyErr {
        let name = self.function.name;
        PyException::new_err(format!(
            "TA_{name}{call} function failed with error code 2: Bad Parameter (TA_BAD_PARAM)"
        ))
    }

    /// The first bar at which every output has a value, by the parameters alone.
    fn lookback(&self, params: &[f64]) -> PyResult<usize> {
        let plan = if self.is_wide(params) { self.widest(params) } else { self.plan(params.to_vec()) };
        Ok(plan.plan.starts().iter().copied().max().unwrap_or(0))
    }

    fn call<'py>(&self, id: usize, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let n_inputs = self.fields.len();
        let mut inputs = Vec::with_capacity(n_inputs);
        for array in args.iter().take(n_inputs) {
            match Input::of(array)? {
                Some(input) => inputs.push(input),
                None => return self.otherwise(id, args),
            }
        }
        let rows = inputs.first().map_or(0, |i| i.slice().len());
        if inputs.iter().any(|i| i.slice().len() != rows) {
            return Err(PyException::new_err("input array lengths are different"));
        }
        let params = self.params_of(args.iter().skip(n_inputs)).map_err(|wrong| wrong.error(self, ""))?;
        let slices: Vec<&[f64]> = inputs.iter().map(Input::slice).collect();
        let begun = begin(&slices);
        // Where no bar has all its numbers, TA-Lib takes the last for one that has.
        let begin = begun.unwrap_or(rows.saturating_sub(1));
        if self.outputs.contains(&Output::Bar) {
            return self.bars(py, slices.first().copied().unwrap_or(&[]), begin, &params);
        }
        let nothing = begun.is_none() && FROM_NOTHING.contains(&self.function.name);
        if nothing || self.is_short(rows, &params) {
            let nothing =
                self.outputs.iter().map(|_| PyArray1::from_vec(py, vec![f64::NAN; rows]).into_any());
            return given_back(py, nothing.collect());
        }
        let later = unstable::later(self, &params)?;
        if self.is_wide(&params) {
            let mut column = py.detach(|| self.of_many(&slices, begin, &params));
            fill_nan(&mut column, begin + self.lookback(&params)?, later);
            return Ok(PyArray1::from_vec(py, column).into_any());
        }
        let selection = self.plan(params);
        let mut series = Series::default();
        for (field, slice) in self.fields.iter().zip(&slices) {
            *place(&mut series, *field) = slice.get(begin..).unwrap_or(&[]);
        }
        let reals: Vec<Option<Bound<'py, PyArray1<f64>>>> =
            self.outputs.iter().map(|o| (*o == Output::Real).then(|| reals_of(py, rows))).collect();
        let mut scratch: Vec<Vec<f64>> = self
            .outputs
            .iter()
            .map(|o| if *o == Output::Real { Vec::new() } else { take_scratch(rows) })
            .collect();
        let mut columns = Columns::with_capacity(self.outputs.len());
        for (array, scratch) in reals.iter().zip(&mut scratch) {
            let column = array.as_ref().map_or(scratch.as_mut_slice(), written);
            let (before, column) = column.split_at_mut(begin);
            before.fill(f64::NAN);
            columns.push(column);
        }
        let mut columns = [columns];
        // Whether a pattern is one may hang on the last digit.
        let exact = self.outputs.iter().any(|output| *output != Output::Real);
        // Of other numbers twelve digits are enough: nine are promised.
        let options = ExecOptions { relaxed_fp: rows >= RELEASE_GIL_ROWS && !exact, ..exec_options(rows) };
        let mut compute = || {
            exec::run_into(&selection.plan, &[series], &mut columns, options);
            if later > 0 {
                let starts = selection.plan.starts();
                columns.iter_mut().flatten().zip(starts).for_each(|(c, start)| fill_nan(c, *start, later));
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
                    let whole = as_whole(py, &scratch).into_any();
                    if rows <= SCRATCH_CAPACITY {
                        SCRATCH.set(scratch);
                    }
                    whole
                }
            });
        }
        given_back(py, results)
    }

    /// Numbers of the bars of extremes.
    fn bars<'py>(
        &self,
        py: Python<'py>,
        values: &[f64],
        begin: usize,
        params: &[f64],
    ) -> PyResult<Bound<'py, PyAny>> {
        let n = params.first().map_or(1, |n| *n as usize);
        let max = words(self.function.outputs).map(|(_, flags)| flags.contains('>'));
        let bars = |max: bool| match max {
            true => extreme_bars::<true>(values, begin, n),
            false => extreme_bars::<false>(values, begin, n),
        };
        let short = values.len() < RELEASE_GIL_ROWS;
        let made = |max: bool| if short { bars(max) } else { py.detach(|| bars(max)) };
        let all = max.map(|max| PyArray1::from_vec(py, made(max)).into_any());
        given_back(py, all.collect())
    }
}

/// What is wrong with parameters.
enum Wrong {
    /// One is out of its range.
    Parameter,
    /// One does not convert to a number.
    Python(PyErr),
}

impl From<PyErr> for Wrong {
    fn from(error: PyErr) -> Self {
        Wrong::Python(error)
    }
}

impl Wrong {
    fn error(self, known: &BoundFunction, call: &str) -> PyErr {
        match self {
            Wrong::Parameter => known.refused(call),
            Wrong::Python(error) => error,
        }
    }
}

/// The first bar that has all its numbers: those before it are no history.
fn begin(slices: &[&[f64]]) -> Option<usize> {
    let rows = slices.first().map_or(0, |s| s.len());
    (0..rows).find(|at| slices.iter().all(|s| s.get(*at).is_some_and(|x| !x.is_nan())))
}

/// NaN fill of `bars` values from `start` on: the unstable period.
fn fill_nan(column: &mut [f64], start: usize, bars: usize) {
    column.iter_mut().skip(start).take(bars).for_each(|x| *x = f64::NAN);
}

/// A moving average by TA-Lib's number of its kind.
fn mean(n: usize, kind: usize) -> Selection {
    let text = MEANS.get(kind).filter(|_| n > 1).copied().unwrap_or("close");
    let text = text.replace("{n}", &n.to_string()).replace("{m}", &((3 * n + 2) / 4).to_string());
    select::plan(&Selector::new().select(&text).unwrap_or_default())
}

/// One array, or a tuple of several.
fn given_back<'py>(py: Python<'py>, mut results: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    match results.len() {
        1 => results.pop().ok_or_else(|| PyTypeError::new_err("no output")),
        _ => Ok(PyTuple::new(py, results)?.into_any()),
    }
}

/// Where the extreme of the last `n` values is. Of equals TA-Lib takes the newest as it comes in, but the oldest when the one
/// before has left the window and all are looked through again; the catalogue's rows always take the newest.
fn extreme_bars<const MAX: bool>(values: &[f64], begin: usize, n: usize) -> Vec<i32> {
    let mut bars = vec![0; values.len()];
    let beats = |x: f64, best: f64| if MAX { x > best } else { x < best };
    let first = (begin + n).saturating_sub(1);
    let days = values.iter().enumerate().zip(&mut bars).skip(first);
    // The one before the first window: as if it had just left.
    let (mut best, mut extreme) = (0, f64::NAN);
    let mut known = false;
    for ((today, x), bar) in days {
        let oldest = today + 1 - n;
        if !known || best < oldest {
            let window = values.get(oldest..=today).unwrap_or(&[]);
            (best, extreme, known) = (oldest, window.first().copied().unwrap_or(f64::NAN), true);
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

/// Does a name fit one with a star at its beginning or end?
fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(beginning)) => name.starts_with(beginning),
        (None, None) => name == pattern,
    }
}

/// One series on this thread. A short one is one block: buffers are no longer than it, and nothing is cut.
fn exec_options(rows: usize) -> ExecOptions {
    let short = rows < RELEASE_GIL_ROWS;
    ExecOptions {
        block: short.then_some(rows.clamp(64, 512)),
        batched: short.then_some(false),
        ..ExecOptions::with_threads(1)
    }
}

/// An input array of a call: zero-copy where it is contiguous and aligned.
enum Input<'py> {
    Borrowed(Bound<'py, PyArray1<f64>>),
    Copied(Vec<f64>),
}

impl<'py> Input<'py> {
    /// Nothing where it is no array.
    fn of(given: Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        match given.cast_into::<PyArray1<f64>>() {
            Ok(array) if is_zero_copy(&array) => Ok(Some(Input::Borrowed(array))),
            Ok(array) => {
                count_copy(8 * array.len() as u64);
                Ok(Some(Input::Copied(copied(&array))))
            }
            Err(error) => refused(&error.into_inner()),
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
                // SAFETY: the array is held, contiguous and aligned; it is read only. Who writes to it meanwhile races with us
                // as with NumPy.
                let slice = unsafe { array.as_slice() };
                slice.unwrap_or(&[])
            }
        }
    }
}

/// An array that is not one of native float64: in another byte order it is read, else refused with TA-Lib's words.
fn refused<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Input<'py>>> {
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
    // A subclass may answer with any layout.
    let fits = is_zero_copy(&swapped);
    Ok(Some(if fits { Input::Borrowed(swapped) } else { Input::Copied(copied(&swapped)) }))
}

thread_local! {
    /// Scratch of integer outputs before their conversion; reused, since allocating takes as long as filling.
    static SCRATCH: std::cell::Cell<Vec<f64>> = const { std::cell::Cell::new(Vec::new()) };
}
/// The most numbers of it that are kept.
const SCRATCH_CAPACITY: usize = 1 << 17;

/// Scratch buffer, contents unspecified.
fn take_scratch(rows: usize) -> Vec<f64> {
    let mut scratch = if rows <= SCRATCH_CAPACITY { SCRATCH.take() } else { Vec::new() };
    scratch.resize(rows, 0.0);
    scratch
}

/// A new array of reals, of whatever memory holds.
fn reals_of(py: Python<'_>, rows: usize) -> Bound<'_, PyArray1<f64>> {
    buffer_pool::pooled_array(py, rows).unwrap_or_else(|| uninit_array(py, rows))
}

/// A new array, of whatever memory holds: every number of it is written before anybody sees it.
fn uninit_array<T: Element>(py: Python<'_>, rows: usize) -> Bound<'_, PyArray1<T>> {
    #[allow(unsafe_code, reason = "writing zeros first takes an eighth of a call")]
    // SAFETY: only made for numbers, of which any bits are one.
    unsafe {
        PyArray1::new(py, [rows], false)
    }
}

/// Adding this leaves a whole number in the last bits, and 0 of a NaN.
const WHOLE: f64 = 6_755_399_441_055_744.0;

/// Whole numbers; NaN becomes 0.
fn as_whole<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyArray1<i32>> {
    let array = uninit_array(py, numbers.len());
    for (to, x) in written::<i32>(&array).iter_mut().zip(numbers) {
        *to = (x + WHOLE).to_bits() as u32 as i32;
    }
    array
}

/// Room of an array that nobody else has yet.
#[allow(clippy::mut_from_ref, reason = "an array of Python is a handle: who holds one may write through it")]
fn written<'a, T: Element>(array: &'a Bound<'_, PyArray1<T>>) -> &'a mut [T] {
    #[allow(unsafe_code, reason = "the borrow checks of the numpy crate cost as much as a short call")]
    // SAFETY: the array was made by `room` for this call: it is contiguous and nobody else knows it.
    let slice = unsafe { array.as_slice_mut() };
    slice.unwrap_or(&mut [])
}

fn place<'s, 'a>(series: &'s mut Series<'a>, field: Field) -> &'s mut &'a [f64] {
    match field {
        Field::Open => &mut series.open,
        Field::High => &mut series.high,
        Field::Low => &mut series.low,
        Field::Close => &mut series.close,
        Field::Volume => &mut series.volume,
        Field::Time => &mut series.time,
    }
}

/// Words with what follows their colon, or with the default that they give.
fn words(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split_whitespace().map(|word| match word.find('=') {
        Some(at) => word.split_at(at),
        None => word.split_once(':').unwrap_or((word, "")),
    })
}

fn known(id: usize) -> PyResult<&'static BoundFunction> {
    FUNCTIONS.get(id).ok_or_else(|| PyTypeError::new_err("no such function"))
}

/// Calls a function by its position in [`talib_functions`], with its arrays and then its parameters.
#[pyfunction]
#[pyo3(signature = (id, *args))]
pub(crate) fn talib_call<'py>(id: usize, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    known(id)?.call(id, args)
}

/// The first bar at which every output has a value.
#[pyfunction]
#[pyo3(signature = (id, *params))]
pub(crate) fn talib_lookback(id: usize, params: &Bound<'_, PyTuple>) -> PyResult<usize> {
    let known = known(id)?;
    let params = known.params_of(params.iter()).map_err(|wrong| wrong.error(known, ""))?;
    Ok(known.lookback(&params)? + unstable::later(known, &params)?)
}

/// Every function, as JSON: its name, group, arrays, parameters with their defaults, outputs and flags.
#[pyfunction]
pub(crate) fn talib_functions() -> String {
    let all: Vec<serde_json::Value> = FUNCTIONS.iter().map(described).collect();
    serde_json::Value::from(all).to_string()
}

fn described(known: &BoundFunction) -> serde_json::Value {
    let BoundFunction { function, maker, .. } = known;
    let doc = match maker {
        Maker::Row(row) => row.doc,
        Maker::Mean => MEAN_DOC,
    };
    let named = |flags: &str, table: &[(char, &'static str)]| -> Vec<&'static str> {
        flags
            .chars()
            .filter_map(|c| table.iter().find(|(flag, _)| *flag == c).map(|(_, name)| *name))
            .collect()
    };
    // All can be carried on bar by bar, which TA-Lib says in the middle.
    let scale = function.flags.find(|c| !"1s".contains(c)).unwrap_or(function.flags.len());
    let (before, after) = function.flags.split_at(scale);
    let flags = [named(before, &FLAGS), vec![STREAMING], named(after, &FLAGS)].concat();
    let params: Vec<serde_json::Value> = words(function.params)
        .zip(&known.params)
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
