//! Concatenated files with `==> path <==` headings, as `head -n1 *`, `tail -n+1 *` and our recordings print them.

/// Files by path, in order of appearance, with the byte offset at which each began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sections {
    files: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    path: String,
    content: String,
    at: usize,
}

impl Sections {
    /// Splits joined text at its headings; text before the first heading is left out.
    pub fn parse(text: &str) -> Self {
        let mut sections = Sections::default();
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let trimmed = line.trim();
            match trimmed.strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <==")) {
                Some(path) => sections.push(path.trim(), "", offset),
                None => {
                    if let Some(file) = sections.files.last_mut() {
                        file.content.push_str(line);
                    }
                }
            }
            offset += line.len();
        }
        sections
    }

    /// Adds a file.
    pub fn push(&mut self, path: &str, content: &str, at: usize) {
        self.files.push(Section { path: path.to_owned(), content: content.to_owned(), at });
    }

    /// True when there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Path, trimmed content and offset of every file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.files.iter().map(|f| (f.path.as_str(), f.content.trim(), f.at))
    }

    /// The trimmed content of the file with exactly this path, unless it is empty.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|f| f.path == path).map(|f| f.content.trim()).filter(|c| !c.is_empty())
    }
}

/// Value of `KEY=value` (uevent files) or `key value` (KFD properties) lines.
pub fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix(key)?;
        rest.strip_prefix('=').or_else(|| rest.strip_prefix(char::is_whitespace)).map(str::trim)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_split_and_offsets_hold() {
        let text = "noise\n==> a/b <==\n1\n\n==> c <==\nx y\n";
        let sections = Sections::parse(text);
        let got: Vec<_> = sections.iter().collect();
        assert_eq!(got, [("a/b", "1", 6), ("c", "x y", 21)]);
        assert_eq!(sections.get("c"), Some("x y"));
        assert_eq!(value_of("simd_count 24\nsimd 3", "simd"), Some("3"));
        assert_eq!(value_of("DRIVER=xe", "DRIVER"), Some("xe"));
    }
}
