//! Numeric table: named float columns of one file that holds no bars; rows that cannot be parsed are reported and do not
//! stop the others.

use std::{io::Read as _, path::Path};

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type, Schema},
};

use super::{
    catch_decoder_panic, csv,
    input::{self, Input, InputFile},
    ipc, parquet,
    parse_float::parse_float,
    record_batch::{TypeClass, class},
};
use crate::{column_roles::list, error::FrameError, write::FileFormat};

/// Rows per record batch.
const BATCH_ROWS: usize = 1 << 16;

/// A requested column, by case-insensitive name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumericColumn {
    /// Its name.
    pub name: &'static str,
    /// A file without it is an error.
    pub required: bool,
}

/// Columns of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NumericTable {
    /// Columns in the requested order; `None` where the file has none of that name. An empty cell is NaN.
    pub columns: Vec<Option<Vec<f64>>>,
    /// Position of each row: its line in CSV, counted from 1 with the header; else its row, counted from 1.
    pub lines: Vec<u64>,
    /// Rows that are not numeric, by position, with the reason.
    pub bad: Vec<(usize, String)>,
    /// CSV: `lines` counts lines.
    pub is_text: bool,
}

/// Reads columns of one file (Parquet, Arrow IPC, CSV; `-` is standard input).
///
/// # Errors
/// The file is empty or damaged, or lacks a required column.
pub fn read(path: &Path, wanted: &[NumericColumn]) -> Result<NumericTable, FrameError> {
    let opened = input::open(&Input::new([path]), None, None)?;
    let [mut opened] = <[InputFile; 1]>::try_from(opened).map_err(|several| {
        FrameError::Usage(format!("{}: {} files, and one table is read", path.display(), several.len()))
    })?;
    match opened.format {
        FileFormat::Csv => read_csv(&mut opened, wanted),
        FileFormat::Parquet => {
            let file = opened.file()?;
            let (schema, _) = parquet::schema(&opened.path, &file)?;
            let (places, columns) = projection(&opened.path, &schema, wanted)?;
            let mut rows = parquet::record_batches(&opened.path, &file, columns, BATCH_ROWS)?;
            let next = || {
                catch_decoder_panic(&opened.path, || {
                    let next = rows.next().transpose();
                    next.map_err(|e| damaged(&opened.path, e))
                })
            };
            read_batches(&opened.path, &places, next, wanted)
        }
        FileFormat::Ipc => {
            let file = opened.file()?;
            let schema = ipc::schema(&opened.path, &file)?;
            let (places, columns) = projection(&opened.path, &schema, wanted)?;
            let mut rows = ipc::Batches::new(&opened.path, &file, columns)?;
            read_batches(&opened.path, &places, || catch_decoder_panic(&opened.path, || rows.next()), wanted)
        }
    }
}

fn damaged(path: &Path, error: impl std::fmt::Display) -> FrameError {
    let message = format!("the file is damaged or incomplete: {error}\n  hint: copy or write it again");
    FrameError::Format { path: path.into(), message }
}

/// Column positions; an error where a required one is missing.
fn find_columns(
    path: &Path,
    names: &[String],
    wanted: &[NumericColumn],
) -> Result<Vec<Option<usize>>, FrameError> {
    let place = |w: &NumericColumn| names.iter().position(|name| name.trim().eq_ignore_ascii_case(w.name));
    let places: Vec<Option<usize>> = wanted.iter().map(place).collect();
    let lacks = |(w, at): &(&NumericColumn, &Option<usize>)| w.required && at.is_none();
    let missing: Vec<&str> = wanted.iter().zip(&places).filter(lacks).map(|(w, _)| w.name).collect();
    if missing.is_empty() {
        return Ok(places);
    }
    let join = |required: bool| {
        let some: Vec<&str> = wanted.iter().filter(|w| w.required == required).map(|w| w.name).collect();
        some.join(", ")
    };
    let also = if wanted.iter().all(|w| w.required) {
        String::new()
    } else {
        format!("; optional: {}", join(false))
    };
    Err(FrameError::Column {
        path: path.into(),
        message: format!("there is no column `{}`", missing.join("`, `")),
        found: list(names),
        hint: format!("the first line names the columns; needed: {}{also}", join(true)),
    })
}

