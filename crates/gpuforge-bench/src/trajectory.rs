//! Ball flight simulation: 1, 1000 and 1 000 000 launches, beside a scalar loop of the same model and SciPy's `solve_ivp`; and
//! regret of the router's placement.
//!
//! All sides compute the default golf ball in a wind that is the same at every height. The scalar loop computes one
//! launch after the other on one thread, with the same fixed steps. SciPy's method is the pair of Dormand and Prince with
//! a tolerance of a millionth; ours beside it is the same pair, and its landings must lie no farther from those of a much
//! finer computation than SciPy's do. Both peers are timed per launch over some of the launches: they take as long for each
//! of a million as for each of a thousand. Where there is no Python with SciPy, one is created in the build directory; where that
//! fails, the case is skipped.

use std::{
    hint::black_box,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use gpuforge::{
    ops::{Op, Threads, Work},
    route::{
        Backend, CostModel, CpuBackend, PlacementPolicy, Router, RouterSettings,
        calibrate::{self, calibrate},
    },
    workloads::trajectory::{
        FlightModel, FlightSetup, FlightStatus, FlightSummary, Flights, IntegrationMethod, Launch, Wind,
    },
};

use crate::{
    measure::Sample,
    regret::{Cell, adapter, cell},
    row::Row,
};

#[allow(clippy::indexing_slicing, reason = "seven numbers of a state, a scalar reference")]
mod scalar;

const BENCH: &str = "trajectory";
/// Batches.
const SIZES: [usize; 3] = [1, 1000, 1_000_000];
/// Smallest ratio to the scalar loop at a million, and to SciPy anywhere.
const TO_PLAIN: f64 = 3.0;
const TO_SCIPY: f64 = 100.0;
/// Launches of the peers per round.
const OF_PLAIN: usize = 2000;
const OF_SCIPY: usize = 5;
/// Largest distance between the landings of two sides, in metres.
const MAX_DISTANCE: f64 = 0.02;
/// Tolerance of our adaptive method beside SciPy's, and of what both are compared with, in metres.
const TOLERANCE: f64 = 5e-3;
const FINE: f64 = 1e-8;
/// Sizes that the router's curves are measured at, and those between them that are decided.
const MEASURED: [usize; 3] = [64, 512, 2048];
const DECIDED: [usize; 4] = [1, 100, 1000, 4000];

fn setup() -> FlightSetup {
    FlightSetup { wind: Wind { speed: 4.0, from: 60.0, ..Wind::default() }, ..FlightSetup::default() }
}

fn adaptive(tolerance: f64) -> FlightSetup {
    FlightSetup { method: IntegrationMethod::Adaptive { tolerance }, ..setup() }
}

/// Launches of every club.
fn launches(n: usize) -> Vec<Launch> {
    let part = |i: usize, by: usize, of: usize| ((i * by) % of) as f64 / of as f64;
    let launch = |i: usize| Launch {
        speed: 45.0 + 30.0 * part(i, 7, 1009),
        angle: 8.0 + 22.0 * part(i, 11, 997),
        azimuth: -5.0 + 10.0 * part(i, 13, 991),
        spin: 2000.0 + 6000.0 * part(i, 17, 983),
        tilt: -15.0 + 30.0 * part(i, 19, 977),
        height: 0.0,
    };
    (0..n).map(launch).collect()
}

pub(crate) fn run() -> Result<Vec<Row>> {
    let model = setup().model()?;
    let mut scipy = match Peer::start() {
        Ok(peer) => Some(peer),
        Err(why) => {
            eprintln!("trajectory: skipped beside SciPy: {why:#}");
            None
        }
    };
    let mut rows = Vec::new();
    for n in SIZES {
        let launches = launches(n);
        rows.push(beside_plain(&model, &launches)?);
        if let Some(scipy) = &mut scipy {
            rows.push(beside_scipy(&launches, scipy)?);
        }
    }
    match adapter() {
        Ok(device) => rows.extend(routed(device)?),
        Err(error) => eprintln!("trajectory: skipped on a device: {error:#}"),
    }
    Ok(rows)
}

/// Which launches of `n` the peer flies in a turn.
fn some(turn: usize, many: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..many).map(move |i| (turn * 31 + i * 7) % n)
}

