//! Check `device-nodes`: permissions of `/dev/nvidia*`, `/dev/kfd`, `/dev/dri/renderD*` for this user and its groups.

use gpuforge_detect::{model::Vendor, probe::filesystem::FileSystem};

use crate::doctor::{Finding, Status, SystemView, host_facts};

/// `device-nodes`
pub(super) fn device_nodes(view: &SystemView) -> Finding {
    let facts = view.host_facts();
    if facts.platform.wsl.is_some() {
        return match view.exists("/dev/dxg") {
            true => usable(view, "/dev/dxg"),
            false => Finding::skipped("WSL without /dev/dxg: see wsl"),
        };
    }
    let mut found = Vec::new();
    let nvidia = facts.nvidia.is_some();
    if nvidia {
        found.extend(nvidia_nodes(view));
    }
    let bound = |vendor: Vendor, drivers: &[&str]| {
        facts.of(vendor).any(|g| g.kernel_driver.as_deref().is_some_and(|d| drivers.contains(&d)))
    };
    let (amd, intel) = (bound(Vendor::Amd, &["amdgpu"]), bound(Vendor::Intel, &["i915", "xe"]));
    if amd {
        found.extend(wanted(view, "/dev/kfd", "amdgpu is bound, and there is no /dev/kfd: ROCm cannot run"));
    }
    if amd || intel {
        found.extend(render_nodes(view));
    }
    Finding::all(found, || match (facts.platform.container.as_deref(), nvidia || amd || intel) {
        (Some(_), true) => Finding::skipped("no node is in this container: see container"),
        (_, true) => Finding::skipped("no node to look at"),
        (_, false) => Finding::skipped("no GPU with a compute driver: see kernel-module"),
    })
}

fn nvidia_nodes(view: &SystemView) -> Vec<Finding> {
    let numbered = view.list("/dev").into_iter().filter(|n| {
        n.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    let mut found: Vec<Finding> = numbered.map(|n| usable(view, &format!("/dev/{n}"))).collect();
    if found.is_empty() && view.host_facts().platform.container.is_some() {
        return found;
    }
    if found.is_empty() {
        let none = "the nvidia module is loaded, and there is no /dev/nvidia0";
        found.push(Finding::new(Status::Error, none).step("make the nodes: sudo nvidia-modprobe -c 0 -u"));
    }
    found.extend(wanted(view, "/dev/nvidiactl", "there is no /dev/nvidiactl"));
    let uvm =
        "there is no /dev/nvidia-uvm: CUDA makes it at its first start, if nvidia-modprobe is installed";
    found.extend(wanted(view, "/dev/nvidia-uvm", uvm).map(|f| match f.status {
        Status::Warning => f.step("sudo nvidia-modprobe -u"),
        _ => f,
    }));
    found
}

fn render_nodes(view: &SystemView) -> Vec<Finding> {
    let names = view.list("/dev/dri").into_iter().filter(|n| n.starts_with("renderD"));
    let found: Vec<Finding> = names.map(|n| usable(view, &format!("/dev/dri/{n}"))).collect();
    match found.is_empty() && view.host_facts().platform.container.is_none() {
        true => vec![Finding::new(Status::Warning, "there is no /dev/dri/renderD*")],
        false => found,
    }
}

/// A required node; in a container its absence is reported by the `container` check.
fn wanted(view: &SystemView, path: &str, missing: &str) -> Option<Finding> {
    match (view.exists(path), view.host_facts().platform.container.is_some()) {
        (true, _) => Some(usable(view, path)),
        (false, true) => None,
        (false, false) => Some(Finding::new(Status::Warning, missing)),
    }
}

fn usable(view: &SystemView, path: &str) -> Finding {
    let (Some(node), Some(user)) = (view.node(path), view.host_facts().user.as_ref()) else {
        return Finding::new(Status::Unknown, format!("{path}: its owner or this user is not known"));
    };
    if user.may_use(&node) {
        return Finding::healthy(format!("{path} can be opened"));
    }
    let of = |file: &str, id: u32| host_facts::named(view, file, id).unwrap_or_else(|| id.to_string());
    let (owner, group) = (of("/etc/passwd", node.uid), of("/etc/group", node.gid));
    let member = user.groups.contains(&node.gid);
    let who = user.name.clone().unwrap_or_else(|| format!("user {}", user.uid));
    let said = format!(
        "{path} is {owner}:{group} {:03o}, and {who} is {} {group}",
        node.mode,
        if member { "in" } else { "not in" }
    );
    let found = Finding::new(Status::Error, said);
    match (view.host_facts().platform.container.is_some(), node.mode & 0o060 == 0o060 && node.gid != 0) {
        (true, true) => found.step(format!("start the container with --group-add {}", node.gid)),
        (false, true) if !member => {
            found.step(format!("sudo usermod -aG {group} {who}, then log out and in again"))
        }
        _ => found.step(format!("a udev rule must give {path} to a group (0660)")),
    }
}
