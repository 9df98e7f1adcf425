//! Counter-based RNG: known-answer vectors, bit-identical streams, seeking, distribution tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use gpuforge_ops::{
    Op, OpError, normal,
    random::{NORMAL_BOUND, philox},
    random_bits, uniform,
};

#[test]
fn known_answers() {
    // Published with the Random123 library (kat_vectors, philox4x32, 10 rounds).
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    assert_eq!(
        philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
    let first = common::words(&common::on_cpu(&random_bits(4, 0, 0), 1)[0]);
    assert_eq!(first, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
}

#[test]
fn bits_and_uniform_are_bit_identical() {
    for n in common::SIZES {
        for offset in [0, 1, 63, 3 * (1 << 33) - 7] {
            let bits = common::words(&common::same_bits(&random_bits(n, 0x1234_5678_9abc_def0, offset))[0]);
            let floats = common::floats(&common::same_bits(&uniform(n, 0x1234_5678_9abc_def0, offset))[0]);
            assert!(bits.iter().zip(&floats).all(|(b, f)| (b >> 8) as f32 / 16_777_216.0 == *f));
            assert!(floats.iter().all(|f| (0.0..1.0).contains(f)));
        }
    }
}

#[test]
fn the_stream_follows_the_counter() {
    // The carry of the counter: elements around 4 · 2³².
    let at = (1u64 << 34) - 6;
    let bits = common::words(&common::same_bits(&random_bits(12, 7, at))[0]);
    for (i, word) in bits.iter().enumerate() {
        let a = at + i as u64;
        let counter = [(a / 4) as u32, ((a / 4) >> 32) as u32, 0, 0];
        assert_eq!(*word, philox(counter, [7, 0])[(a % 4) as usize], "element {a}");
    }
}

/// Box-Muller as it is written in books, in f64, from the same words.
fn reference(n: usize, seed: u64) -> Vec<f64> {
    let mut out = Vec::new();
    for counter in 0..n.div_ceil(4) as u32 {
        let w = philox([counter, 0, 1, 0], [seed as u32, (seed >> 32) as u32]);
        for [a, b] in [[w[0], w[1]], [w[2], w[3]]] {
            let lead = (a | 1).leading_zeros();
            let u = ((((a | 1) << lead) >> 8) << 8) as f64 / 2f64.powi(32) / 2f64.powi(lead as i32);
            let place = ((((b << 2) >> 9) * 2 + 1) as f64 / 2f64.powi(24) - 0.5) + (b >> 30) as f64;
            let (sine, cosine) = (place * std::f64::consts::FRAC_PI_2).sin_cos();
            let r = (-2.0 * u.ln()).sqrt();
            out.extend([r * cosine, r * sine]);
        }
    }
    out.truncate(n);
    out
}

#[test]
fn normal_stays_within_its_bound() {
    for n in common::SIZES {
        let want = reference(n, 99);
        for (place, results) in common::everywhere(&normal(n, 99, 0)) {
            let have = common::floats(&results[0]);
            assert_eq!(have.len(), n);
            let worst = have.iter().zip(&want).map(|(h, w)| (f64::from(*h) - w).abs()).fold(0.0, f64::max);
            assert!(worst <= f64::from(NORMAL_BOUND) / 2.0, "{n} on {place}: off by {worst:e}");
        }
    }
    let op = normal(100_003, 5, 77);
    assert_eq!(common::on_cpu(&op, 1), common::on_cpu(&op, 3));
}

#[test]
fn streams_are_seekable() {
    let whole = common::floats(&common::on_cpu(&uniform(5000, 3, 0), 1)[0]);
    let normals = common::floats(&common::on_cpu(&normal(5000, 3, 0), 1)[0]);
    for offset in [1, 2, 3, 4, 5, 62, 63, 64, 65, 999] {
        assert_eq!(
            common::floats(&common::on_cpu(&uniform(100, 3, offset), 1)[0]),
            whole[offset as usize..][..100]
        );
        assert_eq!(
            common::floats(&common::on_cpu(&normal(100, 3, offset), 1)[0]),
            normals[offset as usize..][..100]
        );
    }
    for op in [random_bits(1001, 9, 5), uniform(1001, 9, 5), normal(1001, 9, 6)] {
        common::parts_join(&op, 1);
        common::parts_join(&op, 100);
    }
}

/// Mean and variance.
fn moments(values: &[f32]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
    (mean, values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n)
}

#[test]
fn uniform_passes_moment_and_chi_square_tests() {
    let n = 1 << 20;
    for seed in [0, 1, u64::MAX] {
        let values = common::floats(&common::on_cpu(&uniform(n, seed, 0), 1)[0]);
        let (mean, variance) = moments(&values);
        // Five standard deviations of the mean and of the variance.
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / n as f64).sqrt(), "{seed}: mean {mean}");
        assert!(
            (variance - 1.0 / 12.0).abs() < 5.0 * (1.0 / 180.0 / n as f64).sqrt(),
            "{seed}: variance {variance}"
        );
        let mut bins = [0f64; 256];
        values.iter().for_each(|v| bins[(v * 256.0) as usize] += 1.0);
        let want = n as f64 / 256.0;
        let chi2: f64 = bins.iter().map(|b| (b - want).powi(2) / want).sum();
        // 255 degrees of freedom: mean 255, deviation 22.6.
        assert!((255.0 - 113.0..255.0 + 113.0).contains(&chi2), "{seed}: chi² {chi2}");
        // Neighbours do not know each other.
        let lag: f64 = values.windows(2).map(|w| (f64::from(w[0]) - 0.5) * (f64::from(w[1]) - 0.5)).sum();
        assert!(lag.abs() < 5.0 * (n as f64).sqrt() / 12.0, "{seed}: neighbours {lag}");
    }
}

