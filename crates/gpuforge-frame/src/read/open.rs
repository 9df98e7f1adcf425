//! Opening files: columns, keys and types from headers, footers and first values. Do they have what is needed, and fit
//! together?

use std::path::{Path, PathBuf};

use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::{
    By, ColumnReport, FileReport, KeySource, ReadOptions,
    batch::{self, Class, class},
    chunk::{Plan, Source, VALUES},
    csv::{self, Csv, Head},
    input::{Format, Opened},
    ipc::{self, ArrowFile},
    parquet::{self, Parquet},
    path_key,
    time::{self, Look},
    time_of_day::Form,
};
use crate::{
    bars::{Column, Key, Layout},
    error::FrameError,
    names::{Asked, Columns, Header, Role, Values, list, unnamed},
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

    /// What was recognised, before rows are read.
    pub(super) fn report(&self) -> FileReport {
        let kind = |at: usize| Some(self.schema.as_ref()?.fields().get(at)?.data_type().to_string());
        let column = |(at, name): (usize, &String)| {
            let role = self.plan.columns.iter().find(|(_, position, _)| *position == at);
            ColumnReport {
                name: name.clone(),
                kind: kind(at),
                role: role.map(|(role, ..)| role.name()),
                why: role.map(|(.., why)| why.words()),
            }
        };
        let delimiter = |head: &Head| match head.delimiter {
            b'\t' => "CSV, tabs".to_string(),
            other => format!("CSV, `{}`", char::from(other)),
        };
        let format = match self.opened.format {
            Format::Csv => self.head.as_ref().map_or_else(|| "CSV".to_string(), delimiter),
            Format::Parquet => "Parquet".to_string(),
            Format::Ipc => "Arrow IPC".to_string(),
        };
        FileReport {
            path: self.plan.path.clone(),
            format,
            columns: self.plan.names.iter().enumerate().map(column).collect(),
            symbol: self.plan.symbol.as_ref().map(ToString::to_string),
            symbol_from: self.plan.keyed,
            rows: 0,
            skipped: 0,
            duplicates: 0,
            in_order: true,
        }
    }

    /// The name that the time goes by in the output.
    fn time_name(&self) -> &str {
        let name = self.plan.name(Role::Time);
        match self.plan.columns.get(Role::TimeOfDay).is_some() || unnamed(name) {
            true => Role::Time.name(),
            false => name,
        }
    }

    /// The class of a role's column; `None` if it has none or is text that can be read as anything.
    fn class(&self, role: Role) -> Option<Class> {
        let field = self.schema.as_ref()?.fields().get(self.plan.columns.get(role)?)?;
        Some(class(field.data_type()))
    }
}

