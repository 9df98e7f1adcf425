//! Which windows are there, and how does a batch of them get to training? Rows of a series follow each other, so a window
//! is known by its last row: windows are a table of rows, and a batch is a copy of stretches. Both are made where the rows
//! are; indices are all that goes up.

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

use super::{Chunk, FeatureError, Features, GROUP, MOST_BARS, WIDE_GROUP, Whole, floats, kernel, mistake};
use crate::record::{flat, word};

/// No row.
const NONE: u32 = u32::MAX;
/// Parts of a chunk's rows, at most: one invocation adds them up.
const BLOCKS: usize = 8192;
/// Rows of such a part, at least.
const LEAST_BLOCK: usize = 64;

/// Ends of a chunk's windows.
#[derive(Debug, Clone)]
pub struct Ends {
    /// `[most]`, u32: rows of the chunk at which a window ends, in order; unused places at the end hold `u32::MAX`.
    pub table: Tensor,
    /// `[1]`, u32: how many there are.
    pub count: Tensor,
    /// How many there would be if every row were valid: what is known without asking.
    pub most: usize,
}

/// All windows of a length.
#[derive(Clone)]
pub struct Windows {
    features: Features,
    len: usize,
    ends: Vec<Ends>,
    /// How many there are in each table, once somebody asked.
    counts: Arc<OnceLock<Vec<usize>>>,
}

/// A batch of windows, where the features are.
#[derive(Debug, Clone)]
pub struct Samples {
    /// `[n, len, columns]`, f32.
    pub values: Tensor,
    /// `[n]`, f32: 1 where every row of the window is valid, else 0.
    pub valid: Tensor,
}

impl Features {
    /// Windows of so many rows of one series, all of them valid.
    pub fn windows(&self, len: usize) -> Result<Windows, FeatureError> {
        check(len)?;
        let mut ends = Vec::new();
        for chunk in self.chunks() {
            let firsts = self.firsts(chunk);
            let most = firsts.windows(2).map(|w| possible(w, len)).sum();
            ends.push(match &self.home {
                _ if most == 0 => table(&[], 0)?,
                None => self.ends_here(chunk, &firsts, len, most)?,
                Some(_) => self.ends_there(chunk, &firsts, len, most)?,
            });
        }
        Ok(Windows { features: self.clone(), len, ends, counts: Arc::default() })
    }

    /// Windows by their last rows, counted over all chunks. Rows that are not valid are zero, and their windows are marked.
    pub fn gather(&self, len: usize, ends: &[usize]) -> Result<Samples, FeatureError> {
        check(len)?;
        let mut picks = Vec::with_capacity(ends.len());
        for row in ends {
            let missing = |why| FeatureError::NoWindow { row: *row, len, why };
            let segment = self.segments.partition_point(|s| s.rows.end <= *row);
            let segment = self.segments.get(segment).ok_or_else(|| missing("there are fewer rows"))?;
            if row - segment.rows.start + 1 < len {
                return Err(missing("its series does not begin early enough"));
            }
            picks.push(*row);
        }
        let starts: Vec<usize> = self.chunks.iter().map(|c| c.rows.start).collect();
        self.draw(len, &picks, &starts, None)
    }

    /// First rows of the series of a chunk, counted from the chunk's own, and one past its last.
    fn firsts(&self, chunk: &Chunk) -> Vec<u32> {
        let inside = self.segments.iter().filter(|s| chunk.rows.contains(&s.rows.start));
        let mut firsts: Vec<u32> = inside.map(|s| word(s.rows.start - chunk.rows.start)).collect();
        firsts.push(word(chunk.rows.len()));
        firsts
    }

    fn ends_here(
        &self,
        chunk: &Chunk,
        firsts: &[u32],
        len: usize,
        most: usize,
    ) -> Result<Ends, FeatureError> {
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
        table(&ends, most)
    }

    fn ends_there(
        &self,
        chunk: &Chunk,
        firsts: &[u32],
        len: usize,
        most: usize,
    ) -> Result<Ends, FeatureError> {
        let plan = record_ends(chunk, firsts, len, most).map_err(mistake)?;
        let (table, count) = self.keep_two(plan)?;
        Ok(Ends { table, count, most })
    }

    /// Runs a plan that keeps two tensors.
    fn keep_two(&self, plan: Plan) -> Result<(Tensor, Tensor), FeatureError> {
        let Some(runner) = &self.home else { return Err(FeatureError::Unfit) };
        let outcome = runner.run_batch_on_device(&Whole(plan))?;
        let kept = outcome.chunks.into_iter().flat_map(|p| p.kept).collect::<Vec<_>>();
        match <[Tensor; 2]>::try_from(kept) {
            Ok([one, two]) => Ok((one, two)),
            Err(_) => Err(FeatureError::Unfit),
        }
    }

