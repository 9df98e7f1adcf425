//! Ball parameters: mass, radius, spin decay.

use super::error::{TrajectoryError, check, row};

/// A ball. The default is a golf ball at the limits of the rules (45.93 g, 42.67 mm diameter); its spin decays as Smits and Smith
/// (1994) measured at 100 mph, where their rate is that of an exponential with 23.8 s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ball {
    /// Kilograms.
    pub mass: f64,
    /// Metres.
    pub radius: f64,
    /// Time constant of the spin decay in seconds (1/e).
    pub spin_decay: f64,
}

impl Default for Ball {
    fn default() -> Self {
        Ball { mass: 0.045_93, radius: 0.021_335, spin_decay: 23.8 }
    }
}

impl Ball {
    /// Checks the ranges.
    pub(crate) fn check(&self) -> Result<(), TrajectoryError> {
        check(row("mass", 1e-4, 100.0, "kg"), self.mass)?;
        check(row("radius", 1e-3, 1.0, "m"), self.radius)?;
        check(row("spin decay time", 0.1, 1e9, "s"), self.spin_decay)?;
        Ok(())
    }

    /// Cross-section in m².
    pub(crate) fn area(&self) -> f64 {
        std::f64::consts::PI * self.radius * self.radius
    }
}
