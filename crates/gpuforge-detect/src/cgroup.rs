//! Cgroup limits (v1, v2, hybrid): CPU quota, cpuset and memory limit of this process.
//!
//! A limit of any cgroup between the process and the root binds it, so the walk goes from the leaf up to the mount point
//! and keeps the tightest. Inside a container the ancestors are not visible; the mount point is then the topmost cgroup
//! that can be read.

use crate::{parsers::size_bytes, probe::filesystem::FileSystem};

/// Effective limits; `None` where no cgroup sets one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CgroupLimits {
    /// CFS quota: CPU time per wall time, in CPUs.
    pub cpus: Option<f64>,
    /// CPUs in the cpuset, also when that is all of them.
    pub cpuset: Option<u32>,
    /// Memory limit in bytes; a value above the machine's memory is no limit and is dropped.
    pub memory_bytes: Option<u64>,
    /// The file behind each limit, one line each.
    pub origin: Vec<String>,
}

/// One line of `/proc/self/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupMembership {
    /// Controllers of a v1 hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// The cgroup path, relative to the root of its cgroup namespace; may begin with `/..`.
    pub path: String,
}

/// One line of `/proc/self/mountinfo`: the fields used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountInfo {
    /// The directory of the file system that is mounted.
    pub root: String,
    /// Where it is mounted.
    pub point: String,
    /// File system type.
    pub fs: String,
    /// Device or name.
    pub source: String,
    /// Options of the file system; for cgroup v1 they name the controllers.
    pub options: String,
}

/// The limit that a file states.
#[derive(Clone, Copy)]
enum LimitKind {
    Quota,
    Cpuset,
    Memory,
    /// `memory.high` throttles but never fails an allocation: reported, not a limit.
    High,
}

/// Files that together state one limit, and the v1 controller they belong to (empty: v2).
struct LimitFiles {
    controller: &'static str,
    files: &'static [&'static str],
    kind: LimitKind,
}

const LIMIT_FILES: [LimitFiles; 8] = [
    LimitFiles { controller: "", files: &["cpu.max"], kind: LimitKind::Quota },
    LimitFiles { controller: "", files: &["cpuset.cpus.effective"], kind: LimitKind::Cpuset },
    LimitFiles { controller: "", files: &["memory.max"], kind: LimitKind::Memory },
    LimitFiles { controller: "", files: &["memory.high"], kind: LimitKind::High },
    // Joined by a space, the two read like cpu.max.
    LimitFiles {
        controller: "cpu",
        files: &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
        kind: LimitKind::Quota,
    },
    LimitFiles { controller: "cpuset", files: &["cpuset.effective_cpus"], kind: LimitKind::Cpuset },
    LimitFiles { controller: "cpuset", files: &["cpuset.cpus"], kind: LimitKind::Cpuset },
    LimitFiles { controller: "memory", files: &["memory.limit_in_bytes"], kind: LimitKind::Memory },
];

/// Hierarchies to read: v2, and the v1 controllers with a relevant limit.
const HIERARCHIES: [&str; 4] = ["", "cpu", "cpuset", "memory"];

/// Max depth of the walk: no real hierarchy is deeper, and a hostile path must not cost a read per slash.
const MAX_DEPTH: usize = 64;

/// v1 writes "no limit" as the largest multiple of the page size; every page size is above this.
const UNLIMITED: u64 = 1 << 62;

/// The CPUs a Linux kernel can be built for stay well below this.
const MAX_CPUS: u32 = 1 << 16;

/// Reads the effective limits of this process.
pub fn limits(files: &dyn FileSystem) -> CgroupLimits {
    let memberships = files.read("/proc/self/cgroup").map(|t| memberships(&t)).unwrap_or_default();
    let mounts = files.read("/proc/self/mountinfo").map(|t| mounts(&t)).unwrap_or_default();
    let total = files.read("/proc/meminfo").and_then(|t| mem_total(&t));
    let mut tightest = TightestLimits::default();
    for controller in HIERARCHIES {
        let member = memberships.iter().find(|m| is_of(&m.controllers, controller));
        let Some((leaf, top)) = member.and_then(|m| cgroup_dirs(&m.path, controller, &mounts)) else {
            continue;
        };
        for dir in ancestors(leaf, &top).take(MAX_DEPTH) {
            for limit in LIMIT_FILES.iter().filter(|k| k.controller == controller) {
                tightest.take(limit, files, &dir, total);
            }
        }
    }
    tightest.into_limits()
}

