//! Parser of the selection language (recursive descent): `rsi(14), macd(12,26,9).signal, sma(20, source=hlc3), ema(close, 5) - ema(close, 20)`.
//!
//! ```text
//! selection  := item ("," item)*
//! item       := "all" | "group:" word | "set:" word | expression
//! expression := sum of products of numbers, columns, names of definitions, calls, and (expression)
//! call       := name [ "(" argument ("," argument)* ")" ] [ "." output ]
//! argument   := number ("|" number)*  |  name "=" (number ("|" number)* | expression)  |  expression
//!               an expression is a source; the second of a row of two sources follows bare: `source=close,volume`
//! ```
//! Nesting depth and text length are bounded: hostile input cannot overflow the stack.

use super::SelectError;

/// Max text length in bytes, and max nesting depth.
const MAX_TEXT: usize = 1 << 16;
const MAX_DEPTH: usize = 32;

/// Syntax tree of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ast {
    Number(f64),
    Call(Call),
    Neg(Box<Ast>),
    Binary(char, Box<Ast>, Box<Ast>),
}

/// A call, a column or a definition: a name with or without arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    /// Position of the name.
    pub(super) at: usize,
    pub(super) args: Vec<Arg>,
    pub(super) output: Option<(String, usize)>,
}

/// An argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arg {
    pub(super) name: Option<String>,
    pub(super) at: usize,
    pub(super) value: Value,
}

/// Value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// One number, or alternatives (parameter sweep).
    Numbers(Vec<f64>),
    Source(Ast),
}

/// One item of a selection.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    All,
    Group(String, usize),
    Set(String, usize),
    /// With its source text.
    Expr(Ast, String),
}

