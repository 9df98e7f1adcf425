//! Elementary functions: error bounds against a high-precision reference, special values, monotonicity, bit-identity of all
//! SIMD levels.
//!
//! `math/reference.txt`: per function its name, then an argument, the nearest double of the exact value and the remainder (in
//! 1/256 ulp); 1300 bits (mpmath), a third of them the worst of 6000 arguments.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, FRAC_PI_4, LN_2, PI, SQRT_2};

use common::Bars;
use gpuforge_indicators::{
    catalogue,
    exec::{ExecOptions, run},
    kernel::Simd,
    select::{Instance, select},
};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
/// The smallest positive double.
const TINY: f64 = f64::from_bits(1);

/// Up to here sinh x and tanh x are x: 2^-28.
const LINEAR_BELOW: f64 = 1.0 / 268_435_456.0;

/// A function and its guarantees.
struct Guarantee {
    name: &'static str,
    platform: fn(f64) -> f64,
    /// Max error in ulp.
    error: f64,
    /// Max distance to the platform's libm, which is not exact either, in ulp.
    libm_distance: u64,
    /// Points of monotonicity, among them those where our algorithm switches.
    monotone: &'static [f64],
}

const fn guarantee(
    name: &'static str,
    platform: fn(f64) -> f64,
    error: f64,
    libm_distance: u64,
    monotone: &'static [f64],
) -> Guarantee {
    Guarantee { name, platform, error, libm_distance, monotone }
}

const GUARANTEES: [Guarantee; 12] = [
    guarantee("ln", f64::ln, 0.8, 2, &[1e-310, 0.5, FRAC_1_SQRT_2, 1.0, SQRT_2, 2.0]),
    guarantee("log10", f64::log10, 0.7, 3, &[1e-310, 0.5, FRAC_1_SQRT_2, 1.0, SQRT_2, 2.0]),
    guarantee("exp", f64::exp, 0.75, 2, &[-708.0, -0.5 * LN_2, 0.5 * LN_2, 1.5 * LN_2, 13.5 * LN_2, 708.0]),
    guarantee("sinh", f64::sinh, 1.0, 4, &[-18.5, LINEAR_BELOW, 0.5 * LN_2, 1.5 * LN_2, 26.0, 700.0]),
    guarantee("cosh", f64::cosh, 1.1, 4, &[0.5 * LN_2, 1.5 * LN_2, 18.5, 26.0, 700.0]),
    guarantee("tanh", f64::tanh, 1.5, 4, &[-0.55, LINEAR_BELOW, 0.5 * LN_2, 0.55, 1.0]),
    guarantee("sin", f64::sin, 0.8, 2, &[-1.3, -FRAC_PI_4, FRAC_PI_4, 1.3]),
    guarantee("cos", f64::cos, 0.8, 2, &[0.3, FRAC_PI_4, 3.0 * FRAC_PI_4, 2.8]),
    guarantee("tan", f64::tan, 2.0, 3, &[-1.4, -FRAC_PI_4, FRAC_PI_4, 1.4]),
    guarantee("asin", f64::asin, 1.1, 2, &[-0.9, -0.5, 0.5, 0.9]),
    guarantee("acos", f64::acos, 1.1, 2, &[-0.9, -0.5, 0.5, 0.9]),
    guarantee("atan", f64::atan, 0.8, 2, &[-2.0, -0.5, 0.5, 1.0, 2.0]),
];

/// Seeded pseudo-random bits.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From zero to one.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The function of every argument, through the engine: each list is a series.
fn columns(name: &str, series: &[Vec<f64>], simd: Simd) -> Vec<Vec<f64>> {
    let row = catalogue::all().find(|row| row.name == name).expect(name);
    let selection = select(&[Instance::with(row, &[])]);
    let bars: Vec<Bars> = series
        .iter()
        .map(|x| {
            let x = x.clone();
            Bars {
                open: x.clone(),
                high: x.clone(),
                low: x.clone(),
                volume: x.clone(),
                time: x.clone(),
                close: x,
            }
        })
        .collect();
    let series: Vec<_> = bars.iter().map(Bars::series).collect();
    let options = ExecOptions { threads: 1, simd, ..ExecOptions::default() };
    run(&selection.plan, &series, options).into_iter().map(|mut columns| columns.remove(0)).collect()
}

