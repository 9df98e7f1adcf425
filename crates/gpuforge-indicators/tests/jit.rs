//! JIT against kernels: bit-identical for every indicator, single series and batched, and for random formulas.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{Bars, walk};
use gpuforge_indicators::{
    catalogue,
    exec::{ExecOptions, JitStats, JitSwitch, Series, jit_fallbacks, run},
    select::{Instance, SelectItem, Selection, Selector, plan, select},
};

fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// Bars with NaN, flat segments and zero volume.
fn irregular(n: usize, seed: u64) -> Bars {
    let mut bars = walk(n, seed);
    for at in (37..n).step_by(211) {
        bars.close[at] = f64::NAN;
        bars.volume[at / 2] = 0.0;
    }
    for at in n / 3..n / 3 + n / 10 {
        (bars.open[at], bars.high[at], bars.low[at], bars.close[at]) = (10.0, 10.0, 10.0, 10.0);
    }
    bars
}

/// Has this target a JIT backend, and is it not switched off?
fn is_compiled_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    let supported = is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let supported = cfg!(target_arch = "aarch64");
    supported && JitSwitch::from_env() != JitSwitch::Off
}

/// Fails where nothing was compiled: a comparison of kernels with kernels shows nothing.
#[track_caller]
fn require_compiled(stats: &JitStats) {
    assert_eq!(stats.loops > 0 && stats.code_bytes > 0, is_compiled_here(), "{stats:?}");
    assert_eq!(jit_fallbacks().count, 0, "{:?}", jit_fallbacks().reasons);
}

/// The first mismatch, in words.
fn mismatch(selection: &Selection, bars: &[Bars], options: ExecOptions) -> Option<String> {
    let series: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let kernels = run(&selection.plan, &series, ExecOptions { jit: false, ..options });
    let jit = run(&selection.plan, &series, ExecOptions { jit: true, ..options });
    for (s, (want, got)) in kernels.iter().zip(&jit).enumerate() {
        for (name, (want, got)) in selection.columns.iter().zip(want.iter().zip(got)) {
            let at = want.iter().zip(got).position(|(w, g)| bits(*w) != bits(*g));
            if let Some(at) = at {
                return Some(format!(
                    "{name}, series {s}, bar {at}: {:e} instead of {:e}",
                    got[at], want[at]
                ));
            }
        }
    }
    None
}

/// Every combination of batching, block length and store mode.
fn exec_options() -> Vec<ExecOptions> {
    let mut all = Vec::new();
    for batched in [Some(false), Some(true)] {
        for (block, nontemporal) in
            [(None, false), (None, true), (Some(8), false), (Some(13), true), (Some(77), false)]
        {
            all.push(ExecOptions {
                threads: 1,
                batched,
                block,
                nontemporal_stores: Some(nontemporal),
                ..ExecOptions::default()
            });
        }
    }
    all
}

