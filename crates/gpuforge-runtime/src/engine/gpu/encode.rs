//! Command encoding: a plan to wgpu commands - many dispatches per compute pass, uploads in place or through the staging
//! ring, timestamps per pass.

use std::collections::{HashMap, VecDeque};

use gpuforge_profile::{Category, span};

use super::{
    device_thread::DeviceThread,
    readback::PendingJob,
    staging::{self, CHUNK, CopyRegion, MapFlag, Mapping, Purpose, map, readback_chunks},
};
use crate::{
    engine::{BlockId, EngineError, Job},
    host::HostBytes,
    kernel::Access,
    plan::{Command, Dispatch, MAX_PARAMS, Slot},
};

/// wgpu usage of storage blocks.
pub(super) const STORAGE: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);
/// Maximum number of timed passes per job; a job with more has no device time, because a partial sum would be wrong.
pub(super) const TIMED_PASSES: u32 = 256;
const PARAM_BYTES: u64 = (MAX_PARAMS * 4) as u64;

/// Encodes and submits a job.
pub(super) fn start(device_thread: &mut DeviceThread, job: &Job) -> Result<PendingJob, EngineError> {
    Encoder::new(device_thread, job).run()
}

/// Lifetime of a block: which commands touch it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct BlockUse {
    first: usize,
    last_write: Option<usize>,
    /// Downloads after the last write.
    downloads: usize,
}

/// The lifetimes of all blocks of a job; pure.
fn uses(job: &Job) -> HashMap<BlockId, BlockUse> {
    let mut uses: HashMap<BlockId, BlockUse> = HashMap::new();
    let mut note = |at: usize, slot: Slot, write: bool, download: bool| {
        let Some(block) = job.blocks.get(slot.index()) else { return };
        let entry = uses.entry(*block).or_insert(BlockUse { first: at, ..BlockUse::default() });
        if write {
            (entry.last_write, entry.downloads) = (Some(at), 0);
        }
        entry.downloads += usize::from(download);
    };
    for (at, command) in job.plan.commands().iter().enumerate() {
        match command {
            Command::Upload { to, .. } => note(at, *to, true, false),
            Command::Dispatch(d) => {
                for (slot, access) in d.bindings.iter().zip(&d.kernel.bindings) {
                    note(at, *slot, *access != Access::Read, false);
                }
            }
            Command::Copy { from, to } => {
                note(at, *from, false, false);
                note(at, *to, true, false);
            }
            Command::Download { from, .. } => note(at, *from, false, true),
            Command::Free { .. } => {}
        }
    }
    uses
}

/// Bytes of a job that go through upload staging; pure.
pub(super) fn staged_bytes(job: &Job, unified: bool) -> u64 {
    let uses = uses(job);
    let hoisted = |to: Slot, at: usize| {
        let block = job.blocks.get(to.index());
        unified && block.and_then(|b| uses.get(b)).is_some_and(|u| u.first == at)
    };
    let bytes = |(at, command): (usize, &Command)| match command {
        Command::Upload { to, data } if !hoisted(*to, at) => data.len() as u64,
        _ => 0,
    };
    job.plan.commands().iter().enumerate().map(bytes).sum()
}

/// Readback path of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadbackPath {
    /// Unified memory: mapped in place at the end (zero-copy).
    InPlace,
    /// Copied after all other commands.
    Deferred,
    /// Copied immediately, because a later command overwrites the block.
    Immediate,
}

/// An upload staging buffer that is being filled.
struct StagingFill {
    buffer: wgpu::Buffer,
    filled: u64,
}

struct Encoder<'a> {
    device_thread: &'a mut DeviceThread,
    job: &'a Job,
    uses: HashMap<BlockId, BlockUse>,
    groups: HashMap<(u64, Vec<(BlockId, u64)>), wgpu::BindGroup>,
    params: Option<wgpu::Buffer>,
    dispatched: u32,
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    passes: u32,
    filling: Option<StagingFill>,
    /// Bytes still to be staged: bounds the size of the next upload buffer.
    left_to_stage: u64,
    last: Option<wgpu::SubmissionIndex>,
    pending: PendingJob,
    in_place: Vec<(usize, BlockId, u64)>,
    deferred: Vec<(usize, u64)>,
    immediate: Vec<(wgpu::Buffer, Vec<CopyRegion>)>,
}

