//! Parquet writer: every column is encoded on its own thread into the open row group, every page carries its checksum. How
//! does a batch become Parquet?

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    datatypes::{DataType, Field, Schema},
};
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves},
    },
    basic::{Compression, Encoding, ZstdLevel},
    errors::ParquetError,
    file::{
        properties::{EnabledStatistics, WriterProperties},
        writer::SerializedFileWriter,
    },
    schema::types::ColumnPath,
};
use rayon::prelude::*;

use super::{
    Encoder,
    batch::Batch,
    page_crc::{Chunk, Stores},
    place::{Sink, Stopped},
};

/// Rows of a page, at most: a page is compressed on its own, and larger ones compress faster.
const PAGE_ROWS: usize = 1 << 16;

/// A file of Parquet.
pub(crate) struct Parquet {
    file: SerializedFileWriter<Sink>,
    factory: ArrowRowGroupWriterFactory,
    schema: Arc<Schema>,
    /// The open row group, and how many rows it has.
    open: Option<Vec<ArrowColumnWriter>>,
    /// Its pages, column by column.
    chunks: Vec<Chunk>,
    stores: Stores,
    rows: usize,
    group_rows: usize,
    groups: usize,
}

impl Parquet {
    /// Begins a file whose first `keys` columns are keys.
    pub(crate) fn new(
        out: Sink,
        schema: Arc<Schema>,
        keys: usize,
        group_rows: usize,
        level: i32,
    ) -> Result<Self, Stopped> {
        let stores = Stores::default();
        let options = ArrowWriterOptions::new()
            .with_properties(properties(&schema, keys, level)?)
            .with_page_store_factory(Arc::new(stores.clone()));
        let writer = ArrowWriter::try_new_with_options(out, schema.clone(), options)?;
        let (file, factory) = writer.into_serialized_writer()?;
        // The writer may have made stores of its own.
        stores.take();
        Ok(Parquet {
            file,
            factory,
            stores,
            schema,
            open: None,
            chunks: Vec::new(),
            rows: 0,
            group_rows,
            groups: 0,
        })
    }

    fn close_group(&mut self) -> Result<(), Stopped> {
        let Some(writers) = self.open.take() else { return Ok(()) };
        let kept = std::mem::take(&mut self.chunks);
        let finish = |(writer, pages): (ArrowColumnWriter, Chunk)| {
            let close = writer.close()?.close().clone();
            pages.finish(close)
        };
        let chunks: Vec<_> =
            writers.into_par_iter().zip(kept).map(finish).collect::<Result<_, ParquetError>>()?;
        let mut group = self.file.next_row_group()?;
        for (pages, close) in chunks {
            group.append_column(&pages, close)?;
        }
        group.close()?;
        self.groups += 1;
        self.rows = 0;
        Ok(())
    }
}

impl Encoder for Parquet {
    /// Encodes a batch, and ends the row group if it is full.
    fn write(&mut self, batch: &mut Batch) -> Result<(), Stopped> {
        self.rows += batch.rows();
        let single = batch.single();
        let (keys, cells) = batch.take();
        let writers = match &mut self.open {
            Some(writers) => writers,
            closed => {
                let writers = self.factory.create_column_writers(self.groups)?;
                self.chunks = self.stores.take();
                closed.insert(writers)
            }
        };
        let columns = self.schema.fields().len();
        let (key_writers, writers) = writers.split_at_mut(columns.saturating_sub(cells.len()).min(columns));
        let (key_fields, fields) = self.schema.fields().split_at(key_writers.len());
        for ((writer, field), key) in key_writers.iter_mut().zip(key_fields).zip(keys) {
            encode(writer, field, &[key])?;
        }
        let column =
            |((writer, field), cells): ((&mut ArrowColumnWriter, &Arc<Field>), super::batch::Cells)| {
                encode(writer, field, &cells.pieces(single))
            };
        writers.par_iter_mut().zip(fields).zip(cells).try_for_each(column)?;
        match self.rows >= self.group_rows {
            true => self.close_group(),
            false => Ok(()),
        }
    }

    /// Writes what is open and the footer.
    fn finish(mut self: Box<Self>) -> Result<(), Stopped> {
        self.close_group()?;
        self.file.finish()?;
        std::io::Write::flush(self.file.inner_mut())?;
        Ok(())
    }
}

fn encode(writer: &mut ArrowColumnWriter, field: &Field, pieces: &[ArrayRef]) -> Result<(), ParquetError> {
    for piece in pieces {
        for leaf in compute_leaves(field, piece)? {
            writer.write(&leaf)?;
        }
    }
    Ok(())
}

fn properties(schema: &Schema, keys: usize, level: i32) -> Result<WriterProperties, Stopped> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
        // Exponents beside exponents: 5.7 bytes a value and 15 % faster, against 7.2 as they are (tests/write.rs, throughput;
        // 64k rows x 100 means of a price, level 1; level 3 gives 5.6 and takes a third more time; machine not idle).
        .set_encoding(Encoding::BYTE_STREAM_SPLIT)
        // Values of indicators hardly ever repeat, and nobody looks for one by its size.
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_data_page_row_count_limit(PAGE_ROWS)
        // Groups are ended here, by `write`.
        .set_max_row_group_row_count(None);
    for field in schema.fields().iter().take(keys) {
        let path = ColumnPath::from(field.name().as_str());
        properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        properties = match field.data_type() {
            DataType::Utf8 => properties
                .set_column_encoding(path.clone(), Encoding::PLAIN)
                .set_column_dictionary_enabled(path, true),
            // Bars come at regular times: differences take a bit or two each.
            _ => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    Ok(properties.build())
}