#[test]
fn every_indicator_by_itself_is_bit_identical() {
    let bars: Vec<Bars> =
        (0..8).map(|i| if i % 3 == 2 { irregular(900, i) } else { walk(900 - 7 * i as usize, i) }).collect();
    let (mut wrong, mut compiled) = (Vec::new(), 0);
    for row in catalogue::all() {
        let selection = select(&[Instance::of(row)]);
        for options in exec_options() {
            if let Some(why) = mismatch(&selection, &bars, options) {
                wrong.push(format!("{} ({options:?}): {why}", row.name));
                break;
            }
        }
        compiled += usize::from(selection.plan.jit_stats().loops > 0);
    }
    // Rolling moments, ranks and cyclic indicators are kernels; everything else has at least one fused loop.
    let most = catalogue::all().count() * 3 / 4;
    assert_eq!(
        compiled >= most,
        is_compiled_here(),
        "{compiled} of at least {most} indicators were compiled"
    );
    assert!(wrong.is_empty(), "{} indicators differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn all_indicators_in_one_plan_are_bit_identical() {
    let bars: Vec<Bars> =
        (0..9).map(|i| if i % 3 == 2 { irregular(1500, i) } else { walk(1500, i) }).collect();
    let instances: Vec<Instance> = catalogue::all().map(Instance::of).collect();
    let selection = select(&instances);
    for options in exec_options() {
        if let Some(why) = mismatch(&selection, &bars, options) {
            panic!("{options:?}: {why}");
        }
    }
    require_compiled(&selection.plan.jit_stats());
}

#[test]
fn stats_say_what_was_compiled_and_why_the_rest_was_not() {
    let bars: Vec<Bars> = (0..8).map(|i| walk(600, i)).collect();
    let series: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let of = |name: &str| select(&[Instance::of(catalogue::find(name).unwrap())]);
    let macd = of("macd");
    assert_eq!(macd.plan.jit_stats(), JitStats::default(), "nothing is compiled before the first run");
    run(&macd.plan, &series, ExecOptions { jit: false, ..one() });
    assert_eq!(macd.plan.jit_stats(), JitStats::default(), "nor by the kernels");
    run(&macd.plan, &series, ExecOptions { batched: Some(true), ..one() });
    let batched = macd.plan.jit_stats();
    require_compiled(&batched);
    run(&macd.plan, &series, ExecOptions { batched: Some(false), ..one() });
    let both = macd.plan.jit_stats();
    assert_eq!(both.loops > batched.loops, is_compiled_here(), "{both:?}");
    if !is_compiled_here() {
        assert!(!both.reasons.is_empty(), "it has to say why not");
    }
    let kernels = of("correl");
    run(&kernels.plan, &series, one());
    let stats = kernels.plan.jit_stats();
    assert!(stats.loops > 0 || !stats.reasons.is_empty(), "{stats:?}");
}

/// One series, long enough for time-parallel chunks, with and without a NaN that stays in recurrences.
#[test]
fn time_parallel_chunks_are_bit_identical_to_one_series() {
    let clean = walk(60_000, 5);
    let mut with_nan = walk(60_000, 6);
    with_nan.close[31_000] = f64::NAN;
    let (single, parallel) =
        (ExecOptions { batched: Some(false), ..one() }, ExecOptions { batched: Some(true), ..one() });
    let mut wrong = Vec::new();
    for row in catalogue::all() {
        let selection = select(&[Instance::of(row)]);
        for bars in [&clean, &with_nan] {
            let want = run(&selection.plan, &[bars.series()], single).remove(0);
            let got = run(&selection.plan, &[bars.series()], parallel).remove(0);
            let differ =
                want.iter().zip(&got).any(|(w, g)| w.iter().zip(g).any(|(w, g)| bits(*w) != bits(*g)));
            if differ {
                wrong.push(row.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn one() -> ExecOptions {
    ExecOptions { threads: 1, ..ExecOptions::default() }
}

/// A random formula with more live values than registers.
fn formula(random: &mut impl FnMut(usize) -> usize, depth: usize) -> String {
    // Constants alone are no source.
    let leaf = ["close", "open", "high", "low", "volume", "(close * 3)", "(open + 0.5)", "(low - 7)"];
    if depth == 0 {
        return leaf[random(leaf.len())].to_owned();
    }
    let mut part = |d: usize| formula(random, d);
    let (a, b) = (part(depth - 1), part(depth - 1));
    match random(10) {
        0 => format!("ema({a} + {b}, {})", 2 + random(6)),
        1 => format!("sma({a} - {b}, {})", 2 + random(6)),
        2 => format!("mom({a} * {b}, {})", 1 + random(4)),
        3 => format!("floor({a} / {b})"),
        4 => format!("sqrt({a} * {b})"),
        5 => format!("({a} / {b})"),
        6 => format!("({a} * {b})"),
        7 => format!("({a} - {b})"),
        _ => format!("({a} + {b})"),
    }
}

#[test]
fn formulas_that_spill_registers_are_bit_identical() {
    let bars: Vec<Bars> = (0..8).map(|i| irregular(700, 40 + i)).collect();
    let mut state = 7u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for round in 0..60 {
        let mut selector = Selector::new();
        for k in 0..1 + round % 4 {
            selector.define(&format!("f{k} = {}", formula(&mut random, 2 + round % 5))).unwrap();
        }
        let wanted: Vec<SelectItem> = selector.defined().collect();
        let selection = plan(&wanted);
        for options in exec_options() {
            if let Some(why) = mismatch(&selection, &bars, options) {
                panic!("{options:?}: {why}\n{wanted:?}");
            }
        }
        require_compiled(&selection.plan.jit_stats());
    }
}

/// `cargo test --release -p gpuforge-indicators --test jit -- --ignored compile_time --nocapture`
#[test]
#[ignore = "a measurement"]
fn compile_time_of_classic111() {
    let bars: Vec<Bars> = (0..8).map(|i| walk(400, i)).collect();
    let series: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let wanted = Selector::new().select("set:classic111").unwrap();
    for batched in [false, true] {
        let mut times: Vec<JitStats> = (0..21)
            .map(|_| {
                let selection = plan(&wanted);
                run(&selection.plan, &series, ExecOptions { batched: Some(batched), ..one() });
                selection.plan.jit_stats()
            })
            .collect();
        times.sort_by_key(|stats| stats.compile_time);
        let JitStats { loops, code_bytes, compile_time, .. } = &times[times.len() / 2];
        println!("batched {batched}: {loops} loops, {code_bytes} bytes, median of 21 {compile_time:?}");
    }
}
