//! What does a bug report need? The checks and the facts behind them, with everything personal masked.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{Redactor, Report, View, check};

/// Version of the document.
const VERSION: u32 = 1;

/// What a report says about a machine.
#[derive(Serialize)]
struct Bundle<'a> {
    version: u32,
    written_by: &'static str,
    os: Option<&'a str>,
    arch: &'static str,
    container: Option<&'a str>,
    wsl: Option<u8>,
    nvidia_driver: Option<&'a str>,
    gpus: Vec<Gpu<'a>>,
    frameworks: Vec<Framework>,
    variables: BTreeMap<&'static str, &'a str>,
    report: &'a Report,
}

#[derive(Serialize)]
struct Gpu<'a> {
    name: &'a str,
    pci_id: Option<&'a str>,
    bus_id: Option<&'a str>,
    kernel_driver: Option<&'a str>,
    memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Framework {
    name: &'static str,
    version: String,
    build: String,
}

/// A report that can be shown to anybody.
pub fn bundle(view: &View, report: &Report) -> Result<Value, serde_json::Error> {
    let machine = view.machine();
    let gpus = machine.gpus.iter().map(|g| Gpu {
        name: g.display_name(),
        pci_id: g.pci_id.as_deref(),
        bus_id: g.bus_id.as_deref(),
        kernel_driver: g.kernel_driver.as_deref(),
        memory_bytes: g.memory_bytes,
    });
    let frameworks = check::installed(view).into_iter().map(|f| Framework {
        name: f.name,
        version: f.version,
        build: f.build.to_string(),
    });
    let document = Bundle {
        version: VERSION,
        written_by: concat!("gpuforge ", env!("CARGO_PKG_VERSION")),
        os: machine.host.os.as_deref(),
        arch: std::env::consts::ARCH,
        container: machine.host.container.as_deref(),
        wsl: machine.host.wsl,
        nvidia_driver: machine.nvidia.as_deref(),
        gpus: gpus.collect(),
        frameworks: frameworks.collect(),
        variables: check::SEEN.iter().filter_map(|name| Some((*name, view.env(name)?))).collect(),
        report,
    };
    let mut document = Redactor::of(view).value(serde_json::to_value(document)?);
    // A kernel's release has the form of an address on WSL; it names nobody.
    if let (Value::Object(map), Some(kernel)) = (&mut document, &machine.host.kernel) {
        map.insert("kernel".to_owned(), Value::from(kernel.as_str()));
    }
    Ok(document)
}
