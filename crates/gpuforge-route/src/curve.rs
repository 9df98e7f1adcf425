//! Cost curve: measured points, interpolated piecewise linearly in log-log space.
//!
//! A lookup reads a table with one entry per octave: no search, no logarithm.

use serde::{Deserialize, Serialize};

/// Sizes up to 2^OCTAVES units.
const OCTAVES: usize = 48;

/// Upper bound of the extrapolation slope beyond the last point: two points say little about the slope, and the size is counted
/// so that it grows with the work.
const MAX_SLOPE: f64 = 1.1;

/// One measured point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Size in units of the operation kind.
    pub units: u64,
    /// Time in nanoseconds.
    pub ns: f64,
}

/// Time over size. Constant below the first point (fixed cost dominates there); extrapolated beyond the last with the slope of
/// the last segment, at least linear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Point>", into = "Vec<Point>")]
pub struct Curve {
    points: Vec<Point>,
    /// Nanoseconds at 2^i units.
    table: Box<[f32; OCTAVES + 1]>,
}

/// Points that do not form a curve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a curve needs points with a size and a positive time, in ascending order of size; there are {0}")]
pub struct InvalidCurve(pub usize);

impl TryFrom<Vec<Point>> for Curve {
    type Error = InvalidCurve;

    fn try_from(points: Vec<Point>) -> Result<Self, InvalidCurve> {
        let good = |p: &Point| p.units > 0 && p.ns.is_finite() && p.ns > 0.0;
        let ascending = points.windows(2).all(|w| matches!(w, [a, b] if a.units < b.units));
        if points.is_empty() || !ascending || !points.iter().all(good) {
            return Err(InvalidCurve(points.len()));
        }
        let mut table = Box::new([0f32; OCTAVES + 1]);
        for (octave, entry) in table.iter_mut().enumerate() {
            *entry = log_at(&points, octave as f64).exp2() as f32;
        }
        Ok(Curve { points, table })
    }
}

impl From<Curve> for Vec<Point> {
    fn from(curve: Curve) -> Self {
        curve.points
    }
}

/// log2 of the time at a log2 of the size.
fn log_at(points: &[Point], x: f64) -> f64 {
    let log = |p: &Point| ((p.units as f64).log2(), p.ns.log2());
    let (Some(first), Some(last)) = (points.first().map(log), points.last().map(log)) else { return 0.0 };
    if x <= first.0 {
        return first.1;
    }
    for pair in points.windows(2) {
        if let [a, b] = pair {
            let (a, b) = (log(a), log(b));
            if x <= b.0 {
                return a.1 + (x - a.0) / (b.0 - a.0) * (b.1 - a.1);
            }
        }
    }
    let slope = match points {
        [.., a, b] => {
            let (a, b) = (log(a), log(b));
            ((b.1 - a.1) / (b.0 - a.0)).clamp(1.0, MAX_SLOPE)
        }
        _ => 1.0,
    };
    last.1 + (x - last.0) * slope
}

impl Curve {
    /// A constant curve.
    pub fn flat(ns: f64) -> Option<Curve> {
        Curve::try_from(vec![Point { units: 1, ns }]).ok()
    }

    /// The measured points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Nanoseconds for this many units.
    #[inline]
    pub fn at(&self, units: u64) -> f32 {
        let octave = (units.max(1).ilog2() as usize).min(OCTAVES - 1);
        // Linear within an octave: exact where the curve is flat or proportional, close to the log-log line elsewhere.
        let part = (units.max(1) as f32) / ((1u64 << octave) as f32) - 1.0;
        match (self.table.get(octave), self.table.get(octave + 1)) {
            (Some(low), Some(high)) => low + part * (high - low),
            _ => f32::MAX,
        }
    }

    /// The curve with every time multiplied; for experiments with wrong models.
    pub fn scaled(&self, factor: f64) -> Option<Curve> {
        let points =
            self.points.iter().map(|p| Point { units: p.units, ns: p.ns * factor }).collect::<Vec<_>>();
        Curve::try_from(points).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> Curve {
        Curve::try_from(points.iter().map(|(units, ns)| Point { units: *units, ns: *ns }).collect::<Vec<_>>())
            .unwrap()
    }

    fn near(a: f32, b: f32) {
        assert!((a / b - 1.0).abs() < 0.02, "{a} is not {b}");
    }

    #[test]
    fn interpolates_log_log_through_its_points() {
        let c = curve(&[(1 << 8, 1e3), (1 << 12, 16e3), (1 << 20, 4096e3)]);
        near(c.at(1 << 8), 1e3);
        near(c.at(1 << 12), 16e3);
        near(c.at(1 << 10), 4e3);
        near(c.at(3 << 9), 6e3);
        near(c.at(1 << 20), 4096e3);
    }

    #[test]
    fn flat_below_the_first_point_and_proportional_above_the_last() {
        let c = curve(&[(1 << 8, 1e3), (1 << 12, 2e3)]);
        near(c.at(0), 1e3);
        near(c.at(1), 1e3);
        near(c.at(1 << 14), 8e3);
        assert!(c.at(u64::MAX).is_finite());
    }

    #[test]
    fn invalid_points_are_refused() {
        let point = |units, ns| Point { units, ns };
        for bad in [
            vec![],
            vec![point(0, 1.0)],
            vec![point(1, 0.0)],
            vec![point(1, f64::NAN)],
            vec![point(2, 1.0), point(2, 2.0)],
        ] {
            assert!(Curve::try_from(bad).is_err());
        }
        let json = serde_json::to_string(&curve(&[(4, 2.0)])).unwrap();
        assert_eq!(json, r#"[{"units":4,"ns":2.0}]"#);
        assert!(serde_json::from_str::<Curve>("[]").is_err());
    }
}
