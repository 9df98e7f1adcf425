//! Computes the columns of record batches: whole symbols on the CPU or a device, or one symbol streamed chunk by chunk.

use std::{sync::Arc, time::Instant};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, Float64Array, RecordBatch},
    buffer::{NullBuffer, ScalarBuffer},
    compute::cast,
    datatypes::{DataType, Float64Type},
};
use datafusion::error::Result;
use gpuforge::{
    indicators::{
        exec::{self, Columns, ExecOptions, Series, Stream},
        graph::Field,
        plan::ExecPlan,
    },
    indicators_gpu::{DeviceAccess, DeviceChoice, HybridExecutor},
};

use crate::{error::ClusterError, key_columns::times, spec::Bound};

/// Backend that computes whole symbols.
pub(crate) enum Executor<'b> {
    /// CPU, straight into the result buffers.
    Cpu,
    /// CPU or GPU, by cost model or by request.
    Device(Box<HybridExecutor<'b>>),
}

impl<'b> Executor<'b> {
    /// The backend that the specification requests.
    pub(crate) fn of(bound: &'b Bound, exec_options: ExecOptions, access: &'b DeviceAccess) -> Result<Self> {
        if parse_device(&bound.spec.device)? == DeviceChoice::Cpu {
            return Ok(Executor::Cpu);
        }
        let executor = HybridExecutor::new(&bound.request, exec_options, access)
            .map_err(|e| ClusterError::Device(e.to_string()))?;
        Ok(Executor::Device(Box::new(executor)))
    }

    /// Groups computed on a device.
    pub(crate) fn on_device(&self) -> u64 {
        match self {
            Executor::Cpu => 0,
            Executor::Device(executor) => executor.summary().groups.gpu,
        }
    }
}

/// Parses the device setting; empty is the CPU, whose results are bit-identical on every machine.
pub(crate) fn parse_device(text: &str) -> std::result::Result<DeviceChoice, ClusterError> {
    match text {
        "" | "cpu" => Ok(DeviceChoice::Cpu),
        "auto" => Ok(DeviceChoice::Auto),
        "gpu" => Ok(DeviceChoice::Gpu),
        other => Err(ClusterError::Arguments {
            message: format!("gpuforge.device is `{other}`; it can be cpu, auto or gpu"),
        }),
    }
}

/// Bar columns of a batch as float64.
struct Inputs {
    columns: Vec<(Field, Float64Array)>,
    seconds: Vec<f64>,
}

impl Inputs {
    fn of(bound: &Bound, batch: &RecordBatch) -> Result<Inputs> {
        let (mut columns, mut seconds) = (Vec::new(), Vec::new());
        for (field, at) in &bound.fields {
            if *field == Field::Time {
                seconds = bound.layout.seconds(&times(bound, batch.column(*at))?);
            } else {
                columns.push((*field, to_float64(batch.column(*at))?));
            }
        }
        Ok(Inputs { columns, seconds })
    }

    fn field(&self, field: Field, rows: &std::ops::Range<usize>) -> &[f64] {
        let values = match field {
            Field::Time => self.seconds.as_slice(),
            _ => self.columns.iter().find(|(f, _)| *f == field).map_or(&[][..], |(_, c)| c.values()),
        };
        values.get(rows.clone()).unwrap_or(&[])
    }

    fn series(&self, rows: std::ops::Range<usize>) -> Series<'_> {
        Series {
            open: self.field(Field::Open, &rows),
            high: self.field(Field::High, &rows),
            low: self.field(Field::Low, &rows),
            close: self.field(Field::Close, &rows),
            volume: self.field(Field::Volume, &rows),
            time: self.field(Field::Time, &rows),
        }
    }
}

/// Casts any numeric column to float64; null becomes NaN.
pub(crate) fn to_float64(column: &ArrayRef) -> Result<Float64Array> {
    let floats = cast(column, &DataType::Float64)?;
    let floats = floats.as_primitive::<Float64Type>();
    Ok(match floats.null_count() {
        0 => floats.clone(),
        _ => floats.iter().map(|v| Some(v.unwrap_or(f64::NAN))).collect(),
    })
}

