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

use crate::{error::ClusterError, rows::times, spec::Bound};

/// Where whole symbols are computed.
pub(crate) enum Executor<'b> {
    /// On the CPU, into the memory of the result.
    Cpu,
    /// Where a prediction or the user says.
    Device(Box<HybridExecutor<'b>>),
}

impl<'b> Executor<'b> {
    /// As the specification asks for.
    pub(crate) fn of(bound: &'b Bound, exec_options: ExecOptions, access: &'b DeviceAccess) -> Result<Self> {
        if device_choice(&bound.spec.device)? == DeviceChoice::Cpu {
            return Ok(Executor::Cpu);
        }
        let executor = HybridExecutor::new(&bound.request, exec_options, access)
            .map_err(|e| ClusterError::Device(e.to_string()))?;
        Ok(Executor::Device(Box::new(executor)))
    }

    /// Groups that a device computed.
    pub(crate) fn on_device(&self) -> u64 {
        match self {
            Executor::Cpu => 0,
            Executor::Device(executor) => executor.summary().groups.gpu,
        }
    }
}

/// The device that a specification names; nothing is the CPU, whose bits are the same on every machine.
pub(crate) fn device_choice(text: &str) -> std::result::Result<DeviceChoice, ClusterError> {
    match text {
        "" | "cpu" => Ok(DeviceChoice::Cpu),
        "auto" => Ok(DeviceChoice::Auto),
        "gpu" => Ok(DeviceChoice::Gpu),
        other => Err(ClusterError::Arguments {
            message: format!("gpuforge.device is `{other}`; it can be cpu, auto or gpu"),
        }),
    }
}

/// Columns of bars of a batch, as numbers.
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
                columns.push((*field, numbers(batch.column(*at))?));
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

/// Numbers of any kind; a null is NaN.
pub(crate) fn numbers(column: &ArrayRef) -> Result<Float64Array> {
    let floats = cast(column, &DataType::Float64)?;
    let floats = floats.as_primitive::<Float64Type>();
    Ok(match floats.null_count() {
        0 => floats.clone(),
        _ => floats.iter().map(|v| Some(v.unwrap_or(f64::NAN))).collect(),
    })
}

/// Bars of whole symbols, one after the other, and how many bars each has, to the same rows with the computed columns.
/// Also says how long computing took, in seconds.
pub(crate) fn group(
    bound: &Bound,
    batch: &RecordBatch,
    lengths: &[usize],
    exec_options: ExecOptions,
    place: &mut Executor<'_>,
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
    // One by one: memory of zeros that nobody has touched costs nothing.
    let mut columns_buffer: Vec<Vec<f64>> =
        bound.request.selection.columns.iter().map(|_| vec![0.0; batch.num_rows()]).collect();
    match place {
        Executor::Cpu => {
            exec::run_into(plan, &series, &mut split_columns(&mut columns_buffer, lengths), exec_options)
        }
        Executor::Device(executor) => {
            for (into, from) in
                split_columns(&mut columns_buffer, lengths).iter_mut().zip(executor.run(&series))
            {
                into.iter_mut().zip(&from).for_each(|(to, column)| copy(to, column));
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    let silent = |start: usize| lengths.iter().map(move |n| (start.min(*n), *n));
    let arrays =
        columns_buffer.into_iter().zip(plan.starts()).map(|(values, start)| array(values, silent(*start)));
    Ok((joined(bound, batch, arrays)?, took))
}

fn copy(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
}

/// The columns, cut by symbol: one set of slices per symbol.
fn split_columns<'c>(columns_buffer: &'c mut [Vec<f64>], lengths: &[usize]) -> Vec<Columns<'c>> {
    let mut all: Vec<Columns<'c>> =
        lengths.iter().map(|_| Vec::with_capacity(columns_buffer.len())).collect();
    for column in columns_buffer {
        let mut rest = column.as_mut_slice();
        for (columns, n) in all.iter_mut().zip(lengths) {
            let (now, later) = rest.split_at_mut(*n.min(&rest.len()));
            columns.push(now);
            rest = later;
        }
    }
    all
}

/// A column of several symbol_runs, each with so many rows without a value at its beginning.
fn array(values: Vec<f64>, silent: impl Iterator<Item = (usize, usize)> + Clone) -> ArrayRef {
    let none = silent.clone().all(|(quiet, _)| quiet == 0);
    let nulls = (!none).then(|| {
        let mut bits = BooleanBufferBuilder::new(values.len());
        for (quiet, n) in silent {
            bits.append_n(quiet, false);
            bits.append_n(n - quiet, true);
        }
        NullBuffer::new(bits.finish())
    });
    Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
}

fn joined(
    bound: &Bound,
    batch: &RecordBatch,
    computed: impl Iterator<Item = ArrayRef>,
) -> Result<RecordBatch> {
    let columns = batch.columns().iter().cloned().chain(computed).collect();
    Ok(RecordBatch::try_new(bound.output.clone(), columns)?)
}

/// One symbol that is too large to be held: its bars come in parts.
pub(crate) struct StreamedSymbol<'b> {
    bound: &'b Bound,
    stream: Stream<&'b ExecPlan>,
}

impl<'b> StreamedSymbol<'b> {
    /// At its first bar.
    pub(crate) fn new(bound: &'b Bound, exec_options: ExecOptions) -> Self {
        StreamedSymbol { bound, stream: Stream::new(&bound.request.selection.plan, exec_options) }
    }

    /// The next bars.
    pub(crate) fn next(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, f64)> {
        let inputs = Inputs::of(self.bound, batch)?;
        let n = batch.num_rows();
        let before = self.stream.bars();
        let mut columns_buffer = vec![vec![0.0; n]; self.bound.request.selection.columns.len()];
        let began = Instant::now();
        let mut columns: Columns<'_> = columns_buffer.iter_mut().map(Vec::as_mut_slice).collect();
        self.stream.push(&inputs.series(0..n), &mut columns);
        let took = began.elapsed().as_secs_f64();
        let starts = self.bound.request.selection.plan.starts();
        let arrays = columns_buffer
            .into_iter()
            .zip(starts)
            .map(|(values, start)| array(values, std::iter::once((start.saturating_sub(before).min(n), n))));
        Ok((joined(self.bound, batch, arrays)?, took))
    }
}
