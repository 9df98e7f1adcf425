//! Parquet reader: column projection, row group by row group in record batches, page CRC verification.
//!
//! Row counts of footer, row groups and column chunks must agree with each other and with what was decoded. Anything else
//! is an error, never fewer rows.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use arrow::{array::ArrayRef, datatypes::SchemaRef};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder},
    },
    file::metadata::ParquetMetaData,
};

use super::{
    catch_decoder_panic,
    chunk::{CHUNK_ROWS, Chunk, ChunkSource, ReadPlan, ReadState},
    record_batch, thrift_footer,
};
use crate::error::FrameError;

/// Rows sampled to infer the type of a text time column.
const SAMPLE_ROWS: usize = 1000;

/// An error of the decoder.
fn damaged(path: &Path, error: impl std::fmt::Display) -> FrameError {
    let message =
        format!("the Parquet file is damaged or incomplete: {error}\n  hint: copy or write it again");
    FrameError::Format { path: path.into(), message }
}

/// Schema and number of rows of a file.
pub(super) fn schema(path: &Path, file: &File) -> Result<(SchemaRef, u64), FrameError> {
    let builder = builder(path, file)?;
    let rows = row_count(builder.metadata()).map_err(|why| damaged(path, why))?;
    Ok((builder.schema().clone(), rows))
}

/// Number of rows, if the counts of file, row groups and column chunks agree.
fn row_count(metadata: &ParquetMetaData) -> Result<u64, String> {
    let rows = metadata.file_metadata().num_rows();
    let all = u64::try_from(rows).map_err(|_| format!("its footer says {rows} rows"))?;
    let mut sum = 0_u64;
    for (at, group) in metadata.row_groups().iter().enumerate() {
        let rows = group.num_rows();
        let here = u64::try_from(rows).map_err(|_| format!("row group {at} says {rows} rows"))?;
        sum = sum.saturating_add(here);
        for column in group.columns().iter().filter(|c| c.column_descr().max_rep_level() == 0) {
            let values = column.num_values();
            if values != rows {
                let name = column.column_descr().name();
                return Err(format!("row group {at} says {rows} rows, and {values} values of `{name}`"));
            }
        }
    }
    match sum == all {
        true => Ok(all),
        false => Err(format!("its footer says {all} rows, and its row groups have {sum}")),
    }
}

/// Validates and parses the footer.
fn builder(path: &Path, file: &File) -> Result<ParquetRecordBatchReaderBuilder<File>, FrameError> {
    let io = |source| FrameError::Io { doing: "read", path: path.into(), source };
    let footer = footer(file).map_err(io)?;
    if footer.is_some_and(|footer| !thrift_footer::plausible(&footer)) {
        return Err(damaged(path, "the footer makes no sense"));
    }
    let file = file.try_clone().map_err(io)?;
    let builder = catch_decoder_panic(path, || {
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| damaged(path, e))
    })?;
    row_count(builder.metadata()).map_err(|why| damaged(path, why))?;
    Ok(builder)
}

/// Footer bytes; `None` where the decoder will report that there is none.
fn footer(mut file: &File) -> std::io::Result<Option<Vec<u8>>> {
    let size = file.seek(SeekFrom::End(0))?;
    let Some(tail) = size.checked_sub(8) else { return Ok(None) };
    file.seek(SeekFrom::Start(tail))?;
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    let Some(start) = tail.checked_sub(length) else { return Ok(None) };
    file.seek(SeekFrom::Start(start))?;
    let mut footer = Vec::new();
    file.take(length).read_to_end(&mut footer)?;
    Ok(Some(footer))
}

/// First values of a column.
pub(super) fn first_values(path: &Path, file: &File, column: usize) -> Result<Option<ArrayRef>, FrameError> {
    let mut rows = record_batches(path, file, vec![column], SAMPLE_ROWS)?;
    let batch = catch_decoder_panic(path, || rows.next().transpose().map_err(|e| damaged(path, e)))?;
    Ok(batch.and_then(|b| b.columns().first().cloned()))
}

/// Starts decoding a projection.
pub(super) fn record_batches(
    path: &Path,
    file: &File,
    columns: Vec<usize>,
    size: usize,
) -> Result<ParquetRecordBatchReader, FrameError> {
    let builder = builder(path, file)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
    catch_decoder_panic(path, || {
        builder.with_projection(mask).with_batch_size(size).build().map_err(|e| damaged(path, e))
    })
}

/// Streaming Parquet decoder.
pub(super) struct Parquet {
    plan: ReadPlan,
    positions: Vec<usize>,
    rows: ParquetRecordBatchReader,
    done: u64,
    total: u64,
    size: u64,
}

impl Parquet {
    /// Starts decoding; `total` is the number of rows, `size` the bytes of the file.
    pub(super) fn new(plan: ReadPlan, file: &File, total: u64, size: u64) -> Result<Parquet, FrameError> {
        let positions = plan.columns.positions();
        let rows = record_batches(&plan.path, file, positions.clone(), CHUNK_ROWS)?;
        Ok(Parquet { plan, positions, rows, done: 0, total, size })
    }
}

impl ChunkSource for Parquet {
    fn next_chunk(&mut self, state: &mut ReadState) -> Result<Option<Chunk>, FrameError> {
        let Parquet { plan, positions, rows, done, total, .. } = self;
        catch_decoder_panic(&plan.path, || {
            let Some(batch) = rows.next().transpose().map_err(|e| damaged(&plan.path, e))? else {
                return match *done == *total {
                    true => Ok(None),
                    false => Err(damaged(
                        &plan.path,
                        format!("its footer says {total} rows, and {done} were decoded"),
                    )),
                };
            };
            let chunk = record_batch::to_chunk(&batch, positions, plan, *done + 1, state)?;
            *done += batch.num_rows() as u64;
            Ok(Some(chunk))
        })
    }

    fn bytes_read(&self) -> u64 {
        // The decoder has no byte position; estimated from rows.
        (self.size as f64 * (self.done as f64 / self.total.max(1) as f64).min(1.0)) as u64
    }
}
