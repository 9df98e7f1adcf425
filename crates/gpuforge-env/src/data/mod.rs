//! Data tables: embedded TOML, replaceable as a whole by a user's file of the same name.
//!
//! A table is a TOML file with a `version`. A file of the same name in the user's data directory replaces it as a whole; an
//! invalid one is reported with line and column, and the embedded table is used.
//!
//! ```
//! use gpuforge_env::data::{TableSource, DataTable, load};
//!
//! #[derive(Default, serde::Deserialize)]
//! struct Wheels { version: u32, wheels: Vec<String> }
//! impl DataTable for Wheels {
//!     const VERSION: u32 = 1;
//!     fn version(&self) -> u32 { self.version }
//!     fn check(&self) -> Result<(), String> {
//!         if self.wheels.is_empty() { Err("no wheels".to_owned()) } else { Ok(()) }
//!     }
//! }
//! let loaded = load::<Wheels>("wheels.toml", "version = 1\nwheels = ['torch']", None);
//! assert_eq!(loaded.source, TableSource::Embedded);
//! assert!(loaded.problem.is_none());
//! ```

use std::{
    fs, io,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

/// Size limit: a wrong file is rejected before it fills memory.
pub const LIMIT: u64 = 8 << 20;

/// A data table.
pub trait DataTable: DeserializeOwned + Default {
    /// The one version of the layout that this program reads.
    const VERSION: u32;

    /// The version that the file states.
    fn version(&self) -> u32;

    /// Consistency beyond the types: unknown references, duplicates. Runs at every start: keep it cheap.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Expensive checks, such as compiling all patterns: run on a user's file, and on the embedded one by a test.
    fn check_deep(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A table and where it came from.
#[derive(Debug)]
pub struct LoadedTable<T> {
    /// The table.
    pub value: T,
    /// Where it came from.
    pub source: TableSource,
    /// Why the user's file was rejected.
    pub problem: Option<DataError>,
}

/// Where a table came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableSource {
    /// Embedded in the program.
    Embedded,
    /// The user's file.
    File(PathBuf),
}

impl TableSource {
    /// Is it embedded in the program? Only such tables may name commands to run.
    pub fn is_embedded(&self) -> bool {
        *self == TableSource::Embedded
    }
}

/// Why a data file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// It cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It cannot be written.
    #[error("{} cannot be written: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is too large.
    #[error("{} is larger than {} MiB", path.display(), LIMIT >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not TOML, or not of this layout.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in letters, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// It has another layout.
    #[error("{}: version {found}, this program reads version {expected}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it states.
        found: u32,
        /// What is read.
        expected: u32,
    },
    /// It parses, and contradicts itself.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// The table `name`: the file of that name in `override_dir` if it exists and is valid, else the embedded text.
///
/// An invalid embedded text (a test forbids it) gives an empty table with a `problem`.
pub fn load<T: DataTable>(name: &str, embedded: &str, override_dir: Option<&Path>) -> LoadedTable<T> {
    let mut problem = None;
    if let Some(path) = override_dir.map(|dir| dir.join(name)) {
        match read(&path) {
            Ok(None) => {}
            Ok(Some(text)) => match parse_deep(&text, &path) {
                Ok(value) => return LoadedTable { value, source: TableSource::File(path), problem: None },
                Err(error) => problem = Some(error),
            },
            Err(error) => problem = Some(error),
        }
    }
    match parse(embedded, Path::new(name)) {
        Ok(value) => LoadedTable { value, source: TableSource::Embedded, problem },
        Err(error) => {
            LoadedTable { value: T::default(), source: TableSource::Embedded, problem: Some(error) }
        }
    }
}

/// Reads a table from text; `path` is only for the messages.
pub fn parse<T: DataTable>(text: &str, path: &Path) -> Result<T, DataError> {
    let value: T = toml::from_str(text).map_err(|error| {
        let (line, column) = error.span().map_or((1, 1), |span| position(text, span.start));
        let message = error.message().trim().replace('\n', ", ");
        DataError::Syntax { path: path.to_owned(), line, column, message }
    })?;
    if value.version() != T::VERSION {
        let (found, expected) = (value.version(), T::VERSION);
        return Err(DataError::Version { path: path.to_owned(), found, expected });
    }
    value.check().map_err(|message| DataError::Content { path: path.to_owned(), message })?;
    Ok(value)
}

/// Reads a table from text with every check there is.
pub fn parse_deep<T: DataTable>(text: &str, path: &Path) -> Result<T, DataError> {
    let value: T = parse(text, path)?;
    value.check_deep().map_err(|message| DataError::Content { path: path.to_owned(), message })?;
    Ok(value)
}

/// Checks `from` and installs it as the user's table `name` in `dir`, by atomic replace.
pub fn install<T: DataTable>(name: &str, from: &Path, dir: &Path) -> Result<PathBuf, DataError> {
    let missing = || DataError::Read { path: from.to_owned(), error: io::ErrorKind::NotFound.into() };
    let text = read(from)?.ok_or_else(missing)?;
    parse_deep::<T>(&text, from)?;
    let target = dir.join(name);
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let mut file = tempfile::Builder::new().prefix(".data-").tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.persist(&target).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|error| DataError::Write { path: target.clone(), error })?;
    Ok(target)
}

/// The text of a file; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>, DataError> {
    let failed = |error| DataError::Read { path: path.to_owned(), error };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LIMIT {
        return Err(DataError::TooLarge { path: path.to_owned() });
    }
    match String::from_utf8(bytes) {
        // Editors on Windows write a byte order mark, which TOML does not allow.
        Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes().get(..good).unwrap_or_default());
            let (line, column) = position(&text, good);
            let message = "not UTF-8".to_owned();
            Err(DataError::Syntax { path: path.to_owned(), line, column, message })
        }
    }
}

/// 1-based line and column of a byte; columns count characters.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let mut end = byte.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = text.get(..end).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
