//! Into which file, in which form? By its name; written beside it first and then renamed.

use crate::{error::TraceError, trace::Trace};
use std::{
    io::{BufWriter, Write as _},
    path::Path,
};

/// A form a trace can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The whole trace, for [`Trace::from_json`].
    Raw,
    /// Trace-event JSON, for trace viewers.
    Chrome,
}

impl Format {
    /// [`Format::Chrome`] for names that end in `.trace.json` or `.perfetto.json`, in any case; else [`Format::Raw`].
    pub fn of(path: &Path) -> Format {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match [".trace.json", ".perfetto.json"].iter().any(|end| name.ends_with(end)) {
            true => Format::Chrome,
            false => Format::Raw,
        }
    }
}

impl Trace {
    /// Writes the trace to a file in the form its name asks for. The file is complete or untouched.
    pub fn write_file(&self, path: &Path) -> Result<(), TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
        let mut out = BufWriter::new(file.as_file_mut());
        let written = match Format::of(path) {
            Format::Raw => self.write_json(&mut out),
            Format::Chrome => self.write_chrome(&mut out),
        };
        written.map_err(|error| io(error.into()))?;
        out.flush().map_err(io)?;
        drop(out);
        file.persist(path).map_err(|error| io(error.error))?;
        Ok(())
    }

    /// Reads a file that [`Trace::write_file`] wrote in the form [`Format::Raw`].
    pub fn read_file(path: &Path) -> Result<Trace, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        Trace::from_json(&std::fs::read_to_string(path).map_err(io)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{span, trace};

    #[test]
    fn the_name_decides_the_form() {
        for (name, format) in [
            ("a.json", Format::Raw),
            ("a.trace.json", Format::Chrome),
            ("dir.trace.json/a.json", Format::Raw),
            ("A.PERFETTO.JSON", Format::Chrome),
            ("trace.json", Format::Raw),
            ("", Format::Raw),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        std::fs::write(&path, "old").unwrap();
        let sample = trace(&[span("a", 0, 0, 1, 2)]);
        sample.write_file(&path).unwrap();
        assert_eq!(Trace::read_file(&path).unwrap(), sample);
        // The folder holds nothing else: no temporary file is left.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = sample.write_file(&folder.path().join("absent/run.json")).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
        let error = Trace::read_file(&folder.path().join("none.json")).unwrap_err();
        assert!(matches!(error, TraceError::Io { .. }));
        // A folder in the way: the trace cannot be renamed onto it, and the temporary file is removed.
        let blocked = folder.path().join("blocked.json");
        std::fs::create_dir(&blocked).unwrap();
        std::fs::write(blocked.join("x"), "").unwrap();
        assert!(sample.write_file(&blocked).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
