//! CPU topology (sockets, cores, SMT threads, P/E cores), caches, SIMD level, and the limits of this process.
//!
//! [`read_static`] reads what is constant while the machine is up, [`apply_limits`] applies affinity and cgroup limits.
//! `/proc/cpuinfo` is read once; per-CPU sysfs directories are read only for what it does not state.

use crate::{
    cgroup::{self, CgroupLimits, cpu_list},
    model::{Cpu, CpuCache},
    parsers::size_bytes,
    probe::filesystem::FileSystem,
};
use std::collections::{BTreeMap, BTreeSet};

const CPUS: &str = "/sys/devices/system/cpu";

/// SIMD levels, widest first, and the CPU flags that each requires. `avx512f` alone is not enough: Xeon Phi lacks BW,
/// DQ and VL.
const SIMD: [(&str, &[&str]); 9] = [
    ("avx512", &["avx512f", "avx512bw", "avx512dq", "avx512vl"]),
    ("avx2", &["avx2", "fma"]),
    ("avx", &["avx"]),
    ("sse4.2", &["sse4_2"]),
    ("sse2", &["sse2"]),
    ("sve2", &["sve2"]),
    ("sve", &["sve"]),
    ("neon", &["asimd"]),
    ("neon", &["neon"]),
];

/// CPU lists of each core type on hybrid x86, and whether they are P-cores.
const CORE_TYPES: [(&str, bool); 3] = [
    ("/sys/devices/cpu_core/cpus", true),
    ("/sys/devices/cpu_atom/cpus", false),
    ("/sys/devices/cpu_lowpower/cpus", false),
];

/// Implementer and part number (MIDR) of ARM cores: `/proc/cpuinfo` has no names there.
const ARM_PARTS: [(u32, u32, &str); 38] = [
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd04, "Cortex-A35"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4d, "Cortex-A715"),
    (0x41, 0xd4e, "Cortex-X3"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd80, "Cortex-A520"),
    (0x41, 0xd81, "Cortex-A720"),
    (0x41, 0xd82, "Cortex-X4"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd87, "Cortex-A725"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "Kunpeng 920"),
    (0x4e, 0x004, "NVIDIA Carmel"),
    (0x51, 0x001, "Qualcomm Oryon"),
    (0x61, 0x022, "Apple M1 Icestorm"),
    (0x61, 0x023, "Apple M1 Firestorm"),
    (0x61, 0x032, "Apple M2 Blizzard"),
    (0x61, 0x033, "Apple M2 Avalanche"),
    (0xc0, 0xac3, "AmpereOne"),
    (0xc0, 0xac4, "AmpereOne A"),
];

/// One `processor` block of `/proc/cpuinfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct CpuinfoEntry {
    id: u32,
    package: Option<u32>,
    core: Option<u32>,
    implementer: Option<u32>,
    part: Option<u32>,
}

/// Parsed `/proc/cpuinfo`: per-CPU fields, and the first value of every other key.
#[derive(Debug, Default)]
struct CpuInfo<'a> {
    entries: Vec<CpuinfoEntry>,
    fields: BTreeMap<&'a str, &'a str>,
}

/// A physical core and its SMT threads, ascending.
#[derive(Debug, PartialEq, Eq)]
struct Core {
    package: Option<u32>,
    threads: Vec<u32>,
}

/// Core class: the threads of one core type, ascending; a CPU that is not hybrid has one class.
#[derive(Debug, PartialEq, Eq)]
struct CoreClass {
    fast: bool,
    threads: Vec<u32>,
}

/// CPU topology with the current limits of this process.
pub fn detect(files: &dyn FileSystem) -> Cpu {
    let mut cpu = read_static(files);
    apply_limits(&mut cpu, &cgroup::limits(files), affinity());
    // Fallback for systems without these files.
    cpu.available =
        cpu.available.or_else(|| std::thread::available_parallelism().ok()?.get().try_into().ok());
    cpu.arch = cpu.arch.or_else(|| Some(std::env::consts::ARCH.to_owned()));
    cpu
}

