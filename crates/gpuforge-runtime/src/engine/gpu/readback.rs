//! Readback: maps results in chunks, pipelined - while the CPU copies one chunk out, the device fills the next.

use std::{collections::VecDeque, time::Duration};

use gpuforge_profile::{Category, span};

use super::staging::{CopyRegion, MapFlag, Mapping, Purpose, Staging, WINDOW, map};
use crate::{
    engine::{BlockId, EngineError, JobOutput},
    memory::{AllocError, Tag},
    units::Bytes,
};

/// A buffer that is being mapped, and its copy regions.
struct MappedRead {
    buffer: wgpu::Buffer,
    flag: MapFlag,
    regions: Vec<CopyRegion>,
    /// A staging buffer is recycled; a block of the job stays where it is.
    staged: bool,
    after: Option<wgpu::SubmissionIndex>,
}

/// Timestamps of compute passes.
struct Timestamps {
    buffer: wgpu::Buffer,
    flag: MapFlag,
    count: u32,
}

/// A submitted job.
#[derive(Default)]
pub(super) struct PendingJob {
    reads: VecDeque<MappedRead>,
    /// Chunks whose copy is not submitted yet.
    chunks: VecDeque<Vec<CopyRegion>>,
    /// Source buffer of each output.
    sources: Vec<wgpu::Buffer>,
    outputs: Vec<Vec<u8>>,
    timestamps: Option<Timestamps>,
    finished: MapFlag,
    last: Option<wgpu::SubmissionIndex>,
    /// Recycled when the job is done.
    params: Option<wgpu::Buffer>,
    /// Blocks that are mapped in place: no other job may use them meanwhile.
    mapped: Vec<BlockId>,
    /// Source blocks of queued chunks: no other job may map them meanwhile.
    queued_sources: Vec<BlockId>,
    failed: Option<String>,
}

impl PendingJob {
    /// Adds an output with its source buffer and size.
    pub(super) fn add_output(&mut self, source: wgpu::Buffer, size: u64) -> Result<usize, EngineError> {
        let mut bytes = Vec::new();
        let reserved = usize::try_from(size).ok().and_then(|n| bytes.try_reserve_exact(n).ok());
        if reserved.is_none() {
            return Err(
                AllocError::OutOfMemory { asked: Bytes(size), tag: Tag("host copy of a result") }.into()
            );
        }
        self.outputs.push(bytes);
        self.sources.push(source);
        Ok(self.outputs.len() - 1)
    }

    /// Maps an output in place (zero-copy, unified memory).
    pub(super) fn read_in_place(&mut self, output: usize, block: BlockId, size: u64) {
        let Some(buffer) = self.sources.get(output).cloned() else { return };
        let flag = map(&buffer, wgpu::MapMode::Read, size);
        let regions = vec![CopyRegion { output, offset: 0, at: 0, len: size }];
        self.mapped.push(block);
        self.reads.push_back(MappedRead { buffer, flag, regions, staged: false, after: None });
    }

    /// Chunks of this block may be copied after the job was submitted.
    pub(super) fn add_queued_source(&mut self, block: BlockId) {
        self.queued_sources.push(block);
    }

    /// Encodes the copies of one chunk.
    pub(super) fn copy(
        &self,
        regions: &[CopyRegion],
        into: &wgpu::Buffer,
        encoder: &mut wgpu::CommandEncoder,
    ) {
        for region in regions {
            if let Some(source) = self.sources.get(region.output) {
                encoder.copy_buffer_to_buffer(source, region.offset, into, region.at, region.len);
            }
        }
    }

    /// Maps a chunk whose copies were submitted.
    pub(super) fn read_chunk(
        &mut self,
        buffer: wgpu::Buffer,
        regions: Vec<CopyRegion>,
        after: Option<wgpu::SubmissionIndex>,
    ) {
        let filled = regions.last().map_or(0, |r| r.at + r.len);
        let flag = map(&buffer, wgpu::MapMode::Read, filled);
        self.reads.push_back(MappedRead { buffer, flag, regions, staged: true, after });
    }

    /// Maps timestamps.
    pub(super) fn read_timestamps(&mut self, buffer: wgpu::Buffer, count: u32) {
        let flag = map(&buffer, wgpu::MapMode::Read, u64::from(count) * 8);
        self.timestamps = Some(Timestamps { buffer, flag, count });
    }

    /// Queues chunks, copied as earlier ones complete.
    pub(super) fn queue_chunks(&mut self, chunks: VecDeque<Vec<CopyRegion>>) {
        self.chunks = chunks;
    }

    /// Everything was submitted but the queued chunks.
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

