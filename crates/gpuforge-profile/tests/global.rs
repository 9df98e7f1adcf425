//! Global profiler: macros, attribute and guards record what happened; one test at a time.

use gpuforge_profile::{
    Category, Name, Profiler, Span, Trace, TrackKind, async_span, counter, gauge, profiled, scope, span,
    trace_from_env,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

/// Runs `f` with the global profiler on, alone, and returns what it recorded.
fn record(f: impl FnOnce()) -> Trace {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let profiler = Profiler::global();
    profiler.disable();
    profiler.drain();
    profiler.enable();
    f();
    profiler.disable();
    profiler.drain()
}

/// Name and depth of each span of threads, in order of start.
fn tree(trace: &Trace) -> Vec<(&str, u16)> {
    let threads = trace.spans.iter().filter(|s| trace.kind_of(s) == Some(TrackKind::Thread));
    threads.map(|s| (trace.name(s.name), s.depth)).collect()
}

#[test]
fn guards_closures_and_attributes_nest() {
    #[profiled(name = "outer", category = "overhead")]
    fn outer() {
        let _a = span!("a", Category::Gpu);
        scope("b", || drop(span!("c")));
    }
    let trace = record(|| {
        outer();
        drop(span!("last",));
    });
    assert_eq!(tree(&trace), [("outer", 0), ("a", 1), ("b", 2), ("c", 3), ("last", 0)]);
    let categories: Vec<_> = trace.spans.iter().map(|s| s.category).collect();
    use Category::{Cpu, Gpu, Overhead};
    assert_eq!(categories, [Overhead, Gpu, Cpu, Cpu, Cpu]);
    for (parent, child) in trace.spans.iter().zip(&trace.spans[1..4]) {
        assert!(parent.start_ns <= child.start_ns && child.end_ns() <= parent.end_ns());
    }
    assert!(trace.spans[4].start_ns >= trace.spans[0].end_ns());
    let own: u64 = trace.summary().iter().filter_map(|row| row.self_ns).sum();
    assert_eq!(own, trace.spans[0].duration_ns + trace.spans[4].duration_ns);
    assert_eq!(trace.dropped, 0);
}

struct Thing<T>(T);

impl<T: Clone> Thing<T> {
    #[profiled]
    fn twice(&self) -> (T, T)
    where
        T: PartialEq,
    {
        (self.0.clone(), self.0.clone())
    }

    #[profiled(name = "consume")]
    fn consume(mut self, other: T) -> impl Iterator<Item = T> {
        self.0 = other;
        std::iter::once(self.0)
    }
}

trait Speak {
    fn speak(&self) -> &str;
}

impl Speak for Thing<String> {
    #[profiled]
    fn speak(&self) -> &str {
        &self.0
    }
}

#[profiled]
fn fails(fail: bool) -> Result<u8, String> {
    if fail {
        Err("asked to".to_owned())?;
    }
    Ok(1)
}

#[test]
fn attribute_works_on_methods_generics_traits_and_early_returns() {
    let trace = record(|| {
        assert_eq!(Thing(3).twice(), (3, 3));
        assert_eq!(Thing("x").consume("y").next(), Some("y"));
        assert_eq!(Thing("z".to_owned()).speak(), "z");
        assert!(fails(true).is_err() && fails(false).is_ok());
    });
    let names: Vec<&str> = tree(&trace).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["global::twice", "consume", "global::speak", "global::fails", "global::fails"]);
}

#[profiled(name = "step", category = "wait")]
async fn step(n: u32) -> u32 {
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        std::task::Poll::Ready(n)
    })
    .await
}

#[test]
fn async_function_is_measured_from_first_poll_to_completion() {
    fn must_be_send<T: Send>(value: T) -> T {
        value
    }
    let trace = record(|| {
        drop(step(1)); // Never polled: not a span.
        let later = must_be_send(step(2));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(pollster::block_on(later), 2);
        // Opened here, dropped on another thread.
        let moving = async_span!("moving");
        std::thread::spawn(move || drop(moving)).join().unwrap();
    });
    let names: Vec<&str> = trace.spans.iter().map(|s| trace.name(s.name)).collect();
    assert_eq!(names, ["step", "moving"]);
    assert!(trace.spans.iter().all(|s| trace.kind_of(s) == Some(TrackKind::Async)));
    assert!(trace.spans[0].duration_ns < 15_000_000, "the wait before the first poll is excluded");
    assert_eq!(trace.spans[0].category, Category::Wait);
    // Async spans have no self time: they are in no breakdown.
    assert_eq!(trace.breakdown().wait_ns, None);
    assert_eq!(trace.summary()[0].self_ns, None);
}

