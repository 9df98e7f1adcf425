//! Column comparison: bitwise (any NaN equals any other), or within a tolerance.

/// Tolerance of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Bitwise equality; all NaNs are equal.
    Bits,
    /// Relative to the column's max absolute value.
    OfScale(f64),
}

/// First difference of two results.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// Column name.
    pub column: String,
    /// Series index.
    pub series: usize,
    /// Bar index.
    pub bar: usize,
    /// Actual value.
    pub got: f64,
    /// Expected value.
    pub want: f64,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { column, series, bar, got, want } = self;
        write!(f, "{column}, series {series}, bar {bar}: {got:e} instead of {want:e}")
    }
}

/// First bar that differs, and both values. A missing bar is a difference.
pub fn first_difference(got: &[f64], want: &[f64], tolerance: Tolerance) -> Option<(usize, f64, f64)> {
    let scale = want.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs()));
    let same = |g: f64, w: f64| {
        g.to_bits() == w.to_bits()
            || (g.is_nan() && w.is_nan())
            || match tolerance {
                Tolerance::Bits => false,
                Tolerance::OfScale(share) => g == w || (g - w).abs() <= share * scale,
            }
    };
    let longer = got.len().max(want.len());
    let at = |column: &[f64], t: usize| column.get(t).copied();
    (0..longer).find_map(|t| match (at(got, t), at(want, t)) {
        (Some(g), Some(w)) if same(g, w) => None,
        (g, w) => Some((t, g.unwrap_or(f64::NAN), w.unwrap_or(f64::NAN))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_is_bitwise_and_nan_equals_nan() {
        let differ = |a: &[f64], b: &[f64], t| first_difference(a, b, t).map(|(t, ..)| t);
        let other_nan = f64::from_bits(0xfff8_0000_0000_0001);
        assert_eq!(differ(&[1.0, f64::NAN], &[1.0, other_nan], Tolerance::Bits), None);
        assert_eq!(differ(&[0.0], &[-0.0], Tolerance::Bits), Some(0));
        assert_eq!(differ(&[1.0, 2.0], &[1.0], Tolerance::Bits), Some(1));
        assert_eq!(differ(&[1.0, f64::NAN], &[1.0, 2.0], Tolerance::OfScale(1.0)), Some(1));
        assert_eq!(differ(&[100.0, 1.0 + 1e-10], &[100.0, 1.0], Tolerance::OfScale(1e-11)), None);
        assert_eq!(differ(&[f64::INFINITY], &[f64::INFINITY], Tolerance::OfScale(0.0)), None);
        assert_eq!(differ(&[f64::INFINITY], &[1.0], Tolerance::OfScale(1.0)), Some(0));
    }
}
