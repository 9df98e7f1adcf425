//! Columns that are computed from a whole series before anything else: the only way to look ahead.
//!
//! A row that rests on one is not causal. Everything else sees bars in their order and knows none that comes later.

use crate::graph::Field;

/// A column as the graph knows it.
pub struct WholeSeriesDef {
    /// Unique name.
    pub name: &'static str,
    /// Columns of bars that it reads.
    pub fields: &'static [Field],
    /// From these columns, cut to one length, and parameters: as many values.
    pub column: fn(&[&[f64]], &[f64]) -> Vec<f64>,
}

impl std::fmt::Debug for WholeSeriesDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for WholeSeriesDef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for WholeSeriesDef {}

impl std::hash::Hash for WholeSeriesDef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
