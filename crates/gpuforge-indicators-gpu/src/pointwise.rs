//! How are values that need no loop computed? As one generated kernel for many of them: four neighbouring runs at once,
//! every operation once, columns, lags and constants as data, so that other parameters need no other pipeline.

use std::{collections::HashMap, fmt::Write as _};

use gpuforge_indicators::graph::{BinaryOp, NodeOp, UnaryOp, ValueId};

use crate::{
    encoding::Form,
    lower::{Column, Lowering},
};

/// A generated kernel and what it is called with.
#[derive(Debug, Clone, PartialEq)]
pub struct Pointwise {
    /// The kernel's body; the same for the same shape of expressions.
    pub body: String,
    /// Constants, as bits.
    pub constants: Vec<u32>,
    /// Lags in bars.
    pub lags: Vec<u32>,
    /// Columns that it reads, then (in the same numbering) columns that it writes.
    pub loads: Vec<Column>,
    /// Columns that it writes.
    pub stores: Vec<Column>,
    /// Operations per bar.
    pub operations: usize,
}

/// A value some bars ago, with its level or without, and the column that it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Which value.
    pub value: ValueId,
    /// How many bars ago.
    pub lag: usize,
    /// With its level?
    pub full: bool,
    /// Where it goes.
    pub into: Column,
}

/// Nested deeper than any indicator: a graph that goes on is refused, not followed.
const DEEPEST: usize = 512;

struct Writer<'a, 'g> {
    lowering: &'a Lowering<'g>,
    stage: usize,
    text: String,
    names: HashMap<(ValueId, usize, bool), String>,
    constants: Vec<u32>,
    lags: Vec<u32>,
    loads: Vec<Column>,
    operations: usize,
}

/// A kernel that computes some values (each some bars ago) into columns.
pub(crate) fn generate(lowering: &Lowering<'_>, stage: usize, items: &[Item]) -> Option<Pointwise> {
    let mut writer = Writer {
        lowering,
        stage,
        text: String::new(),
        names: HashMap::new(),
        constants: Vec::new(),
        lags: Vec::new(),
        loads: Vec::new(),
        operations: 0,
    };
    let mut stores = String::new();
    for (at, item) in items.iter().enumerate() {
        let name = writer.value(item.value, item.lag, item.full, 0)?;
        // Stores are numbered after the loads, which are not all known yet.
        let _ = writeln!(writer.text, "    store(LOADS + {at}u, s, {name});");
    }
    let _ = writeln!(stores, "const LOADS: u32 = {}u;", writer.loads.len());
    let _ = writeln!(stores, "const COLUMNS: u32 = {}u;", writer.loads.len() + items.len());
    stores.push_str(
        "@compute @workgroup_size(WIDTH)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n",
    );
    stores.push_str("    let i = id.y * p.v[1].y + id.x;\n");
    stores.push_str(
        "    if (id.x >= p.v[1].y || i >= p.v[0].w) {\n        return;\n    }\n    let s = spot(i);\n",
    );
    stores.push_str(&writer.text);
    stores.push_str("}\n");
    Some(Pointwise {
        body: stores,
        constants: writer.constants,
        lags: writer.lags,
        loads: writer.loads,
        stores: items.iter().map(|i| i.into).collect(),
        operations: writer.operations,
    })
}

impl Writer<'_, '_> {
    /// The name of a value some bars ago; writes what is needed for it.
    fn value(&mut self, v: ValueId, lag: usize, full: bool, depth: usize) -> Option<String> {
        let (v, more) = self.lowering.root(v);
        let lag = lag + more;
        let form = self.lowering.form(v);
        let full = full && !form.is_plain();
        if let Some(name) = self.names.get(&(v, lag, full)) {
            return Some(name.clone());
        }
        if depth > DEEPEST {
            return None;
        }
        let expression = match self.lowering.before(v, self.stage) {
            _ if full => {
                let mut text = self.value(v, lag, false, depth + 1)?;
                for _ in 0..form.unit_of(v.port) {
                    text.push_str(" * size(s)");
                }
                if form.weight != 0.0 {
                    let at = self.constant((form.weight as f32).to_bits());
                    let _ = write!(text, " + constant({at}u) * level(s)");
                }
                text
            }
            Some(column) => self.load(column, lag),
            None => self.compute(v, lag, depth + 1)?,
        };
        let name = format!("x{}", self.names.len());
        let _ = writeln!(self.text, "    let {name} = {expression};");
        self.names.insert((v, lag, full), name.clone());
        Some(name)
    }

