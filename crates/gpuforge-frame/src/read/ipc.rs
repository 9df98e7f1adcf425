//! Arrow IPC reader: record batches of the file format (footer) and the stream format, message by message.
//!
//! Lengths are checked against the file size before anything is allocated: a failed allocation aborts the process. A
//! message is held whole, so a file with one huge batch takes its size in memory.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    buffer::Buffer,
    datatypes::SchemaRef,
    ipc::{
        Block, MessageHeader, MetadataVersion, convert::fb_to_schema, reader::FileDecoder, root_as_footer,
        root_as_message,
    },
};

use super::{
    catch_decoder_panic,
    chunk::{CHUNK_ROWS, Chunk, ChunkSource, ReadPlan, ReadState},
    record_batch,
};
use crate::error::FrameError;

/// Maximum decompressed size of a buffer. The decoder allocates what a buffer claims; less under fuzzing, whose memory limit would
/// take each such claim for a finding.
const MAX_BUFFER: i64 = if cfg!(fuzzing) { 256 << 20 } else { 4 << 30 };

/// Message order.
enum Messages {
    /// Blocks listed in the footer: dictionaries first.
    Footer(VecDeque<Block>),
    /// Sequential.
    Stream,
}

/// An encapsulated message: bytes, and the length of its metadata.
struct Message {
    bytes: Buffer,
    metadata: usize,
}

/// An open IPC file or stream.
struct Ipc {
    path: PathBuf,
    file: BufReader<File>,
    size: u64,
    /// Message bytes read.
    read: u64,
    messages: Messages,
    schema: SchemaRef,
    version: MetadataVersion,
}

impl Ipc {
    fn damaged(path: &Path, error: impl std::fmt::Display) -> FrameError {
        let message =
            format!("the Arrow file is damaged or incomplete: {error}\n  hint: copy or write it again");
        FrameError::Format { path: path.into(), message }
    }

    fn io(path: &Path) -> impl Fn(std::io::Error) -> FrameError {
        move |source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => Ipc::damaged(path, "it ends too early"),
            _ => FrameError::Io { doing: "read", path: path.into(), source },
        }
    }

    /// Opens a file or stream.
    fn open(path: &Path, file: &File) -> Result<Ipc, FrameError> {
        let io = Ipc::io(path);
        let mut file = BufReader::with_capacity(1 << 16, file.try_clone().map_err(&io)?);
        let size = file.seek(SeekFrom::End(0)).map_err(&io)?;
        file.rewind().map_err(&io)?;
        let mut magic = [0; 6];
        file.read_exact(&mut magic).map_err(&io)?;
        catch_decoder_panic(path, || {
            if magic == *b"ARROW1" {
                Ipc::open_file(path, file, size)
            } else {
                Ipc::open_stream(path, file, size)
            }
        })
    }

    /// File format: reads the footer.
    fn open_file(path: &Path, mut file: BufReader<File>, size: u64) -> Result<Ipc, FrameError> {
        let io = Ipc::io(path);
        let tail = size.checked_sub(10).ok_or_else(|| Ipc::damaged(path, "it ends too early"))?;
        file.seek(SeekFrom::Start(tail)).map_err(&io)?;
        let mut last = [0; 10];
        file.read_exact(&mut last).map_err(&io)?;
        let [a, b, c, d, magic @ ..] = last;
        if magic != *b"ARROW1" {
            return Err(Ipc::damaged(path, "its end is missing"));
        }
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        let start = tail
            .checked_sub(length)
            .ok_or_else(|| Ipc::damaged(path, "the footer is longer than the file"))?;
        file.seek(SeekFrom::Start(start)).map_err(&io)?;
        let mut bytes = Vec::new();
        (&mut file).take(length).read_to_end(&mut bytes).map_err(&io)?;
        let footer = root_as_footer(&bytes).map_err(|e| Ipc::damaged(path, e))?;
        let schema = footer.schema().ok_or_else(|| Ipc::damaged(path, "it has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Ipc::damaged(path, "its byte order is not this machine's"));
        }
        let dictionaries = footer.dictionaries().into_iter().flatten().copied();
        let blocks = dictionaries.chain(footer.recordBatches().into_iter().flatten().copied()).collect();
        let (schema, version) = (Arc::new(fb_to_schema(schema)), footer.version());
        Ok(Ipc {
            path: path.into(),
            file,
            size,
            read: 0,
            messages: Messages::Footer(blocks),
            schema,
            version,
        })
    }

    /// Stream format: the first message is the schema.
    fn open_stream(path: &Path, mut file: BufReader<File>, size: u64) -> Result<Ipc, FrameError> {
        file.rewind().map_err(Ipc::io(path))?;
        let first = next_stream_message(path, &mut file, size)?
            .ok_or_else(|| Ipc::damaged(path, "it has no schema"))?;
        let metadata = first.bytes.get(8..).unwrap_or_default();
        let message = root_as_message(metadata).map_err(|e| Ipc::damaged(path, e))?;
        let schema = message.header_as_schema().ok_or_else(|| Ipc::damaged(path, "it has no schema"))?;
        let (schema, version) = (Arc::new(fb_to_schema(schema)), message.version());
        Ok(Ipc { path: path.into(), file, size, read: 0, messages: Messages::Stream, schema, version })
    }

    /// The next message.
    fn next(&mut self) -> Result<Option<Message>, FrameError> {
        let Messages::Footer(blocks) = &mut self.messages else {
            return next_stream_message(&self.path, &mut self.file, self.size);
        };
        let Some(block) = blocks.pop_front() else { return Ok(None) };
        let io = Ipc::io(&self.path);
        let wrong = || Ipc::damaged(&self.path, "its footer points behind its end");
        let offset = u64::try_from(block.offset()).map_err(|_| wrong())?;
        let metadata = usize::try_from(block.metaDataLength()).map_err(|_| wrong())?;
        let body = u64::try_from(block.bodyLength()).map_err(|_| wrong())?;
        let length = body.checked_add(metadata as u64).ok_or_else(wrong)?;
        if offset.checked_add(length).is_none_or(|end| end > self.size) {
            return Err(wrong());
        }
        self.file.seek(SeekFrom::Start(offset)).map_err(&io)?;
        let mut bytes = Vec::with_capacity(length as usize);
        (&mut self.file).take(length).read_to_end(&mut bytes).map_err(&io)?;
        Ok(Some(Message { bytes: Buffer::from_vec(bytes), metadata }))
    }
}

