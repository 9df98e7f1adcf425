//! CPU topology on recorded machines of many shapes, and the limits of a container.

use gpuforge_detect::{
    cgroup::{self, CgroupLimits},
    cpu::{apply_limits, detect, read_static},
    model::{Cpu, CpuCache},
    probe::filesystem::{FileSystem, RealFs, RecordedFs},
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const CPUS: &str = "/sys/devices/system/cpu";

/// A recording that counts how often it is read.
struct Counted {
    files: RecordedFs,
    reads: AtomicUsize,
}

impl FileSystem for Counted {
    fn read(&self, path: &str) -> Option<String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.files.read(path)
    }
    fn list(&self, path: &str) -> Vec<String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.files.list(path)
    }
    fn link(&self, path: &str) -> Option<String> {
        self.files.link(path)
    }
    fn exists(&self, path: &str) -> bool {
        self.files.exists(path)
    }
    fn mtime(&self, path: &str) -> Option<u128> {
        self.files.mtime(path)
    }
}

/// A machine under construction.
#[derive(Default)]
struct Machine(RecordedFs);

impl Machine {
    fn with(mut self, path: &str, text: impl Into<String>) -> Self {
        self.0.files.insert(path.to_owned(), text.into());
        self
    }

    fn cache(self, cpu: u32, index: u32, (level, kind, size, shared): (u8, &str, &str, &str)) -> Self {
        let dir = format!("{CPUS}/cpu{cpu}/cache/index{index}");
        self.with(&format!("{dir}/level"), format!("{level}\n"))
            .with(&format!("{dir}/type"), format!("{kind}\n"))
            .with(&format!("{dir}/size"), format!("{size}\n"))
            .with(&format!("{dir}/shared_cpu_list"), format!("{shared}\n"))
    }

    fn read(&self) -> Cpu {
        read_static(&self.0)
    }

    fn reads(self) -> usize {
        let counted = Counted { files: self.0, reads: AtomicUsize::new(0) };
        read_static(&counted);
        counted.reads.into_inner()
    }
}

/// cpuinfo of an x86 machine; `place` gives the package and core of each thread.
fn x86(name: &str, flags: &str, threads: u32, place: impl Fn(u32) -> (u32, u32)) -> String {
    let block = |cpu| {
        let (package, core) = place(cpu);
        format!(
            "processor\t: {cpu}\nvendor_id\t: Invented\nmodel\t\t: 9\nmodel name\t: {name}\ncpu MHz\t\t: 2{cpu}.0\n\
             physical id\t: {package}\ncore id\t\t: {core}\nflags\t\t: fpu lm sse2 {flags}\npower management:\n\n"
        )
    };
    (0..threads).map(block).collect()
}

fn cache(level: u8, kind: &str, kib: u64, instances: u32) -> CpuCache {
    CpuCache { level, kind: kind.to_owned(), bytes: kib << 10, instances: Some(instances) }
}

/// 8 fast cores with two threads each (0-15) and 16 slow ones (16-31).
fn hybrid_desktop() -> Machine {
    let core = |cpu: u32| (0, if cpu < 16 { cpu / 2 * 4 } else { 16 + cpu });
    Machine::default()
        .with("/proc/cpuinfo", x86("Corelight Ultra 9 985K", "sse4_2 avx avx2 fma", 32, core))
        .with("/proc/meminfo", "MemTotal:       67108864 kB\n")
        .with(&format!("{CPUS}/online"), "0-31\n")
        .with("/sys/devices/cpu_core/cpus", "0-15\n")
        .with("/sys/devices/cpu_atom/cpus", "16-31\n")
        .with("/sys/devices/system/node/node0/cpulist", "0-31\n")
        .cache(0, 0, (1, "Data", "48K", "0-1"))
        .cache(0, 1, (1, "Instruction", "64K", "0-1"))
        .cache(0, 2, (2, "Unified", "3072K", "0-1"))
        .cache(0, 3, (3, "Unified", "36864K", "0-31"))
        .cache(16, 0, (1, "Data", "32K", "16"))
        .cache(16, 1, (1, "Instruction", "64K", "16"))
        .cache(16, 2, (2, "Unified", "4096K", "16-19"))
        .cache(16, 3, (3, "Unified", "36864K", "0-31"))
}

