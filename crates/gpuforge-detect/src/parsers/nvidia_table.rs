//! Parser for the `nvidia-smi` table: all driver generations, with MIG rows, lost GPUs and truncated ends.
//!
//! People paste it quoted, commented out, wrapped, with all spaces or all newlines collapsed, or without its bars;
//! [`rows`] normalises all of these to cells, and the cells mean the same in every generation.

use std::collections::{HashMap, HashSet};

use super::{apply_compute_mode, is_absent, lines_at, present, size_bytes};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, MigDevice, ProbeReport, Usable, Vendor, Warning},
    pci,
};

const KIND: &str = "nvidia-smi";

/// Max MIG slices, more than any GPU has; a text with more was not printed by nvidia-smi.
const MAX_MIG_SLICES: usize = 64;

/// The section of the output that a line belongs to.
#[derive(Clone, Copy, Default, PartialEq)]
enum TableSection {
    #[default]
    Before,
    Gpus,
    Mig,
    Processes,
}

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut table = Table { report: ProbeReport::of(KIND), ..Table::default() };
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if let Some(gpu) = lost_gpu(line, at) {
            table.recognised = true;
            if table.seen_lost.insert((gpu.index, gpu.bus_id.clone())) {
                table.lost.push(gpu);
            }
        } else if let Some(warning) = failure(line) {
            table.recognised = true;
            if table.seen_warnings.insert(warning.message.clone()) {
                table.report.warnings.push(warning);
            }
        }
    }
    rows(text, |at, cells| table.row(at, cells));
    table.recognised.then(|| {
        let mut report = table.report;
        place_lost(&mut report, table.lost);
        report
    })
}

/// The table as far as it was read.
#[derive(Default)]
struct Table {
    report: ProbeReport,
    section: TableSection,
    recognised: bool,
    /// Version in the header above the current row; two machines' tables may be pasted together.
    driver: Option<String>,
    /// How many headers were seen: `watch` and "before/after" pastes repeat the table.
    tables: usize,
    /// Device that the next lines belong to.
    current: Option<usize>,
    /// Device by address (or index) and name.
    known: HashMap<(String, Option<String>), (usize, usize)>,
    /// Device by index in the current table, for MIG rows.
    by_index: HashMap<u32, usize>,
    lost: Vec<Gpu>,
    seen_lost: HashSet<(Option<u32>, Option<String>)>,
    seen_warnings: HashSet<String>,
}

impl Table {
    fn row(&mut self, at: usize, cells: &[&str]) {
        let Some(first) = cells.first() else { return };
        if first.contains("NVIDIA-SMI") {
            self.recognised = true;
            self.section = TableSection::Gpus;
            self.tables += 1;
            self.current = None;
            self.by_index.clear();
            let line = cells.join(" ");
            self.driver = after(&line, &["Driver Version:", "KMD Version:"]);
            let cuda = after(&line, &["CUDA Version:", "CUDA UMD Version:"]);
            let report = &mut self.report;
            report.driver_version = report.driver_version.take().or_else(|| self.driver.clone());
            report.cuda_version = report.cuda_version.take().or(cuda);
        } else if first.contains("MIG devices:") {
            self.section = TableSection::Mig;
        } else if first.contains("rocesses:") {
            self.section = TableSection::Processes;
        } else {
            match self.section {
                TableSection::Gpus => self.gpu_row(at, cells),
                TableSection::Mig => self.mig_row(cells),
                // Somebody pasted the rows only: a full address and a name say enough.
                TableSection::Before if cells.get(1).is_some_and(|c| c.trim().matches(':').count() == 2) => {
                    self.gpu_row(at, cells);
                    if self.current.is_some() {
                        (self.recognised, self.section) = (true, TableSection::Gpus);
                    }
                }
                TableSection::Before | TableSection::Processes => {}
            }
        }
    }

