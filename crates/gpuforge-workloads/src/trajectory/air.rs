//! Air density and viscosity at the launch site, and density by height.
//!
//! Pressure by altitude as in the standard atmosphere unless given; water vapour from Buck's saturation formula; viscosity from
//! Sutherland's.

use super::error::{TrajectoryError, check, row};

/// Specific gas constants in J/(kg K): dry air, water vapour.
const GAS: (f64, f64) = (287.058, 461.495);
/// Kelvin at 0 °C.
const ZERO: f64 = 273.15;
/// Lapse rate of the standard atmosphere in K/m.
const LAPSE: f64 = 0.0065;
/// Standard gravity, in the exponents of the standard atmosphere.
const STANDARD_G: f64 = 9.80665;

/// Air at the launch site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Air {
    /// Metres above sea level.
    pub altitude: f64,
    /// Degrees Celsius.
    pub temperature: f64,
    /// Relative humidity in percent.
    pub humidity: f64,
    /// Station pressure in hPa; `None` is that of the standard atmosphere at the altitude.
    pub pressure: Option<f64>,
    /// Vacuum: gravity only.
    pub vacuum: bool,
}

impl Default for Air {
    fn default() -> Self {
        Air { altitude: 0.0, temperature: 15.0, humidity: 0.0, pressure: None, vacuum: false }
    }
}

impl Air {
    /// Vacuum.
    pub fn vacuum() -> Air {
        Air { vacuum: true, ..Air::default() }
    }

    pub(crate) fn check(&self) -> Result<(), TrajectoryError> {
        check(row("altitude", -500.0, 9000.0, "m"), self.altitude)?;
        check(row("temperature", -60.0, 60.0, "°C"), self.temperature)?;
        check(row("humidity", 0.0, 100.0, "%"), self.humidity)?;
        if let Some(pressure) = self.pressure {
            check(row("pressure", 100.0, 1100.0, "hPa"), pressure)?;
        }
        Ok(())
    }

    /// Station pressure in Pa.
    fn pascals(&self) -> f64 {
        let standard = || 1013.25 * (1.0 - LAPSE * self.altitude / 288.15).powf(STANDARD_G / (GAS.0 * LAPSE));
        100.0 * self.pressure.unwrap_or_else(standard)
    }

    /// Density in kg/m³.
    pub fn density(&self) -> f64 {
        if self.vacuum {
            return 0.0;
        }
        let (t, kelvin) = (self.temperature, self.temperature + ZERO);
        let saturated = 611.21 * ((18.678 - t / 234.5) * (t / (257.14 + t))).exp();
        let vapour = (self.humidity / 100.0 * saturated).min(self.pascals());
        (self.pascals() - vapour) / (GAS.0 * kelvin) + vapour / (GAS.1 * kelvin)
    }

    /// Dynamic viscosity in Pa s.
    pub fn viscosity(&self) -> f64 {
        let kelvin = self.temperature + ZERO;
        1.716e-5 * (kelvin / ZERO).powf(1.5) * (ZERO + 110.4) / (kelvin + 110.4)
    }

    /// Coefficients of `h, h², h³, h⁴` of the relative density above the site: the series of the standard atmosphere's
    /// `(1 - Lh/T)^(g/RL - 1)`, accurate to 1e-6 up to two kilometres.
    pub(crate) fn density_series(&self) -> [f64; 4] {
        let (x, n) = (-LAPSE / (self.temperature + ZERO), STANDARD_G / (GAS.0 * LAPSE) - 1.0);
        let first = n * x;
        let second = first * (n - 1.0) * x / 2.0;
        let third = second * (n - 2.0) * x / 3.0;
        [first, second, third, third * (n - 3.0) * x / 4.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64, within: f64) {
        assert!((got - want).abs() <= within, "{got} is not {want}");
    }

    /// Tables of the standard atmosphere, and of the CRC Handbook for humid air.
    #[test]
    fn densities_match_published_tables() {
        near(Air::default().density(), 1.225, 2e-4);
        let at = |altitude, temperature| Air { altitude, temperature, ..Air::default() }.density();
        near(at(1000.0, 8.5), 1.1117, 3e-4);
        near(at(2000.0, 2.0), 1.0066, 3e-4);
        let damp = Air { temperature: 30.0, humidity: 100.0, pressure: Some(1013.25), ..Air::default() };
        near(damp.density(), 1.146, 1e-3);
        assert_eq!(Air::vacuum().density(), 0.0);
        near(Air::default().viscosity(), 1.789e-5, 1e-8);
    }

    #[test]
    fn density_by_height_matches_the_standard_atmosphere() {
        let [a, b, c, d] = Air::default().density_series();
        for (h, want) in [(500.0, 1.1673), (1000.0, 1.1116), (2000.0, 1.0065), (5000.0, 0.7361)] {
            let series = 1.225 * (1.0 + h * (a + h * (b + h * (c + h * d))));
            near(series, want, 3e-4);
        }
    }

    #[test]
    fn implausible_air_is_refused() {
        let odd = [
            Air { humidity: 101.0, ..Air::default() },
            Air { temperature: f64::NAN, ..Air::default() },
            Air { altitude: 1e5, ..Air::default() },
            Air { pressure: Some(0.0), ..Air::default() },
        ];
        assert!(odd.iter().all(|air| air.check().is_err()));
    }
}