    fn load(&mut self, column: Column, lag: usize) -> String {
        let at = place(&mut self.loads, column);
        if lag == 0 {
            return format!("here({at}u, s)");
        }
        let lag = u32::try_from(lag).unwrap_or(u32::MAX);
        let known = self.lags.contains(&lag);
        let which = place(&mut self.lags, lag);
        if !known {
            let _ = writeln!(self.text, "    let ago{which} = ago(s, {which}u);");
        }
        format!("load({at}u, ago{which})")
    }

    fn constant(&mut self, bits: u32) -> usize {
        place(&mut self.constants, bits)
    }

    fn compute(&mut self, v: ValueId, lag: usize, depth: usize) -> Option<String> {
        self.operations += 1;
        let full = self.lowering.form(v).full;
        match self.lowering.prim(v)? {
            NodeOp::Const(x) => {
                self.operations -= 1;
                if x.get() == 0.0 {
                    // Part of the formula, not a parameter.
                    return Some("vec4<f32>(0.0)".to_owned());
                }
                let at = self.constant((x.get() as f32).to_bits());
                Some(format!("constant({at}u)"))
            }
            NodeOp::Unary(UnaryOp::Ln, a) if self.ratio(*a).is_some() => {
                let (a, b) = self.ratio(*a)?;
                Some(format!("ln_more({})", self.excess(a, b, lag, depth)?))
            }
            NodeOp::Unary(f, a) => Some(un(*f, &self.value(*a, lag, full, depth)?)),
            NodeOp::Binary(BinaryOp::Sub, a, b)
                if self.ratio(*a).is_some() && self.number(*b) == Some(1.0) =>
            {
                let (a, b) = self.ratio(*a)?;
                self.excess(a, b, lag, depth)
            }
            NodeOp::Binary(BinaryOp::Sub, a, b) if self.logarithms(*a, *b).is_some() => {
                let (a, b) = self.logarithms(*a, *b)?;
                Some(format!("ln_more({})", self.excess(a, b, lag, depth)?))
            }
            NodeOp::Binary(f, a, b) if self.tied(*f, *a, *b) => {
                let (a, b) = (self.value(*a, lag, false, depth)?, self.value(*b, lag, false, depth)?);
                Some(compare(*f, &a, &b))
            }
            NodeOp::Binary(f, a, b) => {
                let (a, b) = (self.value(*a, lag, full, depth)?, self.value(*b, lag, full, depth)?);
                Some(bin(*f, &a, &b))
            }
            NodeOp::Select(c, a, b) => {
                let c = self.value(*c, lag, full, depth)?;
                let (a, b) = (self.value(*a, lag, full, depth)?, self.value(*b, lag, full, depth)?);
                Some(format!("select({b}, {a}, is({c}))"))
            }
            NodeOp::Shift(a, n) => self.value(*a, lag + n, false, depth),
            NodeOp::FillWarmup(a, b) => {
                let start = u32::try_from(self.lowering.graph.start(*a) + lag).unwrap_or(u32::MAX);
                let (a, b) = (self.value(*a, lag, full, depth)?, self.value(*b, lag, full, depth)?);
                let at = self.constant(start);
                Some(format!("select({b}, {a}, begun(s, {at}u))"))
            }
            _ => None,
        }
    }
}

/// What makes small differences of large numbers survive.
impl Writer<'_, '_> {
    fn number(&self, v: ValueId) -> Option<f64> {
        match self.lowering.prim(v)? {
            NodeOp::Const(x) => Some(x.get()),
            _ => None,
        }
    }

    /// Two values of one form whose quotient this is: near 1, it says less than their difference.
    fn ratio(&self, v: ValueId) -> Option<(ValueId, ValueId)> {
        match self.lowering.prim(v)? {
            NodeOp::Binary(BinaryOp::Div, a, b) => self.levelled(*a, *b),
            _ => None,
        }
    }

    /// The same of a difference of logarithms.
    fn logarithms(&self, a: ValueId, b: ValueId) -> Option<(ValueId, ValueId)> {
        match (self.lowering.prim(a)?, self.lowering.prim(b)?) {
            (NodeOp::Unary(UnaryOp::Ln, a), NodeOp::Unary(UnaryOp::Ln, b)) => self.levelled(*a, *b),
            _ => None,
        }
    }

    fn levelled(&self, a: ValueId, b: ValueId) -> Option<(ValueId, ValueId)> {
        let (fa, fb) = (self.lowering.form(a), self.lowering.form(b));
        let alike = fa.weight == fb.weight && fa.weight != 0.0 && fa.unit == fb.unit;
        alike.then_some((a, b))
    }

