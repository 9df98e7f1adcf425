//! Arrow tables in and out, zero-copy through the PyCapsule interface: pyarrow, Polars, DuckDB and others.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, LargeStringArray, RecordBatch, StructArray},
    buffer::ScalarBuffer,
    compute::{cast, concat},
    datatypes::{DataType, Field as ArrowField, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit},
    error::ArrowError,
};
use gpuforge::{frame::column_roles::Role, indicators_gpu::DeviceChoice, market};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyCapsule};
use pyo3_arrow::{
    ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule},
    input::AnyRecordBatch,
};

use crate::{
    arrays::{Column, count_copy},
    errors::ColumnError,
    indicators::{IndicatorJob, Times, field, resolve},
};

/// Result table, exported through the Arrow PyCapsule interface.
#[pyclass(frozen, module = "gpuforge._gpuforge")]
pub(crate) struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// The table as a stream of one batch.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.batch.schema();
        let field = Arc::new(ArrowField::new_struct("", schema.fields().clone(), false));
        let array: ArrayRef = Arc::new(StructArray::from(self.batch.clone()));
        let reader = ArrayIterator::new(std::iter::once(Ok(array)), field);
        Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
    }

    /// The schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.batch.schema().as_ref())?)
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    /// Data addresses of the columns, for zero-copy tests.
    fn addresses(&self) -> Vec<Option<usize>> {
        let at = |column: &ArrayRef| {
            column.as_primitive_opt::<Float64Type>().map(|numbers| numbers.values().as_ptr() as usize)
        };
        self.batch.columns().iter().map(at).collect()
    }

    /// Number of rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

/// Key columns named by the user; an empty name means none.
pub(crate) struct Keys<'a> {
    pub(crate) by: Option<&'a str>,
    pub(crate) time: Option<&'a str>,
    pub(crate) columns: &'a [(String, String)],
}

/// An imported Arrow table.
pub(crate) struct ArrowInput {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
}

fn arrow_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("invalid Arrow data: {error}"))
}

/// Imports all batches.
pub(crate) fn read(data: AnyRecordBatch) -> PyResult<ArrowInput> {
    let (batches, schema) = data.into_table()?.into_inner();
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    Ok(ArrowInput { schema, batches, rows })
}

impl ArrowInput {
    /// One column as one contiguous array.
    fn column(&self, at: usize) -> PyResult<ArrayRef> {
        let chunks: Vec<&ArrayRef> =
            self.batches.iter().filter(|b| b.num_rows() > 0).filter_map(|b| b.columns().get(at)).collect();
        match chunks.as_slice() {
            [one] => Ok(Arc::clone(one)),
            [] => {
                let kind = self.schema.fields().get(at).map_or(DataType::Null, |f| f.data_type().clone());
                Ok(arrow::array::new_empty_array(&kind))
            }
            several => {
                let several: Vec<&dyn Array> = several.iter().map(|a| a.as_ref()).collect();
                let array = concat(&several).map_err(arrow_error)?;
                count_copy(array.get_buffer_memory_size() as u64);
                Ok(array)
            }
        }
    }

    /// The job, and the names of the key columns.
    pub(crate) fn job(
        &self,
        request: Arc<market::Request>,
        keys: &Keys<'_>,
        device: DeviceChoice,
        threads: Option<usize>,
    ) -> PyResult<(IndicatorJob, Vec<String>)> {
        let names: Vec<String> = self.schema.fields().iter().map(|f| f.name().clone()).collect();
        let mut columns = keys.columns.to_vec();
        let named = [(Role::Symbol, keys.by), (Role::Time, keys.time)];
        let given =
            named.iter().filter_map(|(role, name)| Some((role, (*name)?))).filter(|(_, n)| !n.is_empty());
        for (role, name) in given {
            columns.push((role.name().to_owned(), name.to_owned()));
        }
        let needed = market::needed(&request.selection);
        let (mut fields, mut codes, mut times, mut found) = (Vec::new(), None, None, Vec::new());
        for (role, at) in resolve(&names, &columns, &needed)? {
            let name = names.get(at).map_or("", String::as_str);
            if named.iter().any(|(known, given)| known.name() == role && *given == Some("")) {
                continue;
            }
            match role {
                "symbol" => codes = Some(self::codes(&self.column(at)?, name)?),
                "time" => times = Some(self::times(&self.column(at)?, name)?),
                role => {
                    if let Some(field) = field(role) {
                        fields.push((field, numbers(&self.column(at)?, name)?));
                    }
                    continue;
                }
            }
            found.push(name.to_owned());
        }
        Ok((IndicatorJob { request, rows: self.rows, fields, codes, times, device, threads }, found))
    }

