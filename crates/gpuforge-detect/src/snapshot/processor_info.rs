//! Decoder for `GetLogicalProcessorInformationEx`: cores with their efficiency class, packages, NUMA nodes, caches.
//!
//! The answer of Windows is a sequence of records of different length. It is decoded from bytes at documented offsets,
//! not through pointers into a union, so that no unsafe code is needed and a short or wrong buffer ends the list.

use serde::{Deserialize, Serialize};

use crate::model::CpuCache;

/// Topology of the CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTopology {
    /// Packages (sockets).
    pub packages: u32,
    /// NUMA nodes.
    pub numa_nodes: u32,
    /// Physical cores, in the order of Windows.
    pub cores: Vec<CoreRecord>,
    /// Caches of the machine, each instance once.
    pub caches: Vec<CacheRecord>,
}

/// A physical core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreRecord {
    /// Higher is faster; all equal on a CPU that is not hybrid.
    pub efficiency_class: u8,
    /// Hardware threads.
    pub threads: u32,
}

/// An instance of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRecord {
    /// 1, 2, 3…
    pub level: u8,
    /// `PROCESSOR_CACHE_TYPE`: 0 unified, 1 instruction, 2 data, 3 trace.
    pub kind: u32,
    /// Size.
    pub bytes: u32,
}

/// `LOGICAL_PROCESSOR_RELATIONSHIP`.
const CORE: u32 = 0;
const NUMA_NODE: u32 = 1;
const CACHE: u32 = 2;
const PACKAGE: u32 = 3;

/// Offset of the group count in `PROCESSOR_RELATIONSHIP`, and of the group masks behind it.
const GROUP_COUNT: usize = 30;
const GROUP_MASKS: usize = 32;

/// Decodes all records; `pointer_bytes` is the size of an affinity mask (8 on 64-bit Windows).
pub fn decode(bytes: &[u8], pointer_bytes: usize) -> CpuTopology {
    let mut topology = CpuTopology::default();
    let mut rest = bytes;
    // A record states its own length; one that is cut or of length zero ends the list.
    while let (Some(kind), Some(length)) = (u32_at(rest, 0), u32_at(rest, 4)) {
        let length = usize::try_from(length).unwrap_or(0);
        let Some((record, tail)) = rest.split_at_checked(length).filter(|_| length >= 8) else { break };
        match kind {
            CORE => topology.cores.push(CoreRecord {
                efficiency_class: record.get(9).copied().unwrap_or(0),
                threads: threads(record, pointer_bytes),
            }),
            NUMA_NODE => topology.numa_nodes += 1,
            PACKAGE => topology.packages += 1,
            CACHE => topology.caches.extend(cache(record)),
            _ => {}
        }
        rest = tail;
    }
    topology
}

fn cache(record: &[u8]) -> Option<CacheRecord> {
    let found = CacheRecord { level: *record.get(8)?, bytes: u32_at(record, 12)?, kind: u32_at(record, 16)? };
    (found.level > 0 && found.bytes > 0).then_some(found)
}

/// Hardware threads of a core: the bits of its group masks.
fn threads(record: &[u8], pointer_bytes: usize) -> u32 {
    let count = record.get(GROUP_COUNT..GROUP_COUNT + 2).map_or(0, |b| b.iter().rev().fold(0, shift));
    // GROUP_AFFINITY: the mask, a group number and three reserved words.
    let stride = pointer_bytes + 8;
    let masks = record.get(GROUP_MASKS..).unwrap_or_default().chunks_exact(stride).take(count);
    masks.flat_map(|mask| mask.iter().take(pointer_bytes)).map(|byte| byte.count_ones()).sum()
}

