//! Grids and ball flights from Python: built once, asked often, numbers as arrays.

use std::sync::Arc;

use gpuforge::{
    ops::Threads,
    workloads::{
        lattice::{self, Blocked, Grid, LatticeError, SearchResult, Searcher, Weights, xor_transform},
        trajectory::{
            Air, Ball, Flights, Launch, IntegrationMethod, FlightModel, ShearProfile, FlightSetup, FlightSummary, TrajectoryError, Wind,
        },
    },
};
use numpy::PyArray1;
use pyo3::{exceptions::PyValueError, prelude::*};
use serde_json::json;

use crate::{
    arrays::{Arrays, Column},
    errors,
    machine::json as as_json,
    process,
};

fn wrong(error: LatticeError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A grid with blocked cells and costs.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Lattice {
    inner: Arc<lattice::Lattice>,
}

#[pymethods]
impl Lattice {
    /// Points per axis; blocked cells by number, or by a chance with a seed and cells that stay open; costs of cells.
    #[new]
    fn new(
        sizes: Vec<u64>,
        blocked: Option<Vec<u64>>,
        chance: Option<(f64, u64, Vec<u64>)>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let grid = Grid::rectangular(&sizes).map_err(wrong)?;
        let mut inner = lattice::Lattice::new(grid.clone());
        let mut closed = match chance {
            Some((chance, seed, keep)) => Some(Blocked::random(&grid, chance, seed, &keep).map_err(wrong)?),
            None => None,
        };
        if let Some(cells) = blocked {
            let mut all = closed.take().map_or_else(|| Blocked::none(&grid), Ok).map_err(wrong)?;
            all.add(&cells).map_err(wrong)?;
            closed = Some(all);
        }
        if let Some(closed) = closed {
            inner = inner.block(closed).map_err(wrong)?;
        }
        if let Some(weights) = weights {
            let values = Column::of(weights)?.slice().to_vec();
            inner = inner.weigh(Weights::new(&grid, values).map_err(wrong)?).map_err(wrong)?;
        }
        Ok(Lattice { inner: Arc::new(inner) })
    }

    /// The number of a cell by its coordinates.
    fn cell(&self, coordinates: Vec<u64>) -> PyResult<u64> {
        self.inner.grid().cell(&coordinates).map_err(wrong)
    }

    /// The coordinates of a cell by its number.
    fn coordinates(&self, cell: u64) -> PyResult<Vec<u64>> {
        self.inner.grid().coordinates(cell).map_err(wrong)
    }

    /// A shortest path: its cells, or none, and how it was found (JSON).
    fn path<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        goal: u64,
    ) -> PyResult<(Option<Bound<'py, PyArray1<u64>>>, String)> {
        let lattice = self.inner.clone();
        let route = process::wait_for(py, move |_| Searcher::new().path(&lattice, start, goal))?;
        Ok(match route.map_err(wrong)? {
            SearchResult::Found(path) => {
                let said = json!({ "cost": path.cost, "method": path.method, "expanded": path.expanded });
                (Some(PyArray1::from_vec(py, path.cells)), said.to_string())
            }
            SearchResult::NoPath(none) => (None, as_json(&none)?),
        })
    }

    /// Steps from a cell to every other, as the bytes of whole numbers; routed.
    fn distances<'py>(&self, py: Python<'py>, source: u64) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let op = lattice::Distances::new(&self.inner, source).map_err(wrong)?;
        let forge = process::runtime(py).forge;
        let ran = process::wait_for(py, move |_| forge.run(op).map_err(errors::forge))??;
        Ok(PyArray1::from_vec(py, ran.to_vec::<u32>().map_err(|e| errors::op(&e))?))
    }

    /// Its figures, as JSON.
    fn analyse(&self, py: Python<'_>) -> PyResult<String> {
        let lattice = self.inner.clone();
        as_json(&process::wait_for(py, move |_| lattice::analyse(&lattice))?.map_err(wrong)?)
    }
}

/// Bytes XOR a key; the key is made where none is given. Both are returned.
#[pyfunction]
pub(crate) fn lattice_xor(data: Vec<u8>, key: Option<Vec<u8>>) -> PyResult<(Vec<u8>, Vec<u8>)> {
    xor_transform(&data, key.as_deref()).map_err(wrong)
}

