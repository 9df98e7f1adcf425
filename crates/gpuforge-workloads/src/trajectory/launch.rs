//! Launch parameters, and the summary of a flight.

use std::f64::consts::PI;

use serde::Serialize;

use super::error::{TrajectoryError, ValueRange, check, row};

/// A launch. The default is at rest on the ground.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Launch {
    /// Metres per second.
    pub speed: f64,
    /// Degrees above horizontal.
    pub angle: f64,
    /// Degrees to the right of the target line.
    pub azimuth: f64,
    /// Revolutions per minute; positive is backspin.
    pub spin: f64,
    /// Tilt of the spin axis in degrees; positive curves to the right.
    pub tilt: f64,
    /// Metres above the ground.
    pub height: f64,
}

/// Fields of a launch with their ranges. Files have columns of these names.
pub const FIELDS: [(&str, ValueRange); 6] = [
    row("speed", 0.0, 500.0, "m/s"),
    row("angle", -90.0, 90.0, "degrees"),
    row("azimuth", -180.0, 180.0, "degrees"),
    row("spin", -50_000.0, 50_000.0, "rpm"),
    row("tilt", -180.0, 180.0, "degrees"),
    row("height", 0.0, 5000.0, "m"),
];

/// Length of a [`Start`].
pub(super) const START: usize = 8;
/// Initial state: height, velocity, spin axis, rad/s.
pub(super) type Start = [f64; START];

impl Launch {
    /// A launch from the values of [`FIELDS`].
    pub fn of([speed, angle, azimuth, spin, tilt, height]: [f64; 6]) -> Launch {
        Launch { speed, angle, azimuth, spin, tilt, height }
    }

    /// The values of [`FIELDS`].
    pub fn values(&self) -> [f64; 6] {
        [self.speed, self.angle, self.azimuth, self.spin, self.tilt, self.height]
    }

    /// Checks the ranges; the first value that is NaN or out of range is the error.
    pub fn check(&self) -> Result<(), TrajectoryError> {
        FIELDS.iter().zip(self.values()).try_for_each(|(field, value)| check(*field, value).map(drop))
    }

    pub(super) fn start(&self) -> Result<Start, TrajectoryError> {
        self.check()?;
        let (up, aside) = (self.angle.to_radians(), self.azimuth.to_radians());
        let ahead = [up.cos() * aside.cos(), up.sin(), up.cos() * aside.sin()];
        let right = [-aside.sin(), 0.0, aside.cos()];
        // Direction of backspin lift: perpendicular to the flight, upwards.
        let lift = cross(right, ahead);
        let (sin, cos) = self.tilt.to_radians().sin_cos();
        let sign = if self.spin < 0.0 { -1.0 } else { 1.0 };
        let axis = [0, 1, 2].map(|i| sign * (cos * at(right, i) - sin * at(lift, i)));
        let [u, v, w] = ahead.map(|part| self.speed * part);
        let [ax, ay, az] = axis;
        Ok([self.height, u, v, w, ax, ay, az, self.spin.abs() * PI / 30.0])
    }
}

fn at(vector: [f64; 3], i: usize) -> f64 {
    vector.get(i).copied().unwrap_or(0.0)
}

fn cross([a, b, c]: [f64; 3], [x, y, z]: [f64; 3]) -> [f64; 3] {
    [b * z - c * y, c * x - a * z, a * y - b * x]
}

/// How a flight ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlightStatus {
    /// On the ground.
    Landed,
    /// The time limit was reached in the air; the figures are those of that moment.
    TimedOut,
    /// The adaptive step reached its minimum; the figures are those of that moment.
    StepTooSmall,
    /// The integration diverged: the step is too large for this ball and air.
    Diverged,
}

impl FlightStatus {
    const ALL: [FlightStatus; 4] =
        [FlightStatus::Landed, FlightStatus::TimedOut, FlightStatus::StepTooSmall, FlightStatus::Diverged];

    /// Its name, as in files and JSON.
    pub fn name(self) -> &'static str {
        match self {
            FlightStatus::Landed => "landed",
            FlightStatus::TimedOut => "timed-out",
            FlightStatus::StepTooSmall => "step-too-small",
            FlightStatus::Diverged => "diverged",
        }
    }

    pub(super) fn number(self) -> f64 {
        f64::from(self as u8)
    }

    fn of(number: f64) -> FlightStatus {
        FlightStatus::ALL.into_iter().find(|s| s.number() == number).unwrap_or(FlightStatus::Diverged)
    }
}

