//! Device-resident feature tables for training: indicators of many series, normalised causally, one row per series and bar,
//! and batches of sliding windows gathered by index.
//!
//! ```text
//!   bars ──1 upload──► indicator plan ──► shader/features.wgsl        decoded values, z-scores or ranks, row-major
//!                                         shader/features_mask.wgsl   rows with a NaN: zeroed, masked
//!   Features ── windows(len) ──► table of window ends on the device   shader/features_window_ends.wgsl
//!            └─ gather(len, ends) ──► [n, len, columns] on the device shader/features_gather.wgsl
//! ```
//!
//! Rows begin at the first bar at which every column has a value and enough bars to normalise over. A non-finite value
//! masks its row: the row is zero, and no window contains it. No value depends on later bars.
//!
//! Arithmetic: z-scores use the population variance, in two passes. A rank is the fraction of the *other* bars below, ties
//! half; both skip non-finite values. A window is flat (z-score 0, rank 1/2) if it spans less than [`TIE_TOLERANCE`] of its
//! largest magnitude, and values closer than that are ties: f32 and f64 must agree on what is rounding.

use std::{borrow::Cow, ops::Range, sync::Arc};

use gpuforge_indicators::{
    exec::Series,
    graph::{Graph, ValueId},
};
use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel},
    plan::{Plan, PlanError},
    runner::{DeviceRunError, Runner, SplittableBatch},
    tensor::{DType, ShapeError, Tensor, TensorSpec},
    units::Bytes,
};

use crate::{
    gpu_executor::{GpuExecSettings, GpuExecStats},
    kernels,
};

mod build;
mod cpu;
mod sliding_windows;

pub use sliding_windows::{SlidingWindows, WindowBatch, WindowEnds};

/// Differences below this fraction of a window's largest magnitude are rounding.
pub const TIE_TOLERANCE: f64 = 1e-6;
/// The same as a fraction of the series' price offset: cancellation leaves rounding of prices behind.
const FLAT_TOLERANCE: f64 = 1e-12;
/// Maximum normalisation window and sliding window: kernels loop over them.
pub const MAX_BARS: usize = 4096;
/// Maximum number of columns: a kernel loops over them.
pub const MAX_COLUMNS: usize = 8192;
/// Workgroup sizes, as in the shaders.
const GROUP: usize = 64;
const WIDE_GROUP: usize = 256;

/// Causal normalisation of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalise {
    /// None: decoded values.
    #[default]
    None,
    /// Rolling z-score over the last bars, including the current one.
    ZScore(usize),
    /// Rolling rank among the last bars: 0 is the lowest, 1 the highest.
    Rank(usize),
}

impl Normalise {
    /// Window length in bars, including the current one.
    pub fn bars(self) -> usize {
        match self {
            Normalise::None => 1,
            Normalise::ZScore(n) | Normalise::Rank(n) => n,
        }
    }

    fn mode(self) -> u32 {
        match self {
            Normalise::None => 0,
            Normalise::ZScore(_) => 1,
            Normalise::Rank(_) => 2,
        }
    }
}

/// The columns of a feature table.
#[derive(Debug, Clone, Copy)]
pub struct FeatureSpec<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The columns.
    pub values: &'a [ValueId],
    /// Normalisation of each.
    pub normalise: &'a [Normalise],
    /// Which of them a device computes (see [`crate::placement`]); the CPU computes the others, and they are part of the one
    /// upload.
    pub on_device: &'a [bool],
}

impl FeatureSpec<'_> {
    fn check(&self) -> Result<(), FeatureError> {
        let (columns, normalisations, on) = (self.values.len(), self.normalise.len(), self.on_device.len());
        if columns == 0 || columns > MAX_COLUMNS {
            return Err(FeatureError::Columns { columns });
        }
        if normalisations != columns || on != columns {
            return Err(FeatureError::Uneven { columns, normalisations, on });
        }
        let fits = |n: &usize| (1..=MAX_BARS).contains(n);
        match self.normalise.iter().map(|n| n.bars()).find(|n| !fits(n)) {
            Some(bars) => Err(FeatureError::Bars { bars }),
            None => Ok(()),
        }
    }

    /// The first bar with a row.
    fn start(&self) -> usize {
        let ready = |(v, n): (&ValueId, &Normalise)| self.graph.start(*v) + n.bars() - 1;
        self.values.iter().zip(self.normalise).map(ready).max().unwrap_or(0)
    }
}

