//! HTML page template: self-contained document with a content security policy (CSP) of inline hashes, escaping, sortable
//! tables.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

/// Shared style sheet: light and dark colours, tables, cards.
pub const BASE_CSS: &str = include_str!("base.css");
/// Script of sortable, filterable tables.
pub const TABLE_JS: &str = include_str!("table.js");

pub use gpuforge_chart::svg::{escape, visible};

/// Escapes JSON for a `script` element: nothing in it can close the element or open a comment.
pub fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // These occur in JSON strings only, where the escape is equivalent.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// CSP hash source of an inline script or style: `'sha256-…'`.
pub fn hash_source(inline: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(inline.as_bytes())))
}

/// A self-contained document: no network, only its own script.
#[derive(Debug, Clone, Copy)]
pub struct HtmlPage<'a> {
    /// Title, unescaped.
    pub title: &'a str,
    /// Style sheets beside [`BASE_CSS`].
    pub css: &'a str,
    /// Contents of `main`, already escaped.
    pub body: &'a str,
    /// JSON for the script, in an element with the id `data`.
    pub data: Option<&'a str>,
    /// The script, at the end of the body.
    pub script: &'a str,
    /// CSP `connect-src`: `'none'`, or `'self'` for a served page.
    pub connect: &'a str,
}

impl HtmlPage<'_> {
    /// Content security policy, for the `meta` element or a header.
    pub fn policy(&self) -> String {
        policy(&self.style(), self.script, self.connect)
    }

    fn style(&self) -> String {
        format!("{BASE_CSS}{}", self.css)
    }

    /// Renders the document.
    pub fn html(&self) -> String {
        let HtmlPage { body, script, .. } = self;
        let (title, style, policy) = (escape(self.title), self.style(), self.policy());
        let data = self.data.map(json_in_script).unwrap_or_default();
        let data = match data.is_empty() {
            true => String::new(),
            false => format!("<script type=\"application/json\" id=\"data\">{data}</script>\n"),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n<style>{style}</style>\n</head>\n\
             <body>\n<main>\n{body}</main>\n{data}<script>{script}</script>\n</body>\n</html>\n"
        )
    }
}

fn policy(style: &str, script: &str, connect: &str) -> String {
    let (style, script) = (hash_source(style), hash_source(script));
    format!(
        "default-src 'none';style-src {style};script-src {script};connect-src {connect};base-uri 'none';form-action 'none'"
    )
}

/// A sortable table.
#[derive(Debug, Clone, Default)]
pub struct HtmlTable<'a> {
    /// Id of the table element.
    pub id: &'a str,
    /// Accessible caption.
    pub caption: &'a str,
    /// Headings; `true` for text columns.
    pub heads: Vec<(&'a str, bool)>,
    /// Cells: text, and the sort key where that is a number.
    pub rows: Vec<Vec<(String, Option<f64>)>>,
}

impl HtmlTable<'_> {
    /// Renders the table, escaping all text; [`TABLE_JS`] makes it sortable.
    pub fn html(&self) -> String {
        let (id, caption) = (escape(self.id), escape(self.caption));
        let mut out = format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table id=\"{id}\" class=\"sorts\">\n<thead><tr>"
        );
        let class = |text: bool| if text { " class=\"left\"" } else { "" };
        for (head, text) in &self.heads {
            let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(*text), escape(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (index, (shown, by)) in row.iter().enumerate() {
                let text = self.heads.get(index).is_some_and(|(_, text)| *text);
                let by = by.map(|by| format!(" data-by=\"{by}\"")).unwrap_or_default();
                let _ = write!(out, "<td{}{by}>{}</td>", class(text), escape(shown));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}
