//! Trajectories: closed forms, order of convergence, tolerances, energy, events, reproducibility.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a test may fail")]

use gpuforge_ops::Threads;
use gpuforge_workloads::trajectory::{
    Air, Ball, Coefficients, FlightModel, FlightPoint, FlightSetup, FlightStatus, FlightSummary,
    IntegrationMethod, Launch, ShearProfile, Simd, TrajectoryError, Wind,
    coefficients::{MAX_NODES, TableAxis},
};

const G: f64 = 9.80665;

fn rk4(step: f64) -> IntegrationMethod {
    IntegrationMethod::Rk4 { step }
}

fn adaptive(tolerance: f64) -> IntegrationMethod {
    IntegrationMethod::Adaptive { tolerance }
}

fn model(setup: FlightSetup) -> FlightModel {
    setup.model().unwrap()
}

fn driver() -> Launch {
    Launch { speed: 70.0, angle: 12.0, azimuth: 2.0, spin: 2700.0, tilt: 8.0, height: 0.0 }
}

/// Launches of every club, to both sides, from the ground and from above it.
fn launches(n: usize) -> Vec<Launch> {
    let part = |i: usize, by: usize, of: usize| ((i * by) % of) as f64 / of as f64;
    (0..n)
        .map(|i| Launch {
            speed: 25.0 + 55.0 * part(i, 7, 101),
            angle: 5.0 + 40.0 * part(i, 11, 97),
            azimuth: -10.0 + 20.0 * part(i, 13, 89),
            spin: 1000.0 + 9000.0 * part(i, 17, 83),
            tilt: -20.0 + 40.0 * part(i, 19, 79),
            height: if i % 5 == 0 { 12.0 * part(i, 3, 73) } else { 0.0 },
        })
        .collect()
}

/// Coefficients without a kink: one cell that changes evenly over every speed and spin of a flight.
fn smooth() -> Coefficients {
    Coefficients {
        reynolds: TableAxis { first: 0.0, step: 1e6, nodes: 2 },
        spin: TableAxis { first: 0.0, step: 10.0, nodes: 2 },
        drag: vec![0.22, 0.9, 0.6, 1.4],
        lift: vec![0.05, 3.0, 0.1, 4.0],
    }
}

fn log_wind() -> Wind {
    Wind { speed: 6.0, from: 60.0, reference: 10.0, profile: ShearProfile::Log { roughness: 0.01 } }
}

#[test]
fn without_air_every_method_meets_the_closed_form() {
    for method in [rk4(0.01), rk4(0.1), adaptive(1e-3), adaptive(1e-9)] {
        let model = model(FlightSetup { air: Air::vacuum(), method, ..FlightSetup::default() });
        for launch in launches(200).into_iter().filter(|l| l.speed < 60.0) {
            let got = model.fly(&launch).unwrap();
            let (up, aside) = (launch.angle.to_radians(), launch.azimuth.to_radians());
            let (v, level) = (launch.speed * up.sin(), launch.speed * up.cos());
            let time = (v + (v * v + 2.0 * G * launch.height).sqrt()) / G;
            let near = |got: f64, want: f64, what: &str| {
                assert!((got - want).abs() <= 1e-9, "{method:?} {launch:?}: {what} {got}, not {want}");
            };
            assert_eq!(got.status, FlightStatus::Landed);
            near(got.time, time, "time");
            near(got.carry, level * time, "carry");
            near(got.downrange, level * time * aside.cos(), "downrange");
            near(got.lateral, level * time * aside.sin(), "lateral");
            near(got.apex, launch.height + v * v / (2.0 * G), "apex");
            near(got.apex_time, v / G, "time of the apex");
            near(got.landing_speed, (level * level + (v - G * time).powi(2)).sqrt(), "landing speed");
            near(got.landing_angle, ((G * time - v) / level).atan().to_degrees(), "landing angle");
        }
    }
}

/// Slope of log(error) over log(step), by least squares.
fn order(steps: &[f64], errors: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> = steps.iter().zip(errors).map(|(h, e)| (h.ln(), e.ln())).collect();
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let above: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    above / points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum::<f64>()
}

