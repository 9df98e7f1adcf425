//! What does the table of `nvidia-smi` say? All generations, with MIG rows, lost GPUs and cut-off ends.

use super::{is_absent, lines_at, present, size_bytes};
use crate::{
    families,
    model::{Evidence, Gpu, GpuType, MigDevice, Report, Usable, Vendor, Warning},
    pci,
};

const KIND: &str = "nvidia-smi";

/// Which part of the output a line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Before,
    Gpus,
    Mig,
    Processes,
}

pub(crate) fn parse(text: &str) -> Option<Report> {
    let mut report = Report::of(KIND);
    let mut part = Part::Before;
    let mut recognised = false;
    let mut lost = Vec::new();
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if let Some(gpu) = lost_gpu(line, at) {
            recognised = true;
            lost.push(gpu);
        } else if let Some(warning) = failure(line) {
            recognised = true;
            report.warnings.push(warning);
        } else if line.starts_with('|') && line.contains("NVIDIA-SMI") {
            recognised = true;
            part = Part::Gpus;
            report.driver_version = after(line, &["Driver Version:", "KMD Version:"]);
            report.cuda_version = after(line, &["CUDA Version:", "CUDA UMD Version:"]);
        } else if line.starts_with('|') && line.contains("MIG devices:") {
            part = Part::Mig;
        } else if line.starts_with('|') && line.contains("Processes:") {
            part = Part::Processes;
        } else if let Some(row) = line.strip_prefix('|') {
            let cells: Vec<&str> = row.trim_end_matches('|').split('|').collect();
            match part {
                Part::Gpus => gpu_line(&mut report.gpus, &cells, at),
                Part::Mig => mig_line(&mut report.gpus, &cells),
                Part::Before | Part::Processes => {}
            }
        }
    }
    recognised.then(|| finish(report, lost))
}

/// The version behind the first of these labels.
fn after(line: &str, labels: &[&str]) -> Option<String> {
    let rest = labels.iter().find_map(|label| line.split_once(label))?.1;
    let word = rest.split_whitespace().next()?;
    let version = word.as_bytes().first().is_some_and(u8::is_ascii_digit);
    version.then(|| word.to_owned())
}

/// A line of the GPU part: the first of a row names the device, the others add to it.
fn gpu_line(gpus: &mut Vec<Gpu>, cells: &[&str], at: usize) {
    let [first, second, rest @ ..] = cells else { return };
    let mut words = first.split_whitespace();
    let index = words.next().and_then(|w| w.parse::<u32>().ok());
    let address = second.split_whitespace().next().unwrap_or("");
    let bus = pci::bus_id(address);
    // A row begins with an index and an address ("N/A" on Jetson). "30%" in the fan column does not parse.
    if let Some(index) = index
        && (bus.is_some() || is_absent(address))
        && !second.contains("iB")
    {
        gpus.push(new_gpu(index, words.collect(), bus, at));
    } else if let Some(gpu) = gpus.last_mut() {
        if gpu.memory_bytes.is_none()
            && let Some((_, total)) = second.split_once('/')
        {
            gpu.memory_bytes = size_bytes(total);
        }
        const BROKEN: [&str; 3] = ["GPU is lost", "Unknown Error", "ERR!"];
        if let Some(word) = BROKEN.iter().find(|word| second.contains(*word)) {
            gpu.error = Some((*word).to_owned());
        }
        match rest.last().map(|cell| cell.trim()) {
            Some("Enabled" | "Enabled*") => gpu.mig = Some("enabled".to_owned()),
            Some("Disabled" | "Disabled*") => gpu.mig = Some("disabled".to_owned()),
            _ => {}
        }
    }
}

/// A device from its first line; `words` are the name and the persistence or driver-model column.
fn new_gpu(index: u32, mut words: Vec<&str>, bus: Option<String>, at: usize) -> Gpu {
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    const LAST_COLUMN: [&str; 8] = ["On", "Off", "N/A", "WDDM", "TCC", "MCDM", "ERR!", "Disabled"];
    if words.len() > 1
        && let Some(last) = words.last().filter(|w| LAST_COLUMN.contains(w))
    {
        if matches!(*last, "WDDM" | "TCC" | "MCDM") {
            gpu.driver_model = Some((*last).to_owned());
        }
        words.pop();
    }
    let name = words.join(" ");
    gpu.name_truncated = name.ends_with("...") || name.ends_with("..");
    gpu.name = present(&name).map(str::to_owned);
    gpu.index = Some(index);
    gpu.bus_id = bus;
    gpu.at = at;
    gpu
}