/// Min of each limit so far, and the file it came from.
#[derive(Default)]
struct TightestLimits {
    quota: Option<(f64, String)>,
    cpuset: Option<(u32, String)>,
    memory: Option<(u64, String)>,
    high: Option<(u64, String)>,
}

impl TightestLimits {
    fn take(&mut self, limit: &LimitFiles, files: &dyn FileSystem, dir: &str, total: Option<u64>) {
        let texts: Option<Vec<String>> =
            limit.files.iter().map(|f| files.read(&format!("{dir}/{f}"))).collect();
        let (Some(texts), Some(name)) = (texts, limit.files.first()) else { return };
        let (text, path) = (texts.join(" "), format!("{dir}/{name}"));
        match limit.kind {
            LimitKind::Quota => keep(&mut self.quota, quota(&text), path),
            LimitKind::Cpuset => keep(&mut self.cpuset, cpu_list(&text).map(|l| l.len() as u32), path),
            LimitKind::Memory => keep(&mut self.memory, memory(&text, total), path),
            LimitKind::High => keep(&mut self.high, memory(&text, total), path),
        }
    }

    fn into_limits(self) -> CgroupLimits {
        let origin = [
            self.quota.as_ref().map(|(n, path)| format!("{path}: {} CPUs", format_cpus(*n))),
            self.cpuset.as_ref().map(|(n, path)| format!("{path}: {n} CPUs")),
            self.memory.as_ref().map(|(n, path)| format!("{path}: {n} bytes")),
            self.high.as_ref().map(|(n, path)| format!("{path}: slowed above {n} bytes, not a limit")),
        ];
        CgroupLimits {
            cpus: self.quota.map(|(n, _)| n),
            cpuset: self.cpuset.map(|(n, _)| n),
            memory_bytes: self.memory.map(|(n, _)| n),
            origin: origin.into_iter().flatten().collect(),
        }
    }
}

fn keep<T: PartialOrd>(slot: &mut Option<(T, String)>, value: Option<T>, path: String) {
    if let Some(value) = value
        && slot.as_ref().is_none_or(|(tightest, _)| value < *tightest)
    {
        *slot = Some((value, path));
    }
}

/// A quota as people write it: `2.0`, `0.5`, `1.33`.
pub(crate) fn format_cpus(cpus: f64) -> String {
    format!("{:?}", (cpus * 100.0).round() / 100.0)
}

/// Every line of `/proc/self/cgroup` that names a v1 controller or the v2 tree.
pub fn memberships(text: &str) -> Vec<CgroupMembership> {
    let lines = text.lines().filter_map(|line| {
        let (id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        id.trim().parse::<u32>().ok()?;
        let controllers: Vec<String> =
            controllers.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect();
        path.starts_with('/').then(|| CgroupMembership { controllers, path: path.trim_end().to_owned() })
    });
    lines.collect()
}

/// Every well-formed line of `/proc/self/mountinfo`.
pub fn mounts(text: &str) -> Vec<MountInfo> {
    let lines = text.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let (mut left, mut right) = (left.split(' ').skip(3), right.split(' '));
        let (root, point) = (unescape(left.next()?), unescape(left.next()?));
        let (fs, source) = (right.next()?.to_owned(), unescape(right.next()?));
        let options = right.next().unwrap_or_default().to_owned();
        (root.starts_with('/') && point.starts_with('/')).then_some(MountInfo {
            root,
            point,
            fs,
            source,
            options,
        })
    });
    lines.collect()
}

