//! Marked blocks in documents: benchmark tables between `<!-- bench:NAME -->` and `<!-- /bench -->`.

use std::fmt;

/// End marker of a block.
pub(crate) const CLOSE: &str = "<!-- /bench -->";

/// Start marker of a benchmark's block.
pub(crate) fn open(name: &str) -> String {
    format!("<!-- bench:{name} -->")
}

/// The benchmark whose block starts at this line.
pub(crate) fn opens(line: &str) -> Option<&str> {
    line.trim().strip_prefix("<!-- bench:")?.strip_suffix("-->").map(str::trim)
}

/// A block without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unclosed {
    /// The benchmark it belongs to.
    pub(crate) name: String,
    /// The line it begins at.
    pub(crate) line: usize,
}

impl fmt::Display for Unclosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: the block bench:{} is never closed by {CLOSE}", self.line, self.name)
    }
}

impl std::error::Error for Unclosed {}

/// The text with the content of every block of `name` replaced; `None` when it has no such block.
pub(crate) fn replace(text: &str, name: &str, content: &str) -> Result<Option<String>, Unclosed> {
    let mut out = String::with_capacity(text.len() + content.len());
    let mut inside: Option<(String, usize)> = None;
    let mut found = false;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if inside.is_some() {
            let ours = inside.as_ref().is_some_and(|(block, _)| block == name);
            if line.trim() == CLOSE {
                inside = None;
            } else if opens(line).is_some() {
                break;
            } else if ours {
                continue;
            }
            out.push_str(line);
            continue;
        }
        out.push_str(line);
        if let Some(block) = opens(line) {
            inside = Some((block.to_owned(), index + 1));
            if block == name {
                found = true;
                out.push_str(content.trim_end());
                out.push('\n');
            }
        }
    }
    match inside {
        Some((name, line)) => Err(Unclosed { name, line }),
        None => Ok(found.then_some(out)),
    }
}

/// As [`replace`], and appends a section with the block when there is none.
pub(crate) fn replace_or_append(text: &str, name: &str, content: &str) -> Result<String, Unclosed> {
    if let Some(replaced) = replace(text, name, content)? {
        return Ok(replaced);
    }
    let block = format!("## {name}\n\n{}\n{}\n{CLOSE}\n", open(name), content.trim_end());
    Ok(if text.trim().is_empty() { block } else { format!("{}\n\n{block}", text.trim_end()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n<!-- bench:a -->\nold\nold\n<!-- /bench -->\nprose\n<!-- bench:b -->\nkeep\n<!-- /bench -->\n";

    #[test]
    fn only_the_named_block_changes() {
        let got = replace(TEXT, "a", "new\n\n").unwrap().unwrap();
        assert_eq!(got, TEXT.replace("old\nold", "new"));
        assert_eq!(replace(&got, "a", "new").unwrap().unwrap(), got);
        assert_eq!(replace(TEXT, "c", "new"), Ok(None));
    }

    #[test]
    fn an_empty_block_is_filled_and_every_copy_of_it() {
        let text = "<!-- bench:a -->\n<!-- /bench -->\nx\n<!-- bench:a -->\n<!-- /bench -->";
        let want = "<!-- bench:a -->\n1\n<!-- /bench -->\nx\n<!-- bench:a -->\n1\n<!-- /bench -->";
        assert_eq!(replace(text, "a", "1").unwrap().unwrap(), want);
    }

    #[test]
    fn a_missing_block_is_appended_and_others_stay() {
        let got = replace_or_append(TEXT, "c", "three").unwrap();
        assert_eq!(got, format!("{}\n\n## c\n\n<!-- bench:c -->\nthree\n<!-- /bench -->\n", TEXT.trim_end()));
        assert!(replace_or_append("", "c", "three").unwrap().starts_with("## c\n"));
    }

    #[test]
    fn an_unclosed_block_is_refused_not_swallowed() {
        let unclosed = |name: &str, line| Err(Unclosed { name: name.to_owned(), line });
        assert_eq!(replace("x\n<!-- bench:a -->\nold\n", "a", "new"), unclosed("a", 2));
        assert_eq!(
            replace("<!-- bench:a -->\n<!-- bench:b -->\n<!-- /bench -->", "b", "new"),
            unclosed("a", 1)
        );
    }
}