/// `| 0  2  0  0 | 26MiB / 40448MiB | …` is a slice; the line below it is its BAR1 and has no numbers.
fn mig_line(gpus: &mut [Gpu], cells: &[&str]) {
    let [ids, usage, ..] = cells else { return };
    let ids: Vec<u32> = ids.split_whitespace().map_while(|w| w.parse().ok()).collect();
    let [gpu, gi, ci, index] = ids.as_slice() else { return };
    let Some(gpu) = gpus.iter_mut().find(|g| g.index == Some(*gpu)) else { return };
    let memory_bytes = usage.split_once('/').and_then(|(_, total)| size_bytes(total));
    gpu.mig_devices.push(MigDevice {
        gi: Some(*gi),
        ci: Some(*ci),
        index: Some(*index),
        memory_bytes,
        profile: None,
    });
}

/// `Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error`, also without index.
fn lost_gpu(line: &str, at: usize) -> Option<Gpu> {
    let rest = line.split_once("Unable to determine the device handle for")?.1.trim();
    let rest = rest.strip_prefix("GPU").unwrap_or(rest).trim_start();
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    let rest = match rest.split_once(": ") {
        Some((index, tail)) if index.parse::<u32>().is_ok() => {
            gpu.index = index.parse().ok();
            tail
        }
        _ => rest,
    };
    let (address, message) = rest.split_once(": ").unwrap_or((rest, ""));
    gpu.bus_id = pci::bus_id(address.trim_end_matches([':', '.']));
    let message = message.trim().trim_end_matches('.');
    gpu.error = Some(if message.is_empty() { "no device handle" } else { message }.to_owned());
    gpu.at = at;
    (gpu.bus_id.is_some() || gpu.index.is_some()).then_some(gpu)
}

/// What `nvidia-smi` prints instead of a table.
fn failure(line: &str) -> Option<Warning> {
    const ROWS: [(&str, &str); 4] = [
        (
            "NVIDIA-SMI has failed",
            "load the NVIDIA kernel module, or install the driver for the running kernel",
        ),
        (
            "Failed to initialize NVML",
            "the library and the kernel module differ: reboot, or reload the module",
        ),
        (
            "No devices were found",
            "check that the card is powered and bound to the nvidia driver (lspci -nnk)",
        ),
        ("couldn't communicate with the NVIDIA driver", "load the NVIDIA kernel module"),
    ];
    let (_, hint) = ROWS.iter().find(|(start, _)| line.contains(start))?;
    Some(Warning { source: KIND.to_owned(), message: line.to_owned(), hint: Some((*hint).to_owned()) })
}