/// Two packages of 32 cores with two threads each; siblings are 64 apart.
fn dual_socket() -> Machine {
    let flags = "sse4_2 avx avx2 fma avx512f avx512dq avx512bw avx512vl";
    let core = |cpu: u32| (cpu % 64 / 32, cpu % 32);
    Machine::default()
        .with("/proc/cpuinfo", x86("Servomat 9335 32-Core Processor", flags, 128, core))
        .with("/proc/meminfo", "MemTotal:       791674880 kB\n")
        .with(&format!("{CPUS}/online"), "0-127\n")
        .with("/sys/devices/system/node/node0/cpulist", "0-31,64-95\n")
        .with("/sys/devices/system/node/node1/cpulist", "32-63,96-127\n")
        .with("/sys/devices/system/node/online", "0-1\n")
        .cache(0, 0, (1, "Data", "32K", "0,64"))
        .cache(0, 1, (1, "Instruction", "32K", "0,64"))
        .cache(0, 2, (2, "Unified", "1024K", "0,64"))
        .cache(0, 3, (3, "Unified", "32768K", "0-7,64-71"))
}

/// Part number and capacity of each core: four slow, three middling, one fast.
fn phone_core(cpu: u32) -> (&'static str, u32) {
    match cpu {
        0..4 => ("0xd80", 290),
        4..7 => ("0xd81", 760),
        _ => ("0xd82", 1024),
    }
}

fn big_little() -> Machine {
    let block = |cpu| {
        format!(
            "processor\t: {cpu}\nFeatures\t: fp asimd sve sve2\nCPU implementer\t: 0x41\nCPU part\t: {}\n\n",
            phone_core(cpu).0
        )
    };
    let mut machine = Machine::default()
        .with("/proc/cpuinfo", (0..8).map(block).collect::<String>() + "Hardware\t: Some Board\n")
        .with(&format!("{CPUS}/online"), "0-7\n")
        .cache(0, 0, (1, "Data", "32K", "0"))
        .cache(4, 0, (1, "Data", "64K", "4"))
        .cache(7, 0, (1, "Data", "64K", "7"));
    for cpu in 0..8 {
        let dir = format!("{CPUS}/cpu{cpu}");
        let (_, capacity) = phone_core(cpu);
        machine = machine
            .with(&format!("{dir}/cpu_capacity"), format!("{capacity}\n"))
            .with(&format!("{dir}/topology/physical_package_id"), "0\n")
            .with(&format!("{dir}/topology/core_id"), "0\n")
            .with(&format!("{dir}/topology/core_cpus_list"), format!("{cpu}\n"));
    }
    machine
}

#[test]
fn hybrid_desktop_with_p_and_e_cores() {
    let cpu = hybrid_desktop().read();
    assert_eq!(cpu.brand.as_deref(), Some("Corelight Ultra 9 985K"));
    assert_eq!((cpu.arch.as_deref(), cpu.simd.as_deref()), (Some("x86_64"), Some("avx2")));
    assert_eq!((cpu.sockets, cpu.cores, cpu.logical), (Some(1), Some(24), Some(32)));
    assert_eq!((cpu.performance_cores, cpu.efficiency_cores), (Some(8), Some(16)));
    assert_eq!((cpu.memory_bytes, cpu.numa_nodes), (Some(64 << 30), Some(1)));
    let expected = [
        cache(1, "data", 48, 8),
        cache(1, "data", 32, 16),
        cache(1, "instruction", 64, 24),
        cache(2, "unified", 3072, 8),
        cache(2, "unified", 4096, 4),
        cache(3, "unified", 36864, 1),
    ];
    assert_eq!(cpu.caches, expected);
}

