//! Simulated host: a directory with its files, tools that are shell scripts, and simulated system queries.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use gpuforge_env::doctor::{
    self, CHECKS, DoctorReport,
    Status::{self, Error, Healthy, Skipped},
    SystemView,
    system::{DiskSpace, NodePermissions, SimulatedSystem},
};

/// Statuses that hold for every machine of [`Sim::linux`]; the rest is skipped unless a test says otherwise.
const USUAL: [(&str, Status); 6] = [
    ("variables", Healthy),
    ("python-env", Healthy),
    ("disk", Healthy),
    ("shared-memory", Healthy),
    ("memory-limit", Healthy),
    ("clock", Healthy),
];

/// Every check has exactly the status that is listed, that is usual, or is skipped.
#[track_caller]
pub(crate) fn expect(report: &DoctorReport, listed: &[(&str, Status)]) {
    assert!(listed.iter().all(|(id, _)| CHECKS.iter().any(|c| c.id == *id)), "a listed id is unknown");
    let of = |rows: &[(&str, Status)], id: &str| rows.iter().find(|(i, _)| *i == id).map(|(_, s)| *s);
    for check in &report.checks {
        let expected = of(listed, check.id).or(of(&USUAL, check.id)).unwrap_or(Skipped);
        assert_eq!(check.status, expected, "{}: {}", check.id, check.evidence);
        assert!(!check.evidence.is_empty(), "{} has no evidence", check.id);
        let needs_fix = check.status >= Error;
        assert!(!needs_fix || check.fix.is_some(), "{} has no next step: {}", check.id, check.evidence);
    }
    assert_eq!(report.worst, report.checks.iter().map(|c| c.status).max().unwrap());
}

#[track_caller]
pub(crate) fn says(report: &DoctorReport, id: &str, evidence: &str, fix: &str) {
    let check = report.get(id).unwrap();
    assert!(check.evidence.contains(evidence), "{id} says: {}", check.evidence);
    let said = check.fix.as_deref().unwrap_or_default();
    assert!(said.contains(fix), "{id} advises: {said}");
}

/// What holds for [`Sim::nvidia`].
pub(crate) const NVIDIA: [(&str, Status); 5] = [
    ("kernel-module", Healthy),
    ("driver-library", Healthy),
    ("driver-answers", Healthy),
    ("device-nodes", Healthy),
    ("vulkan", Healthy),
];

