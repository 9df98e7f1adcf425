//! Arrow IPC writer: record batches in memory layout, so that the file can be memory mapped; zstd on request.

use arrow::{
    datatypes::Schema,
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions},
    },
};

use super::{
    Encoder,
    batch_builder::BatchBuilder,
    output_target::{EncodeError, Sink},
};

/// Arrow IPC file encoder.
pub(crate) struct Ipc {
    file: FileWriter<Sink>,
}

impl Ipc {
    pub(crate) fn new(out: Sink, schema: &Schema, compress: bool) -> Result<Self, EncodeError> {
        let compression = compress.then_some(CompressionType::ZSTD);
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        Ok(Ipc { file: FileWriter::try_new_with_options(out, schema, options)? })
    }
}

impl Encoder for Ipc {
    fn write(&mut self, batch: &mut BatchBuilder) -> Result<(), EncodeError> {
        Ok(self.file.write(&batch.record_batch()?)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), EncodeError> {
        self.file.finish()?;
        Ok(self.file.flush()?)
    }
}