    /// A batch by rows, or by places in tables; `starts` is where each chunk's numbers begin.
    fn draw(
        &self,
        len: usize,
        picks: &[usize],
        starts: &[usize],
        ends: Option<&[Ends]>,
    ) -> Result<Samples, FeatureError> {
        let shape = [picks.len(), len, self.columns()];
        if picks.is_empty() {
            let values = Tensor::from_floats(&[], &shape, "batch")?;
            return Ok(Samples { values, valid: Tensor::from_floats(&[], &[0], "valid batch")? });
        }
        let size = floats(&shape, "batch").size().unwrap_or(Bytes(u64::MAX));
        if size > self.largest {
            let what = format!("a batch of {} windows of {len} rows", picks.len());
            let largest = self.largest;
            return Err(FeatureError::Memory { what, need: size, largest, memory: largest });
        }
        let mut by_chunk: Vec<Vec<[u32; 2]>> = vec![Vec::new(); self.chunks.len()];
        for (at, pick) in picks.iter().enumerate() {
            // The last that begins there: a chunk without windows begins where the next one does.
            let chunk = starts.partition_point(|s| s <= pick).saturating_sub(1);
            let start = starts.get(chunk).copied().unwrap_or(0);
            if let Some(of) = by_chunk.get_mut(chunk) {
                of.push([word(at), word(pick - start)]);
            }
        }
        if self.home.is_none() {
            return self.draw_here(len, &by_chunk, ends, &shape);
        }
        let plan = self.record_draw(len, &by_chunk, ends, &shape).map_err(mistake)?;
        let (values, valid) = self.keep_two(plan)?;
        Ok(Samples { values, valid })
    }

    fn record_draw(
        &self,
        len: usize,
        by_chunk: &[Vec<[u32; 2]>],
        ends: Option<&[Ends]>,
        shape: &[usize; 3],
    ) -> Result<Plan, PlanError> {
        let window = len * self.columns();
        let [count, ..] = *shape;
        let mut plan = Plan::new("batch of windows");
        let all: Vec<[u32; 2]> = by_chunk.iter().flatten().copied().collect();
        let picks = plan.upload(bytemuck::cast_slice::<[u32; 2], u8>(&all).to_vec(), "batch of windows")?;
        let values = plan.slot(Bytes(4 * (count * window) as u64), "batch");
        let whole = plan.slot(Bytes(4 * count as u64), "valid batch");
        let mut first = 0;
        for (at, (chunk, own)) in self.chunks.iter().zip(by_chunk).enumerate() {
            if own.is_empty() {
                continue;
            }
            let (how, access) = if first == 0 { ("", Access::Write) } else { ("-more", Access::Update) };
            let read = Access::Read;
            let kernel = kernel("features-gather", how, &[read, read, read, read, access, access]);
            let rows = plan.import(&chunk.values);
            let valid = plan.import(&chunk.valid);
            let table = ends.and_then(|e| e.get(at)).map_or(valid, |e| plan.import(&e.table));
            let (groups, row) = flat(own.len() * window, WIDE_GROUP);
            let params = [word(window), word(own.len()), word(first), row];
            let more = [u32::from(ends.is_some()), word(len), word(self.columns()), 0];
            let bindings = [picks, table, rows, valid, values, whole];
            plan.dispatch(&kernel, &bindings, &[params, more].concat(), groups)?;
            first += own.len();
        }
        plan.keep(values, floats(shape, "batch"))?;
        plan.keep(whole, floats(&[count], "valid batch"))?;
        Ok(plan)
    }

    fn draw_here(
        &self,
        len: usize,
        by_chunk: &[Vec<[u32; 2]>],
        ends: Option<&[Ends]>,
        shape: &[usize; 3],
    ) -> Result<Samples, FeatureError> {
        let (window, [count, ..]) = (len * self.columns(), *shape);
        let (mut values, mut whole) = (vec![0.0f32; count * window], vec![0.0f32; count]);
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
                whole.iter_mut().skip(into).take(1).for_each(|w| *w = f32::from(all));
            }
        }
        let values = Tensor::from_floats(&values, shape, "batch")?;
        Ok(Samples { values, valid: Tensor::from_floats(&whole, &[count], "valid batch")? })
    }
}

impl Windows {
    /// Rows of a window.
    pub fn rows(&self) -> usize {
        self.len
    }