/// `base`, with some statuses changed.
pub(crate) fn with<'a>(base: &[(&'a str, Status)], change: &[(&'a str, Status)]) -> Vec<(&'a str, Status)> {
    change.iter().chain(base).copied().collect()
}

/// A machine under construction.
pub(crate) struct Sim {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
    system: SimulatedSystem,
}

impl Sim {
    /// A Linux system of the user `mika` with a Python, much room, and no GPU.
    pub(crate) fn linux() -> Self {
        let sim = Sim {
            dir: tempfile::tempdir().unwrap(),
            env: BTreeMap::new(),
            system: SimulatedSystem::default(),
        };
        sim.groups(&[1000])
            .file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nmika:x:1000:1000::/home/mika:/bin/sh\n")
            .file("/etc/group", "root:x:0:\nvideo:x:44:\nrender:x:109:\nmika:x:1000:\n")
            .file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
            .file("/proc/sys/kernel/hostname", "workbench\n")
            .dir("/dev/shm")
            .dir("/tmp")
            .dir("/home/mika")
            .dir("/usr/lib/x86_64-linux-gnu")
            .link("/usr/bin/python3", "python3.12")
            .tool("python3.12", "exit 1")
            .var("HOME", "/home/mika")
            .var("PATH", "/usr/bin")
            .space("/", 1 << 40, 100_000_000_000)
            .space("/dev/shm", 16 << 30, 16 << 30)
    }

    /// A machine without files that runs Windows, by a snapshot of gpuforge-detect's tests. `C:\\` is the directory `C:`.
    pub(crate) fn windows(snapshot: &str) -> Self {
        let windows = serde_json::from_str(snapshot).unwrap();
        Sim {
            dir: tempfile::tempdir().unwrap(),
            env: BTreeMap::new(),
            system: SimulatedSystem { windows: Some(windows), ..SimulatedSystem::default() },
        }
        .dir("C:/Users/mika/AppData/Local/Temp")
        .var("USERPROFILE", "C:\\Users\\mika")
        .var("TEMP", "C:\\Users\\mika\\AppData\\Local\\Temp")
        .var("LOCALAPPDATA", "C:\\Users\\mika\\AppData\\Local")
        .space("C:", 1 << 40, 100_000_000_000)
    }

    /// The same for macOS.
    pub(crate) fn macos(snapshot: &str) -> Self {
        let macos = serde_json::from_str(snapshot).unwrap();
        Sim {
            dir: tempfile::tempdir().unwrap(),
            env: BTreeMap::new(),
            system: SimulatedSystem { macos: Some(macos), ..SimulatedSystem::default() },
        }
        .dir("/Users/mika")
        .dir("/tmp")
        .var("HOME", "/Users/mika")
        .space("/", 1 << 40, 100_000_000_000)
    }

    /// Marks a file as a program, as Windows needs no mark for.
    pub(crate) fn program_bits(self, path: &str) -> Self {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A program of these bytes.
    pub(crate) fn binary(self, path: &str, bytes: &[u8]) -> Self {
        let sim = self.program(path, "");
        fs::write(sim.path(path), bytes).unwrap();
        sim
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn dir(self, path: &str) -> Self {
        fs::create_dir_all(self.path(path)).unwrap();
        self
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let at = self.path(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
        self
    }

    pub(crate) fn link(self, path: &str, to: &str) -> Self {
        let at = self.path(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&at);
        symlink(to, at).unwrap();
        self
    }

    /// A shell script in `/usr/bin`.
    pub(crate) fn tool(self, name: &str, script: &str) -> Self {
        self.tool_at(&format!("/usr/bin/{name}"), script)
    }

    pub(crate) fn tool_at(self, path: &str, script: &str) -> Self {
        let text = format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n");
        self.program(path, &text)
    }

    /// A program that is this text.
    pub(crate) fn tool_text(self, name: &str, text: &str) -> Self {
        self.program(&format!("/usr/bin/{name}"), text)
    }

    fn program(self, path: &str, text: &str) -> Self {
        let _ = fs::remove_file(self.path(path));
        let sim = self.file(path, text);
        fs::set_permissions(sim.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        sim
    }

    pub(crate) fn var(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn space(mut self, point: &str, total: u64, free: u64) -> Self {
        self.system.space.insert(point.to_owned(), DiskSpace { total, free });
        self
    }

    pub(crate) fn host(mut self, name: &str) -> Self {
        self.system.hosts.insert(name.to_owned(), Duration::from_millis(20));
        self
    }

    /// A device node of root and this group.
    pub(crate) fn node(mut self, path: &str, gid: u32, mode: u32) -> Self {
        self.system.nodes.insert(path.to_owned(), NodePermissions { uid: 0, gid, mode, opens: None });
        self.file(path, "")
    }

    /// The groups of the user.
    pub(crate) fn groups(self, groups: &[u32]) -> Self {
        let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
        let text = format!(
            "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t{} \n",
            groups.join(" ")
        );
        self.file("/proc/self/status", &text)
    }

    /// A GPU on the PCI bus, bound to a driver.
    pub(crate) fn gpu(self, bus: &str, vendor: &str, device: &str, driver: Option<&str>) -> Self {
        let at = format!("/sys/bus/pci/devices/{bus}");
        let sim = self
            .file(&format!("{at}/class"), "0x030000\n")
            .file(&format!("{at}/vendor"), &format!("0x{vendor}\n"))
            .file(&format!("{at}/device"), &format!("0x{device}\n"));
        match driver {
            Some(driver) => {
                sim.link(&format!("{at}/driver"), &format!("../../../../bus/pci/drivers/{driver}"))
            }
            None => sim,
        }
    }

    /// A card of NVIDIA's with everything that belongs to it, in one version.
    pub(crate) fn nvidia(self, version: &str) -> Self {
        let nvrm = format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Sep 30 2025\n");
        self.gpu("0000:01:00.0", "10de", "2684", Some("nvidia"))
            .file("/sys/module/nvidia/version", &format!("{version}\n"))
            .file("/proc/driver/nvidia/version", &nvrm)
            .node("/dev/nvidiactl", 0, 0o666)
            .node("/dev/nvidia0", 0, 0o666)
            .node("/dev/nvidia-uvm", 0, 0o666)
            .libraries(version, version)
            .tool("nvidia-smi", "echo 'GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)'")
            .file("/usr/lib/x86_64-linux-gnu/libvulkan.so.1", "")
            .file("/usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.0", "")
            .file(
                "/usr/share/vulkan/icd.d/nvidia_icd.json",
                r#"{"ICD": {"library_path": "libGLX_nvidia.so.0"}}"#,
            )
    }

    /// The user-space driver in one version instead of another.
    pub(crate) fn libraries(self, version: &str, instead_of: &str) -> Self {
        let dir = "/usr/lib/x86_64-linux-gnu";
        for name in ["libcuda.so", "libnvidia-ml.so"] {
            let _ = fs::remove_file(self.path(&format!("{dir}/{name}.{instead_of}")));
        }
        self.file(&format!("{dir}/libcuda.so.{version}"), "")
            .file(&format!("{dir}/libnvidia-ml.so.{version}"), "")
            .link(&format!("{dir}/libcuda.so.1"), &format!("libcuda.so.{version}"))
            .link(&format!("{dir}/libnvidia-ml.so.1"), &format!("libnvidia-ml.so.{version}"))
    }

    /// The loader and Mesa's driver for AMD.
    pub(crate) fn vulkan(self) -> Self {
        self.file("/usr/lib/x86_64-linux-gnu/libvulkan.so.1", "")
            .file("/usr/lib/x86_64-linux-gnu/libvulkan_radeon.so", "")
            .file(
                "/usr/share/vulkan/icd.d/radeon_icd.json",
                r#"{"ICD": {"library_path": "libvulkan_radeon.so"}}"#,
            )
    }

    /// A package of the system's Python.
    pub(crate) fn package(self, name: &str, version: &str) -> Self {
        let metadata = format!("Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n");
        self.file(
            &format!("/usr/lib/python3.12/site-packages/{name}-{version}.dist-info/METADATA"),
            &metadata,
        )
    }

    pub(crate) fn torch(self, version: &str) -> Self {
        self.package("torch", version)
    }

    fn view(&self) -> SystemView {
        SystemView::rooted_at(self.dir.path(), self.env.clone())
            .with_system(self.system.clone())
            .offline(true)
    }

    /// What the doctor says, without a network.
    pub(crate) fn report(&self) -> DoctorReport {
        doctor::run(&Arc::new(self.view()))
    }

    /// With the frameworks asked.
    pub(crate) fn deep(&self) -> DoctorReport {
        doctor::run(&Arc::new(self.view().deep(true)))
    }

    /// At another time.
    pub(crate) fn report_at(&self, now: SystemTime) -> DoctorReport {
        doctor::run(&Arc::new(self.view().with_now(now)))
    }

    /// With a network and these indexes.
    pub(crate) fn online(&self, indexes: &[&str]) -> DoctorReport {
        let indexes = indexes.iter().map(|i| (*i).to_owned()).collect();
        doctor::run(&Arc::new(self.view().offline(false).with_indexes(indexes)))
    }

    /// The report, and the bundle as text.
    pub(crate) fn bundle(&self) -> (DoctorReport, String) {
        let view = Arc::new(self.view());
        let report = doctor::run(&view);
        let text = serde_json::to_string_pretty(&doctor::bundle(&view, &report).unwrap()).unwrap();
        (report, text)
    }
}
