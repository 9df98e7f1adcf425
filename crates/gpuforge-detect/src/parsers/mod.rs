//! Parsers for pasted or captured tool output (`nvidia-smi`, `lspci`, `rocminfo`, …): one file per format.
//!
//! A parser looks for the distinctive lines of its format anywhere in the text and ignores the rest, so that several
//! outputs pasted together are all read, and prose, prompts and truncated ends do no harm. It returns `None` when it
//! recognises nothing. Arbitrary bytes never panic (tests/fuzz.rs).

use crate::model::{Evidence, Gpu, ProbeReport, Usable, Warning};

mod clinfo;
mod csv;
pub(crate) mod drm;
pub(crate) mod kfd;
mod lenient_json;
mod lspci;
mod normalise;
mod nvidia_list;
pub(crate) mod nvidia_proc;
mod nvidia_query;
mod nvidia_table;
mod nvidia_xml;
mod rocm_smi;
mod rocminfo;
mod sycl_ls;
pub(crate) mod sysctl;
mod system_profiler;
mod vulkaninfo;
mod win32;
mod xpu_smi;

pub(crate) use lspci::driver_usability;
pub use normalise::{decode, normalise};

/// A tool output format: one row, one file, one fixture directory.
pub struct ToolFormat {
    /// The stem of the file that parses it.
    pub name: &'static str,
    /// What produces it, for the help text.
    pub produced_by: &'static str,
    /// Parses it; `None` when the text does not contain it.
    pub parse: fn(&str) -> Option<ProbeReport>,
}

/// Every format, the most distinctive first.
pub const FORMATS: [ToolFormat; 18] = [
    ToolFormat { name: "nvidia_table", produced_by: "nvidia-smi", parse: nvidia_table::parse },
    ToolFormat { name: "nvidia_list", produced_by: "nvidia-smi -L", parse: nvidia_list::parse },
    ToolFormat { name: "nvidia_query", produced_by: "nvidia-smi -q", parse: nvidia_query::parse },
    ToolFormat { name: "nvidia_xml", produced_by: "nvidia-smi -q -x", parse: nvidia_xml::parse },
    ToolFormat {
        name: "nvidia_proc",
        produced_by: "/proc/driver/nvidia/{version,gpus/*/information}",
        parse: nvidia_proc::parse,
    },
    ToolFormat {
        name: "lspci",
        produced_by: "lspci, lspci -nn, lspci -nnk, lspci -mm, lspci -vmm",
        parse: lspci::parse,
    },
    ToolFormat { name: "rocm_smi", produced_by: "rocm-smi, rocm-smi -a --json", parse: rocm_smi::parse },
    ToolFormat { name: "rocminfo", produced_by: "rocminfo, rocm_agent_enumerator", parse: rocminfo::parse },
    ToolFormat { name: "kfd", produced_by: "/sys/class/kfd/kfd/topology/nodes/*", parse: kfd::parse },
    ToolFormat { name: "drm", produced_by: "/sys/class/drm/card*/device/*", parse: drm::parse },
    ToolFormat { name: "clinfo", produced_by: "clinfo -l", parse: clinfo::parse },
    ToolFormat { name: "vulkaninfo", produced_by: "vulkaninfo --summary", parse: vulkaninfo::parse },
    ToolFormat { name: "sycl_ls", produced_by: "sycl-ls", parse: sycl_ls::parse },
    ToolFormat { name: "xpu_smi", produced_by: "xpu-smi discovery", parse: xpu_smi::parse },
    ToolFormat {
        name: "system_profiler",
        produced_by: "system_profiler SPDisplaysDataType",
        parse: system_profiler::parse,
    },
    ToolFormat { name: "sysctl", produced_by: "sysctl hw machdep.cpu", parse: sysctl::parse },
    ToolFormat {
        name: "win32",
        produced_by: "Get-CimInstance Win32_VideoController | ConvertTo-Json",
        parse: win32::parse,
    },
    // Comma-separated lines without a header are the least distinctive: last.
    ToolFormat { name: "csv", produced_by: "nvidia-smi --query-gpu=… --format=csv", parse: csv::parse },
];

/// One report per format recognised in the text.
pub fn reports(text: &str) -> Vec<ProbeReport> {
    let text = normalise(text);
    let mut reports: Vec<ProbeReport> =
        FORMATS.iter().filter(|f| f.name != "csv").filter_map(|f| (f.parse)(&text)).collect();
    if let Some(report) = csv::parse(&text)
        && (csv::has_header(&text) || reports.is_empty() || csv::is_anchored(&report))
    {
        reports.push(report);
    }
    attach_lost_gpus(&mut reports);
    for report in &mut reports {
        truncate_devices(report);
    }
    reports
}

/// Max GPUs per report, more than any machine has: merging two reports is quadratic, and this bounds it for any input.
const MAX_GPUS: usize = 256;

/// Truncates an overlong device list, with a warning.
fn truncate_devices(report: &mut ProbeReport) {
    let listed = report.gpus.len();
    if listed > MAX_GPUS {
        report.gpus.truncate(MAX_GPUS);
        report.warnings.push(Warning {
            source: report.kind.clone(),
            message: format!("the text lists {listed} GPUs; the first {MAX_GPUS} are kept"),
            hint: Some("paste the output of one machine at a time".to_owned()),
        });
    }
}

