//! Input files: paths, directories, hive layouts, patterns and standard input to opened files of a known
//! format. Which files, and what is in them?

use std::{
    fs::File,
    io::{Cursor, Read, Seek},
    path::{Path, PathBuf},
};

use super::path_key;
use crate::error::FrameError;

/// What is to be read: files, directories, patterns, `-`.
///
/// A directory stands for its Parquet, Arrow and CSV files in the order of their names, those of hive directories
/// (`symbol=AAPL`) in it included; a pattern (`data/*.csv`, `**` for directories below) for the files that match it, and `-`
/// for standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input(Vec<PathBuf>);

impl Input {
    /// These, one after the other.
    pub fn new<P: Into<PathBuf>>(items: impl IntoIterator<Item = P>) -> Input {
        Input(items.into_iter().map(Into::into).collect())
    }

    /// As they were given.
    pub fn items(&self) -> &[PathBuf] {
        &self.0
    }
}

impl<P: Into<PathBuf>> From<P> for Input {
    fn from(item: P) -> Input {
        Input(vec![item.into()])
    }
}

/// File formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Parquet,
    Ipc,
    Csv,
}

/// What names of files end in.
const ENDINGS: [(&str, Format); 9] = [
    ("parquet", Format::Parquet),
    ("pq", Format::Parquet),
    ("arrow", Format::Ipc),
    ("arrows", Format::Ipc),
    ("feather", Format::Ipc),
    ("ipc", Format::Ipc),
    ("csv", Format::Csv),
    ("tsv", Format::Csv),
    ("txt", Format::Csv),
];

/// How files of a format begin.
const MAGIC: [(&[u8], Format); 3] =
    [(b"PAR1", Format::Parquet), (b"ARROW1", Format::Ipc), (&[0xFF; 4], Format::Ipc)];

/// How files begin that must be made into something else first, and by what.
const FOREIGN: [(&[u8], &str); 8] = [
    (b"\x1f\x8b", "the file is compressed (gzip)\n  hint: zcat FILE | gpuforge … -"),
    (b"\x28\xb5\x2f\xfd", "the file is compressed (zstd)\n  hint: zstdcat FILE | gpuforge … -"),
    (b"BZh", "the file is compressed (bzip2)\n  hint: bzcat FILE | gpuforge … -"),
    (b"\xfd7zXZ", "the file is compressed (xz)\n  hint: xzcat FILE | gpuforge … -"),
    (
        b"PK\x03\x04",
        "the file is a ZIP archive or a spreadsheet\n  hint: take the table out of it, or save it as CSV",
    ),
    (
        b"FEA1",
        "the file is Feather version 1\n  hint: write it again as Arrow IPC (Feather version 2) or Parquet",
    ),
    (b"PARE", "the Parquet file is encrypted\n  hint: write it again without encryption"),
    (b"\x89HDF", "the file is HDF5\n  hint: write it as Parquet, Arrow IPC or CSV"),
];

fn ending(path: &Path) -> Option<Format> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, format)| *format)
}

/// The format of a file: its first bytes say it; where they do not, it is text unless its name says otherwise.
fn recognise(path: &Path, begin: &[u8]) -> Result<Format, FrameError> {
    let error = |message: &str| FrameError::Format { path: path.into(), message: message.to_string() };
    if begin.is_empty() {
        return Err(error("the file is empty\n  hint: a CSV file has at least a header line"));
    }
    if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| begin.starts_with(magic)) {
        return Ok(*format);
    }
    if let Some((_, why)) = FOREIGN.iter().find(|(magic, _)| begin.starts_with(magic)) {
        return Err(error(why));
    }
    match ending(path) {
        Some(Format::Parquet) => Err(error(
            "the name says Parquet, and the first bytes are not `PAR1`\n  hint: the file is damaged, or CSV by another name",
        )),
        Some(Format::Ipc) => Err(error(
            "the name says Arrow, and the first bytes are not `ARROW1`\n  hint: the file is damaged, or CSV by another name",
        )),
        _ => Ok(Format::Csv),
    }
}

/// A file that can be read.
pub(super) struct Opened {
    /// Its name; `-` for standard input.
    pub path: PathBuf,
    /// What is in it.
    pub format: Format,
    /// How it is read.
    pub body: Body,
    /// Its first bytes.
    pub begin: Vec<u8>,
    /// Its size; `None` if it comes from a pipe.
    pub size: Option<u64>,
}

/// How a file is read.
pub(super) enum Body {
    /// It is opened again when its turn comes: there may be more files than can be open.
    Path,
    /// A copy of what came from a pipe.
    Copy(File),
    /// A pipe; the first bytes were taken.
    Pipe(Box<dyn Read + Send>),
}

/// Bytes that are looked at before reading.
const BEGIN: u64 = 64 << 10;

impl Opened {
    /// The file, for formats that are read in any order.
    pub(super) fn file(&self) -> Result<File, FrameError> {
        let io = |source| FrameError::Io { doing: "read", path: self.path.clone(), source };
        match &self.body {
            Body::Copy(file) => file.try_clone().map_err(io),
            _ => File::open(&self.path).map_err(io),
        }
    }

    /// All bytes from the first on. A pipe gives them once.
    pub(super) fn bytes(&mut self) -> Result<Box<dyn Read + Send>, FrameError> {
        match std::mem::replace(&mut self.body, Body::Path) {
            Body::Pipe(rest) => Ok(Box::new(Cursor::new(std::mem::take(&mut self.begin)).chain(rest))),
            other => {
                self.body = other;
                let mut file = self.file()?;
                file.rewind().map_err(|source| FrameError::Io {
                    doing: "read",
                    path: self.path.clone(),
                    source,
                })?;
                Ok(Box::new(file))
            }
        }
    }

