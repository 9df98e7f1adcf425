//! Sliding windows over a feature table: stream compaction of the valid window ends, and gather of batches by index.
//!
//! Rows of a series are contiguous, so a window is identified by its last row. Both the table of ends and the batches are
//! made where the rows are; only indices are uploaded.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use gpuforge_runtime::{
    kernel::Access,
    plan::{Plan, PlanError, Slot},
    tensor::{DType, Tensor, TensorSpec},
    units::Bytes,
};

use super::{
    FeatureChunk, FeatureError, Features, GROUP, MAX_BARS, RecordedBatch, WIDE_GROUP, floats, kernel,
    plan_error,
};
use crate::record::{dispatch_grid, word};

/// No row: padding of a table of ends.
const NONE: u32 = u32::MAX;
/// Maximum blocks of a chunk's rows: one invocation scans their counts.
const BLOCKS: usize = 8192;
/// Minimum rows of a block.
const MIN_BLOCK: usize = 64;

/// Window ends of a chunk.
#[derive(Debug, Clone)]
pub struct WindowEnds {
    /// `[capacity]`, u32: rows of the chunk at which a window ends, ascending; padded with `u32::MAX`.
    pub table: Tensor,
    /// `[1]`, u32: number of ends.
    pub count: Tensor,
    /// Number of ends if every row were valid: known without a download.
    pub capacity: usize,
}

/// All windows of one length.
#[derive(Clone)]
pub struct SlidingWindows {
    features: Features,
    len: usize,
    ends: Vec<WindowEnds>,
    /// Ends per chunk, downloaded on first use.
    counts: Arc<OnceLock<Vec<usize>>>,
}

/// A batch of windows, resident where the features are.
#[derive(Debug, Clone)]
pub struct WindowBatch {
    /// `[n, len, columns]`, f32.
    pub values: Tensor,
    /// `[n]`, f32: 1 where every row of the window is valid, else 0.
    pub valid: Tensor,
}

impl Features {
    /// Windows of `len` valid rows of one series.
    pub fn windows(&self, len: usize) -> Result<SlidingWindows, FeatureError> {
        check(len)?;
        let mut ends = Vec::new();
        for chunk in self.chunks() {
            let firsts = self.firsts(chunk);
            let capacity = firsts.windows(2).map(|w| possible(w, len)).sum();
            ends.push(match &self.device {
                _ if capacity == 0 => table(&[], 0)?,
                None => self.ends_on_cpu(chunk, &firsts, len, capacity)?,
                Some(_) => self.ends_on_device(chunk, &firsts, len, capacity)?,
            });
        }
        Ok(SlidingWindows { features: self.clone(), len, ends, counts: Arc::default() })
    }

    /// Gathers windows by their last rows, numbered over all chunks. Invalid rows are zero, and their windows masked.
    pub fn gather(&self, len: usize, ends: &[usize]) -> Result<WindowBatch, FeatureError> {
        check(len)?;
        let mut picks = Vec::with_capacity(ends.len());
        for row in ends {
            let missing = |why| FeatureError::NoWindow { row: *row, len, why };
            let at = self.series_rows.partition_point(|s| s.rows.end <= *row);
            let of = self.series_rows.get(at).ok_or_else(|| missing("there are fewer rows"))?;
            if row - of.rows.start + 1 < len {
                return Err(missing("its series does not begin early enough"));
            }
            picks.push(*row);
        }
        let starts: Vec<usize> = self.chunks.iter().map(|c| c.rows.start).collect();
        self.gather_windows(len, &picks, &starts, None)
    }

    /// First rows of the series of a chunk, relative to the chunk, and one past its last.
    fn firsts(&self, chunk: &FeatureChunk) -> Vec<u32> {
        let inside = self.series_rows.iter().filter(|s| chunk.rows.contains(&s.rows.start));
        let mut firsts: Vec<u32> = inside.map(|s| word(s.rows.start - chunk.rows.start)).collect();
        firsts.push(word(chunk.rows.len()));
        firsts
    }

