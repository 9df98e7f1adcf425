//! Same bits on every target: a hash of all catalogue columns over sample bars, recorded once and compared everywhere.
//!
//! Bars are made of integer arithmetic and division only, so that they are the same on every machine. NaN is hashed as one
//! value: CPUs differ in the sign and payload of the NaN that an operation makes, and no output format keeps them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use gpuforge_indicators::{
    catalogue,
    exec::{ExecOptions, Series, run},
    select::{Instance, select},
};

/// Of x86-64, with and without JIT; AArch64 under qemu gives the same.
const RECORDED: u64 = 0x0bda_0302_d98e_6646;

/// FNV-1a over the bytes of doubles.
struct Hash(u64);

impl Hash {
    fn add(&mut self, x: f64) {
        let bits = if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
        for byte in bits.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Open, high, low, close, volume and time of some bars.
fn bars(n: usize, seed: u64) -> [Vec<f64>; 6] {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut columns: [Vec<f64>; 6] = Default::default();
    let mut price = 10_000i64;
    for t in 0..n {
        let open = price;
        price = (price + random(201) as i64 - 100).max(100);
        let high = open.max(price) + random(60) as i64;
        let low = open.min(price) - random(60) as i64;
        let volume = 1000 + random(100_000);
        let values = [open as f64 / 100.0, high as f64 / 100.0, low as f64 / 100.0, price as f64 / 100.0];
        for (column, x) in columns.iter_mut().zip(values.into_iter().chain([volume as f64, (t * 60) as f64]))
        {
            column.push(x);
        }
    }
    columns
}

fn hash(options: ExecOptions) -> (u64, Vec<(String, u64)>) {
    let data: Vec<[Vec<f64>; 6]> = (0..8).map(|seed| bars(1200, 77 + seed)).collect();
    let series: Vec<Series<'_>> = data
        .iter()
        .map(|[open, high, low, close, volume, time]| Series { open, high, low, close, volume, time })
        .collect();
    let instances: Vec<Instance> = catalogue::all().map(Instance::of).collect();
    let selection = select(&instances);
    let results = run(&selection.plan, &series, options);
    let mut all = Hash(0xcbf2_9ce4_8422_2325);
    let mut each = Vec::new();
    for (at, name) in selection.columns.iter().enumerate() {
        let mut own = Hash(0xcbf2_9ce4_8422_2325);
        for x in results.iter().flat_map(|columns| &columns[at]) {
            all.add(*x);
            own.add(*x);
        }
        each.push((name.to_string(), own.0));
    }
    (all.0, each)
}

#[test]
fn every_column_has_the_same_bits_on_every_target() {
    for jit in [true, false] {
        for batched in [true, false] {
            let options = ExecOptions { threads: 1, jit, batched: Some(batched), ..ExecOptions::default() };
            let (all, each) = hash(options);
            if std::env::var_os("GPUFORGE_PRINT_HASHES").is_some() {
                each.iter().for_each(|(name, hash)| println!("{name} {hash:016x}"));
            }
            assert_eq!(format!("{all:016x}"), format!("{RECORDED:016x}"), "jit {jit}, batched {batched}");
        }
    }
}
