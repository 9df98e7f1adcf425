//! Streaming TA-Lib functions: a handle opened on history takes one bar at a time and recomputes nothing.

use std::{
    collections::VecDeque,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use gpuforge::indicators::{
    exec::{self, Columns, ExecOptions, Series},
    plan::ExecPlan,
    select::Selection,
};
use pyo3::{
    exceptions::{PyException, PyNotImplementedError, PyTypeError},
    prelude::*,
    types::PyTuple,
};

use super::{
    BoundFunction, Input, Output, Precision, exec_options, field_slot, find_function, unstable, words,
};

pyo3::create_exception!(
    gpuforge,
    InsufficientHistory,
    PyException,
    "Not enough history; collect more bars and try again."
);

/// Block length: a handle gets one bar at a time, and its copy should be cheap.
const BLOCK: usize = 64;

/// A plan shared with the plan cache.
#[derive(Clone)]
struct SharedPlan(Arc<Selection>);

impl Deref for SharedPlan {
    type Target = ExecPlan;

    fn deref(&self) -> &ExecPlan {
        &self.0.plan
    }
}

/// Computation of the next value.
enum Engine {
    Plan(Box<exec::Stream<SharedPlan>>),
    /// Bar indices of extremes, one per output.
    Extremes(Vec<Extreme>),
}

struct State {
    engine: Engine,
    /// First bar with a value.
    first: usize,
    /// Bars seen so far.
    bars: usize,
    values: Vec<f64>,
}

impl State {
    fn fork(&self) -> State {
        let engine = match &self.engine {
            Engine::Plan(stream) => Engine::Plan(Box::new(stream.fork())),
            Engine::Extremes(all) => Engine::Extremes(all.clone()),
        };
        State { engine, values: self.values.clone(), ..*self }
    }

    /// Pushes bars; keeps the values of the last one.
    fn push(&mut self, function: &BoundFunction, bars: &[&[f64]]) {
        let n = bars.first().map_or(0, |column| column.len());
        match &mut self.engine {
            Engine::Plan(stream) => {
                let mut series = Series::default();
                for (field, column) in function.fields.iter().zip(bars) {
                    *field_slot(&mut series, *field) = column;
                }
                let mut outputs = vec![vec![f64::NAN; n]; function.outputs.len()];
                let mut columns: Columns<'_> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
                stream.push(&series, &mut columns);
                self.values =
                    outputs.iter().map(|column| column.last().copied().unwrap_or(f64::NAN)).collect();
            }
            Engine::Extremes(all) => {
                let column = bars.first().copied().unwrap_or(&[]);
                self.values =
                    all.iter_mut().map(|one| column.iter().fold(0, |_, x| one.push(*x)) as f64).collect();
            }
        }
        self.bars += n;
    }
}

/// Streaming bar index of a rolling extreme, as [`super::extreme_bars`].
#[derive(Clone)]
struct Extreme {
    n: usize,
    sign: f64,
    window: VecDeque<f64>,
    best: Option<usize>,
    /// Index of the next bar.
    next: usize,
}

impl Extreme {
    fn push(&mut self, x: f64) -> usize {
        self.window.push_back(x * self.sign);
        if self.window.len() > self.n {
            self.window.pop_front();
        }
        let today = self.next;
        self.next += 1;
        let oldest = self.next - self.window.len();
        if self.window.len() < self.n {
            return 0;
        }
        let at = |i: usize| self.window.get(i - oldest).copied().unwrap_or(f64::NAN);
        let found = match self.best.filter(|best| *best >= oldest) {
            Some(best) if at(today) >= at(best) => today,
            Some(best) => best,
            None => (oldest + 1..=today).fold(oldest, |best, i| if at(i) > at(best) { i } else { best }),
        };
        self.best = Some(found);
        found
    }
}

/// Streaming handle of a function.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct TalibStream {
    function: &'static BoundFunction,
    state: Mutex<State>,
}

impl TalibStream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn values<'py>(&self, py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyAny>> {
        let mut all = Vec::with_capacity(values.len());
        for (x, output) in values.iter().zip(&self.function.outputs) {
            all.push(match output {
                Output::Real => x.into_pyobject(py)?.into_any(),
                Output::Integer | Output::Bar => (*x as i32).into_pyobject(py)?.into_any(),
            });
        }
        match all.len() {
            1 => all.pop().ok_or_else(|| PyTypeError::new_err("no output")),
            _ => Ok(PyTuple::new(py, all)?.into_any()),
        }
    }

    /// Validates one bar.
    fn bar(&self, bar: &Bound<'_, PyTuple>, method: &str) -> PyResult<Vec<f64>> {
        let (wanted, given) = (self.function.fields.len(), bar.len());
        if wanted != given {
            let s = if wanted == 1 { "" } else { "s" };
            let why = format!(
                "{}() takes exactly {wanted} positional argument{s} ({given} given)",
                method.to_lowercase()
            );
            return Err(PyTypeError::new_err(why));
        }
        let bar = bar.iter().map(|x| x.extract()).collect::<PyResult<Vec<f64>>>()?;
        match bar.iter().all(|x| x.is_finite()) {
            true => Ok(bar),
            false => Err(self.function.bad_param(&format!("_{method}"))),
        }
    }
}