    /// Submits copies of queued chunks while the window has space.
    pub(super) fn submit_queued(
        &mut self,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        staging: &mut Staging,
    ) {
        let size = |regions: &[CopyRegion]| regions.last().map_or(0, |r| r.at + r.len);
        let mut in_flight: u64 = self.reads.iter().filter(|r| r.staged).map(|r| r.buffer.size()).sum();
        while in_flight < WINDOW
            && let Some(regions) = self.chunks.pop_front()
        {
            let buffer = staging.take(device, Purpose::Down, size(&regions));
            in_flight += buffer.size();
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            self.copy(&regions, &buffer, &mut encoder);
            let after = queue.submit([encoder.finish()]);
            self.last = Some(after.clone());
            self.read_chunk(buffer, regions, Some(after));
        }
    }

    /// Does a job with these blocks conflict with this one? Only with blocks that are mapped in place.
    pub(super) fn conflicts_with(&self, blocks: &[BlockId]) -> bool {
        let queued = self.queued_sources.iter().filter(|_| !self.chunks.is_empty());
        self.mapped.iter().chain(queued).any(|block| blocks.contains(block))
    }

    /// The submission to wait for next.
    pub(super) fn target(&self) -> Option<wgpu::SubmissionIndex> {
        let first = self.reads.front().and_then(|r| r.after.clone());
        first.or_else(|| self.last.clone())
    }

    /// Copies completed chunks out and submits further ones. `true` when nothing is left to wait for.
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
                    staging.recycle(Purpose::Down, read.buffer);
                }
            }
            if self.failed.is_none() {
                self.submit_queued(device, queue, staging);
            }
        }
        if self.failed.is_some() {
            return true;
        }
        let timestamps_ready = self.timestamps.as_ref().is_none_or(|s| s.flag.get() != Mapping::Waiting);
        self.reads.is_empty()
            && self.chunks.is_empty()
            && timestamps_ready
            && self.finished.get() != Mapping::Waiting
    }

    /// The result, once [`advance`](Self::advance) returned `true`. Buffers are recycled.
    pub(super) fn finish(
        mut self,
        queue: &wgpu::Queue,
        staging: &mut Staging,
    ) -> Result<JobOutput, EngineError> {
        let mut device_time = None;
        if let Some(timestamps) = self.timestamps.take()
            && timestamps.flag.get() == Mapping::Ready
        {
            device_time = pass_time(&timestamps, queue.get_timestamp_period());
            timestamps.buffer.unmap();
            staging.recycle(Purpose::Down, timestamps.buffer);
        }
        if let Some(reason) = self.failed.take() {
            return Err(EngineError::DeviceLost { reason });
        }
        if let Some(params) = self.params.take() {
            staging.recycle(Purpose::Params, params);
        }
        Ok(JobOutput { outputs: std::mem::take(&mut self.outputs), device_time })
    }
}

impl Drop for PendingJob {
    /// Unmaps blocks that were mapped in place, so that they can be used again.
    fn drop(&mut self) {
        for read in self.reads.iter().filter(|r| !r.staged) {
            read.buffer.unmap();
        }
    }
}

/// Regions come in the order of their outputs, so each is appended: no byte is written twice.
fn copy_out(read: &MappedRead, outputs: &mut [Vec<u8>]) -> Result<(), String> {
    let mut span = span!("download", Category::Transfer);
    span.bytes(read.regions.iter().map(|region| region.len).sum());
    for region in &read.regions {
        let view =
            read.buffer.get_mapped_range(region.at..region.at + region.len).map_err(|e| e.to_string())?;
        if let Some(output) = outputs.get_mut(region.output) {
            output.extend_from_slice(&view);
        }
    }
    Ok(())
}

/// Device time inside passes. Zero or reversed timestamps come from broken clocks: the total is then unknown.
fn pass_time(timestamps: &Timestamps, period_ns: f32) -> Option<Duration> {
    let view = timestamps.buffer.get_mapped_range(..u64::from(timestamps.count) * 8).ok()?;
    let words: Vec<u64> = view.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
    let ticks = total(&words)?;
    Duration::try_from_secs_f64(ticks as f64 * f64::from(period_ns) * 1e-9).ok()
}

/// Sum of `end - begin`; pure.
fn total(timestamps: &[u64]) -> Option<u64> {
    timestamps.as_chunks::<2>().0.iter().try_fold(0u64, |sum, [begin, end]| {
        let took = end.checked_sub(*begin).filter(|_| *begin != 0)?;
        sum.checked_add(took)
    })
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn invalid_timestamps_give_no_device_time() {
        assert_eq!(total(&[10, 15, 20, 27]), Some(12));
        for broken in [[0, 5, 6, 7], [10, 9, 20, 30], [1, 2, 0, 0]] {
            assert_eq!(total(&broken), None, "{broken:?}");
        }
        assert_eq!(total(&[1, u64::MAX, 1, u64::MAX]), None, "overflow");
    }
}