    /// A line of the GPU section: the first of a row names the device, the others add to it.
    fn gpu_row(&mut self, at: usize, cells: &[&str]) {
        let [first, second, rest @ ..] = cells else { return };
        if let Some(mut gpu) = new_gpu(first, second, rest.is_empty(), at) {
            gpu.driver_version.clone_from(&self.driver);
            note_errors(&mut gpu, "", rest);
            self.place(gpu);
        } else if let Some(gpu) = self.current.and_then(|i| self.report.gpus.get_mut(i)) {
            if gpu.memory_bytes.is_none() {
                gpu.memory_bytes = total(second);
            }
            note_errors(gpu, second, rest);
            match rest.last().map(|cell| cell.trim()) {
                Some("Enabled" | "Enabled*") => gpu.mig = Some("enabled".to_owned()),
                Some("Disabled" | "Disabled*") => gpu.mig = Some("disabled".to_owned()),
                Some(cell) => apply_compute_mode(gpu, cell.split_whitespace().last().unwrap_or("")),
                None => {}
            }
        }
    }

    /// Adds a device, or returns to it when an earlier table listed it.
    fn place(&mut self, gpu: Gpu) {
        let index = gpu.index.unwrap_or_default();
        let spot = gpu.bus_id.clone().unwrap_or_else(|| index.to_string());
        let key = (spot, gpu.name.clone());
        let again = self.known.get(&key).filter(|(_, table)| gpu.bus_id.is_some() || *table < self.tables);
        let place = match again {
            Some((place, _)) => *place,
            None => {
                self.report.gpus.push(gpu);
                self.report.gpus.len() - 1
            }
        };
        self.known.insert(key, (place, self.tables));
        self.by_index.insert(index, place);
        self.current = Some(place);
    }

    /// `| 0  2  0  0 | 26MiB / 40448MiB | …` is a slice; the line below it is its BAR1 and has no numbers.
    fn mig_row(&mut self, cells: &[&str]) {
        let [ids, usage, ..] = cells else { return };
        let ids: Vec<u32> = ids.split_whitespace().map_while(|w| w.parse().ok()).collect();
        let [gpu, gi, ci, index] = ids.as_slice() else { return };
        let Some(gpu) = self.by_index.get(gpu).and_then(|i| self.report.gpus.get_mut(*i)) else { return };
        let slice = MigDevice {
            gi: Some(*gi),
            ci: Some(*ci),
            index: Some(*index),
            memory_bytes: total(usage),
            profile: None,
        };
        let known = gpu.mig_devices.iter().any(|s| (s.gi, s.ci) == (slice.gi, slice.ci));
        if !known && gpu.mig_devices.len() < MAX_MIG_SLICES {
            gpu.mig_devices.push(slice);
        }
    }
}

/// The version behind the first of these labels.
fn after(line: &str, labels: &[&str]) -> Option<String> {
    let rest = labels.iter().find_map(|label| line.split_once(label))?.1;
    let word = rest.split_whitespace().next()?.trim_end_matches('|');
    let version = word.as_bytes().first().is_some_and(u8::is_ascii_digit);
    version.then(|| word.to_owned())
}

/// The total of `26MiB / 40448MiB`, also behind the percentage that drivers before 319 print.
fn total(cell: &str) -> Option<u64> {
    let (_, total) = cell.split_once('/')?;
    size_bytes(total).or_else(|| size_bytes(total.split_whitespace().next()?))
}

