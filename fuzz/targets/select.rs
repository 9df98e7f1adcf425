//! Fuzz target: the selection language. Lines before the last are definitions, the last is the selection: parsed, resolved,
//! planned and run over 50 bars, by the kernels and with the JIT, which must agree bit for bit.
#![no_main]

use gpuforge_indicators::{
    exec::{ExecOptions, Series, run},
    select::{Selector, plan},
};
use libfuzzer_sys::{Corpus, fuzz_target};

const BARS: usize = 50;
/// Columns that are planned, at most: the language is fuzzed here, not the size of a plan.
const MAX_COLUMNS: usize = 24;

/// Prices that rise, fall and stand still; `at` is which column.
fn column(at: usize) -> Vec<f64> {
    let price = |bar: usize| 100.0 + ((bar * 7 + at * 3) % 11) as f64 - (bar % 5) as f64 * 0.25;
    (0..BARS).map(price).collect()
}

fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else { return Corpus::Reject };
    let (definitions, selection) = text.rsplit_once('\n').unwrap_or(("", text));
    let mut selector = Selector::new();
    for definition in definitions.lines() {
        // An error is one of the results; what was defined before it can still be selected.
        let _ = selector.define(definition);
    }
    let Ok(items) = selector.select(selection) else { return Corpus::Keep };
    if items.len() > MAX_COLUMNS {
        return Corpus::Keep;
    }
    let names: usize = items.iter().map(|item| item.columns().len()).sum();
    let planned = plan(&items);
    assert!(planned.columns.len() <= names, "{} columns of {names} names", planned.columns.len());
    let [open, high, low, close, volume] = std::array::from_fn(column);
    let time: Vec<f64> = (0..BARS).map(|bar| 1.7e9 + bar as f64 * 60.0).collect();
    let series = Series { open: &open, high: &high, low: &low, close: &close, volume: &volume, time: &time };
    let options = ExecOptions { verify_jit: false, ..ExecOptions::with_threads(1) };
    let jit = run(&planned.plan, &[series], options);
    let kernels = run(&planned.plan, &[series], ExecOptions { jit: false, ..options });
    for ((name, jit), kernels) in
        planned.columns.iter().zip(jit.iter().flatten()).zip(kernels.iter().flatten())
    {
        let same = jit.len() == kernels.len() && jit.iter().zip(kernels).all(|(a, b)| bits(*a) == bits(*b));
        assert!(same, "column {name}: JIT {jit:?}\nkernels {kernels:?}");
    }
    Corpus::Keep
});
