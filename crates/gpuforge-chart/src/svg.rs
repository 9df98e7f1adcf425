//! SVG/XML serializer: elements, attributes and character data, escaped in one place. Names from traces, files or drivers
//! may hold anything; the output is well-formed XML all the same.
//!
//! ```
//! use gpuforge_chart::svg::{self, SvgWriter};
//!
//! let mut out = SvgWriter::new();
//! out.start("svg").attr("xmlns", svg::NAMESPACE).attr("viewBox", "0 0 10 10");
//! out.start("text").attr("x", 1.5).text("<0.1 % & \"more\"").end();
//! assert_eq!(
//!     out.finish(),
//!     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 10 10\"><text x=\"1.5\">&lt;0.1 % &amp; \
//!      &quot;more&quot;</text></svg>"
//! );
//! ```
//! Not chosen: `quick-xml`, whose writer passes on control characters, which XML has no form for.

use std::fmt::{Display, Write};

/// The SVG namespace: required in a standalone file, optional inline in HTML.
pub const NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// Escapes text for element content and quoted attributes, in XML and in HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
}

/// Maps characters that XML forbids or that hide from a reader (control characters, noncharacters, bidirectional
/// overrides, byte order mark) to U+FFFD.
pub fn visible(c: char) -> char {
    let bidi = matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    );
    let nonchar = matches!(c, '\u{fffe}' | '\u{ffff}');
    if c.is_control() || bidi || nonchar { '\u{fffd}' } else { c }
}

fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(visible(c)),
        }
    }
}

/// `fmt::Write` adapter that escapes as it writes: no temporary string per value.
struct EscapingWriter<'a>(&'a mut String);

impl Write for EscapingWriter<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        push_escaped(self.0, text);
        Ok(())
    }
}

/// Streaming SVG writer; elements still open at the end are closed by [`SvgWriter::finish`].
#[derive(Debug, Clone, Default)]
pub struct SvgWriter {
    out: String,
    open: Vec<&'static str>,
    /// The last start tag still lacks its `>`.
    in_tag: bool,
}

impl SvgWriter {
    /// An empty document.
    pub fn new() -> Self {
        SvgWriter::default()
    }

    /// Opens an element; attributes may follow.
    pub fn start(&mut self, name: &'static str) -> &mut Self {
        self.close_tag();
        self.out.push('<');
        self.out.push_str(name);
        self.open.push(name);
        self.in_tag = true;
        self
    }

    /// An attribute of the element just opened; ignored once the element has content.
    pub fn attr(&mut self, name: &'static str, value: impl Display) -> &mut Self {
        if self.in_tag {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            // Writing to a string cannot fail.
            let _ = write!(EscapingWriter(&mut self.out), "{value}");
            self.out.push('"');
        }
        self
    }

    /// Character data.
    pub fn text(&mut self, text: impl Display) -> &mut Self {
        self.close_tag();
        let _ = write!(EscapingWriter(&mut self.out), "{text}");
        self
    }

    /// A newline between elements, for readability.
    pub fn line(&mut self) -> &mut Self {
        self.close_tag();
        self.out.push('\n');
        self
    }

    /// Appends another writer's output, with its open elements closed.
    pub fn append(&mut self, other: SvgWriter) -> &mut Self {
        self.close_tag();
        self.out.push_str(&other.finish());
        self
    }

    /// Closes the innermost open element; `<name/>` if it has no content.
    pub fn end(&mut self) -> &mut Self {
        if let Some(name) = self.open.pop() {
            if std::mem::take(&mut self.in_tag) {
                self.out.push_str("/>");
            } else {
                self.out.push_str("</");
                self.out.push_str(name);
                self.out.push('>');
            }
        }
        self
    }

    /// An element that holds only text.
    pub fn leaf(&mut self, name: &'static str, text: impl Display) -> &mut Self {
        self.start(name).text(text).end()
    }

    /// Closes all open elements and returns the text.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.end();
        }
        self.out
    }

    fn close_tag(&mut self) {
        if std::mem::take(&mut self.in_tag) {
            self.out.push('>');
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_replaces_characters_xml_forbids() {
        assert_eq!(escape("<b a=\"1\">&'"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(escape("a\u{0}\u{1b}[31m\u{202e}\u{ffff}b"), "a\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}b");
    }

    #[test]
    fn elements_nest_and_finish_closes_them() {
        let mut svg = SvgWriter::new();
        svg.start("g").attr("id", "a\"b");
        svg.start("rect").attr("x", 1).end().line();
        svg.leaf("title", "<").attr("late", "left out");
        svg.start("g").start("g");
        assert_eq!(svg.finish(), "<g id=\"a&quot;b\"><rect x=\"1\"/>\n<title>&lt;</title><g><g/></g></g>");
        assert_eq!(SvgWriter::new().end().clone().finish(), "");
    }

    proptest! {
        #[test]
        fn any_text_round_trips_through_an_xml_parser(text in any::<String>()) {
            let mut svg = SvgWriter::new();
            svg.start("svg").attr("name", &text).text(&text);
            let written = svg.finish();
            let read = roxmltree::Document::parse(&written).unwrap();
            let shown: String = text.chars().map(visible).collect();
            prop_assert_eq!(read.root_element().attribute("name"), Some(shown.as_str()));
            prop_assert_eq!(read.root_element().text().unwrap_or_default(), shown.as_str());
        }
    }
}
