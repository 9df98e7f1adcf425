//! Trajectories on a device against the CPU; device-lost fallback.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a test may fail")]

use std::{sync::Arc, time::Duration};

use gpuforge_ops::{Op as _, OpError, Target, Threads, Tuning, Work, record};
use gpuforge_route::{
    Backend, CostModel, CpuBackend, DeviceBackend, PlacementPolicy, Reason, Router, RouterSettings,
    RunOptions,
};
use gpuforge_runtime::{
    engine::{
        Engine, EngineError, Opener,
        dummy::{DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::adapter;
use gpuforge_workloads::trajectory::{
    Air, FlightModel, FlightSetup, FlightStatus, FlightSummary, Flights, IntegrationMethod, Launch,
    ShearProfile, TrajectoryError, Wind,
};

type Flown = Vec<Result<FlightSummary, TrajectoryError>>;

fn launches(n: usize) -> Vec<Launch> {
    let part = |i: usize, by: usize, of: usize| ((i * by) % of) as f64 / of as f64;
    (0..n)
        .map(|i| Launch {
            speed: 25.0 + 50.0 * part(i, 7, 101),
            angle: 5.0 + 40.0 * part(i, 11, 97),
            azimuth: -10.0 + 20.0 * part(i, 13, 89),
            spin: 1000.0 + 9000.0 * part(i, 17, 83),
            tilt: -20.0 + 40.0 * part(i, 19, 79),
            height: if i % 5 == 0 { 12.0 * part(i, 3, 73) } else { 0.0 },
        })
        .collect()
}

fn settings() -> StackSettings {
    StackSettings::new(Budget { bytes: Bytes::gib(1), origin: BudgetOrigin::User })
}

/// The machine's adapter; `None` where there is none.
fn adapter() -> Option<Session> {
    let engine = adapter::open_or_skip(&GpuOpener::default())?;
    Some(Session::new(Arc::new(engine), settings()))
}

fn dummy() -> Session {
    Session::new(DummyOpener::new(Bytes::gib(1), DummyScript::default()).open().unwrap(), settings())
}

fn on_device(session: &Session, op: &Flights) -> Flown {
    let target = Target { caps: session.caps(), tuning: &Tuning::default() };
    let plan = record::plan(op, &target, false).unwrap();
    let done = session.run(&Arc::new(plan), Duration::from_secs(60)).unwrap();
    let size = op.outputs().unwrap()[0].size().unwrap().0 as usize;
    op.summaries(&done.outputs[0][..size]).unwrap()
}

/// What the documentation of `op` promises.
fn close(got: &FlightSummary, want: &FlightSummary) -> Result<(), String> {
    let within = [
        ("downrange", got.downrange - want.downrange, 5e-3),
        ("lateral", got.lateral - want.lateral, 5e-3),
        ("apex", got.apex - want.apex, 5e-3),
        ("time", got.time - want.time, 5e-4),
        ("landing speed", got.landing_speed - want.landing_speed, 5e-3),
        ("landing spin", got.landing_spin - want.landing_spin, 0.1),
    ];
    if got.status != want.status {
        return Err(format!("{:?}, not {:?}", got.status, want.status));
    }
    let off = within.iter().find(|(_, off, most)| off.abs() > *most || off.is_nan());
    off.map_or(Ok(()), |(what, off, most)| Err(format!("{what} off by {off}, at most {most}")))
}

fn compare(where_: &str, model: &FlightModel, launches: &[Launch], got: &Flown) {
    assert_eq!(got.len(), launches.len());
    let mut worst = 0f64;
    for (launch, got) in launches.iter().zip(got) {
        match (got, model.fly(launch)) {
            (Ok(got), Ok(want)) => {
                worst = worst.max((got.downrange - want.downrange).hypot(got.lateral - want.lateral));
                close(got, &want).unwrap_or_else(|why| {
                    assert!(why.is_empty(), "{where_}: {launch:?}: {why}\n{got:?}\n{want:?}");
                });
            }
            // NaN is not itself, its text is.
            (got, want) => assert_eq!(format!("{got:?}"), format!("{want:?}"), "{where_}: {launch:?}"),
        }
    }
    println!("{where_}: {} flights, landings at most {worst:.2e} m apart", got.len());
}

fn setups() -> [FlightSetup; 4] {
    let wind = |profile| Wind { speed: 7.0, from: 50.0, reference: 10.0, profile };
    [
        FlightSetup::default(),
        FlightSetup { wind: wind(ShearProfile::Power { exponent: 0.14 }), ..FlightSetup::default() },
        FlightSetup { wind: wind(ShearProfile::Log { roughness: 0.03 }), ..FlightSetup::default() },
        FlightSetup {
            air: Air::vacuum(),
            method: IntegrationMethod::Rk4 { step: 0.02 },
            time_limit: 5.0,
            ..FlightSetup::default()
        },
    ]
}

#[test]
fn cpu_and_device_agree_at_every_size() {
    let sessions = [("dummy", Some(dummy())), ("adapter", adapter())];
    for setup in setups() {
        let model = Arc::new(setup.model().unwrap());
        for n in [0, 1, 63, 64, 65, 300] {
            let launches = launches(n);
            let op = Flights::new(&model, &launches).unwrap();
            for (name, session) in sessions.iter().filter_map(|(n, s)| Some((n, s.as_ref()?))) {
                compare(name, &model, &launches, &on_device(session, &op));
            }
        }
    }
}

#[test]
fn invalid_launches_keep_their_rows_and_the_others_fly() {
    let model = Arc::new(FlightSetup::default().model().unwrap());
    let mut launches = launches(200);
    launches[0].speed = f64::NAN;
    launches[77].angle = 200.0;
    launches[199].spin = f64::NEG_INFINITY;
    let op = Flights::new(&model, &launches).unwrap();
    compare("dummy", &model, &launches, &on_device(&dummy(), &op));
    if let Some(session) = adapter() {
        compare("adapter", &model, &launches, &on_device(&session, &op));
    }
    assert!(matches!(op.summaries(&[0; 7]), Err(OpError::Call { .. })));
}

#[test]
fn very_short_flights_agree() {
    let model = Arc::new(FlightSetup::default().model().unwrap());
    let down = Launch { speed: 30.0, angle: -5.0, ..Launch::default() };
    let hop = Launch { speed: 2.0, angle: 20.0, ..Launch::default() };
    let drop = Launch { height: 3.0, ..Launch::default() };
    let launches = [down, hop, drop, Launch::default()];
    let op = Flights::new(&model, &launches).unwrap();
    if let Some(session) = adapter() {
        compare("adapter", &model, &launches, &on_device(&session, &op));
    }
}

#[test]
fn fine_steps_are_split_into_dispatches() {
    let model = Arc::new(
        FlightSetup { method: IntegrationMethod::Rk4 { step: 0.001 }, ..FlightSetup::default() }
            .model()
            .unwrap(),
    );
    let launches = launches(20);
    let op = Flights::new(&model, &launches).unwrap();
    assert_eq!(op.cost().launches, 2 + 59, "60 s in steps of a millisecond, 1024 a dispatch");
    if let Some(session) = adapter() {
        // Ten times the steps, ten times the rounding of f32.
        for (got, launch) in on_device(&session, &op).iter().zip(&launches) {
            let (got, want) = (got.as_ref().unwrap(), model.fly(launch).unwrap());
            assert!(
                (got.carry - want.carry).abs() < 0.2 && got.status == FlightStatus::Landed,
                "{got:?} {want:?}"
            );
        }
    }
}

#[test]
fn the_cpu_path_is_bit_identical_whole_or_partitioned() {
    let model = Arc::new(FlightSetup::default().model().unwrap());
    let launches = launches(700);
    let op = Flights::new(&model, &launches).unwrap();
    let run = CpuBackend { threads: Threads(2), hardware: None }.run(&op, false).unwrap();
    let flown = op.summaries(&run.outputs[0].host().unwrap()).unwrap();
    assert!(flown == model.fly_all(&launches, Threads::ONE));
    let parts = gpuforge_ops::op::split_ranges(op.items().unwrap(), 256);
    let mut whole = Vec::new();
    for range in parts {
        let part = op.part(range).unwrap();
        whole.extend_from_slice(
            &CpuBackend::default().run(part.as_ref(), false).unwrap().outputs[0].host().unwrap(),
        );
    }
    assert!(op.summaries(&whole).unwrap() == flown);
}

#[test]
fn an_adaptive_model_cannot_be_recorded() {
    let method = IntegrationMethod::Adaptive { tolerance: 1e-3 };
    let model = Arc::new(FlightSetup { method, ..FlightSetup::default() }.model().unwrap());
    let error = Flights::new(&model, &launches(3)).unwrap_err().to_string();
    assert!(error.contains("adaptive") && error.contains("fixed steps"), "{error}");
}

/// A device that cannot be opened.
struct Gone;

impl Opener for Gone {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Err(EngineError::Unavailable { reason: "the device is gone".to_owned() })
    }
}

#[test]
fn device_lost_falls_back_to_the_cpu() {
    let runner = Runner::new(Box::new(Gone), RunnerSettings::new(settings()));
    let device: Arc<dyn Backend> = Arc::new(DeviceBackend::new("gone", None, Arc::new(runner)));
    let backends: Vec<Arc<dyn Backend>> = vec![Arc::new(CpuBackend::default()), device];
    let router = Router::new(
        backends,
        vec![CostModel::named("cpu"), CostModel::named("gone")],
        RouterSettings::default(),
    );
    let model = Arc::new(FlightSetup::default().model().unwrap());
    let launches = launches(100);
    let op = Flights::new(&model, &launches).unwrap();
    let ran = router
        .run_with(&op, RunOptions { placement: PlacementPolicy::Prefer(1), keep_on_device: false })
        .unwrap();
    assert_eq!(ran.decision().reason, Reason::Fallback);
    assert!(ran.report().fallback.as_deref().is_some_and(|why| why.contains("gone")), "{:?}", ran.report());
    let flown = op.summaries(&ran.tensor().unwrap().host().unwrap()).unwrap();
    assert!(flown == model.fly_all(&launches, Threads::ONE));
    assert!(Work::of(&op, false).unwrap().splittable);
}
