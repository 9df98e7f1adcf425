//! Overhead of a profiling span: enabled and disabled, beside `tracing` and `puffin`, and with eight threads.
//!
//! Every contender runs the same loop around the same empty work, interleaved, so that a disturbance hits all.
//! The loop itself is part of each figure. `tracing` gets a subscriber that only writes the time of enter and exit into
//! a ring made before, with our clock; `puffin` is as it comes, with its own clock, one frame per measurement.

use crate::{measure::Sample, row::Row};
use anyhow::{Context as _, Result, ensure};
use gpuforge_profile::{Category, ClockChoice, Profiler, span};
use std::{cell::Cell, hint::black_box, sync::OnceLock, time::Instant};
use tracing::{Metadata, Subscriber, span as tracing_span, subscriber::Interest};

const BENCH: &str = "span";

/// Spans per measurement, and measurements per case: each shorter than a scheduler time slice, so that the median is of
/// undisturbed ones.
const SPANS: u64 = 10_000;
const ROUNDS: usize = 300;

/// The case with many threads.
const THREADS: u64 = 8;
const IN_ALL: u64 = 10_000_000;
const THREAD_ROUNDS: usize = 5;

/// Limits in nanoseconds.
const LIMIT_ON: f64 = 30.0;
const LIMIT_OFF: f64 = 2.0;

/// Runs all cases. The global profiler is used, and left off.
pub(crate) fn run() -> Result<Vec<Row>> {
    let profiler = Profiler::global();
    profiler.disable();
    puffin::set_scopes_on(false);
    let [ours_off, tracing_off, puffin_off] = interleaved([ours, with_tracing, with_puffin]);

    tracing::subscriber::set_global_default(EnterExit)
        .context("another subscriber is set in this process")?;
    puffin::set_scopes_on(true);
    profiler.enable();
    let [clock, ours_on, tracing_on, puffin_on] =
        interleaved([two_clock_reads, ours, with_tracing, with_puffin]);
    puffin::set_scopes_on(false);
    profiler.disable();

    let threads = many_threads(profiler)?;
    Ok(vec![
        row("two clock reads, the floor of a span", &clock, None),
        row("on", &ours_on, Some(LIMIT_ON)),
        row("off", &ours_off, Some(LIMIT_OFF)),
        vs_peer("on", &ours_on, "tracing, minimal subscriber, our clock", &tracing_on),
        vs_peer("on", &ours_on, "puffin", &puffin_on),
        vs_peer("off", &ours_off, "tracing without subscriber", &tracing_off),
        vs_peer("off", &ours_off, "puffin off", &puffin_off),
        row(
            "8 threads, 10 million spans, each recorded or counted as dropped; wall time per span",
            &threads,
            None,
        ),
    ])
}

fn row(case: &str, ours: &Sample, target: Option<f64>) -> Row {
    Row {
        bench: BENCH,
        case: case.to_owned(),
        ours: ours.median,
        peer: None,
        peer_name: None,
        unit: "ns",
        ratio: target.map(|target| target / ours.median),
        n: ours.n,
        noise: ours.noise,
        target,
    }
}

fn vs_peer(case: &str, ours: &Sample, name: &str, peer: &Sample) -> Row {
    Row {
        case: format!("{case}, beside {name}"),
        peer: Some(peer.median),
        peer_name: Some(name.to_owned()),
        ratio: Some(peer.median / ours.median),
        noise: ours.noise.max(peer.noise),
        ..row(case, ours, None)
    }
}

/// Nanoseconds per span of each contender, interleaved; the first round is warm-up.
fn interleaved<const N: usize>(contenders: [fn(u64); N]) -> [Sample; N] {
    let mut times = [const { Vec::new() }; N];
    for round in 0..=ROUNDS {
        for (contender, times) in contenders.iter().zip(&mut times) {
            let started = Instant::now();
            contender(SPANS);
            let ns = started.elapsed().as_secs_f64() * 1e9 / SPANS as f64;
            if round > 0 {
                times.push(ns);
            }
        }
    }
    times.map(|times| Sample::of(&times))
}

fn ours(spans: u64) {
    for i in 0..spans {
        let _span = span!("bench", Category::Cpu);
        black_box(i);
    }
}

fn with_tracing(spans: u64) {
    for i in 0..spans {
        let _span = tracing::info_span!("bench").entered();
        black_box(i);
    }
}

/// Inside one outer scope: puffin hands a thread's scopes over whenever the outermost one closes.
fn with_puffin(spans: u64) {
    {
        puffin::profile_scope!("frame");
        for i in 0..spans {
            puffin::profile_scope!("bench");
            black_box(i);
        }
    }
    if puffin::are_scopes_on() {
        puffin::GlobalProfiler::lock().new_frame();
    }
}

fn two_clock_reads(spans: u64) {
    let read = reader();
    for _ in 0..spans {
        black_box(read());
        black_box(read());
    }
}

/// The clock our spans use.
fn reader() -> fn() -> u64 {
    static READER: OnceLock<fn() -> u64> = OnceLock::new();
    *READER.get_or_init(|| ClockChoice::Auto.reader())
}

/// Writes the time of each enter and exit; nothing else.
struct EnterExit;

/// Times kept per thread.
const RING: usize = 1 << 16;

struct Times {
    ring: Box<[Cell<u64>]>,
    next: Cell<usize>,
    read: fn() -> u64,
}

thread_local! {
    static TIMES: Times =
        Times { ring: vec![Cell::new(0); RING].into(), next: Cell::new(0), read: reader() };
}

fn record_time() {
    TIMES.with(|times| {
        let at = times.next.get();
        if let Some(place) = times.ring.get(at % RING) {
            place.set((times.read)());
        }
        times.next.set(at.wrapping_add(1));
    });
}

impl Subscriber for EnterExit {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing_span::Attributes<'_>) -> tracing_span::Id {
        tracing_span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing_span::Id, _: &tracing_span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing_span::Id, _: &tracing_span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &tracing_span::Id) {
        record_time();
    }

    fn exit(&self, _: &tracing_span::Id) {
        record_time();
    }
}

/// Wall time per span with [`THREADS`] threads; fails when a span is neither in the trace nor counted as dropped.
fn many_threads(profiler: &Profiler) -> Result<Sample> {
    let mut times = Vec::new();
    for _ in 0..THREAD_ROUNDS {
        profiler.drain();
        profiler.enable();
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| ours(IN_ALL / THREADS));
            }
        });
        times.push(started.elapsed().as_secs_f64() * 1e9 / IN_ALL as f64);
        profiler.disable();
        let trace = profiler.drain();
        let recorded = trace.spans.len() as u64;
        ensure!(
            recorded + trace.dropped == IN_ALL,
            "{recorded} spans recorded and {} dropped, but {IN_ALL} were made",
            trace.dropped
        );
    }
    Ok(Sample::of(&times))
}
