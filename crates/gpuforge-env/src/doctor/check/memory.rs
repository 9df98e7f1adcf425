//! Check `memory-limit`: cgroup memory limit, RLIMIT_MEMLOCK and RLIMIT_AS.

use gpuforge_detect::{cgroup, model::Vendor, probe::filesystem::FileSystem};

use super::mib;
use crate::doctor::{Finding, Status, SystemView};

/// Approximate footprint of a framework without data.
const LITTLE: u64 = 4 << 30;

/// Memory that InfiniBand cards must be able to pin.
const PINNED: u64 = 64 << 20;

/// `memory-limit`
pub(super) fn memory_limit(view: &SystemView) -> Finding {
    let limits = view.read("/proc/self/limits").unwrap_or_default();
    let mut found = vec![group(view)];
    found.extend(locked(view, &limits));
    found.extend(addresses(view, &limits));
    Finding::all(found, || Finding::skipped("no limit is known"))
}

fn group(view: &SystemView) -> Finding {
    match cgroup::limits(view).memory_bytes {
        None => Finding::healthy("no control group limits memory"),
        Some(bytes) if bytes >= LITTLE => {
            Finding::healthy(format!("the control group allows {}", mib(bytes)))
        }
        Some(bytes) => Finding::new(Status::Warning, format!("the control group allows {} only", mib(bytes)))
            .step(
                "raise the limit of the container, the job or the service: a GPU framework wants several GiB",
            ),
    }
}

/// RLIMIT_MEMLOCK matters for RDMA; GPU drivers pin memory regardless of it.
fn locked(view: &SystemView, limits: &str) -> Option<Finding> {
    let soft = limit(limits, "Max locked memory")?;
    let cards = !view.list("/sys/class/infiniband").is_empty();
    let (Some(bytes), true) = (soft, cards) else { return None };
    (bytes < PINNED).then(|| {
        Finding::new(
            Status::Warning,
            format!("only {} may be locked, and there is an InfiniBand card", mib(bytes)),
        )
        .step("raise memlock to unlimited in /etc/security/limits.conf or the service")
    })
}

/// RLIMIT_AS: CUDA reserves address space for all memory at startup.
fn addresses(view: &SystemView, limits: &str) -> Option<Finding> {
    let bytes = limit(limits, "Max address space")??;
    let facts = view.host_facts();
    let nvidia = facts.nvidia.is_some() || facts.has(Vendor::Nvidia);
    nvidia.then(|| {
        Finding::new(
            Status::Error,
            format!("the address space is limited to {}: CUDA fails at its start", mib(bytes)),
        )
        .step("ulimit -v unlimited")
    })
}

/// The soft limit of this name: `None` where it is not listed, `Some(None)` where it is unlimited.
fn limit(text: &str, name: &str) -> Option<Option<u64>> {
    let soft = text.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(None) } else { soft.parse().ok().map(Some) }
}
