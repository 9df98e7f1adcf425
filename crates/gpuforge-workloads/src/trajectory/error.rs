//! Trajectory errors: each names the value and its range.

use std::fmt;

/// Why a flight cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrajectoryError {
    /// A value is NaN or out of range.
    #[error("the {what} is {have}: it must be {limit}")]
    Value {
        /// Which.
        what: &'static str,
        /// What it is.
        have: f64,
        /// What it may be.
        limit: ValueRange,
    },
    /// The coefficient table is inconsistent.
    #[error("the table of coefficients: {0}")]
    Coefficients(String),
}

/// Valid range of a value, with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueRange {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Unit.
    pub unit: &'static str,
}

impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.unit.is_empty() { "" } else { " " };
        write!(f, "from {} to {}{space}{}", self.min, self.max, self.unit)
    }
}

/// An entry of a range table: name and range.
pub(crate) const fn row(
    what: &'static str,
    min: f64,
    max: f64,
    unit: &'static str,
) -> (&'static str, ValueRange) {
    (what, ValueRange { min, max, unit })
}

/// Checks a value against its range; NaN is never in range.
pub(crate) fn check((what, limit): (&'static str, ValueRange), have: f64) -> Result<f64, TrajectoryError> {
    if have >= limit.min && have <= limit.max {
        Ok(have)
    } else {
        Err(TrajectoryError::Value { what, have, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_includes_its_ends_and_no_nan() {
        let speed = row("speed", 0.0, 500.0, "m/s");
        assert_eq!(check(speed, 0.0), Ok(0.0));
        assert_eq!(check(speed, 500.0), Ok(500.0));
        for odd in [-1e-9, 500.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = check(speed, odd).unwrap_err().to_string();
            assert!(error.starts_with("the speed is ") && error.ends_with("from 0 to 500 m/s"), "{error}");
        }
    }
}
