//! Input files: expands paths, directories, hive partitions, glob patterns and standard input, and detects file formats.

use std::{
    fs::File,
    io::{Cursor, Read, Seek},
    path::{Path, PathBuf},
};

use super::path_symbol;
use crate::{error::FrameError, write::FileFormat};

/// Input paths: files, directories, glob patterns, `-`.
///
/// A directory stands for its Parquet, Arrow and CSV files in the order of their names, those of hive directories
/// (`symbol=AAPL`) in it included; a pattern (`data/*.csv`, `**` for directories below) for the files that match it, and `-`
/// for standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input(Vec<PathBuf>);

impl Input {
    /// These paths, in order.
    pub fn new<P: Into<PathBuf>>(items: impl IntoIterator<Item = P>) -> Input {
        Input(items.into_iter().map(Into::into).collect())
    }

    /// The paths as given.
    pub fn items(&self) -> &[PathBuf] {
        &self.0
    }
}

impl<P: Into<PathBuf>> From<P> for Input {
    fn from(item: P) -> Input {
        Input(vec![item.into()])
    }
}

/// File extensions.
const EXTENSIONS: [(&str, FileFormat); 9] = [
    ("parquet", FileFormat::Parquet),
    ("pq", FileFormat::Parquet),
    ("arrow", FileFormat::Ipc),
    ("arrows", FileFormat::Ipc),
    ("feather", FileFormat::Ipc),
    ("ipc", FileFormat::Ipc),
    ("csv", FileFormat::Csv),
    ("tsv", FileFormat::Csv),
    ("txt", FileFormat::Csv),
];

/// Magic bytes of the formats.
const MAGIC: [(&[u8], FileFormat); 3] =
    [(b"PAR1", FileFormat::Parquet), (b"ARROW1", FileFormat::Ipc), (&[0xFF; 4], FileFormat::Ipc)];

/// Magic bytes of files that must be converted first, with the hint.
const UNSUPPORTED: [(&[u8], &str); 8] = [
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

fn extension(path: &Path) -> Option<FileFormat> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, format)| *format)
}

/// Detects the format: by magic bytes, else CSV unless the extension says otherwise.
fn detect_format(path: &Path, prefix: &[u8]) -> Result<FileFormat, FrameError> {
    let error = |message: &str| FrameError::Format { path: path.into(), message: message.to_string() };
    if prefix.is_empty() {
        return Err(error("the file is empty\n  hint: a CSV file has at least a header line"));
    }
    if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| prefix.starts_with(magic)) {
        return Ok(*format);
    }
    if let Some((_, why)) = UNSUPPORTED.iter().find(|(magic, _)| prefix.starts_with(magic)) {
        return Err(error(why));
    }
    match extension(path) {
        Some(FileFormat::Parquet) => Err(error(
            "the name says Parquet, and the first bytes are not `PAR1`\n  hint: the file is damaged, or CSV by another name",
        )),
        Some(FileFormat::Ipc) => Err(error(
            "the name says Arrow, and the first bytes are not `ARROW1`\n  hint: the file is damaged, or CSV by another name",
        )),
        _ => Ok(FileFormat::Csv),
    }
}

/// An opened input file.
pub(super) struct InputFile {
    /// Path; `-` for standard input.
    pub path: PathBuf,
    /// Detected format.
    pub format: FileFormat,
    /// How its bytes are read.
    pub body: Body,
    /// First bytes.
    pub prefix: Vec<u8>,
    /// Size in bytes; `None` for a pipe.
    pub size: Option<u64>,
}

/// Where the bytes of a file are.
pub(super) enum Body {
    /// On disk; reopened when it is decoded, since there may be more files than file descriptors.
    Path,
    /// A temporary copy of a pipe.
    Copy(File),
    /// A pipe; the prefix was consumed.
    Pipe(Box<dyn Read + Send>),
}

/// Bytes sampled for format detection and schema inference.
const PREFIX: u64 = 64 << 10;

impl InputFile {
    /// A seekable file, for Parquet and IPC.
    pub(super) fn file(&self) -> Result<File, FrameError> {
        let io = |source| FrameError::Io { doing: "read", path: self.path.clone(), source };
        match &self.body {
            Body::Copy(file) => file.try_clone().map_err(io),
            _ => File::open(&self.path).map_err(io),
        }
    }