/// Reads what is constant while the machine is up. `logical` counts online threads: an offline one (`nosmt`) cannot be
/// used by anybody.
pub fn read_static(files: &dyn FileSystem) -> Cpu {
    let text = files.read("/proc/cpuinfo").unwrap_or_default();
    let info = cpuinfo(&text);
    let arch = arch(&info);
    let online = online(files, &info);
    let cores =
        cores_from_cpuinfo(&info, &online).or_else(|| cores_from_sysfs(files, &online)).unwrap_or_default();
    let classes = classes(files, arch, &cores, &online);
    let packages: BTreeSet<u32> = cores.iter().filter_map(|c| c.package).collect();
    let hybrid = |fast| (classes.len() > 1).then(|| count_cores(&classes, &cores, fast)).flatten();
    Cpu {
        brand: brand(&info),
        arch: arch.map(str::to_owned),
        sockets: count(packages.len()),
        cores: count(cores.len()),
        logical: count(online.len()),
        performance_cores: hybrid(true),
        efficiency_cores: hybrid(false),
        simd: simd(&info).map(str::to_owned),
        caches: caches(files, &classes, &online),
        memory_bytes: files.read("/proc/meminfo").and_then(|t| cgroup::mem_total(&t)),
        numa_nodes: count(numbered(&files.list("/sys/devices/system/node"), "node").len()),
        ..Cpu::default()
    }
}

/// Applies cgroup limits and the affinity mask: CPUs and memory available to this process, and what limits them.
pub fn apply_limits(cpu: &mut Cpu, limits: &CgroupLimits, affinity: Option<u32>) {
    let of = cpu.logical.map(|all| format!(" of {all}")).unwrap_or_default();
    let quota = limits.cpus.map(|cpus| {
        let threads = (cpus.ceil() as u32).max(1);
        (threads, format!("cgroup quota of {} CPUs", cgroup::format_cpus(cpus)))
    });
    let cpuset = limits.cpuset.map(|n| (n.max(1), format!("cgroup cpuset of {n}{of}")));
    let affinity = affinity.map(|n| (n.max(1), format!("affinity mask of {n}{of}")));
    // The kernel narrows the affinity mask to the cpuset: on a tie the cpuset is the cause, so it comes first.
    let tightest = [cpuset, quota, affinity].into_iter().flatten().min_by_key(|(threads, _)| *threads);
    cpu.available = cpu.logical.into_iter().chain(tightest.as_ref().map(|t| t.0)).min();
    cpu.limited_by = tightest.filter(|(n, _)| cpu.logical.is_some_and(|all| *n < all)).map(|(_, why)| why);
    cpu.memory_limit_bytes =
        limits.memory_bytes.filter(|limit| cpu.memory_bytes.is_none_or(|all| *limit < all));
}

/// CPUs in the affinity mask of this thread; `None` where the system has no such mask (or more CPUs than it holds).
pub fn affinity() -> Option<u32> {
    gpuforge_os::process::affinity()
}

/// Online hardware threads, ascending.
fn online(files: &dyn FileSystem, info: &CpuInfo<'_>) -> Vec<u32> {
    let list = |name: &str| files.read(&format!("{CPUS}/{name}")).and_then(|t| cpu_list(&t));
    let told: BTreeSet<u32> = info.entries.iter().map(|p| p.id).collect();
    let told = (!told.is_empty()).then(|| told.into_iter().collect());
    list("online").or(told).or_else(|| list("present")).unwrap_or_default()
}

/// A count, where zero means unknown.
fn count(n: usize) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| *n > 0)
}

