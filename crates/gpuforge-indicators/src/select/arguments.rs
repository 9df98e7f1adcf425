//! Argument binding: positional and named arguments to parameters and sources; errors name the fix.

use super::{
    SelectError, field_name,
    parse::{Arg, Ast, Value},
};
use crate::catalogue::Indicator;

/// Target of an argument.
pub(super) enum ArgTarget<'a> {
    /// The next source.
    Source(&'a Ast),
    /// A parameter by index, with one value or alternatives.
    Param(usize, &'a [f64]),
}

/// Arguments bound so far.
pub(super) struct Binder {
    row: &'static Indicator,
    /// Next positional parameter.
    next: usize,
    set: Vec<bool>,
    /// Sources bound so far.
    sources: usize,
}

impl Binder {
    pub(super) fn new(row: &'static Indicator) -> Self {
        Binder { row, next: 0, set: vec![false; row.params.len()], sources: 0 }
    }

    /// Binds an argument; binding twice is an error.
    pub(super) fn bind<'a>(&mut self, text: &str, arg: &'a Arg) -> Result<ArgTarget<'a>, SelectError> {
        let fail = |why: String| Err(SelectError::at(text, arg.at, why));
        let row = self.row;
        let named = arg.name.as_deref();
        let is_source = named.is_some_and(|n| n.eq_ignore_ascii_case("source"));
        match (&arg.value, named) {
            (Value::Source(expr), name) if name.is_none() || is_source => {
                if let Some(why) = self.no_source(expr, is_source) {
                    return fail(why);
                }
                self.sources += 1;
                Ok(ArgTarget::Source(expr))
            }
            (Value::Numbers(_), _) if is_source => fail(format!(
                "the source of `{}` is a column or an expression, such as hlc3: {}",
                row.name,
                signature(row)
            )),
            (value, name) => {
                let at = match name {
                    Some(name) => match row.params.iter().position(|p| p.name.eq_ignore_ascii_case(name)) {
                        Some(at) => at,
                        None => {
                            return fail(format!(
                                "`{}` has no parameter `{name}`: {}",
                                row.name,
                                signature(row)
                            ));
                        }
                    },
                    None => self.next,
                };
                let Value::Numbers(numbers) = value else {
                    return fail(format!("`{}` of `{}` is a number", param(row, at), row.name));
                };
                match self.set.get_mut(at) {
                    None => fail(format!("one number too many: {}", signature(row))),
                    Some(true) => fail(format!("`{}` of `{}` is given twice", param(row, at), row.name)),
                    Some(set) => {
                        *set = true;
                        self.next = at + 1;
                        Ok(ArgTarget::Param(at, numbers))
                    }
                }
            }
        }
    }

    /// Why this cannot be the next source, if so. The second of two is a bare argument: `source=` names the first.
    fn no_source(&self, expr: &Ast, named: bool) -> Option<String> {
        let row = self.row;
        if !row.takes_source() {
            return Some(format!("`{}` reads {}: it takes no source", row.name, reads(row)));
        }
        if constant(expr) {
            return Some(format!(
                "this is a number and no source: write it as one number; {}",
                signature(row)
            ));
        }
        if self.sources < row.n_sources() {
            return (named && self.sources > 0).then(|| {
                format!(
                    "`source=` names the first source of `{}`, and that is given already: write source=a,b; {}",
                    row.name,
                    signature(row)
                )
            });
        }
        Some(match row.name {
            "max" | "min" => {
                let sign = if row.name == "max" { '+' } else { '-' };
                format!(
                    "`{0}` is the {0} of the last `period` values of one source, and that is given already; \
                     the {0} of two columns is (high + low {sign} sqrt((high-low)*(high-low))) / 2",
                    row.name
                )
            }
            _ if row.n_sources() > 1 => {
                format!("`{}` takes two sources, and both are given already: {}", row.name, signature(row))
            }
            _ => format!("`{}` takes one source, and that is given already: {}", row.name, signature(row)),
        })
    }
}

/// Call signature of a row: `max(period, source=close)`, `correl(period, source=high,low)`.
fn signature(row: &Indicator) -> String {
    let mut all: Vec<String> = row.params.iter().map(|p| p.name.to_owned()).collect();
    all.extend(row.takes_source().then(|| format!("source={}", names(row).join(","))));
    match all.is_empty() {
        true => format!("`{}` takes no arguments", row.name),
        false => format!("it is {}({})", row.name, all.join(", ")),
    }
}

/// `high, low and close`.
fn reads(row: &Indicator) -> String {
    match names(row).as_slice() {
        [] => "no column".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn names(row: &Indicator) -> Vec<String> {
    row.inputs.iter().copied().map(field_name).collect()
}

fn param(row: &Indicator, at: usize) -> &'static str {
    row.params.get(at).map_or("", |p| p.name)
}

/// Is it a constant expression?
fn constant(expr: &Ast) -> bool {
    match expr {
        Ast::Number(_) => true,
        Ast::Call(_) => false,
        Ast::Neg(a) => constant(a),
        Ast::Binary(_, a, b) => constant(a) && constant(b),
    }
}