/// Positions in the record batches of a typed file, and its projection; text columns are parsed.
fn projection(
    path: &Path,
    schema: &Schema,
    wanted: &[NumericColumn],
) -> Result<(Vec<Option<usize>>, Vec<usize>), FrameError> {
    let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    let places = find_columns(path, &names, wanted)?;
    for field in places.iter().flatten().filter_map(|at| schema.fields().get(*at)) {
        if !matches!(class(field.data_type()), TypeClass::Integer | TypeClass::Number | TypeClass::Text) {
            return Err(FrameError::Column {
                path: path.into(),
                message: format!("column `{}` is {}, not numbers", field.name(), field.data_type()),
                found: list(&names),
                hint: "write it as numbers".to_owned(),
            });
        }
    }
    let mut columns: Vec<usize> = places.iter().flatten().copied().collect();
    columns.sort_unstable();
    columns.dedup();
    let at = |place: &Option<usize>| place.and_then(|p| columns.iter().position(|c| *c == p));
    Ok((places.iter().map(at).collect(), columns))
}

fn read_batches(
    path: &Path,
    places: &[Option<usize>],
    mut next: impl FnMut() -> Result<Option<RecordBatch>, FrameError>,
    wanted: &[NumericColumn],
) -> Result<NumericTable, FrameError> {
    let mut all = NumericTable {
        columns: places.iter().map(|at| at.map(|_| Vec::new())).collect(),
        ..NumericTable::default()
    };
    while let Some(batch) = next()? {
        let before = all.lines.len();
        for ((at, column), w) in places.iter().zip(&mut all.columns).zip(wanted) {
            let (Some(at), Some(column)) = (at, column) else { continue };
            let array = batch.columns().get(*at).ok_or_else(|| damaged(path, "a column is missing"))?;
            append_floats(path, array, column, w.name, before, &mut all.bad)?;
        }
        all.lines.extend((0..batch.num_rows()).map(|row| (before + row) as u64 + 1));
    }
    all.bad.sort_by_key(|(row, _)| *row);
    all.bad.dedup_by_key(|(row, _)| *row);
    Ok(all)
}

/// Appends a column; null is NaN.
fn append_floats(
    path: &Path,
    array: &ArrayRef,
    to: &mut Vec<f64>,
    name: &str,
    before: usize,
    bad: &mut Vec<(usize, String)>,
) -> Result<(), FrameError> {
    if class(array.data_type()) == TypeClass::Text {
        let texts = cast(array, &DataType::LargeUtf8).map_err(|e| damaged(path, e))?;
        for (row, text) in texts.as_string_opt::<i64>().into_iter().flatten().enumerate() {
            let text = text.unwrap_or_default().as_bytes();
            let value = parse_float(text);
            if value.is_none() {
                bad.push((before + row, not_a_number(text, name)));
            }
            to.push(value.unwrap_or(f64::NAN));
        }
        return Ok(());
    }
    let floats = cast(array, &DataType::Float64).map_err(|e| damaged(path, e))?;
    let floats = floats.as_primitive_opt::<Float64Type>().ok_or_else(|| damaged(path, "no numbers"))?;
    match floats.null_count() {
        0 => to.extend_from_slice(floats.values()),
        _ => to.extend(floats.iter().map(|v| v.unwrap_or(f64::NAN))),
    }
    Ok(())
}

fn not_a_number(cell: &[u8], name: &str) -> String {
    let shown: String = String::from_utf8_lossy(cell).chars().take(40).collect();
    format!("column `{name}`: {shown:?} is not a number")
}

fn read_csv(opened: &mut InputFile, wanted: &[NumericColumn]) -> Result<NumericTable, FrameError> {
    let head = csv::parse_header(&opened.path, &opened.prefix)?;
    let places = find_columns(&opened.path, &head.names, wanted)?;
    let mut bytes = Vec::new();
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| FrameError::Io { doing: "read", path, source }
    };
    opened.bytes()?.read_to_end(&mut bytes).map_err(io(&opened.path))?;
    let (header, mut rest) = bytes.split_at_checked(head.data).unwrap_or((&bytes, &[]));
    let count = |text: &[u8]| text.iter().filter(|b| **b == b'\n').count() as u64;
    let mut line = count(header) + 1;
    let mut all = NumericTable {
        columns: places.iter().map(|at| at.map(|_| Vec::new())).collect(),
        is_text: true,
        ..NumericTable::default()
    };
    let mut cells = vec![None; head.names.len()];
    while !rest.is_empty() {
        let (row, long) = parse_row(rest, head.delimiter, &mut cells);
        let (now, later) = rest.split_at_checked(long).unwrap_or((rest, &[]));
        // Empty lines are skipped.
        if !now.iter().all(|b| matches!(b, b'\r' | b'\n')) {
            all.push_row(line, row, &places, &cells, wanted);
        }
        line += count(now).max(1);
        rest = later;
    }
    Ok(all)
}

