//! Build resolver: resolved builds for a table of hosts, and the compatibility rules.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use gpuforge_env::{
    compat::{self, Accelerator, Chip, CompatTable, HostSpec, Resolution, host_spec},
    data::{DataTable as _, TableSource},
};

/// A machine: `--for`, driver ("" = not known), platform ("" = the GPU's usual one).
fn host(table: &CompatTable, gpu: &str, driver: &str, platform: &str) -> HostSpec {
    let mut found = match gpu {
        "" => HostSpec { arch: "x86_64".to_owned(), ..HostSpec::default() },
        name => host_spec::named(table, name).unwrap_or_else(|e| panic!("{name}: {e}")),
    };
    found.driver = (!driver.is_empty()).then(|| driver.parse().unwrap());
    if !platform.is_empty() {
        found.set_platform(platform).unwrap();
    }
    found
}

fn resolution(gpu: &str, driver: &str, platform: &str, framework: &str, python: &str) -> Resolution {
    let table = compat::embedded();
    let machine = host(&table, gpu, driver, platform);
    let python = (!python.is_empty()).then(|| python.parse().unwrap());
    compat::resolve(&table, table.framework(framework).unwrap(), &machine, python.as_ref())
}

/// GPU, driver, platform, framework, Python asked for, and what comes out: release, build, Python, `*` = default index.
const MACHINES: [(&str, &str, &str, &str, &str, &str); 66] = [
    // Current NVIDIA cards by driver: 595 for CUDA 13.2, 580 for 13.0, 525 for 12.x.
    ("RTX 4090", "595.58.03", "", "pytorch", "", "2.15.0 cu132 3.12 *"),
    ("RTX 4090", "595.45.04", "", "pytorch", "", "2.15.0 cu132 3.12 *"),
    ("RTX 4090", "594.99", "", "pytorch", "", "2.15.0 cu130 3.12"),
    ("RTX 4090", "580.126.09", "", "pytorch", "", "2.15.0 cu130 3.12"),
    ("RTX 4090", "580.65.06", "", "pytorch", "", "2.15.0 cu130 3.12"),
    ("RTX 4090", "579.99", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("RTX 4090", "570.124.06", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("RTX 3060", "535.104.05", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("RTX 3060", "525.60.13", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("RTX 3060", "525.60.12", "", "pytorch", "", "2.7.1 cu118 3.12"),
    ("RTX 3060", "470.256.02", "", "pytorch", "", "2.7.1 cu118 3.12"),
    ("RTX 3060", "450.80.01", "", "pytorch", "", "2.15.0 cpu 3.12"),
    // A driver that nobody knows: the build that asks least of it.
    ("RTX 4090", "", "", "pytorch", "", "2.15.0 cu130 3.12"),
    ("H100", "580.95.05", "", "pytorch", "", "2.15.0 cu130 3.12"),
    ("T4", "610.43.02", "", "pytorch", "", "2.15.0 cu132 3.12 *"),
    // Below compute capability 7.5: CUDA 12.6, which ended with 2.14.1, whatever the driver.
    ("GTX 1080 Ti", "580.95.05", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("GTX 1080 Ti", "535.54.03", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("Tesla V100-SXM2-16GB", "580.82.07", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("P100", "580.82.07", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("GTX 970", "580.82.07", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("GTX 750 Ti", "550.54.14", "", "pytorch", "", "2.14.1 cu126 3.12"),
    ("GTX 1660", "580.82.07", "", "pytorch", "", "2.15.0 cu130 3.12"),
    ("K80", "470.256.02", "", "pytorch", "", "2.0.1 cu118 3.11"),
    ("K40", "470.256.02", "", "pytorch", "", "2.15.0 cpu 3.12"),
    // Blackwell: 2.7 and CUDA 12.8 at least.
    ("RTX 5090", "570.124.06", "", "pytorch", "", "2.11.0 cu128 3.12"),
    ("RTX 5090", "580.95.05", "", "pytorch", "", "2.15.0 cu130 3.12"),
    ("RTX 5090", "570.124.06", "", "pytorch", "3.9", "2.8.0 cu128 3.9 *"),
    ("B200", "595.58.03", "", "pytorch", "", "2.15.0 cu132 3.12 *"),
    ("RTX PRO 6000 Blackwell", "580.95.05", "windows-x86_64", "pytorch", "", "2.15.0 cu130 3.12"),
    ("GB10", "595.58.03", "", "pytorch", "", "2.15.0 cu132 3.12 *"),
    // Jetson modules.
    ("Orin", "540.4.0", "", "pytorch", "", "2.15.0 cpu 3.12"),
    ("Orin", "595.58.03", "", "pytorch", "", "2.15.0 cu132 3.12 *"),
    ("Xavier", "540.4.0", "", "pytorch", "", "2.15.0 cpu 3.12"),
    ("Jetson AGX Thor", "580.0", "", "pytorch", "", "2.15.0 cu130 3.12"),
    // Windows: the default index has no CUDA; WSL has the driver of Windows and the wheels of Linux.
    ("RTX 4090", "596.21", "windows-x86_64", "pytorch", "", "2.15.0 cu132 3.12"),
    ("RTX 3060", "528.33", "windows-x86_64", "pytorch", "", "2.14.1 cu126 3.12"),
    ("RTX 3060", "528.32", "windows-x86_64", "pytorch", "", "2.7.1 cu118 3.12"),
    ("RTX 3060", "528.32", "wsl", "pytorch", "", "2.7.1 cu118 3.12"),
    ("RTX 4070", "581.29", "wsl", "pytorch", "", "2.15.0 cu130 3.12"),
    ("", "", "windows-x86_64", "pytorch", "", "2.15.0 cpu 3.12 *"),
    ("", "", "linux-x86_64", "pytorch", "", "2.15.0 cpu 3.12"),
    // Python.
    ("RTX 4090", "595.58.03", "", "pytorch", "3.10", "2.14.1 cu130 3.10 *"),
    ("RTX 4090", "595.58.03", "", "pytorch", "3.15", "2.15.0 cu132 3.15 *"),
    ("RTX 4090", "595.58.03", "", "pytorch", "3.9", "2.8.0 cu128 3.9 *"),
    ("RTX 4090", "595.58.03", "", "pytorch", "3.12.7", "2.15.0 cu132 3.12 *"),
    // AMD.
    ("RX 7900 XTX", "", "", "pytorch", "", "2.13.0 rocm7.2 3.12"),
    ("MI300X", "", "", "pytorch", "", "2.13.0 rocm7.2 3.12"),
    ("RX 9070 XT", "", "", "pytorch", "3.9", "2.8.0 rocm6.4 3.9"),
    ("8060S", "", "", "pytorch", "", "2.13.0 rocm7.2 3.12"),
    ("RX 6700 XT", "", "", "pytorch", "", "2.15.0 cpu 3.12"),
    ("RX 7900 XTX", "", "windows-x86_64", "pytorch", "", "2.15.0 cpu 3.12 *"),
    // Intel: Xe only.
    ("Intel Arc A770", "", "", "pytorch", "", "2.15.0 xpu 3.12"),
    ("Intel Arc B580", "", "windows-x86_64", "pytorch", "", "2.15.0 xpu 3.12"),
    ("Intel UHD Graphics 770", "", "", "pytorch", "", "2.15.0 cpu 3.12"),
    // Apple.
    ("Apple M3 Max", "", "", "pytorch", "", "2.15.0 mps 3.12 *"),
    ("", "", "macos-x86_64", "pytorch", "", "2.2.2 cpu 3.12 *"),
    // TensorFlow: CUDA 12 only, Linux and WSL only.
    ("RTX 4090", "595.58.03", "", "tensorflow", "", "2.21.0 and-cuda 3.12 *"),
    ("GTX 1080", "535.54.03", "", "tensorflow", "", "2.21.0 and-cuda 3.12 *"),
    ("GTX 970", "580.82.07", "", "tensorflow", "", "2.16.2 and-cuda 3.12 *"),
    ("RTX 4090", "596.21", "windows-x86_64", "tensorflow", "", "2.21.0 cpu 3.12 *"),
    ("RTX 4090", "596.21", "wsl", "tensorflow", "", "2.21.0 and-cuda 3.12 *"),
    ("Apple M2", "", "", "tensorflow", "", "2.21.0 cpu 3.12 *"),
    // JAX: cuda13 from 7.5 and 580 on, cuda12 is the way out for the rest.
    ("RTX 4090", "580.95.05", "", "jax", "", "0.12.0.1 cuda13 3.12 *"),
    ("RTX 4090", "570.124.06", "", "jax", "", "0.12.0.1 cuda12 3.12 *"),
    ("V100", "580.95.05", "", "jax", "", "0.12.0.1 cuda12 3.12 *"),
    ("GTX 980", "580.95.05", "", "jax", "3.11", "0.10.2 cuda12 3.11 *"),
];

#[test]
fn hosts_resolve_to_the_expected_build() {
    let mut wrong = Vec::new();
    for (gpu, driver, platform, framework, python, want) in MACHINES {
        let found = resolution(gpu, driver, platform, framework, python);
        let best = found.candidates.first().map(|c| {
            let star = if c.index.is_none() { " *" } else { "" };
            format!("{} {} {}{star}", c.version, c.build, c.python)
        });
        if best.as_deref() != Some(want) {
            wrong.push(format!("{gpu} {driver} {platform} {framework} {python}: {best:?}, not {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_candidate_and_every_rejection_has_a_reason() {
    for (gpu, driver, platform, framework, python, _) in MACHINES {
        let found = resolution(gpu, driver, platform, framework, python);
        assert!(found.candidates.iter().all(|c| !c.reasons.is_empty()), "{gpu}");
        assert!(found.rejected.iter().all(|r| r.reason.len() > 10), "{gpu}: {:?}", found.rejected);
        // A GPU that is there and not used is explained.
        let best = &found.candidates[0];
        let unused = !gpu.is_empty() && best.accelerator == Accelerator::Cpu;
        assert!(!unused || !found.rejected.is_empty(), "{gpu} {driver} {platform} {framework}");
    }
}

fn reason(found: &Resolution, version: &str, build: &str) -> String {
    let named = |r: &&compat::Rejected| {
        r.version.as_ref().is_some_and(|v| v.to_string() == version) && r.build == build
    };
    found.rejected.iter().find(named).map(|r| r.reason.clone()).unwrap_or_default()
}

#[test]
fn rejections_say_what_is_missing() {
    let pascal = resolution("GTX 1080", "580.95.05", "", "pytorch", "");
    assert!(reason(&pascal, "2.15.0", "cu130").contains("no code for compute capability 6.1"));
    let old = resolution("RTX 4090", "535.54.03", "", "pytorch", "");
    assert_eq!(reason(&old, "2.15.0", "cu130"), "CUDA 13 needs driver 580 or newer; this one is 535.54.03");
    let python = resolution("RTX 4090", "595.58.03", "", "pytorch", "3.10");
    assert_eq!(reason(&python, "2.15.0", "cu132"), "has wheels for Python 3.11 to 3.15, not 3.10");
    let navi22 = resolution("RX 6700 XT", "", "", "pytorch", "");
    assert!(reason(&navi22, "2.13.0", "rocm7.2").contains("holds no code for gfx1031"));
    let blackwell = resolution("RTX 5090", "580.95.05", "", "pytorch", "");
    assert!(reason(&blackwell, "2.14.1", "cu126").contains("12.0"));
    let windows = resolution("RTX 4090", "596.21", "windows-x86_64", "tensorflow", "");
    assert!(windows.rejected[0].version.is_none() && windows.rejected[0].reason.contains("WSL 2"));
    let orin = resolution("Orin", "540.4.0", "", "pytorch", "");
    assert!(!reason(&orin, "2.14.1", "cu126").is_empty());
}

#[test]
fn rules_add_cautions_and_notes() {
    let said = |found: &Resolution, words: &str| {
        let best = &found.candidates[0];
        best.cautions.iter().chain(&best.notes).any(|line| line.contains(words))
    };
    // CUDA 13.2 below driver 595 stays on the list, behind 13.0, and says why.
    let r580 = resolution("RTX 4090", "580.126.09", "", "pytorch", "");
    let cu132 = r580.candidates.iter().find(|c| c.build == "cu132").unwrap();
    assert!(cu132.demoted && cu132.cautions[0].contains("595"));
    assert!(said(&resolution("RTX 4090", "596.21", "windows-x86_64", "pytorch", ""), "index line"));
    assert!(said(&resolution("RTX 5090", "595.58.03", "", "tensorflow", ""), "Blackwell"));
    assert!(said(&resolution("RTX 4090", "595.58.03", "", "tensorflow", ""), "no CUDA 13 build"));
    assert!(said(&resolution("RTX 4090", "580.95.05", "", "jax", ""), "LD_LIBRARY_PATH"));
    assert!(said(&resolution("RTX 4090", "581.29", "wsl", "jax", ""), "experimental"));
    assert!(said(&resolution("GTX 1080", "590.44.01", "", "pytorch", ""), "580 is the last"));
    assert!(said(&resolution("RTX 4090", "", "", "pytorch", ""), "the driver is not known"));
    // An old macOS gets the last wheels for it.
    let table = compat::embedded();
    let mut mac = host_spec::named(&table, "Apple M1").unwrap();
    mac.os_version = Some("13.6".parse().unwrap());
    let found = compat::resolve(&table, table.framework("torch").unwrap(), &mac, None);
    assert_eq!(found.candidates[0].version.to_string(), "2.11.0");
}

#[test]
fn unknown_values_reject_nothing() {
    let table = compat::embedded();
    let pytorch = table.framework("pytorch").unwrap();
    let mut machine = host(&table, "RTX 4090", "595.58.03", "");
    machine.gpu.as_mut().unwrap().target = None;
    let found = compat::resolve(&table, pytorch, &machine, None);
    assert_eq!(found.candidates[0].build, "cu132");
    assert!(found.candidates[0].cautions.iter().any(|c| c.contains("--compute-capability")));
    // A driver that only tells which CUDA it supports.
    let mut machine = host(&table, "RTX 4090", "", "");
    machine.cuda = Some("12.4".parse().unwrap());
    assert_eq!(compat::resolve(&table, pytorch, &machine, None).candidates[0].build, "cu126");
}

#[test]
fn a_second_gpu_without_code_is_a_caution() {
    let table = compat::embedded();
    let mut machine = host(&table, "RTX 4090", "595.58.03", "");
    machine.others = vec![Chip {
        name: "GTX 1060".to_owned(),
        target: Some("6.1".to_owned()),
        ..machine.gpu.clone().unwrap()
    }];
    let found = compat::resolve(&table, table.framework("pytorch").unwrap(), &machine, None);
    assert!(found.candidates[0].cautions.iter().any(|c| c.contains("GTX 1060")));
}

#[test]
fn discontinued_channels_are_never_named() {
    let text = include_str!("../data/compat.toml").to_owned() + include_str!("../data/profiles.toml");
    assert!(!text.contains("intel-extension") && !text.contains("ipex"));
    assert!(!text.contains("pytorch-cuda") && !text.contains("\"nvidia\" ]"));
}

#[test]
fn host_specs_from_inventories() {
    let table = compat::embedded();
    let of =
        |text: &str| host_spec::from_inventory(&table, &gpuforge_detect::from_text(text.as_bytes()).unwrap());
    let smi = of(
        "name, driver_version, memory.total [MiB], compute_cap\nNVIDIA GeForce GTX 1080 Ti, 580.95.05, 11264 MiB, 6.1\n",
    );
    let gpu = smi.gpu.clone().unwrap();
    assert_eq!((gpu.target.as_deref(), gpu.gib()), (Some("6.1"), Some(11.0)));
    assert_eq!(smi.driver.map(|d| d.to_string()).as_deref(), Some("580.95.05"));
    let lspci =
        of("01:00.0 VGA compatible controller: NVIDIA Corporation GA104 [GeForce RTX 3070] (rev a1)\n");
    assert_eq!(lspci.gpu.and_then(|g| g.target).as_deref(), Some("8.6"));
    let board =
        of("02:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)\n");
    assert!(board.gpu.is_none() && !board.notes.is_empty());
}

#[test]
fn unknown_hosts_are_rejected() {
    let table = compat::embedded();
    assert!(matches!(
        host_spec::named(&table, "rtx 409x"),
        Err(host_spec::HostSpecError::Gpu { nearest: Some(near), .. }) if near.starts_with("rtx 40")
    ));
    assert!(
        matches!(host_spec::named(&table, "aws:zz9"), Err(host_spec::HostSpecError::Cloud { known, .. }) if !known.is_empty())
    );
    assert!(HostSpec::default().set_platform("beos").is_err());
    assert_eq!(compat::nearest("pytroch", ["pytorch", "jax"]), Some("pytorch"));
}

#[test]
fn the_embedded_table_is_valid_and_broken_tables_are_not() {
    let loaded = compat::load(None);
    assert!(loaded.problem.is_none(), "{:?}", loaded.problem);
    assert_eq!(loaded.source, TableSource::Embedded);
    let good = include_str!("../data/compat.toml");
    let broken = [
        ("builds = [\"cu132\", \"cu130\", \"xpu\"", "builds = [\"cu999\", \"cu130\", \"xpu\"", "cu999"),
        ("python = [\"3.11\", \"3.15\"]", "python = [\"3.15\", \"3.11\"]", "newer than"),
        ("https://download", "http://download", "https"),
        ("id = \"tf-cuda-12\"", "id = \"jetson\"", "twice"),
        ("default_python = \"3.12\"\n", "", "default_python"),
        ("extra = \"and-cuda\"", "extra = \"and cuda; rm\"", "plain name"),
    ];
    for (from, to, says) in broken {
        assert!(good.contains(from), "{from}");
        let table: CompatTable = toml::from_str(&good.replacen(from, to, 1)).unwrap();
        let error = table.check().unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    assert!(toml::from_str::<CompatTable>("version = 1\nsurprise = 2").is_err());
}

#[test]
fn a_resolution_from_a_recalled_row_says_so() {
    let table = compat::embedded();
    let notes = |framework: &str, gpu: &str| {
        let mut machine = compat::host_spec::named(&table, gpu).unwrap();
        machine.driver = Some("595.58.03".parse().unwrap());
        let answer = compat::resolve(&table, table.framework(framework).unwrap(), &machine, None);
        answer.candidates[0].notes.join("; ")
    };
    assert!(notes("tensorflow", "T4").contains("remembered"));
    assert!(!notes("pytorch", "T4").contains("remembered"));
}