/// Places lost devices by index, and fills what holds for all rows.
fn finish(mut report: Report, lost: Vec<Gpu>) -> Report {
    let start = report.gpus.first().or(lost.first()).map_or(0, |g| g.at);
    let any_lost = !lost.is_empty() || report.gpus.iter().any(|g| g.error.is_some());
    let named: Vec<Option<String>> = report.gpus.iter().map(|g| g.bus_id.clone()).collect();
    report.gpus.extend(lost.into_iter().filter(|l| l.bus_id.is_none() || !named.contains(&l.bus_id)));
    report.gpus.sort_by_key(|g| (g.index.is_none(), g.index, g.at));
    for (rank, gpu) in report.gpus.iter_mut().enumerate() {
        gpu.at = start + rank;
        gpu.driver_version.clone_from(&report.driver_version);
        gpu.apis.push("cuda".to_owned());
        gpu.kind = families::classify(gpu.vendor, gpu.name.as_deref(), None, None, None)
            .or(gpu.bus_id.as_ref().map(|_| GpuType::Discrete))
            .unwrap_or_default();
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        match gpu.error.clone() {
            Some(error) => gpu.judge(Usable::No, Evidence::Failed, format!("nvidia-smi: {error}")),
            None if any_lost => gpu.judge(
                Usable::Unknown,
                Evidence::Opened,
                "another GPU of this driver is lost; new processes may fail on all of them",
            ),
            None => gpu.judge(Usable::Yes, Evidence::Opened, "the NVIDIA driver lists it"),
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |
| N/A   31C    P0    53W / 400W |      0MiB / 40536MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
|   1  GRID V100-8Q        On   | 00000000:0F:00.0 Off |                  N/A |
| 30%   29C    P0    51W / 400W |    100MiB /  8192MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
";

    #[test]
    fn rows_become_gpus() {
        let report = parse(TWO).unwrap();
        assert_eq!(
            (report.driver_version.as_deref(), report.cuda_version.as_deref()),
            (Some("470.82.01"), Some("11.4"))
        );
        let [a, b] = report.gpus.as_slice() else { panic!("{:?}", report.gpus) };
        assert_eq!(a.name.as_deref(), Some("NVIDIA A100-SXM..."));
        assert!(a.name_truncated);
        assert_eq!(a.memory_bytes, Some(40536 << 20));
        assert_eq!(a.mig.as_deref(), Some("disabled"));
        assert_eq!((a.kind, a.usable_for_compute), (GpuType::Discrete, Usable::Yes));
        assert_eq!(b.bus_id.as_deref(), Some("0000:0f:00.0"));
        assert_eq!(b.kind, GpuType::Virtual);
    }

    #[test]
    fn the_oldest_header_has_no_cuda_version() {
        let text = "| NVIDIA-SMI 304.54   Driver Version: 304.54         |\n\
                    |  0  Tesla K20m       | 0000:02:00.0     Off |    0 |\n\
                    | N/A  29C  P8  25W / 225W |   0%   12MB / 4799MB |  0% Default |\n";
        let report = parse(text).unwrap();
        assert_eq!(report.cuda_version, None);
        assert_eq!(report.gpus[0].name.as_deref(), Some("Tesla K20m"));
        assert_eq!(report.gpus[0].memory_bytes, Some(4799 << 20));
    }

    #[test]
    fn a_lost_gpu_takes_its_place_and_its_neighbours_are_doubted() {
        let text = format!(
            "Unable to determine the device handle for GPU2: 0000:41:00.0: GPU is lost.  Reboot\n{TWO}"
        );
        let gpus = parse(&text).unwrap().gpus;
        assert_eq!(gpus.len(), 3);
        assert_eq!(
            (gpus[2].index, gpus[2].usable_for_compute, gpus[2].name.as_deref()),
            (Some(2), Usable::No, None)
        );
        assert_eq!(gpus[0].usable_for_compute, Usable::Unknown);
        let old = parse("Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.").unwrap();
        assert_eq!(old.gpus[0].bus_id.as_deref(), Some("0000:02:00.0"));
        let glued =
            parse("Unable to determine the device handle for GPU0000:02:00.0: Unknown Error").unwrap();
        assert_eq!(glued.gpus[0].bus_id.as_deref(), Some("0000:02:00.0"));
    }

    #[test]
    fn an_error_in_the_memory_cell_is_a_failed_gpu() {
        let text = TWO.replace("     0MiB / 40536MiB", " GPU is lost        ");
        let gpus = parse(&text).unwrap().gpus;
        assert_eq!((gpus[0].memory_bytes, gpus[0].usable_for_compute), (None, Usable::No));
    }

    #[test]
    fn mig_slices_belong_to_their_gpu() {
        let text = TWO.replace("Disabled", " Enabled")
            + "| MIG devices:        |\n|  0    1   0   0  |     11MiB / 20096MiB | 42  0 | 3 0 2 |\n|    |  0MiB / 32767MiB | | |\n";
        let gpu = &parse(&text).unwrap().gpus[0];
        assert_eq!(gpu.mig.as_deref(), Some("enabled"));
        assert_eq!(gpu.mig_devices.len(), 1);
        assert_eq!(gpu.mig_devices[0].memory_bytes, Some(20096 << 20));
    }

    #[test]
    fn failures_are_warnings_without_devices() {
        for text in [
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "No devices were found",
        ] {
            let report = parse(text).unwrap();
            assert!(report.gpus.is_empty() && report.warnings.len() == 1, "{text}");
        }
        assert_eq!(parse("nothing here"), None);
    }
}
