//! What do typed columns mean? Arrow arrays of any number, text or time type to the columns of a chunk.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Date32Type, Float64Type, Int64Type, SchemaRef, TimeUnit},
};

use super::{
    chunk::{Chunk, Intake, Plan, ROWS, VALUES, shown},
    number::number,
    time::{self, Look},
    time_of_day,
};
use crate::{
    error::FrameError,
    names::{Role, Values, list},
};

/// Values that are looked at to tell what a column of text or whole numbers holds.
const LOOKS: usize = 1000;

/// What a type can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Whole numbers.
    Integer,
    /// Other numbers.
    Number,
    /// Text.
    Text,
    /// Bytes without a meaning. As a symbol or a time they may be text: old writers do not say so. Numbers they are not.
    Bytes,
    /// Dates and timestamps.
    Time,
    /// Times of day.
    TimeOfDay,
    /// Nothing here.
    Other,
}

/// The class of a type.
pub(super) fn class(kind: &DataType) -> Class {
    use DataType as D;
    match kind {
        kind if kind.is_integer() => Class::Integer,
        D::Float16 | D::Float32 | D::Float64 | D::Null => Class::Number,
        D::Decimal32(..) | D::Decimal64(..) | D::Decimal128(..) | D::Decimal256(..) => Class::Number,
        D::Utf8 | D::LargeUtf8 | D::Utf8View => Class::Text,
        D::Binary | D::LargeBinary | D::BinaryView => Class::Bytes,
        D::Time32(_) | D::Time64(_) => Class::TimeOfDay,
        D::Date32 | D::Date64 | D::Timestamp(..) => Class::Time,
        D::Dictionary(_, values) => class(values),
        _ => Class::Other,
    }
}

/// The type inside a dictionary.
fn inner(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => inner(values),
        other => other,
    }
}

/// The type that times of a typed column are kept in; `None` if texts must be looked at first.
pub(super) fn time_kind(kind: &DataType) -> Option<DataType> {
    match (class(kind), inner(kind)) {
        (Class::Integer, _) => Some(DataType::Int64),
        // A Date64 counts milliseconds, and not every writer keeps them at midnight.
        (_, DataType::Date64) => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        (Class::Time, other) => Some(other.clone()),
        _ => None,
    }
}

