//! Properties of every row: causality, and bit-identical results whatever the block length, threads, SIMD level, batching,
//! order of the series, or other selected indicators.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::collections::HashMap;

use common::{Bars, Random, cases::draws, walk};
use gpuforge_indicators::{
    catalogue::{self, Indicator},
    exec::{ExecOptions, Series, Stream, run},
    kernel::Simd,
    select::{Instance, Selection, select},
};

/// Columns of one series.
type Columns = Vec<Vec<f64>>;

/// Every row with default parameters, and with one sample.
fn instances() -> Vec<Instance> {
    let each = |row: &'static Indicator| {
        draws(row, 1, 0).into_iter().map(|params| Instance::with(row, &params)).collect::<Vec<_>>()
    };
    catalogue::all().flat_map(each).collect()
}

/// The row of each column.
fn rows(instances: &[Instance]) -> HashMap<String, &'static Indicator> {
    instances.iter().flat_map(|i| i.columns().into_iter().map(|(_, name)| (name, i.row))).collect()
}

/// One thread, scalar.
fn one() -> ExecOptions {
    ExecOptions { threads: 1, simd: Simd::SCALAR, ..ExecOptions::default() }
}

/// The bits of a number; every NaN is the same.
fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// First difference of two results.
fn difference(names: &[String], got: &Columns, want: &Columns) -> Option<String> {
    names.iter().zip(got.iter().zip(want)).find_map(|(name, (got, want))| {
        if got.len() != want.len() {
            return Some(format!("{name}: {} bars instead of {}", got.len(), want.len()));
        }
        let at = got.iter().zip(want).position(|(g, w)| bits(*g) != bits(*w))?;
        Some(format!("{name}, bar {at}: {:e} instead of {:e}", got[at], want[at]))
    })
}

/// Series of different lengths: empty, one bar, shorter than most windows, longer than a block.
fn ragged() -> Vec<Bars> {
    let lengths = [700, 13, 421, 1, 650, 0, 333, 700, 7, 580, 64, 65, 1100, 512, 40, 300, 259];
    lengths.into_iter().zip(60..).map(|(n, seed)| walk(n, seed)).collect()
}

/// Expected results: each series by itself, on one thread, scalar.
struct Expected {
    selection: Selection,
    bars: Vec<Bars>,
    columns: Vec<Columns>,
}

impl Expected {
    fn new() -> Self {
        let (selection, bars) = (select(&instances()), ragged());
        let columns = bars.iter().map(|b| run(&selection.plan, &[b.series()], one()).remove(0)).collect();
        Expected { selection, bars, columns }
    }