    fn new(path: PathBuf, temp: Option<&Path>) -> Result<Opened, FrameError> {
        let io = |source| FrameError::Io { doing: "read", path: path.clone(), source };
        let mut file = File::open(&path).map_err(io)?;
        let facts = file.metadata().map_err(io)?;
        if !facts.is_file() {
            return Opened::pipe(path, Box::new(file), temp);
        }
        let mut begin = Vec::new();
        (&mut file).take(BEGIN).read_to_end(&mut begin).map_err(io)?;
        let format = recognise(&path, &begin)?;
        Ok(Opened { path, format, body: Body::Path, begin, size: Some(facts.len()) })
    }

    /// What comes from a pipe: text is read as it comes, anything else is copied first, since its end must be read before
    /// its middle.
    fn pipe(
        path: PathBuf,
        mut pipe: Box<dyn Read + Send>,
        temp: Option<&Path>,
    ) -> Result<Opened, FrameError> {
        let io = |source| FrameError::Io { doing: "read", path: path.clone(), source };
        let mut begin = Vec::new();
        (&mut pipe).take(BEGIN).read_to_end(&mut begin).map_err(io)?;
        let format = recognise(&path, &begin)?;
        if format == Format::Csv {
            return Ok(Opened { path, format, body: Body::Pipe(pipe), begin, size: None });
        }
        let folder = temp.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let write = |source| FrameError::Io { doing: "write a copy to", path: folder.clone(), source };
        let mut copy = tempfile::tempfile_in(&folder).map_err(write)?;
        std::io::copy(&mut Cursor::new(&begin).chain(pipe), &mut copy).map_err(write)?;
        let size = copy.metadata().map_err(io)?.len();
        Ok(Opened { path, format, body: Body::Copy(copy), begin, size: Some(size) })
    }
}

/// Opens everything.
pub(super) fn open(
    input: &Input,
    stdin: Option<Box<dyn Read + Send>>,
    temp: Option<&Path>,
) -> Result<Vec<Opened>, FrameError> {
    let mut stdin = Some(stdin.unwrap_or_else(|| Box::new(std::io::stdin())));
    let mut all = Vec::new();
    for item in input.items() {
        if item.as_os_str() == "-" {
            let Some(pipe) = stdin.take() else {
                return Err(FrameError::Usage(
                    "`-` was given twice, and standard input can be read once".to_string(),
                ));
            };
            all.push(Opened::pipe(item.clone(), pipe, temp)?);
            continue;
        }
        for path in expand(item)? {
            all.push(Opened::new(path, temp)?);
        }
    }
    if all.is_empty() {
        return Err(FrameError::Usage(
            "no file was given\n  hint: a path, a directory, a pattern, or - for standard input".to_string(),
        ));
    }
    Ok(all)
}

/// The files that an item stands for. What exists is taken as it is, whatever characters its name has.
fn expand(item: &Path) -> Result<Vec<PathBuf>, FrameError> {
    let facts = std::fs::metadata(item);
    let pattern = item.to_str().filter(|text| text.contains(['*', '?', '[']));
    match (facts, pattern) {
        (Ok(facts), _) if facts.is_dir() => directory(item),
        (Ok(_), _) => Ok(vec![item.into()]),
        (Err(_), Some(pattern)) => matching(pattern),
        (Err(source), None) => Err(FrameError::Io { doing: "read", path: item.into(), source }),
    }
}

/// Hive directories inside each other, at most.
const DEEPEST: usize = 16;

/// The data files of a directory, and of hive directories in it.
fn directory(path: &Path) -> Result<Vec<PathBuf>, FrameError> {
    let mut files = Vec::new();
    let others = collect(path, 0, &mut files)?;
    files.sort();
    if files.is_empty() {
        let endings: Vec<&str> = ENDINGS.iter().map(|(ending, _)| *ending).collect();
        let below = match others {
            true => format!("; directories below are named by a pattern: '{}/**/*.parquet'", path.display()),
            false => String::new(),
        };
        let message =
            format!("the directory has no data files\n  hint: names end in {}{below}", endings.join(", "));
        return Err(FrameError::Format { path: path.into(), message });
    }
    Ok(files)
}

/// Collects data files; are there directories that were left alone?
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<bool, FrameError> {
    let io = |source| FrameError::Io { doing: "read", path: path.into(), source };
    let mut others = false;
    for entry in std::fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        if file.is_dir() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            match path_key::is_hive(&name) && depth < DEEPEST {
                true => others |= collect(&file, depth + 1, files)?,
                false => others = true,
            }
        } else if ending(&file).is_some() && file.is_file() {
            files.push(file);
        }
    }
    Ok(others)
}

/// The files that match a pattern.
fn matching(pattern: &str) -> Result<Vec<PathBuf>, FrameError> {
    let paths = glob::glob(pattern).map_err(|error| FrameError::Usage(format!("`{pattern}`: {error}")))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| FrameError::Io {
            doing: "read",
            path: error.path().into(),
            source: error.into(),
        })?;
        if !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(FrameError::Usage(format!(
            "no file matches `{pattern}`\n  hint: check the path and the pattern"
        ))),
        false => Ok(files),
    }
}