    /// Kept columns followed by the results, as one record batch.
    pub(crate) fn table(
        &self,
        keep: &[String],
        names: Vec<String>,
        columns: Vec<Vec<f64>>,
    ) -> PyResult<Table> {
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for name in keep {
            let at = self.schema.index_of(name).map_err(|_| {
                let found: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
                ColumnError::new_err(format!(
                    "there is no column `{name}` to keep\n  found: {}",
                    found.join(", ")
                ))
            })?;
            fields.push(self.schema.field(at).clone());
            arrays.push(self.column(at)?);
        }
        for (name, numbers) in names.into_iter().zip(columns) {
            fields.push(ArrowField::new(name, DataType::Float64, false));
            arrays.push(Arc::new(Float64Array::new(ScalarBuffer::from(numbers), None)));
        }
        let schema = Arc::new(Schema::new(fields));
        let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &rows).map_err(arrow_error)?;
        Ok(Table { batch })
    }
}

fn wrong_type(name: &str, kind: &DataType, want: &str) -> PyErr {
    ColumnError::new_err(format!(
        "column `{name}` holds {kind}, {want}\n  hint: cast it, or name another with columns={{...}}"
    ))
}

/// Float64 values, zero-copy without nulls; nulls become NaN.
fn numbers(column: &ArrayRef, name: &str) -> PyResult<Column> {
    let kind = column.data_type();
    if !(kind.is_numeric() || matches!(kind, DataType::Null)) {
        return Err(wrong_type(name, kind, "not numbers"));
    }
    let cast_to = cast(column, &DataType::Float64).map_err(arrow_error)?;
    let doubles = cast_to.as_primitive::<Float64Type>();
    if *kind != DataType::Float64 {
        count_copy(8 * column.len() as u64);
    }
    if doubles.null_count() == 0 {
        return Ok(Column::Arrow(doubles.values().clone()));
    }
    count_copy(8 * column.len() as u64);
    Ok(Column::Owned(doubles.iter().map(|x| x.unwrap_or(f64::NAN)).collect()))
}

/// Times as i64 ticks, with ticks per second.
fn times(column: &ArrayRef, name: &str) -> PyResult<Times> {
    let kind = column.data_type();
    let (per_second, via) = match kind {
        DataType::Timestamp(TimeUnit::Second, _) => (1.0, None),
        DataType::Timestamp(TimeUnit::Millisecond, _) => (1e3, None),
        DataType::Timestamp(TimeUnit::Microsecond, _) => (1e6, None),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (1e9, None),
        DataType::Date32 => (1.0 / 86_400.0, Some(DataType::Int32)),
        DataType::Date64 => (1e3, None),
        kind if kind.is_integer() => (1.0, None),
        kind if kind.is_floating() => (1e9, None),
        kind => return Err(wrong_type(name, kind, "not times")),
    };
    if kind.is_floating() {
        let seconds = cast(column, &DataType::Float64).map_err(arrow_error)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        let values = seconds.iter().map(|x| x.map_or(i64::MIN, |x| (x * 1e9) as i64)).collect();
        return Ok(Times { values, per_second });
    }
    let column = via.map_or_else(|| Ok(Arc::clone(column)), |via| cast(column, &via)).map_err(arrow_error)?;
    let ticks = cast(&column, &DataType::Int64).map_err(arrow_error)?;
    let array: &Int64Array = ticks.as_primitive::<Int64Type>();
    if array.null_count() > 0 {
        let why = format!(
            "column `{name}` has {} times that are null\n  hint: drop those rows",
            array.null_count()
        );
        return Err(ColumnError::new_err(why));
    }
    Ok(Times { values: array.values().to_vec(), per_second })
}

/// Integer codes of the keys (dictionary encoding); null is a key too.
fn codes(column: &ArrayRef, name: &str) -> PyResult<Vec<i64>> {
    let kind = column.data_type();
    if kind.is_integer() {
        let array = cast(column, &DataType::Int64).map_err(arrow_error)?;
        return Ok(array.as_primitive::<Int64Type>().iter().map(|x| x.unwrap_or(i64::MIN)).collect());
    }
    let text =
        cast(column, &DataType::LargeUtf8).map_err(|_| wrong_type(name, kind, "not keys of series"))?;
    let text: &LargeStringArray = text.as_string::<i64>();
    let mut known: std::collections::HashMap<Option<&str>, i64> = std::collections::HashMap::new();
    let mut last: Option<(Option<&str>, i64)> = None;
    let mut all = Vec::with_capacity(text.len());
    for key in text.iter() {
        // Keys come in long runs: skip the lookup.
        let now = match last {
            Some((before, code)) if before == key => code,
            _ => {
                let next = known.len() as i64;
                *known.entry(key).or_insert(next)
            }
        };
        last = Some((key, now));
        all.push(now);
    }
    Ok(all)
}
