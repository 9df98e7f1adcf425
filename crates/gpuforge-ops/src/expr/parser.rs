//! Expression parser: recursive descent by precedence levels, with a nesting limit and errors that point at the source.

use super::{Expr, Function, MAX_DEPTH, MAX_NODES};
use crate::OpError;

/// Longest accepted text.
const MAX_TEXT: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f32),
    Name(String),
    Symbol(&'static str),
}

/// Operators and punctuation, longest first.
const SYMBOLS: [&str; 12] = ["<=", ">=", "==", "<", ">", "+", "-", "*", "/", "(", ")", ","];

/// Binary operators by precedence.
const PRECEDENCE: [&[(&str, Function)]; 3] = [
    &[
        ("<", Function::Less),
        ("<=", Function::LessEqual),
        (">", Function::Greater),
        (">=", Function::GreaterEqual),
        ("==", Function::Equal),
    ],
    &[("+", Function::Add), ("-", Function::Sub)],
    &[("*", Function::Mul), ("/", Function::Div)],
];

struct Parser<'a> {
    text: &'a str,
    names: &'a [&'a str],
    tokens: Vec<(usize, Token)>,
    at: usize,
}

pub(super) fn parse(text: &str, names: &[&str]) -> Result<Expr, OpError> {
    let mut parser = Parser { text, names, tokens: Vec::new(), at: 0 };
    parser.tokenize()?;
    let expr = parser.level(0, 0)?;
    if parser.at < parser.tokens.len() {
        return Err(parser.error("this is not expected here"));
    }
    if expr.too_long {
        parser.at = usize::MAX;
        return Err(parser.error(&format!("more than {MAX_NODES} steps")));
    }
    Ok(expr)
}

/// Characters of identifiers.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Parser<'_> {
    fn error_at(&self, at: usize, message: &str) -> OpError {
        // Single line, so that the caret below points right: other white space has the same width.
        let text: String =
            self.text.chars().take(MAX_TEXT).map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        OpError::Expression { message: message.to_owned(), text, at }
    }

    /// An error at the next token, or at the end of the text.
    fn error(&self, message: &str) -> OpError {
        let end = self.text.trim_end().chars().count();
        self.error_at(self.tokens.get(self.at).map_or(end, |(at, _)| *at), message)
    }

    fn tokenize(&mut self) -> Result<(), OpError> {
        let chars: Vec<char> = self.text.chars().take(MAX_TEXT + 1).collect();
        if chars.len() > MAX_TEXT {
            return Err(self.error_at(0, &format!("more than {MAX_TEXT} characters")));
        }
        let mut at = 0;
        while let Some(c) = chars.get(at).copied() {
            let rest = chars.get(at..).unwrap_or_default();
            if c.is_whitespace() {
                at += 1;
            } else if c.is_ascii_digit() || c == '.' {
                let word: String = rest.iter().take(number_len(rest)).collect();
                let value = word.parse::<f32>().ok().filter(|v| v.is_finite());
                let value =
                    value.ok_or_else(|| self.error_at(at, &format!("{word} is not a 32-bit number")))?;
                self.tokens.push((at, Token::Number(value)));
                at += word.chars().count().max(1);
            } else if is_word(c) {
                let word: String = rest.iter().take_while(|c| is_word(**c)).collect();
                let len = word.chars().count();
                self.tokens.push((at, Token::Name(word)));
                at += len;
            } else {
                let starts = |symbol: &&&str| {
                    symbol.chars().zip(rest).all(|(a, b)| a == *b) && symbol.len() <= rest.len()
                };
                let symbol = SYMBOLS
                    .iter()
                    .find(starts)
                    .ok_or_else(|| self.error_at(at, &format!("{c:?} is not an operator")))?;
                self.tokens.push((at, Token::Symbol(symbol)));
                at += symbol.len();
            }
        }
        Ok(())
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, t)| t)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        self.at += usize::from(found);
        found
    }

    fn need(&mut self, symbol: &str) -> Result<(), OpError> {
        if self.take(symbol) { Ok(()) } else { Err(self.error(&format!("{symbol:?} is missing"))) }
    }

    /// Left-associative operators of one precedence level.
    fn level(&mut self, level: usize, depth: usize) -> Result<Expr, OpError> {
        let Some(operators) = PRECEDENCE.get(level) else { return self.unary(depth) };
        let mut left = self.level(level + 1, depth)?;
        loop {
            let found =
                operators.iter().find(|(s, _)| matches!(self.peek(), Some(Token::Symbol(t)) if t == s));
            let Some((_, function)) = found else { return Ok(left) };
            self.at += 1;
            let right = self.level(level + 1, depth)?;
            left = Expr::call(*function, &[left, right]);
        }
    }

    fn unary(&mut self, depth: usize) -> Result<Expr, OpError> {
        if depth >= MAX_DEPTH {
            return Err(self.error(&format!("nested more than {MAX_DEPTH} deep")));
        }
        if self.take("-") {
            return Ok(-self.unary(depth + 1)?);
        }
        if self.take("(") {
            let inner = self.level(0, depth + 1)?;
            self.need(")")?;
            return Ok(inner);
        }
        match self.peek().cloned() {
            Some(Token::Number(value)) => {
                self.at += 1;
                Ok(Expr::constant(value))
            }
            Some(Token::Name(name)) => self.name(&name, depth),
            Some(Token::Symbol(_)) => Err(self.error("a value is missing")),
            None => Err(self.error("the text ends where a value is missing")),
        }
    }

    fn name(&mut self, name: &str, depth: usize) -> Result<Expr, OpError> {
        let called = matches!(self.tokens.get(self.at + 1), Some((_, Token::Symbol("("))));
        let functions = || Function::ALL.iter().filter(|f| f.name().starts_with(char::is_alphabetic));
        if called && let Some(function) = functions().find(|f| f.name() == name) {
            return self.arguments(*function, depth);
        }
        if let Some(at) = self.names.iter().position(|n| *n == name).filter(|_| !called) {
            self.at += 1;
            let at = u8::try_from(at).map_err(|_| self.error("more than 256 inputs"))?;
            return Ok(Expr::input(at));
        }
        let known: Vec<&str> =
            if called { functions().map(|f| f.name()).collect() } else { self.names.to_vec() };
        let what = if called { "function" } else { "input" };
        let hint = match suggestion(name, &known) {
            Some(near) => format!("; did you mean {near:?}?"),
            None if known.is_empty() => String::new(),
            None => format!("; there are: {}", known.join(", ")),
        };
        Err(self.error(&format!("there is no {what} {name:?}{hint}")))
    }

    fn arguments(&mut self, function: Function, depth: usize) -> Result<Expr, OpError> {
        let start = self.at;
        self.at += 2;
        let mut of = Vec::new();
        if !self.take(")") {
            loop {
                of.push(self.level(0, depth + 1)?);
                if of.len() > function.arity() || !self.take(",") {
                    break;
                }
            }
            if of.len() <= function.arity() {
                self.need(")")?;
            }
        }
        if of.len() != function.arity() {
            self.at = start;
            let (name, arity, have) = (function.name(), function.arity(), of.len());
            return Err(self.error(&format!("{name} takes {arity} values, here are {have}")));
        }
        Ok(Expr::call(function, &of))
    }
}

