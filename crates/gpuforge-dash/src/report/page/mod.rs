//! What is every page of ours made of? One document without a network: a policy with the hashes of what is inline, escaped
//! names, the same colours and tables.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

/// Colours for light and dark, tables, cards: what all pages share.
pub const BASE_CSS: &str = include_str!("base.css");
/// Tables that sort by their headings and filter by a search field.
pub const TABLE_JS: &str = include_str!("table.js");

pub use gpuforge_chart::svg::{escape, visible};

/// JSON as it may stand inside a `script` element: nothing in it can end one or begin a comment.
pub fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // These occur in strings only, where the escape means the same.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// A source for a content security policy: `'sha256-…'` of what stands between the tags.
pub fn hash_source(inline: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(inline.as_bytes())))
}

/// A document that fetches nothing and runs nothing but its own script.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Title, not escaped yet.
    pub title: &'a str,
    /// Style sheets beside [`BASE_CSS`].
    pub css: &'a str,
    /// What is inside `main`, escaped already.
    pub body: &'a str,
    /// Data for the script, as JSON: an element with the id `data`.
    pub data: Option<&'a str>,
    /// The script; runs when the rest is there.
    pub script: &'a str,
    /// Where the script may connect to: `'none'`, or `'self'` for a page that is served.
    pub connect: &'a str,
}

impl Page<'_> {
    /// The policy of this page, for the `meta` element and for a header of a server.
    pub fn policy(&self) -> String {
        policy(&self.style(), self.script, self.connect)
    }

    fn style(&self) -> String {
        format!("{BASE_CSS}{}", self.css)
    }

    /// The whole document.
    pub fn html(&self) -> String {
        let Page { body, script, .. } = self;
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

/// One table: headings with how they are sorted, and rows.
#[derive(Debug, Clone, Default)]
pub struct Table<'a> {
    /// Id of the table element.
    pub id: &'a str,
    /// What it shows, for readers of the screen.
    pub caption: &'a str,
    /// Headings; `true` for those whose columns are text.
    pub heads: Vec<(&'a str, bool)>,
    /// Cells: what is shown, and the number it is sorted by where that is not the text.
    pub rows: Vec<Vec<(String, Option<f64>)>>,
}

impl Table<'_> {
    /// The table; [`TABLE_JS`] makes its headings sort. Everything is escaped here.
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
