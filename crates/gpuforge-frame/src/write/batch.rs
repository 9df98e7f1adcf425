//! Which rows wait to be encoded? Columns that grow by pieces of symbols until they make a batch.

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

use super::Values;
use crate::{
    bars::{Key, Layout},
    error::FrameError,
};

/// Cells of one column.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    values: Vec<f64>,
    /// Rows without a value, in order, apart from each other.
    nulls: Vec<Range<usize>>,
}

/// Rows that wait.
pub(crate) struct Batch {
    layout: Layout,
    schema: Arc<Schema>,
    single: bool,
    rows: usize,
    /// Symbols, and the row after their last.
    symbols: Vec<(Option<Key>, usize)>,
    times: Vec<i64>,
    cells: Vec<Cells>,
}

impl Batch {
    pub(crate) fn new(layout: Layout, schema: Arc<Schema>, columns: usize, single: bool) -> Self {
        let cells = (0..columns).map(|_| Cells::default()).collect();
        Batch { layout, schema, single, rows: 0, symbols: Vec::new(), times: Vec::new(), cells }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// How many rows these are, if they fit this file.
    pub(crate) fn check(
        &self,
        symbol: Option<&Key>,
        times: &[i64],
        values: &[Values<'_>],
    ) -> Result<usize, FrameError> {
        let wrong = |what: String| Err(FrameError::Usage(what));
        if values.len() != self.cells.len() {
            return wrong(format!("{} columns given, the file has {}", values.len(), self.cells.len()));
        }
        let rows = match &self.layout.time {
            Some(_) => times.len(),
            None => values.first().map_or(0, |v| v.values.len()),
        };
        if let Some((name, odd)) = self.names().zip(values).find(|(_, v)| v.values.len() != rows) {
            return wrong(format!("column `{name}` has {} rows, others have {rows}", odd.values.len()));
        }
        match (self.layout.symbol.as_ref().map(|c| &c.kind), symbol) {
            (Some(DataType::Utf8), Some(Key::Number(n))) => {
                return wrong(format!("symbol {n} is a number, the file's are text"));
            }
            (Some(DataType::Int64), Some(Key::Text(t))) => {
                return wrong(format!("symbol `{t}` is text, the file's are numbers"));
            }
            _ => (),
        }
        let dates = matches!(self.layout.time.as_ref().map(|c| &c.kind), Some(DataType::Date32));
        match times.iter().find(|t| dates && i32::try_from(**t).is_err()) {
            Some(day) => wrong(format!("day {day} does not fit the calendar of the file")),
            None => Ok(rows),
        }
    }

    /// Names of the columns after the keys.
    fn names(&self) -> impl Iterator<Item = &str> {
        let keys = self.schema.fields().len() - self.cells.len();
        self.schema.fields().iter().skip(keys).map(|f| f.name().as_str())
    }

    /// Appends these of the rows, which [`Batch::check`] has seen.
    pub(crate) fn push(
        &mut self,
        symbol: Option<&Key>,
        times: &[i64],
        values: &[Values<'_>],
        rows: Range<usize>,
    ) {
        let base = self.rows;
        self.rows += rows.len();
        match self.symbols.last_mut() {
            Some((last, end)) if last.as_ref() == symbol => *end = self.rows,
            _ => self.symbols.push((symbol.cloned(), self.rows)),
        }
        self.times.extend_from_slice(times.get(rows.clone()).unwrap_or_default());
        let fill = |(cells, values): (&mut Cells, &Values<'_>)| cells.push(values, rows.clone(), base);
        // A hand-over to threads costs as much as copying some tens of kilobytes.
        match rows.len() * values.len() > 1 << 16 {
            true => self.cells.par_iter_mut().zip(values).for_each(fill),
            false => self.cells.iter_mut().zip(values).for_each(fill),
        }
    }

    /// Takes the rows out: the keys as arrays, in the layout's order, and the cells of the columns.
    pub(crate) fn take(&mut self) -> (Vec<ArrayRef>, Vec<Cells>) {
        let symbols = self.layout.symbol.as_ref().map(|column| symbols(&self.symbols, &column.kind));
        let times = std::mem::take(&mut self.times);
        let times = self.layout.time.as_ref().map(|column| instants(times, &column.kind));
        let keys = match self.layout.time_first {
            true => times.into_iter().chain(symbols).collect(),
            false => symbols.into_iter().chain(times).collect(),
        };
        self.symbols.clear();
        self.rows = 0;
        let empty = || Cells { values: Vec::new(), nulls: Vec::new() };
        let cells = self.cells.iter_mut().map(|cells| std::mem::replace(cells, empty())).collect();
        (keys, cells)
    }

    /// Takes the rows out as one record batch.
    pub(crate) fn record(&mut self) -> Result<RecordBatch, ArrowError> {
        let single = self.single;
        let (mut columns, cells) = self.take();
        columns.extend(cells.into_iter().map(|cells| cells.array(single)));
        RecordBatch::try_new(self.schema.clone(), columns)
    }

    /// Are columns written in single precision?
    pub(crate) fn single(&self) -> bool {
        self.single
    }
}

impl Cells {
    fn push(&mut self, from: &Values<'_>, rows: Range<usize>, base: usize) {
        let null = from.valid_from.clamp(rows.start, rows.end);
        if null > rows.start {
            // Whatever stands there is not the caller's word; zeros take no room when compressed.
            self.values.resize(base + null - rows.start, 0.0);
            self.nulls.push(base..base + null - rows.start);
        }
        self.values.extend_from_slice(from.values.get(null..rows.end).unwrap_or_default());
    }

    /// The whole column.
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
            true => Arc::new(Float32Array::new(narrow(&self.values), nulls)),
            false => Arc::new(Float64Array::new(ScalarBuffer::from(self.values), nulls)),
        }
    }

    /// The column in pieces that either have no nulls or nothing else: an encoder of Parquet writes each in one go, without
    /// a level for every row.
    pub(crate) fn pieces(self, single: bool) -> Vec<ArrayRef> {
        let rows = self.values.len();
        let whole = Cells { values: self.values, nulls: Vec::new() }.array(single);
        let (mut pieces, mut done) = (Vec::with_capacity(2 * self.nulls.len() + 1), 0);
        for range in self.nulls {
            if range.start > done {
                pieces.push(whole.slice(done, range.start - done));
            }
            pieces.push(arrow::array::new_null_array(whole.data_type(), range.len()));
            done = range.end;
        }
        if done < rows {
            pieces.push(whole.slice(done, rows - done));
        }
        pieces
    }
}

fn narrow(values: &[f64]) -> ScalarBuffer<f32> {
    values.iter().map(|v| *v as f32).collect::<Vec<f32>>().into()
}

fn symbols(runs: &[(Option<Key>, usize)], kind: &DataType) -> ArrayRef {
    let mut begin = 0;
    let lengths = runs.iter().map(|(key, end)| (key, end - std::mem::replace(&mut begin, *end)));
    if *kind == DataType::Int64 {
        let number = |key: &Option<Key>| match key {
            Some(Key::Number(number)) => Some(*number),
            _ => None,
        };
        let rows = lengths.flat_map(|(key, n)| std::iter::repeat_n(number(key), n));
        return Arc::new(Int64Array::from_iter(rows));
    }
    let mut text = StringBuilder::new();
    for (key, n) in lengths {
        match key {
            Some(Key::Text(symbol)) => (0..n).for_each(|_| text.append_value(symbol)),
            _ => (0..n).for_each(|_| text.append_null()),
        }
    }
    Arc::new(text.finish())
}

/// Times of the layout's kind, which the schema allowed.
fn instants(times: Vec<i64>, kind: &DataType) -> ArrayRef {
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
