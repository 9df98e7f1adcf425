//! How does a batch become Arrow IPC? As it lies in memory; compressed only on request.

use arrow::{
    datatypes::Schema,
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions},
    },
};

use super::{
    Encoder,
    batch::Batch,
    place::{Sink, Stopped},
};

/// A file of Arrow IPC: one record batch after another, and a footer that says where they are.
pub(crate) struct Ipc {
    file: FileWriter<Sink>,
}

impl Ipc {
    pub(crate) fn new(out: Sink, schema: &Schema, compress: bool) -> Result<Self, Stopped> {
        let compression = compress.then_some(CompressionType::ZSTD);
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        Ok(Ipc { file: FileWriter::try_new_with_options(out, schema, options)? })
    }
}

impl Encoder for Ipc {
    fn write(&mut self, batch: &mut Batch) -> Result<(), Stopped> {
        Ok(self.file.write(&batch.record()?)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stopped> {
        self.file.finish()?;
        Ok(self.file.flush()?)
    }
}