/// Parses the next row: number of cells and bytes. A cell is its value, or the text that is not a number.
fn parse_row(text: &[u8], delimiter: u8, cells: &mut [Option<Result<f64, Vec<u8>>>]) -> (usize, usize) {
    cells.fill(None);
    let (mut count, mut used) = (0, 0);
    loop {
        let rest = text.get(used..).unwrap_or_default();
        let Some((cell, length, end)) = csv::cell(rest, delimiter, true) else {
            // An unclosed quote takes the rest.
            return (count + 1, text.len());
        };
        if let Some(place) = cells.get_mut(count) {
            *place = Some(parse_float(&cell).ok_or_else(|| cell.into_owned()));
        }
        (count, used) = (count + 1, used + length);
        if end {
            return (count, used);
        }
    }
}

impl NumericTable {
    fn push_row(
        &mut self,
        line: u64,
        count: usize,
        places: &[Option<usize>],
        cells: &[Option<Result<f64, Vec<u8>>>],
        wanted: &[NumericColumn],
    ) {
        let mut wrong = (count != cells.len())
            .then(|| format!("{count} cells, and the header names {} columns", cells.len()));
        for ((at, column), w) in places.iter().zip(&mut self.columns).zip(wanted) {
            let (Some(at), Some(column)) = (at, column) else { continue };
            let value = match cells.get(*at) {
                Some(Some(Ok(value))) => *value,
                Some(Some(Err(cell))) => {
                    wrong.get_or_insert_with(|| not_a_number(cell, w.name));
                    f64::NAN
                }
                _ => f64::NAN,
            };
            column.push(value);
        }
        if let Some(wrong) = wrong {
            self.bad.push((self.lines.len(), wrong));
        }
        self.lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: [NumericColumn; 3] = [
        NumericColumn { name: "speed", required: true },
        NumericColumn { name: "angle", required: true },
        NumericColumn { name: "spin", required: false },
    ];

    fn read_text(text: &str) -> Result<NumericTable, FrameError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        read(&path, &WANTED)
    }

    #[test]
    fn bad_rows_are_reported_with_their_lines() {
        let got = read_text("name,Speed,angle\na,70,10\n\n\"b\",fast,11\nc,71\nd,72,12,13\ne,\"73\",1e1\n")
            .unwrap();
        assert_eq!(got.lines, [2, 4, 5, 6, 7]);
        let speed = got.columns[0].as_ref().unwrap();
        assert_eq!((speed[0], speed[4], got.columns[1].as_ref().unwrap()[4]), (70.0, 73.0, 10.0));
        assert!(got.columns[2].is_none() && got.is_text && speed[1].is_nan());
        let bad: Vec<(usize, &str)> = got.bad.iter().map(|(row, why)| (*row, why.as_str())).collect();
        assert_eq!(
            bad,
            [
                (1, "column `speed`: \"fast\" is not a number"),
                (2, "2 cells, and the header names 3 columns"),
                (3, "4 cells, and the header names 3 columns"),
            ]
        );
    }

    #[test]
    fn missing_required_column_is_an_error() {
        let error = read_text("velocity,angle\n1,2\n").unwrap_err().to_string();
        assert!(error.contains("there is no column `speed`"), "{error}");
        assert!(
            error.contains("found: velocity, angle") && error.contains("needed: speed, angle"),
            "{error}"
        );
        assert!(read_text("").unwrap_err().to_string().contains("empty"));
        assert_eq!(read_text("speed,angle\n").unwrap().lines.len(), 0);
        let windows = read_text("speed;angle\r\n70;10\r\n71;\"11").unwrap();
        assert_eq!(windows.lines, [2, 3]);
        assert_eq!(windows.columns[0], Some(vec![70.0, 71.0]));
    }
}
