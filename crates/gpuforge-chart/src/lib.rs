//! SVG serializer: elements, attributes and character data, escaped in one place. What may a name from a trace, a file or a
//! driver hold? Anything; what comes out is well-formed XML all the same.
//!
//! ```
//! use gpuforge_chart::Writer;
//!
//! let mut svg = Writer::new();
//! svg.start("svg").attr("xmlns", gpuforge_chart::NAMESPACE).attr("viewBox", "0 0 10 10");
//! svg.start("text").attr("x", 1.5).text("<0.1 % & \"more\"").end();
//! assert_eq!(
//!     svg.finish(),
//!     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 10 10\"><text x=\"1.5\">&lt;0.1 % &amp; \
//!      &quot;more&quot;</text></svg>"
//! );
//! ```
//! Not chosen: `quick-xml`, whose writer passes on control characters, which XML has no form for.

use std::fmt::{Display, Write};

/// The namespace of SVG; a file of its own needs it, a drawing inside HTML does not.
pub const NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// Text as it may stand in an element or a quoted attribute, in XML and in HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
}

/// A character, or the replacement character for one that XML has no form for or that a reader cannot see: control
/// characters, noncharacters, and those that turn the direction of what follows.
pub fn visible(c: char) -> char {
    let turns = matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    );
    let none = matches!(c, '\u{fffe}' | '\u{ffff}');
    if c.is_control() || turns || none { '\u{fffd}' } else { c }
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

/// What is displayed goes through [`push_escaped`], without a string of its own.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        push_escaped(self.0, text);
        Ok(())
    }
}

/// Writes elements one after the other; those still open at the end are closed.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    out: String,
    open: Vec<&'static str>,
    /// Is the last start tag still without its `>`?
    in_tag: bool,
}

impl Writer {
    /// Nothing written yet.
    pub fn new() -> Self {
        Writer::default()
    }

    /// Begins an element; attributes may follow.
    pub fn start(&mut self, name: &'static str) -> &mut Self {
        self.close_tag();
        self.out.push('<');
        self.out.push_str(name);
        self.open.push(name);
        self.in_tag = true;
        self
    }

    /// An attribute of the element that was just begun; behind its content there is no place for one, and it is left out.
    pub fn attr(&mut self, name: &'static str, value: impl Display) -> &mut Self {
        if self.in_tag {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            // Writing to a string cannot fail.
            let _ = write!(Escaping(&mut self.out), "{value}");
            self.out.push('"');
        }
        self
    }

    /// Character data.
    pub fn text(&mut self, text: impl Display) -> &mut Self {
        self.close_tag();
        let _ = write!(Escaping(&mut self.out), "{text}");
        self
    }

    /// A line break between elements, for those who read the file.
    pub fn line(&mut self) -> &mut Self {
        self.close_tag();
        self.out.push('\n');
        self
    }

    /// What another writer has written, all of it ended.
    pub fn written(&mut self, other: Writer) -> &mut Self {
        self.close_tag();
        self.out.push_str(&other.finish());
        self
    }

    /// Ends the innermost open element; one without content as `<name/>`.
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

    /// An element with text only.
    pub fn leaf(&mut self, name: &'static str, text: impl Display) -> &mut Self {
        self.start(name).text(text).end()
    }

    /// The whole, with everything that is still open ended.
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
    fn what_cannot_stand_in_xml_is_replaced() {
        assert_eq!(escape("<b a=\"1\">&'"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(escape("a\u{0}\u{1b}[31m\u{202e}\u{ffff}b"), "a\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}b");
    }

    #[test]
    fn elements_nest_and_end() {
        let mut svg = Writer::new();
        svg.start("g").attr("id", "a\"b");
        svg.start("rect").attr("x", 1).end().line();
        svg.leaf("title", "<").attr("late", "left out");
        svg.start("g").start("g");
        assert_eq!(svg.finish(), "<g id=\"a&quot;b\"><rect x=\"1\"/>\n<title>&lt;</title><g><g/></g></g>");
        assert_eq!(Writer::new().end().clone().finish(), "");
    }

    proptest! {
        #[test]
        fn any_text_gives_xml_that_reads_back(text in any::<String>()) {
            let mut svg = Writer::new();
            svg.start("svg").attr("name", &text).text(&text);
            let written = svg.finish();
            let read = roxmltree::Document::parse(&written).unwrap();
            let shown: String = text.chars().map(visible).collect();
            prop_assert_eq!(read.root_element().attribute("name"), Some(shown.as_str()));
            prop_assert_eq!(read.root_element().text().unwrap_or_default(), shown.as_str());
        }
    }
}
