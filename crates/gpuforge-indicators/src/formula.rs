//! Pretty-printer: formulas of an indicator in readable notation, generated from the graph that is executed.
//!
//! ```
//! let row = gpuforge_indicators::catalogue::find("mom").ok_or("no such row")?;
//! assert_eq!(gpuforge_indicators::formula::lines(row), ["value = close - close[10]"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! `x[n]` is x of n bars ago; a comparison is 1 or 0; `if(c, a, b)` is a where c is not 0; `div0` is 0 where the divisor is 0;
//! the other functions are those of [`crate::graph::Expr`].

use std::{cell::RefCell, collections::HashMap};

use crate::{
    catalogue::{BuildArgs, Indicator},
    graph::{BinaryOp, F64Bits, Graph, GraphBuilder, NodeOp, Seed, ValueId},
};

/// Operator precedence; lower precedence inside higher is parenthesised.
type Precedence = u8;
const ATOM: Precedence = 9;

/// The formula lines of a row with default parameters: shared subexpressions `v1`, `v2`, ..., then the outputs.
pub fn lines(row: &'static Indicator) -> Vec<String> {
    let graph = RefCell::new(Graph::default());
    let params = row.defaults();
    let outputs: Vec<ValueId> = (row.build)(&BuildArgs::new(GraphBuilder::new(&graph), &params, &[]))
        .iter()
        .map(|x| x.val())
        .collect();
    let graph = graph.borrow();
    let uses = uses(&graph, &outputs);
    let mut writer = Writer { graph: &graph, names: HashMap::new() };
    let mut lines = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let shared = uses.get(at).is_some_and(|n| *n > 1);
        if !shared || writer.small(&node.op) || forwarded(&node.op).is_some() {
            continue;
        }
        let name = format!("v{}", lines.len() + 1);
        let text = writer.op(&node.op).0;
        lines.push(format!("{name} = {text}"));
        writer.names.insert(at, name);
    }
    let last = row.outputs.iter().zip(&outputs).map(|(name, val)| format!("{name} = {}", writer.val(*val).0));
    lines.extend(last);
    lines
}

/// Use count of each live node.
fn uses(graph: &Graph, outputs: &[ValueId]) -> Vec<usize> {
    let mut uses = vec![0; graph.nodes.len()];
    let mut count = |val: ValueId| {
        if let Some(n) = uses.get_mut(val.node as usize) {
            *n += 1;
        }
    };
    outputs.iter().for_each(|val| count(resolved(graph, *val)));
    // Reverse topological order: users before operands.
    for at in (0..graph.nodes.len()).rev() {
        let Some(node) = graph.nodes.get(at).filter(|_| uses.get(at).is_some_and(|n| *n > 0)) else {
            continue;
        };
        for (val, _) in node.op.operands() {
            if let Some(n) = uses.get_mut(resolved(graph, val).node as usize) {
                *n += 1;
            }
        }
    }
    uses
}

/// `select(c, a, a)` only delays validity: forwards `a`.
fn forwarded(op: &NodeOp) -> Option<ValueId> {
    match op {
        NodeOp::Select(_, a, b) if a == b => Some(*a),
        _ => None,
    }
}

fn resolved(graph: &Graph, val: ValueId) -> ValueId {
    let next = graph.nodes.get(val.node as usize).and_then(|n| forwarded(&n.op));
    next.map_or(val, |val| resolved(graph, val))
}

struct Writer<'g> {
    graph: &'g Graph,
    names: HashMap<usize, String>,
}