fn distance(a: &FlightPoint, b: &FlightPoint) -> f64 {
    a.position.iter().zip(b.position).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// Where the ball is after two seconds.
fn after_two_seconds(step: f64, wind: Wind) -> FlightPoint {
    let setup = FlightSetup {
        coefficients: smooth(),
        method: rk4(step),
        wind,
        time_limit: 2.0,
        ..FlightSetup::default()
    };
    let (summary, path) = model(setup).path(&Launch { height: 40.0, ..driver() }).unwrap();
    assert_eq!(summary.status, FlightStatus::TimedOut);
    *path.last().unwrap()
}

#[test]
fn fixed_steps_converge_with_the_fourth_order() {
    let steps = [0.1, 0.05, 0.025, 0.0125];
    for wind in [Wind::default(), log_wind()] {
        let exact = after_two_seconds(1.0 / 2048.0, wind);
        let errors = steps.map(|step| distance(&after_two_seconds(step, wind), &exact));
        let order = order(&steps, &errors);
        println!("order of convergence: {order:.3} (errors {errors:?})");
        assert!((order - 4.0).abs() <= 0.2, "order {order}, errors {errors:?}");
    }
}

#[test]
fn the_landing_converges_with_the_fourth_order_too() {
    let steps = [0.1, 0.05, 0.025];
    let land = |step| {
        model(FlightSetup { coefficients: smooth(), method: rk4(step), ..FlightSetup::default() })
            .fly(&driver())
            .unwrap()
    };
    let exact = land(1.0 / 1024.0);
    let errors = steps.map(|step| {
        let got = land(step);
        (got.downrange - exact.downrange).hypot(got.lateral - exact.lateral)
    });
    let order = order(&steps, &errors);
    assert!((order - 4.0).abs() <= 0.5, "order {order}, errors {errors:?}");
}

/// The greatest distance of landings and apexes from those of a much finer computation.
fn worst(setup: &FlightSetup, finest: &[FlightSummary], launches: &[Launch]) -> f64 {
    let got = model(setup.clone()).fly_all(launches, Threads::all());
    let off = |(got, want): (&Result<FlightSummary, TrajectoryError>, &FlightSummary)| {
        let got = got.as_ref().unwrap();
        assert_eq!(got.status, FlightStatus::Landed);
        let landing = (got.downrange - want.downrange).hypot(got.lateral - want.lateral);
        landing.max((got.apex - want.apex).abs())
    };
    got.iter().zip(finest).map(off).fold(0.0, f64::max)
}

fn flown(setup: &FlightSetup, method: IntegrationMethod, launches: &[Launch]) -> Vec<FlightSummary> {
    let model = model(FlightSetup { method, ..setup.clone() });
    model.fly_all(launches, Threads::all()).into_iter().map(Result::unwrap).collect()
}

#[test]
fn adaptive_errors_stay_within_the_tolerance() {
    let launches = launches(24);
    for (name, coefficients) in [("smooth", smooth()), ("golf", Coefficients::default())] {
        for wind in [Wind::default(), Wind { speed: 8.0, from: 135.0, ..log_wind() }] {
            let setup = FlightSetup { coefficients: coefficients.clone(), wind, ..FlightSetup::default() };
            let mut finest = vec![flown(&setup, adaptive(1e-7), &launches)];
            if wind.speed == 0.0 && name == "smooth" {
                // Fixed steps are a second opinion where neither corners nor the slow air at the ground ask for finer ones.
                finest.push(flown(&setup, rk4(1.0 / 1024.0), &launches));
            }
            for tolerance in [1e-1, 1e-2, 1e-3, 1e-4, 1e-5] {
                let setup = FlightSetup { method: adaptive(tolerance), ..setup.clone() };
                let off = finest.iter().map(|f| worst(&setup, f, &launches)).fold(0.0, f64::max);
                println!("{name}, wind {}: tolerance {tolerance:e} m, worst error {off:e} m", wind.speed);
                assert!(off <= tolerance, "{name}: {off} m at a tolerance of {tolerance} m");
            }
        }
    }
}

#[test]
fn a_tolerance_that_cannot_be_met_ends_the_flight_with_a_status() {
    // A wall in the drag: the speed crosses a cell of a thousandth of a Reynolds number.
    let mut drag = vec![0.0; 2 * MAX_NODES];
    drag[MAX_NODES..].fill(9.0);
    let coefficients = Coefficients {
        reynolds: TableAxis { first: 1.5e5, step: 1e-9, nodes: 2 },
        spin: TableAxis { first: 0.0, step: 0.1, nodes: MAX_NODES },
        lift: vec![0.0; drag.len()],
        drag,
    };
    let model = model(FlightSetup { coefficients, method: adaptive(1e-9), ..FlightSetup::default() });
    let got = model.fly(&driver()).unwrap();
    assert_eq!(got.status, FlightStatus::StepTooSmall, "{got:?}");
    assert!(got.time > 0.0 && got.carry.is_finite());
}

#[test]
fn energy_never_grows_in_still_air() {
    for method in [rk4(0.01), adaptive(1e-4)] {
        let model = model(FlightSetup { method, ..FlightSetup::default() });
        for launch in launches(60) {
            let (_, path) = model.path(&launch).unwrap();
            let energy =
                |p: &FlightPoint| G * p.position[1] + 0.5 * p.velocity.iter().map(|v| v * v).sum::<f64>();
            let grown = path.windows(2).find(|two| energy(&two[1]) > energy(&two[0]));
            assert!(grown.is_none(), "{method:?} {launch:?}: {grown:?}");
        }
    }
}

#[test]
fn spin_decays_exponentially_and_bends_the_flight_as_it_should() {
    let model = model(FlightSetup::default());
    let got = model.fly(&driver()).unwrap();
    assert!((got.landing_spin - 2700.0 * (-got.time / 23.8).exp()).abs() < 1e-6, "{got:?}");
    let straight = Launch { azimuth: 0.0, tilt: 0.0, ..driver() };
    let to = |launch: Launch| model.fly(&launch).unwrap();
    assert!(to(straight).lateral.abs() < 1e-9);
    let (right, left) = (to(Launch { tilt: 15.0, ..straight }), to(Launch { tilt: -15.0, ..straight }));
    assert!(right.lateral > 5.0 && (right.lateral + left.lateral).abs() < 1e-9, "{right:?}");
    assert!(to(Launch { spin: 3500.0, ..straight }).apex > to(straight).apex);
    assert!(to(Launch { spin: -2700.0, ..straight }).carry < to(Launch { spin: 0.0, ..straight }).carry);
}

#[test]
fn a_golf_ball_flies_as_far_as_golf_balls_do() {
    let got = model(FlightSetup::default()).fly(&Launch { azimuth: 0.0, tilt: 0.0, ..driver() }).unwrap();
    assert!((180.0..240.0).contains(&got.carry), "{got:?}");
    assert!((15.0..45.0).contains(&got.apex) && (4.5..8.0).contains(&got.time), "{got:?}");
    assert!((25.0..55.0).contains(&got.landing_angle), "{got:?}");
    let high = Air { altitude: 2000.0, ..Air::default() };
    let farther = model(FlightSetup { air: high, ..FlightSetup::default() }).fly(&driver()).unwrap();
    assert!(farther.carry > got.carry + 5.0, "thin air carries");
}

#[test]
fn wind_moves_the_ball_where_it_blows() {
    let straight = Launch { azimuth: 0.0, tilt: 0.0, ..driver() };
    let fly = |from: f64, profile: ShearProfile| {
        let wind = Wind { speed: 8.0, from, reference: 10.0, profile };
        model(FlightSetup { wind, ..FlightSetup::default() }).fly(&straight).unwrap()
    };
    let still = model(FlightSetup::default()).fly(&straight).unwrap();
    for profile in
        [ShearProfile::Uniform, ShearProfile::Power { exponent: 0.14 }, ShearProfile::Log { roughness: 0.03 }]
    {
        let (against, behind) = (fly(0.0, profile), fly(180.0, profile));
        assert!(against.carry < still.carry - 5.0 && behind.carry > still.carry + 3.0, "{profile:?}");
        let (from_right, from_left) = (fly(90.0, profile), fly(-90.0, profile));
        assert!(from_right.lateral < -8.0 && (from_right.lateral + from_left.lateral).abs() < 1e-6);
    }
    // A profile without growth is the uniform one.
    let (flat, uniform) =
        (fly(30.0, ShearProfile::Power { exponent: 0.0 }), fly(30.0, ShearProfile::Uniform));
    assert!((flat.carry - uniform.carry).abs() < 1e-9 && (flat.lateral - uniform.lateral).abs() < 1e-9);
}

#[test]
fn results_are_bit_identical_across_threads_positions_and_simd_levels() {
    let launches = launches(1500);
    let setups = [
        FlightSetup::default(),
        FlightSetup { wind: log_wind(), method: adaptive(1e-4), ..FlightSetup::default() },
        FlightSetup {
            wind: Wind { profile: ShearProfile::Power { exponent: 0.2 }, ..log_wind() },
            method: rk4(0.03),
            ..FlightSetup::default()
        },
    ];
    for setup in setups {
        let model = model(setup);
        let alone: Vec<_> = launches.iter().map(|launch| model.fly(launch)).collect();
        for threads in [1, 2, 5] {
            for simd in Simd::available() {
                let all = model.fly_all_with(&launches, Threads(threads), simd);
                assert!(all == alone, "{threads} threads, {simd:?}");
            }
        }
        let shifted = model.fly_all(&launches[3..200], Threads(2));
        assert!(shifted == alone[3..200], "another place in the batch");
        let (summary, path) = model.path(&launches[7]).unwrap();
        assert_eq!(Ok(summary), alone[7]);
        assert_eq!(path.last().unwrap().time, summary.time);
    }
}

#[test]
fn time_limit_and_very_short_flights() {
    let model_of = |limit| model(FlightSetup { time_limit: limit, ..FlightSetup::default() });
    let got = model_of(1.5).fly(&driver()).unwrap();
    assert_eq!((got.status, got.time), (FlightStatus::TimedOut, 1.5));
    // Up for 51 s and down again: more than a minute.
    let up = Launch { speed: 500.0, angle: 90.0, ..Launch::default() };
    let air = Air::vacuum();
    let got = model(FlightSetup { air, ..FlightSetup::default() }).fly(&up).unwrap();
    assert_eq!((got.status, got.time), (FlightStatus::TimedOut, 60.0));
    let model = model_of(60.0);
    let none = model.fly(&Launch::default()).unwrap();
    assert_eq!((none.status, none.carry, none.time), (FlightStatus::Landed, 0.0, 0.0));
    let topped = model.fly(&Launch { speed: 30.0, angle: -5.0, ..Launch::default() }).unwrap();
    assert_eq!((topped.status, topped.carry, topped.apex), (FlightStatus::Landed, 0.0, 0.0));
    let hop = model.fly(&Launch { speed: 1.0, angle: 0.5, ..Launch::default() }).unwrap();
    assert!(hop.status == FlightStatus::Landed && hop.carry > 1e-3 && hop.time < 0.01, "{hop:?}");
    let dropped = model.fly(&Launch { height: 2.0, ..Launch::default() }).unwrap();
    assert!((dropped.time - 0.64).abs() < 0.02 && dropped.apex == 2.0, "{dropped:?}");
}

#[test]
fn a_diverging_step_is_reported() {
    let ball = Ball { mass: 1e-4, radius: 0.5, ..Ball::default() };
    let setup = FlightSetup { ball, method: rk4(0.1), ..FlightSetup::default() };
    let got = model(setup.clone()).fly(&Launch { speed: 100.0, height: 100.0, ..driver() }).unwrap();
    assert_eq!(got.status, FlightStatus::Diverged, "{got:?}");
    let followed = FlightSetup { method: adaptive(1e-3), ..setup };
    let got = model(followed).fly(&Launch { speed: 100.0, height: 100.0, ..driver() }).unwrap();
    assert_ne!(got.status, FlightStatus::Diverged, "{got:?}");
}

#[test]
fn an_invalid_launch_is_an_error_of_its_own() {
    let mut launches = launches(700);
    launches[5].speed = f64::NAN;
    launches[513].spin = f64::INFINITY;
    launches[699].height = -1.0;
    let all = model(FlightSetup::default()).fly_all(&launches, Threads(2));
    let bad: Vec<usize> = (0..700).filter(|i| all[*i].is_err()).collect();
    assert_eq!(bad, [5, 513, 699]);
    let error = all[5].as_ref().unwrap_err().to_string();
    assert_eq!(error, "the speed is NaN: it must be from 0 to 500 m/s");
    assert!(all[699].as_ref().unwrap_err().to_string().contains("height is -1"));
}

#[test]
fn implausible_setups_are_refused() {
    let ball = |mass, radius, spin_decay| FlightSetup {
        ball: Ball { mass, radius, spin_decay },
        ..FlightSetup::default()
    };
    let wind = |speed, profile| FlightSetup {
        wind: Wind { speed, profile, ..log_wind() },
        ..FlightSetup::default()
    };
    let cases = [
        (ball(-0.05, 0.02, 20.0), "mass"),
        (ball(0.05, 0.0, 20.0), "radius"),
        (ball(0.05, 0.02, f64::NAN), "spin decay"),
        (wind(-1.0, ShearProfile::Uniform), "wind speed"),
        (wind(5.0, ShearProfile::Power { exponent: 2.0 }), "exponent"),
        (wind(5.0, ShearProfile::Log { roughness: 9.0 }), "roughness"),
        (FlightSetup { method: rk4(0.0), ..FlightSetup::default() }, "step"),
        (FlightSetup { method: adaptive(f64::NAN), ..FlightSetup::default() }, "tolerance"),
        (FlightSetup { gravity: 0.0, ..FlightSetup::default() }, "gravity"),
        (FlightSetup { time_limit: 1e9, ..FlightSetup::default() }, "time limit"),
        (
            FlightSetup { air: Air { humidity: 200.0, ..Air::default() }, ..FlightSetup::default() },
            "humidity",
        ),
        (FlightSetup { coefficients: Coefficients::constant(-1.0, 0.0), ..FlightSetup::default() }, "drag"),
    ];
    for (setup, what) in cases {
        let error = setup.model().unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
}
