//! How does a loop read eight series where they are and write them where they go? Some bars at a time: they are put side by
//! side in registers, computed, and taken apart again.
//!
//! Rows between those three are so few that they never leave the first cache; what is read in a while is asked for as the loop
//! goes, so that memory works while registers do. Only rows that are read some bars later move on in their buffer.

use super::{
    super::asm::{self, Form, Gpr, Place, Reg},
    Ir, Machine, POINTERS, STREAMS_AT, Traffic, Width, machine,
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
/// How far ahead bars are asked for, in bytes of a column. Measured with three and four columns: one line ahead and half a page
/// both take a tenth longer.
const AHEAD: i32 = 256;
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
pub(in super::super) fn emit(ir: &Ir, straight: &Straight, past: bool) -> Vec<u8> {
    let mut machine = machine(ir, Width::Eight, ROW as usize, Traffic::default());
    machine.pointers = MOST_MOVING;
    machine.straight(straight, past)
}

impl Machine<'_> {
    fn straight(&mut self, straight: &Straight, past: bool) -> Vec<u8> {
        let bars = if straight.results.len() < MANY { TURNED } else { BARS as i32 };
        let ask = straight.given.len().max(straight.results.len()) > UNASKED;
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
        self.asm.zero(asm::RCX);
        let inner = self.asm.code.len();
        self.asm.code.extend(body);
        self.asm.add(asm::RCX, ROW);
        self.asm.compare_number(asm::RCX, ROW * bars);
        self.asm.back_to(inner);
        for (column, stream) in straight.results.iter().enumerate() {
            for half in 0..2 {
                self.lines(bars, |m| {
                    m.apart(*stream, columns + 8 * (straight.given.len() + column), half, past)
                });
            }
        }
        for (pointer, _) in POINTERS.iter().zip(&straight.moving).filter(|(_, moving)| **moving) {
            self.asm.add(*pointer, ROW * bars);
        }
        self.asm.add(COLUMN, LINE / TURNED * bars);
        self.asm.compare_end(COLUMN);
        self.asm.back_to(outer);
        self.epilogue()
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
