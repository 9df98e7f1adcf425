//! Cgroup limits in every arrangement of v1, v2, hybrid and containers.

use gpuforge_detect::{
    cgroup::{CgroupLimits, limits},
    probe::filesystem::RecordedFs,
};
use proptest::prelude::*;

const GROUPS: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";
const MEMORY: (&str, &str) = ("/proc/meminfo", "MemTotal:       33554432 kB\nMemFree:  1 kB\n");
const V2: &str = "30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const V1: &str = "40 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
    41 30 0:32 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
    42 30 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
    43 30 0:34 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";

fn of(files: &[(&str, &str)]) -> CgroupLimits {
    limits(&RecordedFs::of(files))
}

#[test]
fn no_files_no_limits() {
    assert_eq!(of(&[]), CgroupLimits::default());
    assert_eq!(
        of(&[(GROUPS, "0::/app\n"), ("/sys/fs/cgroup/app/cpu.max", "100000 100000\n")]),
        CgroupLimits::default()
    );
}

#[test]
fn v2_in_a_container_with_a_cgroup_namespace() {
    let found = of(&[
        (GROUPS, "0::/\n"),
        (MOUNTS, V2),
        MEMORY,
        ("/sys/fs/cgroup/cpu.max", "200000 100000\n"),
        ("/sys/fs/cgroup/cpuset.cpus.effective", "0-63\n"),
        ("/sys/fs/cgroup/memory.max", "4294967296\n"),
        ("/sys/fs/cgroup/memory.high", "3221225472\n"),
    ]);
    assert_eq!((found.cpus, found.cpuset, found.memory_bytes), (Some(2.0), Some(64), Some(4 << 30)));
    let origin = [
        "/sys/fs/cgroup/cpu.max: 2.0 CPUs",
        "/sys/fs/cgroup/cpuset.cpus.effective: 64 CPUs",
        "/sys/fs/cgroup/memory.max: 4294967296 bytes",
        "/sys/fs/cgroup/memory.high: slowed above 3221225472 bytes, not a limit",
    ];
    assert_eq!(found.origin, origin);
}

#[test]
fn a_tighter_ancestor_wins() {
    let found = of(&[
        (GROUPS, "0::/jobs.slice/night.slice/run-7.scope\n"),
        (MOUNTS, V2),
        MEMORY,
        ("/sys/fs/cgroup/jobs.slice/night.slice/run-7.scope/cpu.max", "800000 100000\n"),
        ("/sys/fs/cgroup/jobs.slice/night.slice/run-7.scope/memory.max", "max\n"),
        ("/sys/fs/cgroup/jobs.slice/night.slice/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/jobs.slice/night.slice/memory.max", "8589934592\n"),
        ("/sys/fs/cgroup/jobs.slice/cpu.max", "75000 50000\n"),
        ("/sys/fs/cgroup/jobs.slice/memory.max", "17179869184\n"),
        // A neighbour's limit is nobody else's.
        ("/sys/fs/cgroup/jobs.slice/day.slice/cpu.max", "1000 100000\n"),
    ]);
    assert_eq!((found.cpus, found.memory_bytes), (Some(1.5), Some(8 << 30)));
    assert_eq!(found.origin.first().map(String::as_str), Some("/sys/fs/cgroup/jobs.slice/cpu.max: 1.5 CPUs"));
}

