//! CSV writer: row ranges formatted in parallel, concatenated in order.

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
    batch_builder::BatchBuilder,
    cell_format,
    output_target::{EncodeError, Sink},
};

/// Cells per parallel task.
const TASK_CELLS: usize = 1 << 17;

/// CSV encoder.
pub(crate) struct Csv {
    out: Sink,
    delimiter: u8,
}

impl Csv {
    pub(crate) fn new(mut out: Sink, schema: &Schema, delimiter: u8) -> Result<Self, EncodeError> {
        let mut header = Vec::new();
        for (i, field) in schema.fields().iter().enumerate() {
            if i > 0 {
                header.push(delimiter);
            }
            cell_format::quote(&mut header, field.name(), delimiter);
        }
        header.push(b'\n');
        out.write_all(&header)?;
        Ok(Csv { out, delimiter })
    }
}

impl Encoder for Csv {
    fn write(&mut self, batch: &mut BatchBuilder) -> Result<(), EncodeError> {
        let record = batch.record_batch()?;
        let step = (TASK_CELLS / record.num_columns().max(1)).max(1);
        let starts: Vec<usize> = (0..record.num_rows()).step_by(step).collect();
        let range = |start: &usize| *start..record.num_rows().min(start + step);
        let texts: Vec<Vec<u8>> = starts
            .par_iter()
            .map(|start| lines(&record, range(start), self.delimiter))
            .collect::<Result<_, _>>()?;
        for text in texts {
            self.out.write_all(&text)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), EncodeError> {
        Ok(self.out.flush()?)
    }
}

fn lines(record: &RecordBatch, rows: Range<usize>, delimiter: u8) -> Result<Vec<u8>, ArrowError> {
    let columns: Vec<Column<'_>> = record.columns().iter().map(Column::of).collect::<Result<_, _>>()?;
    let mut out = Vec::with_capacity(rows.len() * columns.len() * 12);
    for row in rows {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(delimiter);
            }
            column.write_cell(&mut out, row, delimiter);
        }
        out.push(b'\n');
    }
    Ok(out)
}

/// A column with its cell formatter.
enum Column<'a> {
    Text(&'a StringArray),
    Integer(&'a Int64Array),
    Date(&'a [i32]),
    /// Timestamps, units per second, suffix; in UTC or without a zone.
    Timestamp(&'a [i64], i64, &'static [u8]),
    /// Timestamps in a zone whose offset must be looked up.
    Zoned(ArrayFormatter<'a>),
    /// Floats, with a formatter for those that are not short decimals.
    Double(&'a Float64Array, ArrayFormatter<'a>),
    Single(&'a Float32Array, ArrayFormatter<'a>),
}

impl<'a> Column<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let formatter = || ArrayFormatter::try_new(array, &FormatOptions::new());
        let utc = |zone: &str| matches!(zone, "UTC" | "utc" | "Z" | "+00:00" | "Etc/UTC");
        Ok(match array.data_type() {
            DataType::Utf8 => Column::Text(array.as_string()),
            DataType::Int64 => Column::Integer(array.as_primitive::<Int64Type>()),
            DataType::Date32 => Column::Date(array.as_primitive::<Date32Type>().values()),
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
                Column::Timestamp(values, per_second, suffix)
            }
            _ => Column::Zoned(formatter()?),
        })
    }

    /// Writes one cell. Null and NaN are empty. Floats are the shortest round-trip text; whole ones keep `.0`, so that type
    /// inference over the first rows does not take the column for integers.
    fn write_cell(&self, out: &mut Vec<u8>, row: usize, delimiter: u8) {
        match self {
            Column::Text(array) if array.is_valid(row) => {
                cell_format::quote(out, array.value(row), delimiter)
            }
            Column::Integer(array) if array.is_valid(row) => cell_format::integer(out, array.value(row)),
            Column::Double(array, formatter) if array.is_valid(row) => {
                let value = array.value(row);
                if !value.is_nan() && !cell_format::short_decimal(out, value) {
                    display(out, formatter, row);
                }
            }
            Column::Single(array, formatter) if array.is_valid(row) && !array.value(row).is_nan() => {
                display(out, formatter, row);
            }
            Column::Date(days) => {
                days.get(row).into_iter().for_each(|day| cell_format::date(out, i64::from(*day)))
            }
            Column::Timestamp(times, per_second, suffix) => {
                times.get(row).into_iter().for_each(|time| cell_format::timestamp(out, *time, *per_second));
                out.extend_from_slice(suffix);
            }
            Column::Zoned(formatter) => display(out, formatter, row),
            _ => (),
        }
    }
}

/// `fmt::Write` into bytes.
struct ByteWriter<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for ByteWriter<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn display(out: &mut Vec<u8>, formatter: &ArrayFormatter<'_>, row: usize) {
    // Writing to memory cannot fail; a time beyond the calendar leaves its cell empty.
    let _ = formatter.value(row).write(&mut ByteWriter(out));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn written(array: ArrayRef) -> String {
        let mut out = Vec::new();
        Column::of(&array).map(|column| column.write_cell(&mut out, 0, b',')).unwrap_or_default();
        String::from_utf8(out).unwrap_or_default()
    }

    fn double(value: f64) -> String {
        written(Arc::new(Float64Array::from(vec![value])))
    }

    fn single(value: f32) -> String {
        written(Arc::new(Float32Array::from(vec![value])))
    }

    #[test]
    fn floats_are_shortest_round_trip_text() {
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
        fn every_float_round_trips(bits in any::<u64>()) {
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
