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
    catalogue::{Args, Indicator},
    graph::{Bars, Bin, Graph, Num, Prim, Seed, Val},
};

/// How tightly an operator binds; a looser one inside a tighter one stands in parentheses.
type Level = u8;
const ATOM: Level = 9;

/// The lines of a row with its defaults: what is used more than once, then the outputs.
pub fn lines(row: &'static Indicator) -> Vec<String> {
    let graph = RefCell::new(Graph::default());
    let params = row.defaults();
    let outputs: Vec<Val> =
        (row.build)(&Args::new(Bars::new(&graph), &params, None)).iter().map(|x| x.val()).collect();
    let graph = graph.borrow();
    let uses = uses(&graph, &outputs);
    let mut writer = Writer { graph: &graph, names: HashMap::new() };
    let mut lines = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let shared = uses.get(at).is_some_and(|n| *n > 1);
        if !shared || writer.small(&node.prim) || through(&node.prim).is_some() {
            continue;
        }
        let name = format!("v{}", lines.len() + 1);
        let text = writer.prim(&node.prim).0;
        lines.push(format!("{name} = {text}"));
        writer.names.insert(at, name);
    }
    let last = row.outputs.iter().zip(&outputs).map(|(name, val)| format!("{name} = {}", writer.val(*val).0));
    lines.extend(last);
    lines
}

/// Readers of each node that somebody needs.
fn uses(graph: &Graph, outputs: &[Val]) -> Vec<usize> {
    let mut uses = vec![0; graph.nodes.len()];
    let mut count = |val: Val| {
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
        for (val, _) in node.prim.reads() {
            if let Some(n) = uses.get_mut(resolved(graph, val).node as usize) {
                *n += 1;
            }
        }
    }
    uses
}

/// A choice between a value and itself only says where it begins: the value.
fn through(prim: &Prim) -> Option<Val> {
    match prim {
        Prim::Select(_, a, b) if a == b => Some(*a),
        _ => None,
    }
}

fn resolved(graph: &Graph, val: Val) -> Val {
    let next = graph.nodes.get(val.node as usize).and_then(|n| through(&n.prim));
    next.map_or(val, |val| resolved(graph, val))
}

struct Writer<'g> {
    graph: &'g Graph,
    names: HashMap<usize, String>,
}

