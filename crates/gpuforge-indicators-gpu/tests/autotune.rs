//! Fusion and autotuned variants: identical results, less memory traffic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::{sync::Arc, time::Duration};

use gpuforge_indicators::{
    catalogue::{self, IndicatorKind},
    exec::Series,
    graph::Field,
    select::{self, Instance, SelectItem, Selector},
};
use gpuforge_indicators_gpu::{
    autotune,
    encoding::OffsetScale,
    layout::SegmentLayout,
    lower::{self, Fusion, UploadSource},
    record::Program,
};
use gpuforge_runtime::{
    engine::gpu::GpuOpener,
    memory::{Budget, BudgetOrigin, StackSettings},
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::adapter;

#[path = "../../gpuforge-indicators/tests/common/mod.rs"]
mod common;

const DEADLINE: Duration = Duration::from_secs(120);

fn session() -> Option<Session> {
    let memory = StackSettings::new(Budget { bytes: Bytes::mib(1024), origin: BudgetOrigin::User });
    let engine = adapter::open_or_skip(&GpuOpener::default())?;
    Some(Session::new(Arc::new(engine), memory))
}

/// A variant of a program.
struct Variant {
    fusion: Fusion,
    workgroup_size: u32,
    segment_log2: u32,
    slice_factor: u32,
}

const USUAL: Variant =
    Variant { fusion: Fusion::Fused, workgroup_size: 64, segment_log2: 7, slice_factor: 1 };

/// Results as they lie on the device, series by series.
fn results(session: &Session, wanted: &[SelectItem], series: &[Series<'_>], how: &Variant) -> Vec<Vec<f64>> {
    let (graph, values, _) = select::graph(wanted);
    let on = lower::fits(&graph, &values);
    let lowered = lower::lower_with(&graph, &values, &on, how.fusion).unwrap();
    let bars: Vec<usize> = series.iter().map(|s| s.close.len()).collect();
    let layout = SegmentLayout::new(&bars, how.segment_log2);
    let words = layout.words();
    let scales: Vec<OffsetScale> =
        series.iter().map(|s| OffsetScale::of(&[s.close, s.open, s.high, s.low])).collect();
    let mut columns = vec![0u32; lowered.uploads.len() * words];
    for (given, column) in lowered.uploads.iter().zip(columns.chunks_mut(words)) {
        let UploadSource::Field(field) = given else { panic!("{given:?}") };
        for (at, one) in series.iter().enumerate() {
            let price = !matches!(field, Field::Volume | Field::Time);
            let scale = scales[at];
            layout.scatter(at, one.field(*field), |x| if price { scale.encode(x) } else { x }, column);
        }
    }
    let outputs = lowered.results;
    let mut program = Program::new(lowered, how.workgroup_size);
    program.slice_factor = how.slice_factor;
    let (mut plan, arena) = program.record(&layout, &scales, &columns).unwrap();
    plan.download_first(arena, Bytes(program.download_bytes(words))).unwrap();
    let bytes = session.run(&Arc::new(plan), DEADLINE).unwrap().outputs.remove(0);
    let floats: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes);
    let mut found = Vec::new();
    for (output, at) in (0..outputs).flat_map(|o| (0..bars.len()).map(move |at| (o, at))) {
        let mut values = vec![0.0; bars[at]];
        // Before the first value columns hold anything.
        layout.gather(at, &floats[output * words..], |x| x, 150, &mut values);
        found.push(values);
    }
    found
}

fn same(a: &[Vec<f64>], b: &[Vec<f64>], what: &str) {
    assert_eq!(a.len(), b.len());
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let scale = a.iter().filter(|x| x.is_finite()).fold(1e-30, |m: f64, x| m.max(x.abs()));
        let far = |(x, y): (&f64, &f64)| x.is_nan() != y.is_nan() || (x - y).abs() > 1e-5 * scale;
        let first = a.iter().zip(b).position(far);
        assert_eq!(first, None, "{what}: column {at}: {:?}", first.map(|t| (a[t], b[t])));
    }
}

#[test]
fn fusion_and_variants_do_not_change_results() {
    let Some(session) = session() else { return };
    let wanted =
        Selector::new().select("typprice, bop, macd, bbands, sma(20), sma(3), ema(50), atr(14), roc(10)");
    let wanted = wanted.unwrap();
    let sets = [common::walk(1500, 1), common::market(700, 2), common::walk(1203, 3)];
    let series: Vec<Series<'_>> = sets.iter().map(|b| b.series()).collect();
    let usual = results(&session, &wanted, &series, &USUAL);
    same(
        &usual,
        &results(&session, &wanted, &series, &Variant { fusion: Fusion::Unfused, ..USUAL }),
        "unfused",
    );
    same(&usual, &results(&session, &wanted, &series, &Variant { workgroup_size: 256, ..USUAL }), "wide");
    same(
        &usual,
        &results(&session, &wanted, &series, &Variant { slice_factor: 4, segment_log2: 9, ..USUAL }),
        "slices",
    );
    for segment_log2 in [5, 6, 10] {
        same(
            &usual,
            &results(&session, &wanted, &series, &Variant { segment_log2, ..USUAL }),
            "segment_log2",
        );
    }
}

#[test]
fn fused_plan_moves_less_than_half_of_the_bytes() {
    let all: Vec<SelectItem> = catalogue::all().map(|row| SelectItem::from(Instance::of(row))).collect();
    let candles = catalogue::all().filter(|row| row.kind == IndicatorKind::Candlestick);
    let candles: Vec<SelectItem> = candles.map(|row| SelectItem::from(Instance::of(row))).collect();
    for wanted in [all, candles] {
        let (graph, values, _) = select::graph(&wanted);
        let on = lower::fits(&graph, &values);
        let traffic = |fusion| lower::lower_with(&graph, &values, &on, fusion).unwrap().traffic();
        let (fused, unfused) = (traffic(Fusion::Fused), traffic(Fusion::Unfused));
        println!("columns read and written: {fused} fused, {unfused} unfused");
        assert!(2 * fused <= unfused, "{fused} of {unfused}");
    }
}

#[test]
fn adapter_runs_every_variant() {
    let Some(session) = session() else { return };
    let tuned = autotune::autotune(|plan| {
        let done = session.run(plan, DEADLINE).ok()?;
        Some(done.device_time.unwrap_or(Duration::from_millis(1)))
    });
    let tuned = tuned.unwrap();
    println!("{tuned:?}");
    assert!(tuned.trials.iter().all(|t| t.time.is_some()), "{tuned:?}");
}
