//! Minimal text edits of a settings file: setting or removing a key changes no other byte.
//!
//! toml_edit gives the spans, and only that range of the text is replaced. Its own writer is not used: it turns CRLF into LF and
//! drops the comments in front of a removed key.

use std::{ops::Range, path::Path};

use super::{
    error::SettingsError,
    file::{document, key_start, location, version},
    table::{SettingKey, VERSION, header},
    value::SettingValue,
};

const BOM: char = '\u{feff}';

/// The text with `key` set. The version line is added where it is missing.
pub(super) fn set(
    path: &Path,
    text: &str,
    key: &SettingKey,
    value: &SettingValue,
) -> Result<String, SettingsError> {
    if text.trim_start_matches(BOM).trim().is_empty() {
        return insert(path, &header(), key.name, &value.to_toml());
    }
    check_version(path, text)?;
    let text = match document(path, text)?.as_table().contains_key("version") {
        true => text.to_owned(),
        false => insert(path, text, "version", &VERSION.to_string())?,
    };
    match value_range(path, &text, key.name)? {
        Some(range) => {
            let new = splice(&text, range, &value.to_toml());
            document(path, &new)?;
            Ok(new)
        }
        None => insert(path, &text, key.name, &value.to_toml()),
    }
}

/// The text without the line of `name`; `None` when it is not in there. A comment behind the value stays.
pub(super) fn unset(path: &Path, text: &str, name: &str) -> Result<Option<String>, SettingsError> {
    check_version(path, text)?;
    let Some(value) = value_range(path, text, name)? else { return Ok(None) };
    let start = key_start(&document(path, text)?, name);
    let line = start_of_line(text, start)..end_of_line(text, value.end);
    let behind = text.get(value.end..line.end).unwrap_or_default().trim_start_matches([' ', '\t']);
    let kept = if behind.starts_with('#') { behind } else { "" };
    let new = splice(text, line, kept);
    document(path, &new)?;
    Ok(Some(new))
}

/// Files of a later version are read-only: their keys may have another meaning.
fn check_version(path: &Path, text: &str) -> Result<(), SettingsError> {
    match version(path, text, &document(path, text)?)? {
        found if found > VERSION => Err(SettingsError::Newer { path: path.to_owned(), found }),
        _ => Ok(()),
    }
}

/// Span of a key's value; `None` if it is not set.
fn value_range(path: &Path, text: &str, name: &str) -> Result<Option<Range<usize>>, SettingsError> {
    let document = document(path, text)?;
    let Some(item) = document.as_table().get(name) else { return Ok(None) };
    match item.as_value().and_then(|value| value.span()) {
        Some(range) => Ok(Some(range)),
        None => {
            let location = location(path, text, key_start(&document, name));
            Err(SettingsError::NotPlain { location, name: name.to_owned() })
        }
    }
}

/// Inserts a line: below the commented-out line of the same key (as in the template), else after the last setting, else at the
/// end, else at the start. The first position at which TOML parses it as a root setting wins: a comment can be inside a table,
/// and what looks like one can be part of a multi-line string.
fn insert(path: &Path, text: &str, name: &str, value: &str) -> Result<String, SettingsError> {
    let before = document(path, text)?;
    let settings = before.as_table().get_values();
    let last = settings.iter().filter_map(|(_, value)| value.span()).map(|span| span.end).max();
    let start = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    let positions =
        [commented(text, name), last.map(|end| end_of_line(text, end)), Some(text.len()), Some(start)];
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut tried = None;
    for at in positions.into_iter().flatten() {
        let needs_break = at > start && !text.get(..at).is_some_and(|head| head.ends_with('\n'));
        let gap = if needs_break { newline } else { "" };
        let new = splice(text, at..at, &format!("{gap}{name} = {value}{newline}"));
        let seen = document(path, &new).map(|after| {
            let root = after.as_table();
            root.contains_value(name) && root.get_values().len() == settings.len() + 1
        });
        match seen {
            Ok(true) => return Ok(new),
            Ok(false) => {}
            Err(error) => tried = Some(error),
        }
    }
    // Unreachable for text that parses: a line at the very start is always a root setting.
    Err(tried.unwrap_or_else(|| SettingsError::Unwritable {
        path: path.to_owned(),
        why: format!("no place for {name}"),
    }))
}

/// End of the line `# name = …`.
fn commented(text: &str, name: &str) -> Option<usize> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        at += line.len();
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix(name)?;
        rest.trim_start().starts_with('=').then_some(at)
    })
}

fn start_of_line(text: &str, at: usize) -> usize {
    match text.get(..at).and_then(|before| before.rfind('\n')) {
        Some(end) => end + 1,
        None if text.starts_with(BOM) => BOM.len_utf8(),
        None => 0,
    }
}

fn end_of_line(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |end| at + end + 1)
}

