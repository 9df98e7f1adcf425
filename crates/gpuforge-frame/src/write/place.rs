//! Where do the bytes go? Into a file beside the target that takes its name at the end, or straight to where no file is.

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

use crate::{error::FrameError, temporary::TemporaryFile};

/// Bytes that go to the system at once.
const BUFFER: usize = 1 << 18;

/// What went through a [`Sink`], and what the system said when it no longer did. Encoders wrap errors in their own; here
/// is the original.
#[derive(Debug, Default)]
struct Tally {
    bytes: AtomicU64,
    failed: Mutex<Option<io::Error>>,
}

/// What encoders write to.
pub(crate) struct Sink {
    out: Box<dyn Write + Send>,
    tally: Arc<Tally>,
}

impl Sink {
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let short = io::Error::from(error.kind());
            // Only what nobody can wait out is a failure: `write_all` tries again after an interruption.
            if error.kind() != io::ErrorKind::Interrupted {
                let mut failed = self.tally.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
            short
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        let written = self.note(written)?;
        self.tally.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

/// Why an encoder stopped.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The system refused bytes; the sink knows more.
    Io(io::Error),
    /// The encoder itself.
    Other(String),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Stopped::Io(error)
    }
}

impl From<ArrowError> for Stopped {
    fn from(error: ArrowError) -> Self {
        Stopped::Other(error.to_string())
    }
}

impl From<ParquetError> for Stopped {
    fn from(error: ParquetError) -> Self {
        Stopped::Other(error.to_string())
    }
}

/// The target of a [`super::Writer`].
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The file that will take the target's name; none where bytes go straight to their target.
    later: Option<TemporaryFile>,
    tally: Arc<Tally>,
}

impl Place {
    /// Opens a place for a target: standard output for `-`; pipes and devices directly; else a temporary file beside it.
    pub(crate) fn open(path: &Path) -> Result<(Place, Sink), FrameError> {
        if path == Path::new("-") {
            return Ok(Place::over(Box::new(BufWriter::with_capacity(BUFFER, io::stdout())), path));
        }
        let failed = |source| FrameError::Io { doing: "create", path: path.to_owned(), source };
        let there = std::fs::metadata(path);
        if there.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if there.as_ref().is_ok_and(|m| !m.is_file()) {
            // A name beside `/dev/null` must not replace it.
            let file = File::options().write(true).open(path).map_err(failed)?;
            return Ok(Place::over(Box::new(BufWriter::with_capacity(BUFFER, file)), path));
        }
        // A link stays a link: what it points to is replaced.
        let target = match there {
            Ok(_) => std::fs::canonicalize(path).map_err(failed)?,
            Err(_) => path.to_owned(),
        };
        let temporary = TemporaryFile::beside(&target).map_err(failed)?;
        let file = temporary.handle().map_err(failed)?;
        let (mut place, sink) = Place::over(Box::new(BufWriter::with_capacity(BUFFER, file)), path);
        place.later = Some(temporary);
        Ok((place, sink))
    }

    /// A place of the caller's.
    pub(crate) fn over(out: Box<dyn Write + Send>, name: &Path) -> (Place, Sink) {
        let tally = Arc::new(Tally::default());
        let place = Place { path: name.to_owned(), later: None, tally: tally.clone() };
        (place, Sink { out, tally })
    }

    /// What errors call it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What stands between cells of text.
    pub(crate) fn separator(&self) -> u8 {
        match self.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv")) {
            true => b'\t',
            false => b',',
        }
    }

    /// The error to report: what the system said if it said something.
    pub(crate) fn explain(&self, stopped: Stopped) -> FrameError {
        let said = self.tally.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let path = self.path.clone();
        match (said, stopped) {
            (Some(source), _) | (None, Stopped::Io(source)) => {
                FrameError::Io { doing: "write", path, source }
            }
            (None, Stopped::Other(message)) => FrameError::Format { path, message },
        }
    }

    /// Gives the file its name; says how many bytes it has. Everything must have been flushed before.
    pub(crate) fn keep(self) -> Result<u64, FrameError> {
        if let Some(temporary) = self.later {
            let failed = |source| FrameError::Io { doing: "create", path: self.path.clone(), source };
            temporary.keep().map_err(failed)?;
        }
        Ok(self.tally.bytes.load(Ordering::Relaxed))
    }
}
