//! Indicator specification: what a query asks for as plain data that travels, and its binding to the columns of a table.

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

/// Bytes of bars and results of one group of symbols, where nobody set it: some dozens of symbols of a year of minutes,
/// enough for every lane and thread, and little beside what a query uses anyway.
pub const GROUP_BYTES: u64 = 64 << 20;

/// A column that was named for a role.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, prost::Message)]
pub struct Named {
    /// What the column is: `symbol`, `time`, `close` …
    #[prost(string, tag = "1")]
    pub role: String,
    /// Its name in the table.
    #[prost(string, tag = "2")]
    pub column: String,
}

/// What is computed, as a user wrote it. Plain data: the same on every machine.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, prost::Message)]
pub struct Spec {
    /// Indicators: `rsi(14), macd(12,26,9)`.
    #[prost(string, tag = "1")]
    pub select: String,
    /// Definitions that the selection may use: `name = expression`.
    #[prost(string, repeated, tag = "2")]
    pub define: Vec<String>,
    /// By the convention of pandas, not TA-Lib's?
    #[prost(bool, tag = "3")]
    pub pandas: bool,
    /// Which column is what; the others are found by their names.
    #[prost(message, repeated, tag = "4")]
    pub columns: Vec<Named>,
    /// `cpu`, `auto` or `gpu`; nothing is `cpu`.
    #[prost(string, tag = "5")]
    pub device: String,
    /// Bytes of one group of symbols; 0 is [`GROUP_BYTES`].
    #[prost(uint64, tag = "6")]
    pub group_bytes: u64,
}

impl Spec {
    /// A selection, everything else by default.
    pub fn of(select: impl Into<String>) -> Self {
        Spec { select: select.into(), ..Spec::default() }
    }

    /// With `close=PX_LAST, symbol=tic`.
    pub fn with_columns(mut self, text: &str) -> Result<Self, ClusterError> {
        for one in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            let (role, column) = one.split_once('=').ok_or_else(|| ClusterError::Arguments {
                message: format!("`{one}` has no `=`: a column is named as close=PX_LAST"),
            })?;
            let role = Role::of(role).ok_or_else(|| ClusterError::Arguments {
                message: format!("`{}` is nothing a column can be", role.trim()),
            })?;
            self.name(role, column.trim());
        }
        Ok(self)
    }

    fn name(&mut self, role: Role, column: &str) {
        self.columns.retain(|n| n.role != role.name());
        self.columns.push(Named { role: role.name().to_owned(), column: column.to_owned() });
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
        let wanted = match self.select.trim() {
            "" => selector.defined().collect(),
            text => selector.select(text)?,
        };
        if wanted.is_empty() {
            return Err(ClusterError::Nothing { table: table.to_owned() });
        }
        Ok(Request::of(&wanted))
    }
}

/// A specification and the table that it reads: every column has its place, and its type is one that can be used.
#[derive(Debug)]
pub struct Bound {
    /// What was asked for, with every column that is read named.
    pub spec: Spec,
    /// The plan.
    pub request: Request,
    /// Where the symbol is; `None` where the table is one series.
    pub symbol: Option<usize>,
    /// Where the time is.
    pub time: usize,
    /// Columns of bars that the plan reads, and where they are.
    pub fields: Vec<(Field, usize)>,
    /// The keys, as the reader of files sees them.
    pub layout: KeySchema,
    /// Columns of the input.
    pub input: SchemaRef,
    /// Columns of the output: those of the input, and the computed ones.
    pub output: SchemaRef,
}

impl Bound {
    /// Finds the columns; `table` is its name in errors.
    pub fn new(spec: &Spec, table: &str, input: &SchemaRef) -> Result<Bound, ClusterError> {
        let request = spec.request(table)?;
        let names: Vec<String> = input.fields().iter().map(|f| f.name().clone()).collect();
        let mut needed = market::needed(&request.selection);
        // Rows of a table have no order of their own.
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
            fields.extend(value(role).map(|f| (f, at)));
        }
        if request.selection.plan.fields().any(|f| f == Field::Time) {
            fields.push((Field::Time, time));
        }
        let clash = request.selection.columns.iter().find(|c| names.contains(c));
        if let Some(column) = clash {
            return Err(ClusterError::Clash { column: column.clone() });
        }
        let kind = input.fields().get(time).map(|f| kept(f.data_type()));
        let column = |at: usize, kind: DataType| KeyColumn {
            name: names.get(at).cloned().unwrap_or_default(),
            data_type: kind,
        };
        let layout = KeySchema { symbol: None, time: kind.map(|kind| column(time, kind)), time_first: false };
        let computed = request.selection.columns.iter().map(|n| ArrowField::new(n, DataType::Float64, true));
        let all: Vec<_> = input.fields().iter().cloned().chain(computed.map(Arc::new)).collect();
        let output = Arc::new(Schema::new_with_metadata(all, input.metadata().clone()));
        Ok(Bound { spec, request, symbol, time, fields, layout, input: input.clone(), output })
    }

    /// Columns of the input that are read, whoever else wants them; ascending.
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

    /// Bytes of a row: what comes in, what is computed, and buffer for both at once.
    pub fn row_bytes(&self) -> usize {
        8 * (self.input.fields().len() + self.fields.len() + self.request.selection.columns.len())
    }
}

/// The column of bars that a role is.
fn value(role: Role) -> Option<Field> {
    match role {
        Role::Open => Some(Field::Open),
        Role::High => Some(Field::High),
        Role::Low => Some(Field::Low),
        Role::Close => Some(Field::Close),
        Role::Volume => Some(Field::Volume),
        _ => None,
    }
}

/// The type in a dictionary.
pub(crate) fn plain(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => plain(values),
        other => other,
    }
}

/// The type that times are kept in.
pub(crate) fn kept(kind: &DataType) -> DataType {
    match plain(kind) {
        // A Date64 counts milliseconds, and not every writer keeps them at midnight.
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        kind @ (DataType::Date32 | DataType::Timestamp(..)) => kind.clone(),
        _ => DataType::Int64,
    }
}

/// Is it text of any kind?
pub(crate) fn is_text(kind: &DataType) -> bool {
    matches!(plain(kind), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Refuses a column whose type cannot be what it is to be. Text is never read as numbers or times here: a query can say how.
fn check(table: &str, names: &[String], field: &ArrowField, role: Role) -> Result<(), ClusterError> {
    let kind = plain(field.data_type());
    let (usable, wanted, cast) = match role {
        Role::Symbol => (kind.is_integer() || is_text(kind), "text or whole numbers", "VARCHAR"),
        Role::Time => (
            kind.is_integer()
                || matches!(kind, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)),
            "a date, a timestamp or whole numbers",
            "TIMESTAMP",
        ),
        _ => (kind.is_numeric() || *kind == DataType::Null, "numbers", "DOUBLE"),
    };
    if usable {
        return Ok(());
    }
    let name = field.name();
    Err(ClusterError::Column {
        table: table.to_owned(),
        message: format!("`{name}` is {kind}, and the {} must be {wanted}", role.name()),
        found: names.join(", "),
        hint: format!(
            "CREATE VIEW v AS SELECT …, CAST({name} AS {cast}) AS {name} FROM {table}, and indicators('v', …)"
        ),
    })
}