fn splice(text: &str, range: Range<usize>, new: &str) -> String {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    format!("{before}{new}{after}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATH: &str = "config.toml";

    fn set_ttl(text: &str) -> Result<String, SettingsError> {
        let key = SettingKey::find("cache_ttl").unwrap();
        set(Path::new(PATH), text, key, &key.kind.parse("2h").unwrap())
    }

    #[track_caller]
    fn check_set(text: &str, want: &str) {
        assert_eq!(set_ttl(text).unwrap(), want);
    }

    #[track_caller]
    fn check_unset(text: &str, want: Option<&str>) {
        assert_eq!(unset(Path::new(PATH), text, "cache_ttl").unwrap().as_deref(), want);
    }

    #[test]
    fn new_key_is_inserted_as_a_root_setting() {
        check_set("", "# gpuforge settings\nversion = 1\ncache_ttl = \"2h\"\n");
        check_set("\u{feff}\n", "# gpuforge settings\nversion = 1\ncache_ttl = \"2h\"\n");
        check_set("version = 1", "version = 1\ncache_ttl = \"2h\"\n");
        check_set("device = 'x'\n# end", "device = 'x'\nversion = 1\ncache_ttl = \"2h\"\n# end");
        check_set("# only a comment", "# only a comment\nversion = 1\ncache_ttl = \"2h\"\n");
        // Below its own commented line, but not when that is part of a table, a text or an array.
        check_set(
            "version = 1\n#cache_ttl = \"1h\"\n# b\n",
            "version = 1\n#cache_ttl = \"1h\"\ncache_ttl = \"2h\"\n# b\n",
        );
        check_set(
            "version = 1\n[t]\n# cache_ttl = 0\n",
            "version = 1\ncache_ttl = \"2h\"\n[t]\n# cache_ttl = 0\n",
        );
        check_set("[t]\nx = 1\n", "version = 1\ncache_ttl = \"2h\"\n[t]\nx = 1\n");
        check_set(
            "version = 1\nx = \"\"\"\n# cache_ttl = 0\n\"\"\"\n",
            "version = 1\nx = \"\"\"\n# cache_ttl = 0\n\"\"\"\ncache_ttl = \"2h\"\n",
        );
        check_set(
            "version = 1\nx = [\n# cache_ttl = 0\n]\n",
            "version = 1\nx = [\n# cache_ttl = 0\n]\ncache_ttl = \"2h\"\n",
        );
    }

    #[test]
    fn set_changes_only_the_value() {
        check_set(
            "# a\r\nversion=1\r\n  cache_ttl=\t'1h' \t# why\r\n\r\n# b",
            "# a\r\nversion=1\r\n  cache_ttl=\t\"2h\" \t# why\r\n\r\n# b",
        );
        check_set("\u{feff}cache_ttl = 0\nversion = 1", "\u{feff}cache_ttl = \"2h\"\nversion = 1");
        check_set("version = 1\r\n", "version = 1\r\ncache_ttl = \"2h\"\r\n");
    }

    #[test]
    fn unset_removes_only_the_line_and_keeps_comments() {
        check_unset("# a\n\n# b\ncache_ttl = \"1h\"\n# c\n", Some("# a\n\n# b\n# c\n"));
        check_unset("x = 1\n  cache_ttl = '1h'   # why\ny = 2\n", Some("x = 1\n# why\ny = 2\n"));
        check_unset("\u{feff}cache_ttl = 0", Some("\u{feff}"));
        check_unset("\"cache_ttl\" = [\n1, # one\n]\r\nx = 1\r\n", Some("x = 1\r\n"));
        check_unset("device = 'auto'\n", None);
        check_unset("", None);
    }

    #[test]
    fn tables_and_later_versions_are_rejected() {
        for text in [
            "version = 1\n[cache_ttl]\nx = 1\n",
            "version = 1\ncache_ttl.x = 1\n",
            "version = 1\n[[cache_ttl]]\n",
        ] {
            let error = set_ttl(text).unwrap_err();
            assert!(matches!(error, SettingsError::NotPlain { .. }), "{text:?}: {error}");
            assert_eq!(unset(Path::new(PATH), text, "cache_ttl").unwrap_err(), error);
        }
        let error = set_ttl("version = 2\n").unwrap_err();
        assert_eq!(error, SettingsError::Newer { path: PATH.into(), found: 2 });
        assert_eq!(unset(Path::new(PATH), "version = 2\ncache_ttl = 0", "cache_ttl").unwrap_err(), error);
    }

    fn lines() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec![
            "# a comment",
            "",
            "  ",
            "\t# cache_ttl = 0",
            "version = 1",
            "cache_ttl = '3h' # x",
            "device = \"auto\"",
            "a.b = 1",
            "x = '''",
            "'''",
            "l = [",
            "]",
            "[t]",
            "# cache_ttl = \"1h\"",
            "t = {}",
            "cache_ttl.y = 2",
        ]);
        let end = prop::sample::select(vec!["\n", "\r\n"]);
        prop::collection::vec((line, end), 0..9)
            .prop_map(|lines| lines.into_iter().flat_map(|(l, e)| [l, e]).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]
        #[test]
        fn set_is_visible_and_unset_reverts_it(text in lines()) {
            let Ok(new) = set_ttl(&text) else { return Ok(()) };
            let path = Path::new(PATH);
            let root = document(path, &new).unwrap().into_table();
            prop_assert_eq!(root.get("cache_ttl").and_then(|item| item.as_str()), Some("2h"));
            for (name, item) in document(path, &text).unwrap().iter().filter(|(name, _)| *name != "cache_ttl") {
                prop_assert_eq!(root.get(name).map(|new| new.to_string()), Some(item.to_string()));
            }
            let plain = document(path, &text).unwrap().into_table();
            if plain.contains_key("version") && !plain.contains_key("cache_ttl") {
                prop_assert_eq!(unset(path, &new, "cache_ttl").unwrap(), Some(text));
            }
        }
    }
}
