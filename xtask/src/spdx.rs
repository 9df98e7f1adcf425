//! SPDX licence expressions: parser (AND, OR, WITH, parentheses, `/` as old crates write OR) and check against an allow list.

use std::fmt;

/// Licences that a binary under MIT OR Apache-2.0 may carry; `deny.toml` has the same list (a test compares them).
pub(crate) const ALLOWED: [&str; 17] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "NCSA",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr {
    /// A licence, with its exception if it has one.
    Licence(String),
    /// All of them apply.
    And(Vec<Expr>),
    /// One of them is ours to choose.
    Or(Vec<Expr>),
}

impl Expr {
    /// Is there a choice that needs only licences of the list?
    pub(crate) fn allowed_by(&self, list: &[&str]) -> bool {
        match self {
            Expr::Licence(name) => list.contains(&name.trim_end_matches('+')),
            Expr::And(all) => all.iter().all(|expr| expr.allowed_by(list)),
            Expr::Or(any) => any.iter().any(|expr| expr.allowed_by(list)),
        }
    }

    /// Licences that are not on the list, in order of appearance.
    pub(crate) fn others(&self, list: &[&str]) -> Vec<&str> {
        match self {
            Expr::Licence(_) if self.allowed_by(list) => Vec::new(),
            Expr::Licence(name) => vec![name],
            Expr::And(parts) | Expr::Or(parts) => parts.iter().flat_map(|part| part.others(list)).collect(),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, operator) = match self {
            Expr::Licence(name) => return f.write_str(name),
            Expr::And(parts) => (parts, " AND "),
            Expr::Or(parts) => (parts, " OR "),
        };
        for (at, part) in parts.iter().enumerate() {
            let between = if at == 0 { "" } else { operator };
            match part {
                Expr::Licence(name) => write!(f, "{between}{name}")?,
                group => write!(f, "{between}({group})")?,
            }
        }
        Ok(())
    }
}

/// Why an expression cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an SPDX expression: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Parses an expression. WITH binds tightest, then AND, then OR.
pub(crate) fn parse(text: &str) -> Result<Expr, Malformed> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0 };
    let expr = parser.or()?;
    match parser.peek() {
        None => Ok(expr),
        Some(word) => Err(Malformed(format!("`{word}` is one too many in `{text}`"))),
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn or(&mut self) -> Result<Expr, Malformed> {
        let mut parts = vec![self.and()?];
        while self.take("OR") {
            parts.push(self.and()?);
        }
        Ok(one_or(parts, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr, Malformed> {
        let mut parts = vec![self.atom()?];
        while self.take("AND") {
            parts.push(self.atom()?);
        }
        Ok(one_or(parts, Expr::And))
    }

    fn atom(&mut self) -> Result<Expr, Malformed> {
        if self.take("(") {
            let inner = self.or()?;
            return if self.take(")") { Ok(inner) } else { Err(Malformed("`)` is missing".to_owned())) };
        }
        let name = self.name()?;
        if self.take("WITH") {
            return Ok(Expr::Licence(format!("{name} WITH {}", self.name()?)));
        }
        Ok(Expr::Licence(name.to_owned()))
    }

    fn name(&mut self) -> Result<&'a str, Malformed> {
        let is_name = |word: &&str| {
            let operator = ["AND", "OR", "WITH"].iter().any(|op| word.eq_ignore_ascii_case(op));
            !operator && word.chars().all(|c| c.is_ascii_alphanumeric() || "-.+:".contains(c))
        };
        let name = self.peek().filter(is_name).ok_or_else(|| {
            Malformed(format!("a licence should stand where `{}` is", self.peek().unwrap_or("the end")))
        })?;
        self.at += 1;
        Ok(name)
    }
}

fn one_or(mut parts: Vec<Expr>, many: fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            many(parts)
        }
        None => many(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str) -> bool {
        parse(text).unwrap().allowed_by(&ALLOWED)
    }

    #[test]
    fn one_acceptable_alternative_is_enough() {
        assert!(allowed("MIT"));
        assert!(allowed("GPL-3.0-only OR MIT"));
        assert!(allowed("Apache-2.0/MIT") && allowed("Apache-2.0 / MIT"));
        assert!(allowed("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        assert!(!allowed("GPL-3.0-only") && !allowed("GPL-3.0-only OR LGPL-2.1"));
    }

    #[test]
    fn and_needs_every_part_and_binds_tighter() {
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!allowed("MIT AND GPL-2.0-only"));
        assert!(allowed("MIT OR Apache-2.0 AND GPL-2.0-only"));
        assert!(!allowed("(MIT OR Apache-2.0) AND GPL-2.0-only"));
    }

    #[test]
    fn an_exception_is_part_of_the_licence() {
        assert!(!allowed("GPL-2.0-only WITH Classpath-exception-2.0"));
        assert!(!allowed("MIT WITH LLVM-exception"));
        assert!(allowed("apache-2.0 WITH LLVM-exception or MIT"));
        assert!(allowed("MPL-2.0+"));
    }

    #[test]
    fn others_are_named() {
        let expr = parse("(MIT OR GPL-3.0-only) AND OpenSSL").unwrap();
        assert_eq!(expr.others(&ALLOWED), ["GPL-3.0-only", "OpenSSL"]);
    }

    #[test]
    fn an_expression_is_written_as_spdx_wants_it() {
        let shown = |text: &str| parse(text).unwrap().to_string();
        assert_eq!(shown("MIT/Apache-2.0"), "MIT OR Apache-2.0");
        assert_eq!(shown("(MIT OR Apache-2.0) AND Unicode-3.0"), "(MIT OR Apache-2.0) AND Unicode-3.0");
        assert_eq!(shown("apache-2.0 with LLVM-exception"), "apache-2.0 WITH LLVM-exception");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "AND", "MIT WITH", "see, licence"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_parses() {
        assert!(ALLOWED.is_sorted());
        assert!(ALLOWED.iter().all(|name| parse(name) == Ok(Expr::Licence((*name).to_owned()))));
    }
}
