//! Record batch conversion: Arrow arrays of any numeric, text or time type (dictionaries too) to the columns of a chunk.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Date32Type, Float64Type, Int64Type, SchemaRef, TimeUnit},
};

use super::{
    chunk::{CHUNK_ROWS, Chunk, ReadPlan, ReadState, VALUE_ROLES, quote_cell},
    parse_float::parse_float,
    time::{self, TimeInference},
    time_of_day,
};
use crate::{
    column_roles::{Role, ValueClass, list},
    error::FrameError,
};

/// Values sampled to infer what a text or integer column holds.
const SAMPLE_ROWS: usize = 1000;

/// Use of an Arrow type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeClass {
    /// Integers.
    Integer,
    /// Floats and decimals.
    Number,
    /// Text.
    Text,
    /// Binary. As a symbol or a time it may be text: old writers do not annotate UTF8. Never numeric.
    Bytes,
    /// Dates and timestamps.
    Time,
    /// Times of day.
    TimeOfDay,
    /// Not usable.
    Other,
}

/// Classifies a type.
pub(super) fn class(kind: &DataType) -> TypeClass {
    use DataType as D;
    match kind {
        kind if kind.is_integer() => TypeClass::Integer,
        D::Float16 | D::Float32 | D::Float64 | D::Null => TypeClass::Number,
        D::Decimal32(..) | D::Decimal64(..) | D::Decimal128(..) | D::Decimal256(..) => TypeClass::Number,
        D::Utf8 | D::LargeUtf8 | D::Utf8View => TypeClass::Text,
        D::Binary | D::LargeBinary | D::BinaryView => TypeClass::Bytes,
        D::Time32(_) | D::Time64(_) => TypeClass::TimeOfDay,
        D::Date32 | D::Date64 | D::Timestamp(..) => TypeClass::Time,
        D::Dictionary(_, values) => class(values),
        _ => TypeClass::Other,
    }
}

/// Value type of a dictionary, else the type itself.
fn value_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => value_type(values),
        other => other,
    }
}

/// Time type of a typed column; `None` if text values must be sampled first.
pub(super) fn time_kind(kind: &DataType) -> Option<DataType> {
    match (class(kind), value_type(kind)) {
        (TypeClass::Integer, _) => Some(DataType::Int64),
        // A Date64 counts milliseconds, and not every writer keeps them at midnight.
        (_, DataType::Date64) => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        (TypeClass::Time, other) => Some(other.clone()),
        _ => None,
    }
}

/// Rejects columns whose type does not fit their role.
pub(super) fn check(plan: &ReadPlan, schema: &SchemaRef) -> Result<(), FrameError> {
    let roles = VALUE_ROLES.into_iter().chain([Role::Symbol, Role::Time, Role::TimeOfDay]);
    for role in roles {
        let Some(field) = plan.columns.get(role).and_then(|at| schema.fields().get(at)) else { continue };
        let (usable, wanted) = match (role, class(field.data_type())) {
            (Role::Symbol, class) => (
                matches!(class, TypeClass::Text | TypeClass::Bytes | TypeClass::Integer),
                "text or whole numbers",
            ),
            (Role::Time, class) => (
                matches!(class, TypeClass::Time | TypeClass::Integer | TypeClass::Text | TypeClass::Bytes),
                "a date, a timestamp, whole numbers or text",
            ),
            (Role::TimeOfDay, class) => {
                let usable = matches!(
                    class,
                    TypeClass::TimeOfDay | TypeClass::Integer | TypeClass::Text | TypeClass::Bytes
                );
                (usable, "a time of day, whole numbers or text")
            }
            (_, class) => {
                (matches!(class, TypeClass::Number | TypeClass::Integer | TypeClass::Text), "numbers")
            }
        };
        if !usable {
            return Err(FrameError::Column {
                path: plan.path.clone(),
                message: format!(
                    "`{}` is {}{}, and the {} must be {wanted}",
                    field.name(),
                    field.data_type(),
                    // In Parquet's terms: the missing annotation.
                    if class(field.data_type()) == TypeClass::Bytes {
                        " (BYTE_ARRAY without UTF8 or DECIMAL)"
                    } else {
                        ""
                    },
                    role.name()
                ),
                found: list(&plan.names),
                hint: format!("--column {}=NAME", role.name()),
            });
        }
    }
    Ok(())
}

/// An error of the decoder.
pub(super) fn damaged(plan: &ReadPlan, error: impl std::fmt::Display) -> FrameError {
    let message = format!("the file is damaged or incomplete: {error}\n  hint: copy or write it again");
    FrameError::Format { path: plan.path.clone(), message }
}

/// Time inference over the first values of a column, as text.
pub(super) fn infer_time(column: &ArrayRef) -> TimeInference {
    let mut inference = TimeInference::default();
    if let Ok(texts) = cast(column, &DataType::LargeUtf8)
        && let Some(texts) = texts.as_string_opt::<i64>()
    {
        texts.iter().flatten().take(SAMPLE_ROWS).for_each(|text| inference.add_cell(text.as_bytes()));
    }
    inference
}

