//! Block buffers: values between steps with their look-back history, in place where they can be; a free list per thread.

use std::cell::RefCell;

use crate::{
    kernel::{Row, Rows, transpose::CACHE_LINE},
    plan::{BufferSlot, ExecPlan},
};

/// Where a buffer's rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// In the buffer.
    Buffer,
    /// In a column of the bars: which of the plan's fields.
    Field(usize),
    /// In a column of the results.
    Column(usize),
}

/// The buffers of a tile.
#[derive(Clone)]
pub(super) struct BlockBuffers<const L: usize> {
    /// History first, then blocks.
    pub(super) buffers: Vec<Buffer<L>>,
    pub(super) locations: Vec<Location>,
    /// Rows of history that each buffer keeps before the block.
    pub(super) history: Vec<usize>,
    /// Offset of the block in buffers with a history.
    pub(super) shift: usize,
    /// Rows that buffers with a history have room for after it: some blocks, or all bars of a short series.
    pub(super) capacity: usize,
    /// Bars of the block that are done: kernels continue there where a fused loop gave up. 0 between steps.
    pub(super) done: usize,
}

/// Blocks that a buffer with a history has room for, at most: its history moves to the front only once in so many.
/// As many bars on AArch64, whose blocks are twice as long.
pub(super) const MAX_BLOCKS: usize = if cfg!(target_arch = "aarch64") { 4 } else { 8 };
/// Bytes that all buffers with a history may take for that: they should stay in L2.
pub(super) const HISTORY_BYTES: usize = 512 << 10;

/// Poisoned buffers: rows that are not written yet are signalling NaNs, so that reading them shows in the results.
#[derive(Debug, Clone)]
pub(super) struct Poison {
    /// Buffers that every block writes.
    fresh: Vec<bool>,
}

/// A signalling NaN that no arithmetic produces.
const POISON: f64 = f64::from_bits(0x7ff4_dead_dead_dead);

impl Poison {
    /// Poisons every buffer.
    pub(super) fn new<const L: usize>(plan: &ExecPlan, buffers: &mut BlockBuffers<L>) -> Poison {
        buffers.buffers.iter_mut().for_each(|buffer| buffer.raw.fill(POISON));
        Poison { fresh: (0..plan.buffers).map(|at| !plan.is_constant(at)).collect() }
    }

    /// Poisons the block that begins.
    pub(super) fn block<const L: usize>(&self, buffers: &mut BlockBuffers<L>) {
        let shift = buffers.shift;
        let buffers = buffers.buffers.iter_mut().zip(&buffers.history).zip(&self.fresh);
        for ((buffer, history), _) in buffers.filter(|(_, fresh)| **fresh) {
            let begin = if *history == 0 { 0 } else { history + shift };
            buffer.rows_mut().iter_mut().skip(begin).for_each(|row| *row = [POISON; L]);
        }
    }
}

/// Rows, aligned to a cache line.
#[derive(Default)]
pub(super) struct Buffer<const L: usize> {
    pub(super) raw: Vec<f64>,
    pub(super) skip: usize,
}

impl<const L: usize> Clone for Buffer<L> {
    /// The copy is aligned to a cache line again.
    fn clone(&self) -> Self {
        let rows = self.rows();
        let mut copy = if rows.is_empty() { Buffer::default() } else { Buffer::new(rows.len()) };
        copy.rows_mut().iter_mut().zip(rows).for_each(|(to, row)| *to = *row);
        copy
    }
}

thread_local! {
    /// Free list: allocating and zeroing memory takes longer than computing a short series.
    static FREE_LIST: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}
/// Max length of the free list, and max doubles of a buffer in it.
const FREE_LIST_LIMITS: (usize, usize) = (32, 1 << 15);

impl<const L: usize> Buffer<L> {
    pub(super) fn new(rows: usize) -> Self {
        Self::of(vec![f64::NAN; rows * L + CACHE_LINE / 8])
    }

    /// From the free list, uninitialised: for rows that are written before they are read.
    pub(super) fn recycled(rows: usize) -> Self {
        let len = rows * L + CACHE_LINE / 8;
        let free = FREE_LIST.with_borrow_mut(|all| {
            let fits = all.iter().position(|free| free.len() >= len);
            fits.map(|at| all.swap_remove(at))
        });
        free.map_or_else(|| Self::new(rows), Self::of)
    }

    fn of(raw: Vec<f64>) -> Self {
        let skip = raw.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE / 8);
        Buffer { raw, skip }
    }

    /// Returns the memory to the free list; where that is full, the longer one stays.
    pub(super) fn recycle(self) {
        let (max_buffers, max_len) = FREE_LIST_LIMITS;
        let len = self.raw.len();
        if len == 0 || len > max_len {
            return;
        }
        FREE_LIST.with_borrow_mut(|all| {
            if all.len() < max_buffers {
                all.push(self.raw);
            } else if let Some(shortest) = all.iter_mut().min_by_key(|free| free.len())
                && shortest.len() < len
            {
                *shortest = self.raw;
            }
        });
    }

    pub(super) fn rows(&self) -> &[Row<L>] {
        self.raw.get(self.skip..).unwrap_or(&[]).as_chunks::<L>().0
    }

    pub(super) fn rows_mut(&mut self) -> &mut [Row<L>] {
        self.raw.get_mut(self.skip..).unwrap_or_default().as_chunks_mut::<L>().0
    }
}

