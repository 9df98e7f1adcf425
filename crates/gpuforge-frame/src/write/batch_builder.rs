//! Record batch builder: columns with null ranges, appended symbol by symbol.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{
        Array as _, ArrayRef, BooleanBufferBuilder, Date32Array, Float32Array, Float64Array, Int64Array,
        PrimitiveArray, RecordBatch, StringBuilder,
    },
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{
        DataType, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
    error::ArrowError,
};
use rayon::prelude::*;

use super::ColumnValues;
use crate::{
    bars::{KeySchema, SymbolKey},
    error::FrameError,
};

/// Builder of one column.
#[derive(Debug, Default)]
pub(crate) struct ColumnBuilder {
    values: Vec<f64>,
    /// Null ranges, ascending and disjoint.
    nulls: Vec<Range<usize>>,
}

/// Builder of a batch.
pub(crate) struct BatchBuilder {
    layout: KeySchema,
    schema: Arc<Schema>,
    single: bool,
    rows: usize,
    /// Run-length encoded symbols: key and end row.
    symbols: Vec<(Option<SymbolKey>, usize)>,
    times: Vec<i64>,
    columns: Vec<ColumnBuilder>,
}

impl BatchBuilder {
    pub(crate) fn new(layout: KeySchema, schema: Arc<Schema>, columns: usize, single: bool) -> Self {
        let columns = (0..columns).map(|_| ColumnBuilder::default()).collect();
        BatchBuilder { layout, schema, single, rows: 0, symbols: Vec::new(), times: Vec::new(), columns }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Validates rows against the schema; returns their number.
    pub(crate) fn check(
        &self,
        symbol: Option<&SymbolKey>,
        times: &[i64],
        values: &[ColumnValues<'_>],
    ) -> Result<usize, FrameError> {
        let wrong = |what: String| Err(FrameError::Usage(what));
        if values.len() != self.columns.len() {
            return wrong(format!("{} columns given, the file has {}", values.len(), self.columns.len()));
        }
        let rows = match &self.layout.time {
            Some(_) => times.len(),
            None => values.first().map_or(0, |v| v.values.len()),
        };
        if let Some((name, odd)) = self.names().zip(values).find(|(_, v)| v.values.len() != rows) {
            return wrong(format!("column `{name}` has {} rows, others have {rows}", odd.values.len()));
        }
        match (self.layout.symbol.as_ref().map(|c| &c.data_type), symbol) {
            (Some(DataType::Utf8), Some(SymbolKey::Number(n))) => {
                return wrong(format!("symbol {n} is a number, the file's are text"));
            }
            (Some(DataType::Int64), Some(SymbolKey::Text(t))) => {
                return wrong(format!("symbol `{t}` is text, the file's are numbers"));
            }
            _ => (),
        }
        let dates = matches!(self.layout.time.as_ref().map(|c| &c.data_type), Some(DataType::Date32));
        match times.iter().find(|t| dates && i32::try_from(**t).is_err()) {
            Some(day) => wrong(format!("day {day} does not fit the calendar of the file")),
            None => Ok(rows),
        }
    }

    /// Names of the value columns.
    fn names(&self) -> impl Iterator<Item = &str> {
        let keys = self.schema.fields().len() - self.columns.len();
        self.schema.fields().iter().skip(keys).map(|f| f.name().as_str())
    }

    /// Appends rows validated by [`BatchBuilder::check`].
    pub(crate) fn push(
        &mut self,
        symbol: Option<&SymbolKey>,
        times: &[i64],
        values: &[ColumnValues<'_>],
        rows: Range<usize>,
    ) {
        let base = self.rows;
        self.rows += rows.len();
        match self.symbols.last_mut() {
            Some((last, end)) if last.as_ref() == symbol => *end = self.rows,
            _ => self.symbols.push((symbol.cloned(), self.rows)),
        }
        self.times.extend_from_slice(times.get(rows.clone()).unwrap_or_default());
        let fill = |(column, values): (&mut ColumnBuilder, &ColumnValues<'_>)| {
            column.push(values, rows.clone(), base)
        };
        // Dispatching to threads costs as much as copying some tens of kilobytes.
        match rows.len() * values.len() > 1 << 16 {
            true => self.columns.par_iter_mut().zip(values).for_each(fill),
            false => self.columns.iter_mut().zip(values).for_each(fill),
        }
    }

    /// Takes the rows out: key arrays in schema order, and the value columns.
    pub(crate) fn take(&mut self) -> (Vec<ArrayRef>, Vec<ColumnBuilder>) {
        let symbols =
            self.layout.symbol.as_ref().map(|column| symbol_array(&self.symbols, &column.data_type));
        let times = std::mem::take(&mut self.times);
        let times = self.layout.time.as_ref().map(|column| time_array(times, &column.data_type));
        let keys = match self.layout.time_first {
            true => times.into_iter().chain(symbols).collect(),
            false => symbols.into_iter().chain(times).collect(),
        };
        self.symbols.clear();
        self.rows = 0;
        let empty = || ColumnBuilder { values: Vec::new(), nulls: Vec::new() };
        let columns = self.columns.iter_mut().map(|column| std::mem::replace(column, empty())).collect();
        (keys, columns)
    }

    /// Takes the rows out as a record batch.
    pub(crate) fn record_batch(&mut self) -> Result<RecordBatch, ArrowError> {
        let single = self.single;
        let (mut arrays, columns) = self.take();
        arrays.extend(columns.into_iter().map(|column| column.array(single)));
        RecordBatch::try_new(self.schema.clone(), arrays)
    }

    /// Are columns written as f32?
    pub(crate) fn single(&self) -> bool {
        self.single
    }
}

impl ColumnBuilder {
    fn push(&mut self, from: &ColumnValues<'_>, rows: Range<usize>, base: usize) {
        let null = from.valid_from.clamp(rows.start, rows.end);
        if null > rows.start {
            // Null slots hold zeros, which compress to nothing.
            self.values.resize(base + null - rows.start, 0.0);
            self.nulls.push(base..base + null - rows.start);
        }
        self.values.extend_from_slice(from.values.get(null..rows.end).unwrap_or_default());
    }

    /// The column as one array.
    pub(crate) fn array(self, single: bool) -> ArrayRef {
        let nulls = (!self.nulls.is_empty()).then(|| {
            let mut bits = BooleanBufferBuilder::new(self.values.len());
            for range in &self.nulls {
                bits.append_n(range.start - bits.len(), true);
                bits.append_n(range.len(), false);
            }
            bits.append_n(self.values.len() - bits.len(), true);
            NullBuffer::new(bits.finish())
        });
        match single {
            true => Arc::new(Float32Array::new(to_f32(&self.values), nulls)),
            false => Arc::new(Float64Array::new(ScalarBuffer::from(self.values), nulls)),
        }
    }

    /// The column split into arrays that are either all valid or all null: the Parquet encoder writes each without a
    /// definition level per row.
    pub(crate) fn split_at_nulls(self, single: bool) -> Vec<ArrayRef> {
        let rows = self.values.len();
        let whole = ColumnBuilder { values: self.values, nulls: Vec::new() }.array(single);
        let (mut arrays, mut done) = (Vec::with_capacity(2 * self.nulls.len() + 1), 0);
        for range in self.nulls {
            if range.start > done {
                arrays.push(whole.slice(done, range.start - done));
            }
            arrays.push(arrow::array::new_null_array(whole.data_type(), range.len()));
            done = range.end;
        }
        if done < rows {
            arrays.push(whole.slice(done, rows - done));
        }
        arrays
    }
}

fn to_f32(values: &[f64]) -> ScalarBuffer<f32> {
    values.iter().map(|v| *v as f32).collect::<Vec<f32>>().into()
}

fn symbol_array(runs: &[(Option<SymbolKey>, usize)], kind: &DataType) -> ArrayRef {
    let mut begin = 0;
    let lengths = runs.iter().map(|(key, end)| (key, end - std::mem::replace(&mut begin, *end)));
    if *kind == DataType::Int64 {
        let number = |key: &Option<SymbolKey>| match key {
            Some(SymbolKey::Number(number)) => Some(*number),
            _ => None,
        };
        let rows = lengths.flat_map(|(key, n)| std::iter::repeat_n(number(key), n));
        return Arc::new(Int64Array::from_iter(rows));
    }
    let mut text = StringBuilder::new();
    for (key, n) in lengths {
        match key {
            Some(SymbolKey::Text(symbol)) => (0..n).for_each(|_| text.append_value(symbol)),
            _ => (0..n).for_each(|_| text.append_null()),
        }
    }
    Arc::new(text.finish())
}

/// Time column of the schema's type.
fn time_array(times: Vec<i64>, kind: &DataType) -> ArrayRef {
    macro_rules! timestamps {
        ($unit:ty, $zone:expr) => {
            Arc::new(PrimitiveArray::<$unit>::new(times.into(), None).with_timezone_opt($zone.clone()))
        };
    }
    match kind {
        DataType::Date32 => Arc::new(Date32Array::from_iter_values(
            times.iter().map(|t| i32::try_from(*t).unwrap_or_default()),
        )),
        DataType::Timestamp(TimeUnit::Second, zone) => timestamps!(TimestampSecondType, zone),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => timestamps!(TimestampMillisecondType, zone),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => timestamps!(TimestampMicrosecondType, zone),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => timestamps!(TimestampNanosecondType, zone),
        _ => Arc::new(Int64Array::from(times)),
    }
}
