//! Name resolution: identifiers to catalogue rows, price columns or user definitions; errors carry a position and a suggestion.

use std::sync::Arc;

use super::{
    Instance, SelectError, SelectItem, Source,
    arguments::{ArgTarget, Binder},
    nearest,
    parse::{Arg, Ast, Call, Item, Parser, Value},
    price,
    sets::SETS,
};
use crate::{
    catalogue::{self, Convention, Group, Indicator, IndicatorKind, ValueRange},
    graph::{BinaryOp, Expr, GraphBuilder},
};

/// Max instances of one selection.
const MAX_INSTANCES: usize = 20_000;

/// Expression after name resolution.
#[derive(Debug, Clone)]
pub(crate) enum ResolvedExpr {
    Number(f64),
    Price(String),
    Instance(Box<Instance>),
    Neg(Arc<ResolvedExpr>),
    Binary(BinaryOp, Arc<ResolvedExpr>, Arc<ResolvedExpr>),
}

impl ResolvedExpr {
    pub(crate) fn build<'g>(&self, bars: GraphBuilder<'g>) -> Expr<'g> {
        match self {
            ResolvedExpr::Number(x) => bars.constant(*x),
            ResolvedExpr::Price(word) => price(bars, word).unwrap_or_else(|| bars.close()),
            ResolvedExpr::Instance(instance) => {
                let outputs = instance.build(bars);
                let wanted = outputs.get(instance.output.unwrap_or(0)).copied();
                wanted.unwrap_or_else(|| bars.constant(f64::NAN))
            }
            ResolvedExpr::Neg(a) => -a.build(bars),
            ResolvedExpr::Binary(f, a, b) => a.build(bars).binary(*f, b.build(bars)),
        }
    }
}

impl ResolvedExpr {
    /// Value range, if it is just an indicator under another name; and whether its start depends on the data.
    pub(crate) fn column_meta(&self) -> (Option<ValueRange>, bool) {
        match self {
            ResolvedExpr::Number(_) | ResolvedExpr::Price(_) => (None, false),
            ResolvedExpr::Instance(i) => (i.range(i.output.unwrap_or(0)), i.row.starts_late()),
            ResolvedExpr::Neg(a) => (None, a.column_meta().1),
            ResolvedExpr::Binary(_, a, b) => (None, a.column_meta().1 || b.column_meta().1),
        }
    }
}

/// Parses and resolves selections, with user definitions.
#[derive(Debug, Clone, Default)]
pub struct Selector {
    defined: Vec<Source>,
    convention: Convention,
}

/// Instances of one call: several if an argument has alternatives.
type Instances = Vec<Instance>;

impl Selector {
    /// Without definitions.
    pub fn new() -> Self {
        Selector::default()
    }

    /// With this convention.
    pub fn by(convention: Convention) -> Self {
        Selector { convention, ..Selector::default() }
    }