fn shift(high: usize, byte: &u8) -> usize {
    high << 8 | usize::from(*byte)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

impl CpuTopology {
    /// Hardware threads of the machine.
    pub fn threads(&self) -> u32 {
        self.cores.iter().map(|core| core.threads).sum()
    }

    /// P-cores and E-cores of a hybrid CPU: only the lowest efficiency class counts as E-cores.
    pub fn hybrid(&self) -> Option<(u32, u32)> {
        let slowest = self.cores.iter().map(|c| c.efficiency_class).min()?;
        let fast = self.cores.iter().filter(|c| c.efficiency_class > slowest).count();
        let slow = self.cores.len() - fast;
        (fast > 0).then(|| Some((u32::try_from(fast).ok()?, u32::try_from(slow).ok()?))).flatten()
    }

    /// Caches by level, kind and size, with the number of their instances.
    pub fn cpu_caches(&self) -> Vec<CpuCache> {
        let mut caches: Vec<CpuCache> = Vec::new();
        for record in &self.caches {
            let kind = match record.kind {
                0 => "unified",
                1 => "instruction",
                2 => "data",
                _ => continue,
            };
            let bytes = u64::from(record.bytes);
            let same = |c: &&mut CpuCache| c.level == record.level && c.kind == kind && c.bytes == bytes;
            match caches.iter_mut().find(same) {
                Some(known) => known.instances = known.instances.map(|n| n + 1),
                None => {
                    caches.push(CpuCache {
                        level: record.level,
                        kind: kind.to_owned(),
                        bytes,
                        instances: Some(1),
                    });
                }
            }
        }
        caches.sort_by_key(|c| c.level);
        caches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A `PROCESSOR_RELATIONSHIP` or `NUMA_NODE_RELATIONSHIP` record with one group.
    fn core(kind: u32, class: u8, mask: u64) -> Vec<u8> {
        let mut record = vec![0; 48];
        record[..4].copy_from_slice(&kind.to_le_bytes());
        record[4..8].copy_from_slice(&48u32.to_le_bytes());
        record[9] = class;
        record[30] = 1;
        record[32..40].copy_from_slice(&mask.to_le_bytes());
        record
    }

    fn cache(level: u8, bytes: u32, kind: u32) -> Vec<u8> {
        let mut record = core(CACHE, 0, 0);
        record[8] = level;
        record[9] = 8;
        record[12..16].copy_from_slice(&bytes.to_le_bytes());
        record[16..20].copy_from_slice(&kind.to_le_bytes());
        record
    }

    #[test]
    fn a_hybrid_cpu() {
        let mut bytes = Vec::new();
        // Two P-cores with two threads each, four E-cores; a relationship that is not known here.
        [0b11, 0b1100].iter().for_each(|mask| bytes.extend(core(CORE, 1, *mask)));
        (4..8).for_each(|bit| bytes.extend(core(CORE, 0, 1 << bit)));
        bytes.extend(core(PACKAGE, 0, 0xff));
        bytes.extend(core(NUMA_NODE, 0, 0xff));
        bytes.extend(core(7, 0, 0xff));
        (0..2).for_each(|_| bytes.extend(cache(1, 49_152, 2)));
        (0..4).for_each(|_| bytes.extend(cache(1, 32_768, 2)));
        bytes.extend(cache(3, 24 << 20, 0));
        bytes.extend(cache(1, 8, 3));
        let topology = decode(&bytes, 8);
        assert_eq!((topology.cores.len(), topology.threads()), (6, 8));
        assert_eq!((topology.packages, topology.numa_nodes), (1, 1));
        assert_eq!(topology.hybrid(), Some((2, 4)));
        let caches: Vec<_> =
            topology.cpu_caches().into_iter().map(|c| (c.level, c.bytes, c.instances)).collect();
        assert_eq!(caches, [(1, 49_152, Some(2)), (1, 32_768, Some(4)), (3, 24 << 20, Some(1))]);
    }

    #[test]
    fn processor_groups_and_equal_cores() {
        // A core of 128 threads cannot be; a record with two groups can (a cache of a large server).
        let mut two = core(CORE, 0, 0b11);
        two.extend([0; 16]);
        two[4..8].copy_from_slice(&64u32.to_le_bytes());
        two[30] = 2;
        two[48] = 0b1;
        let topology = decode(&two, 8);
        assert_eq!(topology.threads(), 3);
        assert_eq!(topology.hybrid(), None);
    }

    #[test]
    fn cut_and_empty_buffers_end_the_list() {
        assert_eq!(decode(&[], 8), CpuTopology::default());
        assert_eq!(decode(&[0; 64], 8), CpuTopology::default());
        let mut cut = core(CORE, 0, 0b11);
        cut.extend(core(CORE, 0, 0b1100));
        cut.truncate(90);
        assert_eq!(decode(&cut, 8).cores.len(), 1);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512), width in 0usize..16) {
            let topology = decode(&bytes, width);
            topology.hybrid();
            topology.cpu_caches();
        }
    }
}