/// Value class by type; `None` if values must be sampled.
pub(super) fn value_class(kind: &DataType) -> Option<ValueClass> {
    match class(kind) {
        TypeClass::Time => match value_type(kind) {
            DataType::Date32 => Some(ValueClass::Dates { clean: true }),
            _ => Some(ValueClass::Timestamps { clean: true }),
        },
        TypeClass::TimeOfDay => Some(ValueClass::TimesOfDay),
        TypeClass::Number | TypeClass::Other => Some(ValueClass::Other),
        TypeClass::Integer | TypeClass::Text | TypeClass::Bytes => None,
    }
}

/// Selection of the rows that parsed, built while columns are converted.
struct RowFilter<'a> {
    plan: &'a ReadPlan,
    first: u64,
    dropped: Vec<bool>,
}

impl RowFilter<'_> {
    /// Rejects a row.
    fn bad(&mut self, at: usize, role: Role, message: &str, state: &mut ReadState) -> Result<(), FrameError> {
        if let Some(dropped) = self.dropped.get_mut(at)
            && !*dropped
        {
            *dropped = true;
            state.bad(self.plan, self.first + at as u64, self.plan.name(role), message)?;
        }
        Ok(())
    }
}

/// Converts up to [`CHUNK_ROWS`] rows of a batch. `positions` is the projection (file positions of the batch's columns),
/// `first` the number of its first row.
pub(super) fn to_chunk(
    batch: &RecordBatch,
    positions: &[usize],
    plan: &ReadPlan,
    first: u64,
    state: &mut ReadState,
) -> Result<Chunk, FrameError> {
    let rows = batch.num_rows().min(CHUNK_ROWS);
    let mut filter = RowFilter { plan, first, dropped: vec![false; rows] };
    let mut chunk = Chunk::default();
    let column = |role: Role| {
        let at = plan.columns.get(role)?;
        batch.columns().get(positions.iter().position(|p| *p == at)?)
    };
    match (column(Role::Time), column(Role::TimeOfDay)) {
        (Some(days), Some(of_day)) => chunk.time = joined_times(days, of_day, &mut filter, state)?,
        (Some(array), None) => chunk.time = times(array, &mut filter, state)?,
        _ => {}
    }
    for (role, values) in VALUE_ROLES.iter().zip(&mut chunk.values) {
        if let Some(array) = column(*role) {
            *values = floats(array, *role, &mut filter, state)?;
        }
    }
    let symbols = match column(Role::Symbol) {
        Some(array) => symbols(array, &mut filter, state)?,
        None => vec![state.symbols.key(plan.symbol.clone()); rows],
    };
    chunk.row = (first..first + rows as u64).collect();
    if filter.dropped.contains(&true) {
        retain_rows(&mut chunk.time, &filter.dropped);
        retain_rows(&mut chunk.row, &filter.dropped);
        chunk.values.iter_mut().for_each(|values| retain_rows(values, &filter.dropped));
    }
    for (id, dropped) in symbols.iter().zip(&filter.dropped) {
        if !dropped {
            chunk.push_symbol(*id);
        }
    }
    chunk.finish(plan);
    Ok(chunk)
}

/// Removes dropped rows from a column.
fn retain_rows<T>(column: &mut Vec<T>, dropped: &[bool]) {
    let mut marks = dropped.iter();
    column.retain(|_| !marks.next().copied().unwrap_or(false));
}

/// Casts any text type to LargeUtf8.
fn texts(array: &ArrayRef, plan: &ReadPlan) -> Result<ArrayRef, FrameError> {
    cast(array, &DataType::LargeUtf8).map_err(|e| damaged(plan, e))
}

/// Numeric column of any type; null is NaN.
fn floats(
    array: &ArrayRef,
    role: Role,
    filter: &mut RowFilter<'_>,
    state: &mut ReadState,
) -> Result<Vec<f64>, FrameError> {
    if class(array.data_type()) == TypeClass::Text {
        let texts = texts(array, filter.plan)?;
        let mut values = Vec::with_capacity(texts.len());
        for (at, text) in texts.as_string_opt::<i64>().into_iter().flatten().enumerate() {
            let text = text.unwrap_or_default().as_bytes();
            let value = parse_float(text);
            if value.is_none() && !filter.plan.or_nan.contains(&role) {
                filter.bad(at, role, &format!("{} is not a number", quote_cell(text)), state)?;
            }
            values.push(value.unwrap_or(f64::NAN));
        }
        return Ok(values);
    }
    let floats = cast(array, &DataType::Float64).map_err(|e| damaged(filter.plan, e))?;
    let floats =
        floats.as_primitive_opt::<Float64Type>().ok_or_else(|| damaged(filter.plan, "no numbers"))?;
    Ok(match floats.null_count() {
        0 => floats.values().to_vec(),
        _ => floats.iter().map(|v| v.unwrap_or(f64::NAN)).collect(),
    })
}