impl Writer<'_> {
    /// Shorter than the name it would get, or nearly.
    fn small(&self, prim: &Prim) -> bool {
        let given = |val: &Val| self.graph.nodes.get(val.node as usize).is_some_and(|n| n.prim.is_given());
        prim.is_given() || matches!(prim, Prim::Shift(a, _) if given(a))
    }

    fn val(&self, val: Val) -> (String, Level) {
        let val = resolved(self.graph, val);
        let Some(node) = self.graph.nodes.get(val.node as usize) else { return (String::new(), ATOM) };
        let (text, level) = match self.names.get(&(val.node as usize)) {
            Some(name) => (name.clone(), ATOM),
            None => self.prim(&node.prim),
        };
        if node.prim.ports() > 1 { (format!("{text}.{}", val.port + 1), ATOM) } else { (text, level) }
    }

    fn inside(&self, val: Val, level: Level) -> String {
        let (text, own) = self.val(val);
        if own < level { format!("({text})") } else { text }
    }

    fn call(&self, name: &str, vals: &[Val], numbers: &[String]) -> (String, Level) {
        let mut parts: Vec<String> = vals.iter().map(|v| self.val(*v).0).collect();
        parts.extend_from_slice(numbers);
        (format!("{name}({})", parts.join(", ")), ATOM)
    }

    fn prim(&self, prim: &Prim) -> (String, Level) {
        let window = |name: &str, a: &Val, n: &usize| self.call(name, &[*a], &[n.to_string()]);
        let side = |max: &bool, high: &'static str, low: &'static str| if *max { high } else { low };
        match prim {
            Prim::Input(field) => (format!("{field:?}").to_lowercase(), ATOM),
            Prim::Const(x) => (number(x.get()), ATOM),
            Prim::Un(f, a) => self.call(&format!("{f:?}").to_lowercase(), &[*a], &[]),
            Prim::Bin(f, a, b) => self.bin(*f, *a, *b),
            Prim::Select(c, a, b) => self.call("if", &[*c, *a, *b], &[]),
            Prim::Shift(a, n) => (format!("{}[{n}]", self.inside(*a, ATOM)), ATOM),
            Prim::Sum(a, n) | Prim::Total { a, n, .. } => window("sum", a, n),
            Prim::GrowingSum(a, n) => window("growing_sum", a, n),
            Prim::RampSum(a, n) => window("ramp_sum", a, n),
            Prim::Fir(a, weights) => self.call("weighted", &[*a], &[weights_text(weights)]),
            Prim::Extreme { a, n, max } => window(side(max, "highest", "lowest"), a, n),
            Prim::Ago { a, n, max } => window(side(max, "highest_ago", "lowest_ago"), a, n),
            Prim::Variance(a, n) => window("variance", a, n),
            Prim::MeanDeviation(a, n) => window("mean_deviation", a, n),
            Prim::CentralMoment(a, n, power) => {
                self.call("central_moment", &[*a], &[n.to_string(), power.to_string()])
            }
            Prim::TimeMoment(a, n) => window("time_moment", a, n),
            Prim::CoMoment(a, b, n) => self.call("co_moment", &[*a, *b], &[n.to_string()]),
            Prim::Order { a, n, places } => {
                let numbers: Vec<String> = [n].into_iter().chain(places).map(usize::to_string).collect();
                self.call("order", &[*a], &numbers)
            }
            Prim::Rank { a, n, .. } => window("rank", a, n),
            Prim::Ema { a, k, seed } => {
                self.call("ema", &[*a], &[format!("factor {}", number(k.get())), begins(seed)])
            }
            Prim::Wilder { a, n, seed } => self.call("wilder", &[*a], &[n.to_string(), begins(seed)]),
            Prim::CumExtreme { a, max } => self.call(side(max, "cummax", "cummin"), &[*a], &[]),
            Prim::Machine { def, params, inputs } => {
                let numbers: Vec<String> = params.iter().map(|p| number(p.get())).collect();
                self.call(&def.name.replace(' ', "_"), inputs, &numbers)
            }
            // What takes values only: the name of the primitive says it.
            other => {
                let debug = format!("{other:?}").to_lowercase();
                let name = debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                let vals: Vec<Val> = other.reads().into_iter().map(|(val, _)| val).collect();
                self.call(name, &vals, &[])
            }
        }
    }

    fn bin(&self, f: Bin, a: Val, b: Val) -> (String, Level) {
        let (sign, level) = match f {
            Bin::Or => ("or", 1),
            Bin::And => ("and", 2),
            Bin::Lt => ("<", 3),
            Bin::Le => ("<=", 3),
            Bin::Gt => (">", 3),
            Bin::Ge => (">=", 3),
            Bin::Eq => ("=", 3),
            Bin::Ne => ("!=", 3),
            Bin::Add => ("+", 4),
            Bin::Sub => ("-", 4),
            Bin::Mul => ("*", 5),
            Bin::Div => ("/", 5),
            Bin::Div0 | Bin::Min | Bin::Max | Bin::Pow => {
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

fn weights_text(weights: &[Num]) -> String {
    let few = |w: &[Num]| w.iter().map(|w| number(w.get())).collect::<Vec<_>>().join(" ");
    if weights.len() <= 6 { few(weights) } else { format!("{} weights", weights.len()) }
}

/// Six digits are enough to recognise a number by.
fn number(x: f64) -> String {
    let rounded = format!("{x:.6}").parse::<f64>().unwrap_or(x);
    if rounded == 0.0 && x != 0.0 || x.abs() >= 1e9 { format!("{x:e}") } else { rounded.to_string() }
}
