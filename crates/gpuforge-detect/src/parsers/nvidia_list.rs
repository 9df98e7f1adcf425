//! Parser for `nvidia-smi -L`: GPUs, and the MIG devices below them.

use std::collections::HashMap;

use super::{lines_at, present};
use crate::{
    classify,
    model::{Evidence, Gpu, MigDevice, ProbeReport, Usable, Vendor},
};

const KIND: &str = "nvidia-smi-L";

/// Index, name and UUID: what makes two lines one device.
type Identity = (Option<u32>, Option<String>, Option<String>);

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut report = ProbeReport::of(KIND);
    let mut known: HashMap<Identity, usize> = HashMap::new();
    let mut current = None;
    for (at, line) in lines_at(text) {
        let line = line.trim_start_matches([' ', '\t', '>', '#', '*', '-', '`']).trim_end();
        if let Some(gpu) = gpu(line, at) {
            let new = report.gpus.len();
            // People paste the list from before and after a change.
            let place = *known.entry((gpu.index, gpu.name.clone(), gpu.uuid.clone())).or_insert(new);
            match report.gpus.get_mut(place) {
                Some(old) => {
                    old.mig_profiles.clear();
                    old.mig_devices.clear();
                }
                None => report.gpus.push(gpu),
            }
            current = Some(place);
        } else if let Some(gpu) = current.and_then(|i| report.gpus.get_mut(i))
            && let Some(slice) = slice(line)
        {
            gpu.mig = Some("enabled".to_owned());
            gpu.mig_profiles.extend(slice.profile.clone());
            gpu.mig_devices.push(slice);
        }
    }
    (!report.gpus.is_empty()).then_some(report)
}

/// `GPU 0: NVIDIA H200 (UUID: GPU-…)`
fn gpu(line: &str, at: usize) -> Option<Gpu> {
    let (index, rest) = line.strip_prefix("GPU ")?.split_once(':')?;
    // The line may be wrapped behind the label, or cut off in the identifier.
    let (name, uuid) = rest.rsplit_once(" (UUID:")?;
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    gpu.index = Some(index.trim().parse().ok()?);
    gpu.name = present(name).map(str::to_owned);
    gpu.uuid = uuid.trim().strip_suffix(')').and_then(real_uuid);
    gpu.kind = classify::gpu_type(gpu.vendor, gpu.name.as_deref(), None, None, None).unwrap_or_default();
    gpu.apis.push("cuda".to_owned());
    gpu.at = at;
    gpu.set_usability(Usable::Yes, Evidence::Opened, "the NVIDIA driver lists it");
    Some(gpu)
}

/// `MIG 1g.10gb  Device  0: (UUID: MIG-…)`; drivers before 470 put the instances into it: `MIG-GPU-…/7/0`.
fn slice(line: &str) -> Option<MigDevice> {
    let mut words = line.strip_prefix("MIG ")?.split_whitespace();
    let profile = words.next()?.to_owned();
    let index = words.nth(1)?.trim_end_matches(':').parse().ok();
    let (gi, ci) = match line.rsplit_once("MIG-GPU-").map(|(_, id)| id.trim_end_matches(')').split('/')) {
        Some(mut parts) => {
            (parts.nth(1).and_then(|p| p.parse().ok()), parts.next().and_then(|p| p.parse().ok()))
        }
        None => (None, None),
    };
    Some(MigDevice { gi, ci, index, profile: Some(profile), ..MigDevice::default() })
}

/// A UUID, unless it was masked with zeros or letters before pasting.
pub(super) fn real_uuid(uuid: &str) -> Option<String> {
    let uuid = present(uuid)?;
    let digits = uuid.trim_start_matches("GPU-");
    let masked = digits.bytes().all(|b| matches!(b, b'0' | b'x' | b'X' | b'-' | b'*'));
    (!masked).then(|| uuid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_and_slices() {
        let text = "$ nvidia-smi -L\nGPU 0: NVIDIA A30 (UUID: GPU-5d1c0000-0000-0000-0000-00000000aa01)\n  \
                    MIG 1g.6gb Device 0: (UUID: MIG-aaa)\nGPU 1: Tesla T4 (UUID: GPU-xxxxxxxx-xxxx)\n";
        let gpus = parse(text).unwrap().gpus;
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].mig_profiles, ["1g.6gb"]);
        assert!(gpus[0].uuid.is_some() && gpus[1].uuid.is_none());
        assert_eq!(gpus[1].mig, None);
        assert_eq!(parse("GPU 0: words without an id"), None);
        assert_eq!(parse(&format!("{text}\nafter a reset:\n{text}")).unwrap().gpus.len(), 2);
    }

    #[test]
    fn old_slices_name_their_instances() {
        let text = "GPU 0: A100-SXM4-40GB (UUID: N/A)\n  MIG 2g.10gb Device 1: (UUID: MIG-GPU-5e/3/1)\n";
        let gpu = &parse(text).unwrap().gpus[0];
        assert_eq!(
            (gpu.uuid.as_deref(), gpu.mig_devices[0].gi, gpu.mig_devices[0].ci),
            (None, Some(3), Some(1))
        );
    }
}