/// Every mode of `nvidia-smi` prints lost GPUs first: they are moved into the report of that mode.
fn attach_lost_gpus(reports: &mut Vec<ProbeReport>) {
    let lost = reports.iter().position(nvidia_table::only_lost);
    let other = reports.iter().position(|r| r.kind.starts_with("nvidia-smi-") && !r.gpus.is_empty());
    if let (Some(lost), Some(other)) = (lost, other) {
        let taken =
            reports.get_mut(lost).map(|r| (std::mem::take(&mut r.gpus), std::mem::take(&mut r.warnings)));
        if let (Some((gpus, warnings)), Some(report)) = (taken, reports.get_mut(other)) {
            report.warnings.extend(warnings);
            nvidia_table::place_lost(report, gpus);
        }
        reports.remove(lost);
    }
}

/// A GPU whose administrator set the compute mode to "Prohibited" takes no work.
pub(crate) fn apply_compute_mode(gpu: &mut Gpu, mode: &str) {
    if mode == "Prohibited" {
        gpu.set_usability(
            Usable::No,
            Evidence::Failed,
            "its compute mode is set to Prohibited (nvidia-smi -c 0 allows it)",
        );
    }
}

/// Lines with the byte offset at which each begins.
pub(crate) fn lines_at(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |offset, line| {
        let at = *offset;
        *offset += line.len();
        Some((at, line.trim_end_matches(['\n', '\r'])))
    })
}

/// A size such as `8192MiB`, `12216.00 MiB`, `24 GB`, `1536 MB` in bytes. Binary multiples: every tool
/// here prints 1024-based figures, also where it writes MB.
pub(crate) fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split)?;
    let multiple: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "b" | "bytes" => 1,
        "kb" | "kib" => 1 << 10,
        "mb" | "mib" => 1 << 20,
        "gb" | "gib" => 1 << 30,
        "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let fraction: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
    whole.checked_mul(multiple)?.checked_add((fraction * multiple as f64) as u64)
}

/// NVIDIA's release in a Windows driver version: the last five digits, so `32.0.15.6094` is 560.94.
pub fn nvidia_release(version: &str) -> Option<String> {
    let parts: Vec<&str> = version.trim().split('.').collect();
    let [_, _, third, fourth] = parts.as_slice() else { return None };
    let digits = format!("{third}{fourth:0>4}");
    let last = digits.get(digits.len().checked_sub(5)?..)?;
    let (major, minor) = last.split_at_checked(3)?;
    let release = last.bytes().all(|b| b.is_ascii_digit()) && !major.starts_with('0');
    release.then(|| format!("{major}.{minor}"))
}

/// Is this cell a "no value" sentinel (`N/A`, `[Not Supported]`, …)?
pub(crate) fn is_absent(cell: &str) -> bool {
    let cell = cell.trim();
    let inner = cell.trim_start_matches('[').trim_end_matches(']');
    const WORDS: [&str; 9] = [
        "",
        "n/a",
        "not supported",
        "not available",
        "unknown error",
        "err!",
        "none",
        "gpu is lost",
        "insufficient permissions",
    ];
    WORDS.contains(&inner.to_ascii_lowercase().as_str())
        || inner.contains("deprecated")
        || inner == "GPU requires reset"
}

/// The cell, unless it is a "no value" sentinel.
pub(crate) fn present(cell: &str) -> Option<&str> {
    let cell = cell.trim();
    (!is_absent(cell)).then_some(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlong_list_is_truncated_with_a_warning() {
        let text: String = (0..300).map(|n| format!("GPU {n}: Tesla T4 (UUID: GPU-{n:08x}1)\n")).collect();
        let report = reports(&text).remove(0);
        assert_eq!((report.gpus.len(), report.warnings.len()), (MAX_GPUS, 1));
        assert!(report.warnings[0].message.contains("300 GPUs"));
    }

    #[test]
    fn nvidia_releases_in_windows_versions() {
        let check =
            |text: &str, want: Option<&str>| assert_eq!(nvidia_release(text).as_deref(), want, "{text}");
        check("32.0.15.6094", Some("560.94"));
        check("31.0.15.3598", Some("535.98"));
        check("27.21.14.5671", Some("456.71"));
        check("30.0.15.1179", Some("511.79"));
        check("32.0.15.8115", Some("581.15"));
        check("10.0.26100.1", None);
        check("560.94", None);
        check("1.2.x.y", None);
        check("", None);
    }

    #[test]
    fn sizes_and_sentinels() {
        assert_eq!(size_bytes("8192MiB"), Some(8_589_934_592));
        assert_eq!(size_bytes("12216.00 MiB"), Some(12_809_404_416));
        assert_eq!(size_bytes("1.5 GB"), Some(1_610_612_736));
        assert_eq!(size_bytes("99999999999999999999 MiB"), None);
        assert_eq!(size_bytes("18446744073709551615 TiB"), None);
        assert_eq!(size_bytes("12"), None);
        assert!(
            is_absent("[N/A]")
                && is_absent("[Requested functionality has been deprecated]")
                && !is_absent("0 %")
        );
    }
}
