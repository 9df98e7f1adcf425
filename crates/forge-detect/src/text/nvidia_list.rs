//! What does `nvidia-smi -L` list? GPUs, and the MIG slices below them.

use super::lines_at;
use crate::{
    families,
    model::{Evidence, Gpu, MigDevice, Report, Usable, Vendor},
};

const KIND: &str = "nvidia-smi-L";

pub(crate) fn parse(text: &str) -> Option<Report> {
    let mut report = Report::of(KIND);
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if let Some(gpu) = gpu(line, at) {
            report.gpus.push(gpu);
        } else if let Some(gpu) = report.gpus.last_mut()
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
    let (index, rest) = line.strip_prefix("GPU ")?.split_once(": ")?;
    let (name, uuid) = rest.rsplit_once(" (UUID: ")?;
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    gpu.index = Some(index.trim().parse().ok()?);
    gpu.name = Some(name.trim().to_owned());
    gpu.uuid = real_uuid(uuid.trim_end_matches(')'));
    gpu.kind = families::classify(gpu.vendor, gpu.name.as_deref(), None, None, None).unwrap_or_default();
    gpu.apis.push("cuda".to_owned());
    gpu.at = at;
    gpu.judge(Usable::Yes, Evidence::Opened, "the NVIDIA driver lists it");
    Some(gpu)
}

/// `MIG 1g.10gb  Device  0: (UUID: MIG-…)`
fn slice(line: &str) -> Option<MigDevice> {
    let mut words = line.strip_prefix("MIG ")?.split_whitespace();
    let profile = words.next()?.to_owned();
    let index = words.nth(1)?.trim_end_matches(':').parse().ok();
    Some(MigDevice { index, profile: Some(profile), ..MigDevice::default() })
}

/// A UUID, unless it was masked with zeros or letters before pasting.
fn real_uuid(uuid: &str) -> Option<String> {
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
    }
}
