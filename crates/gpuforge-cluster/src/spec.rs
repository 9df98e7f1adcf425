//! Indicator specification: serialisable request, and its binding to the columns of a table.

use std::{path::Path, sync::Arc};

use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef, TimeUnit};
use gpuforge::{
    frame::{
        KeySchema,
        bars::KeyColumn,
        column_roles::{self, ColumnMapping, Role},
    },
    indicators::{
        graph::Field,
        select::{Convention, Selector},
    },
    market::{self, Request},
};

use crate::error::ClusterError;

/// Default bytes of bars and results per group of symbols: some dozens of symbols of a year of minute bars, enough for every
/// SIMD lane and thread, and little beside what a query uses anyway.
pub const GROUP_BYTES: u64 = 64 << 20;

/// Column mapping entry.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, prost::Message)]
pub struct NamedColumn {
    /// Role: `symbol`, `time`, `close` …
    #[prost(string, tag = "1")]
    pub role: String,
    /// Column name.
    #[prost(string, tag = "2")]
    pub column: String,
}

/// Indicator request as plain data, sent to every process.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, prost::Message)]
pub struct Spec {
    /// Indicators: `rsi(14), macd(12,26,9)`.
    #[prost(string, tag = "1")]
    pub select: String,
    /// Definitions that the selection may use: `name = expression`.
    #[prost(string, repeated, tag = "2")]
    pub define: Vec<String>,
    /// Use the pandas convention instead of TA-Lib's.
    #[prost(bool, tag = "3")]
    pub pandas: bool,
    /// Column mapping; other columns are found by name.
    #[prost(message, repeated, tag = "4")]
    pub columns: Vec<NamedColumn>,
    /// `cpu`, `auto` or `gpu`; empty is `cpu`.
    #[prost(string, tag = "5")]
    pub device: String,
    /// Bytes of one group of symbols; 0 is [`GROUP_BYTES`].
    #[prost(uint64, tag = "6")]
    pub group_bytes: u64,
}

impl Spec {
    /// A selection with defaults.
    pub fn of(select: impl Into<String>) -> Self {
        Spec { select: select.into(), ..Spec::default() }
    }

    /// Adds a column mapping such as `close=PX_LAST, symbol=tic`.
    pub fn with_columns(mut self, text: &str) -> Result<Self, ClusterError> {
        for one in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            let (role, column) = one.split_once('=').ok_or_else(|| ClusterError::Arguments {
                message: format!("`{one}` has no `=`: a column is named as close=PX_LAST"),
            })?;
            let role = Role::of(role).ok_or_else(|| ClusterError::Arguments {
                message: format!("`{}` is not a column role", role.trim()),
            })?;
            self.name(role, column.trim());
        }
        Ok(self)
    }

    fn name(&mut self, role: Role, column: &str) {
        self.columns.retain(|n| n.role != role.name());
        self.columns.push(NamedColumn { role: role.name().to_owned(), column: column.to_owned() });
    }

    fn mapping(&self) -> ColumnMapping {
        let mut mapping = ColumnMapping::default();
        for named in &self.columns {
            if let Some(role) = Role::of(&named.role) {
                mapping.set(role, named.column.clone());
            }
        }
        mapping
    }

    /// Bytes of one group.
    pub fn group(&self) -> usize {
        let bytes = if self.group_bytes == 0 { GROUP_BYTES } else { self.group_bytes };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn request(&self, table: &str) -> Result<Request, ClusterError> {
        let mut selector = Selector::by(if self.pandas { Convention::Pandas } else { Convention::TaLib });
        for define in &self.define {
            selector.define(define)?;
        }
        let items = match self.select.trim() {
            "" => selector.defined().collect(),
            text => selector.select(text)?,
        };
        if items.is_empty() {
            return Err(ClusterError::EmptySelection { table: table.to_owned() });
        }
        Ok(Request::of(&items))
    }
}

/// A specification bound to a table: column indices resolved and types checked.
#[derive(Debug)]
pub struct Bound {
    /// The specification with every column it reads named.
    pub spec: Spec,
    /// The planned selection.
    pub request: Request,
    /// Index of the symbol column; `None` if the table is one series.
    pub symbol: Option<usize>,
    /// Index of the time column.
    pub time: usize,
    /// Bar columns that the plan reads, with their indices.
    pub fields: Vec<(Field, usize)>,
    /// Schema of the key columns.
    pub layout: KeySchema,
    /// Input schema.
    pub input: SchemaRef,
    /// Output schema: input columns, then computed ones.
    pub output: SchemaRef,
}

