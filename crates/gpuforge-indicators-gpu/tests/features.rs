//! Device-executor feature tables: equal to the CPU reference for all series; no download until requested; windows and batches
//! are correct; out of memory is an error with its size.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::sync::Arc;

use common::Bars;
use gpuforge_indicators::{
    catalogue,
    exec::Series,
    graph::{Graph, ValueId},
    select::{self, Instance, SelectItem, Selector},
};
use gpuforge_indicators_gpu::{
    features::{self, FeatureError, FeatureSpec, Features, HostRows, Normalise},
    gpu_executor::GpuExecSettings,
    placement,
};
use gpuforge_runtime::{
    engine::gpu::GpuOpener,
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    tensor::{Residency, Tensor},
    units::Bytes,
};
use gpuforge_testkit::adapter;

#[path = "../../gpuforge-indicators/tests/common/mod.rs"]
mod common;

/// Numbers agree if they are closer than this: of the column's scale, or of a standard deviation.
const CLOSE: f64 = 1e-4;

fn runner() -> Option<Arc<Runner>> {
    let budget = Budget { bytes: Bytes::mib(1024), origin: BudgetOrigin::User };
    let settings = RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(StackSettings::new(budget)) };
    let runner = Runner::new(Box::new(GpuOpener::default()), settings);
    adapter::or_skip(runner.warm())?;
    Some(Arc::new(runner))
}

/// A graph, its columns, and where they are computed.
struct Selected {
    graph: Graph,
    values: Vec<ValueId>,
    names: Vec<String>,
    on: Vec<bool>,
}

impl Selected {
    fn rows(names: &[&str]) -> Selected {
        let row = |name: &&str| SelectItem::from(Instance::of(catalogue::find(name).unwrap()));
        Selected::of(&names.iter().map(row).collect::<Vec<_>>())
    }

    fn of(wanted: &[SelectItem]) -> Selected {
        let (graph, values, names) = select::graph(wanted);
        let placed = placement::place_columns(&graph, &values, &names);
        let on = placed.iter().map(|p| p.on_device).collect();
        Selected { graph, values, names, on }
    }

    /// Columns by their expressions.
    fn expressions(all: &[&str]) -> Selected {
        let mut selector = Selector::new();
        all.iter().for_each(|text| selector.define(text).unwrap());
        Selected::of(&selector.defined().collect::<Vec<_>>())
    }

    /// Close, and a ratio that is nothing over nothing where there is no volume.
    fn with_holes() -> Selected {
        Selected::expressions(&["price = close", "ratio = volume / volume"])
    }

    fn spec<'a>(&'a self, normalise: &'a [Normalise]) -> FeatureSpec<'a> {
        FeatureSpec { graph: &self.graph, values: &self.values, normalise, on_device: &self.on }
    }
}

fn series(sets: &[Bars]) -> Vec<Series<'_>> {
    sets.iter().map(Bars::series).collect()
}

/// The largest magnitude of a column, for those that are not normalised.
fn scale(rows: &HostRows, column: usize) -> f64 {
    let of = rows.values.iter().skip(column).step_by(rows.columns);
    of.fold(1e-30, |m: f64, x| m.max(f64::from(x.abs())))
}