#[test]
fn offline_e_cores_make_it_not_hybrid() {
    let core = |cpu: u32| (0, cpu / 2);
    let machine = hybrid_desktop()
        .with("/proc/cpuinfo", x86("Corelight Ultra 9 985K", "avx", 16, core))
        .with(&format!("{CPUS}/online"), "0-15\n");
    let cpu = machine.read();
    assert_eq!(
        (cpu.cores, cpu.logical, cpu.performance_cores, cpu.efficiency_cores),
        (Some(8), Some(16), None, None)
    );
}

#[test]
fn server_with_two_sockets() {
    let cpu = dual_socket().read();
    assert_eq!((cpu.sockets, cpu.cores, cpu.logical), (Some(2), Some(64), Some(128)));
    assert_eq!((cpu.performance_cores, cpu.efficiency_cores, cpu.numa_nodes), (None, None, Some(2)));
    assert_eq!(cpu.simd.as_deref(), Some("avx512"));
    assert_eq!(cpu.caches.last(), Some(&cache(3, "unified", 32768, 8)));
    assert_eq!(cpu.caches.first(), Some(&cache(1, "data", 32, 64)));
    let reads = dual_socket().reads();
    assert!(reads <= 30, "{reads} reads for 128 threads");
}

#[test]
fn phone_with_three_core_classes() {
    let cpu = big_little().read();
    assert_eq!((cpu.arch.as_deref(), cpu.simd.as_deref()), (Some("aarch64"), Some("sve2")));
    assert_eq!(cpu.brand.as_deref(), Some("Cortex-A520 + Cortex-A720 + Cortex-X4"));
    assert_eq!((cpu.sockets, cpu.cores, cpu.logical), (Some(1), Some(8), Some(8)));
    assert_eq!((cpu.performance_cores, cpu.efficiency_cores), (Some(4), Some(4)));
    assert_eq!(cpu.caches, [cache(1, "data", 64, 4), cache(1, "data", 32, 4)]);
    let unknown_part = big_little()
        .with("/proc/cpuinfo", "processor: 0\nCPU implementer: 0x41\nCPU part: 0xfff\nHardware: Board 7\n");
    assert_eq!(unknown_part.read().brand.as_deref(), Some("Board 7"));
}

#[test]
fn cores_come_from_sysfs_where_cpuinfo_is_truncated_or_inconsistent() {
    let place = |m: Machine, cpu: u32, package: &str, siblings: &str| {
        let dir = format!("{CPUS}/cpu{cpu}/topology");
        m.with(&format!("{dir}/physical_package_id"), package)
            .with(&format!("{dir}/thread_siblings_list"), siblings)
    };
    // Four threads of core 0 of one package: two dies that count from 0 each.
    let mut machine = Machine::default().with("/proc/cpuinfo", x86("Twodie", "", 4, |_| (0, 0)));
    for cpu in 0..4 {
        machine = place(machine, cpu, "0", ["0,2", "1,3"][cpu as usize % 2]);
    }
    let cpu = machine.read();
    assert_eq!((cpu.sockets, cpu.cores, cpu.logical), (Some(1), Some(2), Some(4)));
    // Half of cpuinfo missing and no topology: the number of cores is unknown, not halved.
    let cut = Machine::default()
        .with("/proc/cpuinfo", x86("Cut", "", 4, |c| (0, c)))
        .with(&format!("{CPUS}/online"), "0-7");
    assert_eq!((cut.read().logical, cut.read().cores), (Some(8), None));
}

