//! Column-to-column loop in x86-64: transposes of eight series' bars into rows and of results back, around the fused loop.
//!
//! A round interleaves some bars in registers, computes them and deinterleaves the results. The rows in between are so few
//! that they stay in L1; prefetches run ahead, so that memory works while the loop computes. Only rows that are read some bars
//! later advance in their buffer.

use super::{
    Form, Gpr, R15, RAX, RCX, RegMem,
    emit::{Emitter, STREAM_REGS, TABLE, table_offset},
};
use crate::jit::{
    args::ARG_STREAMS,
    error::EmitError,
    ir::Ir,
    regalloc::Reg,
    target::{ColumnStreams, MAX_ROUND_BARS, MemoryHints, Width},
};

/// Results from which on a round is that long. Chosen by measurement: with several results, memory likes columns that are
/// written some lines at a time; with fewer it is better to overlap loading, computing and storing, a line per round.
const LONG_ROUND_RESULTS: usize = 3;
/// Bars that are transposed at once: a cache line of every series.
const TRANSPOSED_BARS: i32 = 8;
/// Bytes of a bar of eight series, and of as many bars as are transposed at once.
const ROW_BYTES: i32 = 64;
const ROWS_BYTES: i32 = ROW_BYTES * TRANSPOSED_BARS;
/// Bytes of a cache line, and of a vector.
const LINE_BYTES: i32 = 64;
const VECTOR_BYTES: i32 = 32;
/// Columns of bars, or of results, up to which the hardware prefetcher keeps up and software prefetch costs more than it saves.
const HARDWARE_PREFETCHED: usize = 2;
/// Prefetch distance in bytes of a column, chosen by measurement: one line and half a page are both slower.
const PREFETCH_BYTES: i32 = 256;
/// The offset of the round in every column, in bytes.
const COLUMN: Gpr = R15;
/// Registers without states: two times four for the bars of four series, and two temporaries.
const EARLY: [Reg; 4] = [0, 1, 2, 3];
const LATE: [Reg; 4] = [8, 9, 10, 11];
const TEMP: [Reg; 2] = [7, 15];

/// Streams whose pointers are in registers: one register is taken for the column offset.
pub(in crate::jit) const MAX_ADVANCING: Option<usize> = Some(ADVANCING_REGS);
const ADVANCING_REGS: usize = STREAM_REGS.len() - 1;

/// Machine code of a loop that is the whole plan. The table has eight pointers for every column after those of the streams:
/// first the bars', then the results'. With `nontemporal` stores, results are aligned to cache lines.
pub(in crate::jit) fn emit_columns(
    ir: &Ir,
    columns: &ColumnStreams,
    nontemporal: bool,
) -> Result<Vec<u8>, EmitError> {
    let mut emitter = Emitter::new(ir, Width::Eight, ROW_BYTES as usize, MemoryHints::default())?;
    emitter.stream_regs = ADVANCING_REGS;
    emitter.column_loop(columns, nontemporal)
}

