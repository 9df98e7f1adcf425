//! WGSL code generation of fused pointwise kernels: one kernel for many values, four neighbouring segments per invocation
//! (vec4), common subexpressions once. Columns, lags and constants are data, so that other parameters reuse the pipeline.

use std::{collections::HashMap, fmt::Write as _};

use gpuforge_indicators::graph::{BinaryOp, NodeOp, UnaryOp, ValueId};

use crate::{
    encoding::Encoding,
    lower::{Column, Lowering},
};

/// A generated kernel and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Pointwise {
    /// WGSL body; the same for the same shape of expressions.
    pub body: String,
    /// Constants, as bits.
    pub constants: Vec<u32>,
    /// Lags in bars.
    pub lags: Vec<u32>,
    /// Columns that it reads; stores continue their numbering.
    pub loads: Vec<Column>,
    /// Columns that it writes.
    pub stores: Vec<Column>,
    /// Operations per bar.
    pub operations: usize,
}

/// A lagged value, encoded or decoded, and the column that it is stored to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The value.
    pub value: ValueId,
    /// Lag in bars.
    pub lag: usize,
    /// Decoded?
    pub decoded: bool,
    /// Destination column.
    pub into: Column,
}

/// Recursion limit, deeper than any indicator.
const MAX_DEPTH: usize = 512;

struct CodeGenerator<'a, 'g> {
    lowering: &'a Lowering<'g>,
    stage: usize,
    text: String,
    names: HashMap<(ValueId, usize, bool), String>,
    constants: Vec<u32>,
    lags: Vec<u32>,
    loads: Vec<Column>,
    operations: usize,
}