#[test]
fn without_sibling_lists_core_ids_are_used() {
    let mut machine = Machine::default().with(&format!("{CPUS}/present"), "0-3\n");
    for cpu in 0..4 {
        let dir = format!("{CPUS}/cpu{cpu}/topology");
        let (package, core) = (format!("{}\n", i32::from(cpu > 1) - 1), format!("{}\n", cpu % 2));
        machine = machine
            .with(&format!("{dir}/physical_package_id"), package)
            .with(&format!("{dir}/core_id"), core);
    }
    // Packages -1 (the kernel's "unknown") and 0.
    let cpu = machine.read();
    assert_eq!((cpu.sockets, cpu.cores, cpu.logical), (Some(1), Some(4), Some(4)));
}

#[test]
fn caches_are_walked_where_division_is_not_exact() {
    let machine = Machine::default()
        .with(&format!("{CPUS}/online"), "0-5\n")
        .cache(0, 3, (3, "Unified", "16M", "0-3"))
        .cache(4, 3, (3, "Unified", "16M", "4-5"));
    assert_eq!(machine.read().caches, [cache(3, "unified", 16384, 2)]);
}

#[test]
fn simd_levels_need_all_their_flags() {
    let of = |flags: &str| Machine::default().with("/proc/cpuinfo", format!("flags : {flags}\n")).read().simd;
    assert_eq!(of("avx2 fma avx avx512f avx512bw avx512dq").as_deref(), Some("avx2"));
    assert_eq!(of("avx2 avx").as_deref(), Some("avx"));
    assert_eq!(of("sse4_2 sse2").as_deref(), Some("sse4.2"));
    assert_eq!(of("sse2").as_deref(), Some("sse2"));
    assert_eq!(of("fpu"), None);
}

#[test]
fn other_instruction_sets() {
    let of = |text: &str| Machine::default().with("/proc/cpuinfo", text).read();
    let riscv = of("processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc_zicsr\nuarch\t\t: invented,r900\n");
    assert_eq!((riscv.arch.as_deref(), riscv.brand.as_deref()), (Some("riscv64"), Some("invented,r900")));
    let power = of("processor\t: 0\ncpu\t\t: POWER9 (raw), altivec supported\n");
    assert_eq!((power.arch.as_deref(), power.brand.as_deref()), (Some("powerpc64"), Some("POWER9 (raw)")));
    let neon = of(
        "processor: 0\nmodel name: ARMv7 Processor rev 3\nFeatures: neon\nCPU implementer: 0x41\nModel: Bake Board 3\n",
    );
    assert_eq!((neon.arch.as_deref(), neon.simd.as_deref()), (Some("arm"), Some("neon")));
    assert_eq!(neon.brand.as_deref(), Some("Bake Board 3"));
}

#[test]
fn no_files_at_all() {
    assert_eq!(read_static(&RecordedFs::default()), Cpu::default());
    let live = detect(&RecordedFs::default());
    assert!(live.available.is_some_and(|n| n >= 1) && live.arch.is_some() && live.limited_by.is_none());
}

#[track_caller]
fn check(limits: &CgroupLimits, affinity: Option<u32>, available: u32, limited_by: Option<&str>) {
    let mut cpu = Cpu { logical: Some(64), memory_bytes: Some(1 << 36), ..Cpu::default() };
    apply_limits(&mut cpu, limits, affinity);
    assert_eq!((cpu.available, cpu.limited_by.as_deref()), (Some(available), limited_by));
}

#[test]
fn the_tightest_limit_is_named() {
    let quota = |cpus| CgroupLimits { cpus: Some(cpus), ..CgroupLimits::default() };
    let cpuset = CgroupLimits { cpuset: Some(4), cpus: Some(7.5), ..CgroupLimits::default() };
    check(&CgroupLimits::default(), None, 64, None);
    check(&CgroupLimits::default(), Some(64), 64, None);
    check(&CgroupLimits::default(), Some(4), 4, Some("affinity mask of 4 of 64"));
    check(&quota(2.0), Some(64), 2, Some("cgroup quota of 2.0 CPUs"));
    check(&quota(2.01), None, 3, Some("cgroup quota of 2.01 CPUs"));
    check(&quota(0.25), None, 1, Some("cgroup quota of 0.25 CPUs"));
    check(&quota(63.5), None, 64, None);
    check(&quota(1e300), None, 64, None);
    check(&cpuset, Some(4), 4, Some("cgroup cpuset of 4 of 64"));
    check(&cpuset, Some(3), 3, Some("affinity mask of 3 of 64"));
}