    /// `a / b - 1`.
    fn excess(&mut self, a: ValueId, b: ValueId, lag: usize, depth: usize) -> Option<String> {
        let (x, y) = (self.value(a, lag, false, depth)?, self.value(b, lag, false, depth)?);
        let whole = self.value(b, lag, true, depth)?;
        let mut rest = format!("({x} - {y})");
        for _ in 0..self.lowering.form(a).unit {
            rest.push_str(" * size(s)");
        }
        Some(format!("over({rest}, {whole})"))
    }

    /// A comparison of sums of ticks: those that should be equal are, whatever was rounded on the way.
    fn tied(&self, f: BinaryOp, a: ValueId, b: ValueId) -> bool {
        let compares = matches!(
            f,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne
        );
        let (fa, fb) = (self.lowering.form(a), self.lowering.form(b));
        let price = |f: Form, v: ValueId| f.lattice && (f.unit == 1 || self.number(v) == Some(0.0));
        let alike = fa.weight == fb.weight || (fa.weight - fb.weight).abs() < 1e-9;
        compares && alike && price(fa, a) && price(fb, b) && fa.unit + fb.unit > 0
    }
}

fn compare(f: BinaryOp, a: &str, b: &str) -> String {
    let text = match f {
        BinaryOp::Lt => format!("{a} - {b} < -tie(s)"),
        BinaryOp::Le => format!("{a} - {b} <= tie(s)"),
        BinaryOp::Gt => format!("{a} - {b} > tie(s)"),
        BinaryOp::Ge => format!("{a} - {b} >= -tie(s)"),
        BinaryOp::Eq => format!("abs({a} - {b}) <= tie(s)"),
        _ => format!("abs({a} - {b}) > tie(s)"),
    };
    format!("flag({text})")
}

/// Where something is in a list; added if it is new.
fn place<T: PartialEq>(list: &mut Vec<T>, x: T) -> usize {
    list.iter().position(|y| *y == x).unwrap_or_else(|| {
        list.push(x);
        list.len() - 1
    })
}

fn un(f: UnaryOp, a: &str) -> String {
    match f {
        UnaryOp::Neg => format!("-{a}"),
        UnaryOp::Abs => format!("abs({a})"),
        UnaryOp::Sqrt => format!("root({a})"),
        UnaryOp::Ln => format!("ln({a})"),
        // log10(e), in f32.
        UnaryOp::Log10 => format!("ln({a}) * 0.4342944819"),
        UnaryOp::Exp => format!("exp({a})"),
        UnaryOp::Sin => format!("sin({a})"),
        UnaryOp::Cos => format!("cos({a})"),
        UnaryOp::Tan => format!("tan({a})"),
        UnaryOp::Asin => format!("asin({a})"),
        UnaryOp::Acos => format!("acos({a})"),
        UnaryOp::Atan => format!("atan({a})"),
        UnaryOp::Sinh => format!("sinh({a})"),
        UnaryOp::Cosh => format!("cosh({a})"),
        UnaryOp::Tanh => format!("tanh({a})"),
        UnaryOp::Floor => format!("floor({a})"),
        UnaryOp::Ceil => format!("ceil({a})"),
        UnaryOp::Sign => format!("sign({a})"),
    }
}

fn bin(f: BinaryOp, a: &str, b: &str) -> String {
    let compare = |op: &str| format!("flag({a} {op} {b})");
    match f {
        BinaryOp::Add => format!("{a} + {b}"),
        BinaryOp::Sub => format!("{a} - {b}"),
        BinaryOp::Mul => format!("{a} * {b}"),
        BinaryOp::Div => format!("over({a}, {b})"),
        BinaryOp::Div0 => format!("over_or_nothing({a}, {b})"),
        BinaryOp::Min => format!("min({a}, {b})"),
        BinaryOp::Max => format!("max({a}, {b})"),
        BinaryOp::Pow => format!("power({a}, {b})"),
        BinaryOp::Lt => compare("<"),
        BinaryOp::Le => compare("<="),
        BinaryOp::Gt => compare(">"),
        BinaryOp::Ge => compare(">="),
        BinaryOp::Eq => compare("=="),
        BinaryOp::Ne => compare("!="),
        BinaryOp::And => format!("flag(is({a}) & is({b}))"),
        BinaryOp::Or => format!("flag(is({a}) | is({b}))"),
    }
}