    /// All user definitions, as items.
    pub fn defined(&self) -> impl Iterator<Item = SelectItem> + '_ {
        self.defined.iter().cloned().map(SelectItem::Expression)
    }

    fn of(&self, row: &'static Indicator) -> Instance {
        Instance { convention: self.convention, ..Instance::of(row) }
    }

    /// Adds a definition `name = expression`, which can then be used and selected by name.
    pub fn define(&mut self, text: &str) -> Result<(), SelectError> {
        let (name, at, expr, written) = Parser::new(text)?.definition()?;
        let taken = catalogue::find(&name).is_some() || super::PRICES.contains(&name.as_str());
        if taken || self.defined.iter().any(|d| d.name == name) {
            return Err(SelectError::at(text, at, format!("`{name}` is taken already")));
        }
        let expr = Arc::new(self.expression(text, &expr)?);
        self.defined.push(Source { name, text: written, expr });
        Ok(())
    }

    /// Parses and resolves a selection.
    pub fn select(&self, text: &str) -> Result<Vec<SelectItem>, SelectError> {
        let mut wanted = Vec::new();
        for item in Parser::new(text)?.items()? {
            match item {
                // Math operators are not part of `all`.
                Item::All => {
                    let rows = catalogue::all().filter(|r| r.kind != IndicatorKind::Primitive);
                    wanted.extend(rows.map(|r| self.of(r).into()));
                }
                Item::Group(name, at) => {
                    let known = |g: Group| format!("{g:?}").eq_ignore_ascii_case(&name);
                    let before = wanted.len();
                    wanted.extend(catalogue::all().filter(|r| known(r.group)).map(|r| self.of(r).into()));
                    if wanted.len() == before {
                        return Err(SelectError::at(text, at, format!("there is no group `{name}`")));
                    }
                }
                Item::Set(name, at) => match SETS.iter().find(|s| s.name == name) {
                    Some(set) => wanted.extend(self.select(set.selection)?),
                    None => {
                        let known: Vec<&str> = SETS.iter().map(|s| s.name).collect();
                        let known = known.join(", ");
                        return Err(SelectError::at(
                            text,
                            at,
                            format!("there is no set `{name}`; there are: {known}"),
                        ));
                    }
                },
                Item::Expr(Ast::Call(call), _) => wanted.extend(self.item(text, &call)?),
                Item::Expr(expr, written) => {
                    let expr = Arc::new(self.expression(text, &expr)?);
                    wanted.push(SelectItem::Expression(Source {
                        name: written.clone(),
                        text: written,
                        expr,
                    }));
                }
            }
            if wanted.len() > MAX_INSTANCES {
                return Err(SelectError::at(
                    text,
                    0,
                    format!("more than {MAX_INSTANCES} indicators at once"),
                ));
            }
        }
        Ok(wanted)
    }

    fn item(&self, text: &str, call: &Call) -> Result<Vec<SelectItem>, SelectError> {
        let bare = call.args.is_empty() && call.output.is_none();
        if let Some(defined) = self.defined.iter().find(|d| d.name == call.name && bare) {
            return Ok(vec![SelectItem::Expression(defined.clone())]);
        }
        let name = call.name.to_ascii_lowercase();
        if bare && super::PRICES.contains(&name.as_str()) {
            let expr = Arc::new(ResolvedExpr::Price(name.clone()));
            return Ok(vec![SelectItem::Expression(Source { name: name.clone(), text: name, expr })]);
        }
        Ok(self.instances(text, call)?.into_iter().map(SelectItem::from).collect())
    }

    fn row(&self, text: &str, call: &Call) -> Result<&'static Indicator, SelectError> {
        catalogue::find(&call.name).ok_or_else(|| {
            let more: Vec<String> = self.defined.iter().map(|d| d.name.clone()).collect();
            let column = super::PRICES.contains(&call.name.to_ascii_lowercase().as_str());
            if column || more.contains(&call.name) {
                let kind = if column { "a column" } else { "a definition" };
                let why = format!("`{}` is {kind}: it takes no arguments and has no outputs", call.name);
                return SelectError::at(text, call.at, why);
            }
            let hint =
                nearest(&call.name, &more).map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            SelectError::at(text, call.at, format!("there is no indicator `{}`{hint}", call.name))
        })
    }

    /// Instances of a call: the Cartesian product of its alternatives. An unused argument is an error.
    fn instances(&self, text: &str, call: &Call) -> Result<Instances, SelectError> {
        let row = self.row(text, call)?;
        let mut all = vec![self.of(row)];
        let mut binder = Binder::new(row);
        let mut sources = Vec::new();
        for arg in &call.args {
            match binder.bind(text, arg)? {
                ArgTarget::Source(expr) => sources.push(self.source(text, expr)?),
                ArgTarget::Param(at, numbers) => all = sweep(text, row, all, arg, at, numbers)?,
            }
        }
        if !sources.is_empty() {
            // One source of a pair leaves the other at its default, which the column name states.
            let rest = row.inputs.iter().skip(sources.len()).copied().map(Source::column);
            sources.extend(rest);
            all.iter_mut().for_each(|i| i.sources.clone_from(&sources));
        }
        if let Some((name, at)) = &call.output {
            let found = row.outputs.iter().position(|o| o.eq_ignore_ascii_case(name));
            let Some(output) = found else {
                let why =
                    format!("`{}` has no output `{name}`; it has: {}", row.name, row.outputs.join(", "));
                return Err(SelectError::at(text, *at, why));
            };
            all.iter_mut().for_each(|i| i.output = Some(output));
        }
        Ok(all)
    }

    fn source(&self, text: &str, expr: &Ast) -> Result<Source, SelectError> {
        let built = self.expression(text, expr)?;
        let name = label(expr);
        Ok(Source { text: name.clone(), name, expr: Arc::new(built) })
    }

    fn expression(&self, text: &str, expr: &Ast) -> Result<ResolvedExpr, SelectError> {
        Ok(match expr {
            Ast::Number(x) => ResolvedExpr::Number(*x),
            Ast::Neg(a) => ResolvedExpr::Neg(Arc::new(self.expression(text, a)?)),
            Ast::Binary(op, a, b) => {
                let f = match op {
                    '+' => BinaryOp::Add,
                    '-' => BinaryOp::Sub,
                    '*' => BinaryOp::Mul,
                    _ => BinaryOp::Div,
                };
                ResolvedExpr::Binary(
                    f,
                    Arc::new(self.expression(text, a)?),
                    Arc::new(self.expression(text, b)?),
                )
            }
            Ast::Call(call) => self.name(text, call)?,
        })
    }

    fn name(&self, text: &str, call: &Call) -> Result<ResolvedExpr, SelectError> {
        if call.args.is_empty() && call.output.is_none() {
            if super::PRICES.contains(&call.name.to_ascii_lowercase().as_str()) {
                return Ok(ResolvedExpr::Price(call.name.clone()));
            }
            if let Some(defined) = self.defined.iter().find(|d| d.name == call.name) {
                return Ok(defined.expr.as_ref().clone());
            }
        }
        let mut all = self.instances(text, call)?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(ResolvedExpr::Instance(Box::new(one))),
            _ => Err(SelectError::at(text, call.at, "alternatives are not possible inside an expression")),
        }
    }
}