/// Device values against the CPU reference; a rank may be off by one where two bars are nearly equal.
fn compare(selected: &Selected, ways: &[Normalise], got: &HostRows, want: &HostRows) {
    assert_eq!((got.columns, got.valid.len()), (want.columns, want.valid.len()));
    assert_eq!(got.valid, want.valid);
    assert_eq!(got.values.len(), want.values.len());
    let mut wrong = Vec::new();
    for (column, way) in ways.iter().enumerate() {
        let unit = if *way == Normalise::None { scale(want, column) } else { 1.0 };
        let pairs = got.values.iter().zip(&want.values).skip(column).step_by(want.columns);
        let off: Vec<f64> = pairs.map(|(g, w)| f64::from((g - w).abs()) / unit).collect();
        let worst = off.iter().fold(0.0, |m: f64, x| m.max(*x));
        let over = off.iter().filter(|x| **x > CLOSE).count();
        let most = match way {
            Normalise::Rank(n) => (off.len() / 1000, 1.01 / (*n as f64 - 1.0)),
            _ => (0, CLOSE),
        };
        if over > most.0 || worst > most.1 {
            wrong.push(format!(
                "{} {way:?}: {over} of {} off, worst {worst:.1e}",
                selected.names[column],
                off.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Both ways, compared; the device's.
fn both(
    runner: &Arc<Runner>,
    selected: &Selected,
    ways: &[Normalise],
    sets: &[Bars],
    settings: GpuExecSettings,
) -> Features {
    let spec = selected.spec(ways);
    let device = Features::on_device(runner, &spec, &series(sets), settings).unwrap();
    let cpu = Features::on_cpu(&spec, &series(sets)).unwrap();
    assert_eq!(device.series_rows(), cpu.series_rows());
    assert_eq!((device.rows(), device.columns()), (cpu.rows(), cpu.columns()));
    compare(selected, ways, &device.to_host().unwrap(), &cpu.to_host().unwrap());
    device
}

/// The same bars with prices in quarters, which f64 holds: whether two of them are equal is then no matter of rounding.
fn quarters(mut bars: Bars) -> Bars {
    for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
        column.iter_mut().for_each(|x| *x = (*x * 100.0).round() * 0.25);
    }
    bars
}

fn ragged() -> Vec<Bars> {
    let sets = [
        common::walk(3000, 1),
        common::walk(7, 2),
        common::market(1777, 3),
        common::walk(0, 4),
        common::walk(333, 5),
    ];
    sets.into_iter().map(quarters).collect()
}

#[test]
fn shaders_are_valid() {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    for (name, text) in features::sources() {
        let module = naga::front::wgsl::parse_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
        validator.validate(&module).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn device_features_equal_the_cpu_reference() {
    let Some(runner) = runner() else { return };
    let one = Selected::rows(&["rsi"]);
    for way in [Normalise::None, Normalise::ZScore(20), Normalise::Rank(50), Normalise::ZScore(1)] {
        both(&runner, &one, &[way], &ragged(), GpuExecSettings::default());
    }
    let some =
        Selected::rows(&["sma", "ema", "rsi", "atr", "macd", "bbands", "obv", "roc", "stddev", "cdldoji"]);
    let ways: Vec<Normalise> = (0..some.values.len())
        .map(|at| [Normalise::None, Normalise::ZScore(60), Normalise::Rank(100)][at % 3])
        .collect();
    let features = both(&runner, &some, &ways, &ragged(), GpuExecSettings::default());
    let start = features.series_rows()[0].first_bar;
    let whose: Vec<(usize, usize)> =
        features.series_rows().iter().map(|s| (s.series, s.rows.len())).collect();
    assert_eq!(whose, [(0, 3000 - start), (2, 1777 - start), (4, 333 - start)]);
    assert_eq!(features.chunks().len(), 1);
    // Long windows: an invocation has time for one column only.
    both(
        &runner,
        &one,
        &[Normalise::ZScore(features::MAX_BARS)],
        &[common::walk(4300, 8)],
        GpuExecSettings::default(),
    );
    both(&runner, &one, &[Normalise::Rank(2000)], &[common::walk(4300, 8)], GpuExecSettings::default());
}

/// The first hundred columns of the catalogue, including CPU-only ones.
fn hundred() -> Selected {
    let mut wanted: Vec<SelectItem> = Vec::new();
    let mut columns = 0;
    for row in catalogue::all() {
        let next = SelectItem::from(Instance::of(row));
        columns += next.columns().len();
        wanted.push(next);
        if columns >= 100 {
            break;
        }
    }
    Selected::of(&wanted)
}

#[test]
fn a_hundred_columns() {
    let Some(runner) = runner() else { return };
    let selected = hundred();
    assert!(selected.values.len() >= 100);
    let ways = vec![Normalise::None; selected.values.len()];
    both(&runner, &selected, &ways, &ragged(), GpuExecSettings::default());
}

#[test]
fn cpu_columns_are_part_of_the_upload() {
    let Some(runner) = runner() else { return };
    let mut selected = Selected::rows(&["rsi", "sma", "roc"]);
    selected.on[1] = false;
    let ways = [Normalise::ZScore(30), Normalise::ZScore(30), Normalise::None];
    let features = both(&runner, &selected, &ways, &ragged(), GpuExecSettings::default());
    assert_eq!(features.stats().uploads, 1);
    selected.on = vec![false; 3];
    let none =
        Features::on_device(&runner, &selected.spec(&ways), &series(&ragged()), GpuExecSettings::default());
    assert!(matches!(none.err(), Some(FeatureError::Unsupported)));
}

#[test]
fn flat_and_short_series() {
    let Some(runner) = runner() else { return };
    let selected = Selected::rows(&["sma", "ema", "macd"]);
    let count = selected.values.len();
    for (way, value) in [(Normalise::ZScore(20), 0.0), (Normalise::Rank(20), 0.5)] {
        let features =
            both(&runner, &selected, &vec![way; count], &[common::flat(200)], GpuExecSettings::default());
        assert!(features.rows() > 0);
        assert!(features.to_host().unwrap().values.iter().all(|x| *x == value));
    }
    let ways = vec![Normalise::Rank(20); count];
    let features = both(
        &runner,
        &selected,
        &ways,
        &[common::walk(20, 1), common::walk(0, 1)],
        GpuExecSettings::default(),
    );
    assert_eq!((features.rows(), features.chunks().len(), features.series_rows().len()), (0, 0, 0));
    let windows = features.windows(3).unwrap();
    assert_eq!((windows.capacity(), windows.index_ranges().unwrap().len()), (0, 0));
    assert!(matches!(features.gather(3, &[0]), Err(FeatureError::NoWindow { row: 0, .. })));
    // One row exactly.
    let start = selected.spec(&ways).values.iter().map(|v| selected.graph.start(*v)).max().unwrap() + 19;
    let features = both(&runner, &selected, &ways, &[common::walk(start + 1, 1)], GpuExecSettings::default());
    assert_eq!(features.rows(), 1);
}

#[test]
fn nothing_is_downloaded_until_requested() {
    let Some(runner) = runner() else { return };
    let selected = Selected::rows(&["rsi", "macd", "atr"]);
    let ways = vec![Normalise::ZScore(50); selected.values.len()];
    let features =
        Features::on_device(&runner, &selected.spec(&ways), &series(&ragged()), GpuExecSettings::default())
            .unwrap();
    let stats = features.stats();
    assert_eq!((stats.batches, stats.uploads, stats.downloads), (1, 1, 0));
    assert_eq!(stats.downloaded, Bytes::ZERO);
    let uploaded = runner.stats().uploaded;
    assert_eq!(stats.uploaded, uploaded);
    let windows = features.windows(16).unwrap();
    // First rows of the series, and the last: four words.
    assert_eq!(runner.stats().uploaded, uploaded + Bytes(16));
    let samples = windows.gather(&[0, 5, windows.capacity() - 1]).unwrap();
    assert_eq!(runner.stats().uploaded, uploaded + Bytes(16 + 3 * 8));
    assert_eq!(runner.stats().downloaded, Bytes::ZERO);
    for tensor in [&features.chunks()[0].values, &features.chunks()[0].valid, &samples.values, &samples.valid]
    {
        assert_eq!(tensor.residency(), Residency::Device);
    }
    assert_eq!(samples.values.spec().shape, [3, 16, selected.values.len()]);
    // One number tells how many windows there are, and only once.
    for _ in 0..2 {
        let places = windows.index_ranges().unwrap();
        assert!(places.len() == 1 && places[0] == (0..windows.capacity()), "{places:?}");
    }
    assert_eq!(runner.stats().downloaded, Bytes(4));
    features.to_host().unwrap();
    let bytes = 4 * features.rows() * (1 + selected.values.len());
    assert_eq!(runner.stats().downloaded, Bytes(4 + bytes as u64));
}

/// Walks of which some bars have no volume.
fn holes() -> Vec<Bars> {
    let mut sets = vec![common::walk(500, 1), common::walk(40, 2), common::walk(5, 3), common::walk(900, 4)];
    for (at, bars) in sets.iter_mut().enumerate() {
        bars.volume
            .iter_mut()
            .enumerate()
            .for_each(|(t, v)| *v = if t % 61 == 10 * at { 0.0 } else { 7.0 + t as f64 });
    }
    sets
}

#[test]
fn invalid_rows_are_masked_and_in_no_window() {
    let Some(runner) = runner() else { return };
    let selected = Selected::with_holes();
    for ways in [[Normalise::None; 2], [Normalise::ZScore(10), Normalise::Rank(10)]] {
        let features = both(&runner, &selected, &ways, &holes(), GpuExecSettings::default());
        let cpu = Features::on_cpu(&selected.spec(&ways), &series(&holes())).unwrap();
        let rows = features.to_host().unwrap();
        let bad = rows.valid.iter().filter(|v| **v == 0.0).count();
        assert!(bad > 10 && bad < rows.valid.len() / 20, "{bad}");
        for (row, valid) in rows.values.chunks(2).zip(&rows.valid) {
            assert!(row.iter().all(|x| x.is_finite()) && (*valid == 1.0 || row == [0.0, 0.0]));
        }
        for len in [1, 2, 7, 60, 61, 400] {
            let (there, here) = (features.windows(len).unwrap(), cpu.windows(len).unwrap());
            assert_eq!(there.index_ranges().unwrap(), here.index_ranges().unwrap());
            let tables: Vec<Vec<u8>> = [(&features, &there), (&cpu, &here)]
                .map(|(f, w)| bytemuck::cast_slice(&f.fetch::<u32>(&w.ends()[0].table).unwrap()).to_vec())
                .to_vec();
            assert_eq!(tables[0], tables[1], "{len}");
            // By hand.
            let ends: Vec<usize> = features
                .series_rows()
                .iter()
                .flat_map(|s| s.rows.clone().skip(len - 1))
                .filter(|end| rows.valid[end + 1 - len..=*end].iter().all(|v| *v == 1.0))
                .collect();
            let table: Vec<u32> = bytemuck::pod_collect_to_vec(&tables[0]);
            assert!(ends.iter().map(|e| *e as u32).eq(table[..ends.len()].iter().copied()), "{len}");
            assert!(table[ends.len()..].iter().all(|e| *e == u32::MAX));
            assert_eq!(table.len(), there.capacity());
        }
    }
}

/// A window as it must be.
fn window(rows: &HostRows, end: usize, len: usize) -> &[f32] {
    &rows.values[(end + 1 - len) * rows.columns..(end + 1) * rows.columns]
}

/// Small enough for several chunks.
fn small() -> GpuExecSettings {
    GpuExecSettings { memory: Bytes::kib(300), largest: Bytes::kib(128), ..GpuExecSettings::default() }
}

#[test]
fn batches_do_not_depend_on_chunking() {
    let Some(runner) = runner() else { return };
    let selected = Selected::with_holes();
    let ways = [Normalise::None; 2];
    let mut sets = holes();
    sets.extend((0..12).map(|at| common::walk(1000 + at, 50 + at as u64)));
    let settings = GpuExecSettings { memory: Bytes::kib(200), ..GpuExecSettings::default() };
    let spec = selected.spec(&ways);
    let several = Features::on_device(&runner, &spec, &series(&sets), settings).unwrap();
    assert!(several.chunks().len() > 2, "{}", several.chunks().len());
    assert_eq!(several.stats().batches, several.chunks().len() as u64);
    let one = Features::on_device(&runner, &spec, &series(&sets), GpuExecSettings::default()).unwrap();
    assert_eq!((one.chunks().len(), one.series_rows()), (1, several.series_rows()));
    assert_eq!(one.to_host().unwrap(), several.to_host().unwrap());
    for features in [several, Features::on_cpu(&spec, &series(&sets)).unwrap()] {
        let floats = |tensor: &Tensor| features.fetch::<f32>(tensor).unwrap();
        let rows = features.to_host().unwrap();
        let len = 9;
        // By rows: the first and last window of each series, and over a hole.
        let ends: Vec<usize> = features
            .series_rows()
            .iter()
            .filter(|s| s.rows.len() >= len)
            .flat_map(|s| [s.rows.end - 1, s.rows.start + len - 1, (s.rows.start + s.rows.end) / 2])
            .rev()
            .collect();
        let samples = features.gather(len, &ends).unwrap();
        assert_eq!(samples.values.spec().shape, [ends.len(), len, 2]);
        let (values, valid) = (floats(&samples.values), floats(&samples.valid));
        for ((end, got), valid) in ends.iter().zip(values.chunks(2 * len)).zip(&valid) {
            assert_eq!(got, window(&rows, *end, len));
            let whole = rows.valid[end + 1 - len..=*end].iter().all(|v| *v == 1.0);
            assert_eq!(*valid, f32::from(whole));
        }
        assert!(valid.contains(&0.0) && valid.contains(&1.0));
        // By places: every one, and past the last of a chunk.
        let windows = features.windows(len).unwrap();
        let all: Vec<usize> = (0..windows.capacity()).collect();
        let samples = windows.gather(&all).unwrap();
        let (values, valid) = (floats(&samples.values), floats(&samples.valid));
        let good = windows.index_ranges().unwrap();
        let mut ends = windows.ends().iter().zip(features.chunks()).flat_map(|(e, c)| {
            let table: Vec<u32> = features.fetch(&e.table).unwrap();
            let start = c.rows.start;
            table.into_iter().map(move |r| (r != u32::MAX).then(|| start + r as usize))
        });
        for (place, (got, valid)) in values.chunks(2 * len).zip(&valid).enumerate() {
            let end = ends.next().unwrap();
            assert_eq!(end.is_some(), good.iter().any(|r| r.contains(&place)));
            match end {
                Some(end) => assert_eq!((got, *valid), (window(&rows, end, len), 1.0)),
                None => assert!(*valid == 0.0 && got.iter().all(|x| *x == 0.0)),
            }
        }
        assert!(ends.next().is_none());
        assert!(good.iter().map(|r| r.len()).sum::<usize>() < windows.capacity());
    }
}

#[test]
fn oversized_arena_is_built_in_parts() {
    let Some(runner) = runner() else { return };
    let selected = Selected::rows(&[
        "sma", "ema", "rsi", "atr", "macd", "bbands", "obv", "roc", "stddev", "adx", "stoch",
    ]);
    let ways: Vec<Normalise> =
        (0..selected.values.len()).map(|at| [Normalise::ZScore(40), Normalise::None][at % 2]).collect();
    let sets = [quarters(common::walk(1500, 1)), quarters(common::walk(900, 2))];
    let settings =
        GpuExecSettings { memory: Bytes::kib(420), largest: Bytes::kib(130), ..GpuExecSettings::default() };
    let features = both(&runner, &selected, &ways, &sets, settings);
    assert!(features.stats().batches > features.chunks().len() as u64, "{:?}", features.stats().batches);
    assert_eq!(features.stats().downloads, 0);
    assert!(features.stats().pipelines.contains("features-join-more"));
}

#[test]
fn features_survive_device_loss() {
    let Some(runner) = runner() else { return };
    let selected = Selected::rows(&["rsi", "ema"]);
    let ways = [Normalise::ZScore(20), Normalise::Rank(20)];
    let make = || {
        Features::on_device(&runner, &selected.spec(&ways), &series(&ragged()), GpuExecSettings::default())
    };
    let (kept, lost) = (make().unwrap(), make().unwrap());
    let want = kept.gather(5, &[100, 200, 300]).unwrap();
    let want: Vec<f32> = kept.fetch(&want.values).unwrap();
    let windows = lost.windows(5).unwrap();
    runner.reset();
    // Both the rows and the table are made again.
    let again = windows.gather(&[96, 196, 296]).unwrap();
    assert_eq!(lost.fetch::<f32>(&again.values).unwrap(), want);
}

#[test]
fn rows_are_causal() {
    let selected = Selected::rows(&["rsi", "ema", "bbands"]);
    let ways = vec![Normalise::ZScore(30); selected.values.len()];
    let bars = common::walk(800, 9);
    let all = Features::on_cpu(&selected.spec(&ways), &[bars.series()]).unwrap().to_host().unwrap();
    for n in [200, 431, 799] {
        let first = bars.first(n);
        let some = Features::on_cpu(&selected.spec(&ways), &[first.series()]).unwrap().to_host().unwrap();
        assert!(!some.values.is_empty());
        assert_eq!(some.values, all.values[..some.values.len()]);
    }
}

#[test]
fn values_computed_by_hand() {
    let selected = Selected::expressions(&["a = close", "b = close + 0", "c = 1 * close"]);
    let ways = [Normalise::None, Normalise::ZScore(4), Normalise::Rank(4)];
    let mut bars = common::walk(7, 1);
    bars.close = vec![1.0, 2.0, 3.0, 4.0, 4.0, 0.0, f64::NAN];
    for column in [&mut bars.open, &mut bars.high, &mut bars.low] {
        column.clone_from(&bars.close);
    }
    let rows = Features::on_cpu(&selected.spec(&ways), &[bars.series()]).unwrap();
    assert_eq!(rows.series_rows()[0].first_bar, 3);
    let rows = rows.to_host().unwrap();
    assert_eq!(rows.valid, [1.0, 1.0, 1.0, 0.0]);
    let third = |k: usize| rows.values.iter().skip(k).step_by(3).copied().collect::<Vec<f32>>();
    assert_eq!(third(0), [4.0, 4.0, 0.0, 0.0]);
    // Means 2.5, 3.25, 2.75; variances 1.25, 0.6875, 2.6875.
    let z = [1.5 / 1.25f32.sqrt(), 0.75 / 0.6875f32.sqrt(), -2.75 / 2.6875f32.sqrt(), 0.0];
    assert!(third(1).iter().zip(z).all(|(a, b)| (a - b).abs() < 1e-6), "{:?}", third(1));
    assert_eq!(third(2), [1.0, 2.5 / 3.0, 0.0, 0.0]);
    if let Some(runner) = runner() {
        both(&runner, &selected, &ways, &[bars], GpuExecSettings::default());
    }
}

#[test]
fn invalid_requests_are_rejected() {
    let Some(runner) = runner() else { return };
    let selected = Selected::rows(&["rsi", "ema"]);
    let sets = ragged();
    let make = |ways: &[Normalise], settings: GpuExecSettings| {
        Features::on_device(&runner, &selected.spec(ways), &series(&sets), settings)
    };
    let error = |ways: &[Normalise]| make(ways, GpuExecSettings::default()).err().unwrap();
    let none = Normalise::None;
    assert!(matches!(error(&[none]), FeatureError::Uneven { columns: 2, normalisations: 1, on: 2 }));
    assert!(matches!(error(&[none, Normalise::ZScore(0)]), FeatureError::Bars { bars: 0 }));
    assert!(matches!(error(&[none, Normalise::Rank(4097)]), FeatureError::Bars { bars: 4097 }));
    let empty = FeatureSpec { graph: &selected.graph, values: &[], normalise: &[], on_device: &[] };
    assert!(matches!(Features::on_cpu(&empty, &[]).err(), Some(FeatureError::Columns { columns: 0 })));
    // Too large: the error names both sizes.
    let tight = GpuExecSettings { largest: Bytes::kib(16), ..GpuExecSettings::default() };
    let text = make(&[none; 2], tight).err().unwrap().to_string();
    assert!(text.contains("3000 bars with 2 columns") && text.contains("16 KiB"), "{text}");
    assert!(make(&[none; 2], small()).is_ok());
    // Windows that are not there.
    let features = make(&[none; 2], GpuExecSettings::default()).unwrap();
    for len in [0, features::MAX_BARS + 1] {
        assert!(matches!(features.windows(len).err(), Some(FeatureError::Bars { .. })));
        assert!(matches!(features.gather(len, &[5]), Err(FeatureError::Bars { .. })));
    }
    let second = features.series_rows()[1].rows.start;
    for row in [3, second + 3, features.rows()] {
        assert!(matches!(features.gather(5, &[4, row]), Err(FeatureError::NoWindow { .. })), "{row}");
    }
    assert!(features.gather(5, &[4, second + 4, features.rows() - 1]).is_ok());
    let windows = features.windows(5).unwrap();
    assert!(matches!(windows.gather(&[windows.capacity()]), Err(FeatureError::NoWindow { .. })));
    let nothing = windows.gather(&[]).unwrap();
    assert_eq!(nothing.values.spec().shape, [0, 5, 2]);
    // A batch is one buffer too.
    let tight = GpuExecSettings { largest: Bytes::kib(128), ..GpuExecSettings::default() };
    let features = make(&[none; 2], tight).unwrap();
    let rows = vec![2000; 200];
    let text = features.gather(100, &rows).err().unwrap().to_string();
    assert!(text.contains("200 windows of 100 rows") && text.contains("156.2 KiB"), "{text}");
}