#[test]
fn normal_passes_kolmogorov_smirnov() {
    let n = 1 << 18;
    for seed in [0, 1, 0xdead_beef_0000_0001] {
        let mut values = common::floats(&common::on_cpu(&normal(n, seed, 0), 1)[0]);
        let (mean, variance) = moments(&values);
        assert!(mean.abs() < 5.0 / (n as f64).sqrt(), "{seed}: mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt(), "{seed}: variance {variance}");
        let both: f64 = values.chunks(2).map(|w| f64::from(w[0]) * f64::from(w[1])).sum();
        assert!(both.abs() < 5.0 * (n as f64 / 2.0).sqrt(), "{seed}: pairs {both}");
        values.sort_by(f32::total_cmp);
        assert!(values[0] > -6.67 && values[n - 1] < 6.67);
        // Kolmogorov: the largest distance from the normal distribution, integrated from one number to the next.
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let (mut at, mut below, mut distance) = (-8.0, 0.0, 0f64);
        for (i, x) in values.iter().map(|v| f64::from(*v)).enumerate() {
            let steps = ((x - at) / 0.01).ceil().max(1.0);
            let h = (x - at) / steps;
            below += (0..steps as usize)
                .map(|s| {
                    let a = at + s as f64 * h;
                    (density(a) + 4.0 * density(a + h / 2.0) + density(a + h)) * h / 6.0
                })
                .sum::<f64>();
            at = x;
            distance = distance
                .max((below - i as f64 / n as f64).abs().max((below - (i + 1) as f64 / n as f64).abs()));
        }
        // 1.95 / √n is passed by one sample in a thousand.
        assert!(distance < 1.95 / (n as f64).sqrt(), "{seed}: distance {distance}");
    }
}

#[test]
fn invalid_input_is_named() {
    let error = uniform(10, 0, u64::MAX - 3).outputs().unwrap_err();
    assert!(matches!(error, OpError::Value { what: "the offset", .. }));
    assert!(error.to_string().contains("18446744073709551612 and 10 elements"), "{error}");
}
