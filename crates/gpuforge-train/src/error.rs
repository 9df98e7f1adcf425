//! Errors of training, each with its next step.

use std::path::PathBuf;

use gpuforge_frame::FrameError;
use gpuforge_indicators::select::SelectError;
use gpuforge_indicators_gpu::features::FeatureError;

/// Why there is no data set, no model or no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Bars cannot be read.
    #[error(transparent)]
    Read(#[from] FrameError),
    /// The selection of indicators cannot be read.
    #[error("the selection of indicators: {0}")]
    Select(#[from] SelectError),
    /// A model was made with an indicator that is not there.
    #[error(
        "{file} was made with `{selection}`, which cannot be selected here: {error}\n\
         hint: use the version of gpuforge that made it ({version}), or train again"
    )]
    UnknownIndicator {
        /// The checkpoint or the card.
        file: PathBuf,
        /// What it was made with.
        selection: String,
        /// Who made it.
        version: String,
        /// Why not.
        error: Box<SelectError>,
    },
    /// Features cannot be made.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// No series is long enough for a window and its target.
    #[error(
        "no sample: the longest of {series} series has {bars} bars, {needed} are needed ({before} before the first \
         normalised row, a window of {window}, a horizon of {horizon})\n\
         hint: give more bars, or lower --window, --horizon or the bars of --normalise"
    )]
    TooShort {
        /// Series there are.
        series: usize,
        /// Bars of the longest.
        bars: usize,
        /// Bars that one sample needs.
        needed: usize,
        /// Bars before the first row.
        before: usize,
        /// Rows of a window.
        window: usize,
        /// Bars to the target.
        horizon: usize,
    },
    /// A column without any number.
    #[error(
        "feature `{column}` has no finite value in any of {bars} bars\n\
         hint: leave it out, or give bars that have what it reads (volume, time)"
    )]
    EmptyFeature {
        /// Which.
        column: String,
        /// Bars of all series.
        bars: usize,
    },
    /// No row at which every column has a value.
    #[error("no row has a value in every one of {columns} features\nhint: select fewer of them")]
    NoRows {
        /// Features.
        columns: usize,
    },
    /// A column that knows what comes later.
    #[error(
        "feature `{column}` looks ahead: its value at bar {bar} of series {series} changes when later bars are taken \
         away ({full} with them, {cut} without)\nhint: leave it out; a model that reads it cannot be used"
    )]
    LooksAhead {
        /// Which.
        column: String,
        /// In which series.
        series: usize,
        /// At which bar.
        bar: usize,
        /// With all bars.
        full: f32,
        /// Without the later ones.
        cut: f32,
    },
    /// Parts that know of each other.
    #[error(transparent)]
    Leak(#[from] crate::data::split::Leak),
    /// A part of the split would be (nearly) empty.
    #[error(
        "the {part} part would have {samples} samples, at least {least} are needed ({positions} points of time, \
         {folds} folds, an embargo of {embargo})\nhint: give more bars, or lower --folds, --embargo or --horizon"
    )]
    SmallPart {
        /// Which.
        part: &'static str,
        /// How many it would have.
        samples: usize,
        /// How many it must have.
        least: usize,
        /// Points of time to divide.
        positions: usize,
        /// Folds that were asked for.
        folds: usize,
        /// Points of time between parts.
        embargo: usize,
    },
    /// Nothing to learn.
    #[error(
        "all {samples} targets of the training part are `{class}`: there is nothing to on_event apart\n\
         hint: choose another --target or --horizon, or bars in which something happens"
    )]
    OneClass {
        /// How many.
        samples: usize,
        /// Which.
        class: String,
    },
    /// A setting that makes no sense.
    #[error("{what} is {value}: {rule}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be.
        rule: &'static str,
    },
    /// A step whose loss or gradient is NaN or infinite.
    #[error(
        "step {step} (epoch {epoch}, batch {batch}) gave {what}: {cause}\n\
         hint: lower --lr, leave the feature out, or go on with --on-nan skip or reduce-lr"
    )]
    NotFinite {
        /// Which step.
        step: u64,
        /// In which epoch.
        epoch: usize,
        /// The batch of that epoch.
        batch: usize,
        /// Loss or gradient.
        what: &'static str,
        /// The feature, the symbol and the time, or that none is to nan_source.
        cause: String,
    },
    /// Skipped too often in a row.
    #[error(
        "{count} batches in a row gave no finite gradient, the last at step {step}: {cause}\nhint: lower --lr"
    )]
    NeverFinite {
        /// How many.
        count: usize,
        /// The last.
        step: u64,
        /// Of the last.
        cause: String,
    },
    /// A file of ours that was changed or cut off.
    #[error("{file} is not a {what} of ours: {why}\nhint: {next}")]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What it should be.
        what: &'static str,
        /// Why it is none.
        why: String,
        /// What to do.
        next: &'static str,
    },
    /// A file of another time.
    #[error(
        "{file} has format {found}, this version reads {known}\n\
         hint: use the version of gpuforge that wrote it ({version}), or train again without --resume"
    )]
    OtherVersion {
        /// Which file.
        file: PathBuf,
        /// Its format.
        found: u32,
        /// The one we read.
        known: u32,
        /// Who wrote it.
        version: String,
    },
    /// A checkpoint of another training.
    #[error(
        "{file} belongs to another training: {what} was {then}, now it is {now}\n\
         hint: repeat the options of the first run, or train into another --out"
    )]
    OtherTraining {
        /// Which file.
        file: PathBuf,
        /// What differs.
        what: String,
        /// In the checkpoint.
        then: String,
        /// In this run.
        now: String,
    },
    /// A file that cannot be read or written.
    #[error("{what} {file}: {error}")]
    File {
        /// What was done.
        what: &'static str,
        /// Which.
        file: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The device failed.
    #[error("the device failed at step {step}: {why}\nhint: --device cpu goes on with --resume")]
    Device {
        /// At which step.
        step: u64,
        /// What was said.
        why: String,
    },
    /// No memory, even for the smallest batch.
    #[error(
        "no memory for a batch of {batch} samples: {why}\nhint: a smaller --model or --window, or --device cpu"
    )]
    Memory {
        /// The batch that did not fit.
        batch: usize,
        /// What was said.
        why: String,
    },
    /// The device does not compute in what was asked for.
    #[error("{device} does not compute in {precision}\nhint: --precision f32")]
    Precision {
        /// What was asked for.
        precision: &'static str,
        /// Which device.
        device: String,
    },
    /// No device.
    #[error("no GPU can be used: {0}\nhint: --device cpu")]
    NoGpu(String),
}
