//! Where do columns wait that a device computed and that do not fit into memory? In one temporary file without a name, column
//! after column, eight bytes a value.
//!
//! A device gives all bars of some columns, a file wants all columns of some bars. The file is gone when the process is, however
//! it ends; its place is used again for every symbol.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use gpuforge_frame::FrameError;

/// Values that are written and read to find out what a value takes.
const PROBE: usize = 1 << 18;

/// The temporary file.
pub(crate) struct Scratch {
    folder: PathBuf,
    file: Mutex<File>,
    /// Seconds of a value, to write and to read.
    each: f64,
}

impl Scratch {
    /// An empty one, and what it takes to use it.
    pub(crate) fn new() -> Result<Scratch, FrameError> {
        let folder = std::env::temp_dir();
        let file = tempfile::tempfile_in(&folder).map_err(|source| FrameError::Io {
            doing: "create a temporary file in",
            path: folder.clone(),
            source,
        })?;
        let mut scratch = Scratch { folder, file: Mutex::new(file), each: 0.0 };
        let mut values = vec![0.5; PROBE];
        let began = Instant::now();
        scratch.write(0, &values)?;
        scratch.read(0, &mut values)?;
        scratch.each = began.elapsed().as_secs_f64() / PROBE as f64;
        Ok(scratch)
    }

    /// Seconds that so many values take, by what a few took.
    pub(crate) fn seconds(&self, values: usize) -> f64 {
        self.each * values as f64
    }

    /// Writes values, the first of them at a place counted in values.
    pub(crate) fn write(&self, at: usize, values: &[f64]) -> Result<(), FrameError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = seek(&mut file, at).and_then(|()| file.write_all(bytemuck::cast_slice(values)));
        written.map_err(|source| self.error("write a temporary file in", source))
    }

    /// Reads values from a place on.
    pub(crate) fn read(&self, at: usize, values: &mut [f64]) -> Result<(), FrameError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = seek(&mut file, at).and_then(|()| file.read_exact(bytemuck::cast_slice_mut(values)));
        read.map_err(|source| self.error("read a temporary file in", source))
    }

    fn error(&self, doing: &'static str, source: std::io::Error) -> FrameError {
        FrameError::Io { doing, path: self.folder.clone(), source }
    }
}

fn seek(file: &mut File, at: usize) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(at as u64 * 8)).map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn columns_come_back_by_rows_and_what_is_not_there_is_an_error() {
        let scratch = Scratch::new().unwrap();
        let columns: Vec<Vec<f64>> =
            (0..3).map(|c| (0..100).map(|t| f64::from(c * 1000 + t)).collect()).collect();
        for (at, column) in columns.iter().enumerate().rev() {
            scratch.write(PROBE + at * 100, column).unwrap();
        }
        let mut rows = [0.0; 40];
        for (at, column) in columns.iter().enumerate() {
            scratch.read(PROBE + at * 100 + 60, &mut rows).unwrap();
            assert_eq!(column.get(60..), Some(&rows[..]));
        }
        assert!(scratch.read(PROBE + 290, &mut rows).unwrap_err().to_string().contains("temporary file"));
        assert!(scratch.seconds(10) > 0.0);
    }
}