/// Parameter sweep: one instance per alternative.
fn sweep(
    text: &str,
    row: &Indicator,
    all: Instances,
    arg: &Arg,
    at: usize,
    numbers: &[f64],
) -> Result<Instances, SelectError> {
    let mut more = Vec::new();
    if all.len().saturating_mul(numbers.len()) > MAX_INSTANCES {
        return Err(SelectError::at(text, arg.at, format!("more than {MAX_INSTANCES} indicators at once")));
    }
    for instance in all {
        for x in numbers {
            let Some(param) = row.params.get(at) else { continue };
            let (lo, hi) = (param.min, param.max);
            if !(lo..=hi).contains(x) || (param.integer && x.fract() != 0.0) {
                let kind = if param.integer { "an integer" } else { "a number" };
                let why =
                    format!("`{}` of `{}` must be {kind} from {lo} to {hi}, not {x}", param.name, row.name);
                return Err(SelectError::at(text, arg.at, why));
            }
            let mut one = instance.clone();
            if let Some(slot) = one.params.get_mut(at) {
                *slot = *x;
            }
            more.push(one);
        }
    }
    Ok(more)
}

/// Short name of a source expression, for column names.
fn label(expr: &Ast) -> String {
    match expr {
        Ast::Number(x) => x.to_string(),
        Ast::Neg(a) => format!("neg_{}", label(a)),
        Ast::Binary(op, a, b) => {
            let op = match op {
                '+' => "plus",
                '-' => "minus",
                '*' => "times",
                _ => "by",
            };
            format!("{}_{op}_{}", label(a), label(b))
        }
        Ast::Call(call) => {
            let mut name = call.name.to_ascii_lowercase();
            for arg in &call.args {
                match &arg.value {
                    Value::Numbers(numbers) => numbers.iter().for_each(|x| name.push_str(&format!("_{x}"))),
                    Value::Source(expr) => name.push_str(&format!("_{}", label(expr))),
                }
            }
            if let Some((output, _)) = &call.output {
                name.push('_');
                name.push_str(output);
            }
            name
        }
    }
}
