//! Routing decision: allocation-free, with the right reason for every placement policy and backend state.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
    time::Duration,
};

use gpuforge_route::{
    CostModel, OpClass, OpCost, OpKind, PlacementPolicy, Reason, Work,
    correction::Corrections,
    curve::{Curve, Point},
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
        // SAFETY: `at` came from `alloc` above, which is the system's, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn curve(points: &[(u64, f64)]) -> Curve {
    Curve::try_from(points.iter().map(|(units, ns)| Point { units: *units, ns: *ns }).collect::<Vec<_>>())
        .unwrap()
}

/// A CPU at 1 ns per element.
fn cpu() -> CostModel {
    let mut model = CostModel::named("cpu");
    model.set(OpKind::Map, curve(&[(1, 50.0), (1 << 8, 256.0), (1 << 24, (1 << 24) as f64)]));
    model.byte_ns = Some(0.1);
    model
}

/// A device at a tenth of that, with 100 µs a submission and 0.02 ns a byte each way.
fn device() -> CostModel {
    let mut model = CostModel::named("gpu");
    model.set(OpKind::Map, curve(&[(1, 1e5), (1 << 20, 2e5), (1 << 24, 1.8e6)]));
    model.upload = Some(curve(&[(1, 1.0), (1 << 10, 20.0), (1 << 30, 2e7)]));
    model.download = model.upload.clone();
    model.launch_ns = 1e5;
    model
}

fn work(n: u64) -> Work {
    let cost =
        OpCost { units: n, flops: 2 * n, read: Bytes(8 * n), written: Bytes(4 * n), launches: 1, depth: 1 };
    Work {
        kind: OpKind::Map,
        cost,
        upload: Bytes(8 * n),
        download: Bytes(4 * n),
        input_readback: Bytes::ZERO,
        largest_buffer: Bytes(4 * n),
        splittable: false,
    }
}

fn candidate<'a>(model: &'a CostModel, corrections: &'a Corrections) -> Candidate<'a> {
    Candidate { model, corrections, usable: true, max_buffer: None, memory_budget: None }
}

const CLASS: OpClass = OpClass::of(OpKind::Map);

#[test]
fn small_work_runs_on_the_cpu_and_large_work_on_the_device() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let candidates = [candidate(&cpu, &none), candidate(&device, &none)];
    let small = route(&work(1000), CLASS, &candidates, PlacementPolicy::Fastest);
    assert_eq!(small.backend_id, 0);
    assert!(matches!(small.reason, Reason::Faster { factor } if factor > 10.0), "{small:?}");
    let large = route(&work(1 << 24), CLASS, &candidates, PlacementPolicy::Fastest);
    assert_eq!(large.backend_id, 1);
    assert!(large.calibrated && large.predicted_ns(1) < large.predicted_ns(0));
    // Resident inputs: no transfers, so smaller work pays.
    let resident =
        Work { upload: Bytes::ZERO, download: Bytes::ZERO, input_readback: Bytes(8 << 18), ..work(1 << 18) };
    assert_eq!(route(&resident, CLASS, &candidates, PlacementPolicy::Fastest).backend_id, 1);
    assert_eq!(route(&work(1 << 17), CLASS, &candidates, PlacementPolicy::Fastest).backend_id, 0);
}

#[test]
fn placement_policies_take_precedence() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let mut candidates = [candidate(&cpu, &none), candidate(&device, &none)];
    let at = |candidates: &[Candidate<'_>], placement| {
        let d = route(&work(1000), CLASS, candidates, placement);
        (d.backend_id, d.reason)
    };
    assert_eq!(at(&candidates, PlacementPolicy::Only(1)), (1, Reason::Requested));
    assert_eq!(at(&candidates, PlacementPolicy::Prefer(1)), (1, Reason::Preferred));
    candidates[1].usable = false;
    assert_eq!(
        at(&candidates, PlacementPolicy::Only(1)),
        (1, Reason::Requested),
        "an explicit request is never changed silently"
    );
    assert_eq!(at(&candidates, PlacementPolicy::Prefer(1)), (0, Reason::PreferredUnusable));
}

