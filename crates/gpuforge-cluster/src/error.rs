//! Errors of queries over bars: each names the thing, what was found, and the next step.

use datafusion::error::DataFusionError;
use gpuforge::{frame::FrameError, indicators::select::SelectError};

/// Why indicators cannot be computed in a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A selection that cannot be read.
    #[error(
        "{0}\n  hint: `gpuforge indicators list` has the names, `gpuforge indicators show NAME` the parameters"
    )]
    Select(#[from] SelectError),
    /// A selection of nothing.
    #[error("nothing is selected\n  hint: indicators('{table}', 'rsi(14), macd(12,26,9)')")]
    Nothing {
        /// The table.
        table: String,
    },
    /// A table function was not called as it must be.
    #[error(
        "{message}\n  hint: indicators('TABLE or PATH', 'SELECTION'), and perhaps a third argument such as \
         'close=PX_LAST' that says which column is what"
    )]
    Arguments {
        /// What is wrong.
        message: String,
    },
    /// A table that is not registered, and no path either.
    #[error("there is no table `{name}`{}\n  hint: {hint}", found(.tables))]
    Table {
        /// What was asked for.
        name: String,
        /// The tables that there are.
        tables: Vec<String>,
        /// What to do.
        hint: String,
    },
    /// A column that is needed is not there, could be several, or is of a type that cannot be used.
    #[error("{table}: {message}\n  found: {found}\n  hint: {hint}")]
    Column {
        /// The table.
        table: String,
        /// Which, and why.
        message: String,
        /// The columns that are there.
        found: String,
        /// What to do.
        hint: String,
    },
    /// A computed column has the name of one that is there already.
    #[error(
        "column `{column}` is there already\n  hint: leave it out of the input, or select the indicator once"
    )]
    Clash {
        /// Its name.
        column: String,
    },
    /// A row without a symbol or a time.
    #[error("a bar{} has no {what}\n  hint: WHERE {column} IS NOT NULL", of(.symbol))]
    Missing {
        /// What is missing: symbol or time.
        what: &'static str,
        /// The column.
        column: String,
        /// Whose bar, where that is known.
        symbol: Option<String>,
    },
    /// Rows do not come in the order that the table declares.
    #[error(
        "the bars{} are not sorted by time, although the table is declared to be: {found}\n  hint: register the table \
         without an order; it is then sorted here",
        of(.symbol)
    )]
    NotSorted {
        /// Whose bars.
        symbol: Option<String>,
        /// What was seen.
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
    /// A symbol that has a time twice.
    #[error(
        "{} has the time {time} twice\n  hint: SELECT DISTINCT ON (symbol, time) * FROM … ORDER BY symbol, time",
        .symbol.as_deref().unwrap_or("the series")
    )]
    DuplicateTime {
        /// Whose bars.
        symbol: Option<String>,
        /// The time, in the unit of its column.
        time: i64,
    },
    /// A symbol whose bars do not fit, and a column that needs all of them.
    #[error(
        "the bars of {} do not fit the memory limit, and {column} looks at all of them at once\n  hint: raise the \
         memory limit, or select no column that looks ahead",
        .symbol.as_deref().unwrap_or("the series")
    )]
    Memory {
        /// Whose bars.
        symbol: Option<String>,
        /// A column that looks ahead.
        column: String,
    },
    /// A device was asked for, and none can be used.
    #[error("{0}")]
    Device(String),
    /// An argument of a window function cannot be used.
    #[error("{function}: {message}\n  hint: {hint}")]
    Window {
        /// The function.
        function: String,
        /// What is wrong.
        message: String,
        /// How it is called.
        hint: String,
    },
    /// A plan from another process that cannot be read.
    #[error("a plan cannot be read: {0}\n  hint: run the same version of gpuforge-cluster everywhere")]
    Wire(String),
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

/// The typed error inside one of DataFusion, however deep.
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
