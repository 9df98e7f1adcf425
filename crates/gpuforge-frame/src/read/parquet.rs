//! Parquet reader: projected columns, some rows at a time. Can what it says be trusted?
//!
//! Page checksums (CRC-32) are verified wherever a file has them; counts of rows in footer, row groups and columns must
//! agree with each other and with what was decoded. Anything else is an error, never fewer rows.

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
    batch,
    chunk::{Chunk, Intake, Plan, ROWS, Source},
    guarded, thrift,
};
use crate::error::FrameError;

/// Rows that are looked at to tell the type of a time column of texts.
const LOOKS: usize = 1000;

/// An error of the decoder.
fn damaged(path: &Path, error: impl std::fmt::Display) -> FrameError {
    let message =
        format!("the Parquet file is damaged or incomplete: {error}\n  hint: copy or write it again");
    FrameError::Format { path: path.into(), message }
}

/// The columns of a file and its number of rows.
pub(super) fn head(path: &Path, file: &File) -> Result<(SchemaRef, u64), FrameError> {
    let builder = builder(path, file)?;
    let rows = counted(builder.metadata()).map_err(|why| damaged(path, why))?;
    Ok((builder.schema().clone(), rows))
}

/// The rows of a file, if all counts of its footer agree: the file's, those of its row groups, those of their columns.
fn counted(metadata: &ParquetMetaData) -> Result<u64, String> {
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

/// Reads the footer.
fn builder(path: &Path, file: &File) -> Result<ParquetRecordBatchReaderBuilder<File>, FrameError> {
    let io = |source| FrameError::Io { doing: "read", path: path.into(), source };
    let footer = footer(file).map_err(io)?;
    if footer.is_some_and(|footer| !thrift::plausible(&footer)) {
        return Err(damaged(path, "the footer makes no sense"));
    }
    let file = file.try_clone().map_err(io)?;
    let builder =
        guarded(path, || ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| damaged(path, e)))?;
    counted(builder.metadata()).map_err(|why| damaged(path, why))?;
    Ok(builder)
}

/// The footer's bytes; `None` where the decoder will see for itself that there is none.
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

/// The first texts of a column.
pub(super) fn first(path: &Path, file: &File, column: usize) -> Result<Option<ArrayRef>, FrameError> {
    let mut rows = rows(path, file, vec![column], LOOKS)?;
    let batch = guarded(path, || rows.next().transpose().map_err(|e| damaged(path, e)))?;
    Ok(batch.and_then(|b| b.columns().first().cloned()))
}

/// Starts to read some columns.
pub(super) fn rows(
    path: &Path,
    file: &File,
    columns: Vec<usize>,
    size: usize,
) -> Result<ParquetRecordBatchReader, FrameError> {
    let builder = builder(path, file)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
    guarded(path, || {
        builder.with_projection(mask).with_batch_size(size).build().map_err(|e| damaged(path, e))
    })
}

/// A Parquet file that is being read.
pub(super) struct Parquet {
    plan: Plan,
    positions: Vec<usize>,
    rows: ParquetRecordBatchReader,
    done: u64,
    total: u64,
    size: u64,
}

impl Parquet {
    /// Reads a file; `total` is its number of rows, `size` its bytes.
    pub(super) fn new(plan: Plan, file: &File, total: u64, size: u64) -> Result<Parquet, FrameError> {
        let positions = plan.columns.positions();
        let rows = rows(&plan.path, file, positions.clone(), ROWS)?;
        Ok(Parquet { plan, positions, rows, done: 0, total, size })
    }
}

impl Source for Parquet {
    fn next(&mut self, intake: &mut Intake) -> Result<Option<Chunk>, FrameError> {
        let Parquet { plan, positions, rows, done, total, .. } = self;
        guarded(&plan.path, || {
            let Some(batch) = rows.next().transpose().map_err(|e| damaged(&plan.path, e))? else {
                return match *done == *total {
                    true => Ok(None),
                    false => Err(damaged(
                        &plan.path,
                        format!("its footer says {total} rows, and {done} were decoded"),
                    )),
                };
            };
            let chunk = batch::chunk(&batch, positions, plan, *done + 1, intake)?;
            *done += batch.num_rows() as u64;
            Ok(Some(chunk))
        })
    }

    fn bytes(&self) -> u64 {
        // The decoder does not say where it is; rows do.
        (self.size as f64 * (self.done as f64 / self.total.max(1) as f64).min(1.0)) as u64
    }
}
