//! Settings file parser: a thin read, then a pure parse that collects every problem with its line.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use toml_edit::{Document, Item};

use super::{
    error::{SettingLocation, SettingsError},
    table::{SettingKey, VERSION},
    value::{SettingValue, ValueError},
};

/// Size limit of a settings file.
pub(super) const LIMIT: u64 = 256 << 10;

/// The contents of a TOML settings file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Settings with a valid value.
    pub(super) values: Vec<(&'static str, SettingValue)>,
    /// Problems, in file order.
    pub(super) problems: Vec<SettingsError>,
    /// Written by a later version; also among the problems.
    pub(super) newer: bool,
}

/// The text of a file; `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, SettingsError> {
    let unreadable = |why: String| SettingsError::Unreadable { path: path.to_owned(), why };
    // The conventional "no settings".
    if path == Path::new("/dev/null") {
        return Ok(None);
    }
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| unreadable(error.to_string()))?,
    };
    // Opening a pipe would block until there is a writer.
    if !found.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > LIMIT {
        return Err(SettingsError::TooLarge { path: path.to_owned(), limit: LIMIT });
    }
    decode(path, bytes).map(Some)
}

fn decode(path: &Path, bytes: Vec<u8>) -> Result<String, SettingsError> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(error.as_bytes().get(..valid).unwrap_or_default()).into_owned();
        let location = location(path, &before, before.len());
        SettingsError::Syntax { location, what: "the text is not UTF-8".to_owned() }
    })
}

/// The TOML tree with spans.
pub(super) fn document<'t>(path: &Path, text: &'t str) -> Result<Document<&'t str>, SettingsError> {
    Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        SettingsError::Syntax { location: location(path, text, at), what }
    })
}

/// Every setting and every problem in a text.
pub(super) fn parse(path: &Path, text: &str) -> Result<Contents, SettingsError> {
    let document = document(path, text)?;
    let mut contents = Contents::default();
    match version(path, text, &document) {
        Ok(found) if found > VERSION => {
            contents.newer = true;
            contents.problems.push(SettingsError::Newer { path: path.to_owned(), found });
        }
        Ok(_) => {}
        Err(problem) => contents.problems.push(problem),
    }
    for (name, item) in document.iter().filter(|(name, _)| *name != "version") {
        match value(path, text, &document, name, item) {
            Ok((key, value)) => contents.values.push((key, value)),
            Err(problem) => contents.problems.push(problem),
        }
    }
    Ok(contents)
}

fn value(
    path: &Path,
    text: &str,
    document: &Document<&str>,
    name: &str,
    item: &Item,
) -> Result<(&'static str, SettingValue), SettingsError> {
    let at_key = || location(path, text, key_start(document, name));
    let key = SettingKey::find(name)
        .ok_or_else(|| SettingsError::UnknownKey { location: at_key(), name: name.to_owned() })?;
    let plain = item
        .as_value()
        .ok_or_else(|| SettingsError::NotPlain { location: at_key(), name: name.to_owned() })?;
    let wrong = |reason: ValueError| {
        let span = plain.span().unwrap_or_default();
        let given = text.get(span.clone()).unwrap_or_default().to_owned();
        SettingsError::WrongValue { location: location(path, text, span.start), key, given, reason }
    };
    key.kind.read_toml(plain).map(|value| (key.name, value)).map_err(wrong)
}

/// The file's version; 1 if it has none (written by hand).
pub(super) fn version(path: &Path, text: &str, document: &Document<&str>) -> Result<i64, SettingsError> {
    let Some(item) = document.as_table().get("version") else { return Ok(1) };
    match item.as_integer() {
        Some(found) if found >= 1 => Ok(found),
        _ => {
            let given = item.span().and_then(|span| text.get(span)).unwrap_or("a table").to_owned();
            Err(SettingsError::BadVersion {
                location: location(path, text, key_start(document, "version")),
                given,
            })
        }
    }
}

/// Byte at which the key of that name begins.
pub(super) fn key_start(document: &Document<&str>, name: &str) -> usize {
    document.as_table().key(name).and_then(|key| key.span()).map_or(0, |span| span.start)
}

/// Line and column of a byte.
pub(super) fn location(path: &Path, text: &str, at: usize) -> SettingLocation {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.matches('\n').count() + 1;
    let column =
        before.get(line_start..).unwrap_or_default().chars().filter(|c| *c != '\u{feff}').count() + 1;
    SettingLocation::File { path: path.into(), line, column }
}
