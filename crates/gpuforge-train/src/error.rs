//! Errors of training, each with its next step.

use std::path::PathBuf;

use gpuforge_frame::FrameError;
use gpuforge_indicators::select::SelectError;
use gpuforge_indicators_gpu::features::FeatureError;

/// Why there is no dataset, no model or no prediction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Reading bars failed.
    #[error(transparent)]
    Read(#[from] FrameError),
    /// Invalid indicator selection.
    #[error("the selection of indicators: {0}")]
    Select(#[from] SelectError),
    /// A model uses an indicator that this version does not have.
    #[error(
        "{file} was made with `{selection}`, which cannot be selected here: {error}\n\
         hint: use the version of gpuforge that made it ({version}), or train again"
    )]
    UnknownIndicator {
        /// The checkpoint or model card.
        file: PathBuf,
        /// Its indicator selection.
        selection: String,
        /// The version that wrote it.
        version: String,
        /// The cause.
        error: Box<SelectError>,
    },
    /// Computing features failed.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// No series is long enough for a window and its target.
    #[error(
        "no sample: the longest of {series} series has {bars} bars, {needed} are needed ({before} before the first \
         normalised row, a window of {window}, a horizon of {horizon})\n\
         hint: give more bars, or lower --window, --horizon or the bars of --normalise"
    )]
    TooShort {
        /// Number of series.
        series: usize,
        /// Bars of the longest.
        bars: usize,
        /// Bars that one sample needs.
        needed: usize,
        /// Warm-up: bars before the first row.
        before: usize,
        /// Window length in rows.
        window: usize,
        /// Bars to the target.
        horizon: usize,
    },
    /// A feature without a finite value.
    #[error(
        "feature `{column}` has no finite value in any of {bars} bars\n\
         hint: leave it out, or give bars that have what it reads (volume, time)"
    )]
    EmptyFeature {
        /// The feature.
        column: String,
        /// Bars of all series.
        bars: usize,
    },
    /// No row has a value in every column.
    #[error("no row has a value in every one of {columns} features\nhint: select fewer of them")]
    NoRows {
        /// Features.
        columns: usize,
    },
    /// A feature with look-ahead.
    #[error(
        "feature `{column}` looks ahead: its value at bar {bar} of series {series} changes when later bars are taken \
         away ({full} with them, {cut} without)\nhint: leave it out; a model that reads it cannot be used"
    )]
    LooksAhead {
        /// The feature.
        column: String,
        /// In which series.
        series: usize,
        /// At which bar.
        bar: usize,
        /// With all bars.
        full: f32,
        /// Without the later bars.
        cut: f32,
    },
    /// Leakage between split parts.
    #[error(transparent)]
    Leak(#[from] crate::data::split::Leak),
    /// A part of the split would be (nearly) empty.
    #[error(
        "the {part} part would have {samples} samples, at least {min} are needed ({positions} time steps, \
         {folds} folds, an embargo of {embargo})\nhint: give more bars, or lower --folds, --embargo or --horizon"
    )]
    PartTooSmall {
        /// The part.
        part: &'static str,
        /// Samples it would have.
        samples: usize,
        /// Samples it must have.
        min: usize,
        /// Time steps to split.
        positions: usize,
        /// Requested folds.
        folds: usize,
        /// Time steps between parts.
        embargo: usize,
    },
    /// All training targets are equal.
    #[error(
        "all {samples} targets of the training part are `{class}`: there is nothing to learn\n\
         hint: choose another --target or --horizon, or other bars"
    )]
    OneClass {
        /// Number of entries.
        samples: usize,
        /// The class.
        class: String,
    },
    /// A setting out of range.
    #[error("{what} is {value}: {rule}")]
    InvalidSetting {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: String,
        /// Its valid range.
        rule: &'static str,
    },
    /// A step whose loss or gradient is NaN or infinite.
    #[error(
        "step {step} (epoch {epoch}, batch {batch}) gave {what}: {cause}\n\
         hint: lower --lr, leave the feature out, or go on with --on-nan skip or reduce-lr"
    )]
    NotFinite {
        /// The step.
        step: u64,
        /// The epoch.
        epoch: usize,
        /// The batch within the epoch.
        batch: usize,
        /// Loss or gradient.
        what: &'static str,
        /// The offending feature, symbol and bar, or that every feature is finite.
        cause: String,
    },
    /// Too many skipped batches in a row.
    #[error(
        "{count} consecutive batches had a NaN or infinite gradient, the last at step {step}: {cause}\nhint: lower --lr"
    )]
    NeverFinite {
        /// Number of entries.
        count: usize,
        /// The last.
        step: u64,
        /// Of the last.
        cause: String,
    },
    /// A corrupt or truncated file.
    #[error("{file} is not a valid {what}: {why}\nhint: {next}")]
    Corrupt {
        /// Which file.
        file: PathBuf,
        /// The expected kind of file.
        what: &'static str,
        /// What is wrong with it.
        why: String,
        /// The hint.
        next: &'static str,
    },
    /// A file of another format version.
    #[error(
        "{file} has format {found}, this version reads {known}\n\
         hint: use the version of gpuforge that wrote it ({version}), or train again without --resume"
    )]
    FormatVersion {
        /// Which file.
        file: PathBuf,
        /// Its format.
        found: u32,
        /// The supported format.
        known: u32,
        /// The version that wrote it.
        version: String,
    },
    /// A checkpoint of another configuration.
    #[error(
        "{file} belongs to another configuration: {what} was {then}, now it is {now}\n\
         hint: repeat the options of the first run, or train into another --out"
    )]
    ConfigMismatch {
        /// Which file.
        file: PathBuf,
        /// What differs.
        what: String,
        /// In the checkpoint.
        then: String,
        /// In this run.
        now: String,
    },
    /// File I/O failed.
    #[error("{what} {file}: {error}")]
    File {
        /// The operation.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The device failed.
    #[error("the device failed at step {step}: {why}\nhint: continue with --device cpu --resume")]
    Device {
        /// At which step.
        step: u64,
        /// The backend's message.
        why: String,
    },
    /// Out of memory even with the smallest batch.
    #[error(
        "out of memory with a batch of {batch} samples: {why}\nhint: a smaller --model or --window, or --device cpu"
    )]
    OutOfMemory {
        /// The batch that did not fit.
        batch: usize,
        /// The backend's message.
        why: String,
    },
    /// The device does not support the precision.
    #[error("{device} does not support {precision}\nhint: --precision f32")]
    Precision {
        /// The requested precision.
        precision: &'static str,
        /// Which device.
        device: String,
    },
    /// No usable GPU.
    #[error("no usable GPU: {0}\nhint: --device cpu")]
    NoGpu(String),
}