/// Next message of a stream: continuation marker, metadata length, metadata, body.
fn next_stream_message(
    path: &Path,
    file: &mut BufReader<File>,
    size: u64,
) -> Result<Option<Message>, FrameError> {
    let io = Ipc::io(path);
    let at = file.stream_position().map_err(&io)?;
    if at >= size {
        return Ok(None);
    }
    let mut prefix = [0; 8];
    file.read_exact(&mut prefix).map_err(&io)?;
    let [m0, m1, m2, m3, l0, l1, l2, l3] = prefix;
    if [m0, m1, m2, m3] != [0xFF; 4] {
        return Err(Ipc::damaged(path, "a message does not begin where it should"));
    }
    let metadata = u32::from_le_bytes([l0, l1, l2, l3]);
    if metadata == 0 {
        return Ok(None);
    }
    let mut bytes = prefix.to_vec();
    file.take(u64::from(metadata)).read_to_end(&mut bytes).map_err(&io)?;
    let metadata = metadata as usize + 8;
    let short = || Ipc::damaged(path, "it ends too early");
    if bytes.len() < metadata {
        return Err(short());
    }
    let message = root_as_message(bytes.get(8..).unwrap_or_default()).map_err(|e| Ipc::damaged(path, e))?;
    let body = u64::try_from(message.bodyLength()).map_err(|_| short())?;
    if body > size.saturating_sub(at) {
        return Err(short());
    }
    bytes.reserve_exact(body as usize);
    let got = file.take(body).read_to_end(&mut bytes).map_err(&io)?;
    if (got as u64) < body {
        return Err(short());
    }
    Ok(Some(Message { bytes: Buffer::from_vec(bytes), metadata }))
}

/// Are all buffers within the body, and their declared decompressed lengths within bounds?
fn buffers_in_bounds(message: &Message, metadata: &[u8]) -> bool {
    let Ok(header) = root_as_message(metadata) else { return false };
    let dictionary = header.header_as_dictionary_batch();
    let batch = header.header_as_record_batch().or_else(|| dictionary.and_then(|d| d.data()));
    let body = message.bytes.get(message.metadata..).unwrap_or_default();
    let compressed = batch.is_some_and(|b| b.compression().is_some());
    batch.and_then(|b| b.buffers()).into_iter().flatten().all(|buffer| {
        let start = usize::try_from(buffer.offset()).unwrap_or(usize::MAX);
        let length = usize::try_from(buffer.length()).unwrap_or(usize::MAX);
        let bytes = start.checked_add(length).and_then(|end| body.get(start..end));
        let claimed =
            |bytes: &[u8]| bytes.first_chunk().is_some_and(|b| i64::from_le_bytes(*b) <= MAX_BUFFER);
        bytes.is_some_and(|bytes| !compressed || bytes.is_empty() || claimed(bytes))
    })
}

