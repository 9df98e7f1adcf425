//! Schema inference: column roles, key columns and types of each file from headers, footers and first values, and one
//! schema for all files.

use std::path::{Path, PathBuf};

use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::{
    ColumnReport, FileReport, GroupBy, ReadOptions, SymbolSource,
    chunk::{ChunkSource, ReadPlan, VALUE_ROLES},
    csv::{self, Csv, CsvHeader},
    input::InputFile,
    ipc::{self, ArrowFile},
    parquet::{self, Parquet},
    path_symbol,
    record_batch::{self, TypeClass, class},
    time::{self, TimeInference},
    time_of_day::TimeOfDayFormat,
};
use crate::{
    bars::{KeyColumn, KeySchema, SymbolKey},
    column_roles::{ColumnHeader, ColumnRoles, Role, RoleRequest, ValueClass, list, unnamed},
    error::FrameError,
    write::FileFormat,
};

/// An opened file with its inferred schema.
pub(super) struct InputTable {
    pub plan: ReadPlan,
    pub opened: InputFile,
    /// Number of rows, if the file states it.
    pub rows: Option<u64>,
    /// CSV header.
    head: Option<CsvHeader>,
    /// Declared schema; `None` for CSV, whose columns are untyped.
    schema: Option<SchemaRef>,
}

impl InputTable {
    /// Starts decoding.
    pub(super) fn source(mut self) -> Result<Box<dyn ChunkSource>, FrameError> {
        Ok(match (self.opened.format, &self.head) {
            (FileFormat::Csv, Some(head)) => Box::new(Csv::new(self.plan, head, self.opened.bytes()?)),
            (FileFormat::Parquet, _) => {
                let (rows, size) = (self.rows.unwrap_or(0), self.opened.size.unwrap_or(0));
                Box::new(Parquet::new(self.plan, &self.opened.file()?, rows, size)?)
            }
            _ => Box::new(ArrowFile::new(self.plan, &self.opened.file()?)?),
        })
    }

    /// Report of the inferred schema, before rows are decoded.
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
        let delimiter = |head: &CsvHeader| match head.delimiter {
            b'\t' => "CSV, tabs".to_string(),
            other => format!("CSV, `{}`", char::from(other)),
        };
        let format = match self.opened.format {
            FileFormat::Csv => self.head.as_ref().map_or_else(|| "CSV".to_string(), delimiter),
            FileFormat::Parquet => "Parquet".to_string(),
            FileFormat::Ipc => "Arrow IPC".to_string(),
        };
        FileReport {
            path: self.plan.path.clone(),
            format,
            columns: self.plan.names.iter().enumerate().map(column).collect(),
            symbol: self.plan.symbol.as_ref().map(ToString::to_string),
            symbol_from: self.plan.symbol_source,
            rows: 0,
            skipped: 0,
            duplicates: 0,
            in_order: true,
        }
    }

    /// Name of the time column in the output.
    fn time_name(&self) -> &str {
        let name = self.plan.name(Role::Time);
        match self.plan.columns.get(Role::TimeOfDay).is_some() || unnamed(name) {
            true => Role::Time.name(),
            false => name,
        }
    }

    /// Type class of a role's column; `None` without one and for CSV.
    fn class(&self, role: Role) -> Option<TypeClass> {
        let field = self.schema.as_ref()?.fields().get(self.plan.columns.get(role)?)?;
        Some(class(field.data_type()))
    }
}

/// Infers the schema of all files. Optional columns that all of them have become required.
pub(super) fn tables(
    opened: Vec<InputFile>,
    options: &mut ReadOptions<'_>,
) -> Result<(Vec<InputTable>, KeySchema), FrameError> {
    let mut tables = Vec::with_capacity(opened.len());
    for (file, opened) in opened.into_iter().enumerate() {
        tables.push(infer_table(opened, file, options)?);
    }
    assign_symbols(&mut tables, &options.by);
    let required = options.needed.clone();
    for role in std::mem::take(&mut options.optional) {
        let all = tables.iter().all(|t| t.plan.columns.get(role).is_some());
        if all && !options.needed.contains(&role) {
            options.needed.push(role);
        }
    }
    for InputTable { plan, .. } in &mut tables {
        plan.needed.clone_from(&options.needed);
        // A column that is also required, or that prices are adjusted by, must be numeric.
        let scaled = [Role::Close, Role::AdjustedClose].into_iter().filter(|_| options.adjusted);
        let strict: Vec<usize> =
            required.iter().copied().chain(scaled).filter_map(|r| plan.columns.get(r)).collect();
        let lenient = |role: &Role| plan.columns.get(*role).is_none_or(|at| !strict.contains(&at));
        plan.or_nan = VALUE_ROLES.into_iter().filter(|_| options.optional_or_nan).filter(lenient).collect();
    }
    if let [first, others @ ..] = tables.as_slice() {
        for other in others {
            check_compatible(first, other)?;
        }
    }
    let (symbol, time) = (symbol_column(&tables)?, time_column(&tables)?);
    let places = tables.first().map(|t| (t.plan.columns.get(Role::Time), t.plan.columns.get(Role::Symbol)));
    let time_first = matches!(places, Some((Some(time), Some(symbol))) if time < symbol);
    Ok((tables, KeySchema { symbol, time, time_first }))
}

