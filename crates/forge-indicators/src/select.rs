//! Which indicators with which parameters? Instances of rows, and the plan that computes all of them at once.

use std::cell::RefCell;

use crate::{
    catalogue::{Args, Indicator},
    graph::{Bars, Field, Graph},
    plan::Plan,
};

/// A row with its parameters.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The row.
    pub row: &'static Indicator,
    /// Parameters, as many as the row has.
    pub params: Vec<f64>,
    /// Which of its outputs are wanted; `None` is all.
    pub output: Option<usize>,
}

impl Instance {
    /// A row with its defaults.
    pub fn of(row: &'static Indicator) -> Self {
        Instance { row, params: row.defaults(), output: None }
    }

    /// A row with these parameters, the rest at their defaults.
    pub fn with(row: &'static Indicator, params: &[f64]) -> Self {
        let mut all = row.defaults();
        for (slot, x) in all.iter_mut().zip(params) {
            *slot = *x;
        }
        Instance { row, params: all, output: None }
    }
}

/// Everything that some instances need, planned together, and the names of its columns.
#[derive(Debug)]
pub struct Selection {
    /// What to run.
    pub plan: Plan,
    /// Names of the outputs, in order.
    pub columns: Vec<String>,
    /// For each instance, its outputs' positions.
    pub places: Vec<std::ops::Range<usize>>,
}

/// Plans instances together.
pub fn select(instances: &[Instance]) -> Selection {
    let graph = RefCell::new(Graph::default());
    let (mut wanted, mut columns, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for instance in instances {
        let begin = wanted.len();
        let bars = Bars::new(&graph);
        let outputs = (instance.row.build)(&Args::new(bars, &instance.params, None));
        for (at, x) in
            outputs.into_iter().enumerate().filter(|(at, _)| instance.output.is_none_or(|o| o == *at))
        {
            wanted.push(x.val());
            columns.push(column(instance, at));
        }
        places.push(begin..wanted.len());
    }
    let plan = Plan::new(&graph.borrow(), &wanted);
    Selection { plan, columns, places }
}

/// The column of an output: the name, the parameters and, for further outputs, the output's name, joined by `_`.
pub fn column(instance: &Instance, output: usize) -> String {
    let mut name = instance.row.name.to_owned();
    for x in &instance.params {
        name.push('_');
        name.push_str(&x.to_string());
    }
    if output > 0
        && let Some(further) = instance.row.outputs.get(output)
    {
        name.push('_');
        name.push_str(further);
    }
    name
}

/// The column of bars that this word names.
pub fn field(word: &str) -> Option<Field> {
    Field::ALL.into_iter().find(|f| format!("{f:?}").eq_ignore_ascii_case(word))
}
