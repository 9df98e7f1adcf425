//! How do results come back? In loads that are mapped one after the other; while one is copied out, the device fills the
//! next.

use std::{collections::VecDeque, time::Duration};

use gpuforge_profile::{Category, span};

use super::staging::{Flag, Mapping, Part, Purpose, Staging, WINDOW, map};
use crate::{
    engine::{BlockId, Done, EngineError},
    memory::{AllocError, Tag},
    units::Bytes,
};

/// A buffer that is being mapped, and what of it belongs where.
struct Read {
    buffer: wgpu::Buffer,
    flag: Flag,
    parts: Vec<Part>,
    /// A staging buffer goes back; a block of the job stays where it is.
    staged: bool,
    after: Option<wgpu::SubmissionIndex>,
}

/// Timestamps of passes.
struct Stamps {
    buffer: wgpu::Buffer,
    flag: Flag,
    count: u32,
}

/// A job whose commands are with the device.
#[derive(Default)]
pub(super) struct Pending {
    reads: VecDeque<Read>,
    /// Loads that are not asked for yet.
    loads: VecDeque<Vec<Part>>,
    /// Where each output comes from, for the loads.
    sources: Vec<wgpu::Buffer>,
    outputs: Vec<Vec<u8>>,
    stamps: Option<Stamps>,
    finished: Flag,
    last: Option<wgpu::SubmissionIndex>,
    /// Goes back when the device is done.
    params: Option<wgpu::Buffer>,
    /// Blocks that are mapped where they are: no other job may use them meanwhile.
    held: Vec<BlockId>,
    /// Blocks that queued loads are still to be copied from: no other job may map them meanwhile.
    later: Vec<BlockId>,
    failed: Option<String>,
}

impl Pending {
    /// The next output; its buffer and size.
    pub(super) fn expect(&mut self, source: wgpu::Buffer, size: u64) -> Result<usize, EngineError> {
        let mut bytes = Vec::new();
        let room = usize::try_from(size).ok().and_then(|n| bytes.try_reserve_exact(n).ok());
        if room.is_none() {
            return Err(
                AllocError::OutOfMemory { asked: Bytes(size), tag: Tag("host copy of a result") }.into()
            );
        }
        self.outputs.push(bytes);
        self.sources.push(source);
        Ok(self.outputs.len() - 1)
    }

    /// Maps an output where it is.
    pub(super) fn read_in_place(&mut self, output: usize, block: BlockId, size: u64) {
        let Some(buffer) = self.sources.get(output).cloned() else { return };
        let flag = map(&buffer, wgpu::MapMode::Read, size);
        let parts = vec![Part { output, offset: 0, at: 0, len: size }];
        self.held.push(block);
        self.reads.push_back(Read { buffer, flag, parts, staged: false, after: None });
    }

    /// Loads of this block may be asked for after the job was submitted.
    pub(super) fn copies_later(&mut self, block: BlockId) {
        self.later.push(block);
    }

    /// Encodes the copies of one load.
    pub(super) fn copy(&self, parts: &[Part], into: &wgpu::Buffer, encoder: &mut wgpu::CommandEncoder) {
        for part in parts {
            if let Some(source) = self.sources.get(part.output) {
                encoder.copy_buffer_to_buffer(source, part.offset, into, part.at, part.len);
            }
        }
    }

    /// Maps a load whose copies were submitted.
    pub(super) fn read_load(
        &mut self,
        buffer: wgpu::Buffer,
        parts: Vec<Part>,
        after: Option<wgpu::SubmissionIndex>,
    ) {
        let filled = parts.last().map_or(0, |p| p.at + p.len);
        let flag = map(&buffer, wgpu::MapMode::Read, filled);
        self.reads.push_back(Read { buffer, flag, parts, staged: true, after });
    }

    /// Maps timestamps.
    pub(super) fn read_stamps(&mut self, buffer: wgpu::Buffer, count: u32) {
        let flag = map(&buffer, wgpu::MapMode::Read, u64::from(count) * 8);
        self.stamps = Some(Stamps { buffer, flag, count });
    }

    /// Loads to be asked for as earlier ones come in.
    pub(super) fn queue_loads(&mut self, loads: VecDeque<Vec<Part>>) {
        self.loads = loads;
    }

    /// Everything was submitted but the queued loads.
    pub(super) fn submitted(
        &mut self,
        queue: &wgpu::Queue,
        last: Option<wgpu::SubmissionIndex>,
        params: Option<wgpu::Buffer>,
    ) {
        let done = self.finished.clone();
        queue.on_submitted_work_done(move || done.set(true));
        self.last = last;
        self.params = params;
    }

