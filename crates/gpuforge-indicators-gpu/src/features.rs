//! What does training read? Rows of features that stay on the device: indicators of many series, normalised by what was
//! known at each bar, one row per series and bar, and batches of windows drawn from them by index.
//!
//! ```text
//!   bars ──1 upload──► plan of the indicators ──► shader/features.wgsl        full values or z-score or rank, row by row
//!                                                 shader/features_mask.wgsl   rows with anything missing: emptied, marked
//!   Features ── windows(len) ──► table of ends on the device                  shader/features_ends.wgsl
//!            └─ gather(len, ends) ──► [n, len, columns] on the device         shader/features_gather.wgsl
//! ```
//!
//! A row is there from the first bar at which every column has a value, and as many bars to look back on as it is
//! normalised over. A number that is not finite marks its row as not valid; the row is then zero throughout, and windows
//! over it are no windows. What is said of a bar rests on that bar and those before it only.
//!
//! Arithmetic: a z-score is that of the population, in two passes. A rank is the share of the *other* bars that are below,
//! ties half; both leave out what is not finite. A window is flat (z-score 0, rank 1/2) if it spans less than [`SAME`] of its
//! largest magnitude, and equal is what is closer than that: f32 and f64 must agree on what is rounding.

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

mod cpu;
mod make;
mod window;

pub use window::{Ends, Samples, Windows};

/// Differences below this share of a window's largest magnitude are rounding.
pub const SAME: f64 = 1e-6;
/// The same as a share of the level of a series' prices: what cancels leaves rounding of them behind.
const NOTHING: f64 = 1e-12;
/// Bars that a column is normalised over, and rows of a window, at most: kernels loop over them.
pub const MOST_BARS: usize = 4096;
/// Columns at most: a kernel loops over them.
pub const MOST_COLUMNS: usize = 8192;
/// Invocations of a group, as in the shaders.
const GROUP: usize = 64;
const WIDE_GROUP: usize = 256;

/// What is done to a column, by what was known at each bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalise {
    /// Nothing: full values.
    #[default]
    None,
    /// How many standard deviations from the mean of the last bars, itself among them.
    ZScore(usize),
    /// Where among the last bars: 0 is the lowest, 1 the highest.
    Rank(usize),
}

impl Normalise {
    /// Bars that it looks at; one is the bar itself.
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

/// Which features.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Where values come from.
    pub graph: &'a Graph,
    /// The columns.
    pub values: &'a [ValueId],
    /// What is done to each of them.
    pub normalise: &'a [Normalise],
    /// Which of them a device computes (see [`crate::placement`]); the processor computes the others, and they are part of
    /// the one upload.
    pub on: &'a [bool],
}

impl Ask<'_> {
    fn check(&self) -> Result<(), FeatureError> {
        let (columns, ways, on) = (self.values.len(), self.normalise.len(), self.on.len());
        if columns == 0 || columns > MOST_COLUMNS {
            return Err(FeatureError::Columns { columns });
        }
        if ways != columns || on != columns {
            return Err(FeatureError::Uneven { columns, ways, on });
        }
        let fits = |n: &usize| (1..=MOST_BARS).contains(n);
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

/// Why there are no features.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    /// The device failed for good.
    #[error("the device could not make the features: {0}")]
    Device(#[from] DeviceRunError),
    /// They could not be fetched.
    #[error("the features could not be fetched: {0}")]
    Fetch(#[source] DeviceRunError),
    /// They are too large.
    #[error(
        "{what} needs {need} on the device, one buffer may have {largest} and a batch {memory}: select fewer columns or \
         shorter series, raise the memory limit, or use the processor"
    )]
    Memory {
        /// What.
        what: String,
        /// Bytes that it needs.
        need: Bytes,
        /// The largest buffer.
        largest: Bytes,
        /// What a batch may hold.
        memory: Bytes,
    },
    /// None or too many.
    #[error("{columns} columns were asked for: there must be 1 to {MOST_COLUMNS}")]
    Columns {
        /// How many.
        columns: usize,
    },
    /// Lists of different lengths.
    #[error("{columns} columns, but {ways} ways to normalise them and {on} places to compute them")]
    Uneven {
        /// Columns.
        columns: usize,
        /// Ways to normalise.
        ways: usize,
        /// Places.
        on: usize,
    },
    /// A window that is too long, or empty.
    #[error("a window of {bars} bars was asked for: there must be 1 to {MOST_BARS}")]
    Bars {
        /// How many.
        bars: usize,
    },
    /// Nothing of it can be computed on a device.
    #[error("no column can be computed on a device: make the features on the processor")]
    Unfit,
    /// A window that is not there.
    #[error("no window of {len} rows ends at row {row}: {why}")]
    NoWindow {
        /// The row, or the place in the table of ends.
        row: usize,
        /// Rows of the window.
        len: usize,
        /// Why.
        why: &'static str,
    },
    /// Numbers and shapes do not agree.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// Rows of one series.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Segment {
    /// Which.
    pub series: usize,
    /// The bar of its first row.
    pub first_bar: usize,
    /// Its rows, counted over all chunks.
    pub rows: Range<usize>,
}

/// Rows in one piece of memory.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Which, of all.
    pub rows: Range<usize>,
    /// `[rows, columns]`, f32.
    pub values: Tensor,
    /// `[rows]`, f32: 1 where every column has a finite value, else 0.
    pub valid: Tensor,
}