    /// Tables of ends, one per chunk.
    pub fn ends(&self) -> &[Ends] {
        &self.ends
    }

    /// Places in all tables: as many windows as there are if every row is valid. Known without asking.
    pub fn most(&self) -> usize {
        self.ends.iter().map(|e| e.most).sum()
    }

    /// Places that hold a window, one range per chunk: one number per chunk comes back, once.
    pub fn places(&self) -> Result<Vec<Range<usize>>, FeatureError> {
        let counts = match self.counts.get() {
            Some(counts) => counts,
            None => {
                let count = |e: &Ends| {
                    let count = self.features.fetch::<u32>(&e.count)?;
                    Ok(count.first().map_or(0, |n| *n as usize))
                };
                let counts: Vec<usize> = self.ends.iter().map(count).collect::<Result<_, FeatureError>>()?;
                self.counts.get_or_init(|| counts)
            }
        };
        let mut first = 0;
        let place = |(ends, count): (&Ends, &usize)| {
            first += ends.most;
            first - ends.most..first - ends.most + count
        };
        Ok(self.ends.iter().zip(counts).map(place).collect())
    }

    /// Windows by their places in the tables, counted over all chunks; a place that holds none gives zeros and is marked.
    pub fn gather(&self, places: &[usize]) -> Result<Samples, FeatureError> {
        let most = self.most();
        if let Some(row) = places.iter().find(|p| **p >= most) {
            let why = "the table of ends is shorter";
            return Err(FeatureError::NoWindow { row: *row, len: self.len, why });
        }
        let mut first = 0;
        let starts: Vec<usize> = self
            .ends
            .iter()
            .map(|e| {
                first += e.most;
                first - e.most
            })
            .collect();
        self.features.draw(self.len, places, &starts, Some(&self.ends))
    }
}

fn check(len: usize) -> Result<(), FeatureError> {
    if (1..=MOST_BARS).contains(&len) { Ok(()) } else { Err(FeatureError::Bars { bars: len }) }
}

/// Windows between two first rows, if all is valid.
fn possible(pair: &[u32], len: usize) -> usize {
    match pair {
        [first, last] => (last.saturating_sub(*first) as usize + 1).saturating_sub(len),
        _ => 0,
    }
}

/// A table on the host.
fn table(ends: &[u32], most: usize) -> Result<Ends, FeatureError> {
    let spec = |n: usize, tag| TensorSpec { dtype: DType::U32, shape: vec![n], tag };
    let bytes = |words: &[u32]| bytemuck::cast_slice::<u32, u8>(words).to_vec();
    let mut all = ends.to_vec();
    all.resize(most, NONE);
    Ok(Ends {
        table: Tensor::from_bytes(bytes(&all), spec(most, "ends of windows"))?,
        count: Tensor::from_bytes(bytes(&[word(ends.len())]), spec(1, "count of windows"))?,
        most,
    })
}

fn record_ends(chunk: &Chunk, firsts: &[u32], len: usize, most: usize) -> Result<Plan, PlanError> {
    let rows = chunk.rows.len();
    let block = rows.div_ceil(BLOCKS).max(LEAST_BLOCK);
    let blocks = rows.div_ceil(block);
    let mut plan = Plan::new("ends of windows");
    let first_rows = plan.upload(bytemuck::cast_slice::<u32, u8>(firsts).to_vec(), "ends of windows")?;
    let valid = plan.import(&chunk.valid);
    let counts = plan.slot(Bytes(4 * (blocks + 1) as u64), "count of windows");
    let table = plan.slot(Bytes(4 * most as u64), "ends of windows");
    let bindings: [Slot; 4] = [first_rows, valid, counts, table];
    for pass in 0..3 {
        let (how, access) = if pass == 0 { ("", Access::Write) } else { ("-more", Access::Update) };
        let kernel = kernel("features-ends", how, &[Access::Read, Access::Read, access, access]);
        let params = [word(rows), word(block), word(blocks), word(len)];
        let more = [pass, word(most), word(firsts.len().saturating_sub(1)), 0];
        let groups = if pass == 1 { 1 } else { word(blocks.div_ceil(GROUP)) };
        plan.dispatch(&kernel, &bindings, &[params, more].concat(), [groups, 1, 1])?;
    }
    let spec = |n: usize, tag| TensorSpec { dtype: DType::U32, shape: vec![n], tag };
    plan.keep(table, spec(most, "ends of windows"))?;
    plan.keep(counts, spec(1, "count of windows"))?;
    Ok(plan)
}
