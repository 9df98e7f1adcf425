//! What can be typed after `gpuforge trajectory`?

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum, ValueHint};

use crate::args::Where;

#[derive(Debug, Subcommand)]
pub(crate) enum Trajectory {
    /// Fly one launch, given by flags.
    #[command(after_help = FLY_EXAMPLES)]
    Fly(Fly),
    /// Fly every launch of a file.
    #[command(after_help = BATCH_EXAMPLES)]
    Batch(Batch),
}

const FLY_EXAMPLES: &str = "\
Examples:
  gpuforge trajectory fly --speed 70 --angle 12 --spin 2600
  gpuforge trajectory fly --speed 55 --angle 18 --spin 6500 --tilt 10 \\
      --wind 6 --wind-from 45 --wind-profile log --svg flight.svg
  gpuforge trajectory fly --speed 20 --angle 45 --vacuum --json";

const BATCH_EXAMPLES: &str = "\
Examples:
  gpuforge trajectory batch launches.csv -o landings.parquet
  gpuforge trajectory batch launches.parquet -o - --tolerance 0.001
  gpuforge trajectory batch launches.csv -o l.csv --paths paths.parquet --svg f.svg

The columns speed (m/s) and angle (degrees) are needed; azimuth, spin (rpm), tilt
(degrees) and height (m) are 0 where they are missing. A row of the output is a
launch: its line in the input, how the flight ended, then its figures in metres,
seconds, degrees and rpm. A launch that makes no sense gets its error as status.";

#[derive(Debug, ClapArgs)]
pub(crate) struct Fly {
    /// Launch speed in metres per second.
    #[arg(long, value_name = "M/S")]
    pub(crate) speed: f64,
    /// Launch angle above the level, in degrees.
    #[arg(long, value_name = "DEG", allow_negative_numbers = true)]
    pub(crate) angle: f64,
    /// Launch direction to the right of the target line, in degrees.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) azimuth: f64,
    /// Spin in turns per minute; positive is backspin.
    #[arg(long, value_name = "RPM", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) spin: f64,
    /// Lean of the spin axis in degrees; positive curves to the right.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) tilt: f64,
    /// Height of the launch above the ground, in metres.
    #[arg(long, value_name = "M", default_value_t = 0.0)]
    pub(crate) height: f64,
    #[command(flatten)]
    pub(crate) surroundings: Surroundings,
    #[command(flatten)]
    pub(crate) drawn: Drawn,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Batch {
    /// File of launches: .csv, .parquet, .arrow; `-` is standard input.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    /// File to write: .parquet (zstd), .arrow, .csv; `-` is CSV on stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Where to compute.
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(crate) device: Where,
    #[command(flatten)]
    pub(crate) surroundings: Surroundings,
    #[command(flatten)]
    pub(crate) drawn: Drawn,
}

/// Files beside the figures.
#[derive(Debug, ClapArgs)]
pub(crate) struct Drawn {
    /// Also write every step of every flight: .parquet, .arrow or .csv.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) paths: Option<PathBuf>,
    /// Also draw the flights from the side and from above: .svg.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
}

/// How wind grows with height.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WindProfile {
    /// The same at every height.
    Uniform,
    /// By a power of the height.
    Power,
    /// With the logarithm of the height.
    Log,
}

/// Ball, air, wind and method.
#[derive(Debug, ClapArgs)]
pub(crate) struct Surroundings {
    /// Mass of the ball in kilograms [default: a golf ball's].
    #[arg(long, value_name = "KG", help_heading = "Ball", allow_negative_numbers = true)]
    pub(crate) mass: Option<f64>,
    /// Radius of the ball in metres [default: a golf ball's].
    #[arg(long, value_name = "M", help_heading = "Ball", allow_negative_numbers = true)]
    pub(crate) radius: Option<f64>,
    /// Seconds in which the spin falls to 1/e [default: a golf ball's].
    #[arg(long, value_name = "S", help_heading = "Ball")]
    pub(crate) spin_decay: Option<f64>,
    /// Altitude of the place in metres.
    #[arg(
        long,
        value_name = "M",
        default_value_t = 0.0,
        help_heading = "Air",
        allow_negative_numbers = true
    )]
    pub(crate) altitude: f64,
    /// Temperature in degrees Celsius.
    #[arg(
        long,
        value_name = "C",
        default_value_t = 15.0,
        help_heading = "Air",
        allow_negative_numbers = true
    )]
    pub(crate) temperature: f64,
    /// Relative humidity in per cent.
    #[arg(long, value_name = "PCT", default_value_t = 0.0, help_heading = "Air")]
    pub(crate) humidity: f64,
    /// Air pressure at the place in hectopascals [default: by the altitude].
    #[arg(long, value_name = "HPA", help_heading = "Air")]
    pub(crate) pressure: Option<f64>,
    /// No air: nothing but gravity.
    #[arg(long, help_heading = "Air")]
    pub(crate) vacuum: bool,
    /// Wind speed in metres per second, 10 m above the ground.
    #[arg(long, value_name = "M/S", default_value_t = 0.0, help_heading = "Air")]
    pub(crate) wind: f64,
    /// Where the wind comes from, in degrees from the target line: 0 against the ball, 90 from the right.
    #[arg(
        long,
        value_name = "DEG",
        default_value_t = 0.0,
        help_heading = "Air",
        allow_negative_numbers = true
    )]
    pub(crate) wind_from: f64,
    /// How the wind grows with height.
    #[arg(long, value_name = "PROFILE", default_value = "uniform", help_heading = "Air")]
    pub(crate) wind_profile: WindProfile,
    /// Exponent of the power profile.
    #[arg(long, value_name = "N", default_value_t = 0.14, help_heading = "Air")]
    pub(crate) wind_exponent: f64,
    /// Roughness of the ground in the log profile, in metres.
    #[arg(long, value_name = "M", default_value_t = 0.03, help_heading = "Air")]
    pub(crate) roughness: f64,
    /// Seconds of a fixed step.
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.01,
        help_heading = "Method",
        conflicts_with = "tolerance"
    )]
    pub(crate) step: f64,
    /// Steps that follow the error instead: the most that a landing point may be wrong, in metres.
    #[arg(long, value_name = "M", help_heading = "Method")]
    pub(crate) tolerance: Option<f64>,
    /// Seconds after which a flight ends in the air.
    #[arg(long, value_name = "S", default_value_t = 60.0, help_heading = "Method")]
    pub(crate) time_limit: f64,
}
