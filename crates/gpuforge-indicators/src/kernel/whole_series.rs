//! Whole-series columns: computed from the complete series before any block, the only operation that looks ahead.
//!
//! An indicator that uses one is not causal and cannot be streamed. Everything else sees bars in order.

use crate::graph::Field;

/// Definition of a whole-series column.
pub struct WholeSeriesDef {
    /// Unique name.
    pub name: &'static str,
    /// Input columns.
    pub fields: &'static [Field],
    /// The column, from the input columns (all of one length) and the parameters.
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
