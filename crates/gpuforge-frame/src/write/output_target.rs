//! Output target: a temp file that is renamed atomically to the target, or a pipe, device or standard output directly.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::error::ArrowError;
use parquet::errors::ParquetError;

use crate::{error::FrameError, temp_file::TemporaryFile};

/// Write buffer in bytes.
const BUFFER: usize = 1 << 18;

/// Bytes written through a [`Sink`] and its first I/O error. Encoders wrap errors in their own; this is the original.
#[derive(Debug, Default)]
struct SinkState {
    bytes: AtomicU64,
    failed: Mutex<Option<io::Error>>,
}

/// Counting writer that encoders write to.
pub(crate) struct Sink {
    out: Box<dyn Write + Send>,
    state: Arc<SinkState>,
}

impl Sink {
    fn record_error<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let short = io::Error::from(error.kind());
            // `write_all` retries after an interruption; it is not a failure.
            if error.kind() != io::ErrorKind::Interrupted {
                let mut failed = self.state.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
            short
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        let written = self.record_error(written)?;
        self.state.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.record_error(flushed)
    }
}

/// Encoder error.
#[derive(Debug)]
pub(crate) enum EncodeError {
    /// I/O error; the sink has the original.
    Io(io::Error),
    /// Error of the encoder.
    Other(String),
}

impl From<io::Error> for EncodeError {
    fn from(error: io::Error) -> Self {
        EncodeError::Io(error)
    }
}

impl From<ArrowError> for EncodeError {
    fn from(error: ArrowError) -> Self {
        EncodeError::Other(error.to_string())
    }
}

impl From<ParquetError> for EncodeError {
    fn from(error: ParquetError) -> Self {
        EncodeError::Other(error.to_string())
    }
}

/// The target of a [`super::Writer`].
#[derive(Debug)]
pub(crate) struct OutputTarget {
    path: PathBuf,
    /// The temp file to be renamed; `None` where bytes go straight to the target.
    temp_file: Option<TemporaryFile>,
    state: Arc<SinkState>,
}

impl OutputTarget {
    /// Opens a target: standard output for `-`; pipes and devices directly; else a temp file beside it.
    pub(crate) fn open(path: &Path) -> Result<(OutputTarget, Sink), FrameError> {
        if path == Path::new("-") {
            return Ok(OutputTarget::over(Box::new(BufWriter::with_capacity(BUFFER, io::stdout())), path));
        }
        let failed = |source| FrameError::Io { doing: "create", path: path.to_owned(), source };
        let existing = std::fs::metadata(path);
        if existing.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if existing.as_ref().is_ok_and(|m| !m.is_file()) {
            // `/dev/null` must not be replaced by a file.
            let file = File::options().write(true).open(path).map_err(failed)?;
            return Ok(OutputTarget::over(Box::new(BufWriter::with_capacity(BUFFER, file)), path));
        }
        // A symlink stays: its destination is replaced.
        let target = match existing {
            Ok(_) => std::fs::canonicalize(path).map_err(failed)?,
            Err(_) => path.to_owned(),
        };
        let temporary = TemporaryFile::beside(&target).map_err(failed)?;
        let file = temporary.handle().map_err(failed)?;
        let (mut target, sink) = OutputTarget::over(Box::new(BufWriter::with_capacity(BUFFER, file)), path);
        target.temp_file = Some(temporary);
        Ok((target, sink))
    }

    /// A writer of the caller.
    pub(crate) fn over(out: Box<dyn Write + Send>, name: &Path) -> (OutputTarget, Sink) {
        let state = Arc::new(SinkState::default());
        let target = OutputTarget { path: name.to_owned(), temp_file: None, state: state.clone() };
        (target, Sink { out, state })
    }

    /// Path for error messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Delimiter of CSV.
    pub(crate) fn delimiter(&self) -> u8 {
        match self.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv")) {
            true => b'\t',
            false => b',',
        }
    }

    /// The error to report: the original I/O error if there is one.
    pub(crate) fn to_frame_error(&self, error: EncodeError) -> FrameError {
        let io_error = self.state.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let path = self.path.clone();
        match (io_error, error) {
            (Some(source), _) | (None, EncodeError::Io(source)) => {
                FrameError::Io { doing: "write", path, source }
            }
            (None, EncodeError::Other(message)) => FrameError::Format { path, message },
        }
    }

    /// Renames the temp file to the target; returns its size. Everything must have been flushed.
    pub(crate) fn persist(self) -> Result<u64, FrameError> {
        if let Some(temporary) = self.temp_file {
            let failed = |source| FrameError::Io { doing: "create", path: self.path.clone(), source };
            temporary.persist().map_err(failed)?;
        }
        Ok(self.state.bytes.load(Ordering::Relaxed))
    }
}