impl<'a> Encoder<'a> {
    fn new(device_thread: &'a mut DeviceThread, job: &'a Job) -> Self {
        Encoder {
            device_thread,
            job,
            uses: uses(job),
            groups: HashMap::new(),
            params: None,
            dispatched: 0,
            encoder: None,
            pass: None,
            passes: 0,
            filling: None,
            left_to_stage: 0,
            last: None,
            pending: PendingJob::default(),
            in_place: Vec::new(),
            deferred: Vec::new(),
            immediate: Vec::new(),
        }
    }

    fn run(mut self) -> Result<PendingJob, EngineError> {
        let plan = self.job.plan.clone();
        let mut hoisted = Vec::new();
        for (at, command) in plan.commands().iter().enumerate() {
            if let Command::Upload { to, data } = command {
                if self.is_hoisted(*to, at) {
                    hoisted.push((self.buffer(*to)?, data));
                } else {
                    self.left_to_stage += data.len() as u64 + 8 * data.chunks().count() as u64;
                }
            }
        }
        self.write_in_place(&hoisted)?;
        self.write_params()?;
        for (at, command) in plan.commands().iter().enumerate() {
            match command {
                Command::Upload { to, .. } if self.is_hoisted(*to, at) => {}
                Command::Upload { to, data } => {
                    let mut span = span!("upload", Category::Transfer);
                    span.bytes(data.len() as u64);
                    let buffer = self.buffer(*to)?;
                    for (at, chunk) in data.chunks() {
                        self.stage(&buffer, at, chunk)?;
                    }
                }
                Command::Dispatch(dispatch) => self.dispatch(dispatch)?,
                Command::Copy { from, to } => {
                    let (from, to, size) = (self.buffer(*from)?, self.buffer(*to)?, self.size(*to));
                    self.commands().copy_buffer_to_buffer(&from, 0, &to, 0, size);
                }
                Command::Download { from, size, .. } => self.download(*from, size.0, at)?,
                Command::Free { .. } => {}
            }
        }
        Ok(self.finish())
    }

    fn block(&self, slot: Slot) -> Result<BlockId, EngineError> {
        let block = self.job.blocks.get(slot.index()).copied();
        block.ok_or_else(|| EngineError::Validation { reason: format!("slot {} has no block", slot.index()) })
    }

    fn buffer(&self, slot: Slot) -> Result<wgpu::Buffer, EngineError> {
        let block = self.block(slot)?;
        let found = self.device_thread.blocks.get(&block).cloned();
        let (have, need) = (found.as_ref().map_or(0, wgpu::Buffer::size), self.size(slot));
        // wgpu panics on out-of-range copies: reject them here.
        found.filter(|_| have >= need).ok_or_else(|| EngineError::Validation {
            reason: format!("slot {} needs {need} bytes, block {} has {have}", slot.index(), block.0),
        })
    }

    fn size(&self, slot: Slot) -> u64 {
        self.job.plan.slots().get(slot.index()).map_or(0, |s| s.size.0)
    }

    fn used(&self, slot: Slot) -> BlockUse {
        self.block(slot).ok().and_then(|b| self.uses.get(&b)).copied().unwrap_or_default()
    }

    /// Unified memory, and nothing touched the block before: the upload can be hoisted before the submission.
    fn is_hoisted(&self, to: Slot, at: usize) -> bool {
        self.device_thread.caps.unified_memory && self.used(to).first == at
    }

    fn readback_path(&self, from: Slot, at: usize) -> ReadbackPath {
        let BlockUse { last_write, downloads, .. } = self.used(from);
        if last_write.is_some_and(|write| write > at) {
            ReadbackPath::Immediate
        } else if self.device_thread.caps.unified_memory && downloads == 1 {
            // A second download would copy from a mapped block, which is a validation error.
            ReadbackPath::InPlace
        } else {
            ReadbackPath::Deferred
        }
    }