/// A device from its first line; the first cell holds index, name and the persistence or driver-model column.
fn new_gpu(first: &str, second: &str, second_is_last: bool, at: usize) -> Option<Gpu> {
    let mut words = first.split_whitespace();
    // Drivers before 300 print "0.", which Markdown editors turn into "0\.".
    let index: u32 = words.next()?.trim_end_matches(['.', '\\']).parse().ok().filter(|i| *i < 1024)?;
    let mut words: Vec<&str> = words.collect();
    let address = second.split_whitespace().next().unwrap_or("");
    let bus = pci::bus_id(address);
    let memory = total(second).filter(|_| bus.is_none() && !words.is_empty());
    // A row begins with an index and an address ("N/A" on Jetson, cut off at the right edge of a screen); tables
    // shortened by hand may have the memory there. "30%" in the fan column does not parse as an index.
    let cut = second_is_last
        && !words.is_empty()
        && address.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
    if bus.is_none() && memory.is_none() && !cut && (!is_absent(address) || words.is_empty()) {
        return None;
    }
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    const LAST_COLUMN: [&str; 9] = ["On", "Off", "N/A", "WDDM", "TCC", "MCDM", "ERR!", "Disabled", "Enabled"];
    if words.len() > 1
        && let Some(last) = words.last().filter(|w| LAST_COLUMN.contains(w))
    {
        if matches!(*last, "WDDM" | "TCC" | "MCDM") {
            gpu.driver_model = Some((*last).to_owned());
        }
        words.pop();
    }
    let name = words.join(" ");
    if matches!(name.as_str(), "ERR!" | "Unknown Error") {
        gpu.error = Some(name.clone());
    }
    gpu.name_truncated = name.ends_with("..");
    gpu.name = present(&name).map(str::to_owned);
    gpu.index = Some(index);
    gpu.bus_id = bus;
    gpu.memory_bytes = memory;
    gpu.at = at;
    Some(gpu)
}

/// Errors of the device itself. "ERR!" in the fan or power column is only a failed sensor.
fn note_errors(gpu: &mut Gpu, memory: &str, rest: &[&str]) {
    const BROKEN: [&str; 4] = ["GPU is lost", "Unknown Error", "requires reset", "ERR!"];
    if let Some(word) = BROKEN.iter().find(|word| memory.contains(*word)) {
        gpu.error = Some((*word).to_owned());
    }
    match rest.first().map(|cell| cell.trim()) {
        Some("ERR!") => {
            let why = "nvidia-smi: ERR! where its ECC or MIG state should be";
            gpu.set_usability(Usable::Unknown, Evidence::Failed, why);
        }
        // Utilisation and compute mode share one cell.
        Some(cell) if cell.starts_with("ERR!") => gpu.error = Some("ERR!".to_owned()),
        _ => {}
    }
}

/// Calls `each` with the cells of every table row: wrapped lines joined, collapsed ones split, quoting stripped.
fn rows(text: &str, mut each: impl FnMut(usize, &[&str])) {
    let mut lines = lines_at(text).peekable();
    let mut bare = false;
    let mut joined = String::new();
    while let Some((at, line)) = lines.next() {
        let mut line = unquoted(line);
        if line.starts_with('|')
            && !line.ends_with('|')
            && let Some((_, next)) = lines.peek()
            && next.ends_with('|')
            && !unquoted(next).starts_with(['|', '+'])
        {
            joined.clear();
            join(&mut joined, line, next);
            line = &joined;
            lines.next();
        }
        let Some(row) = line.strip_prefix('|') else {
            // Rendered Markdown has no bars left.
            bare |= line.starts_with("NVIDIA-SMI ") && line.contains(" Version:");
            if bare && let Some(cells) = bare_cells(line) {
                each(at, &cells);
            }
            continue;
        };
        bare = false;
        let row = match row.rsplit_once('|') {
            Some((row, tail)) if !tail.contains(|c: char| c.is_ascii_alphanumeric()) => row,
            _ => row,
        };
        let cells: Vec<&str> = row.split('|').collect();
        if cells.len() > 6 {
            collapsed(at, &cells, &mut each);
        } else if !cells.iter().all(|c| is_rule(c)) {
            each(at, &cells);
        }
    }
}

/// The line without quoting: `> `, `# `, `// `, a string's quote mark, a backslash before the bar.
fn unquoted(line: &str) -> &str {
    let line = line.trim();
    // A page without newlines: the table begins somewhere in the line.
    if let Some(start) = line.find("| NVIDIA-SMI ").filter(|_| line.matches('|').count() > 6) {
        return line.get(start..).unwrap_or(line);
    }
    let Some(bar) = line.get(..line.len().min(12)).unwrap_or(line).find('|') else { return line };
    let quoting = line.bytes().take(bar).all(|b| b" \t>#/*'\"`\\;-".contains(&b));
    if quoting { line.get(bar..).unwrap_or(line) } else { line }
}