/// Gives files without a symbol column a symbol from their paths. A single file needs none, unless a hive directory names
/// one.
fn assign_symbols(tables: &mut [InputTable], by: &GroupBy) {
    let paths: Vec<PathBuf> = tables.iter().map(|t| t.plan.path.clone()).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let keys: Vec<(Option<String>, SymbolSource)> = match by {
        GroupBy::SingleSeries => paths.iter().map(|_| (None, SymbolSource::Nothing)).collect(),
        GroupBy::File => paths.iter().map(|path| (path_symbol::stem(path), SymbolSource::FileName)).collect(),
        GroupBy::Directory => {
            let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
            let key = |path: &&Path| (path_symbol::directory(&whole(path)), SymbolSource::Directory);
            paths.iter().map(key).collect()
        }
        GroupBy::Auto | GroupBy::Column(_) => match paths.as_slice() {
            [one] => match path_symbol::hive_symbol(one) {
                Some(symbol) => vec![(Some(symbol), SymbolSource::HiveKey)],
                None => vec![(None, SymbolSource::Nothing)],
            },
            several => path_symbol::symbols(several),
        },
    };
    for (table, (key, source)) in tables.iter_mut().zip(keys) {
        (table.plan.symbol, table.plan.symbol_source) = match table.plan.columns.get(Role::Symbol) {
            Some(_) => (None, SymbolSource::Column),
            None => (key.map(SymbolKey::Text), source),
        };
    }
}

/// CSV header or declared schema of a file.
struct FileSchema {
    names: Vec<String>,
    head: Option<CsvHeader>,
    schema: Option<SchemaRef>,
    rows: Option<u64>,
}

impl FileSchema {
    fn of(opened: &InputFile) -> Result<FileSchema, FrameError> {
        Ok(match opened.format {
            FileFormat::Csv => {
                let head = csv::parse_header(&opened.path, &opened.prefix)?;
                FileSchema { names: head.names.clone(), head: Some(head), schema: None, rows: None }
            }
            FileFormat::Parquet => {
                let (schema, rows) = parquet::schema(&opened.path, &opened.file()?)?;
                FileSchema { names: field_names(&schema), head: None, schema: Some(schema), rows: Some(rows) }
            }
            FileFormat::Ipc => {
                let schema = ipc::schema(&opened.path, &opened.file()?)?;
                FileSchema { names: field_names(&schema), head: None, schema: Some(schema), rows: None }
            }
        })
    }

    fn kind(&self, at: usize) -> Option<&DataType> {
        Some(self.schema.as_ref()?.fields().get(at)?.data_type())
    }

    /// Time inference over a column's first values.
    fn infer_time(&self, opened: &InputFile, at: usize) -> Result<TimeInference, FrameError> {
        if let Some(head) = &self.head {
            let whole = opened.size.is_some_and(|size| size == opened.prefix.len() as u64);
            return Ok(csv::infer_time(head, &opened.prefix, whole, at));
        }
        let first = match opened.format {
            FileFormat::Parquet => parquet::first_values(&opened.path, &opened.file()?, at)?,
            _ => ipc::first_values(&opened.path, &opened.file()?, at)?,
        };
        Ok(first.map(|column| record_batch::infer_time(&column)).unwrap_or_default())
    }

    /// Value class of a column: by its type where that is enough.
    fn value_class(&self, opened: &InputFile, at: usize) -> Result<ValueClass, FrameError> {
        // Timestamps at midnight are dates, which matters where another column may hold the time of day.
        let others = self.names.iter().filter(|name| Role::of(name) == Some(Role::Time)).count() > 1;
        match self.kind(at).and_then(record_batch::value_class) {
            Some(ValueClass::Timestamps { .. })
                if others && matches!(self.kind(at), Some(DataType::Timestamp(_, None))) => {}
            Some(values) => return Ok(values),
            None => {}
        }
        Ok(self.infer_time(opened, at)?.value_class())
    }

    /// Type of the time column, if it can be inferred.
    fn time_type(&self, opened: &InputFile, columns: &ColumnRoles) -> Result<Option<DataType>, FrameError> {
        let Some(at) = columns.get(Role::Time) else { return Ok(None) };
        if let Some(of_day) = columns.get(Role::TimeOfDay) {
            return Ok(Some(self.infer_time(opened, of_day)?.joined_type()));
        }
        match self.kind(at).and_then(record_batch::time_kind) {
            Some(typed) => Ok(Some(typed)),
            None => Ok(self.infer_time(opened, at)?.data_type()),
        }
    }
}