    /// The command encoder, outside of a compute pass.
    fn commands(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        let device = &self.device_thread.device;
        self.encoder
            .get_or_insert_with(|| device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()))
    }

    /// Submits what was encoded so far.
    fn flush(&mut self) {
        self.pass = None;
        let filled = self.filling.take();
        if let Some(filled) = &filled {
            filled.buffer.unmap();
        }
        if let Some(encoder) = self.encoder.take() {
            let index = self.device_thread.queue.submit([encoder.finish()]);
            self.last = Some(index.clone());
            if let Some(filled) = filled {
                self.device_thread.staging.remap_after(filled.buffer, index);
            }
        }
    }

    /// Unified memory: writes directly into the mapped storage buffers (zero-copy).
    fn write_in_place(&self, uploads: &[(wgpu::Buffer, &HostBytes)]) -> Result<(), EngineError> {
        let whole = |data: &HostBytes| (data.len() as u64).next_multiple_of(4);
        let uploads: Vec<_> = uploads.iter().filter(|(_, data)| !data.is_empty()).collect();
        if uploads.is_empty() {
            return Ok(());
        }
        let mut span = span!("upload", Category::Transfer);
        span.bytes(uploads.iter().map(|(_, data)| data.len() as u64).sum());
        let begin =
            |(buffer, data): &&(wgpu::Buffer, &HostBytes)| map(buffer, wgpu::MapMode::Write, whole(data));
        let flags: Vec<MapFlag> = uploads.iter().map(begin).collect();
        let mapped = || flags.iter().all(|f| f.get() != Mapping::Waiting);
        let mut result = self.device_thread.wait_until(mapped, "mapping a buffer");
        for ((buffer, data), flag) in uploads.iter().zip(&flags) {
            if result.is_ok() && flag.get() == Mapping::Ready {
                result = data.chunks().try_for_each(|(at, chunk)| write(buffer, at, chunk));
            } else if result.is_ok() {
                result = Err(EngineError::DeviceLost { reason: "a buffer could not be mapped".to_owned() });
            }
            if flag.get() != Mapping::Failed {
                buffer.unmap();
            }
        }
        result
    }

    /// Uploads the uniform parameter blocks of all dispatches.
    fn write_params(&mut self) -> Result<(), EngineError> {
        let stride = self.device_thread.param_stride(PARAM_BYTES);
        let step = usize::try_from(stride).unwrap_or(256);
        let mut block = Vec::new();
        for command in self.job.plan.commands() {
            if let Command::Dispatch(dispatch) = command {
                let start = block.len();
                block.extend(dispatch.params.iter().flat_map(|p| p.to_le_bytes()));
                block.resize(start + step, 0);
            }
        }
        if block.is_empty() {
            return Ok(());
        }
        let size = block.len() as u64;
        // Dynamic offsets are 32 bits wide in every graphics API.
        if size > u64::from(u32::MAX).min(self.device_thread.max_buffer / 2) {
            let reason = format!("{} dispatches in one plan: split it", block.len() / step);
            return Err(EngineError::Validation { reason });
        }
        self.left_to_stage += size;
        let params = self.device_thread.staging.take(&self.device_thread.device, Purpose::Params, size);
        self.stage(&params, 0, &block)?;
        self.params = Some(params);
        Ok(())
    }

    /// Uploads through the staging ring; the device copies one buffer while the next is filled.
    fn stage(&mut self, to: &wgpu::Buffer, at: u64, bytes: &[u8]) -> Result<(), EngineError> {
        let (mut rest, mut offset) = (bytes, at);
        while !rest.is_empty() {
            let (buffer, at) = self.filling()?;
            let space = usize::try_from(buffer.size() - at).unwrap_or(usize::MAX);
            let (chunk, later) = rest.split_at_checked(space).unwrap_or((rest, &[]));
            write(&buffer, at, chunk)?;
            let len = (chunk.len() as u64).next_multiple_of(4);
            self.commands().copy_buffer_to_buffer(&buffer, at, to, offset, len);
            if let Some(filling) = &mut self.filling {
                filling.filled += len.next_multiple_of(8);
            }
            self.left_to_stage = self.left_to_stage.saturating_sub(len);
            offset += len;
            rest = later;
            if self.filling.as_ref().is_some_and(|f| f.filled >= f.buffer.size()) {
                self.flush();
            }
        }
        Ok(())
    }

    /// The upload buffer that is being filled and its offset, or the next one.
    fn filling(&mut self) -> Result<(wgpu::Buffer, u64), EngineError> {
        if self.filling.is_none() {
            self.device_thread.staging.collect();
            if let Some(index) = self.device_thread.staging.full() {
                // If it still is in flight after the deadline, one extra buffer does no harm.
                self.device_thread.wait_for(index)?;
                self.device_thread.staging.collect();
            }
            let size = self.left_to_stage.clamp(1, CHUNK);
            let buffer = self.device_thread.staging.take(&self.device_thread.device, Purpose::Up, size);
            self.filling = Some(StagingFill { buffer, filled: 0 });
        }
        let found = self.filling.as_ref().map(|f| (f.buffer.clone(), f.filled));
        found.ok_or_else(|| EngineError::Validation { reason: "no upload buffer".to_owned() })
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<(), EngineError> {
        let pipeline = self.device_thread.pipelines.get(&self.device_thread.device, &dispatch.kernel);
        let bound: Vec<(BlockId, u64)> = dispatch
            .bindings
            .iter()
            .map(|s| Ok((self.block(*s)?, self.size(*s))))
            .collect::<Result<_, EngineError>>()?;
        let key = (pipeline.id, bound);
        let group = match self.groups.get(&key) {
            Some(group) => group.clone(),
            None => {
                let group = self.bind(dispatch, &pipeline.layout)?;
                self.groups.insert(key, group.clone());
                group
            }
        };
        let stride = self.device_thread.param_stride(PARAM_BYTES);
        let offset = u32::try_from(u64::from(self.dispatched) * stride)
            .map_err(|_| EngineError::Validation { reason: "too many dispatches in one plan".to_owned() })?;
        self.dispatched += 1;
        let [x, y, z] = dispatch.groups;
        let pass = self.pass()?;
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[offset]);
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }

    fn bind(
        &self,
        dispatch: &Dispatch,
        layout: &wgpu::BindGroupLayout,
    ) -> Result<wgpu::BindGroup, EngineError> {
        let Some(params) = &self.params else {
            return Err(EngineError::Validation { reason: "no parameter block".to_owned() });
        };
        let buffers = dispatch.bindings.iter().map(|s| Ok((self.buffer(*s)?, self.size(*s))));
        let buffers: Vec<(wgpu::Buffer, u64)> = buffers.collect::<Result<_, EngineError>>()?;
        let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: bound(params, PARAM_BYTES) }];
        for (binding, (buffer, size)) in (1..).zip(&buffers) {
            entries.push(wgpu::BindGroupEntry { binding, resource: bound(buffer, *size) });
        }
        Ok(self.device_thread.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout,
            entries: &entries,
        }))
    }

    /// The open compute pass, or a new one with timestamp writes.
    fn pass(&mut self) -> Result<&mut wgpu::ComputePass<'static>, EngineError> {
        if self.pass.is_none() {
            let first = self.passes * 2;
            let queries = self.device_thread.timestamp_queries().filter(|_| self.passes < TIMED_PASSES);
            let timestamp_writes = queries.as_ref().map(|(query_set, _)| wgpu::ComputePassTimestampWrites {
                query_set,
                beginning_of_pass_write_index: Some(first),
                end_of_pass_write_index: Some(first + 1),
            });
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            let pass = self.commands().begin_compute_pass(&descriptor).forget_lifetime();
            self.passes += 1;
            self.pass = Some(pass);
        }
        self.pass.as_mut().ok_or_else(|| EngineError::Validation { reason: "no pass".to_owned() })
    }

    fn download(&mut self, from: Slot, size: u64, at: usize) -> Result<(), EngineError> {
        let (block, buffer) = (self.block(from)?, self.buffer(from)?);
        let output = self.pending.add_output(buffer, size)?;
        match self.readback_path(from, at) {
            ReadbackPath::InPlace => self.in_place.push((output, block, size)),
            ReadbackPath::Deferred => {
                self.deferred.push((output, size));
                self.pending.add_queued_source(block);
            }
            ReadbackPath::Immediate => {
                for regions in readback_chunks(&[(output, size)], CHUNK) {
                    let into = self.chunk_buffer(&regions);
                    self.copy_chunk(&regions, &into);
                    self.immediate.push((into, regions));
                }
            }
        }
        Ok(())
    }

    fn chunk_buffer(&mut self, regions: &[CopyRegion]) -> wgpu::Buffer {
        let size = regions.last().map_or(0, |r| r.at + r.len);
        self.device_thread.staging.take(&self.device_thread.device, Purpose::Down, size)
    }

    fn copy_chunk(&mut self, regions: &[CopyRegion], into: &wgpu::Buffer) {
        let pending = std::mem::take(&mut self.pending);
        pending.copy(regions, into, self.commands());
        self.pending = pending;
    }

    /// Resolves the timestamp queries into a mappable buffer.
    fn resolve(&mut self) -> Option<(wgpu::Buffer, u32)> {
        let (queries, resolved) =
            self.device_thread.timestamp_queries().filter(|_| (1..=TIMED_PASSES).contains(&self.passes))?;
        let count = self.passes * 2;
        let bytes = u64::from(count) * 8;
        let readable = self.device_thread.staging.take(&self.device_thread.device, Purpose::Down, bytes);
        let commands = self.commands();
        commands.resolve_query_set(&queries, 0..count, &resolved, 0);
        commands.copy_buffer_to_buffer(&resolved, 0, &readable, 0, bytes);
        Some((readable, count))
    }

    fn finish(mut self) -> PendingJob {
        let timestamps = self.resolve();
        let mut chunks: VecDeque<Vec<CopyRegion>> = staging::readback_chunks(&self.deferred, CHUNK);
        // The first chunk is copied in the same submission: a small job is one submission.
        if let Some(regions) = chunks.pop_front() {
            let into = self.chunk_buffer(&regions);
            self.copy_chunk(&regions, &into);
            self.immediate.push((into, regions));
        }
        self.flush();
        let mut pending = self.pending;
        pending.submitted(&self.device_thread.queue, self.last.clone(), self.params);
        for (output, block, size) in self.in_place {
            pending.read_in_place(output, block, size);
        }
        for (buffer, regions) in self.immediate {
            pending.read_chunk(buffer, regions, self.last.clone());
        }
        if let Some((buffer, count)) = timestamps {
            pending.read_timestamps(buffer, count);
        }
        pending.queue_chunks(chunks);
        pending.submit_queued(
            &self.device_thread.device,
            &self.device_thread.queue,
            &mut self.device_thread.staging,
        );
        pending
    }
}

