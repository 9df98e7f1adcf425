//! Parser for `sysctl hw machdep.cpu`: CPU topology on macOS and BSD; contains no GPUs.

use crate::model::{Cpu, CpuCache, ProbeReport};

const KIND: &str = "sysctl";

/// At least one of these keys is required: other `hw.` lines do not describe a CPU.
const ANCHORS: [&str; 9] = [
    "machdep.cpu.brand_string",
    "hw.memsize",
    "hw.ncpu",
    "hw.physicalcpu",
    "hw.logicalcpu",
    "hw.activecpu",
    "hw.physmem",
    "hw.perflevel0.physicalcpu",
    "hw.perflevel1.physicalcpu",
];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let values = Values::of(text);
    let anchored = ANCHORS.iter().any(|key| values.get(key).is_some());
    anchored.then(|| ProbeReport { cpu: Some(cpu(&values)), ..ProbeReport::of(KIND) })
}

/// `key: value`, `key = value` and `key=value` lines of the two branches that matter.
struct Values<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Values<'a> {
    fn of(text: &'a str) -> Self {
        let pair = |line: &'a str| {
            let line = line.trim();
            let end = line.find([':', '=', ' '])?;
            let (key, rest) = line.split_at_checked(end)?;
            let value = rest.trim_start().strip_prefix([':', '='])?.trim();
            let ours = key.starts_with("hw.") || key.starts_with("machdep.cpu.");
            (ours && !value.is_empty()).then_some((key, value))
        };
        Values(text.lines().filter_map(pair).collect())
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(k, _)| *k == key).map(|(_, value)| *value)
    }

    fn bytes(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok().filter(|value| *value > 0)
    }

    fn count(&self, keys: &[&str]) -> Option<u32> {
        keys.iter().find_map(|key| self.get(key)?.parse().ok()).filter(|value| *value > 0)
    }

    fn flag(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.get(key) == Some("1"))
    }
}

fn cpu(values: &Values<'_>) -> Cpu {
    let mut cpu = Cpu::default();
    // BSD keeps the brand in hw.model, where macOS keeps the computer's.
    let bsd = || {
        values
            .get("hw.model")
            .filter(|_| values.get("hw.physmem").is_some() && values.get("hw.memsize").is_none())
    };
    cpu.brand = values.get("machdep.cpu.brand_string").or_else(bsd).map(str::to_owned);
    cpu.arch = arch(values, cpu.brand.as_deref()).map(str::to_owned);
    cpu.sockets = values.count(&["hw.packages"]);
    cpu.logical =
        values.count(&["hw.ncpu", "hw.logicalcpu", "hw.logicalcpu_max", "machdep.cpu.thread_count"]);
    cpu.cores = values.count(&["hw.physicalcpu", "hw.physicalcpu_max", "machdep.cpu.core_count"]);
    let levels = [0, 1].map(|level| values.count(&[&format!("hw.perflevel{level}.physicalcpu")]));
    let hybrid = levels.iter().all(Option::is_some) || cpu.arch.as_deref() == Some("aarch64");
    if let ([fast, slow], true) = (levels, hybrid) {
        (cpu.performance_cores, cpu.efficiency_cores) = (fast, slow);
    }
    cpu.memory_bytes = values.bytes("hw.memsize").or_else(|| values.bytes("hw.physmem"));
    cpu.simd = simd(values).map(str::to_owned);
    cpu.caches = caches(values, cpu.logical);
    cpu
}

