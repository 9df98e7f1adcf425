//! Compute pipelines in memory, compiled at first use; keyed by name *and* source, so that kernels that share a name do
//! not share code.

use std::{borrow::Cow, collections::HashMap};

use gpuforge_profile::{Category, span};

use super::pipeline_cache::CacheStore;
use crate::kernel::{Access, Kernel};

/// A compiled kernel.
#[derive(Clone)]
pub(super) struct Pipeline {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
    /// Unique per device.
    pub(super) id: u64,
}

struct CachedPipeline {
    wgsl: Cow<'static, str>,
    entry: &'static str,
    bindings: Vec<Access>,
    pipeline: Pipeline,
}

impl CachedPipeline {
    fn matches(&self, kernel: &Kernel) -> bool {
        self.entry == kernel.entry && self.bindings == kernel.bindings && self.wgsl == kernel.wgsl
    }
}

/// The pipelines of a device.
pub(super) struct Pipelines {
    by_name: HashMap<String, Vec<CachedPipeline>>,
    next_id: u64,
    /// First id of the job that is being encoded.
    committed: u64,
    pub(super) store: Option<CacheStore>,
}

impl Pipelines {
    pub(super) fn new(store: Option<CacheStore>) -> Self {
        Pipelines { by_name: HashMap::new(), next_id: 0, committed: 0, store }
    }

    /// The kernel's pipeline, compiled at its first use.
    pub(super) fn get(&mut self, device: &wgpu::Device, kernel: &Kernel) -> Pipeline {
        let same_name = self.by_name.get(kernel.name.as_ref());
        if let Some(cached) = same_name.and_then(|all| all.iter().find(|k| k.matches(kernel))) {
            return cached.pipeline.clone();
        }
        let _span = span!("compile", Category::Overhead);
        let pipeline = compile(device, kernel, self.next_id, self.store.as_ref());
        self.next_id += 1;
        let cached = CachedPipeline {
            wgsl: kernel.wgsl.clone(),
            entry: kernel.entry,
            bindings: kernel.bindings.clone(),
            pipeline: pipeline.clone(),
        };
        self.by_name.entry(kernel.name.to_string()).or_default().push(cached);
        pipeline
    }

    /// The job was accepted: keeps its pipelines.
    pub(super) fn commit(&mut self) {
        if let Some(store) = &mut self.store {
            store.dirty |= self.next_id > self.committed;
        }
        self.committed = self.next_id;
    }

    /// The job was rejected: drops what was compiled for it, which may be invalid.
    pub(super) fn roll_back(&mut self) {
        let committed = self.committed;
        self.by_name.retain(|_, all| {
            all.retain(|k| k.pipeline.id < committed);
            !all.is_empty()
        });
    }
}

fn compile(device: &wgpu::Device, kernel: &Kernel, id: u64, store: Option<&CacheStore>) -> Pipeline {
    let entry = |binding, ty, has_dynamic_offset| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
        count: None,
    };
    let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true)];
    for (binding, access) in (1..).zip(&kernel.bindings) {
        let read_only = *access == Access::Read;
        entries.push(entry(binding, wgpu::BufferBindingType::Storage { read_only }, false));
    }
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
        cache: store.map(CacheStore::cache),
    });
    Pipeline { pipeline, layout, id }
}
