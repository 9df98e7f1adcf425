//! How does a plan become commands of the device? Many dispatches a pass, one read-back buffer, timestamps per pass.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use super::worker::Worker;
use crate::{
    engine::{BlockId, Done, EngineError, Job},
    kernel::{Access, Kernel},
    plan::{Command, Dispatch, MAX_PARAMS, Slot},
};

/// How kernels use a block.
pub(super) const STORAGE: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

/// A staged upload is cut into pieces of this size, so that the staging memory stays small.
const CHUNK: usize = 16 << 20;
/// How long a mapping of an idle buffer may take.
const MAP_DEADLINE: Duration = Duration::from_secs(10);
/// Passes of one job that are timed.
const TIMED_PASSES: u32 = 64;
const PARAM_BYTES: u64 = (MAX_PARAMS * 4) as u64;

/// A compiled kernel.
#[derive(Clone)]
pub(super) struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// State of a mapping: 0 waiting, 1 mapped, 2 failed.
type Flag = Arc<AtomicU8>;

/// Where a download can be read once it is mapped.
struct Readback {
    buffer: wgpu::Buffer,
    offset: u64,
    size: u64,
}

/// A job whose commands are with the device.
pub(super) struct Pending {
    outputs: Vec<Readback>,
    /// Distinct buffers that are being mapped.
    mapped: Vec<(wgpu::Buffer, Flag)>,
    timestamps: Option<(wgpu::Buffer, u32)>,
    finished: Flag,
}

impl Pending {
    /// Everything that was waited for has come, or failed.
    pub(super) fn is_over(&self) -> bool {
        let set = |flag: &Flag| flag.load(Ordering::Acquire) != 0;
        set(&self.finished) && self.mapped.iter().all(|(_, flag)| set(flag))
    }

    /// Takes the mappings back, so that the buffers can be used again.
    pub(super) fn abandon(self) {
        for (buffer, _) in &self.mapped {
            buffer.unmap();
        }
    }

    /// Copies the outputs out and unmaps.
    pub(super) fn collect(self, queue: &wgpu::Queue) -> Result<Done, EngineError> {
        let failed = self.mapped.iter().any(|(_, flag)| flag.load(Ordering::Acquire) == 2);
        let mut done = Done::default();
        for readback in self.outputs.iter().filter(|_| !failed) {
            let range = readback.offset..readback.offset + readback.size;
            let view = readback
                .buffer
                .get_mapped_range(range)
                .map_err(|e| EngineError::Lost { reason: e.to_string() })?;
            done.outputs.push(view.to_vec());
        }
        if let Some((buffer, count)) = &self.timestamps
            && !failed
        {
            done.device_time = pass_time(buffer, *count, queue.get_timestamp_period());
        }
        for (buffer, flag) in &self.mapped {
            if flag.load(Ordering::Acquire) == 1 {
                buffer.unmap();
            }
        }
        if failed {
            Err(EngineError::Lost { reason: "a buffer could not be mapped".to_owned() })
        } else {
            Ok(done)
        }
    }
}

/// Time inside passes. Zero or reversed stamps are what broken clocks write: the whole figure is then unknown.
fn pass_time(buffer: &wgpu::Buffer, count: u32, period_ns: f32) -> Option<Duration> {
    let view = buffer.get_mapped_range(..u64::from(count) * 8).ok()?;
    let bytes = view.to_vec();
    let stamps: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
    let mut ticks = 0u64;
    for pair in stamps.as_chunks::<2>().0 {
        let [begin, end] = *pair;
        if begin == 0 || end < begin {
            return None;
        }
        ticks = ticks.checked_add(end - begin)?;
    }
    Duration::try_from_secs_f64(ticks as f64 * f64::from(period_ns) * 1e-9).ok()
}

/// Encodes and submits a job.
pub(super) fn start(worker: &mut Worker, job: &Job) -> Result<Pending, EngineError> {
    Encoder::new(worker, job)?.run()
}

struct Encoder<'a> {
    worker: &'a mut Worker,
    job: &'a Job,
    params: Option<wgpu::Buffer>,
    stride: u64,
    dispatched: u32,
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    queries: Option<wgpu::QuerySet>,
    passes: u32,
    staging: Option<wgpu::Buffer>,
    staged: u64,
    outputs: Vec<Readback>,
}