#[test]
fn a_memory_limit_above_installed_memory_is_ignored() {
    let of = |limit, total| {
        let mut cpu = Cpu { memory_bytes: total, ..Cpu::default() };
        apply_limits(&mut cpu, &CgroupLimits { memory_bytes: Some(limit), ..CgroupLimits::default() }, None);
        (cpu.memory_limit_bytes, cpu.available)
    };
    assert_eq!(of(99, Some(100)), (Some(99), None));
    assert_eq!(of(100, Some(100)), (None, None));
    assert_eq!(of(100, None), (Some(100), None));
}

#[test]
fn container_limited_to_two_cpus() {
    let given = |machine: Machine, affinity| {
        let mut cpu = machine.read();
        apply_limits(&mut cpu, &cgroup::limits(&machine.0), affinity);
        (cpu.logical, cpu.available, cpu.limited_by)
    };
    let v2 = || {
        dual_socket()
            .with("/proc/self/cgroup", "0::/\n")
            .with("/proc/self/mountinfo", "9 8 0:7 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
    };
    let by_quota = given(v2().with("/sys/fs/cgroup/cpu.max", "200000 100000\n"), Some(128));
    assert_eq!(by_quota, (Some(128), Some(2), Some("cgroup quota of 2.0 CPUs".to_owned())));
    let by_set = given(v2().with("/sys/fs/cgroup/cpuset.cpus.effective", "10,74\n"), Some(2));
    assert_eq!(by_set, (Some(128), Some(2), Some("cgroup cpuset of 2 of 128".to_owned())));
}

#[test]
fn this_machine() {
    let cpu = detect(&RealFs);
    let available = cpu.available.expect("every system tells");
    assert!(available >= 1);
    assert!(cpu.logical.is_none_or(|all| available <= all));
    assert!(cpu.cores.is_none_or(|cores| cpu.logical.is_some_and(|all| cores <= all)));
    assert_eq!(cpu.limited_by.is_some(), cpu.logical.is_some_and(|all| available < all));
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(raw in any::<String>(), list in "[0-9,\\-]{0,12}", key in "[a-zA-Z ]{0,16}", lines in 0usize..6) {
        let cpuinfo = format!("processor: {list}\n{key}: {raw}\ncore id: {list}\nphysical id: {list}\nCPU part: 0x{list}\n").repeat(lines);
        let values = [raw.as_str(), list.as_str()];
        for value in values {
            for cpus in ["0-3", value] {
                let mut machine = Machine::default()
                    .with("/proc/cpuinfo", cpuinfo.as_str())
                    .with("/proc/meminfo", format!("MemTotal: {value} kB"))
                    .with(&format!("{CPUS}/online"), cpus)
                    .with(&format!("{CPUS}/present"), value)
                    .with("/sys/devices/cpu_core/cpus", value)
                    .with("/sys/devices/cpu_atom/cpus", cpus)
                    .with(&format!("/sys/devices/system/node/node{value}/x"), value);
                for cpu in 0..4 {
                    let dir = format!("{CPUS}/cpu{cpu}");
                    for name in ["cpu_capacity", "topology/core_cpus_list", "topology/core_id", "topology/physical_package_id"] {
                        machine = machine.with(&format!("{dir}/{name}"), value);
                    }
                    machine = machine.cache(cpu, 0, (1, "Data", value, value)).cache(cpu, 1, (2, value, "8K", value));
                }
                let cpu = machine.read();
                prop_assert!(cpu.cores.is_none_or(|n| n > 0) && cpu.logical.is_none_or(|n| n > 0));
            }
        }
    }
}