/// mountinfo escapes spaces, tabs, newlines and backslashes as three octal digits.
fn unescape(field: &str) -> String {
    const ESCAPES: [(&str, &str); 4] = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    ESCAPES.iter().fold(field.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn is_of(controllers: &[String], controller: &str) -> bool {
    if controller.is_empty() { controllers.is_empty() } else { controllers.iter().any(|c| c == controller) }
}

/// The leaf directory of the cgroup, and the topmost one that can be read.
fn cgroup_dirs(path: &str, controller: &str, mounts: &[MountInfo]) -> Option<(String, String)> {
    let holds = |m: &&MountInfo| match controller {
        "" => m.fs == "cgroup2",
        name => m.fs == "cgroup" && m.options.split(',').any(|o| o == name),
    };
    // Of several mounts that contain the cgroup, the one with the shortest root shows the most ancestors.
    let seen = mounts.iter().filter(holds).filter_map(|m| Some((m, relative_to(path, &m.root)?)));
    let best = seen.min_by_key(|(m, _)| m.root.len());
    // A path outside the mount belongs to another cgroup namespace: fall back to the mount point itself.
    let (mount, rest) = best.or_else(|| mounts.iter().find(holds).map(|m| (m, "")))?;
    let top = mount.point.trim_end_matches('/');
    Some((format!("{top}{}", rest.trim_end_matches('/')), top.to_owned()))
}

/// The part of `path` below `root`; `None` when it is not below it.
fn relative_to<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    let inside = rest.is_empty() || rest.starts_with('/');
    (inside && !rest.split('/').any(|part| part == "..")).then_some(rest)
}

/// `leaf` and its ancestors up to and including `top`.
fn ancestors(leaf: String, top: &str) -> impl Iterator<Item = String> {
    let top = top.len();
    std::iter::successors(Some(leaf), move |dir| {
        let parent = dir.get(..dir.rfind('/')?)?;
        (parent.len() >= top).then(|| parent.to_owned())
    })
}

/// `200000 100000` → 2 CPUs; `max` and negative quotas are no limit.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

fn memory(text: &str, total: Option<u64>) -> Option<u64> {
    let bytes: u64 = text.trim().parse().ok()?;
    (bytes < UNLIMITED && total.is_none_or(|total| bytes <= total)).then_some(bytes)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
pub(crate) fn mem_total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| size_bytes(line.strip_prefix("MemTotal:")?))
}

/// Parses a kernel CPU list (`0-3,8`), sorted; `None` when empty or malformed, because a partially parsed list would
/// give a wrong count.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < MAX_CPUS).then_some((first, last))
    };
    let mut ranges: Vec<(u32, u32)> = text.trim().split(',').map(range).collect::<Option<_>>()?;
    ranges.sort_unstable();
    let mut cpus = Vec::new();
    for (first, last) in ranges {
        let from = cpus.last().map_or(first, |seen: &u32| first.max(seen + 1));
        cpus.extend(from..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_parse_or_are_rejected() {
        assert_eq!(cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("4-6,5-7,0"), Some(vec![0, 4, 5, 6, 7]));
        for bad in ["", "\n", "3-1", "0-3,", "0,x", "-1", "0-65536", "0-4294967295"] {
            assert_eq!(cpu_list(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn quotas_at_their_bounds() {
        assert_eq!(quota("200000 100000\n"), Some(2.0));
        assert_eq!(quota("1 100000"), Some(0.00001));
        for none in ["max 100000", "-1 100000", "0 100000", "5 0", "5", "", "x y"] {
            assert_eq!(quota(none), None, "{none:?}");
        }
        assert_eq!((format_cpus(2.0), format_cpus(1.333)), ("2.0".to_owned(), "1.33".to_owned()));
    }

    #[test]
    fn memory_above_the_machine_is_no_limit() {
        assert_eq!(memory("1073741824\n", Some(1 << 30)), Some(1 << 30));
        assert_eq!(memory("1073741825", Some(1 << 30)), None);
        assert_eq!(memory("4611686018427387903", None), Some(UNLIMITED - 1));
        assert_eq!(memory("4611686018427387904", None), None);
        assert_eq!(memory("max", None), None);
    }

    #[test]
    fn cgroup_and_mountinfo_lines_parse() {
        let groups =
            memberships("12:cpu,cpuacct:/a:b\n0::/user.slice\nx::/\n1:name=systemd\n::\n3:memory:relative\n");
        let cpu = CgroupMembership { controllers: vec!["cpu".into(), "cpuacct".into()], path: "/a:b".into() };
        assert_eq!(groups, [cpu, CgroupMembership { controllers: vec![], path: "/user.slice".into() }]);
        let found = mounts(
            "30 24 0:26 /../.. /sys/fs/my\\040group ro shared:9 - cgroup2 none rw\n1 2 3 / /x\n\n - a b c\n",
        );
        assert_eq!(found.len(), 1);
        assert_eq!(
            found.first().map(|m| (m.root.as_str(), m.point.as_str())),
            Some(("/../..", "/sys/fs/my group"))
        );
    }

    #[test]
    fn the_walk_ends_at_the_mount_point() {
        let dirs: Vec<String> = ancestors("/cg/a/b".into(), "/cg").collect();
        assert_eq!(dirs, ["/cg/a/b", "/cg/a", "/cg"]);
        assert_eq!(ancestors(String::new(), "").count(), 1);
        assert_eq!(relative_to("/docker/7f", "/docker/7f"), Some(""));
        assert_eq!(relative_to("/docker/7fff", "/docker/7f"), None);
        assert_eq!(relative_to("/../../x", "/../.."), Some("/x"));
        assert_eq!(relative_to("/../other", "/"), None);
    }
}