impl<'a> Encoder<'a> {
    fn new(worker: &'a mut Worker, job: &'a Job) -> Result<Self, EngineError> {
        let align = u64::from(worker.device.limits().min_uniform_buffer_offset_alignment).max(4);
        let stride = PARAM_BYTES.next_multiple_of(align);
        let dispatches = job.plan.commands().iter().filter_map(|c| match c {
            Command::Dispatch(d) => Some(d),
            _ => None,
        });
        let mut block = Vec::new();
        for dispatch in dispatches {
            let start = block.len();
            block.extend(dispatch.params.iter().flat_map(|p| p.to_le_bytes()));
            block.resize(start + usize::try_from(stride).unwrap_or(256), 0);
        }
        let params = (!block.is_empty()).then(|| {
            let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
            let buffer = plain_buffer(&worker.device, "params", block.len() as u64, usage);
            worker.queue.write_buffer(&buffer, 0, &block);
            buffer
        });
        let queries = worker.caps.timestamps.then(|| {
            worker.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: TIMED_PASSES * 2,
            })
        });
        let mut encoder = Encoder {
            worker,
            job,
            params,
            stride,
            dispatched: 0,
            encoder: None,
            pass: None,
            queries,
            passes: 0,
            staging: None,
            staged: 0,
            outputs: Vec::new(),
        };
        encoder.staging = encoder.staging_buffer();
        Ok(encoder)
    }

    fn run(mut self) -> Result<Pending, EngineError> {
        let plan = self.job.plan.clone();
        for (at, command) in plan.commands().iter().enumerate() {
            match command {
                Command::Upload { to, data } => self.upload(*to, data)?,
                Command::Dispatch(dispatch) => self.dispatch(dispatch)?,
                Command::Copy { from, to } => {
                    let (from, to, size) = (self.buffer(*from)?, self.buffer(*to)?, self.size(*to));
                    self.commands().copy_buffer_to_buffer(&from, 0, &to, 0, size);
                }
                Command::Download { from, .. } => self.download(*from, at)?,
                Command::Free { .. } => {}
            }
        }
        self.finish()
    }

    fn block(&self, slot: Slot) -> Option<BlockId> {
        self.job.blocks.get(slot.index()).copied()
    }

    fn buffer(&self, slot: Slot) -> Result<wgpu::Buffer, EngineError> {
        let found = self.block(slot).and_then(|b| self.worker.blocks.get(&b)).cloned();
        found.ok_or_else(|| EngineError::Validation {
            reason: format!("slot {} has no buffer here", slot.index()),
        })
    }

    fn size(&self, slot: Slot) -> u64 {
        self.job.plan.slots().get(slot.index()).map_or(0, |s| s.size.0)
    }

    /// The encoder outside of a pass.
    fn commands(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        let device = &self.worker.device;
        self.encoder
            .get_or_insert_with(|| device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()))
    }

    /// Hands over what was encoded so far. Staged writes happen before the next submission, so that a write into memory
    /// that earlier commands still use must come after theirs.
    fn flush(&mut self) {
        self.pass = None;
        if let Some(encoder) = self.encoder.take() {
            self.worker.queue.submit([encoder.finish()]);
        }
    }

    fn upload(&mut self, to: Slot, data: &[u8]) -> Result<(), EngineError> {
        let buffer = self.buffer(to)?;
        let used_before = self.encoder.is_some();
        self.flush();
        // Mapping waits for the commands that were just handed over; staging does not.
        if self.worker.caps.unified_memory && !used_before && data.len().is_multiple_of(8) && !data.is_empty()
        {
            return self.write_in_place(&buffer, data);
        }
        let mut offset = 0;
        for chunk in data.chunks(CHUNK) {
            let whole = chunk.len() & !3;
            let (words, rest) = chunk.split_at_checked(whole).unwrap_or((chunk, &[]));
            self.worker.queue.write_buffer(&buffer, offset, words);
            if !rest.is_empty() {
                let mut last = [0u8; 4];
                last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                self.worker.queue.write_buffer(&buffer, offset + whole as u64, &last);
            }
            offset += chunk.len() as u64;
            if data.len() > CHUNK {
                self.worker.queue.submit([]);
            }
        }
        Ok(())
    }

    /// One memory: the bytes go where the kernel reads them, without a copy in between.
    fn write_in_place(&self, buffer: &wgpu::Buffer, data: &[u8]) -> Result<(), EngineError> {
        let flag = map(buffer, wgpu::MapMode::Write, data.len() as u64);
        let until = Instant::now() + MAP_DEADLINE;
        while flag.load(Ordering::Acquire) == 0 {
            if Instant::now() > until {
                return Err(EngineError::Hung { waited: MAP_DEADLINE, what: "mapping a buffer" });
            }
            let wait =
                wgpu::PollType::Wait { submission_index: None, timeout: Some(Duration::from_millis(10)) };
            let _ = self.worker.device.poll(wait);
        }
        let lost = |reason: String| EngineError::Lost { reason };
        if flag.load(Ordering::Acquire) == 2 {
            return Err(lost("a buffer could not be mapped".to_owned()));
        }
        let mut view = buffer.get_mapped_range_mut(..data.len() as u64).map_err(|e| lost(e.to_string()))?;
        view.copy_from_slice(data);
        drop(view);
        buffer.unmap();
        Ok(())
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<(), EngineError> {
        let pipeline = pipeline(self.worker, &dispatch.kernel);
        let mut entries = Vec::with_capacity(dispatch.bindings.len() + 1);
        let buffers: Vec<(wgpu::Buffer, u64)> = dispatch
            .bindings
            .iter()
            .map(|s| Ok((self.buffer(*s)?, self.size(*s))))
            .collect::<Result<_, EngineError>>()?;
        let Some(params) = self.params.clone() else {
            return Err(EngineError::Validation { reason: "no parameter block".to_owned() });
        };
        entries.push(wgpu::BindGroupEntry { binding: 0, resource: bound(&params, PARAM_BYTES) });
        for (binding, (buffer, size)) in (1..).zip(&buffers) {
            entries.push(wgpu::BindGroupEntry { binding, resource: bound(buffer, *size) });
        }
        let group = self.worker.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries,
        });
        let offset = u32::try_from(u64::from(self.dispatched) * self.stride).unwrap_or(u32::MAX);
        self.dispatched += 1;
        let [x, y, z] = dispatch.groups;
        let pass = self.pass();
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[offset]);
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }

    /// The open pass, or a new one with its timestamps.
    fn pass(&mut self) -> &mut wgpu::ComputePass<'static> {
        if self.pass.is_none() {
            let timed = self.passes < TIMED_PASSES;
            let (first, queries) = (self.passes * 2, self.queries.clone());
            let timestamp_writes =
                queries.as_ref().filter(|_| timed).map(|query_set| wgpu::ComputePassTimestampWrites {
                    query_set,
                    beginning_of_pass_write_index: Some(first),
                    end_of_pass_write_index: Some(first + 1),
                });
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            let pass = self.commands().begin_compute_pass(&descriptor).forget_lifetime();
            self.passes += 1;
            self.pass = Some(pass);
        }
        self.pass.as_mut().unwrap_or_else(|| unreachable!("made just above"))
    }

    /// A read-back buffer for the downloads that cannot be mapped where they are.
    fn staging_buffer(&self) -> Option<wgpu::Buffer> {
        let staged = self.job.plan.commands().iter().enumerate().filter_map(|(at, c)| match c {
            Command::Download { from, .. } if !self.in_place(*from, at) => {
                Some(self.size(*from).next_multiple_of(8))
            }
            _ => None,
        });
        let size: u64 = staged.sum();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        (size > 0).then(|| plain_buffer(&self.worker.device, "read-back", size, usage))
    }

    /// One memory, and nobody writes the block after this command: it can be mapped where it is.
    fn in_place(&self, slot: Slot, at: usize) -> bool {
        let block = self.block(slot);
        let writes = |command: &Command| match command {
            Command::Upload { to, .. } | Command::Copy { to, .. } => self.block(*to) == block,
            Command::Dispatch(d) => d
                .bindings
                .iter()
                .zip(&d.kernel.bindings)
                .any(|(s, access)| *access == Access::Write && self.block(*s) == block),
            Command::Download { from, .. } => self.block(*from) == block,
            Command::Free { .. } => false,
        };
        self.worker.caps.unified_memory
            && self.size(slot).is_multiple_of(8)
            && !self.job.plan.commands().iter().skip(at + 1).any(writes)
    }

    fn download(&mut self, from: Slot, at: usize) -> Result<(), EngineError> {
        let (buffer, size) = (self.buffer(from)?, self.size(from));
        if self.in_place(from, at) {
            self.outputs.push(Readback { buffer, offset: 0, size });
            return Ok(());
        }
        let Some(staging) = self.staging.clone() else {
            return Err(EngineError::Validation { reason: "no read-back buffer".to_owned() });
        };
        let offset = self.staged;
        self.staged += size.next_multiple_of(8);
        self.commands().copy_buffer_to_buffer(&buffer, 0, &staging, offset, size);
        self.outputs.push(Readback { buffer: staging, offset, size });
        Ok(())
    }

    fn finish(mut self) -> Result<Pending, EngineError> {
        let stamped = self.passes.min(TIMED_PASSES) * 2;
        let timestamps = self.queries.clone().filter(|_| stamped > 0).map(|queries| {
            let bytes = u64::from(stamped) * 8;
            let device = self.worker.device.clone();
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            let resolved = plain_buffer(&device, "timestamps", bytes, usage);
            let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
            let readable = plain_buffer(&device, "timestamps", bytes, usage);
            let commands = self.commands();
            commands.resolve_query_set(&queries, 0..stamped, &resolved, 0);
            commands.copy_buffer_to_buffer(&resolved, 0, &readable, 0, bytes);
            (readable, stamped)
        });
        self.flush();
        let finished: Flag = Flag::default();
        let done = finished.clone();
        self.worker.queue.on_submitted_work_done(move || done.store(1, Ordering::Release));
        let mut mapped: Vec<(wgpu::Buffer, Flag)> = Vec::new();
        let readable = self.outputs.iter().map(|r| &r.buffer).chain(timestamps.iter().map(|(b, _)| b));
        for buffer in readable {
            if mapped.iter().all(|(known, _)| known != buffer) {
                let size =
                    self.outputs.iter().filter(|r| &r.buffer == buffer).map(|r| r.offset + r.size).max();
                mapped
                    .push((buffer.clone(), map(buffer, wgpu::MapMode::Read, size.unwrap_or(buffer.size()))));
            }
        }
        Ok(Pending { outputs: self.outputs, mapped, timestamps, finished })
    }
}

