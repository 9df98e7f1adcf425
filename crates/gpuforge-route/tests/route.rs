//! The decision: pure, without allocation, and with the right reason for every wish and every state of a place.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
    time::Duration,
};

use gpuforge_route::{
    Effort, Kind, Lane, Model, Reason, Wish, Work,
    curve::{Curve, Point},
    feedback::Corrections,
    route,
    route::Candidate,
};
use gpuforge_runtime::units::Bytes;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[allow(unsafe_code, reason = "an allocator can be counted in no other way")]
// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn curve(points: &[(u64, f64)]) -> Curve {
    Curve::try_from(points.iter().map(|(units, ns)| Point { units: *units, ns: *ns }).collect::<Vec<_>>())
        .unwrap()
}

/// A processor at 1 ns an element.
fn cpu() -> Model {
    let mut model = Model::named("cpu");
    model.set(Kind::Map, curve(&[(1, 50.0), (1 << 8, 256.0), (1 << 24, (1 << 24) as f64)]));
    model.byte_ns = Some(0.1);
    model
}

/// A device at a tenth of that, with 100 µs a submission and 0.02 ns a byte each way.
fn device() -> Model {
    let mut model = Model::named("gpu");
    model.set(Kind::Map, curve(&[(1, 1e5), (1 << 20, 2e5), (1 << 24, 1.8e6)]));
    model.up = Some(curve(&[(1, 1.0), (1 << 10, 20.0), (1 << 30, 2e7)]));
    model.down = model.up.clone();
    model.launch_ns = 1e5;
    model
}

fn work(n: u64) -> Work {
    let effort =
        Effort { units: n, flops: 2 * n, read: Bytes(8 * n), written: Bytes(4 * n), launches: 1, depth: 1 };
    Work {
        kind: Kind::Map,
        effort,
        up: Bytes(8 * n),
        down: Bytes(4 * n),
        home: Bytes::ZERO,
        largest: Bytes(4 * n),
        splittable: false,
    }
}

fn candidate<'a>(model: &'a Model, corrections: &'a Corrections) -> Candidate<'a> {
    Candidate { model, corrections, usable: true, largest: None, room: None }
}

const LANE: Lane = Lane::of(Kind::Map);

#[test]
fn small_work_stays_and_large_work_goes() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let candidates = [candidate(&cpu, &none), candidate(&device, &none)];
    let small = route(&work(1000), LANE, &candidates, Wish::Fastest);
    assert_eq!(small.place, 0);
    assert!(matches!(small.reason, Reason::Faster { factor } if factor > 10.0), "{small:?}");
    let large = route(&work(1 << 24), LANE, &candidates, Wish::Fastest);
    assert_eq!(large.place, 1);
    assert!(large.calibrated && large.predicted_ns(1) < large.predicted_ns(0));
    // Already there: the transfers fall away, and less work is worth it.
    let resident = Work { up: Bytes::ZERO, down: Bytes::ZERO, home: Bytes(8 << 18), ..work(1 << 18) };
    assert_eq!(route(&resident, LANE, &candidates, Wish::Fastest).place, 1);
    assert_eq!(route(&work(1 << 17), LANE, &candidates, Wish::Fastest).place, 0);
}

#[test]
fn wishes_win_in_their_order() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let mut candidates = [candidate(&cpu, &none), candidate(&device, &none)];
    let at = |candidates: &[Candidate<'_>], wish| {
        let d = route(&work(1000), LANE, candidates, wish);
        (d.place, d.reason)
    };
    assert_eq!(at(&candidates, Wish::Only(1)), (1, Reason::Asked));
    assert_eq!(at(&candidates, Wish::Prefer(1)), (1, Reason::Preferred));
    candidates[1].usable = false;
    assert_eq!(
        at(&candidates, Wish::Only(1)),
        (1, Reason::Asked),
        "an explicit request is never changed silently"
    );
    assert_eq!(at(&candidates, Wish::Prefer(1)), (0, Reason::PreferredUnusable));
}

#[test]
fn what_cannot_go_there_does_not() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let n = 1 << 24;
    for (usable, largest, room) in
        [(false, None, None), (true, Some(Bytes(4 * n - 1)), None), (true, None, Some(Bytes(12 * n - 1)))]
    {
        let gpu = Candidate { usable, largest, room, ..candidate(&device, &none) };
        let d = route(&work(n), LANE, &[candidate(&cpu, &none), gpu], Wish::Fastest);
        assert_eq!((d.place, d.reason), (0, Reason::OthersCannot), "{usable} {largest:?} {room:?}");
        let cut = Work { splittable: true, ..work(n) };
        let d = route(&cut, LANE, &[candidate(&cpu, &none), gpu], Wish::Fastest);
        assert_eq!(d.place, usize::from(usable), "in parts it fits");
    }
}

#[test]
fn unknown_is_said() {
    let (cpu, empty, none) = (cpu(), Model::named("new"), Corrections::default());
    let d = route(&work(1000), LANE, &[candidate(&cpu, &none), candidate(&empty, &none)], Wish::Fastest);
    assert_eq!((d.place, d.reason, d.calibrated), (0, Reason::NotMeasured, false));
    assert_eq!(d.predicted_ns(1), None);
    let d = route(&work(1000), LANE, &[candidate(&empty, &none), candidate(&empty, &none)], Wish::Fastest);
    assert_eq!((d.place, d.reason), (0, Reason::NotMeasured));
    let d = route(&work(1000), LANE, &[candidate(&cpu, &none)], Wish::Fastest);
    assert_eq!((d.place, d.reason), (0, Reason::Only));
    // A kind without a curve is estimated from memory speed, and says that it was not calibrated.
    let d = route(&work(1000), Lane::of(Kind::Gather), &[candidate(&cpu, &none)], Wish::Fastest);
    assert!(!d.calibrated && d.predicted_ns(0).is_some());
    assert_eq!(route(&work(1), LANE, &[], Wish::Fastest).place, 0, "nothing at all does not panic");
}

#[test]
fn what_runs_taught_turns_a_decision() {
    let (cpu, device, none, taught) = (cpu(), device(), Corrections::default(), Corrections::default());
    let before =
        route(&work(1 << 24), LANE, &[candidate(&cpu, &none), candidate(&device, &taught)], Wish::Fastest);
    assert_eq!(before.place, 1);
    for _ in 0..5 {
        taught.learn(LANE, 1 << 24, before.model_ns(1).unwrap(), Duration::from_secs(1));
    }
    let after =
        route(&work(1 << 24), LANE, &[candidate(&cpu, &none), candidate(&device, &taught)], Wish::Fastest);
    assert_eq!(after.place, 0, "{after:?}");
}

#[test]
fn a_decision_allocates_nothing() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let candidates = [candidate(&cpu, &none), candidate(&device, &none)];
    let before = ALLOCATIONS.get();
    for n in 0..1000u64 {
        black_box(route(black_box(&work(n * n)), LANE, &candidates, Wish::Fastest));
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    drop(black_box(vec![1]));
    assert_eq!(ALLOCATIONS.get() - before, 1, "the counter counts");
}