fn of(name: &str, x: &[f64]) -> Vec<f64> {
    columns(name, &[x.to_vec()], Simd::detect()).remove(0)
}

/// Index of a double in the order of all doubles: neighbours differ by one.
fn ordinal(x: f64) -> i64 {
    let bits = x.to_bits().cast_signed();
    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
}

/// Arguments all over the range where the function is neither constant nor undefined.
fn arguments(name: &str, count: usize) -> Vec<f64> {
    let mut random = Bits(77);
    let mut unit = || random.unit();
    let mut one = |i: usize| {
        let (u, sign) = (unit(), if unit() < 0.5 { -1.0 } else { 1.0 });
        match (name, i % 3) {
            ("ln" | "log10", 0) => 0.5 + 1.5 * u,
            ("ln" | "log10", 1) => (u * 2000.0 - 1000.0).exp2(),
            ("ln" | "log10", _) => 1.0 + sign * (-50.0 * u).exp2(),
            ("asin" | "acos", 0) => sign * u,
            ("asin" | "acos", 1) => sign * (1.0 - (-52.0 * u).exp2()),
            ("exp" | "sinh" | "cosh", 0) => u * 1400.0 - 700.0,
            (_, 0) => sign * (u * 100.0 - 50.0).exp2(),
            ("sin" | "cos" | "tan", 1) => sign * (u * 1000.0).exp2(),
            (_, 1) => sign * u * 20.0,
            _ => sign * u,
        }
    };
    (0..count).map(&mut one).collect()
}

/// The reference of a function: argument, nearest double, and the remainder in ulp.
fn reference(name: &str) -> Vec<(f64, f64, f64)> {
    let bits = |text: &str| f64::from_bits(u64::from_str_radix(text, 16).unwrap());
    let point = |line: &str| {
        let mut parts = line.split(' ');
        let mut next = || parts.next().unwrap();
        (bits(next()), bits(next()), next().parse::<f64>().unwrap() / 256.0)
    };
    let lines = include_str!("math/reference.txt").lines();
    lines.skip_while(|line| *line != name).skip(1).take_while(|line| line.contains(' ')).map(point).collect()
}

#[test]
fn errors_are_within_the_stated_ulp() {
    for Guarantee { name, error, .. } in GUARANTEES {
        let reference = reference(name);
        assert!(reference.len() >= 195, "{name}: {} points", reference.len());
        let arguments: Vec<f64> = reference.iter().map(|point| point.0).collect();
        for ((x, nearest, rest), got) in reference.iter().zip(of(name, &arguments)) {
            assert!(
                got.is_sign_negative() == nearest.is_sign_negative(),
                "{name}({x:e}) is {got:e}, not {nearest:e}"
            );
            let steps = (ordinal(got.abs()) - ordinal(nearest.abs())) as f64;
            let off = (steps - rest).abs();
            assert!(off <= error, "{name}({x:e}) is {got:e}, {off} ulp from {nearest:e} + {rest}");
        }
    }
}

#[test]
fn results_are_close_to_the_platform_libm() {
    for Guarantee { name, platform, libm_distance, .. } in GUARANTEES {
        let arguments = arguments(name, 30_000);
        for (x, got) in arguments.iter().zip(of(name, &arguments)) {
            let want = platform(*x);
            assert!(
                ordinal(got).abs_diff(ordinal(want)) <= libm_distance,
                "{name}({x:e}) is {got:e}, libm {want:e}"
            );
        }
    }
}

/// Arguments and results.
type Cases<'a> = &'a [(f64, f64)];