/// Record batch decoder.
pub(super) struct Batches {
    ipc: Ipc,
    decoder: FileDecoder,
}

impl Batches {
    pub(super) fn new(path: &Path, file: &File, columns: Vec<usize>) -> Result<Batches, FrameError> {
        let ipc = Ipc::open(path, file)?;
        let decoder = FileDecoder::new(ipc.schema.clone(), ipc.version).with_projection(columns);
        Ok(Batches { ipc, decoder })
    }

    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, FrameError> {
        let path = self.ipc.path.clone();
        while let Some(message) = self.ipc.next()? {
            self.ipc.read += message.bytes.len() as u64;
            // Files of old writers (before 0.15) have no continuation marker.
            let marked = message.bytes.starts_with(&[0xFF; 4]);
            let metadata =
                message.bytes.get(if marked { 8 } else { 4 }..message.metadata).unwrap_or_default();
            if !buffers_in_bounds(&message, metadata) {
                return Err(Ipc::damaged(&path, "a length in it makes no sense"));
            }
            let header = root_as_message(metadata).map_err(|e| Ipc::damaged(&path, e))?;
            let body = message.bytes.len().saturating_sub(message.metadata);
            let block = Block::new(0, message.metadata as i32, body as i64);
            if header.header_type() == MessageHeader::DictionaryBatch {
                self.decoder.read_dictionary(&block, &message.bytes).map_err(|e| Ipc::damaged(&path, e))?;
            } else if let Some(batch) =
                self.decoder.read_record_batch(&block, &message.bytes).map_err(|e| Ipc::damaged(&path, e))?
            {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// Schema of a file.
pub(super) fn schema(path: &Path, file: &File) -> Result<SchemaRef, FrameError> {
    Ok(Ipc::open(path, file)?.schema)
}

/// First values of a column.
pub(super) fn first_values(path: &Path, file: &File, column: usize) -> Result<Option<ArrayRef>, FrameError> {
    let mut batches = Batches::new(path, file, vec![column])?;
    let batch = catch_decoder_panic(path, || batches.next())?;
    Ok(batch.and_then(|b| b.columns().first().cloned()))
}

/// Streaming Arrow IPC decoder.
pub(super) struct ArrowFile {
    plan: ReadPlan,
    positions: Vec<usize>,
    batches: Batches,
    /// Current batch and rows consumed of it.
    current: Option<(RecordBatch, usize)>,
    done: u64,
}

impl ArrowFile {
    /// Starts decoding.
    pub(super) fn new(plan: ReadPlan, file: &File) -> Result<ArrowFile, FrameError> {
        let positions = plan.columns.positions();
        let batches = Batches::new(&plan.path, file, positions.clone())?;
        Ok(ArrowFile { plan, positions, batches, current: None, done: 0 })
    }

    fn step(&mut self, state: &mut ReadState) -> Result<Option<Chunk>, FrameError> {
        loop {
            if let Some((batch, used)) = &mut self.current
                && *used < batch.num_rows()
            {
                let rows = CHUNK_ROWS.min(batch.num_rows() - *used);
                let part = batch.slice(*used, rows);
                *used += rows;
                let chunk = record_batch::to_chunk(&part, &self.positions, &self.plan, self.done + 1, state)?;
                self.done += rows as u64;
                return Ok(Some(chunk));
            }
            self.current = None;
            match self.batches.next()? {
                Some(batch) => self.current = Some((batch, 0)),
                None => return Ok(None),
            }
        }
    }
}

impl ChunkSource for ArrowFile {
    fn next_chunk(&mut self, state: &mut ReadState) -> Result<Option<Chunk>, FrameError> {
        let path = self.plan.path.clone();
        catch_decoder_panic(&path, || self.step(state))
    }

    fn bytes_read(&self) -> u64 {
        self.batches.ipc.read.min(self.batches.ipc.size)
    }
}
