//! Errors of queries over bars: each names the thing, what was found, and the next step.

use datafusion::error::DataFusionError;
use gpuforge::{frame::FrameError, indicators::select::SelectError};

/// Why indicators cannot be computed in a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Invalid selection.
    #[error(
        "{0}\n  hint: `gpuforge indicators list` has the names, `gpuforge indicators show NAME` the parameters"
    )]
    Select(#[from] SelectError),
    /// Empty selection.
    #[error("nothing is selected\n  hint: indicators('{table}', 'rsi(14), macd(12,26,9)')")]
    EmptySelection {
        /// The table.
        table: String,
    },
    /// Invalid table function arguments.
    #[error(
        "{message}\n  hint: indicators('TABLE or PATH', 'SELECTION'), and perhaps a third argument such as \
         'close=PX_LAST' that maps columns"
    )]
    Arguments {
        /// What is wrong.
        message: String,
    },
    /// Neither a registered table nor a path.
    #[error("there is no table `{name}`{}\n  hint: {hint}", found(.tables))]
    Table {
        /// The requested name.
        name: String,
        /// Registered tables.
        tables: Vec<String>,
        /// The hint.
        hint: String,
    },
    /// A required column is missing, ambiguous, or has an unusable type.
    #[error("{table}: {message}\n  found: {found}\n  hint: {hint}")]
    Column {
        /// The table.
        table: String,
        /// Which column, and why.
        message: String,
        /// Columns found.
        found: String,
        /// The hint.
        hint: String,
    },
    /// A computed column has the name of an input column.
    #[error(
        "column `{column}` is there already\n  hint: leave it out of the input, or select the indicator once"
    )]
    DuplicateColumn {
        /// Its name.
        column: String,
    },
    /// A null symbol or time.
    #[error("a bar{} has no {what}\n  hint: WHERE {column} IS NOT NULL", of(.symbol))]
    NullKey {
        /// What is missing: symbol or time.
        what: &'static str,
        /// The column.
        column: String,
        /// The symbol, where known.
        symbol: Option<String>,
    },
    /// Rows are not in the declared order.
    #[error(
        "the bars{} are not sorted by time, although the table is declared to be: {found}\n  hint: register the table \
         without an order; it is then sorted here",
        of(.symbol)
    )]
    NotSorted {
        /// The symbol.
        symbol: Option<String>,
        /// What was found.
        found: String,
    },
    /// A window without an order.
    #[error(
        "{function} needs its bars in time order\n  hint: {function}(…) OVER (PARTITION BY symbol ORDER BY time)"
    )]
    NoOrder {
        /// The function.
        function: String,
    },
    /// A duplicate time of a symbol.
    #[error(
        "{} has the time {time} twice\n  hint: SELECT DISTINCT ON (symbol, time) * FROM … ORDER BY symbol, time",
        .symbol.as_deref().unwrap_or("the series")
    )]
    DuplicateTime {
        /// The symbol.
        symbol: Option<String>,
        /// The time, in the unit of its column.
        time: i64,
    },
    /// A symbol exceeds the memory limit, and a column needs the whole series.
    #[error(
        "the bars of {} exceed the memory limit, and {column} needs the whole series\n  hint: raise the memory \
         limit, or leave that column out",
        .symbol.as_deref().unwrap_or("the series")
    )]
    SymbolTooLarge {
        /// The symbol.
        symbol: Option<String>,
        /// A column that needs the whole series.
        column: String,
    },
    /// A device was requested, and none is usable.
    #[error("{0}")]
    Device(String),
    /// Invalid argument of a window function.
    #[error("{function}: {message}\n  hint: {hint}")]
    Window {
        /// The function.
        function: String,
        /// What is wrong.
        message: String,
        /// Correct usage.
        hint: String,
    },
    /// A plan of another process cannot be decoded.
    #[error("a plan cannot be decoded: {0}\n  hint: run the same version of gpuforge-cluster everywhere")]
    InvalidPlan(String),
}

fn of(symbol: &Option<String>) -> String {
    symbol.as_ref().map(|s| format!(" of {s}")).unwrap_or_default()
}

fn found(tables: &[String]) -> String {
    if tables.is_empty() { String::new() } else { format!("; there are {}", tables.join(", ")) }
}

impl ClusterError {
    /// An error of the columns of a table, with the word for flags replaced by the one for SQL.
    pub(crate) fn column(table: &str, error: FrameError) -> Self {
        match error {
            FrameError::Column { message, found, hint, .. } => ClusterError::Column {
                table: table.to_owned(),
                message,
                found,
                hint: hint.replace("--column ", "a third argument of indicators(…): "),
            },
            other => ClusterError::Arguments { message: other.to_string() },
        }
    }
}

impl From<ClusterError> for DataFusionError {
    fn from(error: ClusterError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Finds our typed error in the source chain of a DataFusion error.
pub fn cause(error: &DataFusionError) -> Option<&ClusterError> {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(ours) = error.downcast_ref::<ClusterError>() {
            return Some(ours);
        }
        if let Some(DataFusionError::External(inner)) = error.downcast_ref::<DataFusionError>()
            && let Some(ours) = inner.downcast_ref::<ClusterError>()
        {
            return Some(ours);
        }
        at = error.source();
    }
    None
}