/// Writes into a mapped buffer; padded with zeros to a multiple of four bytes.
fn write(buffer: &wgpu::Buffer, at: u64, data: &[u8]) -> Result<(), EngineError> {
    let whole = (data.len() as u64).next_multiple_of(4);
    let lost = |e: wgpu::MapRangeError| EngineError::DeviceLost { reason: e.to_string() };
    let mut view = buffer.get_mapped_range_mut(at..at + whole).map_err(lost)?;
    let (mut head, mut tail) = view.slice(..).split_at(data.len());
    head.copy_from_slice(data);
    tail.fill(0);
    Ok(())
}

fn bound(buffer: &wgpu::Buffer, size: u64) -> wgpu::BindingResource<'_> {
    wgpu::BindingResource::Buffer(wgpu::BufferBinding {
        buffer,
        offset: 0,
        size: std::num::NonZeroU64::new(size),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::Plan;

    #[test]
    fn first_use_and_last_write_of_aliased_blocks() {
        let mut plan = Plan::new("uses");
        let a = plan.upload(vec![0; 8], "a").unwrap(); // 0
        plan.download(a).unwrap(); // 1
        plan.free(a).unwrap(); // 2
        let b = plan.upload(vec![0; 8], "b").unwrap(); // 3, in the block of a
        let c = plan.copy(b, "c").unwrap(); // 4
        plan.download(c).unwrap(); // 5
        plan.download(c).unwrap(); // 6
        let (one, two) = (BlockId(1), BlockId(2));
        let job = Job { plan: Arc::new(plan), blocks: vec![one, one, two] };
        let uses = uses(&job);
        let want = |first, write, downloads| BlockUse { first, last_write: Some(write), downloads };
        assert_eq!(uses.get(&one), Some(&want(0, 3, 0)), "the first download must be copied immediately");
        assert_eq!(uses.get(&two), Some(&want(4, 4, 2)));
        assert_eq!(
            (staged_bytes(&job, false), staged_bytes(&job, true)),
            (16, 8),
            "b must wait for the download of a"
        );
    }
}