/// Generates a kernel that computes lagged values into columns.
pub(crate) fn generate(lowering: &Lowering<'_>, stage: usize, items: &[Item]) -> Option<Pointwise> {
    let mut writer = CodeGenerator {
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
        let name = writer.value(item.value, item.lag, item.decoded, 0)?;
        // Stores are numbered after the loads, which are not all known yet.
        let _ = writeln!(writer.text, "    store(LOADS + {at}u, s, {name});");
    }
    let _ = writeln!(stores, "const LOADS: u32 = {}u;", writer.loads.len());
    let _ = writeln!(stores, "const COLUMNS: u32 = {}u;", writer.loads.len() + items.len());
    stores.push_str(
        "@compute @workgroup_size(WORKGROUP_SIZE)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n",
    );
    stores.push_str("    let i = id.y * p.v[1].y + id.x;\n");
    stores.push_str(
        "    if (id.x >= p.v[1].y || i >= p.v[0].w) {\n        return;\n    }\n    let s = position_of(i);\n",
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

impl CodeGenerator<'_, '_> {
    /// The variable of a lagged value; emits its computation on first use.
    fn value(&mut self, v: ValueId, lag: usize, decoded: bool, depth: usize) -> Option<String> {
        let (v, more) = self.lowering.root(v);
        let lag = lag + more;
        let encoding = self.lowering.encoding(v);
        let decoded = decoded && !encoding.is_unencoded();
        if let Some(name) = self.names.get(&(v, lag, decoded)) {
            return Some(name.clone());
        }
        if depth > MAX_DEPTH {
            return None;
        }
        let expression = match self.lowering.column_before(v, self.stage) {
            _ if decoded => {
                let mut text = self.value(v, lag, false, depth + 1)?;
                for _ in 0..encoding.tick_power_of(v.port) {
                    text.push_str(" * tick_size(s)");
                }
                if encoding.offset_weight != 0.0 {
                    let at = self.constant((encoding.offset_weight as f32).to_bits());
                    let _ = write!(text, " + constant({at}u) * price_offset(s)");
                }
                text
            }
            Some(column) => self.load(column, lag),
            None => self.compute(v, lag, depth + 1)?,
        };
        let name = format!("x{}", self.names.len());
        let _ = writeln!(self.text, "    let {name} = {expression};");
        self.names.insert((v, lag, decoded), name.clone());
        Some(name)
    }

    fn load(&mut self, column: Column, lag: usize) -> String {
        let at = intern(&mut self.loads, column);
        if lag == 0 {
            return format!("load_current({at}u, s)");
        }
        let lag = u32::try_from(lag).unwrap_or(u32::MAX);
        let known = self.lags.contains(&lag);
        let which = intern(&mut self.lags, lag);
        if !known {
            let _ = writeln!(self.text, "    let lag{which} = lagged(s, {which}u);");
        }
        format!("load({at}u, lag{which})")
    }

    fn constant(&mut self, bits: u32) -> usize {
        intern(&mut self.constants, bits)
    }

    fn compute(&mut self, v: ValueId, lag: usize, depth: usize) -> Option<String> {
        self.operations += 1;
        let decoded = self.lowering.encoding(v).reads_decoded;
        match self.lowering.op(v)? {
            NodeOp::Const(x) => {
                self.operations -= 1;
                if x.get() == 0.0 {
                    // Part of the expression's shape, not a parameter.
                    return Some("vec4<f32>(0.0)".to_owned());
                }
                let at = self.constant((x.get() as f32).to_bits());
                Some(format!("constant({at}u)"))
            }
            NodeOp::Unary(UnaryOp::Ln, a) if self.ratio(*a).is_some() => {
                let (a, b) = self.ratio(*a)?;
                Some(format!("ln_1p({})", self.excess(a, b, lag, depth)?))
            }
            NodeOp::Unary(f, a) => Some(unary(*f, &self.value(*a, lag, decoded, depth)?)),
            NodeOp::Binary(BinaryOp::Sub, a, b)
                if self.ratio(*a).is_some() && self.number(*b) == Some(1.0) =>
            {
                let (a, b) = self.ratio(*a)?;
                self.excess(a, b, lag, depth)
            }
            NodeOp::Binary(BinaryOp::Sub, a, b) if self.logarithms(*a, *b).is_some() => {
                let (a, b) = self.logarithms(*a, *b)?;
                Some(format!("ln_1p({})", self.excess(a, b, lag, depth)?))
            }
            NodeOp::Binary(f, a, b) if self.tied(*f, *a, *b) => {
                let (a, b) = (self.value(*a, lag, false, depth)?, self.value(*b, lag, false, depth)?);
                Some(compare(*f, &a, &b))
            }
            NodeOp::Binary(f, a, b) => {
                let (a, b) = (self.value(*a, lag, decoded, depth)?, self.value(*b, lag, decoded, depth)?);
                Some(binary(*f, &a, &b))
            }
            NodeOp::Select(c, a, b) => {
                let c = self.value(*c, lag, decoded, depth)?;
                let (a, b) = (self.value(*a, lag, decoded, depth)?, self.value(*b, lag, decoded, depth)?);
                Some(format!("select({b}, {a}, is_true({c}))"))
            }
            NodeOp::Shift(a, n) => self.value(*a, lag + n, false, depth),
            NodeOp::FillWarmup(a, b) => {
                let start = u32::try_from(self.lowering.graph.start(*a) + lag).unwrap_or(u32::MAX);
                let (a, b) = (self.value(*a, lag, decoded, depth)?, self.value(*b, lag, decoded, depth)?);
                let at = self.constant(start);
                Some(format!("select({b}, {a}, warmed_up(s, {at}u))"))
            }
            _ => None,
        }
    }
}

/// Rewrites that avoid cancellation: ratios near 1, differences of logarithms, comparisons on the tick grid.
impl CodeGenerator<'_, '_> {
    fn number(&self, v: ValueId) -> Option<f64> {
        match self.lowering.op(v)? {
            NodeOp::Const(x) => Some(x.get()),
            _ => None,
        }
    }

    /// The operands of a quotient with the same offset: near 1, `(a - b) / b` is more precise.
    fn ratio(&self, v: ValueId) -> Option<(ValueId, ValueId)> {
        match self.lowering.op(v)? {
            NodeOp::Binary(BinaryOp::Div, a, b) => self.same_offset(*a, *b),
            _ => None,
        }
    }

    /// The same for a difference of logarithms.
    fn logarithms(&self, a: ValueId, b: ValueId) -> Option<(ValueId, ValueId)> {
        match (self.lowering.op(a)?, self.lowering.op(b)?) {
            (NodeOp::Unary(UnaryOp::Ln, a), NodeOp::Unary(UnaryOp::Ln, b)) => self.same_offset(*a, *b),
            _ => None,
        }
    }

    fn same_offset(&self, a: ValueId, b: ValueId) -> Option<(ValueId, ValueId)> {
        let (fa, fb) = (self.lowering.encoding(a), self.lowering.encoding(b));
        let alike =
            fa.offset_weight == fb.offset_weight && fa.offset_weight != 0.0 && fa.tick_power == fb.tick_power;
        alike.then_some((a, b))
    }

    /// `a / b - 1`.
    fn excess(&mut self, a: ValueId, b: ValueId, lag: usize, depth: usize) -> Option<String> {
        let (x, y) = (self.value(a, lag, false, depth)?, self.value(b, lag, false, depth)?);
        let whole = self.value(b, lag, true, depth)?;
        let mut rest = format!("({x} - {y})");
        for _ in 0..self.lowering.encoding(a).tick_power {
            rest.push_str(" * tick_size(s)");
        }
        Some(format!("div_ieee({rest}, {whole})"))
    }

    /// Is it a comparison of sums of ticks? Those compare with a tolerance, so that rounding breaks no ties.
    fn tied(&self, f: BinaryOp, a: ValueId, b: ValueId) -> bool {
        let compares = matches!(
            f,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne
        );
        let (fa, fb) = (self.lowering.encoding(a), self.lowering.encoding(b));
        let price = |f: Encoding, v: ValueId| f.on_grid && (f.tick_power == 1 || self.number(v) == Some(0.0));
        let alike =
            fa.offset_weight == fb.offset_weight || (fa.offset_weight - fb.offset_weight).abs() < 1e-9;
        compares && alike && price(fa, a) && price(fb, b) && fa.tick_power + fb.tick_power > 0
    }
}

fn compare(f: BinaryOp, a: &str, b: &str) -> String {
    let text = match f {
        BinaryOp::Lt => format!("{a} - {b} < -tie_tolerance(s)"),
        BinaryOp::Le => format!("{a} - {b} <= tie_tolerance(s)"),
        BinaryOp::Gt => format!("{a} - {b} > tie_tolerance(s)"),
        BinaryOp::Ge => format!("{a} - {b} >= -tie_tolerance(s)"),
        BinaryOp::Eq => format!("abs({a} - {b}) <= tie_tolerance(s)"),
        _ => format!("abs({a} - {b}) > tie_tolerance(s)"),
    };
    format!("to_mask({text})")
}

/// Index of an element in a list; appended if it is new.
fn intern<T: PartialEq>(list: &mut Vec<T>, x: T) -> usize {
    list.iter().position(|y| *y == x).unwrap_or_else(|| {
        list.push(x);
        list.len() - 1
    })
}

fn unary(f: UnaryOp, a: &str) -> String {
    match f {
        UnaryOp::Neg => format!("-{a}"),
        UnaryOp::Abs => format!("abs({a})"),
        UnaryOp::Sqrt => format!("sqrt_ieee({a})"),
        UnaryOp::Ln => format!("ln_ieee({a})"),
        // log10(e), in f32.
        UnaryOp::Log10 => format!("ln_ieee({a}) * 0.4342944819"),
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

fn binary(f: BinaryOp, a: &str, b: &str) -> String {
    let compare = |op: &str| format!("to_mask({a} {op} {b})");
    match f {
        BinaryOp::Add => format!("{a} + {b}"),
        BinaryOp::Sub => format!("{a} - {b}"),
        BinaryOp::Mul => format!("{a} * {b}"),
        BinaryOp::Div => format!("div_ieee({a}, {b})"),
        BinaryOp::Div0 => format!("div_or_zero({a}, {b})"),
        BinaryOp::Min => format!("min({a}, {b})"),
        BinaryOp::Max => format!("max({a}, {b})"),
        BinaryOp::Pow => format!("pow_ieee({a}, {b})"),
        BinaryOp::Lt => compare("<"),
        BinaryOp::Le => compare("<="),
        BinaryOp::Gt => compare(">"),
        BinaryOp::Ge => compare(">="),
        BinaryOp::Eq => compare("=="),
        BinaryOp::Ne => compare("!="),
        BinaryOp::And => format!("to_mask(is_true({a}) & is_true({b}))"),
        BinaryOp::Or => format!("to_mask(is_true({a}) | is_true({b}))"),
    }
}
