//! Peer of `bench detect`: a minimal wgpu program that enumerates adapters.
#![allow(clippy::print_stdout, reason = "a binary: printing is its job")]

fn main() {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    for adapter in pollster::block_on(instance.enumerate_adapters(backends)) {
        println!("{:?}", adapter.get_info());
    }
}
