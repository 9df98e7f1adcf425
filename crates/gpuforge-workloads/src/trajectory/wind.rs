//! Wind: speed, direction and shear profile (uniform, power law, logarithmic).

use super::error::{TrajectoryError, check, row};

/// Wind shear profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ShearProfile {
    /// Uniform.
    Uniform,
    /// `((h + 0.1 m) / (reference + 0.1 m))^exponent`; about 0.14 over open grass. The 10 cm keep it smooth at the ground.
    Power {
        /// The exponent.
        exponent: f64,
    },
    /// `ln(1 + h / roughness) / ln(1 + reference / roughness)`; the roughness is some centimetres over grass.
    Log {
        /// Metres.
        roughness: f64,
    },
}

/// Horizontal wind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wind {
    /// Metres per second at the reference height.
    pub speed: f64,
    /// Direction it comes from, in degrees clockwise from the target line: 0 is a headwind, 90 from the right.
    pub from: f64,
    /// Reference height in metres.
    pub reference: f64,
    /// Shear profile.
    pub profile: ShearProfile,
}

impl Default for Wind {
    fn default() -> Self {
        Wind { speed: 0.0, from: 0.0, reference: 10.0, profile: ShearProfile::Uniform }
    }
}

impl Wind {
    pub(crate) fn check(&self) -> Result<(), TrajectoryError> {
        check(row("wind speed", 0.0, 100.0, "m/s"), self.speed)?;
        check(row("wind direction", -360.0, 360.0, "degrees"), self.from)?;
        check(row("reference height of the wind", 0.5, 1000.0, "m"), self.reference)?;
        match self.profile {
            ShearProfile::Uniform => {}
            ShearProfile::Power { exponent } => {
                check(row("exponent of the wind profile", 0.0, 1.0, ""), exponent)?;
            }
            ShearProfile::Log { roughness } => {
                check(row("roughness of the ground", 1e-3, self.reference / 2.0, "m"), roughness)?;
            }
        }
        Ok(())
    }

    /// Velocity along `x` and `z` at the reference height.
    pub(crate) fn velocity(&self) -> [f64; 2] {
        let from = self.from.to_radians();
        [-self.speed * from.cos(), -self.speed * from.sin()]
    }
}
