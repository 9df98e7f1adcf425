//! How does a batch become text? Ranges of rows on several threads, put together in their order.

use std::{io::Write as _, ops::Range};

use arrow::{
    array::{
        Array as _, ArrayRef, AsArray as _, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    },
    datatypes::{
        DataType, Date32Type, Float32Type, Float64Type, Int64Type, Schema, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use rayon::prelude::*;

use super::{
    Encoder,
    batch::Batch,
    place::{Sink, Stopped},
    text,
};

/// Cells that a thread formats before it takes the next piece of work.
const CELLS: usize = 1 << 17;

/// A file of text.
pub(crate) struct Csv {
    out: Sink,
    separator: u8,
}

impl Csv {
    pub(crate) fn new(mut out: Sink, schema: &Schema, separator: u8) -> Result<Self, Stopped> {
        let mut header = Vec::new();
        for (i, field) in schema.fields().iter().enumerate() {
            if i > 0 {
                header.push(separator);
            }
            text::quoted(&mut header, field.name(), separator);
        }
        header.push(b'\n');
        out.write_all(&header)?;
        Ok(Csv { out, separator })
    }
}

impl Encoder for Csv {
    fn write(&mut self, batch: &mut Batch) -> Result<(), Stopped> {
        let record = batch.record()?;
        let step = (CELLS / record.num_columns().max(1)).max(1);
        let starts: Vec<usize> = (0..record.num_rows()).step_by(step).collect();
        let range = |start: &usize| *start..record.num_rows().min(start + step);
        let texts: Vec<Vec<u8>> = starts
            .par_iter()
            .map(|start| lines(&record, range(start), self.separator))
            .collect::<Result<_, _>>()?;
        for text in texts {
            self.out.write_all(&text)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stopped> {
        Ok(self.out.flush()?)
    }
}

fn lines(record: &RecordBatch, rows: Range<usize>, separator: u8) -> Result<Vec<u8>, ArrowError> {
    let columns: Vec<Column<'_>> = record.columns().iter().map(Column::of).collect::<Result<_, _>>()?;
    let mut out = Vec::with_capacity(rows.len() * columns.len() * 12);
    for row in rows {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(separator);
            }
            column.cell(&mut out, row, separator);
        }
        out.push(b'\n');
    }
    Ok(out)
}

/// A column and how its cells are written.
enum Column<'a> {
    Text(&'a StringArray),
    Number(&'a Int64Array),
    Day(&'a [i32]),
    /// Times in a unit of which a second has so many; in UTC, or without a zone.
    Instant(&'a [i64], i64, &'static [u8]),
    /// Anything in a zone whose offset has to be looked up.
    Zoned(ArrayFormatter<'a>),
    /// Numbers, and how those are written that are not short.
    Double(&'a Float64Array, ArrayFormatter<'a>),
    Single(&'a Float32Array, ArrayFormatter<'a>),
}

impl<'a> Column<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let formatter = || ArrayFormatter::try_new(array, &FormatOptions::new());
        let utc = |zone: &str| matches!(zone, "UTC" | "utc" | "Z" | "+00:00" | "Etc/UTC");
        Ok(match array.data_type() {
            DataType::Utf8 => Column::Text(array.as_string()),
            DataType::Int64 => Column::Number(array.as_primitive::<Int64Type>()),
            DataType::Date32 => Column::Day(array.as_primitive::<Date32Type>().values()),
            DataType::Float64 => Column::Double(array.as_primitive::<Float64Type>(), formatter()?),
            DataType::Float32 => Column::Single(array.as_primitive::<Float32Type>(), formatter()?),
            DataType::Timestamp(unit, zone) if zone.as_deref().is_none_or(utc) => {
                let suffix: &[u8] = if zone.is_some() { b"Z" } else { b"" };
                let (values, per_second) = match unit {
                    TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().values(), 1),
                    TimeUnit::Millisecond => {
                        (array.as_primitive::<TimestampMillisecondType>().values(), 1000)
                    }
                    TimeUnit::Microsecond => {
                        (array.as_primitive::<TimestampMicrosecondType>().values(), 1_000_000)
                    }
                    TimeUnit::Nanosecond => {
                        (array.as_primitive::<TimestampNanosecondType>().values(), 1_000_000_000)
                    }
                };
                Column::Instant(values, per_second, suffix)
            }
            _ => Column::Zoned(formatter()?),
        })
    }

    /// Writes one cell. A null is empty, and so is NaN. Other numbers are the shortest text that reads back to the same
    /// bits; whole ones keep `.0`, so that who guesses types from the first rows does not take a column of floats for one
    /// of integers.
    fn cell(&self, out: &mut Vec<u8>, row: usize, separator: u8) {
        match self {
            Column::Text(array) if array.is_valid(row) => text::quoted(out, array.value(row), separator),
            Column::Number(array) if array.is_valid(row) => text::number(out, array.value(row)),
            Column::Double(array, formatter) if array.is_valid(row) => {
                let value = array.value(row);
                if !value.is_nan() && !text::decimal(out, value) {
                    display(out, formatter, row);
                }
            }
            Column::Single(array, formatter) if array.is_valid(row) && !array.value(row).is_nan() => {
                display(out, formatter, row);
            }
            Column::Day(days) => days.get(row).into_iter().for_each(|day| text::date(out, i64::from(*day))),
            Column::Instant(times, per_second, suffix) => {
                times.get(row).into_iter().for_each(|time| text::instant(out, *time, *per_second));
                out.extend_from_slice(suffix);
            }
            Column::Zoned(formatter) => display(out, formatter, row),
            _ => (),
        }
    }
}

/// What a formatter writes to.
struct Letters<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Letters<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn display(out: &mut Vec<u8>, formatter: &ArrayFormatter<'_>, row: usize) {
    // Memory takes what it is given; a time beyond the calendar leaves its cell empty.
    let _ = formatter.value(row).write(&mut Letters(out));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn written(array: ArrayRef) -> String {
        let mut out = Vec::new();
        Column::of(&array).map(|column| column.cell(&mut out, 0, b',')).unwrap_or_default();
        String::from_utf8(out).unwrap_or_default()
    }

    fn double(value: f64) -> String {
        written(Arc::new(Float64Array::from(vec![value])))
    }

    fn single(value: f32) -> String {
        written(Arc::new(Float32Array::from(vec![value])))
    }

    #[test]
    fn numbers() {
        for (value, expected) in [
            (1.5, "1.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.00012, "0.00012"),
            (1e300, "1e300"),
            (1e15, "1000000000000000.0"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, ""),
        ] {
            assert_eq!(double(value), expected);
        }
        assert_eq!([single(0.1), single(100.0), single(f32::NAN)], ["0.1", "100.0", ""]);
    }

    proptest! {
        #[test]
        fn every_number_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            let narrow = f32::from_bits(bits as u32);
            match value.is_nan() {
                true => prop_assert_eq!(double(value), ""),
                false => prop_assert_eq!(double(value).parse::<f64>().map(f64::to_bits), Ok(bits)),
            }
            match narrow.is_nan() {
                true => prop_assert_eq!(single(narrow), ""),
                false => prop_assert_eq!(single(narrow).parse::<f32>().map(f32::to_bits), Ok(bits as u32)),
            }
        }
    }
}
