//! Device visibility and preference: CUDA_VISIBLE_DEVICES, ROCR_/HIP_VISIBLE_DEVICES, GPUFORGE_DEVICE, GPUFORGE_CPU_ONLY.
//!
//! Pure: environment variables come in as a function.

use crate::model::{EnvOverride, Gpu, GpuType, SelectedGpu, Usable, Vendor, Warning};

/// Environment variable lookup; tests and recordings pass their own.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Variables that affect device selection, including those that are only recorded.
pub const VARIABLES: [&str; 6] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "GPUFORGE_DEVICE",
    "GPUFORGE_CPU_ONLY",
];

/// Is this value truthy: `1`, `true`, `yes`, `on`?
pub fn is_truthy(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// Marks the devices hidden by the vendors' visibility variables; returns the effect of each variable.
pub fn apply_visibility(gpus: &mut [Gpu], env: Env<'_>) -> Vec<EnvOverride> {
    const ROWS: [(&str, Vendor); 3] = [
        ("CUDA_VISIBLE_DEVICES", Vendor::Nvidia),
        ("ROCR_VISIBLE_DEVICES", Vendor::Amd),
        ("HIP_VISIBLE_DEVICES", Vendor::Amd),
    ];
    let mut seen = Vec::new();
    for (variable, vendor) in ROWS {
        let Some(value) = env(variable) else { continue };
        let effect = hide_all_but(gpus, vendor, variable, &value);
        seen.push(EnvOverride { variable: variable.to_owned(), value, effect });
    }
    seen
}

/// Both runtimes read a comma-separated list of ordinals or UUIDs and stop at the first invalid entry. Ordinals count the
/// vendor's devices that are still visible, so HIP's list indexes into ROCR's.
fn hide_all_but(gpus: &mut [Gpu], vendor: Vendor, variable: &str, value: &str) -> String {
    let own: Vec<usize> = gpus
        .iter()
        .enumerate()
        .filter(|(_, g)| g.vendor == Some(vendor) && g.hidden_by.is_none() && g.kind != GpuType::Software)
        .map(|(i, _)| i)
        .collect();
    let mut kept = Vec::new();
    for entry in value.split(',').map(str::trim) {
        let by_position = entry.parse::<usize>().ok().and_then(|n| own.get(n).copied());
        let by_id = || own.iter().copied().find(|i| gpus.get(*i).is_some_and(|g| has_id(g, entry)));
        match by_position.or_else(by_id) {
            Some(index) if !kept.contains(&index) => kept.push(index),
            // CUDA: a duplicate entry empties the list, an invalid one ends it.
            Some(_) => kept.clear(),
            None => break,
        }
    }
    let hidden = own.iter().filter(|i| !kept.contains(i)).count();
    for index in own.iter().filter(|i| !kept.contains(i)) {
        if let Some(gpu) = gpus.get_mut(*index) {
            gpu.hidden_by = Some(variable.to_owned());
        }
    }
    match (own.len(), hidden) {
        (0, _) => format!("no effect: there is no {} GPU", vendor_word(vendor)),
        (_, 0) => "hides nothing".to_owned(),
        (all, hidden) => format!("hides {hidden} of {all} {} GPUs", vendor_word(vendor)),
    }
}

fn has_id(gpu: &Gpu, entry: &str) -> bool {
    // CUDA accepts any unambiguous UUID prefix; MIG entries name the parent GPU.
    let wanted = entry.strip_prefix("MIG-").unwrap_or(entry);
    wanted.len() >= 8 && gpu.uuid.as_deref().is_some_and(|uuid| uuid.starts_with(wanted))
}

fn vendor_word(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "NVIDIA",
        Vendor::Amd => "AMD",
        Vendor::Intel => "Intel",
        Vendor::Apple => "Apple",
        Vendor::Other => "other",
    }
}

/// Parsed device preference of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevicePreference {
    /// No preference: the scored selection stands.
    Auto,
    /// The CPU only, with the variable or setting that said so.
    Cpu(String),
    /// A device by its position in the inventory.
    Gpu(usize),
    /// It matches no device of this machine.
    NoMatch(String),
}

/// Accepted forms of a device preference, as a phrase after "use" or "must be".
pub const PREFERENCE_SYNTAX: &str =
    "auto, cpu, gpu, a position such as 0 or gpu:0, a bus id such as 01:00.0, a vendor, or part of a name";

