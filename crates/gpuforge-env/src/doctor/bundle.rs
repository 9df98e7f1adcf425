//! Doctor bundle: checks and host facts for a bug report, redacted.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{DoctorReport, Redactor, SystemView, check};

/// Version of the document.
const VERSION: u32 = 1;

/// The bundle document.
#[derive(Serialize)]
struct Bundle<'a> {
    version: u32,
    written_by: &'static str,
    os: Option<&'a str>,
    arch: &'static str,
    container: Option<&'a str>,
    wsl: Option<u8>,
    nvidia_driver: Option<&'a str>,
    gpus: Vec<BundleGpu<'a>>,
    frameworks: Vec<BundleFramework>,
    variables: BTreeMap<&'static str, &'a str>,
    report: &'a DoctorReport,
}

#[derive(Serialize)]
struct BundleGpu<'a> {
    name: &'a str,
    pci_id: Option<&'a str>,
    bus_id: Option<&'a str>,
    kernel_driver: Option<&'a str>,
    memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct BundleFramework {
    name: &'static str,
    version: String,
    build: String,
}

/// Builds the redacted bundle.
pub fn bundle(view: &SystemView, report: &DoctorReport) -> Result<Value, serde_json::Error> {
    let facts = view.host_facts();
    let gpus = facts.gpus.iter().map(|g| BundleGpu {
        name: g.display_name(),
        pci_id: g.pci_id.as_deref(),
        bus_id: g.bus_id.as_deref(),
        kernel_driver: g.kernel_driver.as_deref(),
        memory_bytes: g.memory_bytes,
    });
    let frameworks = check::installed(view).into_iter().map(|f| BundleFramework {
        name: f.name,
        version: f.version,
        build: f.build.to_string(),
    });
    let document = Bundle {
        version: VERSION,
        written_by: concat!("gpuforge ", env!("CARGO_PKG_VERSION")),
        os: facts.platform.os.as_deref(),
        arch: std::env::consts::ARCH,
        container: facts.platform.container.as_deref(),
        wsl: facts.platform.wsl,
        nvidia_driver: facts.nvidia.as_deref(),
        gpus: gpus.collect(),
        frameworks: frameworks.collect(),
        variables: check::REPORTED.iter().filter_map(|name| Some((*name, view.env(name)?))).collect(),
        report,
    };
    let mut document = Redactor::of(view).value(serde_json::to_value(document)?);
    // A WSL kernel release looks like an IP address; it is not personal.
    if let (Value::Object(map), Some(kernel)) = (&mut document, &facts.platform.kernel) {
        map.insert("kernel".to_owned(), Value::from(kernel.as_str()));
    }
    Ok(document)
}
