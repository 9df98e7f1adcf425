//! `bars.indicators("rsi(14)")?`: indicators of a data frame.

use datafusion::{dataframe::DataFrame, error::Result};

use crate::{node::IndicatorNode, options::Options, spec::Spec};

/// Indicators of data frames.
pub trait Indicators: Sized {
    /// Adds the columns of a selection such as `rsi(14), macd(12,26,9)`, with the settings of the session.
    fn indicators(self, select: &str) -> Result<Self>;

    /// Adds the columns of a specification.
    fn indicators_of(self, spec: &Spec) -> Result<Self>;
}

impl Indicators for DataFrame {
    fn indicators(self, select: &str) -> Result<Self> {
        let (state, plan) = self.into_parts();
        let spec = Options::of(state.config()).apply(Spec::of(select));
        DataFrame::new(state, plan).indicators_of(&spec)
    }

    fn indicators_of(self, spec: &Spec) -> Result<Self> {
        let (state, plan) = self.into_parts();
        let node = IndicatorNode::try_new(spec, "the data frame", plan)?;
        Ok(DataFrame::new(state, node.plan()))
    }
}