/// Two parts of a line that a terminal broke (anywhere) or an editor (between words).
fn join(into: &mut String, line: &str, next: &str) {
    let last = line.rsplit([' ', '|']).next().unwrap_or("");
    let first = next.trim_start().split([' ', '|']).next().unwrap_or("");
    let word = format!("{last}{first}");
    let number = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
    let broken_number = last.ends_with(number) && next.starts_with(number);
    let broken_word = broken_number || size_bytes(&word).is_some() || word == "Version:";
    into.push_str(line);
    into.push_str(if broken_word { "" } else { " " });
    into.push_str(next.trim());
}

/// A table rule (`+---+`) or empty.
fn is_rule(cell: &str) -> bool {
    cell.bytes().all(|b| b" -=+".contains(&b))
}

/// Cells of a line without bars: the address or the memory figure begins the second one.
fn bare_cells(line: &str) -> Option<Vec<&str>> {
    if line.contains("NVIDIA-SMI") || line.starts_with("Processes:") || line.starts_with("MIG devices:") {
        return Some(vec![line]);
    }
    let mut words = line.split(' ').scan(0, |at, word| {
        let start = *at;
        *at += word.len() + 1;
        Some((start, word))
    });
    let address = |word: &str| word.matches(':').count() == 2 && pci::bus_id(word).is_some();
    let (start, _) = words.find(|(_, w)| {
        address(w)
            || w.strip_suffix("iB")
                .and_then(|w| w.strip_suffix('M'))
                .is_some_and(|n| n.parse::<u64>().is_ok())
    })?;
    let (first, second) = line.split_at_checked(start)?;
    let total_end = second.match_indices("iB").nth(1).map_or(second.len(), |(at, _)| at + 2);
    let (second, rest) = if address(second.split(' ').next().unwrap_or("")) {
        (second, "")
    } else {
        second.split_at_checked(total_end)?
    };
    Some(if rest.is_empty() { vec![first, second] } else { vec![first, second, rest] })
}

/// A whole table in one line: rows are found around their address or memory cell.
fn collapsed(at: usize, cells: &[&str], each: &mut impl FnMut(usize, &[&str])) {
    let cells: Vec<&str> = cells.iter().copied().filter(|c| !is_rule(c)).collect();
    for (i, cell) in cells.iter().enumerate() {
        let heads = ["NVIDIA-SMI", "MIG devices:", "rocesses:"].iter().any(|head| cell.contains(head));
        if heads {
            each(at, &[cell]);
        } else if cell.split_whitespace().next().and_then(pci::bus_id).is_some() || cell.contains("iB /") {
            let from = i.saturating_sub(1);
            each(at, cells.get(from..(i + 2).min(cells.len())).unwrap_or(&[]));
        }
    }
}

/// `Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error`, also without index or address.
fn lost_gpu(line: &str, at: usize) -> Option<Gpu> {
    let rest = line.split_once("Unable to determine the device handle for")?.1.trim();
    let rest = rest.strip_prefix("GPU").or_else(|| rest.strip_prefix("gpu")).unwrap_or(rest).trim_start();
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    let rest = match rest.split_once(':') {
        Some((index, tail)) if index.len() < 4 && index.parse::<u32>().is_ok() => {
            gpu.index = index.parse().ok();
            tail.trim_start()
        }
        _ => rest,
    };
    // The address ends at its function digit; the message follows a colon.
    let end = rest.find('.').map_or(0, |dot| (dot + 2).min(rest.len()));
    let (address, message) = rest.split_at_checked(end).unwrap_or(("", rest));
    gpu.bus_id = pci::bus_id(address);
    let message = if gpu.bus_id.is_some() { message } else { rest };
    let message = message.trim_start_matches([':', ' ']);
    let message = message.split(". ").next().unwrap_or(message).trim_end_matches(['.', '`', ' ']);
    gpu.error = Some(if message.is_empty() { "no device handle" } else { message }.to_owned());
    gpu.at = at;
    (gpu.bus_id.is_some() || gpu.index.is_some()).then_some(gpu)
}

