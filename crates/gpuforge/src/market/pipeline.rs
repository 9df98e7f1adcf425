//! Pipeline state: batches of whole symbols, streamed chunks of long ones, spilled device results, and the rows written.

use std::time::Instant;

use gpuforge_frame::{
    Bars, FrameError, KeySchema,
    read::ReadReport,
    write::{ColumnValues, WriteSummary, Writer},
};
use gpuforge_indicators::{
    exec::{self, Columns, ExecOptions, Series, Stream},
    plan::ExecPlan,
};
use gpuforge_indicators_gpu::{HybridExecutor, SpillFile};

use super::{
    MarketReport, PhaseSeconds, Request, checks::QualityChecks, request::StreamSplit, series, symbol, timed,
};

/// Bars of one chunk of a streamed series: maximum and minimum.
const CHUNK_BARS: [usize; 2] = [16 << 10, 1 << 10];

/// Relative slack at the ends of a column's range, for f64 and for a device's f32.
const SLACK: f64 = 1e-9;
const DEVICE_SLACK: f64 = 1e-4;

/// The state of a run.
pub(super) struct Pipeline<'a> {
    pub(super) layout: KeySchema,
    pub(super) request: &'a Request,
    pub(super) with_bars: bool,
    pub(super) options: ExecOptions,
    /// Computes whole symbols.
    pub(super) executor: HybridExecutor<'a>,
    /// Bytes of results held at once.
    pub(super) max_bytes: usize,
    pub(super) writer: Writer,
    pub(super) checks: Option<QualityChecks>,
    pub(super) stream: Option<Stream<&'a ExecPlan>>,
    pub(super) progress: Option<&'a (dyn Fn(u64) + Sync)>,
    pub(super) seconds: PhaseSeconds,
    pub(super) rows: u64,
    /// Device results that do not fit into memory.
    pub(super) spill: Option<SpillFile>,
    /// Was it noted that streamed symbols run on the CPU?
    pub(super) noted_streaming: bool,
}

