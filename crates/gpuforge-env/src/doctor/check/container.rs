//! Checks `container` and `container-toolkit`: GPU passthrough into containers, NVIDIA container toolkit, CDI.

use gpuforge_detect::{model::Vendor, probe::filesystem::FileSystem};

use crate::doctor::{Finding, Status, SystemView};

/// How to pass a GPU into a container, by engine: NVIDIA, then AMD or Intel.
const STARTS: [(&str, &str, &str); 5] = [
    ("docker", "docker run --gpus all …", "docker run --device /dev/kfd --device /dev/dri …"),
    (
        "podman",
        "podman run --device nvidia.com/gpu=all …",
        "podman run --device /dev/kfd --device /dev/dri …",
    ),
    ("apptainer", "apptainer exec --nv …", "apptainer exec --rocm …"),
    (
        "kubernetes",
        "ask for it: resources.limits of the pod: nvidia.com/gpu: 1 (with NVIDIA's device plugin on the node)",
        "ask for it: resources.limits of the pod: amd.com/gpu: 1 (with AMD's device plugin on the node)",
    ),
    (
        "",
        "start the container with the GPU's device nodes and libraries",
        "start the container with /dev/kfd and /dev/dri",
    ),
];

/// `container`
pub(super) fn container(view: &SystemView) -> Finding {
    let facts = view.host_facts();
    let Some(engine) = facts.platform.container.as_deref() else {
        return Finding::skipped("not in a container");
    };
    let nvidia_nodes = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"].iter().any(|p| view.exists(p));
    let render = view.list("/dev/dri").iter().any(|n| n.starts_with("renderD"));
    let rows = [
        (Vendor::Nvidia, facts.nvidia.is_some() || facts.has(Vendor::Nvidia), nvidia_nodes, "NVIDIA"),
        (Vendor::Amd, facts.has(Vendor::Amd), view.exists("/dev/kfd") || render, "AMD"),
        (Vendor::Intel, facts.has(Vendor::Intel), render, "Intel"),
    ];
    let found = rows.into_iter().filter(|(_, host, seen, _)| *host || *seen).map(
        |(vendor, _, seen, name)| match seen {
            true => Finding::healthy(format!("{engine}: the {name} GPU is passed through")),
            false => gpu_not_passed(view, engine, vendor, name),
        },
    );
    Finding::all(found, || match view.list("/sys/bus/pci/devices").is_empty() {
        true => Finding::new(
            Status::Unknown,
            format!("{engine}: no device node, and the host's devices are not visible"),
        ),
        false => Finding::healthy(format!("{engine}: the host has no GPU")),
    })
}

fn gpu_not_passed(view: &SystemView, engine: &str, vendor: Vendor, name: &str) -> Finding {
    let row = STARTS.iter().find(|(e, ..)| *e == engine || e.is_empty());
    let (.., nvidia, other) = row.copied().unwrap_or(("", "", ""));
    let step = if vendor == Vendor::Nvidia { nvidia } else { other };
    let evidence =
        format!("{engine}: the host has an {name} GPU, and this container has none of its device nodes");
    // A missing integrated GPU is harmless.
    let status = if vendor == Vendor::Intel { Status::Warning } else { Status::Error };
    let found = Finding::new(status, evidence).step(step);
    match view.env("NVIDIA_VISIBLE_DEVICES").filter(|_| vendor == Vendor::Nvidia) {
        Some(value @ ("" | "void" | "none")) => {
            found.and(Finding::new(Status::Error, format!("NVIDIA_VISIBLE_DEVICES={value} asks for none")))
        }
        _ => found,
    }
}

/// Files that NVIDIA's container toolkit installs.
const TOOLKIT: [&str; 4] = [
    "/usr/bin/nvidia-ctk",
    "/usr/bin/nvidia-container-runtime",
    "/usr/bin/nvidia-container-cli",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime",
];

/// `container-toolkit`
pub(super) fn container_toolkit(view: &SystemView) -> Finding {
    let facts = view.host_facts();
    if facts.platform.container.is_some() {
        return Finding::skipped("this is a container itself");
    }
    let engines: Vec<(&str, String)> =
        ["docker", "podman", "apptainer"].iter().filter_map(|e| Some((*e, view.find_program(e)?))).collect();
    if engines.is_empty() {
        return Finding::skipped("no container engine is on PATH");
    }
    let names = engines.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if facts.nvidia.is_none() && !facts.has(Vendor::Nvidia) {
        return Finding::skipped(format!("{names}: without an NVIDIA GPU no toolkit is needed"));
    }
    let toolkit = view.find_program("nvidia-ctk").is_some() || TOOLKIT.iter().any(|p| view.is_file(p));
    let cdi = ["/etc/cdi", "/var/run/cdi", "/run/cdi"].iter().any(|dir| {
        view.list(dir)
            .iter()
            .any(|f| f.starts_with("nvidia") && (f.ends_with(".yaml") || f.ends_with(".json")))
    });
    let found = engines.iter().map(|(engine, path)| match *engine {
        "docker" => docker(view, path, toolkit, cdi),
        "podman" if cdi => Finding::healthy("podman: a CDI specification names the GPU"),
        "podman" => Finding::new(Status::Warning, "podman: no CDI specification names the GPU")
            .step("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"),
        other => Finding::healthy(format!("{other}: --nv needs no toolkit")),
    });
    Finding::all(found, || Finding::skipped("no container engine is on PATH"))
}

fn docker(view: &SystemView, path: &str, toolkit: bool, cdi: bool) -> Finding {
    if view.symlink_chain(path).iter().any(|p| p.contains("/snap/")) {
        return Finding::new(Status::Warning, "docker is a snap, which NVIDIA's toolkit cannot set up")
            .step("install docker from its own packages");
    }
    let daemon = view.read("/etc/docker/daemon.json").unwrap_or_default();
    let daemon: serde_json::Value = serde_json::from_str(&daemon).unwrap_or_default();
    let runtime = daemon.get("runtimes").and_then(|r| r.get("nvidia")).is_some();
    match (toolkit, runtime || cdi) {
        (true, true) => Finding::healthy("docker: NVIDIA's toolkit is installed and set up"),
        (true, false) => Finding::new(
            Status::Warning,
            "docker: NVIDIA's toolkit is installed, and docker does not know it",
        )
        .step("sudo nvidia-ctk runtime configure --runtime=docker, then restart docker"),
        (false, _) => Finding::new(Status::Warning, "docker: NVIDIA's container toolkit is not installed")
            .step(
                "install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker",
            ),
    }
}
