//! Upper tails of the normal and Student's t distribution.
//!
//! Closed forms only, so that small probabilities keep their leading digits.

use std::f64::consts::{FRAC_2_PI, PI};

/// From here the continued fraction converges faster than the series.
const FAR: f64 = 3.0;

/// Upper tail of the standard normal; 1 for NaN.
pub fn normal(z: f64) -> f64 {
    if z.is_nan() {
        return 1.0;
    }
    if z < 0.0 {
        return 1.0 - normal(-z);
    }
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    if z >= FAR {
        // Laplace's continued fraction, from the inside out.
        let fraction = (1..=60).rev().fold(z, |inner, k| z + f64::from(k) / inner);
        return density / fraction;
    }
    // z + z³/3 + z⁵/(3·5) + …: all terms are positive, nothing cancels.
    let (mut term, mut sum) = (z, z);
    for k in 1..80 {
        term *= z * z / f64::from(2 * k + 1);
        sum += term;
    }
    (0.5 - density * sum).max(0.0)
}

/// Upper tail of Student's t with `degrees` of freedom; 1 with none, or for NaN.
///
/// The finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
pub fn student(t: f64, degrees: usize) -> f64 {
    if degrees == 0 || t.is_nan() {
        return 1.0;
    }
    if t < 0.0 {
        return 1.0 - student(-t, degrees);
    }
    let angle = (t / (degrees as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    // Powers of the cosine with falling coefficients, up to the power degrees − 2.
    let (mut term, mut sum) = if odd { (cos, 0.0) } else { (1.0, 0.0) };
    let mut power = usize::from(odd);
    while power + 2 <= degrees {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    let inside = if odd { FRAC_2_PI * (angle + sin * sum) } else { sin * sum };
    (0.5 * (1.0 - inside)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, known: f64) {
        assert!((found / known - 1.0).abs() < 2e-4, "{found} {known}");
    }

    #[test]
    fn tails_agree_with_printed_tables() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.158_655), (1.959_964, 0.025), (2.999_99, 1.349_94e-3)] {
            close(normal(z), p);
            close(normal(-z), 1.0 - p);
        }
        for (z, p) in [(3.0, 1.349_90e-3), (4.0, 3.167_12e-5), (6.0, 9.865_88e-10), (10.0, 7.619_85e-24)] {
            close(normal(z), p);
        }
        let table =
            [(1, 12.706), (2, 4.3027), (3, 3.1824), (4, 2.7764), (8, 2.306), (9, 2.2622), (30, 2.0423)];
        for (degrees, t) in table {
            close(student(t, degrees), 0.025);
            close(student(-t, degrees), 0.975);
        }
        close(student(1.96, 100_000), normal(1.96));
    }

    #[test]
    fn nan_is_not_significant() {
        assert_eq!((normal(f64::NAN), student(f64::NAN, 3), student(9.0, 0)), (1.0, 1.0, 1.0));
        assert!(normal(f64::INFINITY) < 1e-12 && student(f64::INFINITY, 2) < 1e-12);
    }
}