    /// Asks for queued loads while there is room.
    pub(super) fn ask(&mut self, device: &wgpu::Device, queue: &wgpu::Queue, staging: &mut Staging) {
        let size = |parts: &[Part]| parts.last().map_or(0, |p| p.at + p.len);
        let mut on_the_way: u64 = self.reads.iter().filter(|r| r.staged).map(|r| r.buffer.size()).sum();
        while on_the_way < WINDOW
            && let Some(parts) = self.loads.pop_front()
        {
            let buffer = staging.take(device, Purpose::Down, size(&parts));
            on_the_way += buffer.size();
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            self.copy(&parts, &buffer, &mut encoder);
            let after = queue.submit([encoder.finish()]);
            self.last = Some(after.clone());
            self.read_load(buffer, parts, Some(after));
        }
    }

    /// Does a job with these blocks have to wait for this one? Only where blocks are mapped at all.
    pub(super) fn holds(&self, blocks: &[BlockId]) -> bool {
        let later = self.later.iter().filter(|_| !self.loads.is_empty());
        self.held.iter().chain(later).any(|block| blocks.contains(block))
    }

    /// What to wait for next.
    pub(super) fn target(&self) -> Option<wgpu::SubmissionIndex> {
        let first = self.reads.front().and_then(|r| r.after.clone());
        first.or_else(|| self.last.clone())
    }

    /// Takes in what has come, and asks for more. `true` when nothing is left to wait for.
    pub(super) fn advance(
        &mut self,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        staging: &mut Staging,
    ) -> bool {
        while let Some(read) = self.reads.front() {
            match read.flag.get() {
                Mapping::Waiting => break,
                Mapping::Ready => {}
                Mapping::Failed => self.failed = Some("a buffer could not be mapped".to_owned()),
            }
            let Some(read) = self.reads.pop_front() else { break };
            if self.failed.is_none()
                && let Err(error) = copy_out(&read, &mut self.outputs)
            {
                self.failed = Some(error);
            }
            if read.flag.get() == Mapping::Ready {
                read.buffer.unmap();
                if read.staged {
                    staging.give(Purpose::Down, read.buffer);
                }
            }
            if self.failed.is_none() {
                self.ask(device, queue, staging);
            }
        }
        if self.failed.is_some() {
            return true;
        }
        let stamped = self.stamps.as_ref().is_none_or(|s| s.flag.get() != Mapping::Waiting);
        self.reads.is_empty() && self.loads.is_empty() && stamped && self.finished.get() != Mapping::Waiting
    }

    /// The result, once [`advance`](Self::advance) said that all is there. Buffers go back.
    pub(super) fn finish(mut self, queue: &wgpu::Queue, staging: &mut Staging) -> Result<Done, EngineError> {
        let mut device_time = None;
        if let Some(stamps) = self.stamps.take()
            && stamps.flag.get() == Mapping::Ready
        {
            device_time = pass_time(&stamps, queue.get_timestamp_period());
            stamps.buffer.unmap();
            staging.give(Purpose::Down, stamps.buffer);
        }
        if let Some(reason) = self.failed.take() {
            return Err(EngineError::Lost { reason });
        }
        if let Some(params) = self.params.take() {
            staging.give(Purpose::Params, params);
        }
        Ok(Done { outputs: std::mem::take(&mut self.outputs), device_time })
    }
}

impl Drop for Pending {
    /// Takes the mappings back, so that the blocks can be used again.
    fn drop(&mut self) {
        for read in self.reads.iter().filter(|r| !r.staged) {
            read.buffer.unmap();
        }
    }
}

/// Parts come in the order of their outputs, so that each is appended: no byte is written twice.
fn copy_out(read: &Read, outputs: &mut [Vec<u8>]) -> Result<(), String> {
    let mut span = span!("download", Category::Transfer);
    span.bytes(read.parts.iter().map(|part| part.len).sum());
    for part in &read.parts {
        let view = read.buffer.get_mapped_range(part.at..part.at + part.len).map_err(|e| e.to_string())?;
        if let Some(output) = outputs.get_mut(part.output) {
            output.extend_from_slice(&view);
        }
    }
    Ok(())
}

/// Time inside passes. Zero or reversed stamps are what broken clocks write: the whole figure is then unknown.
fn pass_time(stamps: &Stamps, period_ns: f32) -> Option<Duration> {
    let view = stamps.buffer.get_mapped_range(..u64::from(stamps.count) * 8).ok()?;
    let words: Vec<u64> = view.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
    let ticks = total(&words)?;
    Duration::try_from_secs_f64(ticks as f64 * f64::from(period_ns) * 1e-9).ok()
}

/// Sum of `end - begin`; pure.
fn total(stamps: &[u64]) -> Option<u64> {
    stamps.as_chunks::<2>().0.iter().try_fold(0u64, |sum, [begin, end]| {
        let took = end.checked_sub(*begin).filter(|_| *begin != 0)?;
        sum.checked_add(took)
    })
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn broken_clocks_give_no_time() {
        assert_eq!(total(&[10, 15, 20, 27]), Some(12));
        for broken in [[0, 5, 6, 7], [10, 9, 20, 30], [1, 2, 0, 0]] {
            assert_eq!(total(&broken), None, "{broken:?}");
        }
        assert_eq!(total(&[1, u64::MAX, 1, u64::MAX]), None, "more than can be counted");
    }
}