/// Time column of any type, in the schema's unit.
fn times(
    array: &ArrayRef,
    filter: &mut RowFilter<'_>,
    state: &mut ReadState,
) -> Result<Vec<i64>, FrameError> {
    if matches!(class(array.data_type()), TypeClass::Text | TypeClass::Bytes) {
        return text_times(array, filter, state);
    }
    let plain = value_type(array.data_type()).clone();
    let decoded = cast(array, &plain).map_err(|e| damaged(filter.plan, e))?;
    let factor = state.time_encoding.factor(&plain);
    let numbers: Vec<Option<i64>> = match decoded.as_primitive_opt::<Date32Type>() {
        Some(days) => days.iter().map(|d| d.map(i64::from)).collect(),
        None => {
            let numbers = cast(&decoded, &DataType::Int64).map_err(|e| damaged(filter.plan, e))?;
            numbers.as_primitive_opt::<Int64Type>().into_iter().flatten().collect()
        }
    };
    let mut times = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.into_iter().enumerate() {
        let time = number.and_then(|n| n.checked_mul(factor));
        if time.is_none() {
            let why = if decoded.is_null(at) {
                "the time is missing"
            } else {
                "the time does not fit into 64 bits"
            };
            filter.bad(at, Role::Time, why, state)?;
        }
        times.push(time.unwrap_or(0));
    }
    Ok(times)
}

/// Date and time-of-day columns joined, each parsed as text.
fn joined_times(
    days: &ArrayRef,
    of_day: &ArrayRef,
    filter: &mut RowFilter<'_>,
    state: &mut ReadState,
) -> Result<Vec<i64>, FrameError> {
    let (days, of_day) = (texts(days, filter.plan)?, texts(of_day, filter.plan)?);
    let mut times = Vec::with_capacity(days.len());
    let pairs = days.as_string_opt::<i64>().into_iter().flatten();
    let pairs = pairs.zip(of_day.as_string_opt::<i64>().into_iter().flatten());
    for (at, (date, clock)) in pairs.enumerate() {
        let (date, clock) = (date.unwrap_or_default().as_bytes(), clock.unwrap_or_default().as_bytes());
        let nanos = time_of_day::parse(clock, filter.plan.of_day);
        let time = match (time_of_day::parse_day(date), nanos) {
            (Some(days), Some(nanos)) => state
                .time_encoding
                .encode(time_of_day::join(days, nanos))
                .map_err(|why| (Role::Time, format!("the time {why}"))),
            (None, _) => Err((Role::Time, format!("{} is not a date", quote_cell(date)))),
            (_, None) => Err((Role::TimeOfDay, format!("{} is not a time of day", quote_cell(clock)))),
        };
        if let Err((role, why)) = &time {
            filter.bad(at, *role, why, state)?;
        }
        times.push(time.unwrap_or(0));
    }
    Ok(times)
}

/// Times as text.
fn text_times(
    array: &ArrayRef,
    filter: &mut RowFilter<'_>,
    state: &mut ReadState,
) -> Result<Vec<i64>, FrameError> {
    let texts = texts(array, filter.plan)?;
    let mut times = Vec::with_capacity(texts.len());
    for (at, text) in texts.as_string_opt::<i64>().into_iter().flatten().enumerate() {
        let text = text.unwrap_or_default().as_bytes();
        let time = match time::parse(text) {
            Some(written) => {
                state.time_encoding.encode(written).map_err(|why| format!("{} {why}", quote_cell(text)))
            }
            None if text.is_empty() => Err("the time is missing".to_string()),
            None => Err(format!("{} is not a time", quote_cell(text))),
        };
        if let Err(why) = &time {
            filter.bad(at, Role::Time, why, state)?;
        }
        times.push(time.unwrap_or(0));
    }
    Ok(times)
}

/// Interned symbol ids.
fn symbols(
    array: &ArrayRef,
    filter: &mut RowFilter<'_>,
    state: &mut ReadState,
) -> Result<Vec<u32>, FrameError> {
    const MISSING: &str = "the symbol is missing";
    let mut ids = Vec::with_capacity(array.len());
    if matches!(class(array.data_type()), TypeClass::Text | TypeClass::Bytes) {
        let texts = texts(array, filter.plan)?;
        for (at, text) in texts.as_string_opt::<i64>().into_iter().flatten().enumerate() {
            match text.filter(|t| !t.is_empty()) {
                Some(text) => ids.push(state.symbols.text(text)),
                None => {
                    filter.bad(at, Role::Symbol, MISSING, state)?;
                    ids.push(0);
                }
            }
        }
        return Ok(ids);
    }
    let numbers = cast(array, &DataType::Int64).map_err(|e| damaged(filter.plan, e))?;
    for (at, number) in numbers.as_primitive_opt::<Int64Type>().into_iter().flatten().enumerate() {
        match number {
            Some(number) => ids.push(state.symbols.number(number)),
            None => {
                filter.bad(at, Role::Symbol, MISSING, state)?;
                ids.push(0);
            }
        }
    }
    Ok(ids)
}
