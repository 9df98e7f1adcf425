//! Lattices and ball trajectories for Python.

use std::sync::Arc;

use gpuforge::{
    ops::Threads,
    workloads::{
        lattice::{self, Blocked, Grid, LatticeError, SearchResult, Searcher, Weights, xor_transform},
        trajectory::{
            Air, Ball, FlightModel, FlightSetup, FlightSummary, Flights, IntegrationMethod, Launch,
            ShearProfile, TrajectoryError, Wind,
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

fn lattice_error(error: LatticeError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A grid with blocked cells and weights.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Lattice {
    inner: Arc<lattice::Lattice>,
}

#[pymethods]
impl Lattice {
    /// Sizes per axis; blocked cells by index, or at random by probability and seed with cells kept open; cell weights.
    #[new]
    fn new(
        sizes: Vec<u64>,
        blocked: Option<Vec<u64>>,
        chance: Option<(f64, u64, Vec<u64>)>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let grid = Grid::rectangular(&sizes).map_err(lattice_error)?;
        let mut inner = lattice::Lattice::new(grid.clone());
        let mut blocked_cells = match chance {
            Some((chance, seed, keep)) => {
                Some(Blocked::random(&grid, chance, seed, &keep).map_err(lattice_error)?)
            }
            None => None,
        };
        if let Some(cells) = blocked {
            let mut all =
                blocked_cells.take().map_or_else(|| Blocked::none(&grid), Ok).map_err(lattice_error)?;
            all.add(&cells).map_err(lattice_error)?;
            blocked_cells = Some(all);
        }
        if let Some(blocked_cells) = blocked_cells {
            inner = inner.block(blocked_cells).map_err(lattice_error)?;
        }
        if let Some(weights) = weights {
            let values = Column::of(weights)?.slice().to_vec();
            inner =
                inner.weigh(Weights::new(&grid, values).map_err(lattice_error)?).map_err(lattice_error)?;
        }
        Ok(Lattice { inner: Arc::new(inner) })
    }

    /// Cell index of coordinates.
    fn cell(&self, coordinates: Vec<u64>) -> PyResult<u64> {
        self.inner.grid().cell(&coordinates).map_err(lattice_error)
    }

    /// Coordinates of a cell index.
    fn coordinates(&self, cell: u64) -> PyResult<Vec<u64>> {
        self.inner.grid().coordinates(cell).map_err(lattice_error)
    }

    /// Shortest path: its cells, or none, and search statistics (JSON).
    fn path<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        goal: u64,
    ) -> PyResult<(Option<Bound<'py, PyArray1<u64>>>, String)> {
        let lattice = self.inner.clone();
        let route = process::wait_for(py, move |_| Searcher::new().path(&lattice, start, goal))?;
        Ok(match route.map_err(lattice_error)? {
            SearchResult::Found(path) => {
                let summary_json =
                    json!({ "cost": path.cost, "method": path.method, "expanded": path.expanded });
                (Some(PyArray1::from_vec(py, path.cells)), summary_json.to_string())
            }
            SearchResult::NoPath(none) => (None, as_json(&none)?),
        })
    }

    /// Distances in steps from a cell to every other; routed.
    fn distances<'py>(&self, py: Python<'py>, source: u64) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let op = lattice::Distances::new(&self.inner, source).map_err(lattice_error)?;
        let forge = process::runtime(py).forge;
        let ran = process::wait_for(py, move |_| forge.run(op).map_err(errors::forge))??;
        Ok(PyArray1::from_vec(py, ran.to_vec::<u32>().map_err(|e| errors::op(&e))?))
    }

    /// Graph statistics, as JSON.
    fn analyse(&self, py: Python<'_>) -> PyResult<String> {
        let lattice = self.inner.clone();
        as_json(&process::wait_for(py, move |_| lattice::analyse(&lattice))?.map_err(lattice_error)?)
    }
}

/// XOR with a key; a random key is generated if none is given. Returns both.
#[pyfunction]
pub(crate) fn lattice_xor(data: Vec<u8>, key: Option<Vec<u8>>) -> PyResult<(Vec<u8>, Vec<u8>)> {
    xor_transform(&data, key.as_deref()).map_err(lattice_error)
}

fn trajectory_error(error: TrajectoryError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Conditions shared by all flights.
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
        let (ball, air, wind, defaults) =
            (Ball::default(), Air::default(), Wind::default(), FlightSetup::default());
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
                (None, None) => defaults.method,
            },
            ..defaults
        };
        setup.model().map_err(trajectory_error)
    }
}

/// Flights of launches (six columns: speed, angle, azimuth, spin, tilt, height): one array per figure, and the status of each
/// flight or why the launch is invalid.
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

/// Every step of one flight: time, position, velocity and spin, eight values per step.
#[pyfunction]
pub(crate) fn trajectory_path<'py>(
    py: Python<'py>,
    launch: [f64; 6],
    conditions: Conditions,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (_, path) = conditions.model()?.path(&Launch::of(launch)).map_err(trajectory_error)?;
    let point = |p: &gpuforge::workloads::trajectory::FlightPoint| {
        let ([x, y, z], [u, v, w]) = (p.position, p.velocity);
        [p.time, x, y, z, u, v, w, p.spin]
    };
    Ok(PyArray1::from_vec(py, path.iter().flat_map(point).collect()))
}