pub(super) struct Parser<'t> {
    text: &'t str,
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Result<Self, SelectError> {
        if text.len() > MAX_TEXT {
            return Err(SelectError::Long { bytes: text.len(), most: MAX_TEXT });
        }
        Ok(Parser { text, chars: text.chars().collect(), at: 0, depth: 0 })
    }

    pub(super) fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, SelectError> {
        Err(SelectError::at(self.text, at, message))
    }

    fn skip(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.skip();
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn want(&mut self, c: char) -> Result<(), SelectError> {
        if self.eat(c) { Ok(()) } else { self.fail(self.at, format!("`{c}` is missing here")) }
    }

    fn word(&mut self) -> Option<(String, usize)> {
        self.skip();
        let start = self.at;
        while self.chars.get(self.at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
            self.at += 1;
        }
        let word: String = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        (!word.is_empty()).then_some((word, start))
    }

    fn number(&mut self) -> Option<f64> {
        self.skip();
        let start = self.at;
        let mut end = start;
        while self.chars.get(end).is_some_and(|c| c.is_ascii_digit() || *c == '.') {
            end += 1;
        }
        // With its exponent; a following letter makes it a name such as `3inside`.
        if self.chars.get(end).is_some_and(|c| matches!(c, 'e' | 'E')) {
            let mut after = end + 1;
            after += usize::from(self.chars.get(after).is_some_and(|c| matches!(c, '+' | '-')));
            let digits = self.chars.get(after).is_some_and(char::is_ascii_digit);
            while digits && self.chars.get(after).is_some_and(char::is_ascii_digit) {
                after += 1;
            }
            end = if digits { after } else { end };
        }
        let text: String = self.chars.get(start..end).unwrap_or_default().iter().collect();
        let followed = self.chars.get(end).is_some_and(|c| c.is_alphanumeric() || *c == '_');
        let number = text.parse().ok().filter(|x: &f64| x.is_finite() && !followed)?;
        self.at = end;
        Some(number)
    }

    /// Parses a selection.
    pub(super) fn items(&mut self) -> Result<Vec<Item>, SelectError> {
        let mut items = Vec::new();
        loop {
            if self.peek().is_none() {
                return if items.is_empty() { self.fail(self.at, "nothing is selected") } else { Ok(items) };
            }
            items.push(self.item()?);
            if !self.eat(',') && self.peek().is_some() {
                return self.fail(self.at, "`,` is missing here");
            }
        }
    }

    fn item(&mut self) -> Result<Item, SelectError> {
        let begin = self.at;
        if let Some((word, at)) = self.word() {
            if matches!(word.as_str(), "group" | "set") && self.eat(':') {
                let Some((name, at)) = self.word() else {
                    return self.fail(self.at, "a name is missing here");
                };
                return Ok(if word == "group" { Item::Group(name, at) } else { Item::Set(name, at) });
            }
            let alone = self.peek().is_none_or(|c| c == ',');
            if word == "all" && alone {
                return Ok(Item::All);
            }
            let _ = at;
        }
        self.at = begin;
        self.skip();
        let (at, expr) = (self.at, self.expression()?);
        Ok(Item::Expr(expr, self.text_from(at)))
    }

    /// Text consumed since a position.
    fn text_from(&self, at: usize) -> String {
        let read: String = self.chars.get(at..self.at).unwrap_or_default().iter().collect();
        read.trim().to_owned()
    }

    /// Parses `name = expression`: name, position, expression and its text.
    pub(super) fn definition(&mut self) -> Result<(String, usize, Ast, String), SelectError> {
        let Some((name, at)) = self.word() else { return self.fail(self.at, "a name is missing here") };
        self.want('=')?;
        let begin = self.at;
        let expr = self.expression()?;
        let text = self.text_from(begin);
        if self.peek().is_some() {
            self.fail(self.at, "the definition has ended here")
        } else {
            Ok((name, at, expr, text))
        }
    }

    fn expression(&mut self) -> Result<Ast, SelectError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(self.at, format!("nested more than {MAX_DEPTH} deep"));
        }
        let mut left = self.product()?;
        while let Some(op) = self.peek().filter(|c| matches!(c, '+' | '-')) {
            self.at += 1;
            left = Ast::Binary(op, Box::new(left), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> Result<Ast, SelectError> {
        let mut left = self.factor()?;
        while let Some(op) = self.peek().filter(|c| matches!(c, '*' | '/')) {
            self.at += 1;
            left = Ast::Binary(op, Box::new(left), Box::new(self.factor()?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Ast, SelectError> {
        let mut negative = false;
        while self.eat('-') {
            negative = !negative;
        }
        let plain = if self.eat('(') {
            let inner = self.expression()?;
            self.want(')')?;
            inner
        } else if let Some(x) = self.number() {
            Ast::Number(x)
        } else if let Some((name, at)) = self.word() {
            Ast::Call(self.call(name, at)?)
        } else {
            return self.fail(self.at, "an indicator, a column or a number is missing here");
        };
        Ok(if negative { Ast::Neg(Box::new(plain)) } else { plain })
    }

    fn call(&mut self, name: String, at: usize) -> Result<Call, SelectError> {
        let mut args = Vec::new();
        if self.eat('(') && !self.eat(')') {
            loop {
                args.push(self.argument()?);
                if self.eat(')') {
                    break;
                }
                self.want(',')?;
            }
        }
        let mut output = None;
        if self.eat('.') {
            output = self.word();
            if output.is_none() {
                return self.fail(self.at, "the name of an output is missing here");
            }
        }
        Ok(Call { name, at, args, output })
    }

    fn argument(&mut self) -> Result<Arg, SelectError> {
        self.skip();
        let at = self.at;
        let mut name = None;
        if let Some((word, _)) = self.word() {
            if self.eat('=') {
                name = Some(word);
            } else {
                self.at = at;
            }
        }
        self.skip();
        let begin = self.at;
        // A number list, unless it is part of arithmetic.
        if let Some(numbers) = self.numbers()
            && self.peek().is_some_and(|c| matches!(c, ',' | ')'))
        {
            return Ok(Arg { name, at, value: Value::Numbers(numbers) });
        }
        self.at = begin;
        Ok(Arg { name, at, value: Value::Source(self.expression()?) })
    }

    fn numbers(&mut self) -> Option<Vec<f64>> {
        let mut numbers = Vec::new();
        loop {
            let negative = self.eat('-');
            let x = self.number()?;
            numbers.push(if negative { -x } else { x });
            if !self.eat('|') {
                return Some(numbers);
            }
        }
    }
}