fn turns(n: usize) -> usize {
    if n > 100_000 { 3 } else { 15 }
}

/// Microseconds per launch of ours and of the plain loop, fixed steps, by turns.
fn beside_plain(model: &FlightModel, launches: &[Launch]) -> Result<Row> {
    let n = launches.len();
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    let given = scalar::FlightConstants::of(model.setup());
    for turn in 0..turns(n) {
        let (flown, us) = timed(model, launches);
        ours.push(us);
        let began = Instant::now();
        for at in some(turn, OF_PLAIN, n) {
            let landed = black_box(scalar::fly(&given, model.setup(), launches.get(at).context("a launch")?));
            let apart = apart(&flown, at, landed)?;
            ensure!(apart < MAX_DISTANCE, "the plain loop lands {apart} m from ours");
        }
        plain.push(began.elapsed().as_secs_f64() * 1e6 / OF_PLAIN as f64);
    }
    let (ours, plain) = (Sample::of(&ours), Sample::of(&plain));
    eprintln!("trajectory: {n} launches, fixed steps: {:.0} a second", 1e6 / ours.median);
    let target = (n == 1_000_000).then_some(1.0 / TO_PLAIN);
    let case = format!("{n} launches, fixed steps, each");
    Ok(Row { unit: "us", ..Row::vs_peer(BENCH, &case, &ours, "a plain loop", &plain, target) })
}

/// Microseconds per launch of ours and of SciPy, steps that follow an error, by turns.
fn beside_scipy(launches: &[Launch], peer: &mut Peer) -> Result<Row> {
    let n = launches.len();
    let (model, fine) = (adaptive(TOLERANCE).model()?, adaptive(FINE).model()?);
    let (mut ours, mut theirs, mut off) = (Vec::new(), Vec::new(), [0f64; 2]);
    for turn in 0..turns(n) {
        let (flown, us) = timed(&model, launches);
        ours.push(us);
        let mut total = 0.0;
        for at in some(turn, OF_SCIPY, n) {
            let launch = launches.get(at).context("a launch")?;
            let (us, landed) = peer.once(launch)?;
            total += us;
            let right = fine.fly(launch)?;
            let right = [right.downrange, right.lateral];
            let [own, peer] = off;
            let ([x, z], [u, w]) = (right, landed);
            off = [own.max(apart(&flown, at, right)?), peer.max((u - x).hypot(w - z))];
        }
        theirs.push(total / OF_SCIPY as f64);
    }
    let [own, other] = off;
    ensure!(own <= other && other < MAX_DISTANCE, "ours lands {own} m off, SciPy {other} m");
    let (ours, theirs) = (Sample::of(&ours), Sample::of(&theirs));
    eprintln!(
        "trajectory: {n} launches, adaptive: {:.0} a second; worst landing {own:.1e} m off, SciPy's {other:.1e} m",
        1e6 / ours.median
    );
    let case = format!("{n} launches, adaptive, each");
    Ok(Row { unit: "us", ..Row::vs_peer(BENCH, &case, &ours, &peer.name, &theirs, Some(1.0 / TO_SCIPY)) })
}

/// Flies, and the microseconds of a launch.
fn timed(model: &FlightModel, launches: &[Launch]) -> (Vec<Option<FlightSummary>>, f64) {
    let began = Instant::now();
    let flown = black_box(fly(model, black_box(launches)));
    (flown, began.elapsed().as_secs_f64() * 1e6 / launches.len() as f64)
}

fn fly(model: &FlightModel, launches: &[Launch]) -> Vec<Option<FlightSummary>> {
    match launches {
        [one] => vec![model.fly(one).ok()],
        many => model.fly_all(many, Threads::all()).into_iter().map(Result::ok).collect(),
    }
}

