//! Checks `rosetta` and `metal`: Python's instruction set on Apple silicon, and whether Metal lists a GPU.

use gpuforge_detect::{
    model::{Gpu, Usable},
    parsers,
};

use super::python;
use crate::doctor::{Finding, Status, SystemView, TOOL_LIMIT, ToolOutput};

/// `rosetta`
pub(super) fn rosetta(view: &SystemView) -> Finding {
    let Some(macos) = view.macos() else { return Finding::skipped("not macOS") };
    let arch = macos.report().cpu.and_then(|cpu| cpu.arch);
    if arch.as_deref() != Some("aarch64") {
        return Finding::skipped("not Apple silicon");
    }
    let python = python::interpreter(view);
    let archs = python.as_deref().and_then(|p| view.head(p, HEADER)).map(|head| mach_o_archs(&head));
    let native = "uv python install cpython-3.12-macos-aarch64-none, or conda: CONDA_SUBDIR=osx-arm64 conda create -n native python=3.12";
    let python = match (python, archs.as_deref()) {
        (Some(path), Some([only])) if only == "x86_64" => {
            let said = format!("{path} is for x86-64 only: Rosetta translates it, and it has no MPS");
            Finding::new(Status::Error, said)
                .step(native)
                .step("make the environment again with that Python: wheels of x86-64 do not load in it")
        }
        (Some(path), Some(archs)) if archs.iter().any(|a| a == "arm64") => {
            Finding::healthy(format!("{path} is native (arm64)"))
        }
        // A shim or a script: what it starts is not known.
        (Some(path), _) => Finding::new(Status::Unknown, format!("{path} does not say for which CPU it is")),
        (None, _) => Finding::skipped("no Python is there"),
    };
    match macos.is_translated() {
        Some(true) => python.and(
            Finding::new(
                Status::Warning,
                "this shell or gpuforge itself runs through Rosetta: installers pick x86-64 builds",
            )
            .step("start a native shell: arch -arm64 zsh; switch off `Open using Rosetta` of the terminal"),
        ),
        _ => python,
    }
}

/// `metal`
pub(super) fn metal(view: &SystemView) -> Finding {
    let Some(macos) = view.macos() else { return Finding::skipped("not macOS") };
    let gpus = match &macos.metal {
        Some(_) => macos.report().gpus,
        // Metal itself would load the driver into this process; the tool asks it in another.
        None => match view.run_tool("/usr/sbin/system_profiler", &["SPDisplaysDataType"], TOOL_LIMIT) {
            ToolOutput::Exited { text, .. } => {
                parsers::reports(&text).into_iter().flat_map(|report| report.gpus).collect()
            }
            ToolOutput::TimedOut(limit) => {
                let said = format!("system_profiler did not answer within {} ms", limit.as_millis());
                return Finding::new(Status::Unknown, said);
            }
            ToolOutput::SpawnFailed(why) => {
                return Finding::new(Status::Unknown, format!("system_profiler {why}"));
            }
            ToolOutput::Disabled => return Finding::skipped("programs of this root are not run"),
        },
    };
    judge_metal(&gpus, view.host_facts().platform.hypervisor.is_some())
}

/// Pure over the GPUs that macOS lists.
fn judge_metal(gpus: &[Gpu], guest: bool) -> Finding {
    let usable: Vec<&str> =
        gpus.iter().filter(|g| g.usable_for_compute == Usable::Yes).map(Gpu::display_name).collect();
    match (usable.is_empty(), guest) {
        (false, _) => Finding::healthy(format!("Metal lists {}", usable.join(", "))),
        (true, true) => {
            Finding::new(Status::Warning, "a virtual machine without Metal: frameworks use the CPU")
                .step("run outside the virtual machine, or in one that offers a paravirtual GPU")
        }
        (true, false) => Finding::new(Status::Error, "Metal lists no GPU: frameworks use the CPU")
            .step("update macOS; a Mac before 2012 or a session without a window server has no Metal"),
    }
}

/// Bytes that hold the header of a Mach-O file, or the table of a universal one.
const HEADER: u64 = 4096;

/// Instruction sets of a Mach-O file, by its first bytes; empty where it is none.
fn mach_o_archs(head: &[u8]) -> Vec<String> {
    let word = |at: usize| -> Option<[u8; 4]> { head.get(at..at + 4)?.try_into().ok() };
    let name = |cpu: u32| match cpu {
        0x0100_0007 => "x86_64".to_owned(),
        0x0100_000c => "arm64".to_owned(),
        other => format!("cpu {other:#x}"),
    };
    match word(0) {
        Some([0xcf, 0xfa, 0xed, 0xfe]) => {
            word(4).map(|cpu| name(u32::from_le_bytes(cpu))).into_iter().collect()
        }
        // Universal: a count, then entries of 20 bytes (32 in the 64-bit form), all big-endian.
        Some([0xca, 0xfe, 0xba, kind @ (0xbe | 0xbf)]) => {
            let stride = if kind == 0xbe { 20 } else { 32 };
            let count = word(4).map_or(0, u32::from_be_bytes).min(16);
            let entry =
                |n: u32| word(8 + stride * usize::try_from(n).ok()?).map(|cpu| name(u32::from_be_bytes(cpu)));
            (0..count).map_while(entry).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_of_programs() {
        assert_eq!(mach_o_archs(&[0xcf, 0xfa, 0xed, 0xfe, 0x07, 0, 0, 1]), ["x86_64"]);
        assert_eq!(mach_o_archs(&[0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1]), ["arm64"]);
        let mut fat = vec![0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 2];
        for cpu in [0x0100_0007u32, 0x0100_000c] {
            fat.extend(cpu.to_be_bytes());
            fat.extend([0; 16]);
        }
        assert_eq!(mach_o_archs(&fat), ["x86_64", "arm64"]);
        assert_eq!(mach_o_archs(b"#!/bin/sh\n"), Vec::<String>::new());
        assert_eq!(mach_o_archs(&[0xca, 0xfe, 0xba, 0xbe]), Vec::<String>::new());
    }

    #[test]
    fn metal_by_the_gpus_that_are_listed() {
        let mut gpu = Gpu { name: Some("Apple M1".to_owned()), ..Gpu::default() };
        assert_eq!(judge_metal(std::slice::from_ref(&gpu), false).status, Status::Error);
        assert_eq!(judge_metal(&[], true).status, Status::Warning);
        gpu.usable_for_compute = Usable::Yes;
        assert_eq!(judge_metal(&[gpu], false).status, Status::Healthy);
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_panic(head in proptest::collection::vec(any::<u8>(), 0..64)) {
            mach_o_archs(&head);
        }
    }
}