#[test]
fn work_beyond_device_limits_stays_on_the_cpu() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let n = 1 << 24;
    for (usable, max_buffer, memory_budget) in
        [(false, None, None), (true, Some(Bytes(4 * n - 1)), None), (true, None, Some(Bytes(12 * n - 1)))]
    {
        let gpu = Candidate { usable, max_buffer, memory_budget, ..candidate(&device, &none) };
        let d = route(&work(n), CLASS, &[candidate(&cpu, &none), gpu], PlacementPolicy::Fastest);
        assert_eq!(
            (d.backend_id, d.reason),
            (0, Reason::OthersCannot),
            "{usable} {max_buffer:?} {memory_budget:?}"
        );
        let cut = Work { splittable: true, ..work(n) };
        let d = route(&cut, CLASS, &[candidate(&cpu, &none), gpu], PlacementPolicy::Fastest);
        assert_eq!(d.backend_id, usize::from(usable), "in parts it fits");
    }
}

#[test]
fn uncalibrated_backends_are_reported() {
    let (cpu, empty, none) = (cpu(), CostModel::named("new"), Corrections::default());
    let d = route(
        &work(1000),
        CLASS,
        &[candidate(&cpu, &none), candidate(&empty, &none)],
        PlacementPolicy::Fastest,
    );
    assert_eq!((d.backend_id, d.reason, d.calibrated), (0, Reason::NotMeasured, false));
    assert_eq!(d.predicted_ns(1), None);
    let d = route(
        &work(1000),
        CLASS,
        &[candidate(&empty, &none), candidate(&empty, &none)],
        PlacementPolicy::Fastest,
    );
    assert_eq!((d.backend_id, d.reason), (0, Reason::NotMeasured));
    let d = route(&work(1000), CLASS, &[candidate(&cpu, &none)], PlacementPolicy::Fastest);
    assert_eq!((d.backend_id, d.reason), (0, Reason::Only));
    // A kind without a curve uses the roofline and is reported as not calibrated.
    let d =
        route(&work(1000), OpClass::of(OpKind::Gather), &[candidate(&cpu, &none)], PlacementPolicy::Fastest);
    assert!(!d.calibrated && d.predicted_ns(0).is_some());
    assert_eq!(
        route(&work(1), CLASS, &[], PlacementPolicy::Fastest).backend_id,
        0,
        "nothing at all does not panic"
    );
}

#[test]
fn online_corrections_change_a_decision() {
    let (cpu, device, none, corrected) = (cpu(), device(), Corrections::default(), Corrections::default());
    let before = route(
        &work(1 << 24),
        CLASS,
        &[candidate(&cpu, &none), candidate(&device, &corrected)],
        PlacementPolicy::Fastest,
    );
    assert_eq!(before.backend_id, 1);
    for _ in 0..5 {
        corrected.observe(CLASS, 1 << 24, before.model_ns(1).unwrap(), Duration::from_secs(1));
    }
    let after = route(
        &work(1 << 24),
        CLASS,
        &[candidate(&cpu, &none), candidate(&device, &corrected)],
        PlacementPolicy::Fastest,
    );
    assert_eq!(after.backend_id, 0, "{after:?}");
}

#[test]
fn a_decision_allocates_nothing() {
    let (cpu, device, none) = (cpu(), device(), Corrections::default());
    let candidates = [candidate(&cpu, &none), candidate(&device, &none)];
    let before = ALLOCATIONS.get();
    for n in 0..1000u64 {
        black_box(route(black_box(&work(n * n)), CLASS, &candidates, PlacementPolicy::Fastest));
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    drop(black_box(vec![1]));
    assert_eq!(ALLOCATIONS.get() - before, 1, "the counter counts");
}