/// Refuses columns whose type cannot be what they are to be.
pub(super) fn check(plan: &Plan, schema: &SchemaRef) -> Result<(), FrameError> {
    let roles = VALUES.into_iter().chain([Role::Symbol, Role::Time, Role::TimeOfDay]);
    for role in roles {
        let Some(field) = plan.columns.get(role).and_then(|at| schema.fields().get(at)) else { continue };
        let (usable, wanted) = match (role, class(field.data_type())) {
            (Role::Symbol, class) => {
                (matches!(class, Class::Text | Class::Bytes | Class::Integer), "text or whole numbers")
            }
            (Role::Time, class) => (
                matches!(class, Class::Time | Class::Integer | Class::Text | Class::Bytes),
                "a date, a timestamp, whole numbers or text",
            ),
            (Role::TimeOfDay, class) => {
                let usable = matches!(class, Class::TimeOfDay | Class::Integer | Class::Text | Class::Bytes);
                (usable, "a time of day, whole numbers or text")
            }
            (_, class) => (matches!(class, Class::Number | Class::Integer | Class::Text), "numbers"),
        };
        if !usable {
            return Err(FrameError::Column {
                path: plan.path.clone(),
                message: format!(
                    "`{}` is {}{}, and the {} must be {wanted}",
                    field.name(),
                    field.data_type(),
                    // What Parquet calls it, and what is missing.
                    if class(field.data_type()) == Class::Bytes {
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
pub(super) fn damaged(plan: &Plan, error: impl std::fmt::Display) -> FrameError {
    let message = format!("the file is damaged or incomplete: {error}\n  hint: copy or write it again");
    FrameError::Format { path: plan.path.clone(), message }
}

/// What the first values of a column look like, written as text.
pub(super) fn look(column: &ArrayRef) -> Look {
    let mut look = Look::default();
    if let Ok(texts) = cast(column, &DataType::LargeUtf8)
        && let Some(texts) = texts.as_string_opt::<i64>()
    {
        texts.iter().flatten().take(LOOKS).for_each(|text| look.cell(text.as_bytes()));
    }
    look
}

/// What a type says of its values; `None` if they must be looked at.
pub(super) fn values(kind: &DataType) -> Option<Values> {
    match class(kind) {
        Class::Time => match inner(kind) {
            DataType::Date32 => Some(Values::Dates { clean: true }),
            _ => Some(Values::Moments { clean: true }),
        },
        Class::TimeOfDay => Some(Values::TimesOfDay),
        Class::Number | Class::Other => Some(Values::Other),
        Class::Integer | Class::Text | Class::Bytes => None,
    }
}

/// Rows that are dropped, found while columns are read.
struct Sieve<'a> {
    plan: &'a Plan,
    first: u64,
    dropped: Vec<bool>,
}

impl Sieve<'_> {
    /// A row that cannot be used.
    fn bad(&mut self, at: usize, role: Role, message: &str, intake: &mut Intake) -> Result<(), FrameError> {
        if let Some(dropped) = self.dropped.get_mut(at)
            && !*dropped
        {
            *dropped = true;
            intake.bad(self.plan, self.first + at as u64, self.plan.name(role), message)?;
        }
        Ok(())
    }
}

/// The columns of a batch, at most [`ROWS`] rows of it. `positions` are the file's positions of the batch's columns,
/// `first` is the number of its first row.
pub(super) fn chunk(
    batch: &RecordBatch,
    positions: &[usize],
    plan: &Plan,
    first: u64,
    intake: &mut Intake,
) -> Result<Chunk, FrameError> {
    let rows = batch.num_rows().min(ROWS);
    let mut sieve = Sieve { plan, first, dropped: vec![false; rows] };
    let mut chunk = Chunk::default();
    let column = |role: Role| {
        let at = plan.columns.get(role)?;
        batch.columns().get(positions.iter().position(|p| *p == at)?)
    };
    match (column(Role::Time), column(Role::TimeOfDay)) {
        (Some(days), Some(of_day)) => chunk.time = joined(days, of_day, &mut sieve, intake)?,
        (Some(array), None) => chunk.time = times(array, &mut sieve, intake)?,
        _ => {}
    }
    for (role, values) in VALUES.iter().zip(&mut chunk.values) {
        if let Some(array) = column(*role) {
            *values = numbers(array, *role, &mut sieve, intake)?;
        }
    }
    let symbols = match column(Role::Symbol) {
        Some(array) => symbols(array, &mut sieve, intake)?,
        None => vec![intake.symbols.key(plan.symbol.clone()); rows],
    };
    chunk.row = (first..first + rows as u64).collect();
    if sieve.dropped.contains(&true) {
        keep(&mut chunk.time, &sieve.dropped);
        keep(&mut chunk.row, &sieve.dropped);
        chunk.values.iter_mut().for_each(|values| keep(values, &sieve.dropped));
    }
    for (id, dropped) in symbols.iter().zip(&sieve.dropped) {
        if !dropped {
            chunk.push_symbol(*id);
        }
    }
    chunk.finish(plan);
    Ok(chunk)
}

/// Leaves out the rows that are dropped.
fn keep<T>(column: &mut Vec<T>, dropped: &[bool]) {
    let mut marks = dropped.iter();
    column.retain(|_| !marks.next().copied().unwrap_or(false));
}

/// Texts of any kind as one kind.
fn texts(array: &ArrayRef, plan: &Plan) -> Result<ArrayRef, FrameError> {
    cast(array, &DataType::LargeUtf8).map_err(|e| damaged(plan, e))
}

/// Numbers of any kind; a null is NaN.
fn numbers(
    array: &ArrayRef,
    role: Role,
    sieve: &mut Sieve<'_>,
    intake: &mut Intake,
) -> Result<Vec<f64>, FrameError> {
    if class(array.data_type()) == Class::Text {
        let texts = texts(array, sieve.plan)?;
        let mut values = Vec::with_capacity(texts.len());
        for (at, text) in texts.as_string_opt::<i64>().into_iter().flatten().enumerate() {
            let text = text.unwrap_or_default().as_bytes();
            let value = number(text);
            if value.is_none() && !sieve.plan.or_nan.contains(&role) {
                sieve.bad(at, role, &format!("{} is not a number", shown(text)), intake)?;
            }
            values.push(value.unwrap_or(f64::NAN));
        }
        return Ok(values);
    }
    let floats = cast(array, &DataType::Float64).map_err(|e| damaged(sieve.plan, e))?;
    let floats = floats.as_primitive_opt::<Float64Type>().ok_or_else(|| damaged(sieve.plan, "no numbers"))?;
    Ok(match floats.null_count() {
        0 => floats.values().to_vec(),
        _ => floats.iter().map(|v| v.unwrap_or(f64::NAN)).collect(),
    })
}

/// Times of any kind, in the layout's type.
fn times(array: &ArrayRef, sieve: &mut Sieve<'_>, intake: &mut Intake) -> Result<Vec<i64>, FrameError> {
    if matches!(class(array.data_type()), Class::Text | Class::Bytes) {
        return text_times(array, sieve, intake);
    }
    let plain = inner(array.data_type()).clone();
    let decoded = cast(array, &plain).map_err(|e| damaged(sieve.plan, e))?;
    let factor = intake.clock.factor(&plain);
    let numbers: Vec<Option<i64>> = match decoded.as_primitive_opt::<Date32Type>() {
        Some(days) => days.iter().map(|d| d.map(i64::from)).collect(),
        None => {
            let numbers = cast(&decoded, &DataType::Int64).map_err(|e| damaged(sieve.plan, e))?;
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
            sieve.bad(at, Role::Time, why, intake)?;
        }
        times.push(time.unwrap_or(0));
    }
    Ok(times)
}

/// Dates and times of day, each as its text.
fn joined(
    days: &ArrayRef,
    of_day: &ArrayRef,
    sieve: &mut Sieve<'_>,
    intake: &mut Intake,
) -> Result<Vec<i64>, FrameError> {
    let (days, of_day) = (texts(days, sieve.plan)?, texts(of_day, sieve.plan)?);
    let mut times = Vec::with_capacity(days.len());
    let pairs = days.as_string_opt::<i64>().into_iter().flatten();
    let pairs = pairs.zip(of_day.as_string_opt::<i64>().into_iter().flatten());
    for (at, (date, clock)) in pairs.enumerate() {
        let (date, clock) = (date.unwrap_or_default().as_bytes(), clock.unwrap_or_default().as_bytes());
        let nanos = time_of_day::read(clock, sieve.plan.of_day);
        let time = match (time_of_day::day(date), nanos) {
            (Some(days), Some(nanos)) => intake
                .clock
                .read(time_of_day::join(days, nanos))
                .map_err(|why| (Role::Time, format!("the time {why}"))),
            (None, _) => Err((Role::Time, format!("{} is not a date", shown(date)))),
            (_, None) => Err((Role::TimeOfDay, format!("{} is not a time of day", shown(clock)))),
        };
        if let Err((role, why)) = &time {
            sieve.bad(at, *role, why, intake)?;
        }
        times.push(time.unwrap_or(0));
    }
    Ok(times)
}

/// Times that are written as text.
fn text_times(array: &ArrayRef, sieve: &mut Sieve<'_>, intake: &mut Intake) -> Result<Vec<i64>, FrameError> {
    let texts = texts(array, sieve.plan)?;
    let mut times = Vec::with_capacity(texts.len());
    for (at, text) in texts.as_string_opt::<i64>().into_iter().flatten().enumerate() {
        let text = text.unwrap_or_default().as_bytes();
        let time = match time::parse(text) {
            Some(written) => intake.clock.read(written).map_err(|why| format!("{} {why}", shown(text))),
            None if text.is_empty() => Err("the time is missing".to_string()),
            None => Err(format!("{} is not a time", shown(text))),
        };
        if let Err(why) = &time {
            sieve.bad(at, Role::Time, why, intake)?;
        }
        times.push(time.unwrap_or(0));
    }
    Ok(times)
}

/// Symbols, as numbers of those that were met.
fn symbols(array: &ArrayRef, sieve: &mut Sieve<'_>, intake: &mut Intake) -> Result<Vec<u32>, FrameError> {
    const MISSING: &str = "the symbol is missing";
    let mut ids = Vec::with_capacity(array.len());
    if matches!(class(array.data_type()), Class::Text | Class::Bytes) {
        let texts = texts(array, sieve.plan)?;
        for (at, text) in texts.as_string_opt::<i64>().into_iter().flatten().enumerate() {
            match text.filter(|t| !t.is_empty()) {
                Some(text) => ids.push(intake.symbols.text(text)),
                None => {
                    sieve.bad(at, Role::Symbol, MISSING, intake)?;
                    ids.push(0);
                }
            }
        }
        return Ok(ids);
    }
    let numbers = cast(array, &DataType::Int64).map_err(|e| damaged(sieve.plan, e))?;
    for (at, number) in numbers.as_primitive_opt::<Int64Type>().into_iter().flatten().enumerate() {
        match number {
            Some(number) => ids.push(intake.symbols.number(number)),
            None => {
                sieve.bad(at, Role::Symbol, MISSING, intake)?;
                ids.push(0);
            }
        }
    }
    Ok(ids)
}