/// Metres from where a launch landed to where somebody else says it does.
fn apart(flown: &[Option<FlightSummary>], at: usize, [x, z]: [f64; 2]) -> Result<f64> {
    let own = flown.get(at).copied().flatten().context("an invalid launch")?;
    ensure!(own.status == FlightStatus::Landed, "a launch that does not land: {own:?}");
    Ok((own.downrange - x).hypot(own.lateral - z))
}

/// Decisions for batches of several sizes, beside the better place of each.
fn routed(device: Arc<dyn Backend>) -> Result<Vec<Row>> {
    let backends: Vec<Arc<dyn Backend>> = vec![Arc::new(CpuBackend::default()), device];
    let model = Arc::new(setup().model()?);
    let make = |n: usize| Ok(Arc::new(Flights::new(&model, &launches(n))?) as Arc<dyn Op>);
    let options = calibrate::CalibrationOptions::quick();
    let mut known: Vec<CostModel> = Vec::new();
    for backend in &backends {
        let mut place = calibrate(backend.as_ref(), &calibrate::CalibrationOptions::micro(), &mut |_| {})?;
        let curve = calibrate::measure_curve(backend.as_ref(), &place, &make, &MEASURED, &options)?;
        place.custom.extend(
            curve.map(|curve| (make(1).map_or_else(|_| String::new(), |op| op.name().to_owned()), curve)),
        );
        known.push(place);
    }
    let settings = RouterSettings { explore: false, ..RouterSettings::default() };
    let router = Router::new(backends.clone(), known, settings);
    let (mut regrets, mut places) = (Vec::new(), Vec::new());
    for n in DECIDED {
        let cell: Cell = cell(make(n)?, format!("{n} launches"), &backends)?;
        let work = Work::of(cell.op(), false)?;
        let decision = router.decide(&work, router.op_class(cell.op()), PlacementPolicy::Fastest)?;
        let (regret, [cpu, device]) = (cell.regret(decision.backend_id), cell.times());
        eprintln!(
            "trajectory: {n} launches: cpu {cpu:.3} ms, device {device:.3} ms → place {}: {}; regret {regret:.2}",
            decision.backend_id, decision.reason
        );
        regrets.push(regret);
        places.push(decision.backend_id);
    }
    let mean = (regrets.iter().map(|r| r.ln()).sum::<f64>() / regrets.len() as f64).exp();
    let worst = regrets.iter().copied().fold(1.0, f64::max);
    let row = |case: String, value: f64, target: f64| {
        let sample = Sample { median: value, noise: 0.0, n: regrets.len() as u64 };
        Row { unit: "x", ..Row::vs_limit(BENCH, &case, &sample, target) }
    };
    Ok(vec![
        row(
            format!("regret of the router over {DECIDED:?} launches (places {places:?}), geometric mean"),
            mean,
            1.05,
        ),
        row("regret of the router, worst".to_owned(), worst, 1.5),
    ])
}

/// What SciPy is given: the model in plain Python, whose numbers come from ours; a line in is a launch, a line out its time
/// and landing.
const SCRIPT: &str = r#"
import json, math, sys, time
import scipy
from scipy.integrate import solve_ivp
m = json.loads(sys.argv[1])
drag, lift, thin = m["drag"], m["lift"], m["thinning"]
def look(nodes, re, s):
    i = min(max((re - m["re"][0]) / m["re"][1], 0.0), m["re"][2] - 1)
    j = min(max((s - m["spin"][0]) / m["spin"][1], 0.0), m["spin"][2] - 1)
    a, b = min(int(i), m["re"][2] - 2), min(int(j), m["spin"][2] - 2)
    i -= a; j -= b
    n = m["spin"][2]
    low = nodes[a * n + b] * (1 - j) + nodes[a * n + b + 1] * j
    high = nodes[(a + 1) * n + b] * (1 - j) + nodes[(a + 1) * n + b + 1] * j
    return low * (1 - i) + high * i