/// Looks into all files, and says what keys they have together. Optional columns that all of them have become needed ones.
pub(super) fn tables(
    opened: Vec<Opened>,
    options: &mut ReadOptions<'_>,
) -> Result<(Vec<Table>, Layout), FrameError> {
    let mut tables = Vec::with_capacity(opened.len());
    for (file, opened) in opened.into_iter().enumerate() {
        tables.push(table(opened, file, options)?);
    }
    keyed(&mut tables, &options.by);
    let must = options.needed.clone();
    for role in std::mem::take(&mut options.optional) {
        let all = tables.iter().all(|t| t.plan.columns.get(role).is_some());
        if all && !options.needed.contains(&role) {
            options.needed.push(role);
        }
    }
    for Table { plan, .. } in &mut tables {
        plan.needed.clone_from(&options.needed);
        // A column that is also something that is needed, or that prices are scaled by, has to be numbers.
        let scaled = [Role::Close, Role::AdjustedClose].into_iter().filter(|_| options.adjusted);
        let strict: Vec<usize> =
            must.iter().copied().chain(scaled).filter_map(|r| plan.columns.get(r)).collect();
        let lossy = |role: &Role| plan.columns.get(*role).is_none_or(|at| !strict.contains(&at));
        plan.or_nan = VALUES.into_iter().filter(|_| options.optional_or_nan).filter(lossy).collect();
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

/// Gives files without a symbol column the symbol that their paths say. One file alone needs none, unless a directory
/// above it names one.
fn keyed(tables: &mut [Table], by: &By) {
    let paths: Vec<PathBuf> = tables.iter().map(|t| t.plan.path.clone()).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let keys: Vec<(Option<String>, KeySource)> = match by {
        By::Nothing => paths.iter().map(|_| (None, KeySource::Nothing)).collect(),
        By::File => paths.iter().map(|path| (path_key::stem(path), KeySource::FileName)).collect(),
        By::Directory => {
            let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
            let key = |path: &&Path| (path_key::directory(&whole(path)), KeySource::Directory);
            paths.iter().map(key).collect()
        }
        By::Auto | By::Column(_) => match paths.as_slice() {
            [one] => match path_key::hive_symbol(one) {
                Some(symbol) => vec![(Some(symbol), KeySource::HiveKey)],
                None => vec![(None, KeySource::Nothing)],
            },
            several => path_key::keys(several),
        },
    };
    for (table, (key, source)) in tables.iter_mut().zip(keys) {
        (table.plan.symbol, table.plan.keyed) = match table.plan.columns.get(Role::Symbol) {
            Some(_) => (None, KeySource::Column),
            None => (key.map(Key::Text), source),
        };
    }
}

/// A file's header, or its schema.
struct Looked {
    names: Vec<String>,
    head: Option<Head>,
    schema: Option<SchemaRef>,
    rows: Option<u64>,
}

impl Looked {
    fn into(opened: &Opened) -> Result<Looked, FrameError> {
        Ok(match opened.format {
            Format::Csv => {
                let head = csv::head(&opened.path, &opened.begin)?;
                Looked { names: head.names.clone(), head: Some(head), schema: None, rows: None }
            }
            Format::Parquet => {
                let (schema, rows) = parquet::head(&opened.path, &opened.file()?)?;
                Looked { names: fields(&schema), head: None, schema: Some(schema), rows: Some(rows) }
            }
            Format::Ipc => {
                let schema = ipc::head(&opened.path, &opened.file()?)?;
                Looked { names: fields(&schema), head: None, schema: Some(schema), rows: None }
            }
        })
    }

    fn kind(&self, at: usize) -> Option<&DataType> {
        Some(self.schema.as_ref()?.fields().get(at)?.data_type())
    }

    /// What the first values of a column look like.
    fn look(&self, opened: &Opened, at: usize) -> Result<Look, FrameError> {
        if let Some(head) = &self.head {
            let whole = opened.size.is_some_and(|size| size == opened.begin.len() as u64);
            return Ok(csv::look(head, &opened.begin, whole, at));
        }
        let first = match opened.format {
            Format::Parquet => parquet::first(&opened.path, &opened.file()?, at)?,
            _ => ipc::first(&opened.path, &opened.file()?, at)?,
        };
        Ok(first.map(|column| batch::look(&column)).unwrap_or_default())
    }

    /// What the values of a column could be: by its type where that is enough.
    fn values(&self, opened: &Opened, at: usize) -> Result<Values, FrameError> {
        // Timestamps at midnight are dates, which matters where a second column may hold the time of day.
        let others = self.names.iter().filter(|name| Role::of(name) == Some(Role::Time)).count() > 1;
        match self.kind(at).and_then(batch::values) {
            Some(Values::Moments { .. })
                if others && matches!(self.kind(at), Some(DataType::Timestamp(_, None))) => {}
            Some(values) => return Ok(values),
            None => {}
        }
        Ok(self.look(opened, at)?.values())
    }

    /// The type of the time, if anything says it yet.
    fn time_kind(&self, opened: &Opened, columns: &Columns) -> Result<Option<DataType>, FrameError> {
        let Some(at) = columns.get(Role::Time) else { return Ok(None) };
        if let Some(of_day) = columns.get(Role::TimeOfDay) {
            return Ok(Some(self.look(opened, of_day)?.joined()));
        }
        match self.kind(at).and_then(batch::time_kind) {
            Some(typed) => Ok(Some(typed)),
            None => Ok(self.look(opened, at)?.kind()),
        }
    }
}

/// Looks into one file.
fn table(opened: Opened, file: usize, options: &ReadOptions<'_>) -> Result<Table, FrameError> {
    let looked = Looked::into(&opened)?;
    let columns = match columns(&opened, &looked, options) {
        Err(_) if looked.head.is_some() && csv::no_header(&looked.names) => {
            return Err(headless(&opened.path, &looked.names));
        }
        other => other?,
    };
    let time = looked.time_kind(&opened, &columns)?;
    let of_day = match columns.get(Role::TimeOfDay) {
        Some(at) => looked.look(&opened, at)?.form(),
        None => Form::default(),
    };
    let plan = Plan {
        path: opened.path.clone(),
        file,
        names: looked.names,
        columns,
        symbol: None,
        keyed: KeySource::Nothing,
        of_day,
        time,
        needed: options.needed.clone(),
        or_nan: Vec::new(),
        adjusted: options.adjusted,
    };
    if let Some(schema) = &looked.schema {
        batch::check(&plan, schema)?;
    }
    Ok(Table { plan, opened, rows: looked.rows, head: looked.head, schema: looked.schema })
}

/// Which column is what.
fn columns(opened: &Opened, looked: &Looked, options: &ReadOptions<'_>) -> Result<Columns, FrameError> {
    let mut needed = options.needed.clone();
    if options.adjusted {
        needed.extend([Role::Close, Role::AdjustedClose]);
    }
    if options.untimed && needed.contains(&Role::Time) {
        return Err(FrameError::Usage(
            "a column that is asked for needs the time, and --no-time leaves it out\n  hint: name it: --time NAME".to_string(),
        ));
    }
    let optional: Vec<Role> = options.optional.iter().copied().chain([Role::Symbol]).collect();
    let without: &[Role] = match options.by {
        By::Auto | By::Column(_) => &[],
        By::File | By::Directory | By::Nothing => &[Role::Symbol],
    };
    let asked = Asked { mapping: &options.mapping, needed: &needed, optional: &optional, without };
    let mut peek = |at: usize| looked.values(opened, at);
    let mut header = Header { path: &opened.path, names: &looked.names, peek: &mut peek };
    asked.of_file(&mut header, !options.untimed)
}

/// Names of the columns.
fn fields(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|f| f.name().clone()).collect()
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
    Ok(Some(Column { name: first.time_name().to_string(), kind }))
}