    fn ends_on_cpu(
        &self,
        chunk: &FeatureChunk,
        firsts: &[u32],
        len: usize,
        capacity: usize,
    ) -> Result<WindowEnds, FeatureError> {
        let valid: Vec<f32> = self.fetch(&chunk.valid)?;
        let mut ends = Vec::new();
        for pair in firsts.windows(2) {
            let &[first, last] = pair else { continue };
            let mut length = 0;
            for (row, valid) in (first..last).zip(valid.iter().skip(first as usize)) {
                length = if *valid != 0.0 { length + 1 } else { 0 };
                if length >= len {
                    ends.push(row);
                }
            }
        }
        table(&ends, capacity)
    }

    fn ends_on_device(
        &self,
        chunk: &FeatureChunk,
        firsts: &[u32],
        len: usize,
        capacity: usize,
    ) -> Result<WindowEnds, FeatureError> {
        let plan = record_ends(chunk, firsts, len, capacity).map_err(plan_error)?;
        let (table, count) = self.keep_two(plan)?;
        Ok(WindowEnds { table, count, capacity })
    }

    /// Runs a plan that keeps two tensors.
    fn keep_two(&self, plan: Plan) -> Result<(Tensor, Tensor), FeatureError> {
        let Some(runner) = &self.device else { return Err(FeatureError::Unsupported) };
        let outcome = runner.run_batch_on_device(&RecordedBatch(plan))?;
        let kept = outcome.chunks.into_iter().flat_map(|p| p.kept).collect::<Vec<_>>();
        match <[Tensor; 2]>::try_from(kept) {
            Ok([one, two]) => Ok((one, two)),
            Err(_) => Err(FeatureError::Unsupported),
        }
    }

    /// Gathers by rows, or by indices into the tables of ends; `starts` is the first number of each chunk.
    fn gather_windows(
        &self,
        len: usize,
        picks: &[usize],
        starts: &[usize],
        ends: Option<&[WindowEnds]>,
    ) -> Result<WindowBatch, FeatureError> {
        let shape = [picks.len(), len, self.columns()];
        if picks.is_empty() {
            let values = Tensor::from_floats(&[], &shape, "batch")?;
            return Ok(WindowBatch { values, valid: Tensor::from_floats(&[], &[0], "valid batch")? });
        }
        let size = floats(&shape, "batch").size().unwrap_or(Bytes(u64::MAX));
        if size > self.largest {
            let what = format!("a batch of {} windows of {len} rows", picks.len());
            let largest = self.largest;
            return Err(FeatureError::Memory { what, need: size, largest, memory: largest });
        }
        let mut by_chunk: Vec<Vec<[u32; 2]>> = vec![Vec::new(); self.chunks.len()];
        for (at, pick) in picks.iter().enumerate() {
            // The last chunk that starts there: an empty chunk starts where the next one does.
            let chunk = starts.partition_point(|s| s <= pick).saturating_sub(1);
            let start = starts.get(chunk).copied().unwrap_or(0);
            if let Some(of) = by_chunk.get_mut(chunk) {
                of.push([word(at), word(pick - start)]);
            }
        }
        if self.device.is_none() {
            return self.gather_on_cpu(len, &by_chunk, ends, &shape);
        }
        let plan = self.record_gather(len, &by_chunk, ends, &shape).map_err(plan_error)?;
        let (values, valid) = self.keep_two(plan)?;
        Ok(WindowBatch { values, valid })
    }

