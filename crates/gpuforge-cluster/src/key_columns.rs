//! Key columns of a batch: runs of one symbol, and times as i64.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Date32Type, Int64Type},
};
use datafusion::error::Result;
use gpuforge::frame::SymbolKey;

use crate::{
    error::ClusterError,
    spec::{Bound, is_text, value_type},
};

/// Runs of rows of one symbol, in batch order; a table without symbols is one run.
pub(crate) fn symbol_runs(
    bound: &Bound,
    batch: &RecordBatch,
) -> Result<Vec<(Option<SymbolKey>, Range<usize>)>> {
    let rows = batch.num_rows();
    if rows == 0 {
        return Ok(Vec::new());
    }
    let Some(at) = bound.symbol else { return Ok(vec![(None, 0..rows)]) };
    let column = batch.column(at);
    let column = match is_text(column.data_type()) {
        true => cast(column, &DataType::Utf8View)?,
        false => cast(column, &DataType::Int64)?,
    };
    let found = if column.null_count() > 0 {
        None
    } else if let Some(texts) = column.as_string_view_opt() {
        let views = texts.views();
        // Equal views are equal strings; strings are compared only where views differ.
        let key = |row: usize| {
            Some(texts.value(row)).filter(|t| !t.is_empty()).map(|t| SymbolKey::Text(t.to_owned()))
        };
        split_runs(rows, |row| same_as_previous(views, row), key)
    } else {
        let numbers = column.as_primitive::<Int64Type>().values();
        split_runs(
            rows,
            |row| same_as_previous(numbers, row),
            |row| numbers.get(row).map(|n| SymbolKey::Number(*n)),
        )
    };
    let column = bound.name(at).to_owned();
    Ok(found.ok_or(ClusterError::NullKey { what: "symbol", column, symbol: None })?)
}

/// Whether a value equals that of the previous row.
fn same_as_previous<T: PartialEq>(values: &[T], row: usize) -> bool {
    values.get(row).zip(values.get(row.wrapping_sub(1))).is_some_and(|(a, b)| a == b)
}

/// Splits rows into runs of equal keys; `None` if a row has no key. `same_as_previous` may give false negatives.
fn split_runs(
    rows: usize,
    same_as_previous: impl Fn(usize) -> bool,
    key: impl Fn(usize) -> Option<SymbolKey>,
) -> Option<Vec<(Option<SymbolKey>, Range<usize>)>> {
    let mut all: Vec<(Option<SymbolKey>, Range<usize>)> = Vec::new();
    for row in 0..rows {
        if row > 0 && same_as_previous(row) {
            continue;
        }
        let now = key(row)?;
        if let Some((last, range)) = all.last_mut() {
            range.end = row;
            if last.as_ref() == Some(&now) {
                continue;
            }
        }
        all.push((Some(now), row..rows));
    }
    if let Some((_, range)) = all.last_mut() {
        range.end = rows;
    }
    Some(all)
}

/// Times in the unit of their column; null is an error.
pub(crate) fn times(bound: &Bound, column: &ArrayRef) -> Result<Vec<i64>> {
    let column = cast(column, value_type(column.data_type()))?;
    if column.null_count() > 0 {
        let column = bound.name(bound.time).to_owned();
        return Err(ClusterError::NullKey { what: "time", column, symbol: None }.into());
    }
    if let Some(days) = column.as_primitive_opt::<Date32Type>() {
        return Ok(days.values().iter().map(|d| i64::from(*d)).collect());
    }
    let numbers = cast(&column, &DataType::Int64)?;
    Ok(numbers.as_primitive::<Int64Type>().values().to_vec())
}

/// Bytes of a batch's rows, counting only their slices of shared buffers.
pub(crate) fn bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(size).sum()
}

fn size(column: &ArrayRef) -> usize {
    column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
}

/// Symbol name for error messages.
pub(crate) fn display_symbol(key: &Option<SymbolKey>) -> Option<String> {
    key.as_ref().map(ToString::to_string)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn runs_split_where_the_key_changes() {
        let keys = [1, 1, 2, 2, 2, 1];
        let key = |row: usize| keys.get(row).map(|k| SymbolKey::Number(*k));
        let ranges = |found: Vec<(Option<SymbolKey>, Range<usize>)>| {
            found.into_iter().map(|(_, r)| r).collect::<Vec<_>>()
        };
        assert_eq!(ranges(split_runs(6, |_| false, key).unwrap()), [0..2, 2..5, 5..6]);
        assert_eq!(
            ranges(split_runs(6, |row| keys.get(row) == keys.get(row - 1), key).unwrap()),
            [0..2, 2..5, 5..6]
        );
        assert_eq!(split_runs(2, |_| false, |row| (row == 0).then_some(SymbolKey::Number(1))), None);
    }
}