    /// Runs these series in one batch and compares.
    fn check(&self, what: &str, which: &[usize], how: ExecOptions) {
        let series: Vec<Series<'_>> = which.iter().map(|i| self.bars[*i].series()).collect();
        let got = run(&self.selection.plan, &series, how);
        for (at, got) in which.iter().zip(&got) {
            if let Some(why) = difference(&self.selection.columns, got, &self.columns[*at]) {
                panic!("{what}: series {at}: {why}");
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_exec_options() {
    let expected = Expected::new();
    let all: Vec<usize> = (0..17).collect();
    for block in [1, 7, 64, 1000] {
        expected.check(&format!("blocks of {block}"), &all, ExecOptions { block: Some(block), ..one() });
        expected.check(
            &format!("one series in blocks of {block}"),
            &[12],
            ExecOptions { block: Some(block), ..one() },
        );
    }
    for simd in Simd::available() {
        expected.check(&format!("{simd:?}"), &all, ExecOptions { simd, ..one() });
        expected.check(&format!("one series, {simd:?}"), &[12], ExecOptions { simd, ..one() });
    }
    for batched in [Some(true), Some(false)] {
        let how = ExecOptions { batched, ..ExecOptions::default() };
        expected.check(&format!("batched: {batched:?}"), &all, how);
        expected.check(
            &format!("batched: {batched:?}, blocks"),
            &all,
            ExecOptions { block: Some(33), ..how },
        );
    }
    for (batched, block) in
        [(true, None), (true, Some(7)), (true, Some(64)), (false, None), (false, Some(48))]
    {
        let how = ExecOptions {
            batched: Some(batched),
            block,
            nontemporal_stores: Some(true),
            ..ExecOptions::default()
        };
        expected.check(&format!("non-temporal stores: {batched} {block:?}"), &all, how);
    }
    for threads in [1, 2, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let how = ExecOptions { threads, ..ExecOptions::default() };
        pool.install(|| expected.check(&format!("{threads} threads"), &all, how));
    }
    for several in [2, 8, 9, 17] {
        expected.check(&format!("{several} series"), &all[..several], ExecOptions::default());
    }
    let mut shuffled = all.clone();
    let mut r = Random(4);
    (1..shuffled.len()).rev().for_each(|i| shuffled.swap(i, (r.next() * (i + 1) as f64) as usize));
    expected.check("another order", &shuffled, ExecOptions::default());
    shuffled.reverse();
    expected.check("the order reversed", &shuffled, ExecOptions::default());
}

/// Streaming: a series in chunks, as from a file larger than memory.
#[test]
fn streaming_is_bit_identical() {
    let parts = |i: &Instance| select(std::slice::from_ref(i)).plan.supports_streaming();
    let instances: Vec<Instance> = instances().into_iter().filter(parts).collect();
    assert!(instances.iter().all(|i| i.row.causal));
    let selection = select(&instances);
    let bars = walk(900, 77);
    let want = run(&selection.plan, &[bars.series()], one()).remove(0);
    for part in [1, 7, 64, 333, 2000] {
        let mut stream = Stream::new(&selection.plan, ExecOptions { block: Some(50), ..one() });
        let mut got: Columns = vec![Vec::new(); selection.columns.len()];
        let mut from = 0;
        while from < bars.len() {
            let to = (from + part).min(bars.len());
            let some = bars.between(from, to);
            let mut chunk: Columns = vec![vec![0.0; to - from]; got.len()];
            stream.push(&some.series(), &mut chunk.iter_mut().map(Vec::as_mut_slice).collect());
            got.iter_mut().zip(chunk).for_each(|(column, more)| column.extend(more));
            from = to;
        }
        if let Some(why) = difference(&selection.columns, &got, &want) {
            panic!("parts of {part}: {why}");
        }
    }
}

#[test]
fn results_do_not_depend_on_other_selected_indicators() {
    let expected = Expected::new();
    let place: HashMap<&String, usize> = expected.selection.columns.iter().zip(0..).collect();
    for instance in instances() {
        let alone = select(&[instance]);
        for series in [0, 6, 12] {
            let got = run(&alone.plan, &[expected.bars[series].series()], one()).remove(0);
            let want: Columns =
                alone.columns.iter().map(|name| expected.columns[series][place[name]].clone()).collect();
            if let Some(why) = difference(&alone.columns, &got, &want) {
                panic!("alone: {why}");
            }
        }
    }
}

/// The flag is exact: causal rows never change when bars are appended, others do.
#[test]
fn only_non_causal_rows_look_ahead() {
    let instances = instances();
    let (selection, rows) = (select(&instances), rows(&instances));
    let mut changed: HashMap<&str, bool> =
        catalogue::all().filter(|r| !r.causal).map(|r| (r.name, false)).collect();
    for seed in [31, 32] {
        let bars = walk(900, seed);
        let whole = run(&selection.plan, &[bars.series()], one()).remove(0);
        for n in [1, 2, 37, 90, 150, 401, 640, 899] {
            let cut = bars.first(n);
            let early = run(&selection.plan, &[cut.series()], one()).remove(0);
            for (name, (early, whole)) in selection.columns.iter().zip(early.iter().zip(&whole)) {
                let row = rows[name];
                let differs = early.iter().zip(whole).position(|(e, w)| bits(*e) != bits(*w));
                match changed.get_mut(row.name) {
                    Some(seen) => *seen |= differs.is_some(),
                    None => assert!(differs.is_none(), "{name}: bar {differs:?} of {n} changed later"),
                }
            }
        }
    }
    let never: Vec<_> = changed.iter().filter(|(_, seen)| !**seen).collect();
    assert!(never.is_empty(), "said to look ahead, but never changed: {never:?}");
}

#[test]
fn rows_read_only_their_declared_inputs() {
    for instance in instances() {
        let row = instance.row;
        let plan = select(&[instance]).plan;
        for field in plan.fields() {
            assert!(row.inputs.contains(&field), "{} reads {field:?}", row.name);
        }
    }
}

/// `start` is exactly the first valid bar.
#[test]
fn columns_are_valid_from_their_start() {
    let instances = instances();
    let (selection, rows) = (select(&instances), rows(&instances));
    let bars = walk(2500, 8);
    let columns = run(&selection.plan, &[bars.series()], one()).remove(0);
    for ((name, column), start) in selection.columns.iter().zip(&columns).zip(selection.plan.starts()) {
        let early = column.iter().take(*start).position(|x| !x.is_nan());
        assert!(early.is_none(), "{name}: a value at {early:?}, before {start}");
        let first = column.get(*start).is_some_and(|x| !x.is_nan());
        let said = rows[name].doc.contains("NaN") || rows[name].doc.contains("no value");
        assert!(first || said, "{name}: no value at {start}");
    }
}
