//! Lenient JSON scanner: scalar key/value pairs of every object, from truncated JSON or JSON between other lines.
//!
//! serde_json rejects a document at its first error; pasted output has prompts before, fences after and a missing end.
//! One linear pass collects the scalar pairs of every object instead; nesting survives as the object's name.

/// The scalar (string, number, word) pairs of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Object {
    /// The key under which it stood.
    pub(crate) name: Option<String>,
    /// Byte offset of that key, else of the brace.
    pub(crate) at: usize,
    pairs: Vec<(String, String)>,
}

impl Object {
    /// The first value under `key`; case and a trailing colon of the key do not matter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(k, _)| k.trim_end_matches(':').eq_ignore_ascii_case(key))
            .map(|(_, v)| v.as_str())
    }

    /// Every pair, in order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

/// Max nesting, deeper than any tool prints; bounds the memory of hostile input.
const MAX_DEPTH: usize = 64;

/// Every object with at least one scalar pair, in order of appearance.
pub(crate) fn objects(text: &str) -> Vec<Object> {
    let mut reader = Reader::default();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        at = match byte {
            b'"' => reader.string(text, at),
            b'{' => reader.open(at),
            b'}' => reader.close(at),
            b'[' | b']' | b',' => reader.forget_key(at),
            byte if byte.is_ascii_whitespace() => at + 1,
            _ => reader.word(text, at),
        };
    }
    reader.open.retain(|object| !object.pairs.is_empty());
    reader.done.append(&mut reader.open);
    reader.done.sort_by_key(|object| object.at);
    reader.done
}

#[derive(Default)]
struct Reader {
    open: Vec<Object>,
    done: Vec<Object>,
    key: Option<(usize, String)>,
}

impl Reader {
    fn open(&mut self, at: usize) -> usize {
        let (key_at, name) = self.key.take().map_or((at, None), |(key_at, name)| (key_at, Some(name)));
        if self.open.len() < MAX_DEPTH {
            self.open.push(Object { name, at: key_at, pairs: Vec::new() });
        }
        at + 1
    }

    fn close(&mut self, at: usize) -> usize {
        self.done.extend(self.open.pop().filter(|object| !object.pairs.is_empty()));
        self.forget_key(at)
    }

    fn forget_key(&mut self, at: usize) -> usize {
        self.key = None;
        at + 1
    }

    /// A quoted string: a key when a colon follows, else the value of the key before it.
    fn string(&mut self, text: &str, at: usize) -> usize {
        let end = match closing_quote(text.as_bytes(), at) {
            Ok(end) => end,
            Err(line_end) => return line_end,
        };
        let quoted = text.get(at..=end).unwrap_or("");
        let plain = || quoted.trim_matches('"').to_owned();
        let value = serde_json::from_str::<String>(quoted).unwrap_or_else(|_| plain());
        let rest = text.get(end + 1..).unwrap_or("");
        let gap = rest.len() - rest.trim_start().len();
        if rest.trim_start().starts_with(':') {
            self.key = Some((at, value));
            return end + 1 + gap + 1;
        }
        self.pair(value);
        end + 1
    }

    /// A bare number or word; without a key before it, prose.
    fn word(&mut self, text: &str, at: usize) -> usize {
        let rest = text.get(at..).unwrap_or("");
        let length = rest.find(|c: char| c.is_whitespace() || "\",{}[]".contains(c)).unwrap_or(rest.len());
        if self.key.is_some() {
            self.pair(rest.get(..length).unwrap_or("").to_owned());
        }
        at + length.max(1)
    }

    fn pair(&mut self, value: String) {
        if let Some((_, key)) = self.key.take()
            && let Some(object) = self.open.last_mut()
        {
            object.pairs.push((key, value));
        }
    }
}

/// Where the string that begins at `at` ends. JSON strings never span lines: the error is the end of the line, where
/// scanning resumes (resuming at the quote would be quadratic on hostile input).
fn closing_quote(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let mut escaped = false;
    for (offset, byte) in bytes.iter().enumerate().skip(at + 1) {
        match byte {
            b'\n' => return Err(offset),
            b'\\' if !escaped => escaped = true,
            b'"' if !escaped => return Ok(offset),
            _ => escaped = false,
        }
    }
    Err(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_in_prose_and_truncated_text() {
        let text = "$ tool -j # \"odd\n{\"a\": {\"x\": \"1 \\\"y\\\"\", \"n\": 12, \"list\": [1, 2]}, \"b\" : {\"x\": \"2\", \"cut\": \"of";
        let got = objects(text);
        assert_eq!(got.len(), 2);
        assert_eq!(
            (got[0].name.as_deref(), got[0].get("X"), got[0].get("n")),
            (Some("a"), Some("1 \"y\""), Some("12"))
        );
        assert_eq!(got[0].get("list"), None);
        assert_eq!((got[1].name.as_deref(), got[1].get("x")), (Some("b"), Some("2")));
        assert_eq!(&text[got[1].at..got[1].at + 3], "\"b\"");
    }

    #[test]
    fn braces_without_content_leave_nothing() {
        assert!(objects(&"{".repeat(100_000)).is_empty());
        assert!(objects(&"{}\"".repeat(10_000)).is_empty());
        assert!(objects("é {\"é\"} \u{2026}").is_empty());
    }
}