/// Rows on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRows {
    /// Numbers of a row.
    pub columns: usize,
    /// Row after row.
    pub values: Vec<f32>,
    /// 1 for valid rows, else 0.
    pub valid: Vec<f32>,
}

/// Rows of features, on a device or, where there is none, on the processor. Cloning shares the numbers.
#[derive(Clone)]
pub struct Features {
    columns: usize,
    segments: Arc<[Segment]>,
    chunks: Vec<Chunk>,
    stats: GpuExecStats,
    /// The device that they are on.
    home: Option<Arc<Runner>>,
    largest: Bytes,
}

impl Features {
    /// On a device. Nothing comes back; series that are too short have no rows.
    pub fn on_device(
        runner: &Arc<Runner>,
        ask: &Ask<'_>,
        series: &[Series<'_>],
        settings: GpuExecSettings,
    ) -> Result<Features, FeatureError> {
        ask.check()?;
        let maker = make::Maker::new(ask, series, settings)?;
        let mut chunks = Vec::new();
        let mut first = 0;
        for range in maker.chunks()? {
            for (items, values, valid) in maker.make(runner, range)? {
                let rows = first..first + maker.rows(items);
                first = rows.end;
                chunks.push(Chunk { rows, values, valid });
            }
        }
        Ok(Features {
            columns: ask.values.len(),
            segments: maker.segments(),
            chunks,
            stats: maker.into_stats(),
            home: Some(runner.clone()),
            largest: settings.largest,
        })
    }

    /// Numbers of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows of all chunks.
    pub fn rows(&self) -> usize {
        self.chunks.last().map_or(0, |c| c.rows.end)
    }

    /// Whose rows they are: row `r` of a segment is bar `first_bar + r - rows.start` of its series.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Pieces of memory, in the order of their rows.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// What it took to make them.
    pub fn stats(&self) -> &GpuExecStats {
        &self.stats
    }

    /// All rows on the host.
    pub fn to_host(&self) -> Result<HostRows, FeatureError> {
        let mut rows = HostRows { columns: self.columns, values: Vec::new(), valid: Vec::new() };
        for chunk in &self.chunks {
            rows.values.extend(self.fetch::<f32>(&chunk.values)?);
            rows.valid.extend(self.fetch::<f32>(&chunk.valid)?);
        }
        Ok(rows)
    }

    /// Numbers of a tensor that belongs to these features. Unlike [`Runner::read`], the host keeps nothing: features are
    /// large, and seldom looked at twice.
    pub fn fetch<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &self,
        tensor: &Tensor,
    ) -> Result<Vec<T>, FeatureError> {
        let (Some(runner), None) = (&self.home, tensor.host_chunks()) else {
            return Ok(bytemuck::pod_collect_to_vec(&tensor.host().unwrap_or_default()));
        };
        let mut plan = Plan::new("features to the host");
        let slot = plan.import(tensor);
        plan.download_first(slot, tensor.spec().size().unwrap_or_default()).map_err(mistake)?;
        let outcome = runner.run_batch_on_device(&Whole(plan)).map_err(FeatureError::Fetch)?;
        let bytes = outcome.chunks.into_iter().flat_map(|p| p.outputs).next().unwrap_or_default();
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }
}

/// Names and texts of the kernels here; those that read the arena begin with what all of its kernels share.
const TEXTS: [(&str, bool, &str); 5] = [
    ("features", true, concat!(include_str!("../shader/walk.wgsl"), include_str!("../shader/features.wgsl"))),
    ("features-join", false, include_str!("../shader/features_join.wgsl")),
    ("features-mask", false, include_str!("../shader/features_mask.wgsl")),
    ("features-ends", false, include_str!("../shader/features_ends.wgsl")),
    ("features-gather", false, include_str!("../shader/features_gather.wgsl")),
];

fn text(arena: bool, own: &'static str) -> Cow<'static, str> {
    if arena { kernels::text(own).into() } else { own.into() }
}

/// Names and whole texts of the kernels here.
pub fn texts() -> [(&'static str, Cow<'static, str>); 5] {
    TEXTS.map(|(name, arena, own)| (name, text(arena, own)))
}

/// A kernel of those; `how` tells uses of one text with different bindings apart.
fn kernel(of: &str, how: &str, bindings: &[Access]) -> Arc<Kernel> {
    let name = format!("{of}{how}");
    let found = TEXTS.iter().find(|(name, ..)| *name == of);
    let refused = CpuReferenceError {
        kernel: name.clone(),
        why: "the processor makes whole features, not single calls of a device's plan".to_owned(),
    };
    Arc::new(Kernel {
        name: name.into(),
        wgsl: found.map(|(_, arena, own)| text(*arena, own)).unwrap_or_default(),
        entry: "main",
        bindings: bindings.to_vec(),
        cpu_reference: Arc::new(move |_| Err(refused.clone())),
    })
}

fn floats(shape: &[usize], tag: &'static str) -> TensorSpec {
    TensorSpec { dtype: DType::F32, shape: shape.to_vec(), tag }
}

/// A plan that is recorded already, as the runner wants it.
struct Whole(Plan);

impl SplittableBatch for Whole {
    fn len(&self) -> usize {
        1
    }

    fn record(&self, _: Range<usize>) -> Result<Plan, PlanError> {
        Ok(self.0.clone())
    }
}

/// A plan that cannot be recorded, as what the runner would have said.
fn mistake(error: PlanError) -> FeatureError {
    FeatureError::Device(DeviceRunError { error: error.into(), events: Vec::new() })
}