#[test]
fn special_values_are_those_of_c() {
    let odd = [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (-TINY, -TINY), (1e-310, 1e-310), (NAN, NAN)];
    let logarithm = [
        (1.0, 0.0),
        (0.0, -INF),
        (-0.0, -INF),
        (-1.0, NAN),
        (-TINY, NAN),
        (-INF, NAN),
        (INF, INF),
        (NAN, NAN),
    ];
    let outside =
        [(1.0000000000000002, NAN), (-1.0000000000000002, NAN), (1e300, NAN), (INF, NAN), (-INF, NAN)];
    let no_angle = [(INF, NAN), (-INF, NAN), (NAN, NAN)];
    let cases: Vec<(&str, Vec<Cases<'_>>)> = vec![
        ("ln", vec![&logarithm]),
        ("log10", vec![&logarithm, &[(10.0, 1.0), (1000.0, 3.0), (1e22, 22.0), (0.1, -1.0), (1e-5, -5.0)]]),
        (
            "exp",
            vec![&[(709.7827128933841, INF), (-745.2, 0.0), (-745.1, TINY), (1e300, INF), (-1e300, 0.0)]],
        ),
        ("sinh", vec![&odd, &[(INF, INF), (-INF, -INF), (711.0, INF), (-711.0, -INF)]]),
        (
            "cosh",
            vec![&[(0.0, 1.0), (-0.0, 1.0), (TINY, 1.0), (INF, INF), (-INF, INF), (-711.0, INF), (NAN, NAN)]],
        ),
        ("tanh", vec![&odd, &[(INF, 1.0), (-INF, -1.0), (22.1, 1.0), (-1e300, -1.0)]]),
        ("sin", vec![&odd, &no_angle]),
        ("cos", vec![&no_angle, &[(0.0, 1.0), (-0.0, 1.0), (TINY, 1.0)]]),
        ("tan", vec![&odd, &no_angle]),
        ("asin", vec![&odd, &outside, &[(1.0, FRAC_PI_2), (-1.0, -FRAC_PI_2)]]),
        (
            "acos",
            vec![
                &outside,
                &[(1.0, 0.0), (-1.0, PI), (0.0, FRAC_PI_2), (-0.0, FRAC_PI_2), (TINY, FRAC_PI_2), (NAN, NAN)],
            ],
        ),
        (
            "atan",
            vec![&odd, &[(INF, FRAC_PI_2), (-INF, -FRAC_PI_2), (f64::MAX, FRAC_PI_2), (-1e18, -FRAC_PI_2)]],
        ),
    ];
    for (name, cases) in cases {
        for (x, want) in cases.concat() {
            let got = of(name, &[x])[0];
            assert!(got.to_bits() == want.to_bits(), "{name}({x:e}) is {got:e}, not {want:e}");
        }
    }
}

#[test]
fn functions_are_monotone_across_algorithm_switches() {
    for Guarantee { name, monotone, .. } in GUARANTEES {
        for at in monotone {
            // Steps of some ulp, across the switch.
            let arguments: Vec<f64> =
                (-4000..4000).map(|i| f64::from_bits(at.to_bits().wrapping_add_signed(i * 64))).collect();
            let mut results = of(name, &arguments);
            if at.is_sign_negative() {
                results.reverse();
            }
            if ["acos", "cos"].contains(&name) {
                results.iter_mut().for_each(|y| *y = -*y);
            }
            let falls = results.windows(2).position(|pair| pair[0] > pair[1] || pair[0].is_nan());
            assert!(falls.is_none(), "{name} near {at}: {:?}", falls.map(|i| &results[i..i + 2]));
        }
    }
}

#[test]
fn even_and_odd_functions_are_symmetric() {
    for Guarantee { name, .. } in
        GUARANTEES.iter().filter(|p| !["ln", "log10", "exp", "acos"].contains(&p.name))
    {
        let right = arguments(name, 6000);
        let left: Vec<f64> = right.iter().map(|x| -x).collect();
        let sign = if name.contains("cos") { 1.0 } else { -1.0 };
        for ((x, a), b) in right.iter().zip(of(name, &right)).zip(of(name, &left)) {
            assert!(a.to_bits() == (sign * b).to_bits(), "{name}(±{x:e}): {a:e}, {b:e}");
        }
    }
}

#[test]
fn every_simd_level_is_bit_identical() {
    let mut random = Bits(5);
    for Guarantee { name, .. } in GUARANTEES {
        // Typical arguments, and random bits: every kind of NaN, subnormal and huge numbers.
        let mut all = arguments(name, 3000);
        all.extend((0..3000).map(|_| f64::from_bits(random.next())));
        let series: Vec<Vec<f64>> = all.chunks(397).map(<[f64]>::to_vec).collect();
        let bits =
            |columns: Vec<Vec<f64>>| columns.concat().into_iter().map(f64::to_bits).collect::<Vec<_>>();
        let want = bits(columns(name, &[all], Simd::SCALAR));
        for simd in Simd::available() {
            let got = bits(columns(name, &series, simd));
            assert!(got == want, "{name}, {simd:?}");
        }
    }
}
