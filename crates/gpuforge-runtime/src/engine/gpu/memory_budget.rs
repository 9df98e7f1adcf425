//! Driver memory budget: `VK_EXT_memory_budget` of the largest device-local heap, if supported.

use crate::{
    memory::{BudgetSource, MeasuredBudget},
    units::Bytes,
};

/// A Vulkan memory heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heap {
    /// `DEVICE_LOCAL`.
    local: bool,
    /// Budget of this process, including what it has allocated already.
    budget: u64,
}

/// The budget of the heap that our blocks come from; pure.
///
/// The largest one, not the sum: a card without resizable BAR exposes a small second device-local heap, and blocks do not
/// move there when the first is full. A budget of 0 means unknown.
fn largest_local_heap(heaps: &[Heap]) -> Option<MeasuredBudget> {
    let largest = heaps.iter().filter(|h| h.local).map(|h| h.budget).max().filter(|b| *b > 0)?;
    Some(MeasuredBudget { bytes: Bytes(largest), source: BudgetSource::VulkanMemoryBudget })
}

/// Queries the driver; `None` if the extension is not supported.
pub(super) fn query(adapter: &wgpu::Adapter) -> Option<MeasuredBudget> {
    largest_local_heap(&heaps(adapter)?)
}

#[cfg(any(windows, target_os = "linux"))]
#[allow(unsafe_code, reason = "wgpu does not expose heap budgets; Vulkan has to be called directly")]
fn heaps(adapter: &wgpu::Adapter) -> Option<Vec<Heap>> {
    use ash::{ext::memory_budget, khr::get_physical_device_properties2, vk};

    // SAFETY: the adapter is only read, and neither destroyed nor kept beyond this function.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    // wgpu leaves the extension out of this list where a driver is known to report wrong values.
    if !vulkan.physical_device_capabilities().supports_extension(memory_budget::NAME) {
        return None;
    }
    let instance = vulkan.shared_instance();
    if !instance.extensions().contains(&get_physical_device_properties2::NAME) {
        return None;
    }
    let functions = get_physical_device_properties2::Instance::new(instance.entry(), instance.raw_instance());
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: the physical device is of this instance, whose extension was enabled; the device has the extension of the
    // structure chained to `properties`, and both outlive the call.
    unsafe {
        functions.get_physical_device_memory_properties2(vulkan.raw_physical_device(), &mut properties)
    };
    let memory = properties.memory_properties;
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
    fn budget_is_that_of_the_largest_device_local_heap() {
        let (local, host) = (|budget| Heap { local: true, budget }, |budget| Heap { local: false, budget });
        let check = |heaps: &[Heap], want: Option<u64>| {
            let source = BudgetSource::VulkanMemoryBudget;
            let want = want.map(|b| MeasuredBudget { bytes: Bytes(b), source });
            assert_eq!(largest_local_heap(heaps), want, "{heaps:?}");
        };
        check(&[], None);
        check(&[host(16 << 30)], None);
        check(&[local(0)], None);
        check(&[local(7 << 30), host(16 << 30), local(256 << 20)], Some(7 << 30));
        check(&[local(256 << 20), local(7 << 30)], Some(7 << 30));
    }
}
