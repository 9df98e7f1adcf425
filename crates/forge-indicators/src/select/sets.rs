//! Which sets have a name? Each is a selection like any other.

/// A named selection.
#[derive(Debug, Clone, Copy)]
pub struct Set {
    /// Its name, as in `set:NAME`.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// What it selects.
    pub selection: &'static str,
}

/// Every set.
pub const SETS: &[Set] = &[Set {
    name: "averages",
    doc: "Moving averages at the periods that charts show",
    selection: "sma(10|20|50|200), ema(5|10|20|50|100|150|200|300|1000)",
}];
