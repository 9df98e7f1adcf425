//! How is an indicator computed, as lines that a person can follow? Written from the graph that is run, so that it cannot
//! say anything else.
//!
//! ```
//! let row = gpuforge_indicators::catalogue::find("mom").ok_or("no such row")?;
//! assert_eq!(gpuforge_indicators::formula::lines(row), ["value = close - close[10]"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! `x[n]` is x of n bars ago; a comparison is 1 or 0; `if(c, a, b)` is a where c is not 0; `div0` is 0 where the divisor is.

use std::{cell::RefCell, collections::HashMap};

use crate::{
    catalogue::{BuildArgs, Indicator},
    graph::{BinaryOp, F64Bits, Graph, GraphBuilder, NodeOp, Seed, ValueId},
};

/// How tightly an operator binds; a looser one inside a tighter one stands in parentheses.
type Level = u8;
const ATOM: Level = 9;

/// The lines of a row with its defaults: what is used more than once, then the outputs.
pub fn lines(row: &'static Indicator) -> Vec<String> {
    let graph = RefCell::new(Graph::default());
    let params = row.defaults();
    let outputs: Vec<ValueId> =
        (row.build)(&BuildArgs::new(GraphBuilder::new(&graph), &params, None)).iter().map(|x| x.val()).collect();
    let graph = graph.borrow();
    let uses = uses(&graph, &outputs);
    let mut writer = Writer { graph: &graph, names: HashMap::new() };
    let mut lines = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let shared = uses.get(at).is_some_and(|n| *n > 1);
        if !shared || writer.small(&node.op) || through(&node.op).is_some() {
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

/// Readers of each node that somebody needs.
fn uses(graph: &Graph, outputs: &[ValueId]) -> Vec<usize> {
    let mut uses = vec![0; graph.nodes.len()];
    let mut count = |val: ValueId| {
        if let Some(n) = uses.get_mut(val.node as usize) {
            *n += 1;
        }
    };
    outputs.iter().for_each(|val| count(resolved(graph, *val)));
    // Readers come after what they read, so that going back meets every reader first.
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

/// A choice between a value and itself only says where it begins: the value.
fn through(op: &NodeOp) -> Option<ValueId> {
    match op {
        NodeOp::Select(_, a, b) if a == b => Some(*a),
        _ => None,
    }
}

fn resolved(graph: &Graph, val: ValueId) -> ValueId {
    let next = graph.nodes.get(val.node as usize).and_then(|n| through(&n.op));
    next.map_or(val, |val| resolved(graph, val))
}

struct Writer<'g> {
    graph: &'g Graph,
    names: HashMap<usize, String>,
}

impl Writer<'_> {
    /// Shorter than the name it would get, or nearly.
    fn small(&self, op: &NodeOp) -> bool {
        let given = |val: &ValueId| self.graph.nodes.get(val.node as usize).is_some_and(|n| n.op.is_leaf());
        op.is_leaf() || matches!(op, NodeOp::Shift(a, _) if given(a))
    }

    fn val(&self, val: ValueId) -> (String, Level) {
        let val = resolved(self.graph, val);
        let Some(node) = self.graph.nodes.get(val.node as usize) else { return (String::new(), ATOM) };
        let (text, level) = match self.names.get(&(val.node as usize)) {
            Some(name) => (name.clone(), ATOM),
            None => self.op(&node.op),
        };
        if node.op.ports() > 1 { (format!("{text}.{}", val.port + 1), ATOM) } else { (text, level) }
    }

    fn inside(&self, val: ValueId, level: Level) -> String {
        let (text, own) = self.val(val);
        if own < level { format!("({text})") } else { text }
    }

    fn call(&self, name: &str, vals: &[ValueId], numbers: &[String]) -> (String, Level) {
        let mut parts: Vec<String> = vals.iter().map(|v| self.val(*v).0).collect();
        parts.extend_from_slice(numbers);
        (format!("{name}({})", parts.join(", ")), ATOM)
    }

    fn op(&self, op: &NodeOp) -> (String, Level) {
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
            NodeOp::PartialRollingSum(a, n) => window("growing_sum", a, n),
            NodeOp::LinearWeightedSum(a, n) => window("ramp_sum", a, n),
            NodeOp::Fir(a, weights) => self.call("weighted", &[*a], &[weights_text(weights)]),
            NodeOp::RollingMinMax { a, n, max } => window(side(max, "highest", "lowest"), a, n),
            NodeOp::RollingArgMinMax { a, n, max } => window(side(max, "highest_ago", "lowest_ago"), a, n),
            NodeOp::RollingVariance(a, n) => window("variance", a, n),
            NodeOp::RollingMeanDeviation(a, n) => window("mean_deviation", a, n),
            NodeOp::RollingCentralMoment(a, n, power) => {
                self.call("central_moment", &[*a], &[n.to_string(), power.to_string()])
            }
            NodeOp::RollingTimeMoment(a, n) => window("time_moment", a, n),
            NodeOp::RollingCoMoment(a, b, n) => self.call("co_moment", &[*a, *b], &[n.to_string()]),
            NodeOp::RollingOrderStatistic { a, n, ranks } => {
                let numbers: Vec<String> = [n].into_iter().chain(ranks).map(usize::to_string).collect();
                self.call("order", &[*a], &numbers)
            }
            NodeOp::RollingRank { a, n, .. } => window("rank", a, n),
            NodeOp::Ema { a, k, seed } => {
                self.call("ema", &[*a], &[format!("factor {}", number(k.get())), begins(seed)])
            }
            NodeOp::Wilder { a, n, seed } => self.call("wilder", &[*a], &[n.to_string(), begins(seed)]),
            NodeOp::CumMinMax { a, max } => self.call(side(max, "cummax", "cummin"), &[*a], &[]),
            NodeOp::StateMachine { def, params, inputs } => {
                let numbers: Vec<String> = params.iter().map(|p| number(p.get())).collect();
                self.call(&def.name.replace(' ', "_"), inputs, &numbers)
            }
            // What takes values only: the name of the primitive says it.
            other => {
                let debug = format!("{other:?}").to_lowercase();
                let name = debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                let vals: Vec<ValueId> = other.operands().into_iter().map(|(val, _)| val).collect();
                self.call(name, &vals, &[])
            }
        }
    }

    fn binary(&self, f: BinaryOp, a: ValueId, b: ValueId) -> (String, Level) {
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
        // What stands to the right of a minus or a division keeps its parentheses.
        (format!("{} {sign} {}", self.inside(a, level), self.inside(b, level + 1)), level)
    }
}

fn begins(seed: &Seed) -> String {
    match seed {
        Seed::First => "from the first".to_owned(),
        Seed::Mean(n) => format!("from the mean of {n}"),
    }
}

fn weights_text(weights: &[F64Bits]) -> String {
    let few = |w: &[F64Bits]| w.iter().map(|w| number(w.get())).collect::<Vec<_>>().join(" ");
    if weights.len() <= 6 { few(weights) } else { format!("{} weights", weights.len()) }
}

/// Six digits are enough to recognise a number by.
fn number(x: f64) -> String {
    let rounded = format!("{x:.6}").parse::<f64>().unwrap_or(x);
    if rounded == 0.0 && x != 0.0 || x.abs() >= 1e9 { format!("{x:e}") } else { rounded.to_string() }
}