/// Error messages that `nvidia-smi` prints instead of a table.
fn failure(line: &str) -> Option<Warning> {
    const LOAD: &str = "load the NVIDIA kernel module, or install the driver for the running kernel";
    const INSTALL: &str = "install the NVIDIA driver, or mount its tools into the container";
    const ROWS: [(&str, &str); 12] = [
        ("has failed because it couldn't communicate with", LOAD),
        ("NVIDIA-SMI has failed", LOAD),
        (
            "NVML: Driver/library version mismatch",
            "the library and the kernel module differ: reboot, or reload the module",
        ),
        (
            "NVML: Insufficient Permissions",
            "give this user access to /dev/nvidia* (group video, container runtime)",
        ),
        (
            "NVML: GPU access blocked by the operating system",
            "update the Windows driver and WSL (wsl --update)",
        ),
        (
            "NVML: Unknown Error",
            "the container lost its devices, or the driver hangs: restart it, see the kernel log",
        ),
        ("Failed to initialize NVML:", LOAD),
        ("couldn't find libnvidia-ml.so", INSTALL),
        ("nvidia-smi: command not found", INSTALL),
        ("nvidia-smi: not found", INSTALL),
        ("'nvidia-smi' is not recognized", INSTALL),
        ("Command 'nvidia-smi' not found", INSTALL),
    ];
    const NONE_FOUND: &str = "No devices were found";
    let hint = match ROWS.iter().find(|(part, _)| line.contains(part)) {
        Some((_, hint)) => hint,
        // Other tools use these words inside sentences.
        None if line == NONE_FOUND => {
            "check that the card is powered and bound to the nvidia driver (lspci -nnk)"
        }
        None => return None,
    };
    let message: String = line.chars().take(200).collect();
    Some(Warning { source: KIND.to_owned(), message, hint: Some(hint.to_owned()) })
}

/// Does this report contain only lost GPUs? Every query mode prints them.
pub(super) fn only_lost(report: &ProbeReport) -> bool {
    report.kind == KIND
        && report.driver_version.is_none()
        && !report.gpus.is_empty()
        && report.gpus.iter().all(|g| g.error.is_some() && g.name.is_none())
}

/// Inserts lost devices by index among the listed ones, and sets the fields common to all.
pub(super) fn place_lost(report: &mut ProbeReport, lost: Vec<Gpu>) {
    let start = report.gpus.first().or(lost.first()).map_or(0, |g| g.at);
    let any_lost = !lost.is_empty() || report.gpus.iter().any(|g| g.error.is_some());
    let named: HashSet<Option<String>> = report.gpus.iter().map(|g| g.bus_id.clone()).collect();
    report.gpus.extend(lost.into_iter().filter(|l| l.bus_id.is_none() || !named.contains(&l.bus_id)));
    if any_lost {
        report.gpus.sort_by_key(|g| (g.index.is_none(), g.index, g.at));
    }
    for (rank, gpu) in report.gpus.iter_mut().enumerate() {
        if any_lost {
            gpu.at = start + rank;
        }
        gpu.driver_version = gpu.driver_version.take().or_else(|| report.driver_version.clone());
        if gpu.apis.is_empty() {
            gpu.apis.push("cuda".to_owned());
        }
        if gpu.kind == GpuType::Unknown {
            gpu.kind = classify::gpu_type(gpu.vendor, gpu.name.as_deref(), None, None, None)
                .or(gpu.bus_id.as_ref().map(|_| GpuType::Discrete))
                .unwrap_or_default();
        }
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        match gpu.error.clone() {
            Some(error) => gpu.set_usability(Usable::No, Evidence::Failed, format!("nvidia-smi: {error}")),
            None if any_lost => gpu.set_usability(
                Usable::Unknown,
                Evidence::Opened,
                "another GPU of this driver is lost; new processes may fail on all of them",
            ),
            None => gpu.set_usability(Usable::Yes, Evidence::Opened, "the NVIDIA driver lists it"),
        }
    }
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
    fn a_lost_gpu_is_inserted_by_index_and_the_others_become_unknown() {
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