impl Writer<'_> {
    /// Too small to be worth a name: leaves, and lags of leaves.
    fn small(&self, op: &NodeOp) -> bool {
        let leaf = |val: &ValueId| self.graph.nodes.get(val.node as usize).is_some_and(|n| n.op.is_leaf());
        op.is_leaf() || matches!(op, NodeOp::Shift(a, _) if leaf(a))
    }

    fn val(&self, val: ValueId) -> (String, Precedence) {
        let val = resolved(self.graph, val);
        let Some(node) = self.graph.nodes.get(val.node as usize) else { return (String::new(), ATOM) };
        let (text, level) = match self.names.get(&(val.node as usize)) {
            Some(name) => (name.clone(), ATOM),
            None => self.op(&node.op),
        };
        if node.op.ports() > 1 { (format!("{text}.{}", val.port + 1), ATOM) } else { (text, level) }
    }

    fn inside(&self, val: ValueId, level: Precedence) -> String {
        let (text, own) = self.val(val);
        if own < level { format!("({text})") } else { text }
    }

    fn call(&self, name: &str, vals: &[ValueId], numbers: &[String]) -> (String, Precedence) {
        let mut parts: Vec<String> = vals.iter().map(|v| self.val(*v).0).collect();
        parts.extend_from_slice(numbers);
        (format!("{name}({})", parts.join(", ")), ATOM)
    }

    fn op(&self, op: &NodeOp) -> (String, Precedence) {
        let window = |name: &str, a: &ValueId, n: &usize| self.call(name, &[*a], &[n.to_string()]);
        let side = |max: &bool, high: &'static str, low: &'static str| if *max { high } else { low };
        match op {
            NodeOp::Input(field) => (format!("{field:?}").to_lowercase(), ATOM),
            NodeOp::Const(x) => (number(x.get()), ATOM),
            NodeOp::Unary(f, a) => self.call(&format!("{f:?}").to_lowercase(), &[*a], &[]),
            NodeOp::Binary(f, a, b) => self.binary(*f, *a, *b),
            NodeOp::Select(c, a, b) => self.call("if", &[*c, *a, *b], &[]),
            NodeOp::Shift(a, n) => (format!("{}[{n}]", self.inside(*a, ATOM)), ATOM),
            NodeOp::RollingSum(a, n) | NodeOp::RollingSumFrom { a, n, .. } => window("sum", a, n),
            NodeOp::PartialRollingSum(a, n) => window("partial_sum", a, n),
            NodeOp::LinearWeightedSum(a, n) => window("linear_weighted_sum", a, n),
            NodeOp::Fir(a, weights) => self.call("fir", &[*a], &[weights_text(weights)]),
            NodeOp::RollingMinMax { a, n, max } => window(side(max, "highest", "lowest"), a, n),
            NodeOp::RollingArgMinMax { a, n, max } => {
                window(side(max, "bars_since_highest", "bars_since_lowest"), a, n)
            }
            NodeOp::RollingVariance(a, n) => window("variance", a, n),
            NodeOp::RollingMeanDeviation(a, n) => window("mean_deviation", a, n),
            NodeOp::RollingCentralMoment(a, n, power) => {
                self.call("central_moment", &[*a], &[n.to_string(), power.to_string()])
            }
            NodeOp::RollingTimeMoment(a, n) => window("time_moment", a, n),
            NodeOp::RollingCoMoment(a, b, n) => self.call("co_moment", &[*a, *b], &[n.to_string()]),
            NodeOp::RollingOrderStatistic { a, n, ranks } => {
                let numbers: Vec<String> = [n].into_iter().chain(ranks).map(usize::to_string).collect();
                self.call("order_statistic", &[*a], &numbers)
            }
            NodeOp::RollingRank { a, n, .. } => window("rank", a, n),
            NodeOp::Ema { a, k, seed } => {
                self.call("ema", &[*a], &[format!("alpha {}", number(k.get())), seed_text(seed)])
            }
            NodeOp::Wilder { a, n, seed } => self.call("wilder", &[*a], &[n.to_string(), seed_text(seed)]),
            NodeOp::CumMinMax { a, max } => self.call(side(max, "cummax", "cummin"), &[*a], &[]),
            NodeOp::StateMachine { def, params, inputs } => {
                let numbers: Vec<String> = params.iter().map(|p| number(p.get())).collect();
                self.call(&def.name.replace(' ', "_"), inputs, &numbers)
            }
            NodeOp::FillWarmup(a, b) => self.call("fill_warmup", &[*a, *b], &[]),
            NodeOp::LinearRecurrence { a, b } => self.call("linear_recurrence", &[*a, *b], &[]),
            NodeOp::AdaptiveEma { a, k, first } => self.call("adaptive_ema", &[*a, *k, *first], &[]),
            NodeOp::CumSum(a) => self.call("cumsum", &[*a], &[]),
            NodeOp::WholeSeries { .. } => self.call("whole_series", &[], &[]),
        }
    }

    fn binary(&self, f: BinaryOp, a: ValueId, b: ValueId) -> (String, Precedence) {
        let (sign, level) = match f {
            BinaryOp::Or => ("or", 1),
            BinaryOp::And => ("and", 2),
            BinaryOp::Lt => ("<", 3),
            BinaryOp::Le => ("<=", 3),
            BinaryOp::Gt => (">", 3),
            BinaryOp::Ge => (">=", 3),
            BinaryOp::Eq => ("=", 3),
            BinaryOp::Ne => ("!=", 3),
            BinaryOp::Add => ("+", 4),
            BinaryOp::Sub => ("-", 4),
            BinaryOp::Mul => ("*", 5),
            BinaryOp::Div => ("/", 5),
            BinaryOp::Div0 | BinaryOp::Min | BinaryOp::Max | BinaryOp::Pow => {
                return self.call(&format!("{f:?}").to_lowercase(), &[a, b], &[]);
            }
        };
        // The right operand of a minus or division keeps its parentheses.
        (format!("{} {sign} {}", self.inside(a, level), self.inside(b, level + 1)), level)
    }
}

fn seed_text(seed: &Seed) -> String {
    match seed {
        Seed::First => "seed first value".to_owned(),
        Seed::Mean(n) => format!("seed mean of first {n}"),
    }
}

fn weights_text(weights: &[F64Bits]) -> String {
    let few = |w: &[F64Bits]| w.iter().map(|w| number(w.get())).collect::<Vec<_>>().join(" ");
    if weights.len() <= 6 { few(weights) } else { format!("{} weights", weights.len()) }
}

/// Six decimals are enough to recognise a constant.
fn number(x: f64) -> String {
    let rounded = format!("{x:.6}").parse::<f64>().unwrap_or(x);
    if rounded == 0.0 && x != 0.0 || x.abs() >= 1e9 { format!("{x:e}") } else { rounded.to_string() }
}