impl Pipeline<'_> {
    fn bytes(&self, bars: usize) -> usize {
        bars.saturating_mul(8).saturating_mul(self.request.selection.columns.len().max(1))
    }

    /// Whole symbols, in batches whose results fit.
    pub(super) fn run_symbols(&mut self, all: &[Bars]) -> Result<(), FrameError> {
        let mut rest = all;
        while let Some(first) = rest.first() {
            if self.bytes(first.len()) > self.max_bytes {
                self.run_long(first)?;
                rest = rest.get(1..).unwrap_or(&[]);
                continue;
            }
            let (mut left, mut n) = (self.max_bytes, 0);
            for bars in rest {
                let need = self.bytes(bars.len());
                if n > 0 && need > left {
                    break;
                }
                left = left.saturating_sub(need);
                n += 1;
            }
            let (now, later) = rest.split_at(n.min(rest.len()));
            self.run_batch(now)?;
            rest = later;
        }
        Ok(())
    }

    /// A batch of symbols.
    fn run_batch(&mut self, group: &[Bars]) -> Result<(), FrameError> {
        let times: Vec<Vec<f64>> = group.iter().map(|b| self.layout.seconds(&b.time)).collect();
        let series: Vec<Series<'_>> = group.iter().zip(&times).map(|(b, t)| series(b, t)).collect();
        let (columns, took) = timed("compute indicators", || self.executor.run(&series));
        self.seconds.compute += took.as_secs_f64();
        for (bars, columns) in group.iter().zip(&columns) {
            let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
            self.write_rows(bars, 0, &columns)?;
        }
        Ok(())
    }

    /// A symbol whose results do not fit: on a device through the spill file, or streamed on the CPU after the columns that
    /// need the whole series.
    fn run_long(&mut self, bars: &Bars) -> Result<(), FrameError> {
        let times = self.layout.seconds(&bars.time);
        let (on_device, took) = timed("compute indicators", || {
            self.executor.run_spilled(series(bars, &times), self.max_bytes, &mut self.spill)
        });
        self.seconds.compute += took.as_secs_f64();
        if on_device && let Some(spill) = self.spill.take() {
            let written = self.write_spilled(bars, &spill);
            self.spill = Some(spill);
            return written;
        }
        let before = self.seconds.compute;
        let whole = match &self.request.split {
            None => Vec::new(),
            Some(split) => {
                let (whole, took) = timed("compute indicators", || {
                    exec::run(&split.whole.plan, &[series(bars, &times)], self.options).pop()
                });
                self.seconds.compute += took.as_secs_f64();
                whole.unwrap_or_default()
            }
        };
        self.stream_chunks(bars, true, &whole)?;
        self.executor.record_cpu_time(1, bars.len(), self.seconds.compute - before);
        Ok(())
    }

    /// The next bars of a symbol whose bars do not fit into memory.
    pub(super) fn run_part(&mut self, bars: &Bars, first: bool) -> Result<(), FrameError> {
        if let Some(StreamSplit { whole, .. }) = &self.request.split {
            return Err(FrameError::Usage(format!(
                "the bars of {} do not fit the memory limit, and {} looks at all of them at once\n  \
                 hint: raise --memory-limit, or select no column that looks ahead",
                symbol(bars),
                whole.columns.first().map_or("", String::as_str),
            )));
        }
        if !std::mem::replace(&mut self.noted_streaming, true) {
            self.executor.note_cpu_only(&format!(
                "the bars of {} do not fit the memory limit and were streamed in chunks on the CPU",
                symbol(bars)
            ));
        }
        let before = self.seconds.compute;
        self.stream_chunks(bars, first, &[])?;
        self.executor.record_cpu_time(u64::from(first), bars.len(), self.seconds.compute - before);
        Ok(())
    }

    /// Bars per chunk: as many as their results fit.
    fn chunk_bars(&self) -> usize {
        let [max, min] = CHUNK_BARS;
        (self.max_bytes / self.bytes(1)).clamp(min, max)
    }

    /// Writes the rows of a symbol whose columns are in the spill file.
    fn write_spilled(&mut self, bars: &Bars, spill: &SpillFile) -> Result<(), FrameError> {
        let (n, step, columns) = (bars.len(), self.chunk_bars(), self.request.selection.columns.len());
        let mut buffers = vec![vec![0.0; step.min(n)]; columns];
        for from in (0..n).step_by(step) {
            let rows = from..(from + step).min(n);
            for (column, buffer) in buffers.iter_mut().enumerate() {
                buffer.resize(rows.len(), 0.0);
                spill.read(column * n + from, buffer)?;
            }
            let columns: Vec<&[f64]> = buffers.iter().map(Vec::as_slice).collect();
            self.write_rows(&slice(bars, rows), from, &columns)?;
        }
        Ok(())
    }

    /// Streams bars in chunks whose results fit; `whole` are the whole-series columns.
    fn stream_chunks(&mut self, bars: &Bars, first: bool, whole: &[Vec<f64>]) -> Result<(), FrameError> {
        let (n, step) = (bars.len(), self.chunk_bars());
        for from in (0..n).step_by(step) {
            if first && from == 0 {
                self.stream = None;
            }
            self.stream_chunk(&slice(bars, from..(from + step).min(n)), whole)?;
        }
        Ok(())
    }

    fn stream_chunk(&mut self, bars: &Bars, whole: &[Vec<f64>]) -> Result<(), FrameError> {
        let (request, n) = (self.request, bars.len());
        let streamable = request.streamable();
        let stream = self.stream.get_or_insert_with(|| Stream::new(&streamable.plan, self.options));
        let offset = stream.bars();
        let times = self.layout.seconds(&bars.time);
        let mut buffers = vec![vec![0.0; n]; streamable.columns.len()];
        let mut columns: Columns<'_> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        let ((), took) = timed("compute indicators", || stream.push(&series(bars, &times), &mut columns));
        self.seconds.compute += took.as_secs_f64();
        let columns: Vec<&[f64]> = match &request.split {
            None => buffers.iter().map(Vec::as_slice).collect(),
            Some(split) => {
                let column = |(is_whole, at): &(bool, usize)| match is_whole {
                    true => whole.get(*at).and_then(|c| c.get(offset..offset + n)),
                    false => buffers.get(*at).map(Vec::as_slice),
                };
                split.order.iter().filter_map(column).collect()
            }
        };
        self.write_rows(bars, offset, &columns)
    }

    /// Writes rows of a symbol, `offset` bars after its first.
    fn write_rows(&mut self, bars: &Bars, offset: usize, columns: &[&[f64]]) -> Result<(), FrameError> {
        let starts = self.request.selection.plan.starts().iter();
        let computed = columns
            .iter()
            .zip(starts)
            .map(|(values, start)| ColumnValues { values, valid_from: start.saturating_sub(offset) });
        let own = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume];
        let kept = own.iter().filter(|_| self.with_bars).map(|values| ColumnValues::all(values));
        let values: Vec<ColumnValues<'_>> = kept.chain(computed).collect();
        if let Some(checks) = &mut self.checks {
            let device = self.executor.summary().groups.gpu > 0;
            checks.check(bars, offset, &values, if device { DEVICE_SLACK } else { SLACK });
        }
        let (written, took) =
            timed("write columns", || self.writer.write(bars.symbol.as_ref(), &bars.time, &values));
        self.seconds.write += took.as_secs_f64();
        self.rows += bars.len() as u64;
        if let Some(progress) = self.progress {
            progress(self.rows);
        }
        written
    }

    pub(super) fn finish(mut self, read: ReadReport, began: Instant) -> Result<MarketReport, FrameError> {
        let (written, took) = timed("write columns", || self.writer.finish());
        let WriteSummary { rows, bytes } = written?;
        self.seconds.write += took.as_secs_f64();
        self.seconds.total = began.elapsed().as_secs_f64();
        let findings = self.checks.map(|checks| checks.findings(&read));
        Ok(MarketReport {
            input: read.summary(),
            rows,
            symbols: read.symbols,
            columns: self.request.selection.columns.len(),
            bytes,
            skipped: read.skipped,
            reasons: read.reasons,
            duplicates: read.duplicates,
            sorted_here: read.sorted_here,
            spilled: read.spilled,
            seconds: self.seconds,
            findings,
            jit_fallbacks: exec::jit_fallbacks().reasons,
            placed: self.executor.summary().clone(),
        })
    }
}

fn slice(bars: &Bars, range: std::ops::Range<usize>) -> Bars {
    let of = |column: &Vec<f64>| column.get(range.clone()).unwrap_or(&[]).to_vec();
    Bars {
        symbol: bars.symbol.clone(),
        time: bars.time.get(range.clone()).unwrap_or(&[]).to_vec(),
        open: of(&bars.open),
        high: of(&bars.high),
        low: of(&bars.low),
        close: of(&bars.close),
        volume: of(&bars.volume),
    }
}
