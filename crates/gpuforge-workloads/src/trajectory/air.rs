//! How dense and how thick is the air?
//!
//! Pressure by height as in the standard atmosphere unless it is given; the share of water vapour from Buck's formula for
//! the saturation pressure; viscosity from Sutherland's.

use super::error::{TrajectoryError, check, row};

/// Joules per kilogram and kelvin: dry air, water vapour.
const GAS: (f64, f64) = (287.058, 461.495);
/// Kelvin at 0 °C.
const ZERO: f64 = 273.15;
/// Kelvin per metre of height in the standard atmosphere.
const LAPSE: f64 = 0.0065;
/// The standard atmosphere's gravity, in its exponents.
const STANDARD_G: f64 = 9.80665;

/// Air at the place of the launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Air {
    /// Metres above the sea.
    pub altitude: f64,
    /// Degrees Celsius.
    pub temperature: f64,
    /// Percent of what the air can hold.
    pub humidity: f64,
    /// Hectopascals at the place itself; `None` is that of the standard atmosphere at the altitude.
    pub pressure: Option<f64>,
    /// No air at all: nothing but gravity.
    pub vacuum: bool,
}

impl Default for Air {
    fn default() -> Self {
        Air { altitude: 0.0, temperature: 15.0, humidity: 0.0, pressure: None, vacuum: false }
    }
}

impl Air {
    /// No air.
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

    /// Pascals at the place.
    fn pascals(&self) -> f64 {
        let standard = || 1013.25 * (1.0 - LAPSE * self.altitude / 288.15).powf(STANDARD_G / (GAS.0 * LAPSE));
        100.0 * self.pressure.unwrap_or_else(standard)
    }

    /// Kilograms per cubic metre at the place.
    pub fn density(&self) -> f64 {
        if self.vacuum {
            return 0.0;
        }
        let (t, kelvin) = (self.temperature, self.temperature + ZERO);
        let saturated = 611.21 * ((18.678 - t / 234.5) * (t / (257.14 + t))).exp();
        let vapour = (self.humidity / 100.0 * saturated).min(self.pascals());
        (self.pascals() - vapour) / (GAS.0 * kelvin) + vapour / (GAS.1 * kelvin)
    }

    /// Pascal seconds.
    pub fn viscosity(&self) -> f64 {
        let kelvin = self.temperature + ZERO;
        1.716e-5 * (kelvin / ZERO).powf(1.5) * (ZERO + 110.4) / (kelvin + 110.4)
    }

    /// Factors of `h, h², h³, h⁴` after 1 in the density above the place, relative to that at it: the series of the standard
    /// atmosphere's `(1 - Lh/T)^(g/RL - 1)`, right to a millionth up to two kilometres.
    pub(crate) fn thinning(&self) -> [f64; 4] {
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

    /// The standard atmosphere's own table, and the CRC Handbook's for damp air.
    #[test]
    fn published_densities_are_met() {
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
    fn air_thins_out_as_in_the_standard_atmosphere() {
        let [a, b, c, d] = Air::default().thinning();
        for (h, want) in [(500.0, 1.1673), (1000.0, 1.1116), (2000.0, 1.0065), (5000.0, 0.7361)] {
            let series = 1.225 * (1.0 + h * (a + h * (b + h * (c + h * d))));
            near(series, want, 3e-4);
        }
    }

    #[test]
    fn what_no_air_is_like_is_refused() {
        let odd = [
            Air { humidity: 101.0, ..Air::default() },
            Air { temperature: f64::NAN, ..Air::default() },
            Air { altitude: 1e5, ..Air::default() },
            Air { pressure: Some(0.0), ..Air::default() },
        ];
        assert!(odd.iter().all(|air| air.check().is_err()));
    }
}