/// Why features cannot be built or read.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    /// The device failed permanently.
    #[error("the device could not make the features: {0}")]
    Device(#[from] DeviceRunError),
    /// The download failed.
    #[error("the features could not be fetched: {0}")]
    Fetch(#[source] DeviceRunError),
    /// Out of memory.
    #[error(
        "{what} needs {need} on the device, one buffer may have {largest} and a batch {memory}: select fewer columns or \
         shorter series, raise the memory limit, or use the CPU"
    )]
    Memory {
        /// What does not fit.
        what: String,
        /// Bytes that it needs.
        need: Bytes,
        /// The largest buffer binding.
        largest: Bytes,
        /// Memory limit of a batch.
        memory: Bytes,
    },
    /// No column, or too many.
    #[error("{columns} columns were asked for: there must be 1 to {MAX_COLUMNS}")]
    Columns {
        /// Number of columns.
        columns: usize,
    },
    /// Lists of different lengths.
    #[error("{columns} columns, but {normalisations} normalisations and {on} device flags")]
    Uneven {
        /// Columns.
        columns: usize,
        /// Normalisations.
        normalisations: usize,
        /// Device flags.
        on: usize,
    },
    /// A window that is too long, or empty.
    #[error("a window of {bars} bars was asked for: there must be 1 to {MAX_BARS}")]
    Bars {
        /// How many.
        bars: usize,
    },
    /// No column can be lowered.
    #[error("no column can be computed on a device: build the features on the CPU")]
    Unsupported,
    /// A window that does not exist.
    #[error("no window of {len} rows ends at row {row}: {why}")]
    NoWindow {
        /// The row, or the index into the table of window ends.
        row: usize,
        /// Rows of the window.
        len: usize,
        /// Why.
        why: &'static str,
    },
    /// Data and shape disagree.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// The rows of one series.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SeriesRows {
    /// Index of the series.
    pub series: usize,
    /// Bar of the first row.
    pub first_bar: usize,
    /// Row range over all chunks.
    pub rows: Range<usize>,
}

/// Rows in one buffer.
#[derive(Debug, Clone)]
pub struct FeatureChunk {
    /// Row range over all chunks.
    pub rows: Range<usize>,
    /// `[rows, columns]`, f32.
    pub values: Tensor,
    /// `[rows]`, f32: 1 where every column has a finite value, else 0.
    pub valid: Tensor,
}

/// Rows in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRows {
    /// Columns of a row.
    pub columns: usize,
    /// Row-major values.
    pub values: Vec<f32>,
    /// 1 for valid rows, else 0.
    pub valid: Vec<f32>,
}

/// A feature table, resident on a device or in host memory. Cloning shares the buffers.
#[derive(Clone)]
pub struct Features {
    columns: usize,
    series_rows: Arc<[SeriesRows]>,
    chunks: Vec<FeatureChunk>,
    stats: GpuExecStats,
    /// The device that holds the buffers.
    device: Option<Arc<Runner>>,
    largest: Bytes,
}

