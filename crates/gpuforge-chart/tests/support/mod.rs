//! Strict parsers for rendered charts: XML well-formedness, JSON syntax, no external references.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

/// XML well-formedness: one root, balanced tags, quoted attributes, no forbidden characters. Returns the number of tags.
pub(super) fn well_formed(text: &str) -> Result<usize, String> {
    let mut open: Vec<&str> = Vec::new();
    let (mut rest, mut count) = (text.trim_end(), 0);
    while let Some(start) = rest.find('<') {
        content(&rest[..start])?;
        let end = rest[start..].find('>').ok_or("a tag does not end")? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        count += 1;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            if open.is_empty() && !rest.is_empty() {
                return Err("more than one root".to_owned());
            }
            continue;
        }
        let whole = tag.strip_suffix('/');
        let body = whole.unwrap_or(tag);
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase()) {
            return Err(format!("a tag called {name:?}"));
        }
        attributes_of(attributes)?;
        if whole.is_none() {
            open.push(name);
        }
    }
    if open.is_empty() && rest.is_empty() { Ok(count) } else { Err(format!("left open: {open:?} {rest:?}")) }
}

fn attributes_of(mut text: &str) -> Result<(), String> {
    let mut seen = Vec::new();
    while !text.is_empty() {
        let (name, after) = text.split_once("=\"").ok_or_else(|| format!("no value: {text:?}"))?;
        let (value, after) = after.split_once('"').ok_or_else(|| format!("no end: {after:?}"))?;
        if seen.contains(&name) || name.contains(' ') {
            return Err(format!("attribute {name:?}"));
        }
        seen.push(name);
        content(value)?;
        text = after.strip_prefix(' ').unwrap_or(after);
    }
    Ok(())
}

fn content(text: &str) -> Result<(), String> {
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\n') {
        return Err(format!("{c:?} is not allowed"));
    }
    let entities = ["&lt;", "&gt;", "&amp;", "&quot;", "&#39;"];
    let loose = text.match_indices('&').find(|(at, _)| !entities.iter().any(|e| text[*at..].starts_with(e)));
    loose.map_or(Ok(()), |(at, _)| Err(format!("a loose & at {at}")))
}

/// Asserts that the text references nothing external.
pub(super) fn self_contained(text: &str, name: &str) {
    let text = text.replace("http://www.w3.org/2000/svg", "");
    let reach = [
        "http:",
        "https:",
        "src=",
        "href",
        "url(",
        "@import",
        "fetch(",
        "XMLHttp",
        "WebSocket",
        "EventSource",
    ];
    for way in reach.into_iter().chain(["import(", "sendBeacon", "eval("]) {
        assert!(!text.contains(way), "{name}: {way}");
    }
}

/// The JSON data of a page.
pub(super) fn page_data(html: &str) -> &str {
    html.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0
}

/// Parses one JSON value and nothing after it.
pub(super) fn json(text: &str) -> Result<(), String> {
    let rest = value(text)?;
    if rest.is_empty() { Ok(()) } else { Err(format!("after the end: {:.40}", rest)) }
}

fn value(text: &str) -> Result<&str, String> {
    let fail = || Err(format!("not a value: {:.40}", text));
    for word in ["null", "true", "false"] {
        if let Some(rest) = text.strip_prefix(word) {
            return Ok(rest);
        }
    }
    match text.chars().next() {
        Some('"') => quoted(text),
        Some('[') => several(&text[1..], ']', value),
        Some('{') => several(&text[1..], '}', |t| value(quoted(t)?.strip_prefix(':').ok_or("no colon")?)),
        Some('-' | '0'..='9') => {
            let end =
                text.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | '0'..='9')).unwrap_or(text.len());
            let number: f64 = text[..end].parse().map_err(|_| format!("not a number: {}", &text[..end]))?;
            if number.is_finite() && !text[..end].ends_with('.') { Ok(&text[end..]) } else { fail() }
        }
        _ => fail(),
    }
}

fn quoted(text: &str) -> Result<&str, String> {
    let body = text.strip_prefix('"').ok_or("no string")?;
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Ok(&body[at + 1..]),
            c if c.is_control() || c == '<' => return Err(format!("{c:?} inside a string")),
            _ => {}
        }
    }
    Err("a string does not end".to_owned())
}

fn several<'a>(
    mut text: &'a str,
    end: char,
    one: impl Fn(&'a str) -> Result<&'a str, String>,
) -> Result<&'a str, String> {
    if let Some(rest) = text.strip_prefix(end) {
        return Ok(rest);
    }
    loop {
        text = one(text)?;
        if let Some(rest) = text.strip_prefix(end) {
            return Ok(rest);
        }
        text = text.strip_prefix(',').ok_or_else(|| format!("no comma: {:.40}", text))?;
    }
}
