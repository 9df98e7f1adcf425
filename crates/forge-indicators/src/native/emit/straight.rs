//! How does a loop read eight series where they are and write them where they go? Some bars at a time: they are put side by
//! side in registers, computed, and taken apart again.
//!
//! Rows between those three are so few that they never leave the first cache; what is read in a while is asked for as the loop
//! goes, so that memory works while registers do. Only rows that are read some bars later move on in their buffer.

use super::{
    super::{
        asm::{self, Form, Gpr, Place, Reg},
        split::Split,
    },
    CUT, Ir, Machine, POINTERS, Part, STREAMS_AT, Traffic, Width, machine,
};

/// Bars of a round, at most: some lines of every series.
pub(crate) const BARS: usize = 32;
/// Results from which on a round has so many. Memory likes columns that are written some lines at a time: of three results a
/// sixth is saved; of one it is better that reading, computing and writing overlap, and a round is one line.
const MANY: usize = 3;
/// Bars that are turned at once: a line of every series.
const TURNED: i32 = 8;
/// Bytes of a bar of eight series, and of as many bars as are turned at once.
const ROW: i32 = 64;
const ROWS: i32 = ROW * TURNED;
/// Bytes of a line, and of half of it: what a register holds.
const LINE: i32 = 64;
const HALF: i32 = 32;
/// Columns of bars, or of results, up to which memory finds the next lines by itself: asking costs more than it saves.
const UNASKED: usize = 2;
/// How far ahead bars are asked for, in bytes of a column. Measured: two lines to half a page are the same.
const AHEAD: i32 = 1024;
/// Where the loop is in every column, in bytes.
const COLUMN: Gpr = asm::R15;
/// Registers that no state is in: two times four for the bars of four series, and two besides.
const EARLY: [Reg; 4] = [0, 1, 2, 3];
const LATE: [Reg; 4] = [8, 9, 10, 11];
const SPARE: [Reg; 2] = [7, 15];

/// Streams that are pointers in registers; one of them is taken for the place in the columns.
pub(in super::super) const MOST_MOVING: usize = POINTERS.len() - 1;

/// Which streams are read from columns, which are written to them.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Straight {
    /// Streams that are filled from columns of bars.
    pub(in super::super) given: Vec<usize>,
    /// Streams that are results, in the order of the plan's outputs.
    pub(in super::super) results: Vec<usize>,
    /// Which streams are read some bars later; the others are the same few rows again and again.
    pub(in super::super) moving: Vec<bool>,
}

/// Machine code of a group that is all of a plan. The table has eight pointers for every column after those of the streams:
/// first the bars', then the results'. Results that go `past` the caches begin at whole lines.
pub(in super::super) fn emit(ir: &Ir, straight: &Straight, split: Option<&Split>, past: bool) -> Vec<u8> {
    let rows = |ir| Machine { pointers: MOST_MOVING, ..machine(ir, Width::Eight, ROW as usize, Traffic::default()) };
    match split {
        Some(split) => rows(&split.rows).in_parts(straight, split, past),
        None => rows(ir).straight(straight, past),
    }
}

/// Is a loop better off in parts? Not where a round has several lines.
pub(in super::super) fn split(ir: &Ir, straight: &Straight) -> Option<Split> {
    if straight.results.len() < MANY { Split::of(ir, straight) } else { None }
}

/// Does memory need to be asked for the next lines?
fn asks(straight: &Straight) -> bool {
    straight.given.len().max(straight.results.len()) > UNASKED
}

/// Where half of a row of a value is that one part leaves for another.
fn cut_row(cut: usize, row: i32, half: i32) -> Place {
    let Place::Moving { base, offset } = Part::Rows.cut(cut) else { return Place::Reg(0) };
    Place::Fixed { base, offset: offset + ROW * row + HALF * half }
}

