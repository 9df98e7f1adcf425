//! Do these files have what is needed, and do they fit together? Decided from headers and footers, before rows are read.

use std::path::Path;

use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::{
    ReadOptions,
    batch::{self, Class, class},
    chunk::{Plan, Source, VALUES},
    csv::{self, Csv, Head},
    input::{Format, Opened},
    ipc::{self, ArrowFile},
    parquet::{self, Parquet},
    time,
};
use crate::{
    bars::{Column, Key, Layout},
    error::FrameError,
    names::{Role, list, resolve},
};

/// A file that was looked into.
pub(super) struct Table {
    pub plan: Plan,
    pub opened: Opened,
    /// Rows, if the file says it.
    pub rows: Option<u64>,
    /// The header of a text.
    head: Option<Head>,
    /// What the columns are; `None` for text, where they are what they are read as.
    schema: Option<SchemaRef>,
}

impl Table {
    /// Starts to read.
    pub(super) fn source(mut self) -> Result<Box<dyn Source>, FrameError> {
        Ok(match (self.opened.format, &self.head) {
            (Format::Csv, Some(head)) => Box::new(Csv::new(self.plan, head, self.opened.bytes()?)),
            (Format::Parquet, _) => {
                let (rows, size) = (self.rows.unwrap_or(0), self.opened.size.unwrap_or(0));
                Box::new(Parquet::new(self.plan, &self.opened.file()?, rows, size)?)
            }
            _ => Box::new(ArrowFile::new(self.plan, &self.opened.file()?)?),
        })
    }

    /// The class of a role's column; `None` if it has none or is text that can be read as anything.
    fn class(&self, role: Role) -> Option<Class> {
        let field = self.schema.as_ref()?.fields().get(self.plan.columns.get(role)?)?;
        Some(class(field.data_type()))
    }
}

/// Looks into all files, and says what keys they have together.
pub(super) fn tables(
    opened: Vec<Opened>,
    options: &ReadOptions<'_>,
) -> Result<(Vec<Table>, Layout), FrameError> {
    let several = opened.len() > 1;
    let mut tables = Vec::with_capacity(opened.len());
    for (file, opened) in opened.into_iter().enumerate() {
        tables.push(table(opened, file, several, options)?);
    }
    if let [first, others @ ..] = tables.as_slice() {
        for other in others {
            alike(first, other)?;
        }
    }
    let (symbol, time) = (symbol_column(&tables)?, time_column(&tables)?);
    let places = tables.first().map(|t| (t.plan.columns.get(Role::Time), t.plan.columns.get(Role::Symbol)));
    let time_first = matches!(places, Some((Some(time), Some(symbol))) if time < symbol);
    Ok((tables, Layout { symbol, time, time_first }))
}

/// Looks into one file.
fn table(opened: Opened, file: usize, several: bool, options: &ReadOptions<'_>) -> Result<Table, FrameError> {
    let (names, head, schema, rows) = match opened.format {
        Format::Csv => {
            let head = csv::head(&opened.path, &opened.begin)?;
            (head.names.clone(), Some(head), None, None)
        }
        Format::Parquet => {
            let (schema, rows) = parquet::head(&opened.path, &opened.file()?)?;
            (fields(&schema), None, Some(schema), Some(rows))
        }
        Format::Ipc => {
            let schema = ipc::head(&opened.path, &opened.file()?)?;
            (fields(&schema), None, Some(schema), None)
        }
    };
    let mut needed = options.needed.clone();
    if options.adjusted {
        needed.extend([Role::Close, Role::AdjustedClose]);
    }
    let columns = match resolve(&opened.path, &names, &options.mapping, &needed) {
        Err(_) if head.is_some() && csv::no_header(&names) => return Err(headless(&opened.path, &names)),
        other => other?,
    };
    let stem = opened.path.file_stem().map(|s| s.to_string_lossy().into_owned());
    let symbol = match columns.get(Role::Symbol) {
        None if several => stem.map(Key::Text),
        _ => None,
    };
    let adjusted = options.adjusted;
    let path = opened.path.clone();
    let mut plan =
        Plan { path, file, names, columns, symbol, time: None, needed: options.needed.clone(), adjusted };
    if let Some(schema) = &schema {
        batch::check(&plan, schema)?;
    }
    plan.time = match plan.columns.get(Role::Time) {
        Some(at) => time_kind(&opened, &head, &schema, at)?,
        None => None,
    };
    Ok(Table { plan, opened, rows, head, schema })
}

/// Names of the columns.
fn fields(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|f| f.name().clone()).collect()
}

