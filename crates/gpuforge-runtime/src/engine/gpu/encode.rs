//! How does a plan become commands of the device? Many dispatches a pass, uploads in place or in pieces, timestamps per pass.

use std::collections::{HashMap, VecDeque};

use gpuforge_profile::{Category, span};

use super::{
    pending::Pending,
    staging::{self, Flag, Mapping, PIECE, Part, Purpose, loads, map},
    worker::Worker,
};
use crate::{
    engine::{BlockId, EngineError, Job},
    host::HostBytes,
    kernel::Access,
    plan::{Command, Dispatch, MAX_PARAMS, Slot},
};

/// How kernels use a block.
pub(super) const STORAGE: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);
/// Passes of one job that are timed; a job with more has no device time, because part of it would be a wrong figure.
pub(super) const TIMED_PASSES: u32 = 256;
const PARAM_BYTES: u64 = (MAX_PARAMS * 4) as u64;

/// Encodes and submits a job.
pub(super) fn start(worker: &mut Worker, job: &Job) -> Result<Pending, EngineError> {
    Encoder::new(worker, job).run()
}

/// Which commands touch a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Use {
    first: usize,
    last_write: Option<usize>,
    /// Downloads after the last write.
    downloads: usize,
}

/// The uses of every block of a job; pure.
fn uses(job: &Job) -> HashMap<BlockId, Use> {
    let mut uses: HashMap<BlockId, Use> = HashMap::new();
    let mut note = |at: usize, slot: Slot, write: bool, download: bool| {
        let Some(block) = job.blocks.get(slot.index()) else { return };
        let entry = uses.entry(*block).or_insert(Use { first: at, ..Use::default() });
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

/// Bytes of a job that pass through upload buffers; pure.
pub(super) fn staged(job: &Job, unified: bool) -> u64 {
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

/// How a download gets to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One memory: mapped where it is, at the end.
    InPlace,
    /// Copied after everything else.
    Late,
    /// Copied at once, because a later command writes the block.
    Now,
}

/// An upload buffer that is being filled.
struct Filling {
    buffer: wgpu::Buffer,
    filled: u64,
}

struct Encoder<'a> {
    worker: &'a mut Worker,
    job: &'a Job,
    uses: HashMap<BlockId, Use>,
    groups: HashMap<(u64, Vec<(BlockId, u64)>), wgpu::BindGroup>,
    params: Option<wgpu::Buffer>,
    dispatched: u32,
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    passes: u32,
    filling: Option<Filling>,
    /// Bytes that will still be staged: the size of the next upload buffer.
    left: u64,
    last: Option<wgpu::SubmissionIndex>,
    pending: Pending,
    in_place: Vec<(usize, BlockId, u64)>,
    late: Vec<(usize, u64)>,
    now: Vec<(wgpu::Buffer, Vec<Part>)>,
}

impl<'a> Encoder<'a> {
    fn new(worker: &'a mut Worker, job: &'a Job) -> Self {
        Encoder {
            worker,
            job,
            uses: uses(job),
            groups: HashMap::new(),
            params: None,
            dispatched: 0,
            encoder: None,
            pass: None,
            passes: 0,
            filling: None,
            left: 0,
            last: None,
            pending: Pending::default(),
            in_place: Vec::new(),
            late: Vec::new(),
            now: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Pending, EngineError> {
        let plan = self.job.plan.clone();
        let mut there = Vec::new();
        for (at, command) in plan.commands().iter().enumerate() {
            if let Command::Upload { to, data } = command {
                if self.hoisted(*to, at) {
                    there.push((self.buffer(*to)?, data));
                } else {
                    self.left += data.len() as u64 + 8 * data.pieces().count() as u64;
                }
            }
        }
        self.write_in_place(&there)?;
        self.write_params()?;
        for (at, command) in plan.commands().iter().enumerate() {
            match command {
                Command::Upload { to, .. } if self.hoisted(*to, at) => {}
                Command::Upload { to, data } => {
                    let mut span = span!("upload", Category::Transfer);
                    span.bytes(data.len() as u64);
                    let buffer = self.buffer(*to)?;
                    for (at, piece) in data.pieces() {
                        self.stage(&buffer, at, piece)?;
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
        let found = self.worker.blocks.get(&block).cloned();
        let (have, need) = (found.as_ref().map_or(0, wgpu::Buffer::size), self.size(slot));
        // wgpu panics on ranges beyond a buffer: refuse before.
        found.filter(|_| have >= need).ok_or_else(|| EngineError::Validation {
            reason: format!("slot {} needs {need} bytes, block {} has {have}", slot.index(), block.0),
        })
    }

    fn size(&self, slot: Slot) -> u64 {
        self.job.plan.slots().get(slot.index()).map_or(0, |s| s.size.0)
    }

    fn used(&self, slot: Slot) -> Use {
        self.block(slot).ok().and_then(|b| self.uses.get(&b)).copied().unwrap_or_default()
    }

    /// One memory, and nothing touched the block before: its bytes can be written before the device starts.
    fn hoisted(&self, to: Slot, at: usize) -> bool {
        self.worker.caps.unified_memory && self.used(to).first == at
    }

    fn way(&self, from: Slot, at: usize) -> Way {
        let Use { last_write, downloads, .. } = self.used(from);
        if last_write.is_some_and(|write| write > at) {
            Way::Now
        } else if self.worker.caps.unified_memory && downloads == 1 {
            // A second download would copy from a block that is mapped, which the device refuses.
            Way::InPlace
        } else {
            Way::Late
        }
    }

    /// The encoder outside of a pass.
    fn commands(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        let device = &self.worker.device;
        self.encoder
            .get_or_insert_with(|| device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()))
    }

    /// Hands over what was encoded so far.
    fn flush(&mut self) {
        self.pass = None;
        let filled = self.filling.take();
        if let Some(filled) = &filled {
            filled.buffer.unmap();
        }
        if let Some(encoder) = self.encoder.take() {
            let index = self.worker.queue.submit([encoder.finish()]);
            self.last = Some(index.clone());
            if let Some(filled) = filled {
                self.worker.staging.send_back(filled.buffer, index);
            }
        }
    }

    /// One memory: the bytes go where the kernel reads them, without a copy in between.
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
        let flags: Vec<Flag> = uploads.iter().map(begin).collect();
        let over = || flags.iter().all(|f| f.get() != Mapping::Waiting);
        let mut result = self.worker.wait_until(over, "mapping a buffer");
        for ((buffer, data), flag) in uploads.iter().zip(&flags) {
            if result.is_ok() && flag.get() == Mapping::Ready {
                result = data.pieces().try_for_each(|(at, piece)| write(buffer, at, piece));
            } else if result.is_ok() {
                result = Err(EngineError::Lost { reason: "a buffer could not be mapped".to_owned() });
            }
            if flag.get() != Mapping::Failed {
                buffer.unmap();
            }
        }
        result
    }

    /// The parameters of all dispatches, one block after the other.
    fn write_params(&mut self) -> Result<(), EngineError> {
        let stride = self.worker.param_stride(PARAM_BYTES);
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
        // Offsets are 32 bits wide in every graphics API.
        if size > u64::from(u32::MAX).min(self.worker.max_buffer / 2) {
            let reason = format!("{} dispatches in one plan: cut it", block.len() / step);
            return Err(EngineError::Validation { reason });
        }
        self.left += size;
        let params = self.worker.staging.take(&self.worker.device, Purpose::Params, size);
        self.stage(&params, 0, &block)?;
        self.params = Some(params);
        Ok(())
    }

    /// Sends bytes through upload buffers; the device copies one while the next is filled.
    fn stage(&mut self, to: &wgpu::Buffer, at: u64, bytes: &[u8]) -> Result<(), EngineError> {
        let (mut rest, mut offset) = (bytes, at);
        while !rest.is_empty() {
            let (buffer, at) = self.filling()?;
            let room = usize::try_from(buffer.size() - at).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            write(&buffer, at, now)?;
            let len = (now.len() as u64).next_multiple_of(4);
            self.commands().copy_buffer_to_buffer(&buffer, at, to, offset, len);
            if let Some(filling) = &mut self.filling {
                filling.filled += len.next_multiple_of(8);
            }
            self.left = self.left.saturating_sub(len);
            offset += len;
            rest = later;
            if self.filling.as_ref().is_some_and(|f| f.filled >= f.buffer.size()) {
                self.flush();
            }
        }
        Ok(())
    }

    /// The upload buffer that is being filled and where, or the next one.
    fn filling(&mut self) -> Result<(wgpu::Buffer, u64), EngineError> {
        if self.filling.is_none() {
            self.worker.staging.collect();
            if let Some(index) = self.worker.staging.full() {
                // Should it not have come back in all that time, one buffer more does no harm.
                self.worker.wait_for(index)?;
                self.worker.staging.collect();
            }
            let size = self.left.clamp(1, PIECE);
            let buffer = self.worker.staging.take(&self.worker.device, Purpose::Up, size);
            self.filling = Some(Filling { buffer, filled: 0 });
        }
        let found = self.filling.as_ref().map(|f| (f.buffer.clone(), f.filled));
        found.ok_or_else(|| EngineError::Validation { reason: "no upload buffer".to_owned() })
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<(), EngineError> {
        let pipeline = self.worker.pipelines.get(&self.worker.device, &dispatch.kernel);
        let bound: Vec<(BlockId, u64)> = dispatch
            .bindings
            .iter()
            .map(|s| Ok((self.block(*s)?, self.size(*s))))
            .collect::<Result<_, EngineError>>()?;
        let key = (pipeline.number, bound);
        let group = match self.groups.get(&key) {
            Some(group) => group.clone(),
            None => {
                let group = self.bind(dispatch, &pipeline.layout)?;
                self.groups.insert(key, group.clone());
                group
            }
        };
        let stride = self.worker.param_stride(PARAM_BYTES);
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
        Ok(self.worker.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout,
            entries: &entries,
        }))
    }

    /// The open pass, or a new one with its timestamps.
    fn pass(&mut self) -> Result<&mut wgpu::ComputePass<'static>, EngineError> {
        if self.pass.is_none() {
            let first = self.passes * 2;
            let clock = self.worker.clock().filter(|_| self.passes < TIMED_PASSES);
            let timestamp_writes = clock.as_ref().map(|(query_set, _)| wgpu::ComputePassTimestampWrites {
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
        let output = self.pending.expect(buffer, size)?;
        match self.way(from, at) {
            Way::InPlace => self.in_place.push((output, block, size)),
            Way::Late => {
                self.late.push((output, size));
                self.pending.copies_later(block);
            }
            Way::Now => {
                for parts in loads(&[(output, size)], PIECE) {
                    let into = self.load_buffer(&parts);
                    self.copy_load(&parts, &into);
                    self.now.push((into, parts));
                }
            }
        }
        Ok(())
    }

    fn load_buffer(&mut self, parts: &[Part]) -> wgpu::Buffer {
        let size = parts.last().map_or(0, |p| p.at + p.len);
        self.worker.staging.take(&self.worker.device, Purpose::Down, size)
    }

    fn copy_load(&mut self, parts: &[Part], into: &wgpu::Buffer) {
        let pending = std::mem::take(&mut self.pending);
        pending.copy(parts, into, self.commands());
        self.pending = pending;
    }

    /// Timestamps of the passes into a buffer that can be mapped.
    fn resolve(&mut self) -> Option<(wgpu::Buffer, u32)> {
        let (queries, resolved) =
            self.worker.clock().filter(|_| (1..=TIMED_PASSES).contains(&self.passes))?;
        let count = self.passes * 2;
        let bytes = u64::from(count) * 8;
        let readable = self.worker.staging.take(&self.worker.device, Purpose::Down, bytes);
        let commands = self.commands();
        commands.resolve_query_set(&queries, 0..count, &resolved, 0);
        commands.copy_buffer_to_buffer(&resolved, 0, &readable, 0, bytes);
        Some((readable, count))
    }

    fn finish(mut self) -> Pending {
        let stamps = self.resolve();
        let mut loads: VecDeque<Vec<Part>> = staging::loads(&self.late, PIECE);
        // The first load travels with the commands themselves: a small job is one submission.
        if let Some(parts) = loads.pop_front() {
            let into = self.load_buffer(&parts);
            self.copy_load(&parts, &into);
            self.now.push((into, parts));
        }
        self.flush();
        let mut pending = self.pending;
        pending.submitted(&self.worker.queue, self.last.clone(), self.params);
        for (output, block, size) in self.in_place {
            pending.read_in_place(output, block, size);
        }
        for (buffer, parts) in self.now {
            pending.read_load(buffer, parts, self.last.clone());
        }
        if let Some((buffer, count)) = stamps {
            pending.read_stamps(buffer, count);
        }
        pending.queue_loads(loads);
        pending.ask(&self.worker.device, &self.worker.queue, &mut self.worker.staging);
        pending
    }
}

/// Writes into a mapped buffer; an odd end is filled up with zeros.
fn write(buffer: &wgpu::Buffer, at: u64, data: &[u8]) -> Result<(), EngineError> {
    let whole = (data.len() as u64).next_multiple_of(4);
    let lost = |e: wgpu::MapRangeError| EngineError::Lost { reason: e.to_string() };
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
    fn first_touch_and_last_write_of_shared_blocks() {
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
        let want = |first, write, downloads| Use { first, last_write: Some(write), downloads };
        assert_eq!(uses.get(&one), Some(&want(0, 3, 0)), "the first download must be copied at once");
        assert_eq!(uses.get(&two), Some(&want(4, 4, 2)));
        assert_eq!((staged(&job, false), staged(&job, true)), (16, 8), "b must wait for the download of a");
    }
}