/// Starts mapping the first `size` bytes.
fn map(buffer: &wgpu::Buffer, mode: wgpu::MapMode, size: u64) -> Flag {
    let flag = Flag::default();
    let set = flag.clone();
    buffer.map_async(mode, ..size, move |result| {
        set.store(if result.is_ok() { 1 } else { 2 }, Ordering::Release)
    });
    flag
}

fn bound(buffer: &wgpu::Buffer, size: u64) -> wgpu::BindingResource<'_> {
    wgpu::BindingResource::Buffer(wgpu::BufferBinding {
        buffer,
        offset: 0,
        size: std::num::NonZeroU64::new(size),
    })
}

fn plain_buffer(device: &wgpu::Device, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size,
        usage,
        mapped_at_creation: false,
    })
}

/// The kernel's pipeline, compiled at its first use.
fn pipeline(worker: &mut Worker, kernel: &Kernel) -> Pipeline {
    if let Some(pipeline) = worker.pipelines.get(kernel.name.as_ref()) {
        return pipeline.clone();
    }
    let compute = wgpu::ShaderStages::COMPUTE;
    let buffer =
        |ty, has_dynamic_offset| wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None };
    let mut entries = vec![wgpu::BindGroupLayoutEntry {
        binding: 0,
        visibility: compute,
        ty: buffer(wgpu::BufferBindingType::Uniform, true),
        count: None,
    }];
    for (binding, access) in (1..).zip(&kernel.bindings) {
        let ty = wgpu::BufferBindingType::Storage { read_only: *access == Access::Read };
        entries.push(wgpu::BindGroupLayoutEntry {
            binding,
            visibility: compute,
            ty: buffer(ty, false),
            count: None,
        });
    }
    let device = &worker.device;
    let layout =
        device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(&kernel.name),
        source: wgpu::ShaderSource::Wgsl(kernel.wgsl.as_ref().into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(&kernel.name),
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some(kernel.entry),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let made = Pipeline { pipeline, layout };
    worker.pipelines.insert(kernel.name.to_string(), made.clone());
    made
}