#[pymethods]
impl TalibStream {
    /// Opens a function (by position) on history arrays and parameters.
    #[new]
    #[pyo3(signature = (id, *args))]
    fn new(id: usize, args: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let function = find_function(id)?;
        let wanted = function.fields.len();
        let mut inputs = Vec::with_capacity(wanted);
        for array in args.iter().take(wanted) {
            let input = Input::of(array)?;
            inputs.push(input.ok_or_else(|| PyTypeError::new_err("a NumPy array is required"))?);
        }
        let rows = inputs.first().map_or(0, |i| i.slice().len());
        if inputs.iter().any(|i| i.slice().len() != rows) {
            return Err(PyException::new_err("input array lengths are different"));
        }
        if rows == 0 {
            return Err(InsufficientHistory::new_err("no history: the input array is empty"));
        }
        let params =
            function.params_of(args.iter().skip(wanted)).map_err(|error| error.into_py(function, "_Open"))?;
        let slices: Vec<&[f64]> = inputs.iter().map(Input::slice).collect();
        let begin = super::first_valid_bar(&slices).unwrap_or(rows - 1);
        let first = function.lookback(&params)? + unstable::extra_bars(function, &params)?;
        let history = rows - begin;
        if history <= first {
            return Err(InsufficientHistory::new_err(format!(
                "TA_{}_Open: {history} bars of history, at least {} needed (a leading bar that is NaN in any input is not \
                 history)",
                function.function.name,
                first + 1
            )));
        }
        let mut state = State {
            engine: function.engine(&params, begin)?,
            first: begin + first,
            bars: begin,
            values: Vec::new(),
        };
        let slices: Vec<&[f64]> = slices.iter().map(|s| s.get(begin..).unwrap_or(&[])).collect();
        state.push(function, &slices);
        Ok(TalibStream { function, state: Mutex::new(state) })
    }

    /// Pushes one closed bar; returns its value.
    #[pyo3(signature = (*bar))]
    fn update<'py>(&self, py: Python<'py>, bar: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let bar = self.bar(bar, "Update")?;
        let columns: Vec<&[f64]> = bar.iter().map(std::slice::from_ref).collect();
        let mut state = self.state();
        state.push(self.function, &columns);
        self.values(py, &state.values)
    }

    /// The value that `update` would return; the state does not change.
    #[pyo3(signature = (*bar))]
    fn peek<'py>(&self, py: Python<'py>, bar: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let bar = self.bar(bar, "Peek")?;
        let columns: Vec<&[f64]> = bar.iter().map(std::slice::from_ref).collect();
        let mut forked = self.state().fork();
        forked.push(self.function, &columns);
        self.values(py, &forked.values)
    }

    /// The value of the last bar.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.values(py, &self.state().values)
    }

    /// A copy with the same state.
    fn copy(&self) -> TalibStream {
        TalibStream { function: self.function, state: Mutex::new(self.state().fork()) }
    }

    /// Counts a bar without data.
    fn advance(&self) {
        self.state().bars += 1;
    }

    /// First bar with a value, and how many have one.
    #[getter]
    fn out_range(&self) -> (usize, usize) {
        let state = self.state();
        (state.first, state.bars - state.first)
    }
}

impl BoundFunction {
    /// Streaming computation for these parameters.
    fn engine(&self, params: &[f64], begin: usize) -> PyResult<Engine> {
        if self.outputs.contains(&Output::Bar) {
            let n = params.first().map_or(1, |n| *n as usize);
            let extreme = |(_, flags): (&str, &str)| Extreme {
                n,
                sign: if flags.contains('>') { 1.0 } else { -1.0 },
                window: VecDeque::with_capacity(n + 1),
                best: None,
                next: begin,
            };
            return Ok(Engine::Extremes(words(self.function.outputs).map(extreme).collect()));
        }
        let name = self.function.name;
        if self.is_wide(params) {
            let why = format!(
                "{name} cannot stream with so long a window\n  hint: talib.{name} over the whole array"
            );
            return Err(PyNotImplementedError::new_err(why));
        }
        let plan = SharedPlan(self.plan(params.to_vec()));
        if !plan.supports_streaming() {
            let why = format!(
                "{name} cannot stream: it needs the whole series\n  hint: talib.{name} over the whole array"
            );
            return Err(PyNotImplementedError::new_err(why));
        }
        Ok(Engine::Plan(Box::new(exec::Stream::new(
            plan,
            ExecOptions { block: Some(BLOCK), ..exec_options(0, Precision::Exact) },
        ))))
    }
}