def slope(t, y, ax, ay, az):
    h = min(max(y[1], 0.0), 10000.0)
    thinned = 1 + h * (thin[0] + h * (thin[1] + h * (thin[2] + h * thin[3])))
    u, v, w = y[3] - m["wind"][0], y[4], y[5] - m["wind"][1]
    speed = math.sqrt(u * u + v * v + w * w)
    re = m["density"] * thinned * speed * 2 * m["radius"] / m["viscosity"]
    s = m["radius"] * y[6] / max(speed, 1e-6)
    push = m["push"] * thinned * speed
    back, side = push * look(drag, re, s), push * look(lift, re, s)
    return [y[3], y[4], y[5], side * (ay * w - az * v) - back * u, side * (az * u - ax * w) - back * v - m["gravity"],
            side * (ax * v - ay * u) - back * w, -y[6] / m["decay"]]
def ground(t, y, ax, ay, az):
    return y[1]
ground.terminal, ground.direction = True, -1
print("SciPy", scipy.__version__, flush=True)
for line in sys.stdin:
    n = json.loads(line)
    began = time.perf_counter()
    done = solve_ivp(slope, (0.0, 60.0), [0.0, n[0], 0.0, n[1], n[2], n[3], n[7]], args=(n[4], n[5], n[6]),
                     events=ground, rtol=1e-6, atol=1e-6)
    took = time.perf_counter() - began
    print(took * 1e6, done.y[0][-1], done.y[2][-1], flush=True)
"#;

/// A Python process that flies when it is told to.
struct Peer {
    name: String,
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

/// Interpreters that may have SciPy, and a folder where one can be made.
fn interpreter() -> Result<PathBuf> {
    let has = |python: &PathBuf| {
        let mut ask = Command::new(python);
        ask.args(["-c", "import scipy.integrate"]).stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success())
    };
    let beside = std::env::current_exe()?.parent().context("no directory")?.join("bench-python");
    let own = beside.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let named = std::env::var_os("GPUFORGE_BENCH_PYTHON").map(PathBuf::from);
    let known = named.into_iter().chain([PathBuf::from("python3"), own.clone()]);
    if let Some(python) = known.into_iter().find(has) {
        return Ok(python);
    }
    let run = |program: &PathBuf, args: &[&str]| -> Result<()> {
        let done = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ensure!(done.is_ok_and(|status| status.success()), "{} {}", program.display(), args.join(" "));
        Ok(())
    };
    let folder = beside.to_string_lossy().into_owned();
    run(&PathBuf::from("python3"), &["-m", "venv", &folder]).context("cannot make an environment")?;
    run(&own, &["-m", "pip", "install", "-q", "scipy"]).context("cannot install SciPy")?;
    Ok(own)
}

impl Peer {
    fn start() -> Result<Peer> {
        let mut python = Command::new(interpreter()?);
        python.args(["-c", SCRIPT, &scalar::FlightConstants::of(&setup()).json().to_string()]);
        for name in ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"] {
            python.env(name, "1");
        }
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = python.spawn().context("python does not start")?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut peer = Peer { name: String::new(), child, to, from };
        peer.name = peer.line()?;
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.from.read_line(&mut line)? > 0, "python has ended");
        Ok(line.trim().to_owned())
    }

    /// Microseconds of one flight, and where it landed.
    fn once(&mut self, launch: &Launch) -> Result<(f64, [f64; 2])> {
        let start = scalar::start(launch);
        writeln!(self.to.as_mut().context("no pipe")?, "{}", serde_json::to_string(&start)?)?;
        let line = self.line()?;
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [us, x, z] = numbers.as_slice() else { anyhow::bail!("not three numbers: {line}") };
        Ok((*us, [*x, *z]))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.to.take());
        drop(self.child.wait());
    }
}