/// The type of a time column, if anything says it yet.
fn time_kind(
    opened: &Opened,
    head: &Option<Head>,
    schema: &Option<SchemaRef>,
    at: usize,
) -> Result<Option<DataType>, FrameError> {
    if let Some(head) = head {
        let whole = opened.size.is_some_and(|size| size == opened.begin.len() as u64);
        return Ok(csv::time_kind(head, &opened.begin, whole, at).kind());
    }
    let typed =
        schema.as_ref().and_then(|s| s.fields().get(at)).and_then(|f| batch::time_kind(f.data_type()));
    if typed.is_some() {
        return Ok(typed);
    }
    let first = match opened.format {
        Format::Parquet => parquet::first(&opened.path, &opened.file()?, at)?,
        _ => ipc::first(&opened.path, &opened.file()?, at)?,
    };
    Ok(first.and_then(|column| batch::look(&column).kind()))
}

/// The error for a text whose first line is data.
fn headless(path: &Path, names: &[String]) -> FrameError {
    FrameError::Column {
        path: path.into(),
        message: "there is no header: the first line is data".to_string(),
        found: list(names),
        hint: "put a line in front that names the columns, such as symbol,time,open,high,low,close,volume"
            .to_string(),
    }
}

/// Refuses two files that differ in what a column is.
fn alike(first: &Table, other: &Table) -> Result<(), FrameError> {
    for role in VALUES {
        let (Some(a), Some(b)) = (first.class(role), other.class(role)) else { continue };
        if (a == Class::Text) != (b == Class::Text) {
            return Err(mixed(first, other, role, word(a), word(b)));
        }
    }
    let (a, b) = (first.plan.columns.get(Role::Time), other.plan.columns.get(Role::Time));
    if a.is_some() != b.is_some() {
        let (with, without) = if a.is_some() { (first, other) } else { (other, first) };
        return Err(FrameError::Column {
            path: without.plan.path.clone(),
            message: format!("there is no time column, and {} has one", with.plan.path.display()),
            found: list(&without.plan.names),
            hint: "--column time=NAME, or read the files apart".to_string(),
        });
    }
    Ok(())
}

fn word(class: Class) -> &'static str {
    match class {
        Class::Text => "text",
        Class::Time => "times",
        _ => "numbers",
    }
}

/// The error for two files that do not fit together.
fn mixed(first: &Table, other: &Table, role: Role, a: &str, b: &str) -> FrameError {
    FrameError::Column {
        path: other.plan.path.clone(),
        message: format!(
            "the {} is {b} here and {a} in {}: they cannot be read together",
            role.name(),
            first.plan.path.display()
        ),
        found: list(&other.plan.names),
        hint: format!("write one of them again, read them apart, or --column {}=NAME", role.name()),
    }
}

/// The symbol column of all files: text or numbers. A file name is text.
fn symbol_column(tables: &[Table]) -> Result<Option<Column>, FrameError> {
    let kind = |table: &Table| match (table.plan.columns.get(Role::Symbol), table.class(Role::Symbol)) {
        (Some(_), Some(Class::Integer)) => Some(DataType::Int64),
        (Some(_), _) => Some(DataType::Utf8),
        (None, _) => table.plan.symbol.as_ref().map(|_| DataType::Utf8),
    };
    let word = |kind: &DataType| if *kind == DataType::Int64 { "numbers" } else { "text" };
    let mut known: Option<(&Table, DataType)> = None;
    for table in tables {
        match (&known, kind(table)) {
            (Some((first, a)), Some(b)) if *a != b => {
                return Err(mixed(first, table, Role::Symbol, word(a), word(&b)));
            }
            (None, Some(kind)) => known = Some((table, kind)),
            _ => {}
        }
    }
    let named = tables.iter().find(|t| t.plan.columns.get(Role::Symbol).is_some());
    let name = named.map_or(Role::Symbol.name(), |t| t.plan.name(Role::Symbol)).to_string();
    Ok(known.map(|(_, kind)| Column { name, kind }))
}

/// The time column of all files, in the finest type.
fn time_column(tables: &[Table]) -> Result<Option<Column>, FrameError> {
    let Some(first) = tables.iter().find(|t| t.plan.columns.get(Role::Time).is_some()) else {
        return Ok(None);
    };
    let mut known: Option<(&Table, DataType)> = None;
    for table in tables {
        let Some(kind) = &table.plan.time else { continue };
        known = match known {
            None => Some((table, kind.clone())),
            Some((first, a)) => match time::unify(&a, kind) {
                Some(both) => Some((first, both)),
                None => return Err(mixed(first, table, Role::Time, &a.to_string(), &kind.to_string())),
            },
        };
    }
    let kind = known.map_or_else(time::unseen, |(_, kind)| kind);
    Ok(Some(Column { name: first.plan.name(Role::Time).to_string(), kind }))
}
