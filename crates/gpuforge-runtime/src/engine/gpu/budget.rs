//! How much of its memory does the driver let this process use? Vulkan's `VK_EXT_memory_budget`, where there is one.

use crate::{
    memory::{Measured, Source},
    units::Bytes,
};

/// A heap of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heap {
    /// The device's own memory.
    local: bool,
    /// What the driver says this process may have of it, with what it has already.
    budget: u64,
}

/// The budget of the heap that our blocks come from; pure.
///
/// The largest one, not the sum: a card without a resizable window shows a small second heap of its own memory, and
/// blocks do not move there when the first is full. A driver that says 0 has said nothing.
fn decide(heaps: &[Heap]) -> Option<Measured> {
    let largest = heaps.iter().filter(|h| h.local).map(|h| h.budget).max().filter(|b| *b > 0)?;
    Some(Measured { bytes: Bytes(largest), source: Source::VulkanMemoryBudget })
}

/// Asks the driver; `None` where it cannot tell.
pub(super) fn ask(adapter: &wgpu::Adapter) -> Option<Measured> {
    decide(&heaps(adapter)?)
}

#[cfg(any(windows, target_os = "linux"))]
#[allow(unsafe_code, reason = "wgpu tells what a heap holds to nobody; Vulkan itself has to be asked")]
fn heaps(adapter: &wgpu::Adapter) -> Option<Vec<Heap>> {
    use ash::{ext::memory_budget, khr::get_physical_device_properties2, vk};

    // SAFETY: the adapter is only read, and neither destroyed nor kept beyond this function.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    // wgpu leaves the extension out of this list where it knows a driver's answer to be wrong.
    if !vulkan.physical_device_capabilities().supports_extension(memory_budget::NAME) {
        return None;
    }
    let instance = vulkan.shared_instance();
    if !instance.extensions().contains(&get_physical_device_properties2::NAME) {
        return None;
    }
    let asking = get_physical_device_properties2::Instance::new(instance.entry(), instance.raw_instance());
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut answer = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: the physical device is of this instance, whose extension was switched on; the device has the extension
    // of the structure that hangs on `answer`, and both outlive the call.
    unsafe { asking.get_physical_device_memory_properties2(vulkan.raw_physical_device(), &mut answer) };
    let memory = answer.memory_properties;
    let heap = |(heap, budget): (&vk::MemoryHeap, &u64)| Heap {
        local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
        budget: *budget,
    };
    Some(memory.memory_heaps_as_slice().iter().zip(&budget.heap_budget).map(heap).collect())
}

#[cfg(not(any(windows, target_os = "linux")))]
fn heaps(_adapter: &wgpu::Adapter) -> Option<Vec<Heap>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_heap_of_the_device_counts() {
        let (local, host) = (|budget| Heap { local: true, budget }, |budget| Heap { local: false, budget });
        let check = |heaps: &[Heap], want: Option<u64>| {
            let source = Source::VulkanMemoryBudget;
            let want = want.map(|b| Measured { bytes: Bytes(b), source });
            assert_eq!(decide(heaps), want, "{heaps:?}");
        };
        check(&[], None);
        check(&[host(16 << 30)], None);
        check(&[local(0)], None);
        check(&[local(7 << 30), host(16 << 30), local(256 << 20)], Some(7 << 30));
        check(&[local(256 << 20), local(7 << 30)], Some(7 << 30));
    }
}