#[test]
fn panic_closes_the_spans_it_unwinds_through() {
    let trace = record(|| {
        let _outer = span!("outer");
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _inner = span!("inner");
            scope("innermost", || panic!("on purpose"));
        }));
        assert!(caught.is_err());
        drop(span!("after"));
    });
    assert_eq!(tree(&trace), [("outer", 0), ("inner", 1), ("innermost", 2), ("after", 1)]);
}

#[test]
fn spans_opened_while_enabled_are_recorded_others_are_not() {
    let profiler = Profiler::global();
    let trace = record(|| {
        let on = span!("opened on");
        profiler.disable();
        let off = span!("opened off");
        assert!(on.is_recording() && !off.is_recording());
        drop(on);
        profiler.enable();
        let inside = span!("inside");
        drop(off);
        drop(inside);
        drop(span!("after"));
    });
    assert_eq!(tree(&trace), [("opened on", 0), ("inside", 0), ("after", 0)]);
}

#[test]
fn counters_and_gauges_are_sampled_and_keep_their_last_value() {
    let at = |trace: &Trace, name: &str| trace.counter(name).map(|c| (c.value, c.samples.len()));
    let trace = record(|| {
        for i in 0..1000_u64 {
            counter!("global::count").add(2);
            gpuforge_profile::counter("global::looked up").add(1);
            gauge!("global::level").set(i as f64 - 500.0);
        }
        gauge!("global::level").set(f64::NAN);
        gpuforge_profile::gauge("global::looked up").set(2.5);
        std::thread::sleep(std::time::Duration::from_millis(5));
        counter!("global::count").add(1);
    });
    let (value, samples) = at(&trace, "global::count").unwrap();
    assert_eq!(value, 2001);
    // One at the start, one after the pause, one when taken, and a few if the loop was interrupted.
    assert!((3..500).contains(&samples), "{samples} samples");
    let series = &trace.counter("global::count").unwrap().samples;
    assert!(series.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{series:?}");
    assert_eq!(at(&trace, "global::looked up").map(|c| c.0), Some(1000));
    let gauge = trace.gauge("global::level").unwrap();
    assert_eq!((gauge.value, gauge.min, gauge.max), (499.0, -500.0, 499.0));
    assert_eq!(trace.gauge("global::looked up").unwrap().value, 2.5);
    assert_eq!(trace.gauge("global::count"), None);
}

#[test]
fn runtime_names_and_bytes() {
    let trace = record(|| {
        for i in 0..3 {
            let mut span = Span::named(Name::new(&format!("layer {i}")), Category::Transfer);
            span.bytes(i * 100);
        }
    });
    let rows: Vec<_> = trace.spans.iter().map(|s| (trace.name(s.name), s.bytes)).collect();
    assert_eq!(rows, [("layer 0", Some(0)), ("layer 1", Some(100)), ("layer 2", Some(200))]);
    assert_eq!(trace.summary().iter().filter_map(|row| row.bytes).sum::<u64>(), 300);
}

#[test]
fn environment_variable_enables_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.json");
    record(|| {
        Profiler::global().disable();
        let asked = path.clone();
        let guard = trace_from_env(move |name| (name == "GPUFORGE_TRACE").then(|| asked.clone().into()));
        drop(span!("in the file"));
        drop(guard);
        assert!(!Profiler::global().is_enabled());
    });
    assert_eq!(tree(&Trace::read_file(&path).unwrap()), [("in the file", 0)]);
}

#[test]
fn spans_after_thread_local_destruction_are_counted() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            drop(span!("late"));
            drop(Profiler::global().span("late too", Category::Cpu));
        }
    }
    thread_local! {
        static LATE: Late = const { Late };
    }
    let trace = record(|| {
        let ended = std::thread::spawn(|| {
            LATE.with(|_| ());
            drop(span!("in time"));
        });
        ended.join().unwrap();
    });
    // The order of thread-local destructors is platform-specific; every span is counted either way.
    assert_eq!(trace.spans.len() as u64 + trace.dropped, 3);
}