/// Syntax check: why a text can name no device of any machine; `None` where it might. Touches no hardware.
pub fn malformed(text: &str) -> Option<&'static str> {
    let text = text.trim();
    if text.chars().any(char::is_control) {
        return Some("it contains a control character");
    }
    if text.is_empty() {
        return None;
    }
    if !text.chars().any(char::is_alphanumeric) {
        return Some("it has neither a letter nor a digit");
    }
    if text.starts_with(['-', '+', '\u{2212}']) {
        return Some("a position is a whole number from 0");
    }
    let lower = text.to_ascii_lowercase();
    let behind = lower.strip_prefix("gpu").map(|rest| rest.trim_start_matches(' '));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match behind.map(|rest| (rest.strip_prefix(':'), rest)) {
        Some((Some(position), _)) if !digits(position.trim()) => Some("a whole number must follow `gpu:`"),
        // "gpu0x" is a mistyped position, "gpu accelerator" may be a name.
        Some((None, rest)) if rest.starts_with(|c: char| c.is_ascii_digit()) && !digits(rest) => {
            Some("only a whole number may follow `gpu`")
        }
        _ => None,
    }
}

/// Parses a device preference: `auto`, `cpu`, `gpu`, an index, a bus id, a vendor, or part of a name.
pub fn parse_preference(text: &str, gpus: &[Gpu]) -> DevicePreference {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "" | "auto" => return DevicePreference::Auto,
        "cpu" | "none" => return DevicePreference::Cpu(text.to_owned()),
        // A software adapter is not a GPU: it must be named explicitly.
        "gpu" => return best_of(gpus, |g| g.kind != GpuType::Software, text),
        _ if malformed(text).is_some() => return DevicePreference::NoMatch(text.to_owned()),
        _ => {}
    }
    let position =
        lower.strip_prefix("gpu").unwrap_or(&lower).trim_start_matches([':', ' ']).parse::<usize>().ok();
    // "4090" is a model, not a position, on any machine with fewer GPUs.
    match position {
        Some(position) if position < gpus.len() => return DevicePreference::Gpu(position),
        Some(position) if position < 100 => return DevicePreference::NoMatch(text.to_owned()),
        _ => {}
    }
    best_of(gpus, |g| matches_device(text, g), text)
}

/// Of several matches, the one with the best rank.
fn best_of(gpus: &[Gpu], fits: impl Fn(&Gpu) -> bool, text: &str) -> DevicePreference {
    let mut fitting: Vec<(usize, &Gpu)> = gpus.iter().enumerate().filter(|(_, g)| fits(g)).collect();
    fitting.sort_by_key(|(i, g)| {
        (g.hidden_by.is_some(), g.usable_for_compute != Usable::Yes, std::cmp::Reverse(g.score), *i)
    });
    fitting
        .first()
        .map_or_else(|| DevicePreference::NoMatch(text.to_owned()), |(i, _)| DevicePreference::Gpu(*i))
}

/// Does this text match the device: by bus id, vendor or part of its name?
pub fn matches_device(text: &str, gpu: &Gpu) -> bool {
    let lower = text.trim().to_ascii_lowercase();
    let address = crate::pci::bus_id(text);
    (address.is_some() && gpu.bus_id == address)
        || gpu.vendor.is_some_and(|v| v != Vendor::Other && vendor_word(v).eq_ignore_ascii_case(&lower))
        || (!lower.is_empty() && gpu.display_name().to_ascii_lowercase().contains(&lower))
}

/// The preferred device does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {}", self.message())]
pub struct UnknownDevice {
    /// Flag, variable or setting that asks for it.
    pub origin: String,
    /// What it says.
    pub text: String,
    /// The devices of this machine: index, name, type.
    pub devices: Vec<String>,
}

impl UnknownDevice {
    fn new(origin: &str, text: &str, gpus: &[Gpu]) -> Self {
        let kind = |gpu: &Gpu| match gpu.kind {
            GpuType::Unknown => String::new(),
            kind => format!(" ({})", format!("{kind:?}").to_lowercase()),
        };
        let devices = gpus.iter().enumerate().map(|(i, g)| format!("{i} = {}{}", g.display_name(), kind(g)));
        UnknownDevice { origin: origin.to_owned(), text: text.to_owned(), devices: devices.collect() }
    }

    /// What is wrong, and what there is; without the origin.
    fn message(&self) -> String {
        // Untrusted text: quoted, one line, truncated.
        let shown: String = self.text.trim().chars().take(60).collect();
        let there = match self.devices.as_slice() {
            [] => "this machine has no GPU, only cpu".to_owned(),
            some => format!("there are cpu, {}", some.join(", ")),
        };
        match malformed(&self.text) {
            None if shown.eq_ignore_ascii_case("gpu") => {
                format!("no GPU is here, and a software adapter is none; {there}")
            }
            Some(why) => format!("{shown:?} cannot name a device: {why}; {there}"),
            None => format!("{shown:?} names no device of this machine; {there}"),
        }
    }