/// Appends the computed columns to the bars of whole symbols, stored one after the other with `lengths` bars each. Also
/// returns the compute time in seconds.
pub(crate) fn compute_group(
    bound: &Bound,
    batch: &RecordBatch,
    lengths: &[usize],
    exec_options: ExecOptions,
    executor: &mut Executor<'_>,
) -> Result<(RecordBatch, f64)> {
    let inputs = Inputs::of(bound, batch)?;
    let mut from = 0;
    let series: Vec<Series<'_>> = lengths
        .iter()
        .map(|n| {
            from += n;
            inputs.series(from - n..from)
        })
        .collect();
    let began = Instant::now();
    let plan = &bound.request.selection.plan;
    // One allocation per column: untouched calloc pages cost nothing.
    let mut buffers: Vec<Vec<f64>> =
        bound.request.selection.columns.iter().map(|_| vec![0.0; batch.num_rows()]).collect();
    match executor {
        Executor::Cpu => {
            exec::run_into(plan, &series, &mut split_columns(&mut buffers, lengths), exec_options)
        }
        Executor::Device(hybrid) => {
            for (into, from) in split_columns(&mut buffers, lengths).iter_mut().zip(hybrid.run(&series)) {
                into.iter_mut().zip(&from).for_each(|(to, column)| copy(to, column));
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    let warm_up = |start: usize| lengths.iter().map(move |n| (start.min(*n), *n));
    let arrays = buffers.into_iter().zip(plan.starts()).map(|(values, start)| array(values, warm_up(*start)));
    Ok((append_columns(bound, batch, arrays)?, took))
}

fn copy(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
}

/// Splits the columns by symbol: one set of slices per symbol.
fn split_columns<'c>(buffers: &'c mut [Vec<f64>], lengths: &[usize]) -> Vec<Columns<'c>> {
    let mut all: Vec<Columns<'c>> = lengths.iter().map(|_| Vec::with_capacity(buffers.len())).collect();
    for column in buffers {
        let mut rest = column.as_mut_slice();
        for (columns, n) in all.iter_mut().zip(lengths) {
            let (now, later) = rest.split_at_mut(*n.min(&rest.len()));
            columns.push(now);
            rest = later;
        }
    }
    all
}

/// An array over several symbol runs, each starting with its warm-up rows as nulls.
fn array(values: Vec<f64>, warm_up: impl Iterator<Item = (usize, usize)> + Clone) -> ArrayRef {
    let none = warm_up.clone().all(|(nulls_at_start, _)| nulls_at_start == 0);
    let nulls = (!none).then(|| {
        let mut bits = BooleanBufferBuilder::new(values.len());
        for (nulls_at_start, n) in warm_up {
            bits.append_n(nulls_at_start, false);
            bits.append_n(n - nulls_at_start, true);
        }
        NullBuffer::new(bits.finish())
    });
    Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
}

fn append_columns(
    bound: &Bound,
    batch: &RecordBatch,
    computed: impl Iterator<Item = ArrayRef>,
) -> Result<RecordBatch> {
    let columns = batch.columns().iter().cloned().chain(computed).collect();
    Ok(RecordBatch::try_new(bound.output.clone(), columns)?)
}

/// Streaming computation of one symbol that does not fit in memory.
pub(crate) struct StreamedSymbol<'b> {
    bound: &'b Bound,
    stream: Stream<&'b ExecPlan>,
}

impl<'b> StreamedSymbol<'b> {
    /// Starts at the first bar.
    pub(crate) fn new(bound: &'b Bound, exec_options: ExecOptions) -> Self {
        StreamedSymbol { bound, stream: Stream::new(&bound.request.selection.plan, exec_options) }
    }

    /// Computes the next chunk.
    pub(crate) fn next(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, f64)> {
        let inputs = Inputs::of(self.bound, batch)?;
        let n = batch.num_rows();
        let before = self.stream.bars();
        let mut buffers = vec![vec![0.0; n]; self.bound.request.selection.columns.len()];
        let began = Instant::now();
        let mut columns: Columns<'_> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        self.stream.push(&inputs.series(0..n), &mut columns);
        let took = began.elapsed().as_secs_f64();
        let starts = self.bound.request.selection.plan.starts();
        let arrays = buffers
            .into_iter()
            .zip(starts)
            .map(|(values, start)| array(values, std::iter::once((start.saturating_sub(before).min(n), n))));
        Ok((append_columns(self.bound, batch, arrays)?, took))
    }
}
