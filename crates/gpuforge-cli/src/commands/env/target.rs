//! Target machine of `gpuforge env`: this one (kernel files and cache, no GPU library), pasted text, or flags.

use std::{io::Read as _, path::Path};

use anyhow::{Context as _, Result};
use gpuforge::{
    env::compat::{Chip, CompatTable, HostSpec, HostSpecError, host_spec},
    hardware::{self, Inventory, model::Vendor},
};

use crate::{
    args::env::TargetArgs,
    context::{Context, env},
    error::Hinted,
    format::size,
};

/// Largest pasted text.
const PASTE_LIMIT: u64 = 64 << 20;

/// The target machine.
pub(crate) fn machine(target: &TargetArgs, table: &CompatTable, context: &Context) -> Result<HostSpec> {
    let mut found = match (&target.wanted, &target.from) {
        (Some(wanted), _) => host_spec::named(table, wanted).map_err(target_error)?,
        (None, Some(file)) => host_spec::from_inventory(table, &pasted(file)?),
        (None, None) => host_spec::from_inventory(table, &live(context)?),
    };
    if let Some(platform) = &target.platform {
        found.set_platform(platform).map_err(target_error)?;
    }
    if target.driver.is_some() {
        found.driver.clone_from(&target.driver);
    }
    if target.os_version.is_some() {
        found.os_version.clone_from(&target.os_version);
    }
    if let Some(capability) = &target.compute_capability {
        let vendor = if capability.starts_with("gfx") { Vendor::Amd } else { Vendor::Nvidia };
        let gpu = found.gpu.take().filter(|gpu| gpu.vendor == vendor);
        let name = format!("a GPU of {capability}");
        let gpu = gpu.unwrap_or(Chip { name, vendor, target: None, memory_bytes: None });
        found.gpu = Some(Chip { target: Some(capability.clone()), ..gpu });
        found.notes.clear();
    }
    if let (Some(gpu), Some(gib)) = (&mut found.gpu, target.gpu_memory) {
        gpu.memory_bytes = Some(u64::from(gib) << 30);
    }
    if target.cpu_only {
        return Ok(found.without_gpu("--cpu-only asks for the CPU"));
    }
    Ok(found)
}

/// This machine, from kernel files and the cache.
pub(crate) fn live(context: &Context) -> Result<Inventory> {
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    let mut options = gpuforge::detection::options(settings, &places, &env);
    options.tier0_only = true;
    Ok(hardware::detect(&options, &env))
}

fn pasted(file: &Path) -> Result<Inventory> {
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(PASTE_LIMIT + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|f| f.take(PASTE_LIMIT + 1).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("cannot read {}", file.display()))?;
    if bytes.len() as u64 > PASTE_LIMIT {
        let limit = format!("{} is larger than {}", file.display(), size(PASTE_LIMIT));
        return Err(Hinted::new(limit, "paste the output of one or a few tools").into());
    }
    hardware::from_text(&bytes).ok_or_else(|| {
        let what = format!("{} holds no output that gpuforge recognises", file.display());
        Hinted::new(what, "`gpuforge detect --help` lists what it reads").into()
    })
}

fn target_error(error: HostSpecError) -> anyhow::Error {
    let hint = match &error {
        HostSpecError::Gpu { nearest: Some(near), .. } => {
            format!("did you mean {near:?}? Or name what it is: --compute-capability 8.9")
        }
        HostSpecError::Gpu { nearest: None, .. } => "name what it is: --compute-capability 8.9".to_owned(),
        HostSpecError::Cloud { known, provider, .. } if known.is_empty() => {
            format!("{provider:?} is not known; aws: and gcp: are. Or name the GPU: --for 'RTX 4090'")
        }
        HostSpecError::Cloud { known, .. } => format!("types with a GPU: {}", known.join(", ")),
        HostSpecError::Platform(name) => {
            let names = host_spec::PLATFORMS.map(|(name, ..)| name);
            match gpuforge::env::compat::nearest(name, names) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("one of {}", names.join(", ")),
            }
        }
    };
    Hinted::usage(error.to_string(), hint).into()
}
