//! Which pipelines are compiled already? By name *and* source: two kernels that share a name do not share code.

use std::{borrow::Cow, collections::HashMap};

use gpuforge_profile::{Category, span};

use super::pipeline_cache::Store;
use crate::kernel::{Access, Kernel};

/// A compiled kernel.
#[derive(Clone)]
pub(super) struct Pipeline {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
    /// Distinct for every pipeline of a device.
    pub(super) number: u64,
}

struct Known {
    wgsl: Cow<'static, str>,
    entry: &'static str,
    bindings: Vec<Access>,
    made: Pipeline,
}

impl Known {
    fn is(&self, kernel: &Kernel) -> bool {
        self.entry == kernel.entry && self.bindings == kernel.bindings && self.wgsl == kernel.wgsl
    }
}

/// The pipelines of a device.
pub(super) struct Pipelines {
    known: HashMap<String, Vec<Known>>,
    next: u64,
    /// What was known before the job that is being encoded.
    settled: u64,
    pub(super) store: Option<Store>,
}

impl Pipelines {
    pub(super) fn new(store: Option<Store>) -> Self {
        Pipelines { known: HashMap::new(), next: 0, settled: 0, store }
    }

    /// The kernel's pipeline, compiled at its first use.
    pub(super) fn get(&mut self, device: &wgpu::Device, kernel: &Kernel) -> Pipeline {
        let same_name = self.known.get(kernel.name.as_ref());
        if let Some(known) = same_name.and_then(|all| all.iter().find(|k| k.is(kernel))) {
            return known.made.clone();
        }
        let _span = span!("compile", Category::Overhead);
        let made = compile(device, kernel, self.next, self.store.as_ref());
        self.next += 1;
        let known = Known {
            wgsl: kernel.wgsl.clone(),
            entry: kernel.entry,
            bindings: kernel.bindings.clone(),
            made: made.clone(),
        };
        self.known.entry(kernel.name.to_string()).or_default().push(known);
        made
    }

    /// The job was accepted: its pipelines are good.
    pub(super) fn settle(&mut self) {
        if let Some(store) = &mut self.store {
            store.dirty |= self.next > self.settled;
        }
        self.settled = self.next;
    }

    /// The job was refused: what was compiled for it may be what is wrong, and must not be found again.
    pub(super) fn take_back(&mut self) {
        let settled = self.settled;
        self.known.retain(|_, all| {
            all.retain(|k| k.made.number < settled);
            !all.is_empty()
        });
    }
}

fn compile(device: &wgpu::Device, kernel: &Kernel, number: u64, store: Option<&Store>) -> Pipeline {
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
        cache: store.map(Store::cache),
    });
    Pipeline { pipeline, layout, number }
}