fn arch(values: &Values<'_>, brand: Option<&str>) -> Option<&'static str> {
    let apple = brand.is_some_and(|brand| brand.starts_with("Apple")) || values.flag(&["hw.optional.arm64"]);
    let machine = values.get("hw.machine");
    if apple || matches!(machine, Some("arm64" | "aarch64")) {
        return Some("aarch64");
    }
    let x86 = brand.is_some_and(|brand| brand.contains("Intel") || brand.contains("AMD"));
    (x86 || matches!(machine, Some("x86_64" | "amd64"))).then_some("x86_64")
}

fn simd(values: &Values<'_>) -> Option<&'static str> {
    const LEVELS: [(&[&str], &str); 4] = [
        (&["hw.optional.avx512f"], "avx512"),
        (&["hw.optional.avx2_0"], "avx2"),
        (&["hw.optional.sse4_2"], "sse4.2"),
        (&["hw.optional.neon", "hw.optional.AdvSIMD", "hw.optional.arm64"], "neon"),
    ];
    LEVELS.iter().find(|(keys, _)| values.flag(keys)).map(|(_, level)| *level)
}

/// Suffixes of the cache keys.
const CACHES: [(u8, &str, &str); 4] = [
    (1, "data", "l1dcachesize"),
    (1, "instruction", "l1icachesize"),
    (2, "unified", "l2cachesize"),
    (3, "unified", "l3cachesize"),
];

/// Caches per core class where the kernel distinguishes them, else for the whole machine.
fn caches(values: &Values<'_>, logical: Option<u32>) -> Vec<CpuCache> {
    let mut caches = Vec::new();
    for level in 0..4 {
        let key = |suffix: &str| format!("hw.perflevel{level}.{suffix}");
        let cores = values.count(&[&key("physicalcpu")]);
        for (number, kind, suffix) in CACHES {
            let Some(bytes) = values.bytes(&key(suffix)) else { continue };
            // The first level belongs to a core; the size stated for others is that of one cluster.
            let sharing =
                if number == 1 { Some(1) } else { values.count(&[&key(&format!("cpusperl{number}"))]) };
            let instances = cores.zip(sharing).map(|(cores, sharing)| cores.div_ceil(sharing));
            caches.push(CpuCache { level: number, kind: kind.to_owned(), bytes, instances });
        }
    }
    if caches.is_empty() {
        // Logical CPUs per cache: of memory first, then of each level.
        let config: Vec<u32> = values
            .get("hw.cacheconfig")
            .unwrap_or("")
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        for (number, kind, suffix) in CACHES {
            let Some(bytes) = values.bytes(&format!("hw.{suffix}")) else { continue };
            let sharing = config.get(usize::from(number)).copied().filter(|sharing| *sharing > 0);
            let instances = logical.zip(sharing).map(|(logical, sharing)| logical.div_ceil(sharing));
            caches.push(CpuCache { level: number, kind: kind.to_owned(), bytes, instances });
        }
    }
    caches.sort_by_key(|cache| cache.level);
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apple_silicon() {
        let text = "\
$ sysctl -a | grep -e hw -e machdep.cpu
machdep.cpu.brand_string: Apple M2 Pro
hw.memsize: 17179869184
hw.ncpu: 10
hw.physicalcpu: 10
hw.perflevel0.physicalcpu: 6
hw.perflevel0.l1dcachesize: 131072
hw.perflevel0.l2cachesize: 16777216
hw.perflevel0.cpusperl2: 3
hw.perflevel1.physicalcpu: 4
hw.perflevel1.l2cachesize: 4194304
hw.perflevel1.cpusperl2: 4
hw.optional.neon: 1
Memory: 999
GPU cores: 16
";
        let report = parse(text).unwrap();
        assert!(report.gpus.is_empty());
        let cpu = report.cpu.unwrap();
        assert_eq!(
            (cpu.brand.as_deref(), cpu.arch.as_deref(), cpu.simd.as_deref()),
            (Some("Apple M2 Pro"), Some("aarch64"), Some("neon"))
        );
        assert_eq!((cpu.performance_cores, cpu.efficiency_cores), (Some(6), Some(4)));
        assert_eq!((cpu.logical, cpu.cores, cpu.memory_bytes), (Some(10), Some(10), Some(16 << 30)));
        let got: Vec<_> = cpu.caches.iter().map(|c| (c.level, c.bytes, c.instances)).collect();
        assert_eq!(got, [(1, 131_072, Some(6)), (2, 16_777_216, Some(2)), (2, 4_194_304, Some(1))]);
    }

    #[test]
    fn intel_mac_with_equals_signs() {
        let text = "hw.memsize = 34359738368\r\nhw.logicalcpu = 12\r\nhw.physicalcpu = 6\r\nhw.packages = 1\r\nhw.cacheconfig = 12 2 2 12 0 0\r\nhw.l1dcachesize = 32768\r\nhw.l3cachesize = 12582912\r\nhw.optional.avx2_0 = 1\r\nhw.perflevel0.physicalcpu = 6\r\nmachdep.cpu.brand_string = Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz\r\n";
        let cpu = parse(text).unwrap().cpu.unwrap();
        assert_eq!((cpu.logical, cpu.cores, cpu.sockets), (Some(12), Some(6), Some(1)));
        assert_eq!(
            (cpu.arch.as_deref(), cpu.simd.as_deref(), cpu.performance_cores),
            (Some("x86_64"), Some("avx2"), None)
        );
        let got: Vec<_> = cpu.caches.iter().map(|c| (c.level, c.instances)).collect();
        assert_eq!(got, [(1, Some(6)), (3, Some(1))]);
    }

    #[test]
    fn bsd_and_strangers() {
        let cpu =
            parse("hw.model: AMD EPYC 7402P\nhw.ncpu: 48\nhw.physmem: 137000000000\n").unwrap().cpu.unwrap();
        assert_eq!((cpu.brand.as_deref(), cpu.memory_bytes), (Some("AMD EPYC 7402P"), Some(137_000_000_000)));
        assert_eq!(parse("hw.model: Mac14,6\nkern.ostype: Darwin\n"), None);
        assert_eq!(parse("set hw.ncpu to 4: no\n"), None);
        let zero = parse("hw.ncpu: 0\nhw.memsize: many\n").unwrap().cpu.unwrap();
        assert_eq!((zero.logical, zero.memory_bytes), (None, None));
    }
}