impl Features {
    /// Builds a table on a device; nothing is downloaded. Series that are too short have no rows.
    pub fn on_device(
        runner: &Arc<Runner>,
        spec: &FeatureSpec<'_>,
        series: &[Series<'_>],
        settings: GpuExecSettings,
    ) -> Result<Features, FeatureError> {
        spec.check()?;
        let builder = build::FeatureBuilder::new(spec, series, settings)?;
        let mut chunks = Vec::new();
        let mut first = 0;
        for range in builder.chunks()? {
            for (items, values, valid) in builder.build(runner, range)? {
                let rows = first..first + builder.rows(items);
                first = rows.end;
                chunks.push(FeatureChunk { rows, values, valid });
            }
        }
        Ok(Features {
            columns: spec.values.len(),
            series_rows: builder.series_rows(),
            chunks,
            stats: builder.into_stats(),
            device: Some(runner.clone()),
            largest: settings.largest,
        })
    }

    /// Columns of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Total rows.
    pub fn rows(&self) -> usize {
        self.chunks.last().map_or(0, |c| c.rows.end)
    }

    /// Which rows belong to which series: row `r` of an entry is bar `first_bar + r - rows.start` of its series.
    pub fn series_rows(&self) -> &[SeriesRows] {
        &self.series_rows
    }

    /// Buffers, in row order.
    pub fn chunks(&self) -> &[FeatureChunk] {
        &self.chunks
    }

    /// Counters of the device runs.
    pub fn stats(&self) -> &GpuExecStats {
        &self.stats
    }

    /// Downloads all rows.
    pub fn to_host(&self) -> Result<HostRows, FeatureError> {
        let mut rows = HostRows { columns: self.columns, values: Vec::new(), valid: Vec::new() };
        for chunk in &self.chunks {
            rows.values.extend(self.fetch::<f32>(&chunk.values)?);
            rows.valid.extend(self.fetch::<f32>(&chunk.valid)?);
        }
        Ok(rows)
    }

    /// Downloads a tensor of this table. Unlike [`Runner::read`], no host copy is cached: tables are large and seldom read
    /// twice.
    pub fn fetch<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &self,
        tensor: &Tensor,
    ) -> Result<Vec<T>, FeatureError> {
        let (Some(runner), None) = (&self.device, tensor.host_chunks()) else {
            return Ok(bytemuck::pod_collect_to_vec(&tensor.host().unwrap_or_default()));
        };
        let mut plan = Plan::new("features to the host");
        let slot = plan.import(tensor);
        plan.download_first(slot, tensor.spec().size().unwrap_or_default()).map_err(plan_error)?;
        let outcome = runner.run_batch_on_device(&RecordedBatch(plan)).map_err(FeatureError::Fetch)?;
        let bytes = outcome.chunks.into_iter().flat_map(|p| p.outputs).next().unwrap_or_default();
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }
}

/// Kernel names and WGSL sources; those that read the arena are prefixed with `common.wgsl`.
const SOURCES: [(&str, bool, &str); 5] = [
    (
        "features",
        true,
        concat!(include_str!("../shader/segment_walk.wgsl"), include_str!("../shader/features.wgsl")),
    ),
    ("features-join", false, include_str!("../shader/features_join.wgsl")),
    ("features-mask", false, include_str!("../shader/features_mask.wgsl")),
    ("features-ends", false, include_str!("../shader/features_window_ends.wgsl")),
    ("features-gather", false, include_str!("../shader/features_gather.wgsl")),
];

fn source(arena: bool, own: &'static str) -> Cow<'static, str> {
    if arena { kernels::source(own).into() } else { own.into() }
}

/// Kernel names and complete WGSL sources.
pub fn sources() -> [(&'static str, Cow<'static, str>); 5] {
    SOURCES.map(|(name, arena, own)| (name, source(arena, own)))
}

/// A kernel; `suffix` distinguishes uses of one source with different bindings.
fn kernel(of: &str, suffix: &str, bindings: &[Access]) -> Arc<Kernel> {
    let name = format!("{of}{suffix}");
    let found = SOURCES.iter().find(|(name, ..)| *name == of);
    let refused = CpuReferenceError {
        kernel: name.clone(),
        why: "the CPU builds whole feature tables, not single kernel calls".to_owned(),
    };
    Arc::new(Kernel {
        name: name.into(),
        wgsl: found.map(|(_, arena, own)| source(*arena, own)).unwrap_or_default(),
        entry: "main",
        bindings: bindings.to_vec(),
        cpu_reference: Arc::new(move |_| Err(refused.clone())),
    })
}

fn floats(shape: &[usize], tag: &'static str) -> TensorSpec {
    TensorSpec { dtype: DType::F32, shape: shape.to_vec(), tag }
}

/// A recorded plan as an indivisible batch.
struct RecordedBatch(Plan);

impl SplittableBatch for RecordedBatch {
    fn len(&self) -> usize {
        1
    }

    fn record(&self, _: Range<usize>) -> Result<Plan, PlanError> {
        Ok(self.0.clone())
    }
}

/// A recording error as a device error.
fn plan_error(error: PlanError) -> FeatureError {
    FeatureError::Device(DeviceRunError { error: error.into(), events: Vec::new() })
}