impl Machine<'_> {
    fn straight(&mut self, straight: &Straight, past: bool) -> Vec<u8> {
        let bars = if straight.results.len() < MANY { TURNED } else { BARS as i32 };
        let ask = asks(straight);
        self.body();
        let body = std::mem::take(&mut self.asm.code);
        self.prologue();
        self.asm.zero(COLUMN);
        let outer = self.asm.code.len();
        let columns = STREAMS_AT + self.ir.streams.len();
        for (column, stream) in straight.given.iter().enumerate() {
            for half in 0..2 {
                self.lines(bars, |m| m.together(*stream, columns + 8 * column, half, ask));
            }
        }
        self.inner(body, bars);
        for (column, stream) in straight.results.iter().enumerate() {
            for half in 0..2 {
                self.lines(bars, |m| m.apart(*stream, columns + 8 * (straight.given.len() + column), half, past));
            }
        }
        self.end_of_round(straight, bars, outer)
    }

    /// The loop over the rows of a round.
    fn inner(&mut self, body: Vec<u8>, bars: i32) {
        self.asm.zero(asm::RCX);
        let inner = self.asm.code.len();
        self.asm.code.extend(body);
        self.asm.add(asm::RCX, ROW);
        self.asm.compare_number(asm::RCX, ROW * bars);
        self.asm.back_to(inner);
    }

    fn end_of_round(&mut self, straight: &Straight, bars: i32, outer: usize) -> Vec<u8> {
        for (pointer, _) in POINTERS.iter().zip(&straight.moving).filter(|(_, moving)| **moving) {
            self.asm.add(*pointer, ROW * bars);
        }
        self.asm.add(COLUMN, LINE / TURNED * bars);
        self.asm.compare_end(COLUMN);
        self.asm.back_to(outer);
        self.epilogue()
    }

    /// The same in three parts: only what rows need is turned.
    fn in_parts(&mut self, straight: &Straight, split: &Split, past: bool) -> Vec<u8> {
        self.kept = 2 * CUT * i32::try_from(split.inward + split.outward).unwrap_or(0);
        self.body();
        let body = std::mem::take(&mut self.asm.code);
        let columns = STREAMS_AT + self.ir.streams.len();
        let (given, results) = (&straight.given, &straight.results);
        // Where the table has each stream's columns, and which of them are results.
        let mut column = vec![0; self.ir.streams.len()];
        let mut is_past = vec![false; self.ir.streams.len()];
        for (at, stream) in given.iter().chain(results).enumerate() {
            column.iter_mut().skip(*stream).take(1).for_each(|c| *c = columns + 8 * at);
            is_past.iter_mut().skip(*stream).take(1).for_each(|p| *p = past && at >= given.len());
        }
        let mut lanes = |ir: &Ir| {
            let mut code = Vec::new();
            for lane in 0..8 {
                let traffic = Traffic { past: &is_past, ahead: 0 };
                let part = Part::Lane { column: &column, lane };
                let mut one = Machine { kept: self.kept, part, ..machine(ir, Width::Eight, 8, traffic) };
                one.body();
                self.spilled = self.spilled.max(one.spilled);
                code.extend(one.asm.code);
            }
            code
        };
        let (early, late) = (lanes(&split.early), lanes(&split.late));
        self.prologue();
        self.asm.zero(COLUMN);
        let outer = self.asm.code.len();
        let ask = asks(straight);
        for (at, _) in given.iter().enumerate().filter(|(at, _)| ask && split.given.get(*at) == Some(&false)) {
            (0..8).for_each(|lane| {
                self.lane(columns + 8 * at, lane);
                self.asm.prefetch_column(asm::RAX, AHEAD);
            });
        }
        self.asm.code.extend(early);
        self.asm.zero(asm::RCX);
        for half in 0..2 {
            (0..split.inward).for_each(|cut| self.cut_together(cut, half));
            for (at, stream) in given.iter().enumerate().filter(|(at, _)| split.given.get(*at) == Some(&true)) {
                self.together(*stream, columns + 8 * at, half, ask);
            }
        }
        self.inner(body, TURNED);
        self.asm.zero(asm::RCX);
        for half in 0..2 {
            (split.inward..split.inward + split.outward).for_each(|cut| self.cut_apart(cut, half));
            for (at, stream) in results.iter().enumerate().filter(|(at, _)| split.results.get(*at) == Some(&true)) {
                self.apart(*stream, columns + 8 * (given.len() + at), half, past);
            }
        }
        self.asm.code.extend(late);
        self.end_of_round(straight, TURNED, outer)
    }

    /// Four series' lines of a value to rows.
    fn cut_together(&mut self, cut: usize, half: i32) {
        for ((lane, early), late) in (4 * half..).zip(EARLY).zip(LATE) {
            let line = Part::Lane { column: &[], lane: lane as usize }.cut(cut);
            self.asm.load(Form::Packed, early, line);
            self.asm.load(Form::Packed, late, Machine::half(line, 1));
        }
        for (first, four) in [(0, EARLY), (4, LATE)] {
            for (row, reg) in (first..).zip(self.turn(four)) {
                self.asm.store(Form::Packed, reg, cut_row(cut, row, half));
            }
        }
    }

    /// Rows of a value to four series' lines.
    fn cut_apart(&mut self, cut: usize, half: i32) {
        let mut turned = [EARLY, LATE];
        for (first, four) in [0, 4].into_iter().zip(&mut turned) {
            for (row, reg) in (first..).zip(*four) {
                self.asm.load(Form::Packed, reg, cut_row(cut, row, half));
            }
            *four = self.turn(*four);
        }
        let [early, late] = turned;
        for ((lane, early), late) in (4 * half..).zip(early).zip(late) {
            let line = Part::Lane { column: &[], lane: lane as usize }.cut(cut);
            self.asm.store(Form::Packed, early, line);
            self.asm.store(Form::Packed, late, Machine::half(line, 1));
        }
    }

    /// What `turn` does with a line of some series, with every line of a round.
    fn lines(&mut self, bars: i32, turn: impl FnOnce(&mut Self)) {
        self.asm.zero(asm::RCX);
        if bars == TURNED {
            return turn(self);
        }
        let top = self.asm.code.len();
        turn(self);
        self.asm.add(COLUMN, LINE);
        self.asm.add(asm::RCX, ROWS);
        self.asm.compare_number(asm::RCX, ROW * bars);
        self.asm.back_to(top);
        self.asm.sub(COLUMN, LINE / TURNED * bars);
    }

    /// Where a row of these bars is.
    fn row(&mut self, stream: usize, row: i32, half: i32) -> Place {
        let Place::Moving { base, .. } = self.stream(stream, 0) else { return Place::Reg(0) };
        Place::Moving { base, offset: ROW * row + HALF * half }
    }

    /// Four series' bars from their columns to rows; later ones are asked for.
    fn together(&mut self, stream: usize, columns: usize, half: i32, ask: bool) {
        for ((lane, early), late) in (4 * half..).zip(EARLY).zip(LATE) {
            self.lane(columns, lane);
            let at = |offset: i32| Place::Column { base: asm::RAX, offset };
            self.asm.load(Form::Packed, early, at(0));
            self.asm.load(Form::Packed, late, at(HALF));
            if ask {
                self.asm.prefetch_column(asm::RAX, AHEAD);
            }
        }
        for (first, four) in [(0, EARLY), (4, LATE)] {
            for (row, reg) in (first..).zip(self.turn(four)) {
                let place = self.row(stream, row, half);
                self.asm.store(Form::Packed, reg, place);
            }
        }
    }

    /// Four series' results from rows to their columns.
    fn apart(&mut self, stream: usize, columns: usize, half: i32, past: bool) {
        let mut turned = [EARLY, LATE];
        for (first, four) in [0, 4].into_iter().zip(&mut turned) {
            for (row, reg) in (first..).zip(*four) {
                let place = self.row(stream, row, half);
                self.asm.load(Form::Packed, reg, place);
            }
            *four = self.turn(*four);
        }
        let [early, late] = turned;
        for ((lane, early), late) in (4 * half..).zip(early).zip(late) {
            self.lane(columns, lane);
            for (offset, reg) in [(0, early), (HALF, late)] {
                let place = Place::Column { base: asm::RAX, offset };
                match past {
                    true => self.asm.store_past(reg, place),
                    false => self.asm.store(Form::Packed, reg, place),
                }
            }
        }
    }

    /// A lane's column in RAX.
    fn lane(&mut self, columns: usize, lane: i32) {
        let at = i32::try_from(columns).unwrap_or(0) + lane;
        self.asm.load_pointer(asm::RAX, super::TABLE, 8 * at);
    }

    /// Four rows of four become four columns of four: where they are then.
    fn turn(&mut self, [a, b, c, d]: [Reg; 4]) -> [Reg; 4] {
        let [ab, cd] = SPARE;
        self.asm.unpack(false, ab, a, b);
        self.asm.unpack(true, a, a, b);
        self.asm.unpack(false, cd, c, d);
        self.asm.unpack(true, b, c, d);
        self.asm.halves(d, a, b, 0x20);
        self.asm.halves(a, a, b, 0x31);
        self.asm.halves(c, ab, cd, 0x20);
        self.asm.halves(b, ab, cd, 0x31);
        [c, d, b, a]
    }
}