/// Length of the number literal at the start.
fn number_len(chars: &[char]) -> usize {
    let mut at = chars.iter().take_while(|c| c.is_ascii_digit() || **c == '.').count();
    if matches!(chars.get(at), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(at + 1), Some('+' | '-')));
        let digits = chars.iter().skip(at + 1 + sign).take_while(|c| c.is_ascii_digit()).count();
        if digits > 0 {
            at += 1 + sign + digits;
        }
    }
    at
}

/// Did-you-mean suggestion: the closest known name, if close enough.
fn suggestion<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|k| (edit_distance(name, k), *k)).min()?;
    let longer = name.chars().count().max(near.1.chars().count());
    (near.0 <= 2 && near.0 < longer).then_some(near.1)
}

/// Damerau-Levenshtein distance (optimal string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(32).collect(), b.chars().take(32).collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let get =
            |row: usize, at: usize| rows.get(row).and_then(|r| r.get(at)).copied().unwrap_or(usize::MAX / 2);
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let changed = get(i, j) + usize::from(x != y);
            let mut best = changed.min(get(i, j + 1) + 1).min(row.last().copied().unwrap_or(0) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(get(i - 1, j - 1) + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows.last().and_then(|r| r.last()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> String {
        parse(text, &["a", "price", "volume"]).unwrap_err().to_string()
    }

    #[test]
    fn precedence_is_the_usual_one() {
        let [a, b] = [0, 1].map(Expr::input);
        let names = ["a", "b"];
        let check = |text: &str, want: Expr| assert_eq!(parse(text, &names).unwrap(), want, "{text}");
        check("a + b*2", a.clone() + b.clone() * 2.0);
        check("(a + b)*2", (a.clone() + b.clone()) * 2.0);
        check("a - b - 1.5e1", (a.clone() - b.clone()) - 15.0);
        check("-a*b", -a.clone() * b.clone());
        check("a+1 <= b", (a.clone() + 1.0).at_most(b.clone()));
        check("select(a>b, min(a, b), .5)", a.clone().above(b.clone()).select(a.clone().min(b.clone()), 0.5));
        check("neg(a)", -a);
    }

    #[test]
    fn errors_point_at_the_source() {
        assert_eq!(fails("a + * 2"), "a value is missing\n  a + * 2\n      ^");
        assert_eq!(
            fails("a + pirce"),
            "there is no input \"pirce\"; did you mean \"price\"?\n  a + pirce\n      ^"
        );
        assert_eq!(fails("sine(a)"), "there is no function \"sine\"; did you mean \"sin\"?\n  sine(a)\n  ^");
        assert_eq!(fails("max(a)"), "max takes 2 values, here are 1\n  max(a)\n  ^");
        assert_eq!(fails("max(a, a, a)"), "max takes 2 values, here are 3\n  max(a, a, a)\n  ^");
        assert_eq!(fails("(a"), "\")\" is missing\n  (a\n    ^");
        assert_eq!(fails("a a"), "this is not expected here\n  a a\n    ^");
        assert_eq!(fails("é ? 1"), "'?' is not an operator\n  é ? 1\n    ^");
        assert_eq!(fails(""), "the text ends where a value is missing\n  \n  ^");
        assert_eq!(fails("a + 1e99"), "1e99 is not a 32-bit number\n  a + 1e99\n      ^");
        assert!(fails("zzz").starts_with("there is no input \"zzz\"; there are: a, price, volume"));
        assert!(fails("1.2.3").starts_with("1.2.3 is not"));
    }

    #[test]
    fn hostile_text_is_refused_and_never_overflows() {
        for unit in ["(", "-", "sin(", "max(a,", "select(1,(", "a<"] {
            assert!(fails(&unit.repeat(1500)).contains("nested") || unit == "a<", "{unit}");
        }
        assert!(fails(&"(".repeat(1 << 20)).contains("characters"));
        let long: Vec<String> = (0..400).map(|i| format!("a*{i}.5")).collect();
        assert!(fails(&long.join("+")).starts_with("more than 256 steps"));
    }
}
