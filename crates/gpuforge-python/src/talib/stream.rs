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

use super::{BoundFunction, Input, Output, exec_options, known, place, unstable, words};

pyo3::create_exception!(
    gpuforge,
    InsufficientHistory,
    PyException,
    "Too few bars to begin with; collect more and try again."
);

/// Bars of a block: a handle gets one at a time, and a copy of it should be cheap.
const BLOCK: usize = 64;

/// A plan that is shared with the functions.
#[derive(Clone)]
struct Shared(Arc<Selection>);

impl Deref for Shared {
    type Target = ExecPlan;

    fn deref(&self) -> &ExecPlan {
        &self.0.plan
    }
}

/// What computes the next value.
enum Engine {
    Plan(Box<exec::Stream<Shared>>),
    /// Numbers of bars of extremes, one for every output.
    Extremes(Vec<Extreme>),
}

struct State {
    engine: Engine,
    /// The first bar that has a value.
    first: usize,
    /// Bars so far.
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

    /// The next bars; values of the last of them are kept.
    fn push(&mut self, known: &BoundFunction, bars: &[&[f64]]) {
        let n = bars.first().map_or(0, |column| column.len());
        match &mut self.engine {
            Engine::Plan(stream) => {
                let mut series = Series::default();
                for (field, column) in known.fields.iter().zip(bars) {
                    *place(&mut series, *field) = column;
                }
                let mut outputs = vec![vec![f64::NAN; n]; known.outputs.len()];
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

/// Where the extreme of the last values is; as [`super::extreme_bars`], one value at a time.
#[derive(Clone)]
struct Extreme {
    n: usize,
    sign: f64,
    window: VecDeque<f64>,
    best: Option<usize>,
    /// The number of the next bar.
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

/// A function that has seen some bars.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct TalibStream {
    known: &'static BoundFunction,
    state: Mutex<State>,
}

impl TalibStream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn values<'py>(&self, py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyAny>> {
        let mut all = Vec::with_capacity(values.len());
        for (x, output) in values.iter().zip(&self.known.outputs) {
            all.push(match output {
                Output::Real => x.into_pyobject(py)?.into_any(),
                Output::Whole | Output::Bar => (*x as i32).into_pyobject(py)?.into_any(),
            });
        }
        match all.len() {
            1 => all.pop().ok_or_else(|| PyTypeError::new_err("no output")),
            _ => Ok(PyTuple::new(py, all)?.into_any()),
        }
    }

    /// One bar, as TA-Lib takes it.
    fn bar(&self, bar: &Bound<'_, PyTuple>, method: &str) -> PyResult<Vec<f64>> {
        let (wanted, given) = (self.known.fields.len(), bar.len());
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
            false => Err(self.known.refused(&format!("_{method}"))),
        }
    }
}

#[pymethods]
impl TalibStream {
    /// A function by its position, its arrays and its parameters.
    #[new]
    #[pyo3(signature = (id, *args))]
    fn new(id: usize, args: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let known = known(id)?;
        let wanted = known.fields.len();
        let mut inputs = Vec::with_capacity(wanted);
        for array in args.iter().take(wanted) {
            let input = Input::of(array)?;
            inputs.push(input.ok_or_else(|| PyTypeError::new_err("an array of NumPy is needed here"))?);
        }
        let rows = inputs.first().map_or(0, |i| i.slice().len());
        if inputs.iter().any(|i| i.slice().len() != rows) {
            return Err(PyException::new_err("input array lengths are different"));
        }
        if rows == 0 {
            return Err(InsufficientHistory::new_err("no history: the input array is empty"));
        }
        let params =
            known.params_of(args.iter().skip(wanted)).map_err(|wrong| wrong.error(known, "_Open"))?;
        let slices: Vec<&[f64]> = inputs.iter().map(Input::slice).collect();
        let begin = super::begin(&slices).unwrap_or(rows - 1);
        let first = known.lookback(&params)? + unstable::later(known, &params)?;
        let history = rows - begin;
        if history <= first {
            return Err(InsufficientHistory::new_err(format!(
                "TA_{}_Open: {history} bars of history, at least {} needed (a leading bar that is NaN in any input is not \
                 history)",
                known.function.name,
                first + 1
            )));
        }
        let mut state = State {
            engine: known.engine(&params, begin)?,
            first: begin + first,
            bars: begin,
            values: Vec::new(),
        };
        let slices: Vec<&[f64]> = slices.iter().map(|s| s.get(begin..).unwrap_or(&[])).collect();
        state.push(known, &slices);
        Ok(TalibStream { known, state: Mutex::new(state) })
    }

    /// One closed bar in, its value out.
    #[pyo3(signature = (*bar))]
    fn update<'py>(&self, py: Python<'py>, bar: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let bar = self.bar(bar, "Update")?;
        let columns: Vec<&[f64]> = bar.iter().map(std::slice::from_ref).collect();
        let mut state = self.state();
        state.push(self.known, &columns);
        self.values(py, &state.values)
    }

    /// What `update` would give; nothing is remembered.
    #[pyo3(signature = (*bar))]
    fn peek<'py>(&self, py: Python<'py>, bar: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let bar = self.bar(bar, "Peek")?;
        let columns: Vec<&[f64]> = bar.iter().map(std::slice::from_ref).collect();
        let mut forked = self.state().fork();
        forked.push(self.known, &columns);
        self.values(py, &forked.values)
    }

    /// The value of the last bar.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.values(py, &self.state().values)
    }

    /// Another handle that has seen the same bars.
    fn copy(&self) -> TalibStream {
        TalibStream { known: self.known, state: Mutex::new(self.state().fork()) }
    }

    /// Counts a bar that was not given.
    fn advance(&self) {
        self.state().bars += 1;
    }

    /// The first bar that has a value, and how many have one.
    #[getter]
    fn out_range(&self) -> (usize, usize) {
        let state = self.state();
        (state.first, state.bars - state.first)
    }
}

impl BoundFunction {
    /// What computes one bar after the other.
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
            let why =
                format!("{name} bar by bar with so long a window\n  hint: talib.{name} over the whole array");
            return Err(PyNotImplementedError::new_err(why));
        }
        let plan = Shared(self.plan(params.to_vec()));
        if !plan.supports_streaming() {
            let why = format!(
                "{name} bar by bar: it rests on the whole series\n  hint: talib.{name} over the whole array"
            );
            return Err(PyNotImplementedError::new_err(why));
        }
        Ok(Engine::Plan(Box::new(exec::Stream::new(
            plan,
            ExecOptions { block: Some(BLOCK), ..exec_options(0) },
        ))))
    }
}