impl<const L: usize> BlockBuffers<L> {
    /// The rows of a block.
    pub(super) fn rows(&self, slot: BufferSlot, len: usize) -> &[Row<L>] {
        let buffer = self.buffers.get(slot.buffer).map_or(&[] as &[_], Buffer::rows);
        let from = self.begin(slot);
        buffer.get(from..from + len).unwrap_or(&[])
    }

    /// A pointer to bar `t0` of a buffer, if bars from `back` before it up to `t1` are in bounds.
    pub(super) fn stream_pointer(
        &mut self,
        buffer: usize,
        (t0, t1): (usize, usize),
        back: usize,
        written: bool,
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) -> Option<*mut f64> {
        match self.locations.get(buffer)? {
            Location::Field(f) => {
                let rows = fields.get(*f)?;
                rows.get(t0.checked_sub(back)?..t1)?;
                let first = rows.get(t0..)?.as_ptr().cast_mut().cast();
                (!written).then_some(first)
            }
            Location::Column(c) => {
                let rows = columns.get_mut(*c)?;
                rows.get(t0.checked_sub(back)?..t1)?;
                Some(rows.as_mut_ptr().wrapping_add(t0).cast())
            }
            Location::Buffer => {
                let history = self.history.get(buffer).copied()?;
                let begin = self.done + if history == 0 { 0 } else { history + self.shift };
                let rows = self.buffers.get_mut(buffer)?.rows_mut();
                rows.get(begin.checked_sub(back)?..begin + (t1 - t0))?;
                Some(rows.as_mut_ptr().wrapping_add(begin).cast())
            }
        }
    }

    /// A constant into the first rows of a buffer.
    pub(super) fn fill_constant(&mut self, x: f64, slot: BufferSlot, rows: usize) {
        if let Some(buffer) = self.buffers.get_mut(slot.buffer) {
            buffer.rows_mut().iter_mut().take(rows).for_each(|row| *row = [x; L]);
        }
    }

    /// The row at which the block begins in a buffer, or what is left of it.
    #[inline(always)]
    pub(super) fn begin(&self, slot: BufferSlot) -> usize {
        let history = self.history.get(slot.buffer).copied().unwrap_or(0);
        self.done + if history == 0 { 0 } else { history + self.shift }
    }

    /// Moves out what a step writes: its buffer, or the column that it is in.
    #[inline(always)]
    pub(super) fn take<'c>(
        &mut self,
        slot: BufferSlot,
        columns: &mut [&'c mut [Row<L>]],
    ) -> (Buffer<L>, &'c mut [Row<L>]) {
        match self.locations.get(slot.buffer) {
            Some(Location::Column(c)) => {
                (Buffer::default(), columns.get_mut(*c).map(std::mem::take).unwrap_or_default())
            }
            _ => (self.buffers.get_mut(slot.buffer).map(std::mem::take).unwrap_or_default(), &mut []),
        }
    }

    /// Moves it back.
    #[inline(always)]
    pub(super) fn put<'c>(
        &mut self,
        slot: BufferSlot,
        own: Buffer<L>,
        lent: &'c mut [Row<L>],
        columns: &mut [&'c mut [Row<L>]],
    ) {
        match self.locations.get(slot.buffer) {
            Some(Location::Column(c)) => {
                if let Some(slot) = columns.get_mut(*c) {
                    *slot = lent;
                }
            }
            _ => {
                if let Some(slot) = self.buffers.get_mut(slot.buffer) {
                    *slot = own;
                }
            }
        }
    }

    /// The rows that a step reads.
    #[inline(always)]
    pub(super) fn input<'r>(
        &'r self,
        slot: BufferSlot,
        (t0, t1): (usize, usize),
        fields: &'r [&[Row<L>]],
        columns: &'r [&mut [Row<L>]],
    ) -> Rows<'r, L> {
        match self.locations.get(slot.buffer) {
            Some(Location::Field(f)) => Rows::new(fields.get(*f).copied().unwrap_or(&[]), slot.lag, 0),
            Some(Location::Column(c)) => Rows::new(columns.get(*c).map_or(&[], |c| &**c), slot.lag, 0),
            _ => {
                let rows = self.buffers.get(slot.buffer).map_or(&[] as &[Row<L>], Buffer::rows);
                let begin = self.begin(slot);
                let end = (begin + t1 - t0).min(rows.len());
                Rows::new(rows.get(..end).unwrap_or(rows), t0 + slot.lag, begin)
            }
        }
    }
}

/// The rows of a block in a buffer, or in the column that it is in.
#[inline(always)]
pub(super) fn output_rows<'r, const L: usize>(
    begin: usize,
    own: &'r mut Buffer<L>,
    lent: &'r mut [Row<L>],
    (t0, t1): (usize, usize),
) -> &'r mut [Row<L>] {
    let found = match own.raw.is_empty() {
        true => lent.get_mut(t0..t1),
        false => own.rows_mut().get_mut(begin..begin + (t1 - t0)),
    };
    found.unwrap_or_default()
}