fn refused(error: TrajectoryError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What is the same for all flights.
#[derive(FromPyObject)]
pub(crate) struct Conditions {
    #[pyo3(item)]
    mass: Option<f64>,
    #[pyo3(item)]
    radius: Option<f64>,
    #[pyo3(item)]
    spin_decay: Option<f64>,
    #[pyo3(item)]
    altitude: Option<f64>,
    #[pyo3(item)]
    temperature: Option<f64>,
    #[pyo3(item)]
    humidity: Option<f64>,
    #[pyo3(item)]
    pressure: Option<f64>,
    #[pyo3(item)]
    vacuum: bool,
    #[pyo3(item)]
    wind: Option<f64>,
    #[pyo3(item)]
    wind_from: Option<f64>,
    #[pyo3(item)]
    wind_profile: Option<String>,
    #[pyo3(item)]
    step: Option<f64>,
    #[pyo3(item)]
    tolerance: Option<f64>,
}

impl Conditions {
    fn model(&self) -> PyResult<FlightModel> {
        let (ball, air, wind, usual) = (Ball::default(), Air::default(), Wind::default(), FlightSetup::default());
        let profile = match self.wind_profile.as_deref() {
            None | Some("uniform") => ShearProfile::Uniform,
            Some("power") => ShearProfile::Power { exponent: 0.14 },
            Some("log") => ShearProfile::Log { roughness: 0.03 },
            Some(other) => {
                let why =
                    format!("there is no wind profile {other:?}\n  hint: \"uniform\", \"power\" or \"log\"");
                return Err(PyValueError::new_err(why));
            }
        };
        let setup = FlightSetup {
            ball: Ball {
                mass: self.mass.unwrap_or(ball.mass),
                radius: self.radius.unwrap_or(ball.radius),
                spin_decay: self.spin_decay.unwrap_or(ball.spin_decay),
            },
            air: Air {
                altitude: self.altitude.unwrap_or(air.altitude),
                temperature: self.temperature.unwrap_or(air.temperature),
                humidity: self.humidity.unwrap_or(air.humidity),
                pressure: self.pressure,
                vacuum: self.vacuum,
            },
            wind: Wind {
                speed: self.wind.unwrap_or(wind.speed),
                from: self.wind_from.unwrap_or(wind.from),
                profile,
                ..wind
            },
            method: match (self.step, self.tolerance) {
                (Some(step), _) => IntegrationMethod::Rk4 { step },
                (None, Some(tolerance)) => IntegrationMethod::Adaptive { tolerance },
                (None, None) => usual.method,
            },
            ..usual
        };
        setup.model().map_err(refused)
    }
}

/// Flights of launches (six columns: speed, angle, azimuth, spin, tilt, height): the figures one after the other, and how each
/// ended or why it is none.
#[pyfunction]
pub(crate) fn trajectory_fly<'py>(
    py: Python<'py>,
    launches: Vec<[f64; 6]>,
    conditions: Conditions,
) -> PyResult<(Arrays<'py>, Vec<String>)> {
    let model = Arc::new(conditions.model()?);
    let launches: Vec<Launch> = launches.into_iter().map(Launch::of).collect();
    let forge = process::runtime(py).forge;
    let flown = process::wait_for(py, move |_| match model.setup().method {
        IntegrationMethod::Adaptive { .. } => Ok(model.fly_all(&launches, Threads::all())),
        IntegrationMethod::Rk4 { .. } => {
            let op = Flights::new(&model, &launches).map_err(|e| errors::op(&e))?;
            let ran = forge.run(op.clone()).map_err(errors::forge)?;
            let bytes = ran.tensor().and_then(|t| t.host()).unwrap_or_else(|| Arc::from([]));
            op.summaries(&bytes).map_err(|e| errors::op(&e))
        }
    })??;
    let mut figures: Vec<Vec<f64>> = vec![Vec::with_capacity(flown.len()); FlightSummary::FIGURES.len()];
    let mut ended = Vec::with_capacity(flown.len());
    for flight in &flown {
        let (numbers, how) = match flight {
            Ok(summary) => (summary.figures(), summary.status.name().to_owned()),
            Err(error) => ([f64::NAN; 10], error.to_string()),
        };
        figures.iter_mut().zip(numbers).for_each(|(column, x)| column.push(x));
        ended.push(how);
    }
    Ok((figures.into_iter().map(|column| PyArray1::from_vec(py, column)).collect(), ended))
}

/// Every step of one flight: time, place, velocity and spin, eight numbers each, one after the other.
#[pyfunction]
pub(crate) fn trajectory_path<'py>(
    py: Python<'py>,
    launch: [f64; 6],
    conditions: Conditions,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (_, path) = conditions.model()?.path(&Launch::of(launch)).map_err(refused)?;
    let point = |p: &gpuforge::workloads::trajectory::FlightPoint| {
        let ([x, y, z], [u, v, w]) = (p.position, p.velocity);
        [p.time, x, y, z, u, v, w, p.spin]
    };
    Ok(PyArray1::from_vec(py, path.iter().flat_map(point).collect()))
}