    /// The next step.
    pub fn hint(&self) -> String {
        format!("use {PREFERENCE_SYNTAX}; `gpuforge detect` describes what there is")
    }
}

/// Checks that the preferred device exists. `wanted` is the origin of the preference (flag, variable, setting) and its
/// text. CPU-only mode needs no device, so any preference passes.
pub fn check_preference(
    gpus: &[Gpu],
    cpu_only: bool,
    wanted: Option<(&str, &str)>,
) -> Result<(), UnknownDevice> {
    match wanted.filter(|_| !cpu_only) {
        Some((origin, text)) if matches!(parse_preference(text, gpus), DevicePreference::NoMatch(_)) => {
            Err(UnknownDevice::new(origin, text, gpus))
        }
        _ => Ok(()),
    }
}

/// Device selection after CPU-only mode and the preference: an explicit preference wins, an unknown device is a warning.
pub fn choose_device(
    gpus: &[Gpu],
    scored: (Option<SelectedGpu>, String),
    cpu_only: Option<&str>,
    wanted: Option<(&str, &str)>,
) -> (Option<SelectedGpu>, String, Option<Warning>) {
    if let Some(origin) = cpu_only {
        return (None, format!("{origin} asks for the CPU"), None);
    }
    let Some((origin, text)) = wanted else { return (scored.0, scored.1, None) };
    match parse_preference(text, gpus) {
        DevicePreference::Auto => (scored.0, scored.1, None),
        DevicePreference::Cpu(_) => (None, format!("{origin} asks for the CPU"), None),
        DevicePreference::Gpu(index) => {
            let Some(gpu) = gpus.get(index) else { return (scored.0, scored.1, None) };
            let reason = format!("{origin}={text} asks for it");
            let doubt = (gpu.usable_for_compute == Usable::No).then(|| Warning {
                source: origin.to_owned(),
                message: format!(
                    "{} is not usable: {}",
                    gpu.display_name(),
                    gpu.usable_reason.as_deref().unwrap_or("reason unknown")
                ),
                hint: Some("unset it to let gpuforge choose".to_owned()),
            });
            let best = SelectedGpu {
                index,
                name: gpu.display_name().to_owned(),
                bus_id: gpu.bus_id.clone(),
                reason: reason.clone(),
            };
            (Some(best), reason, doubt)
        }
        DevicePreference::NoMatch(text) => {
            let unknown = UnknownDevice::new(origin, &text, gpus);
            let (message, hint) = (unknown.message(), Some(unknown.hint()));
            (scored.0, scored.1, Some(Warning { source: origin.to_owned(), message, hint }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus() -> Vec<Gpu> {
        let make = |vendor, name: &str, bus: &str, uuid: &str| Gpu {
            vendor: Some(vendor),
            name: Some(name.to_owned()),
            bus_id: Some(bus.to_owned()),
            uuid: Some(uuid.to_owned()),
            usable_for_compute: Usable::Yes,
            score: Some(50),
            ..Gpu::default()
        };
        vec![
            make(Vendor::Intel, "UHD Graphics 770", "0000:00:02.0", ""),
            make(Vendor::Nvidia, "RTX 3090", "0000:01:00.0", "GPU-aaaa0001"),
            make(Vendor::Nvidia, "RTX 4090", "0000:02:00.0", "GPU-bbbb0002"),
        ]
    }

    fn hidden(value: &str) -> Vec<usize> {
        let mut gpus = gpus();
        apply_visibility(&mut gpus, &|name| (name == "CUDA_VISIBLE_DEVICES").then(|| value.to_owned()));
        gpus.iter().enumerate().filter(|(_, g)| g.hidden_by.is_some()).map(|(i, _)| i).collect()
    }

    #[test]
    fn cuda_visible_devices_follows_cuda_semantics() {
        assert_eq!(hidden("0,1"), Vec::<usize>::new());
        assert_eq!(hidden("1"), [1]);
        assert_eq!(hidden("-1"), [1, 2]);
        assert_eq!(hidden(""), [1, 2]);
        assert_eq!(hidden("0,7,1"), [2], "an unknown entry ends the list");
        assert_eq!(hidden("0,0"), [1, 2], "a repeated entry empties it");
        assert_eq!(hidden("GPU-bbbb0002"), [1]);
    }

    #[test]
    fn device_preferences_parse() {
        let gpus = gpus();
        let check =
            |text: &str, want: DevicePreference| assert_eq!(parse_preference(text, &gpus), want, "{text}");
        check("auto", DevicePreference::Auto);
        check("cpu", DevicePreference::Cpu("cpu".into()));
        check("1", DevicePreference::Gpu(1));
        check("gpu:2", DevicePreference::Gpu(2));
        check("02:00.0", DevicePreference::Gpu(2));
        check("intel", DevicePreference::Gpu(0));
        check("4090", DevicePreference::Gpu(2));
        check("rtx 4090", DevicePreference::Gpu(2));
        check("9", DevicePreference::NoMatch("9".into()));
        check("GPU 1", DevicePreference::Gpu(1));
        check("gpu", DevicePreference::Gpu(0));
        check("gpu0x", DevicePreference::NoMatch("gpu0x".into()));
        check("nonsense", DevicePreference::NoMatch("nonsense".into()));
        let software = [Gpu { name: Some("llvmpipe".into()), kind: GpuType::Software, ..Gpu::default() }];
        assert_eq!(
            parse_preference("gpu", &software),
            DevicePreference::NoMatch("gpu".into()),
            "a software adapter is no GPU"
        );
        assert_eq!(parse_preference("LLVM", &software), DevicePreference::Gpu(0), "unless it is named");
        assert_eq!(parse_preference("0", &software), DevicePreference::Gpu(0));
    }

    #[test]
    fn malformed_preferences_are_rejected_without_hardware() {
        for text in ["gpu0x", "gpu:", "gpu:x", "GPU 1a", "gpu:-1", "-1", "+2", "???", "a\u{7}b", "::"] {
            assert!(malformed(text).is_some(), "{text:?}");
        }
        let gpus = gpus();
        for text in [
            "",
            "auto",
            "cpu",
            "gpu",
            "0",
            "gpu0",
            "gpu:0",
            "gpu 12",
            "4090",
            "02:00.0",
            "0000:02:00.0",
            "intel",
            "Radeon(TM) RX 7900",
            "rtx 4090",
            "gpu accelerator",
            "gpuforge",
            "nonsense",
            "Gerät",
        ] {
            assert_eq!(malformed(text), None, "{text:?}");
            parse_preference(text, &gpus);
        }
    }

    #[test]
    fn an_unknown_device_error_lists_the_devices() {
        let mut gpus = gpus();
        gpus[0].kind = GpuType::Integrated;
        gpus[2].kind = GpuType::Discrete;
        let asked = |text| super::check_preference(&gpus, false, Some(("GPUFORGE_DEVICE", text)));
        let unknown = asked("nonsense").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "GPUFORGE_DEVICE: \"nonsense\" names no device of this machine; there are cpu, 0 = UHD Graphics 770 \
             (integrated), 1 = RTX 3090, 2 = RTX 4090 (discrete)"
        );
        assert!(unknown.hint().contains("auto, cpu, gpu, a position"));
        let malformed = asked("gpu0x").unwrap_err().to_string();
        assert!(malformed.contains("\"gpu0x\" cannot name a device: only a whole number"), "{malformed}");
        assert!(asked("9").is_err() && asked("voodoo").is_err() && asked("\u{1b}[31m").is_err());
        for fine in ["auto", "cpu", "none", "gpu", "1", "nvidia", "4090", "01:00.0"] {
            assert_eq!(asked(fine), Ok(()), "{fine}");
        }
        assert_eq!(
            super::check_preference(&gpus, true, Some(("GPUFORGE_DEVICE", "nonsense"))),
            Ok(()),
            "the CPU asks for none"
        );
        assert_eq!(super::check_preference(&gpus, false, None), Ok(()));
        let software = [Gpu { name: Some("llvmpipe".into()), kind: GpuType::Software, ..Gpu::default() }];
        let none =
            super::check_preference(&software, false, Some(("--device", "gpu"))).unwrap_err().to_string();
        assert_eq!(
            none,
            "--device: no GPU is here, and a software adapter is none; there are cpu, 0 = llvmpipe (software)"
        );
        let none =
            super::check_preference(&[], false, Some(("setting device", "gpu"))).unwrap_err().to_string();
        assert!(none.starts_with("setting device: ") && none.contains("no GPU, only cpu"), "{none}");
    }

    #[test]
    fn an_explicit_preference_wins_and_an_unknown_device_warns() {
        let gpus = gpus();
        let scored = || crate::score::best(&gpus);
        let (best, ..) = choose_device(&gpus, scored(), None, Some(("GPUFORGE_DEVICE", "2")));
        assert_eq!(best.map(|b| b.index), Some(2));
        let (best, _, warning) = choose_device(&gpus, scored(), None, Some(("GPUFORGE_DEVICE", "voodoo")));
        assert!(best.is_some() && warning.is_some_and(|w| w.message.contains("voodoo")));
        let (best, why, _) =
            choose_device(&gpus, scored(), Some("GPUFORGE_CPU_ONLY"), Some(("GPUFORGE_DEVICE", "2")));
        assert!(best.is_none() && why.contains("GPUFORGE_CPU_ONLY"));
    }
}
