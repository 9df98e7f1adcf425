//! Where are values between steps? In buffers with as much history as their readers need, or where they came from and go.

use std::cell::RefCell;

use crate::{
    kernel::{Row, Rows, turn::LINE},
    plan::{Place, Plan},
};

/// Where a buffer's rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// In the buffer.
    Own,
    /// In a column of the bars: which of the plan's fields.
    Field(usize),
    /// In a column of the results.
    Column(usize),
}

/// Where values are between steps.
#[derive(Clone)]
pub(super) struct Store<const L: usize> {
    /// History first, then blocks.
    pub(super) buffers: Vec<Buffer<L>>,
    pub(super) homes: Vec<Home>,
    /// Rows before the block that each buffer keeps.
    pub(super) history: Vec<usize>,
    /// Rows that the block lies further along in buffers with a history.
    pub(super) shift: usize,
    /// Blocks that they have room for.
    pub(super) blocks: usize,
}

/// Blocks that a buffer with a history has room for, at most: what is kept moves to the front only once in so many.
pub(super) const ROOM: usize = 8;
/// Bytes that all buffers with a history may take for that: they should stay in the second cache.
pub(super) const ROOM_BYTES: usize = 512 << 10;

/// Poisoned memory: what nobody has written yet is a signalling NaN, so that reading it shows in the results.
#[derive(Debug, Clone)]
pub(super) struct Poison {
    /// Buffers whose rows are written anew in every block.
    fresh: Vec<bool>,
}

/// A signalling NaN that no arithmetic gives.
const POISON: f64 = f64::from_bits(0x7ff4_dead_dead_dead);

impl Poison {
    /// Poisons every buffer.
    pub(super) fn new<const L: usize>(plan: &Plan, store: &mut Store<L>) -> Poison {
        store.buffers.iter_mut().for_each(|buffer| buffer.raw.fill(POISON));
        Poison { fresh: (0..plan.buffers).map(|at| !plan.is_constant(at)).collect() }
    }

    /// A block begins: nothing of it is there yet.
    pub(super) fn block<const L: usize>(&self, store: &mut Store<L>) {
        let shift = store.shift;
        let buffers = store.buffers.iter_mut().zip(&store.history).zip(&self.fresh);
        for ((buffer, history), _) in buffers.filter(|(_, fresh)| **fresh) {
            let begin = if *history == 0 { 0 } else { history + shift };
            buffer.rows_mut().iter_mut().skip(begin).for_each(|row| *row = [POISON; L]);
        }
    }
}

/// Rows, the first of them at the beginning of a cache line.
#[derive(Default)]
pub(super) struct Buffer<const L: usize> {
    pub(super) raw: Vec<f64>,
    pub(super) skip: usize,
}

impl<const L: usize> Clone for Buffer<L> {
    /// The first row lies elsewhere, at the beginning of a cache line again.
    fn clone(&self) -> Self {
        let rows = self.rows();
        let mut same = if rows.is_empty() { Buffer::default() } else { Buffer::new(rows.len()) };
        same.rows_mut().iter_mut().zip(rows).for_each(|(to, row)| *to = *row);
        same
    }
}

thread_local! {
    /// Memory of buffers that are no longer used: to ask the system for it takes longer than to compute with it.
    static SPARE: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}
/// Buffers that are kept for later, and the most numbers of one.
const SPARES: (usize, usize) = (32, 1 << 15);

impl<const L: usize> Buffer<L> {
    pub(super) fn new(rows: usize) -> Self {
        Self::of(vec![f64::NAN; rows * L + LINE / 8])
    }

    /// The same, of memory that was used before and holds whatever it held: for rows that are written before they are read.
    pub(super) fn reused(rows: usize) -> Self {
        let numbers = rows * L + LINE / 8;
        let spare = SPARE.with_borrow_mut(|all| {
            let fits = all.iter().position(|spare| spare.len() >= numbers);
            fits.map(|at| all.swap_remove(at))
        });
        spare.map_or_else(|| Self::new(rows), Self::of)
    }

    fn of(raw: Vec<f64>) -> Self {
        let skip = raw.as_ptr().align_offset(LINE).min(LINE / 8);
        Buffer { raw, skip }
    }