    fn record_gather(
        &self,
        len: usize,
        by_chunk: &[Vec<[u32; 2]>],
        ends: Option<&[WindowEnds]>,
        shape: &[usize; 3],
    ) -> Result<Plan, PlanError> {
        let window = len * self.columns();
        let [count, ..] = *shape;
        let mut plan = Plan::new("batch of windows");
        let all: Vec<[u32; 2]> = by_chunk.iter().flatten().copied().collect();
        let picks = plan.upload(bytemuck::cast_slice::<[u32; 2], u8>(&all).to_vec(), "batch of windows")?;
        let values = plan.slot(Bytes(4 * (count * window) as u64), "batch");
        let valid_windows = plan.slot(Bytes(4 * count as u64), "valid batch");
        let mut first = 0;
        for (at, (chunk, own)) in self.chunks.iter().zip(by_chunk).enumerate() {
            if own.is_empty() {
                continue;
            }
            let (suffix, access) = if first == 0 { ("", Access::Write) } else { ("-more", Access::Update) };
            let read = Access::Read;
            let kernel = kernel("features-gather", suffix, &[read, read, read, read, access, access]);
            let rows = plan.import(&chunk.values);
            let valid = plan.import(&chunk.valid);
            let table = ends.and_then(|e| e.get(at)).map_or(valid, |e| plan.import(&e.table));
            let (groups, row) = dispatch_grid(own.len() * window, WIDE_GROUP);
            let params = [word(window), word(own.len()), word(first), row];
            let more = [u32::from(ends.is_some()), word(len), word(self.columns()), 0];
            let bindings = [picks, table, rows, valid, values, valid_windows];
            plan.dispatch(&kernel, &bindings, &[params, more].concat(), groups)?;
            first += own.len();
        }
        plan.keep(values, floats(shape, "batch"))?;
        plan.keep(valid_windows, floats(&[count], "valid batch"))?;
        Ok(plan)
    }

    fn gather_on_cpu(
        &self,
        len: usize,
        by_chunk: &[Vec<[u32; 2]>],
        ends: Option<&[WindowEnds]>,
        shape: &[usize; 3],
    ) -> Result<WindowBatch, FeatureError> {
        let (window, [count, ..]) = (len * self.columns(), *shape);
        let (mut values, mut valid_windows) = (vec![0.0f32; count * window], vec![0.0f32; count]);
        for (at, (chunk, own)) in self.chunks.iter().zip(by_chunk).enumerate() {
            let rows: Vec<f32> = self.fetch(&chunk.values)?;
            let valid: Vec<f32> = self.fetch(&chunk.valid)?;
            let table: Option<Vec<u32>> =
                ends.and_then(|e| e.get(at)).map(|e| self.fetch(&e.table)).transpose()?;
            for [into, pick] in own {
                let end = table.as_ref().map_or(*pick, |t| t.get(*pick as usize).copied().unwrap_or(NONE));
                if end == NONE {
                    continue;
                }
                let of = (end as usize + 1 - len)..end as usize + 1;
                let from = rows.get(of.start * self.columns()..of.end * self.columns()).unwrap_or_default();
                let into = *into as usize;
                values.iter_mut().skip(into * window).zip(from).for_each(|(to, x)| *to = *x);
                let all = valid.get(of).is_some_and(|v| v.iter().all(|x| *x != 0.0));
                valid_windows.iter_mut().skip(into).take(1).for_each(|w| *w = f32::from(all));
            }
        }
        let values = Tensor::from_floats(&values, shape, "batch")?;
        Ok(WindowBatch { values, valid: Tensor::from_floats(&valid_windows, &[count], "valid batch")? })
    }
}

impl SlidingWindows {
    /// Window length in rows.
    pub fn rows(&self) -> usize {
        self.len
    }

    /// Tables of ends, one per chunk.
    pub fn ends(&self) -> &[WindowEnds] {
        &self.ends
    }

    /// Capacity of all tables: the number of windows if every row is valid. Known without a download.
    pub fn capacity(&self) -> usize {
        self.ends.iter().map(|e| e.capacity).sum()
    }