    /// All bytes from the start. A pipe can be read once.
    pub(super) fn bytes(&mut self) -> Result<Box<dyn Read + Send>, FrameError> {
        match std::mem::replace(&mut self.body, Body::Path) {
            Body::Pipe(rest) => Ok(Box::new(Cursor::new(std::mem::take(&mut self.prefix)).chain(rest))),
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

    fn new(path: PathBuf, temp: Option<&Path>) -> Result<InputFile, FrameError> {
        let io = |source| FrameError::Io { doing: "read", path: path.clone(), source };
        let mut file = File::open(&path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return InputFile::pipe(path, Box::new(file), temp);
        }
        let mut prefix = Vec::new();
        (&mut file).take(PREFIX).read_to_end(&mut prefix).map_err(io)?;
        let format = detect_format(&path, &prefix)?;
        Ok(InputFile { path, format, body: Body::Path, prefix, size: Some(metadata.len()) })
    }

    /// A pipe: CSV is streamed; other formats are copied to a temporary file first, since their footer must be read first.
    fn pipe(
        path: PathBuf,
        mut pipe: Box<dyn Read + Send>,
        temp: Option<&Path>,
    ) -> Result<InputFile, FrameError> {
        let io = |source| FrameError::Io { doing: "read", path: path.clone(), source };
        let mut prefix = Vec::new();
        (&mut pipe).take(PREFIX).read_to_end(&mut prefix).map_err(io)?;
        let format = detect_format(&path, &prefix)?;
        if format == FileFormat::Csv {
            return Ok(InputFile { path, format, body: Body::Pipe(pipe), prefix, size: None });
        }
        let directory = temp.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let write = |source| FrameError::Io { doing: "write a copy to", path: directory.clone(), source };
        let mut copy = tempfile::tempfile_in(&directory).map_err(write)?;
        std::io::copy(&mut Cursor::new(&prefix).chain(pipe), &mut copy).map_err(write)?;
        let size = copy.metadata().map_err(io)?.len();
        Ok(InputFile { path, format, body: Body::Copy(copy), prefix, size: Some(size) })
    }
}

/// Opens all inputs.
pub(super) fn open(
    input: &Input,
    stdin: Option<Box<dyn Read + Send>>,
    temp: Option<&Path>,
) -> Result<Vec<InputFile>, FrameError> {
    let mut stdin = Some(stdin.unwrap_or_else(|| Box::new(std::io::stdin())));
    let mut all = Vec::new();
    for item in input.items() {
        if item.as_os_str() == "-" {
            let Some(pipe) = stdin.take() else {
                return Err(FrameError::Usage(
                    "`-` was given twice, and standard input can be read once".to_string(),
                ));
            };
            all.push(InputFile::pipe(item.clone(), pipe, temp)?);
            continue;
        }
        for path in expand(item)? {
            all.push(InputFile::new(path, temp)?);
        }
    }
    if all.is_empty() {
        return Err(FrameError::Usage(
            "no file was given\n  hint: a path, a directory, a pattern, or - for standard input".to_string(),
        ));
    }
    Ok(all)
}

/// Expands an item to files. An existing path is taken literally, even with glob characters.
fn expand(item: &Path) -> Result<Vec<PathBuf>, FrameError> {
    let metadata = std::fs::metadata(item);
    let pattern = item.to_str().filter(|text| text.contains(['*', '?', '[']));
    match (metadata, pattern) {
        (Ok(metadata), _) if metadata.is_dir() => list_directory(item),
        (Ok(_), _) => Ok(vec![item.into()]),
        (Err(_), Some(pattern)) => expand_glob(pattern),
        (Err(source), None) => Err(FrameError::Io { doing: "read", path: item.into(), source }),
    }
}

/// Maximum nesting of hive directories.
const MAX_DEPTH: usize = 16;

/// Data files of a directory and of hive directories in it.
fn list_directory(path: &Path) -> Result<Vec<PathBuf>, FrameError> {
    let mut files = Vec::new();
    let others = collect(path, 0, &mut files)?;
    files.sort();
    if files.is_empty() {
        let extensions: Vec<&str> = EXTENSIONS.iter().map(|(extension, _)| *extension).collect();
        let below = match others {
            true => format!("; directories below are named by a pattern: '{}/**/*.parquet'", path.display()),
            false => String::new(),
        };
        let message =
            format!("the directory has no data files\n  hint: names end in {}{below}", extensions.join(", "));
        return Err(FrameError::Format { path: path.into(), message });
    }
    Ok(files)
}

/// Collects data files; returns whether other directories were skipped.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<bool, FrameError> {
    let io = |source| FrameError::Io { doing: "read", path: path.into(), source };
    let mut others = false;
    for entry in std::fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        if file.is_dir() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            match path_symbol::is_hive(&name) && depth < MAX_DEPTH {
                true => others |= collect(&file, depth + 1, files)?,
                false => others = true,
            }
        } else if extension(&file).is_some() && file.is_file() {
            files.push(file);
        }
    }
    Ok(others)
}

/// Files that match a glob pattern.
fn expand_glob(pattern: &str) -> Result<Vec<PathBuf>, FrameError> {
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