impl Bound {
    /// Resolves the columns; `table` is the name used in errors.
    pub fn new(spec: &Spec, table: &str, input: &SchemaRef) -> Result<Bound, ClusterError> {
        let request = spec.request(table)?;
        let names: Vec<String> = input.fields().iter().map(|f| f.name().clone()).collect();
        let mut needed = market::needed(&request.selection);
        // Table rows are unordered: the time column is required.
        needed.push(Role::Time);
        let columns = column_roles::resolve(Path::new(table), &names, &spec.mapping(), &needed)
            .map_err(|e| ClusterError::column(table, e))?;
        let time = columns.get(Role::Time).unwrap_or_default();
        let symbol = columns.get(Role::Symbol);
        let mut spec = spec.clone();
        let mut fields = Vec::new();
        let mut roles = vec![Role::Time];
        roles.extend(symbol.map(|_| Role::Symbol));
        roles.extend(needed.iter().copied().filter(|r| *r != Role::Time));
        for role in roles {
            let Some(at) = columns.get(role) else { continue };
            let Some(field) = input.fields().get(at) else { continue };
            check(table, &names, field, role)?;
            spec.name(role, field.name());
            fields.extend(bar_field(role).map(|f| (f, at)));
        }
        if request.selection.plan.fields().any(|f| f == Field::Time) {
            fields.push((Field::Time, time));
        }
        let clash = request.selection.columns.iter().find(|c| names.contains(c));
        if let Some(column) = clash {
            return Err(ClusterError::DuplicateColumn { column: column.clone() });
        }
        let data_type = input.fields().get(time).map(|f| time_type(f.data_type()));
        let column = |at: usize, data_type: DataType| KeyColumn {
            name: names.get(at).cloned().unwrap_or_default(),
            data_type,
        };
        let layout = KeySchema {
            symbol: None,
            time: data_type.map(|data_type| column(time, data_type)),
            time_first: false,
        };
        let computed = request.selection.columns.iter().map(|n| ArrowField::new(n, DataType::Float64, true));
        let all: Vec<_> = input.fields().iter().cloned().chain(computed.map(Arc::new)).collect();
        let output = Arc::new(Schema::new_with_metadata(all, input.metadata().clone()));
        Ok(Bound { spec, request, symbol, time, fields, layout, input: input.clone(), output })
    }

    /// Indices of the input columns that are read; ascending.
    pub fn read(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.fields.iter().map(|(_, at)| *at).collect();
        all.extend(self.symbol);
        all.push(self.time);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The name of a column of the input.
    pub fn name(&self, at: usize) -> &str {
        self.input.fields().get(at).map_or("", |f| f.name())
    }

    /// Bytes per row: input, output, and conversion buffers.
    pub fn row_bytes(&self) -> usize {
        8 * (self.input.fields().len() + self.fields.len() + self.request.selection.columns.len())
    }
}

/// The bar field of a role.
fn bar_field(role: Role) -> Option<Field> {
    match role {
        Role::Open => Some(Field::Open),
        Role::High => Some(Field::High),
        Role::Low => Some(Field::Low),
        Role::Close => Some(Field::Close),
        Role::Volume => Some(Field::Volume),
        _ => None,
    }
}

/// The value type of a dictionary, else the type itself.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        other => other,
    }
}

/// Type in which times are kept.
pub(crate) fn time_type(data_type: &DataType) -> DataType {
    match value_type(data_type) {
        // A Date64 counts milliseconds, and not every writer keeps them at midnight.
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        data_type @ (DataType::Date32 | DataType::Timestamp(..)) => data_type.clone(),
        _ => DataType::Int64,
    }
}

/// Whether it is any string type.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Checks the type of a column for its role. Strings are never parsed as numbers or times here: a query can cast them.
fn check(table: &str, names: &[String], field: &ArrowField, role: Role) -> Result<(), ClusterError> {
    let data_type = value_type(field.data_type());
    let (usable, expected, cast) = match role {
        Role::Symbol => (data_type.is_integer() || is_text(data_type), "text or integers", "VARCHAR"),
        Role::Time => (
            data_type.is_integer()
                || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)),
            "a date, a timestamp or integers",
            "TIMESTAMP",
        ),
        _ => (data_type.is_numeric() || *data_type == DataType::Null, "numbers", "DOUBLE"),
    };
    if usable {
        return Ok(());
    }
    let name = field.name();
    Err(ClusterError::Column {
        table: table.to_owned(),
        message: format!("`{name}` is {data_type}, and the {} must be {expected}", role.name()),
        found: names.join(", "),
        hint: format!(
            "CREATE VIEW v AS SELECT …, CAST({name} AS {cast}) AS {name} FROM {table}, and indicators('v', …)"
        ),
    })
}
