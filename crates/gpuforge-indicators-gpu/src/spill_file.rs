//! Spill file: an anonymous temporary file of f64 columns that do not fit into memory.
//!
//! It transposes: a device produces all bars of some columns, the writer needs all columns of some bars. The operating system
//! removes the file when the process ends; the next symbol overwrites it.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use gpuforge_frame::FrameError;

/// Values that are written and read to measure the disk's throughput.
const PROBE: usize = 1 << 18;

/// Columns on disk, addressed by value index.
pub struct SpillFile {
    directory: PathBuf,
    file: Mutex<File>,
    /// Seconds to write and read a value.
    seconds_per_value: f64,
}

impl SpillFile {
    /// Creates an empty one and measures its throughput.
    pub fn new() -> Result<SpillFile, FrameError> {
        let directory = std::env::temp_dir();
        let file = tempfile::tempfile_in(&directory).map_err(|source| FrameError::Io {
            doing: "create a temporary file in",
            path: directory.clone(),
            source,
        })?;
        let mut spill = SpillFile { directory, file: Mutex::new(file), seconds_per_value: 0.0 };
        let mut values = vec![0.5; PROBE];
        let began = Instant::now();
        spill.write(0, &values)?;
        spill.read(0, &mut values)?;
        spill.seconds_per_value = began.elapsed().as_secs_f64() / PROBE as f64;
        Ok(spill)
    }

    /// Predicted seconds to write and read so many values.
    pub fn seconds(&self, values: usize) -> f64 {
        self.seconds_per_value * values as f64
    }

    /// Writes values from value index `at` on.
    pub fn write(&self, at: usize, values: &[f64]) -> Result<(), FrameError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = seek(&mut file, at).and_then(|()| file.write_all(bytemuck::cast_slice(values)));
        written.map_err(|source| self.error("write a temporary file in", source))
    }

    /// Reads values from value index `at` on.
    pub fn read(&self, at: usize, values: &mut [f64]) -> Result<(), FrameError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = seek(&mut file, at).and_then(|()| file.read_exact(bytemuck::cast_slice_mut(values)));
        read.map_err(|source| self.error("read a temporary file in", source))
    }

    fn error(&self, doing: &'static str, source: std::io::Error) -> FrameError {
        FrameError::Io { doing, path: self.directory.clone(), source }
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
    fn columns_read_back_by_rows_and_reading_past_the_end_fails() {
        let spill = SpillFile::new().unwrap();
        let columns: Vec<Vec<f64>> =
            (0..3).map(|c| (0..100).map(|t| f64::from(c * 1000 + t)).collect()).collect();
        for (at, column) in columns.iter().enumerate().rev() {
            spill.write(PROBE + at * 100, column).unwrap();
        }
        let mut rows = [0.0; 40];
        for (at, column) in columns.iter().enumerate() {
            spill.read(PROBE + at * 100 + 60, &mut rows).unwrap();
            assert_eq!(column.get(60..), Some(&rows[..]));
        }
        assert!(spill.read(PROBE + 290, &mut rows).unwrap_err().to_string().contains("temporary file"));
        assert!(spill.seconds(10) > 0.0);
    }
}