/// Length of an [`End`].
pub(super) const END: usize = 12;
/// Final state: time, position, velocity, spin, apex and its time, status, steps.
pub(super) type End = [f64; END];

/// Summary of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FlightSummary {
    /// How it ended.
    pub status: FlightStatus,
    /// Carry: straight distance from launch to landing in metres.
    pub carry: f64,
    /// Metres along the target line.
    pub downrange: f64,
    /// Metres to the right of the target line.
    pub lateral: f64,
    /// Maximum height in metres.
    pub apex: f64,
    /// Time of the apex in seconds.
    pub apex_time: f64,
    /// Flight time in seconds.
    pub time: f64,
    /// Metres per second at the landing.
    pub landing_speed: f64,
    /// Descent angle in degrees.
    pub landing_angle: f64,
    /// Spin at the landing in rpm.
    pub landing_spin: f64,
    /// Number of integration steps.
    pub steps: f64,
}

impl FlightSummary {
    /// Column names of the figures.
    pub const FIGURES: [&'static str; 10] = [
        "carry",
        "downrange",
        "lateral",
        "apex",
        "apex_time",
        "time",
        "landing_speed",
        "landing_angle",
        "landing_spin",
        "steps",
    ];

    /// The figures in the order of their names.
    pub fn figures(&self) -> [f64; 10] {
        [
            self.carry,
            self.downrange,
            self.lateral,
            self.apex,
            self.apex_time,
            self.time,
            self.landing_speed,
            self.landing_angle,
            self.landing_spin,
            self.steps,
        ]
    }

    pub(super) fn of(end: End) -> FlightSummary {
        let [time, x, _, z, u, v, w, spin, apex, apex_time, status, steps] = end;
        let level = (u * u + w * w).sqrt();
        let finite = end.iter().all(|n| n.is_finite());
        FlightSummary {
            status: if finite { FlightStatus::of(status) } else { FlightStatus::Diverged },
            carry: (x * x + z * z).sqrt(),
            downrange: x,
            lateral: z,
            apex,
            apex_time,
            time,
            landing_speed: (u * u + v * v + w * w).sqrt(),
            landing_angle: (-v).atan2(level).to_degrees(),
            landing_spin: spin * 30.0 / PI,
            steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spin_axis_is_perpendicular_to_the_velocity() {
        let base = Launch { speed: 60.0, angle: 20.0, spin: 3000.0, ..Launch::default() };
        for tilt in [-30.0, 0.0, 15.0, 90.0, 180.0] {
            for azimuth in [-90.0, 0.0, 45.0] {
                let [_, u, v, w, a, b, c, rate] = Launch { tilt, azimuth, ..base }.start().unwrap();
                assert!((a * u + b * v + c * w).abs() < 1e-12 && (a * a + b * b + c * c - 1.0).abs() < 1e-12);
                assert!((rate - 100.0 * PI).abs() < 1e-9);
            }
        }
        let [.., a, b, c, _] = base.start().unwrap();
        assert_eq!([a, b.abs(), c], [0.0, 0.0, 1.0], "backspin turns about the axis to the right");
        let [.., c, _] = Launch { spin: -3000.0, ..base }.start().unwrap();
        assert_eq!(c, -1.0, "topspin the other way");
    }

    #[test]
    fn status_round_trips_as_a_number() {
        for status in FlightStatus::ALL {
            assert_eq!(FlightStatus::of(status.number()), status);
        }
        assert_eq!(FlightStatus::of(f64::NAN), FlightStatus::Diverged);
    }

    #[test]
    fn every_field_is_checked() {
        let good = [60.0, 10.0, 0.0, 2500.0, 0.0, 0.0];
        assert!(Launch::of(good).check().is_ok());
        for (i, (name, limit)) in FIELDS.iter().enumerate() {
            for odd in [f64::NAN, limit.max * 1.01, f64::NEG_INFINITY] {
                let mut values = good;
                values[i] = odd;
                let error = Launch::of(values).check().unwrap_err().to_string();
                assert!(error.contains(name) && error.contains(limit.unit), "{error}");
            }
        }
    }
}
