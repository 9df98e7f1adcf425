//! Spill file: rows that exceed the memory limit, in blocks of one symbol each, in an unnamed temporary file.
//!
//! A block is column-major, eight bytes per value. The file is unlinked when created, so no crash leaves it behind.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use super::series::Series;
use crate::error::FrameError;

/// I/O buffer size in bytes.
const BUFFER: usize = 1 << 16;

/// Rows of one symbol in the spill file.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpillBlock {
    /// Byte offset.
    pub offset: u64,
    /// Number of rows.
    pub rows: usize,
}

/// Spill file.
pub(super) struct SpillFile {
    directory: PathBuf,
    file: File,
    end: u64,
    buffer: Vec<u8>,
}

impl SpillFile {
    /// An empty file in `directory`, or the system's temporary directory.
    pub(super) fn new(directory: Option<&Path>) -> Result<SpillFile, FrameError> {
        let directory = directory.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let file = tempfile::tempfile_in(&directory).map_err(|source| FrameError::Io {
            doing: "create a temporary file in",
            path: directory.clone(),
            source,
        })?;
        Ok(SpillFile { directory, file, end: 0, buffer: Vec::with_capacity(BUFFER) })
    }

    /// Appends rows of a series as one block. Empty columns take no space.
    pub(super) fn write(&mut self, series: &Series, rows: Range<usize>) -> Result<SpillBlock, FrameError> {
        let block = SpillBlock { offset: self.end, rows: rows.len() };
        let directory = self.directory.clone();
        let io =
            |source| FrameError::Io { doing: "write a temporary file in", path: directory.clone(), source };
        self.file.seek(SeekFrom::Start(self.end)).map_err(io)?;
        self.write_column(series.time.get(rows.clone()).into_iter().flatten().map(|t| *t as u64))
            .map_err(io)?;
        self.write_column(series.row.get(rows.clone()).into_iter().flatten().copied()).map_err(io)?;
        for column in &series.values {
            self.write_column(column.get(rows.clone()).into_iter().flatten().map(|v| v.to_bits()))
                .map_err(io)?;
        }
        Ok(block)
    }

    /// Appends a column.
    fn write_column(&mut self, mut words: impl Iterator<Item = u64>) -> std::io::Result<()> {
        loop {
            self.buffer.clear();
            for word in words.by_ref().take(BUFFER / 8) {
                self.buffer.extend_from_slice(&word.to_le_bytes());
            }
            if self.buffer.is_empty() {
                return Ok(());
            }
            self.file.write_all(&self.buffer)?;
            self.end += self.buffer.len() as u64;
        }
    }

    /// Reads a block and appends it to a series.
    pub(super) fn read(
        &mut self,
        block: SpillBlock,
        columns: ColumnSet,
        series: &mut Series,
    ) -> Result<(), FrameError> {
        let directory = self.directory.clone();
        let io =
            |source| FrameError::Io { doing: "read a temporary file in", path: directory.clone(), source };
        self.file.seek(SeekFrom::Start(block.offset)).map_err(io)?;
        if columns.timed {
            self.read_column(block.rows, &mut series.time, |word| word as i64).map_err(io)?;
            self.read_column(block.rows, &mut series.row, |word| word).map_err(io)?;
        }
        for (column, present) in series.values.iter_mut().zip(columns.values) {
            if present {
                self.read_column(block.rows, column, f64::from_bits).map_err(io)?;
            }
        }
        Ok(())
    }

    /// Reads a column at the current file position.
    fn read_column<T>(
        &mut self,
        rows: usize,
        column: &mut Vec<T>,
        of: impl Fn(u64) -> T,
    ) -> std::io::Result<()> {
        column.reserve(rows);
        let mut left = rows * 8;
        while left > 0 {
            self.buffer.resize(left.min(BUFFER), 0);
            self.file.read_exact(&mut self.buffer)?;
            column.extend(self.buffer.as_chunks().0.iter().map(|word| of(u64::from_le_bytes(*word))));
            left -= self.buffer.len();
        }
        Ok(())
    }
}

/// Which columns a series has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnSet {
    /// Times and row ids.
    pub timed: bool,
    /// Open, high, low, close, volume.
    pub values: [bool; 5],
}

impl ColumnSet {
    /// Bytes per row.
    pub(super) fn row_bytes(self) -> usize {
        8 * (2 * usize::from(self.timed) + self.values.iter().filter(|v| **v).count())
    }
}