fn cpuinfo(text: &str) -> CpuInfo<'_> {
    let mut info = CpuInfo::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if key == "processor" {
            info.entries.extend(value.parse().ok().map(|id| CpuinfoEntry { id, ..CpuinfoEntry::default() }));
            continue;
        }
        if !value.is_empty() {
            info.fields.entry(key).or_insert(value);
        }
        let Some(last) = info.entries.last_mut() else { continue };
        match key {
            "physical id" => last.package = value.parse().ok(),
            "core id" => last.core = value.parse().ok(),
            "CPU implementer" => last.implementer = hex(value),
            "CPU part" => last.part = hex(value),
            _ => {}
        }
    }
    info
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Instruction set, by the keys of cpuinfo: a recording may be from another machine.
fn arch(info: &CpuInfo<'_>) -> Option<&'static str> {
    let has = |key: &str, word: &str| info.fields.get(key).is_some_and(|v| v.split(' ').any(|w| w == word));
    let begins = |key: &str, start: &str| info.fields.get(key).is_some_and(|v| v.starts_with(start));
    let signs = [
        (has("flags", "lm"), "x86_64"),
        (has("flags", "fpu"), "x86"),
        (has("Features", "asimd"), "aarch64"),
        (info.fields.contains_key("CPU implementer"), "arm"),
        (begins("isa", "rv64"), "riscv64"),
        (begins("isa", "rv32"), "riscv32"),
        (begins("cpu", "POWER") || begins("cpu", "PPC"), "powerpc64"),
    ];
    signs.into_iter().find_map(|(seen, name)| seen.then_some(name))
}

fn brand(info: &CpuInfo<'_>) -> Option<String> {
    let field = |key: &str| info.fields.get(key).map(|v| (*v).to_owned());
    let first = |text: String| text.split(',').next().map(|t| t.trim().to_owned());
    // 32-bit programs on ARM see `ARMv8 Processor rev 1 (v8l)`, which names no model.
    let model = ["model name", "Model Name"].into_iter().find_map(field).filter(|m| !m.starts_with("ARMv"));
    // `Hardware` and `Model` name the board, at times a wrong one: the core names take precedence.
    model
        .or_else(|| arm_cores(info))
        .or_else(|| field("Hardware"))
        .or_else(|| field("Model"))
        .or_else(|| field("uarch"))
        .or_else(|| field("cpu").and_then(first))
        .filter(|b| !b.is_empty())
}

/// `Cortex-A720 + Cortex-A520`, in order of appearance; `None` when one of them is not in the table.
fn arm_cores(info: &CpuInfo<'_>) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for entry in &info.entries {
        let id = (entry.implementer?, entry.part?);
        let (.., name) = ARM_PARTS.iter().find(|(implementer, part, _)| (*implementer, *part) == id)?;
        if !names.contains(name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(" + "))
}

fn simd(info: &CpuInfo<'_>) -> Option<&'static str> {
    let flags = info.fields.get("flags").or_else(|| info.fields.get("Features"))?;
    let flags: BTreeSet<&str> = flags.split_ascii_whitespace().collect();
    SIMD.iter().find(|(_, needed)| needed.iter().all(|f| flags.contains(f))).map(|(name, _)| *name)
}

/// Cores from cpuinfo; `None` where it omits some or is inconsistent.
fn cores_from_cpuinfo(info: &CpuInfo<'_>, online: &[u32]) -> Option<Vec<Core>> {
    let mut cores: BTreeMap<(u32, u32), BTreeSet<u32>> = BTreeMap::new();
    for entry in &info.entries {
        cores.entry((entry.package?, entry.core?)).or_default().insert(entry.id);
    }
    // Core ids repeat in each die of a multi-die package; more than two threads per core then means sysfs is needed.
    let consistent = info.entries.len() == online.len() && cores.values().all(|threads| threads.len() <= 2);
    let core = |((package, _), threads): ((u32, u32), BTreeSet<u32>)| Core {
        package: Some(package),
        threads: threads.into_iter().collect(),
    };
    consistent.then(|| cores.into_iter().map(core).collect())
}

/// Cores from the sysfs topology directories, one or two reads per core; `None` when one of them is missing.
fn cores_from_sysfs(files: &dyn FileSystem, online: &[u32]) -> Option<Vec<Core>> {
    let mut cores: BTreeMap<(Option<u32>, u32, bool), Vec<u32>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for cpu in online {
        if seen.contains(cpu) {
            continue;
        }
        let read = |name: &str| files.read(&format!("{CPUS}/cpu{cpu}/topology/{name}"));
        let number = |name: &str| read(name).and_then(|t| t.trim().parse::<u32>().ok());
        let siblings =
            read("core_cpus_list").or_else(|| read("thread_siblings_list")).and_then(|t| cpu_list(&t));
        let package = number("physical_package_id");
        match siblings.filter(|s| s.contains(cpu)) {
            Some(siblings) => {
                seen.extend(siblings.iter().copied());
                cores.insert((package, *cpu, true), siblings);
            }
            None => cores.entry((package, number("core_id")?, false)).or_default().push(*cpu),
        }
    }
    Some(cores.into_iter().map(|((package, ..), threads)| Core { package, threads }).collect())
}

/// Core classes, fastest first.
fn classes(files: &dyn FileSystem, arch: Option<&str>, cores: &[Core], online: &[u32]) -> Vec<CoreClass> {
    let listed = CORE_TYPES.iter().filter_map(|(path, fast)| {
        let mut threads = cpu_list(&files.read(path)?)?;
        threads.retain(|t| online.binary_search(t).is_ok());
        (!threads.is_empty()).then_some(CoreClass { fast: *fast, threads })
    });
    let classes: Vec<CoreClass> = match arch {
        Some("x86_64" | "x86") => listed.collect(),
        _ => classes_by_capacity(files, cores),
    };
    if classes.len() > 1 { classes } else { vec![CoreClass { fast: true, threads: online.to_vec() }] }
}

/// ARM and RISC-V: core classes by the scheduler's `cpu_capacity`; only the lowest capacity counts as E-cores.
fn classes_by_capacity(files: &dyn FileSystem, cores: &[Core]) -> Vec<CoreClass> {
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for core in cores {
        let Some(cpu) = core.threads.first() else { continue };
        let capacity =
            files.read(&format!("{CPUS}/cpu{cpu}/cpu_capacity")).and_then(|t| t.trim().parse().ok());
        // Either every core has a capacity or none has: no need to read the rest.
        let Some(capacity) = capacity else { return Vec::new() };
        groups.entry(capacity).or_default().extend(&core.threads);
    }
    groups.values_mut().for_each(|threads| threads.sort_unstable());
    let slowest = groups.keys().next().copied();
    groups.into_iter().rev().map(|(c, threads)| CoreClass { fast: Some(c) != slowest, threads }).collect()
}

fn count_cores(classes: &[CoreClass], cores: &[Core], fast: bool) -> Option<u32> {
    let holds =
        |class: &CoreClass, core: &Core| core.threads.iter().any(|t| class.threads.binary_search(t).is_ok());
    let of = |core: &&Core| classes.iter().any(|class| class.fast == fast && holds(class, core));
    count(cores.iter().filter(of).count())
}

/// Caches as seen by the first thread of each core class; the others of the class have the same.
fn caches(files: &dyn FileSystem, classes: &[CoreClass], online: &[u32]) -> Vec<CpuCache> {
    let mut found: Vec<CpuCache> = Vec::new();
    let mut shared_by_all: BTreeSet<(u8, String)> = BTreeSet::new();
    for class in classes {
        let Some(cpu) = class.threads.first() else { continue };
        for index in numbered(&files.list(&format!("{CPUS}/cpu{cpu}/cache")), "index") {
            let Some((cache, sharers)) = cache(files, *cpu, index) else { continue };
            let key = (cache.level, cache.kind.clone());
            let within = sharers.iter().flatten().all(|t| class.threads.binary_search(t).is_ok());
            if !within && !shared_by_all.insert(key) {
                continue; // A shared outer cache that an earlier class already listed.
            }
            let threads = if within { &class.threads } else { online };
            let instances = sharers.and_then(|s| instances(files, index, &s, threads));
            match found
                .iter_mut()
                .find(|c| (c.level, &c.kind, c.bytes) == (cache.level, &cache.kind, cache.bytes))
            {
                Some(same) => {
                    same.instances = same.instances.zip(instances).map(|(a, b)| a.saturating_add(b))
                }
                None => found.push(CpuCache { instances, ..cache }),
            }
        }
    }
    found.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    found
}

/// One cache, and the threads sharing it.
fn cache(files: &dyn FileSystem, cpu: u32, index: u32) -> Option<(CpuCache, Option<Vec<u32>>)> {
    let read = |name: &str| files.read(&format!("{CPUS}/cpu{cpu}/cache/index{index}/{name}"));
    let kind = read("type")?.trim().to_ascii_lowercase();
    ["data", "instruction", "unified"].contains(&kind.as_str()).then_some(())?;
    let level = read("level")?.trim().parse().ok()?;
    let bytes = size_bytes(&format!("{}B", read("size")?.trim()))?; // the kernel writes `48K`
    Some((
        CpuCache { level, kind, bytes, instances: None },
        read("shared_cpu_list").and_then(|t| cpu_list(&t)),
    ))
}

/// Number of such caches over `threads`: by division where it is exact, else by walking the sharing lists (packages with
/// cores fused off, uneven VM slices).
fn instances(files: &dyn FileSystem, index: u32, sharers: &[u32], threads: &[u32]) -> Option<u32> {
    if threads.len().is_multiple_of(sharers.len()) {
        return count(threads.len() / sharers.len());
    }
    let mut left: BTreeSet<u32> = threads.iter().copied().collect();
    let mut instances = 0;
    while let Some(cpu) = left.pop_first() {
        let list = cpu_list(&files.read(&format!("{CPUS}/cpu{cpu}/cache/index{index}/shared_cpu_list"))?)?;
        list.iter().for_each(|t| _ = left.remove(t));
        instances += 1;
    }
    count(instances)
}

/// Entries `stemN` of a directory, by number.
fn numbered(names: &[String], stem: &str) -> BTreeSet<u32> {
    names.iter().filter_map(|n| n.strip_prefix(stem)?.parse().ok()).collect()
}