/// Infers the schema of one file.
fn infer_table(opened: InputFile, file: usize, options: &ReadOptions<'_>) -> Result<InputTable, FrameError> {
    let file_schema = FileSchema::of(&opened)?;
    let columns = match resolve_columns(&opened, &file_schema, options) {
        Err(_) if file_schema.head.is_some() && csv::looks_like_data(&file_schema.names) => {
            return Err(no_header(&opened.path, &file_schema.names));
        }
        other => other?,
    };
    let time = file_schema.time_type(&opened, &columns)?;
    let of_day = match columns.get(Role::TimeOfDay) {
        Some(at) => file_schema.infer_time(&opened, at)?.time_of_day_format(),
        None => TimeOfDayFormat::default(),
    };
    let plan = ReadPlan {
        path: opened.path.clone(),
        file,
        names: file_schema.names,
        columns,
        symbol: None,
        symbol_source: SymbolSource::Nothing,
        of_day,
        time,
        needed: options.needed.clone(),
        or_nan: Vec::new(),
        adjusted: options.adjusted,
    };
    if let Some(schema) = &file_schema.schema {
        record_batch::check(&plan, schema)?;
    }
    Ok(InputTable {
        plan,
        opened,
        rows: file_schema.rows,
        head: file_schema.head,
        schema: file_schema.schema,
    })
}

/// Resolves the column roles of a file.
fn resolve_columns(
    opened: &InputFile,
    file_schema: &FileSchema,
    options: &ReadOptions<'_>,
) -> Result<ColumnRoles, FrameError> {
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
        GroupBy::Auto | GroupBy::Column(_) => &[],
        GroupBy::File | GroupBy::Directory | GroupBy::SingleSeries => &[Role::Symbol],
    };
    let request = RoleRequest { mapping: &options.mapping, needed: &needed, optional: &optional, without };
    let mut classify = |at: usize| file_schema.value_class(opened, at);
    let mut header = ColumnHeader { path: &opened.path, names: &file_schema.names, classify: &mut classify };
    request.of_file(&mut header, !options.untimed)
}

/// Column names.
fn field_names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|f| f.name().clone()).collect()
}

/// Error for a CSV file without a header.
fn no_header(path: &Path, names: &[String]) -> FrameError {
    FrameError::Column {
        path: path.into(),
        message: "there is no header: the first line is data".to_string(),
        found: list(names),
        hint: "put a line in front that names the columns, such as symbol,time,open,high,low,close,volume"
            .to_string(),
    }
}

/// Rejects two files whose columns differ in type.
fn check_compatible(first: &InputTable, other: &InputTable) -> Result<(), FrameError> {
    for role in VALUE_ROLES {
        let (Some(a), Some(b)) = (first.class(role), other.class(role)) else { continue };
        if (a == TypeClass::Text) != (b == TypeClass::Text) {
            return Err(incompatible(first, other, role, word(a), word(b)));
        }
    }
    Ok(())
}

fn word(class: TypeClass) -> &'static str {
    match class {
        TypeClass::Text => "text",
        TypeClass::Time => "times",
        _ => "numbers",
    }
}

/// Error for two files with incompatible columns.
fn incompatible(first: &InputTable, other: &InputTable, role: Role, a: &str, b: &str) -> FrameError {
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

/// Symbol column of all files: text or integers. A file name is text.
fn symbol_column(tables: &[InputTable]) -> Result<Option<KeyColumn>, FrameError> {
    let kind = |table: &InputTable| match (table.plan.columns.get(Role::Symbol), table.class(Role::Symbol)) {
        (Some(_), Some(TypeClass::Integer)) => Some(DataType::Int64),
        (Some(_), _) => Some(DataType::Utf8),
        (None, _) => table.plan.symbol.as_ref().map(|_| DataType::Utf8),
    };
    let word = |kind: &DataType| if *kind == DataType::Int64 { "numbers" } else { "text" };
    let mut known: Option<(&InputTable, DataType)> = None;
    for table in tables {
        match (&known, kind(table)) {
            (Some((first, a)), Some(b)) if *a != b => {
                return Err(incompatible(first, table, Role::Symbol, word(a), word(&b)));
            }
            (None, Some(kind)) => known = Some((table, kind)),
            _ => {}
        }
    }
    let named = tables.iter().find(|t| t.plan.columns.get(Role::Symbol).is_some());
    let name = named.map_or(Role::Symbol.name(), |t| t.plan.name(Role::Symbol)).to_string();
    Ok(known.map(|(_, kind)| KeyColumn { name, data_type: kind }))
}

/// Time column of all files, in the finest common type.
fn time_column(tables: &[InputTable]) -> Result<Option<KeyColumn>, FrameError> {
    let Some(first) = tables.iter().find(|t| t.plan.columns.get(Role::Time).is_some()) else {
        return Ok(None);
    };
    let mut known: Option<(&InputTable, DataType)> = None;
    for table in tables {
        let Some(kind) = &table.plan.time else { continue };
        known = match known {
            None => Some((table, kind.clone())),
            Some((first, a)) => match time::unify(&a, kind) {
                Some(both) => Some((first, both)),
                None => {
                    return Err(incompatible(first, table, Role::Time, &a.to_string(), &kind.to_string()));
                }
            },
        };
    }
    let kind = known.map_or_else(time::default_type, |(_, kind)| kind);
    Ok(Some(KeyColumn { name: first.time_name().to_string(), data_type: kind }))
}
