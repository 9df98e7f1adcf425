//! Arguments of `gpuforge trajectory`: fly, batch.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum, ValueHint};

use super::Placement;

#[derive(Debug, Subcommand)]
pub(crate) enum Trajectory {
    /// Simulate one launch, given by flags.
    #[command(after_help = FLY_EXAMPLES)]
    Fly(FlyArgs),
    /// Simulate every launch of a file.
    #[command(after_help = BATCH_EXAMPLES)]
    Batch(BatchArgs),
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
launch: its line in the input, how the flight ended, then its results in metres,
seconds, degrees and rpm. An invalid launch gets its error as status.";

#[derive(Debug, ClapArgs)]
pub(crate) struct FlyArgs {
    /// Launch speed in metres per second.
    #[arg(long, value_name = "M/S")]
    pub(crate) speed: f64,
    /// Launch angle above the horizontal, in degrees.
    #[arg(long, value_name = "DEG", allow_negative_numbers = true)]
    pub(crate) angle: f64,
    /// Launch direction to the right of the target line, in degrees.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) azimuth: f64,
    /// Spin in revolutions per minute; positive is backspin.
    #[arg(long, value_name = "RPM", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) spin: f64,
    /// Tilt of the spin axis in degrees; positive curves to the right.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) tilt: f64,
    /// Height of the launch above the ground, in metres.
    #[arg(long, value_name = "M", default_value_t = 0.0)]
    pub(crate) height: f64,
    #[command(flatten)]
    pub(crate) model: FlightModelArgs,
    #[command(flatten)]
    pub(crate) files: ExtraFiles,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BatchArgs {
    /// File of launches: .csv, .parquet, .arrow; `-` is stdin.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    /// File to write: .parquet (zstd), .arrow, .csv; `-` is CSV on stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Where to compute.
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(crate) device: Placement,
    #[command(flatten)]
    pub(crate) model: FlightModelArgs,
    #[command(flatten)]
    pub(crate) files: ExtraFiles,
}

/// Files written in addition to the summary.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExtraFiles {
    /// Also write every time step of every flight: .parquet, .arrow or .csv.
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
    /// Power law.
    Power,
    /// Logarithmic.
    Log,
}

/// Ball, air, wind and integration method.
#[derive(Debug, ClapArgs)]
pub(crate) struct FlightModelArgs {
    /// Mass of the ball in kilograms [default: a golf ball's].
    #[arg(long, value_name = "KG", help_heading = "Ball", allow_negative_numbers = true)]
    pub(crate) mass: Option<f64>,
    /// Radius of the ball in metres [default: a golf ball's].
    #[arg(long, value_name = "M", help_heading = "Ball", allow_negative_numbers = true)]
    pub(crate) radius: Option<f64>,
    /// Time constant of the spin decay (to 1/e) in seconds [default: a golf ball's].
    #[arg(long, value_name = "S", help_heading = "Ball")]
    pub(crate) spin_decay: Option<f64>,
    /// Altitude above sea level in metres.
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
    /// Air pressure in hectopascals [default: by the altitude].
    #[arg(long, value_name = "HPA", help_heading = "Air")]
    pub(crate) pressure: Option<f64>,
    /// No air: gravity only.
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
    /// Roughness length of the log profile, in metres.
    #[arg(long, value_name = "M", default_value_t = 0.03, help_heading = "Air")]
    pub(crate) roughness: f64,
    /// Fixed time step in seconds.
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.01,
        help_heading = "Method",
        conflicts_with = "tolerance"
    )]
    pub(crate) step: f64,
    /// Adaptive steps instead: largest error of the landing point, in metres.
    #[arg(long, value_name = "M", help_heading = "Method")]
    pub(crate) tolerance: Option<f64>,
    /// Flight time after which the simulation stops, in seconds.
    #[arg(long, value_name = "S", default_value_t = 60.0, help_heading = "Method")]
    pub(crate) time_limit: f64,
}