    /// Table indices that hold a window, one range per chunk. Downloads one count per chunk, once.
    pub fn index_ranges(&self) -> Result<Vec<Range<usize>>, FeatureError> {
        let counts = match self.counts.get() {
            Some(counts) => counts,
            None => {
                let count = |e: &WindowEnds| {
                    let count = self.features.fetch::<u32>(&e.count)?;
                    Ok(count.first().map_or(0, |n| *n as usize))
                };
                let counts: Vec<usize> = self.ends.iter().map(count).collect::<Result<_, FeatureError>>()?;
                self.counts.get_or_init(|| counts)
            }
        };
        let mut first = 0;
        let place = |(ends, count): (&WindowEnds, &usize)| {
            first += ends.capacity;
            first - ends.capacity..first - ends.capacity + count
        };
        Ok(self.ends.iter().zip(counts).map(place).collect())
    }

    /// Gathers windows by their table indices, numbered over all chunks; a padding index gives zeros and is masked.
    pub fn gather(&self, indices: &[usize]) -> Result<WindowBatch, FeatureError> {
        let capacity = self.capacity();
        if let Some(row) = indices.iter().find(|p| **p >= capacity) {
            let why = "the table of window ends is shorter";
            return Err(FeatureError::NoWindow { row: *row, len: self.len, why });
        }
        let mut first = 0;
        let starts: Vec<usize> = self
            .ends
            .iter()
            .map(|e| {
                first += e.capacity;
                first - e.capacity
            })
            .collect();
        self.features.gather_windows(self.len, indices, &starts, Some(&self.ends))
    }
}

fn check(len: usize) -> Result<(), FeatureError> {
    if (1..=MAX_BARS).contains(&len) { Ok(()) } else { Err(FeatureError::Bars { bars: len }) }
}

/// Windows between two first rows if all rows are valid.
fn possible(pair: &[u32], len: usize) -> usize {
    match pair {
        [first, last] => (last.saturating_sub(*first) as usize + 1).saturating_sub(len),
        _ => 0,
    }
}

/// A table in host memory.
fn table(ends: &[u32], capacity: usize) -> Result<WindowEnds, FeatureError> {
    let spec = |n: usize, tag| TensorSpec { dtype: DType::U32, shape: vec![n], tag };
    let bytes = |words: &[u32]| bytemuck::cast_slice::<u32, u8>(words).to_vec();
    let mut all = ends.to_vec();
    all.resize(capacity, NONE);
    Ok(WindowEnds {
        table: Tensor::from_bytes(bytes(&all), spec(capacity, "ends of windows"))?,
        count: Tensor::from_bytes(bytes(&[word(ends.len())]), spec(1, "count of windows"))?,
        capacity,
    })
}

fn record_ends(chunk: &FeatureChunk, firsts: &[u32], len: usize, capacity: usize) -> Result<Plan, PlanError> {
    let rows = chunk.rows.len();
    let block = rows.div_ceil(BLOCKS).max(MIN_BLOCK);
    let blocks = rows.div_ceil(block);
    let mut plan = Plan::new("ends of windows");
    let first_rows = plan.upload(bytemuck::cast_slice::<u32, u8>(firsts).to_vec(), "ends of windows")?;
    let valid = plan.import(&chunk.valid);
    let counts = plan.slot(Bytes(4 * (blocks + 1) as u64), "count of windows");
    let table = plan.slot(Bytes(4 * capacity as u64), "ends of windows");
    let bindings: [Slot; 4] = [first_rows, valid, counts, table];
    for pass in 0..3 {
        let (suffix, access) = if pass == 0 { ("", Access::Write) } else { ("-more", Access::Update) };
        let kernel = kernel("features-ends", suffix, &[Access::Read, Access::Read, access, access]);
        let params = [word(rows), word(block), word(blocks), word(len)];
        let more = [pass, word(capacity), word(firsts.len().saturating_sub(1)), 0];
        let groups = if pass == 1 { 1 } else { word(blocks.div_ceil(GROUP)) };
        plan.dispatch(&kernel, &bindings, &[params, more].concat(), [groups, 1, 1])?;
    }
    let spec = |n: usize, tag| TensorSpec { dtype: DType::U32, shape: vec![n], tag };
    plan.keep(table, spec(capacity, "ends of windows"))?;
    plan.keep(counts, spec(1, "count of windows"))?;
    Ok(plan)
}