#[test]
fn v1_with_separate_hierarchies() {
    let groups =
        "11:memory:/docker/5e\n7:cpuset:/docker/5e\n4:cpu,cpuacct:/docker/5e\n1:name=systemd:/docker/5e\n";
    let files = [
        (GROUPS, groups),
        (MOUNTS, V1),
        MEMORY,
        ("/sys/fs/cgroup/cpu,cpuacct/docker/5e/cpu.cfs_quota_us", "250000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/docker/5e/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/cpuset/docker/5e/cpuset.cpus", "4-7\n"),
        ("/sys/fs/cgroup/cpuset/docker/5e/cpuset.effective_cpus", "4-5\n"),
        ("/sys/fs/cgroup/memory/docker/5e/memory.limit_in_bytes", "2147483648\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ];
    let found = of(&files);
    assert_eq!((found.cpus, found.cpuset, found.memory_bytes), (Some(2.5), Some(2), Some(2 << 30)));
}

#[test]
fn v1_without_limits() {
    let found = of(&[
        (GROUPS, "3:memory:/\n2:cpu:/\n"),
        (MOUNTS, V1),
        MEMORY,
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ]);
    assert_eq!(found, CgroupLimits::default());
    // Above the machine's 32 GiB: set, but nothing that would ever be reached.
    let above = [
        (GROUPS, "3:memory:/\n"),
        (MOUNTS, V1),
        MEMORY,
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "34359738369\n"),
    ];
    assert_eq!(of(&above), CgroupLimits::default());
}

#[test]
fn a_bind_mounted_subtree_is_entered_at_its_root() {
    let mounts = "50 40 0:33 /docker/5e /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let limit = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
    for path in ["3:memory:/docker/5e\n", "3:memory:/\n", "3:memory:/../../elsewhere\n"] {
        assert_eq!(of(&[(GROUPS, path), (MOUNTS, mounts), limit]).memory_bytes, Some(1 << 20), "{path}");
    }
    let deeper = ("/sys/fs/cgroup/memory/step/memory.limit_in_bytes", "4096\n");
    assert_eq!(
        of(&[(GROUPS, "3:memory:/docker/5e/step\n"), (MOUNTS, mounts), limit, deeper]).memory_bytes,
        Some(4096)
    );
}

#[test]
fn a_mount_above_the_namespace() {
    let mounts = "50 40 0:27 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    let top = ("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    let leaf = ("/sys/fs/cgroup/pod/box/cpu.max", "50000 100000\n");
    assert_eq!(of(&[(GROUPS, "0::/../../pod/box\n"), (MOUNTS, mounts), top, leaf]).cpus, Some(0.5));
    assert_eq!(of(&[(GROUPS, "0::/\n"), (MOUNTS, mounts), top, leaf]).cpus, Some(4.0));
    // Never out of the mount, whatever the path says.
    let outside = ("/sys/fs/secret/cpu.max", "1 100000\n");
    assert_eq!(of(&[(GROUPS, "0::/../secret\n"), (MOUNTS, V2), outside]).cpus, None);
}

#[test]
fn of_two_mounts_the_one_with_more_ancestors_is_used() {
    let mounts = format!("49 40 0:27 /a /mnt/part rw - cgroup2 none rw\n{V2}");
    let found = of(&[
        (GROUPS, "0::/a/b\n"),
        (MOUNTS, &mounts),
        ("/mnt/part/b/cpu.max", "300000 100000\n"),
        ("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n"),
        ("/sys/fs/cgroup/a/cpu.max", "100000 100000\n"),
    ]);
    assert_eq!(found.cpus, Some(1.0));
}

#[test]
fn hybrid_v1_and_v2() {
    let mounts = format!("{V1}44 30 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let found = of(&[
        (GROUPS, "2:cpu,cpuacct:/x\n0::/y\nnot a line\n:::\n"),
        (MOUNTS, &mounts),
        ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/unified/y/memory.max", "65536\n"),
    ]);
    assert_eq!((found.cpus, found.memory_bytes), (Some(3.0), Some(65536)));
}

/// Lines that come close to what the kernel writes, so that the parsers are entered and not only left.
fn near_miss() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("0::/".to_owned()),
        Just("../".to_owned()),
        Just("max ".to_owned()),
        Just(" - cgroup2 ".to_owned()),
        Just("1 2 3 / /sys/fs/cgroup rw".to_owned()),
        Just("-1 ".to_owned()),
        Just("\\040".to_owned()),
        Just("\n".to_owned()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(groups in near_miss(), mounts in near_miss(), value in near_miss(), path in "[a./]{0,40}") {
        let dir = "/sys/fs/cgroup";
        let names = [
            "cpu.max", "cpuset.cpus.effective", "memory.max", "memory.high", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us",
            "cpuset/cpuset.cpus", "cpuset/cpuset.effective_cpus", "memory/memory.limit_in_bytes",
        ];
        let paths: Vec<String> = names.iter().map(|n| format!("{dir}/{n}")).collect();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|p| (p.as_str(), value.as_str())).collect();
        files.extend([(GROUPS, groups.as_str()), (MOUNTS, mounts.as_str()), ("/proc/meminfo", value.as_str())]);
        of(&files);
        let placed = format!("0::/{path}\n1:cpu:/{path}\n2:cpuset:/{path}\n3:memory:/{path}\n{groups}");
        let mounted = format!("{V2}{V1}{mounts}");
        files.extend([(GROUPS, placed.as_str()), (MOUNTS, mounted.as_str())]);
        let found = of(&files);
        prop_assert!(found.cpus.is_none_or(|n| n > 0.0) && found.cpuset.is_none_or(|n| n > 0));
    }
}
