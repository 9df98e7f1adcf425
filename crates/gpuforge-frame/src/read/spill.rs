//! Where do rows wait that do not fit into memory? In one temporary file without a name, in blocks of one symbol each.
//!
//! A block is its columns one after the other, eight bytes a value. The file is gone when the process is, however it ends.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use super::series::Series;
use crate::error::FrameError;

/// Bytes that are converted at once.
const STEP: usize = 1 << 16;

/// Rows of one symbol in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// Where.
    pub offset: u64,
    /// How many.
    pub rows: usize,
}

/// The temporary file.
pub(super) struct Spill {
    folder: PathBuf,
    file: File,
    end: u64,
    buffer: Vec<u8>,
}

impl Spill {
    /// An empty one.
    pub(super) fn new(folder: Option<&Path>) -> Result<Spill, FrameError> {
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let file = tempfile::tempfile_in(&folder).map_err(|source| FrameError::Io {
            doing: "create a temporary file in",
            path: folder.clone(),
            source,
        })?;
        Ok(Spill { folder, file, end: 0, buffer: Vec::with_capacity(STEP) })
    }

    /// Appends some rows of a series. Columns that are empty take no place.
    pub(super) fn write(&mut self, series: &Series, rows: Range<usize>) -> Result<Block, FrameError> {
        let block = Block { offset: self.end, rows: rows.len() };
        let folder = self.folder.clone();
        let io = |source| FrameError::Io { doing: "write a temporary file in", path: folder.clone(), source };
        self.file.seek(SeekFrom::Start(self.end)).map_err(io)?;
        self.put(series.time.get(rows.clone()).into_iter().flatten().map(|t| *t as u64)).map_err(io)?;
        self.put(series.row.get(rows.clone()).into_iter().flatten().copied()).map_err(io)?;
        for column in &series.values {
            self.put(column.get(rows.clone()).into_iter().flatten().map(|v| v.to_bits())).map_err(io)?;
        }
        Ok(block)
    }

    /// Writes a column at the end.
    fn put(&mut self, mut words: impl Iterator<Item = u64>) -> std::io::Result<()> {
        loop {
            self.buffer.clear();
            for word in words.by_ref().take(STEP / 8) {
                self.buffer.extend_from_slice(&word.to_le_bytes());
            }
            if self.buffer.is_empty() {
                return Ok(());
            }
            self.file.write_all(&self.buffer)?;
            self.end += self.buffer.len() as u64;
        }
    }

    /// Reads a block behind the rows of a series.
    pub(super) fn read(&mut self, block: Block, shape: Shape, series: &mut Series) -> Result<(), FrameError> {
        let folder = self.folder.clone();
        let io = |source| FrameError::Io { doing: "read a temporary file in", path: folder.clone(), source };
        self.file.seek(SeekFrom::Start(block.offset)).map_err(io)?;
        if shape.timed {
            self.get(block.rows, &mut series.time, |word| word as i64).map_err(io)?;
            self.get(block.rows, &mut series.row, |word| word).map_err(io)?;
        }
        for (column, present) in series.values.iter_mut().zip(shape.values) {
            if present {
                self.get(block.rows, column, f64::from_bits).map_err(io)?;
            }
        }
        Ok(())
    }

    /// Reads a column from where the file is.
    fn get<T>(&mut self, rows: usize, column: &mut Vec<T>, of: impl Fn(u64) -> T) -> std::io::Result<()> {
        column.reserve(rows);
        let mut left = rows * 8;
        while left > 0 {
            self.buffer.resize(left.min(STEP), 0);
            self.file.read_exact(&mut self.buffer)?;
            column.extend(self.buffer.as_chunks().0.iter().map(|word| of(u64::from_le_bytes(*word))));
            left -= self.buffer.len();
        }
        Ok(())
    }
}

/// Which columns series have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Times and row numbers?
    pub timed: bool,
    /// Which values?
    pub values: [bool; 5],
}

impl Shape {
    /// Bytes of a row.
    pub(super) fn width(self) -> usize {
        8 * (2 * usize::from(self.timed) + self.values.iter().filter(|v| **v).count())
    }
}
