//! Peer of `bench first-result`: a minimal wgpu program that runs one small kernel.
#![allow(clippy::print_stdout, reason = "a binary: printing is its job")]

use wgpu::util::DeviceExt as _;

const WGSL: &str = include_str!("first_result.wgsl");
const N: u32 = 1000;

fn main() -> anyhow::Result<()> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default()))?;

    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(WGSL.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let input: Vec<u8> = (0..N).flat_map(u32::to_le_bytes).collect();
    let params: Vec<u8> = [N, 3, 7].into_iter().chain([0; 13]).flat_map(u32::to_le_bytes).collect();
    let init = |contents: &[u8], usage| {
        device.create_buffer_init(&wgpu::util::BufferInitDescriptor { label: None, contents, usage })
    };
    let params = init(&params, wgpu::BufferUsages::UNIFORM);
    let a = init(&input, wgpu::BufferUsages::STORAGE);
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: u64::from(N) * 4,
            usage,
            mapped_at_creation: false,
        })
    };
    let out = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
    let readable = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: params.as_entire_binding() },
            wgpu::BindGroupEntry { binding: 1, resource: a.as_entire_binding() },
            wgpu::BindGroupEntry { binding: 2, resource: out.as_entire_binding() },
        ],
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(N.div_ceil(64), 1, 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&out, 0, &readable, 0, u64::from(N) * 4);
    queue.submit([encoder.finish()]);
    readable.map_async(wgpu::MapMode::Read, .., |_| {});
    device.poll(wgpu::PollType::wait_indefinitely())?;
    let view = readable.get_mapped_range(..)?;
    let sum = view.as_chunks::<4>().0.iter().fold(0u32, |sum, w| sum.wrapping_add(u32::from_le_bytes(*w)));
    println!("{sum}");
    Ok(())
}