impl Emitter<'_> {
    fn column_loop(&mut self, streams: &ColumnStreams, nontemporal: bool) -> Result<Vec<u8>, EmitError> {
        let long = streams.results.len() >= LONG_ROUND_RESULTS;
        let bars = if long { MAX_ROUND_BARS as i32 } else { TRANSPOSED_BARS };
        let prefetch = streams.inputs.len().max(streams.results.len()) > HARDWARE_PREFETCHED;
        self.body()?;
        let body = std::mem::take(&mut self.asm.code);
        self.prologue()?;
        self.asm.xor_zero(COLUMN);
        let outer = self.asm.code.len();
        let columns = ARG_STREAMS + self.ir.streams.len();
        for (column, stream) in streams.inputs.iter().enumerate() {
            for half in 0..2 {
                self.lines(bars, |m| m.interleave(*stream, columns + 8 * column, half, prefetch))?;
            }
        }
        self.asm.xor_zero(RCX);
        let inner = self.asm.code.len();
        self.asm.code.extend(body);
        self.asm.add(RCX, ROW_BYTES);
        self.asm.cmp(RCX, ROW_BYTES * bars);
        self.asm.jb(inner)?;
        for (column, stream) in streams.results.iter().enumerate() {
            for half in 0..2 {
                self.lines(bars, |m| {
                    m.deinterleave(*stream, columns + 8 * (streams.inputs.len() + column), half, nontemporal)
                })?;
            }
        }
        for (pointer, _) in STREAM_REGS.iter().zip(&streams.advancing).filter(|(_, advancing)| **advancing) {
            self.asm.add(*pointer, ROW_BYTES * bars);
        }
        self.asm.add(COLUMN, LINE_BYTES / TRANSPOSED_BARS * bars);
        self.asm.cmp_rsi(COLUMN);
        self.asm.jb(outer)?;
        self.epilogue()
    }

    /// Emits `transpose` for every line of a round: once, or as a loop.
    fn lines(
        &mut self,
        bars: i32,
        transpose: impl FnOnce(&mut Self) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        self.asm.xor_zero(RCX);
        if bars == TRANSPOSED_BARS {
            return transpose(self);
        }
        let top = self.asm.code.len();
        transpose(self)?;
        self.asm.add(COLUMN, LINE_BYTES);
        self.asm.add(RCX, ROWS_BYTES);
        self.asm.cmp(RCX, ROW_BYTES * bars);
        self.asm.jb(top)?;
        self.asm.sub(COLUMN, LINE_BYTES / TRANSPOSED_BARS * bars);
        Ok(())
    }

    /// Half a row of these bars.
    fn row(&mut self, stream: usize, row: i32, half: usize) -> Result<RegMem, EmitError> {
        let base = self.stream_base(stream)?;
        Ok(RegMem::Stream { base, disp: ROW_BYTES * row + VECTOR_BYTES * half as i32 })
    }

    /// Four series' bars from their columns to rows; later ones are prefetched.
    fn interleave(
        &mut self,
        stream: usize,
        columns: usize,
        half: usize,
        prefetch: bool,
    ) -> Result<(), EmitError> {
        for ((lane, early), late) in (4 * half..).zip(EARLY).zip(LATE) {
            self.lane(columns + lane)?;
            let at = |disp: i32| RegMem::Column { base: RAX, disp };
            self.asm.vmov_load(Form::Packed, early, at(0));
            self.asm.vmov_load(Form::Packed, late, at(VECTOR_BYTES));
            if prefetch {
                self.asm.prefetcht1_column(RAX, PREFETCH_BYTES);
            }
        }
        for (first, four) in [(0, EARLY), (4, LATE)] {
            for (row, reg) in (first..).zip(self.transpose(four)) {
                let operand = self.row(stream, row, half)?;
                self.asm.vmov_store(Form::Packed, reg, operand);
            }
        }
        Ok(())
    }

    /// Four series' results from rows to their columns.
    fn deinterleave(
        &mut self,
        stream: usize,
        columns: usize,
        half: usize,
        nontemporal: bool,
    ) -> Result<(), EmitError> {
        let mut transposed = [EARLY, LATE];
        for (first, four) in [0, 4].into_iter().zip(&mut transposed) {
            for (row, reg) in (first..).zip(*four) {
                let operand = self.row(stream, row, half)?;
                self.asm.vmov_load(Form::Packed, reg, operand);
            }
            *four = self.transpose(*four);
        }
        let [early, late] = transposed;
        for ((lane, early), late) in (4 * half..).zip(early).zip(late) {
            self.lane(columns + lane)?;
            for (disp, reg) in [(0, early), (VECTOR_BYTES, late)] {
                let operand = RegMem::Column { base: RAX, disp };
                match nontemporal {
                    true => self.asm.vmovntpd(reg, operand),
                    false => self.asm.vmov_store(Form::Packed, reg, operand),
                }
            }
        }
        Ok(())
    }

    /// A lane's column pointer into RAX.
    fn lane(&mut self, column: usize) -> Result<(), EmitError> {
        self.asm.mov_load(RAX, TABLE, table_offset(column)?);
        Ok(())
    }

    /// 4x4 transpose; the registers of the four columns.
    fn transpose(&mut self, [a, b, c, d]: [Reg; 4]) -> [Reg; 4] {
        let [ab, cd] = TEMP;
        self.asm.vunpcklpd(ab, a, b);
        self.asm.vunpckhpd(a, a, b);
        self.asm.vunpcklpd(cd, c, d);
        self.asm.vunpckhpd(b, c, d);
        self.asm.vperm2f128(d, a, b, 0x20);
        self.asm.vperm2f128(a, a, b, 0x31);
        self.asm.vperm2f128(c, ab, cd, 0x20);
        self.asm.vperm2f128(b, ab, cd, 0x31);
        [c, d, b, a]
    }
}
