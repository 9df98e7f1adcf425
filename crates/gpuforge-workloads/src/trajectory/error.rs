//! What can be wrong with a flight? Each error names the value and what it may be.

use std::fmt;

/// Why a flight cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrajectoryError {
    /// A value is not a number or out of its range.
    #[error("the {what} is {have}: it must be {limit}")]
    Value {
        /// Which.
        what: &'static str,
        /// What it is.
        have: f64,
        /// What it may be.
        limit: Range,
    },
    /// A table of coefficients does not fit together.
    #[error("the table of coefficients: {0}")]
    Coefficients(String),
}

/// What a value may be, with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// Of what.
    pub unit: &'static str,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.unit.is_empty() { "" } else { " " };
        write!(f, "from {} to {}{space}{}", self.least, self.most, self.unit)
    }
}

/// One row of a table of ranges: which value, and what it may be.
pub(crate) const fn row(
    what: &'static str,
    least: f64,
    most: f64,
    unit: &'static str,
) -> (&'static str, Range) {
    (what, Range { least, most, unit })
}

/// Refuses a value that is not in its row's range; NaN is in none.
pub(crate) fn check((what, limit): (&'static str, Range), have: f64) -> Result<f64, TrajectoryError> {
    if have >= limit.least && have <= limit.most {
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
