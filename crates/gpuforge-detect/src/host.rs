//! Host environment detection: kernel release, container engine, WSL, hypervisor.

use crate::{cgroup, model::Host, probe::filesystem::FileSystem};

/// A marker by which a container is recognised.
enum ContainerMarker {
    /// The variable is set.
    Variable(&'static str),
    /// The variable's value names the container.
    VariableNames(&'static str),
    /// The file exists.
    File(&'static str),
    /// The file's text names the container.
    FileNames(&'static str),
    /// The cgroups of PID 1 or the mounts that a container engine creates contain the word.
    Mentioned(&'static str),
    /// The kernel's release or version contains the word.
    KernelSays(&'static str),
}

/// First match wins: explicit markers before side effects, an orchestrator before its engine.
const CONTAINERS: [(ContainerMarker, &str); 13] = [
    (ContainerMarker::Variable("KUBERNETES_SERVICE_HOST"), "kubernetes"),
    (ContainerMarker::File("/run/.containerenv"), "podman"),
    (ContainerMarker::File("/.dockerenv"), "docker"),
    (ContainerMarker::VariableNames("container"), ""),
    (ContainerMarker::FileNames("/run/systemd/container"), ""),
    (ContainerMarker::Variable("APPTAINER_CONTAINER"), "apptainer"),
    (ContainerMarker::Variable("SINGULARITY_CONTAINER"), "apptainer"),
    (ContainerMarker::Mentioned("kubepods"), "kubernetes"),
    (ContainerMarker::Mentioned("libpod"), "podman"),
    (ContainerMarker::Mentioned("docker"), "docker"),
    (ContainerMarker::Mentioned("containerd"), "containerd"),
    (ContainerMarker::Mentioned("lxc"), "lxc"),
    (ContainerMarker::KernelSays("gvisor"), "gvisor"),
];

/// Mounts that an engine creates inside a container. Others prove nothing: a container host lists the file systems of
/// all its containers too.
const ENGINE_MOUNTS: [&str; 5] = ["/", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/proc/cpuinfo"];

/// Prefixes of the DMI vendor and product (empty: anything) and the hypervisor; first match wins.
const HYPERVISORS: [(&str, &str, &str); 13] = [
    ("Amazon EC2", "", "amazon-ec2"),
    ("", "Google Compute Engine", "google-compute-engine"),
    ("Microsoft Corporation", "Virtual Machine", "hyper-v"),
    ("VMware", "", "vmware"),
    ("innotek", "", "virtualbox"),
    ("", "VirtualBox", "virtualbox"),
    ("Parallels", "", "parallels"),
    ("Xen", "", "xen"),
    ("", "Bochs", "bochs"),
    ("Bochs", "", "bochs"),
    ("", "KVM", "kvm"),
    ("KVM", "", "kvm"),
    ("QEMU", "", "qemu"),
];

/// Reads the host environment; `env` looks up a variable.
pub fn read(files: &dyn FileSystem, env: &dyn Fn(&str) -> Option<String>) -> Host {
    let kernel = line(files, "/proc/sys/kernel/osrelease");
    let wsl = kernel.as_deref().and_then(wsl);
    Host {
        // Only Linux has the release file; a recording must report its own OS, not that of the machine replaying it.
        os: Some(if kernel.is_some() { "linux" } else { std::env::consts::OS }.to_owned()),
        container: container(files, env, kernel.as_deref()),
        hypervisor: hypervisor(files, wsl),
        kernel,
        wsl,
        ..Host::default()
    }
}

/// Fills in what the platform's own interfaces state (Windows, macOS), where kernel files say nothing.
pub fn fill(host: &mut Host, stated: &Host) {
    let fill = |known: &mut Option<String>, other: &Option<String>| {
        if known.is_none() {
            known.clone_from(other);
        }
    };
    fill(&mut host.os_version, &stated.os_version);
    fill(&mut host.kernel, &stated.kernel);
    fill(&mut host.hypervisor, &stated.hypervisor);
    host.translated = host.translated.or(stated.translated);
}

/// First line of a file, unless it is empty.
fn line(files: &dyn FileSystem, path: &str) -> Option<String> {
    let text = files.read(path)?;
    text.lines().next().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty())
}

/// WSL version (1 or 2), by the kernel release.
fn wsl(release: &str) -> Option<u8> {
    let release = release.to_ascii_lowercase();
    let second = ["wsl2", "microsoft-standard"].iter().any(|word| release.contains(word));
    if second { Some(2) } else { release.contains("microsoft").then_some(1) }
}

fn container(
    files: &dyn FileSystem,
    env: &dyn Fn(&str) -> Option<String>,
    release: Option<&str>,
) -> Option<String> {
    let mentions = mentions(files);
    let kernel =
        format!("{} {}", release.unwrap_or_default(), line(files, "/proc/version").unwrap_or_default());
    let kernel = kernel.to_ascii_lowercase();
    let set = |variable: &str| env(variable).filter(|v| !v.trim().is_empty());
    CONTAINERS.iter().find_map(|(marker, name)| {
        let name = || (*name).to_owned();
        match marker {
            ContainerMarker::Variable(variable) => set(variable).map(|_| name()),
            ContainerMarker::VariableNames(variable) => set(variable).and_then(|v| named(&v)),
            ContainerMarker::File(path) => files.exists(path).then(name),
            ContainerMarker::FileNames(path) => line(files, path).and_then(|v| named(&v)),
            ContainerMarker::Mentioned(word) => mentions.contains(word).then(name),
            ContainerMarker::KernelSays(word) => kernel.contains(word).then(name),
        }
    })
}

/// Container name stated by a variable or file. `wsl` is reported elsewhere and hides no devices.
fn named(value: &str) -> Option<String> {
    let value = value.trim().to_ascii_lowercase();
    let word = !value.is_empty()
        && value.len() <= 32
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    (word && value != "wsl").then_some(value)
}

/// All text in which a container engine leaves its name.
fn mentions(files: &dyn FileSystem) -> String {
    let mut text = files.read("/proc/1/cgroup").unwrap_or_default();
    let mounts = files.read("/proc/self/mountinfo").map(|t| cgroup::mounts(&t)).unwrap_or_default();
    for mount in mounts.iter().filter(|m| ENGINE_MOUNTS.contains(&m.point.as_str())) {
        for part in [&mount.root, &mount.source, &mount.options] {
            text.push('\n');
            text.push_str(part);
        }
    }
    text
}

fn hypervisor(files: &dyn FileSystem, wsl: Option<u8>) -> Option<String> {
    let vendor = line(files, "/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let product = line(files, "/sys/class/dmi/id/product_name").unwrap_or_default();
    hypervisor_of(&vendor, &product)
        .map(str::to_owned)
        .or_else(|| line(files, "/sys/hypervisor/type"))
        // WSL 2 has no DMI tables, but it is always a Hyper-V guest.
        .or_else(|| (wsl == Some(2)).then(|| "hyper-v".to_owned()))
        .or_else(|| flagged(&files.read("/proc/cpuinfo")?).then(|| "unknown hypervisor".to_owned()))
}

/// Hypervisor by the firmware's system vendor and product.
pub(crate) fn hypervisor_of(vendor: &str, product: &str) -> Option<&'static str> {
    // Bare-metal cloud instances have the same DMI vendor.
    let bare = product.ends_with(".metal") || product.contains(".metal-");
    let row = HYPERVISORS.iter().find(|(v, p, _)| begins(vendor, v) && begins(product, p) && !bare);
    row.map(|(.., name)| *name)
}

/// Does `text` begin with `word`, at a word boundary?
fn begins(text: &str, word: &str) -> bool {
    let rest = text.strip_prefix(word);
    rest.is_some_and(|r| word.is_empty() || !r.starts_with(|c: char| c.is_alphanumeric()))
}

fn flagged(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags"));
    flags.is_some_and(|l| l.split_ascii_whitespace().any(|f| f == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::filesystem::RecordedFs;
    use proptest::prelude::*;

    const RELEASE: &str = "/proc/sys/kernel/osrelease";
    const MOUNTS: &str = "/proc/self/mountinfo";

    fn host(files: &[(&str, &str)], env: &[(&str, &str)]) -> Host {
        let lookup = |name: &str| env.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).to_owned());
        read(&RecordedFs::of(files), &lookup)
    }

    #[track_caller]
    fn check_container(files: &[(&str, &str)], env: &[(&str, &str)], expected: Option<&str>) {
        assert_eq!(host(files, env).container.as_deref(), expected);
    }

    #[track_caller]
    fn check_hypervisor(vendor: &str, product: &str, expected: Option<&str>) {
        let files = [("/sys/class/dmi/id/sys_vendor", vendor), ("/sys/class/dmi/id/product_name", product)];
        assert_eq!(host(&files, &[]).hypervisor.as_deref(), expected);
    }

    #[test]
    fn containers_by_every_marker() {
        let in_docker = [("/.dockerenv", "")];
        check_container(&in_docker, &[], Some("docker"));
        check_container(&in_docker, &[("KUBERNETES_SERVICE_HOST", "10.96.0.1")], Some("kubernetes"));
        check_container(&[("/run/.containerenv", ""), ("/.dockerenv", "")], &[], Some("podman"));
        check_container(&[], &[("container", "lxc")], Some("lxc"));
        check_container(&[("/run/systemd/container", "systemd-nspawn\n")], &[], Some("systemd-nspawn"));
        check_container(&[], &[("APPTAINER_CONTAINER", "/images/a.sif")], Some("apptainer"));
        check_container(&[], &[("SINGULARITY_CONTAINER", "/images/a.sif")], Some("apptainer"));
        check_container(
            &[("/proc/1/cgroup", "4:memory:/kubepods/burstable/pod1/docker-9c\n")],
            &[],
            Some("kubernetes"),
        );
        check_container(&[("/proc/1/cgroup", "0::/machine.slice/libpod-44.scope\n")], &[], Some("podman"));
        check_container(
            &[("/proc/1/cgroup", "0::/system.slice/containerd.service/7\n")],
            &[],
            Some("containerd"),
        );
        check_container(&[("/proc/1/cgroup", "2:cpu:/lxc.payload.web\n")], &[], Some("lxc"));
        check_container(&[("/proc/version", "Linux version 4.19.0-gVisor #1\n")], &[], Some("gvisor"));
        check_container(&[(RELEASE, "4.19.0-gvisor\n")], &[], Some("gvisor"));
    }

    #[test]
    fn hosts_are_not_containers() {
        check_container(&[("/proc/1/cgroup", "0::/init.scope\n")], &[("container", " ")], None);
        check_container(&[("/run/systemd/container", "wsl\n")], &[], None);
        check_container(&[], &[("container", "two words")], None);
        // A host that runs docker: the file systems of its containers are mounted, its own root is not one.
        let host_mounts = "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n90 21 0:50 / /var/lib/docker/overlay2/ab/merged rw - overlay overlay rw\n";
        check_container(&[(MOUNTS, host_mounts)], &[], None);
        let inside = "700 600 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AA\n";
        check_container(&[(MOUNTS, inside)], &[], Some("docker"));
    }

    #[test]
    fn wsl_by_kernel_release() {
        let of = |release: &str| host(&[(RELEASE, release)], &[]);
        assert_eq!(of("5.15.153.1-microsoft-standard-WSL2\n").wsl, Some(2));
        assert_eq!(of("4.19.104-microsoft-standard").wsl, Some(2));
        assert_eq!(of("4.4.0-18362-Microsoft").wsl, Some(1));
        assert_eq!(of("6.8.0-45-generic").wsl, None);
        let second = of("5.15.153.1-microsoft-standard-WSL2\n");
        assert_eq!(second.kernel.as_deref(), Some("5.15.153.1-microsoft-standard-WSL2"));
        assert_eq!((second.hypervisor.as_deref(), second.os.as_deref()), (Some("hyper-v"), Some("linux")));
    }

    #[test]
    fn hypervisors_by_dmi() {
        check_hypervisor("QEMU\n", "Standard PC (i440FX + PIIX, 1996)\n", Some("qemu"));
        check_hypervisor("Red Hat", "KVM", Some("kvm"));
        check_hypervisor("VMware, Inc.", "VMware7,1", Some("vmware"));
        check_hypervisor("innotek GmbH", "VirtualBox", Some("virtualbox"));
        check_hypervisor("Microsoft Corporation", "Virtual Machine", Some("hyper-v"));
        check_hypervisor("Microsoft Corporation", "Surface Laptop 4", None);
        check_hypervisor("Amazon EC2", "g5.xlarge", Some("amazon-ec2"));
        check_hypervisor("Amazon EC2", "m7i.metal-48xl", None);
        check_hypervisor("Google", "Google Compute Engine", Some("google-compute-engine"));
        check_hypervisor("Xen", "HVM domU", Some("xen"));
        check_hypervisor("Xenon Systems", "Radon", None);
        check_hypervisor("Parallels International GmbH.", "Parallels Virtual Platform", Some("parallels"));
        check_hypervisor("Bochs", "Bochs", Some("bochs"));
    }

    #[test]
    fn hypervisors_without_dmi() {
        let of = |path, text| host(&[(path, text)], &[]).hypervisor;
        assert_eq!(of("/sys/hypervisor/type", "xen\n").as_deref(), Some("xen"));
        assert_eq!(
            of("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor avx\n").as_deref(),
            Some("unknown hypervisor")
        );
        assert_eq!(of("/proc/cpuinfo", "flags\t\t: fpu avx\n"), None);
    }

    #[test]
    fn no_files_means_unknown_host() {
        let os = Some(std::env::consts::OS.to_owned());
        assert_eq!(host(&[], &[]), Host { os, ..Host::default() });
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,80}", raw in any::<String>(), variable in any::<String>()) {
            let paths = [
                RELEASE, MOUNTS, "/proc/version", "/proc/1/cgroup", "/proc/cpuinfo", "/run/systemd/container",
                "/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name",
            ];
            let mount = format!("1 2 0:3 {text} {text} rw - {raw} {text}");
            for content in [&text, &raw, &mount] {
                let files: Vec<(&str, &str)> = paths.iter().map(|p| (*p, content.as_str())).collect();
                read(&RecordedFs::of(&files), &|_| Some(variable.clone()));
                read(&RecordedFs::of(&files), &|_| None);
            }
        }
    }
}
