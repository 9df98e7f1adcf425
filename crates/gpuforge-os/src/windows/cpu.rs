//! CPU topology from `GetLogicalProcessorInformationEx`, the model's name from the registry.

use windows_sys::{
    Win32::System::{
        Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW},
        SystemInformation::{
            CacheData, CacheInstruction, CacheUnified, GROUP_AFFINITY, GetLogicalProcessorInformationEx,
            RelationAll, RelationCache, RelationNumaNode, RelationNumaNodeEx, RelationProcessorCore,
            RelationProcessorPackage, SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX,
        },
    },
    w,
};

use super::process::machine_memory;
use crate::cpu::{CacheKind, CpuCache, CpuCore, CpuTopology};

pub(crate) fn topology() -> Option<CpuTopology> {
    let memory = records()?;
    let mut found = CpuTopology { brand: brand(), memory_bytes: machine_memory(), ..CpuTopology::default() };
    let base = memory.as_ptr().cast::<u8>();
    let end = memory.len() * 8;
    let mut at = 0;
    while at + size_of::<u64>() <= end {
        // SAFETY: the system has written records one after the other; `at` is the beginning of one within the memory.
        let record = unsafe { &*base.add(at).cast::<SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX>() };
        let size = record.Size as usize;
        if size == 0 || at + size > end {
            break;
        }
        add(&mut found, record);
        at += size;
    }
    (!found.cores.is_empty()).then_some(found)
}

/// All records, in memory that is aligned for them.
fn records() -> Option<Vec<u64>> {
    let mut length = 0;
    // SAFETY: no memory is passed; the call fails and says how much it needs.
    unsafe { GetLogicalProcessorInformationEx(RelationAll, core::ptr::null_mut(), &raw mut length) };
    // One record more than it needs: a structure of the API may be larger than the last record.
    let spare = size_of::<SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX>();
    let mut memory = vec![0_u64; (length as usize + spare).div_ceil(8)];
    // SAFETY: the memory has at least `length` bytes.
    let known =
        unsafe { GetLogicalProcessorInformationEx(RelationAll, memory.as_mut_ptr().cast(), &raw mut length) }
            != 0;
    known.then_some(memory)
}

fn threads(masks: &[GROUP_AFFINITY]) -> u32 {
    masks.iter().map(|group| group.Mask.count_ones()).sum()
}

#[allow(non_upper_case_globals, reason = "names of the API in patterns")]
fn add(found: &mut CpuTopology, record: &SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX) {
    match record.Relationship {
        RelationProcessorCore => {
            // SAFETY: a record of this kind holds this member, with at least one mask; a core is in one group.
            let core = unsafe { &record.Anonymous.Processor };
            found.cores.push(CpuCore { threads: threads(&core.GroupMask), class: core.EfficiencyClass });
        }
        RelationProcessorPackage => found.packages += 1,
        RelationNumaNode | RelationNumaNodeEx => found.numa_nodes += 1,
        RelationCache => {
            // SAFETY: a record of this kind holds this member; its first mask is there in every version of Windows.
            let cache = unsafe { &record.Anonymous.Cache };
            let kind = match cache.Type {
                CacheUnified => CacheKind::Unified,
                CacheInstruction => CacheKind::Instruction,
                CacheData => CacheKind::Data,
                _ => return,
            };
            // SAFETY: both members of the union begin with the same mask.
            let shared_by = threads(&[unsafe { cache.Anonymous.GroupMask }]);
            let bytes = u64::from(cache.CacheSize);
            found.caches.push(CpuCache { level: cache.Level, kind, bytes, shared_by });
        }
        _ => {}
    }
}

fn brand() -> Option<String> {
    let mut text = [0_u16; 128];
    let mut bytes = size_of_val(&text) as u32;
    // SAFETY: the names end with zero; the buffer has so many bytes.
    let status = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            w!("HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0"),
            w!("ProcessorNameString"),
            RRF_RT_REG_SZ,
            core::ptr::null_mut(),
            text.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let units: Vec<u16> = text.into_iter().take_while(|unit| *unit != 0).collect();
    let name = String::from_utf16_lossy(&units);
    (status == 0 && !name.trim().is_empty()).then(|| name.trim().to_owned())
}
