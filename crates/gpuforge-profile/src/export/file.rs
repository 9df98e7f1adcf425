//! Trace files: format by file name, atomic write (temporary file and rename).

use crate::{error::TraceError, trace::Trace};
use std::{
    io::{BufWriter, Write as _},
    path::Path,
};

/// Format of a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// The complete trace, for [`Trace::from_json`].
    Raw,
    /// Trace-event JSON, for trace viewers.
    Chrome,
}

impl TraceFormat {
    /// [`TraceFormat::Chrome`] for names that end in `.trace.json` or `.perfetto.json`, in any case; else [`TraceFormat::Raw`].
    pub fn of(path: &Path) -> TraceFormat {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match [".trace.json", ".perfetto.json"].iter().any(|end| name.ends_with(end)) {
            true => TraceFormat::Chrome,
            false => TraceFormat::Raw,
        }
    }
}

impl Trace {
    /// Writes the trace to a file, in the format of its name. Atomic: the file is complete or untouched.
    pub fn write_file(&self, path: &Path) -> Result<(), TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        let directory =
            path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(io)?;
        let mut out = BufWriter::new(file.as_file_mut());
        let written = match TraceFormat::of(path) {
            TraceFormat::Raw => self.write_json(&mut out),
            TraceFormat::Chrome => self.write_chrome(&mut out),
        };
        written.map_err(|error| io(error.into()))?;
        out.flush().map_err(io)?;
        drop(out);
        file.persist(path).map_err(|error| io(error.error))?;
        Ok(())
    }

    /// Reads a file that [`Trace::write_file`] wrote as [`TraceFormat::Raw`].
    pub fn read_file(path: &Path) -> Result<Trace, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        Trace::from_json(&std::fs::read_to_string(path).map_err(io)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trace::{span, trace};

    #[test]
    fn file_name_determines_the_format() {
        for (name, format) in [
            ("a.json", TraceFormat::Raw),
            ("a.trace.json", TraceFormat::Chrome),
            ("dir.trace.json/a.json", TraceFormat::Raw),
            ("A.PERFETTO.JSON", TraceFormat::Chrome),
            ("trace.json", TraceFormat::Raw),
            ("", TraceFormat::Raw),
        ] {
            assert_eq!(TraceFormat::of(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn file_is_replaced_atomically() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        std::fs::write(&path, "old").unwrap();
        let sample = trace(&[span("a", 0, 0, 1, 2)]);
        sample.write_file(&path).unwrap();
        assert_eq!(Trace::read_file(&path).unwrap(), sample);
        // No temporary file is left in the directory.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        let error = sample.write_file(&directory.path().join("absent/run.json")).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
        let error = Trace::read_file(&directory.path().join("none.json")).unwrap_err();
        assert!(matches!(error, TraceError::Io { .. }));
        // A directory with that name: the rename fails, and the temporary file is removed.
        let blocked = directory.path().join("blocked.json");
        std::fs::create_dir(&blocked).unwrap();
        std::fs::write(blocked.join("x"), "").unwrap();
        assert!(sample.write_file(&blocked).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