    /// Keeps the memory for later; where there is enough, the longer of it.
    pub(super) fn spare(self) {
        let (most, numbers) = SPARES;
        let len = self.raw.len();
        if len == 0 || len > numbers {
            return;
        }
        SPARE.with_borrow_mut(|all| {
            if all.len() < most {
                all.push(self.raw);
            } else if let Some(shortest) = all.iter_mut().min_by_key(|spare| spare.len())
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

impl<const L: usize> Store<L> {
    /// The rows of a block.
    pub(super) fn rows(&self, place: Place, len: usize) -> &[Row<L>] {
        let buffer = self.buffers.get(place.buffer).map_or(&[] as &[_], Buffer::rows);
        let from = self.begin(place);
        buffer.get(from..from + len).unwrap_or(&[])
    }

    /// Where bar `t0` of a buffer is, if bars from `back` before it up to `t1` are there.
    pub(super) fn pointer(
        &mut self,
        buffer: usize,
        (t0, t1): (usize, usize),
        back: usize,
        written: bool,
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) -> Option<*mut f64> {
        match self.homes.get(buffer)? {
            Home::Field(f) => {
                let rows = fields.get(*f)?;
                rows.get(t0.checked_sub(back)?..t1)?;
                let first = rows.get(t0..)?.as_ptr().cast_mut().cast();
                (!written).then_some(first)
            }
            Home::Column(c) => {
                let rows = columns.get_mut(*c)?;
                rows.get(t0.checked_sub(back)?..t1)?;
                Some(rows.as_mut_ptr().wrapping_add(t0).cast())
            }
            Home::Own => {
                let history = self.history.get(buffer).copied()?;
                let begin = if history == 0 { 0 } else { history + self.shift };
                let rows = self.buffers.get_mut(buffer)?.rows_mut();
                rows.get(begin.checked_sub(back)?..begin + (t1 - t0))?;
                Some(rows.as_mut_ptr().wrapping_add(begin).cast())
            }
        }
    }

    /// The same number in the first rows of a buffer.
    pub(super) fn repeat(&mut self, x: f64, place: Place, rows: usize) {
        if let Some(buffer) = self.buffers.get_mut(place.buffer) {
            buffer.rows_mut().iter_mut().take(rows).for_each(|row| *row = [x; L]);
        }
    }

    /// Where the block begins in a value's buffer.
    #[inline(always)]
    pub(super) fn begin(&self, place: Place) -> usize {
        let history = self.history.get(place.buffer).copied().unwrap_or(0);
        if history == 0 { 0 } else { history + self.shift }
    }

    /// Takes out what a step writes: its buffer, or the column that the buffer stands for.
    #[inline(always)]
    pub(super) fn take<'c>(
        &mut self,
        place: Place,
        columns: &mut [&'c mut [Row<L>]],
    ) -> (Buffer<L>, &'c mut [Row<L>]) {
        match self.homes.get(place.buffer) {
            Some(Home::Column(c)) => {
                (Buffer::default(), columns.get_mut(*c).map(std::mem::take).unwrap_or_default())
            }
            _ => (self.buffers.get_mut(place.buffer).map(std::mem::take).unwrap_or_default(), &mut []),
        }
    }

    /// Puts it back.
    #[inline(always)]
    pub(super) fn put<'c>(
        &mut self,
        place: Place,
        own: Buffer<L>,
        lent: &'c mut [Row<L>],
        columns: &mut [&'c mut [Row<L>]],
    ) {
        match self.homes.get(place.buffer) {
            Some(Home::Column(c)) => {
                if let Some(slot) = columns.get_mut(*c) {
                    *slot = lent;
                }
            }
            _ => {
                if let Some(slot) = self.buffers.get_mut(place.buffer) {
                    *slot = own;
                }
            }
        }
    }

    /// What a step reads.
    #[inline(always)]
    pub(super) fn input<'r>(
        &'r self,
        place: Place,
        (t0, t1): (usize, usize),
        fields: &'r [&[Row<L>]],
        columns: &'r [&mut [Row<L>]],
    ) -> Rows<'r, L> {
        match self.homes.get(place.buffer) {
            Some(Home::Field(f)) => Rows::new(fields.get(*f).copied().unwrap_or(&[]), place.lag, 0),
            Some(Home::Column(c)) => Rows::new(columns.get(*c).map_or(&[], |c| &**c), place.lag, 0),
            _ => {
                let rows = self.buffers.get(place.buffer).map_or(&[] as &[Row<L>], Buffer::rows);
                let begin = self.begin(place);
                let end = (begin + t1 - t0).min(rows.len());
                Rows::new(rows.get(..end).unwrap_or(rows), t0 + place.lag, begin)
            }
        }
    }
}

/// The rows of a block in a buffer, or in the column that it stands for.
#[inline(always)]
pub(super) fn target<'r, const L: usize>(
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
