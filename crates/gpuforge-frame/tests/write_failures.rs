//! Writer failures: atomic replacement, full disks, symlinks and devices; nothing half-written is left behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

#[path = "write_common/mod.rs"]
mod common;

use common::{directory, layout, listed, names, walk};
use gpuforge_frame::{
    FrameError,
    write::{ColumnValues, FileFormat, WriteOptions, WriteSummary, Writer},
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

#[test]
fn dropped_writer_leaves_the_existing_file() {
    let directory = directory();
    for ending in ["parquet", "arrow", "csv"] {
        let path = directory.path().join(format!("x.{ending}"));
        let mut writer =
            Writer::create(&path, &layout(), &names(1), &WriteOptions::of(&path).unwrap()).unwrap();
        writer.write(None, &[1], &[ColumnValues::all(&[1.0])]).unwrap();
        drop(writer);
        assert!(listed(directory.path()).is_empty(), "{ending}");
    }
    let path = directory.path().join("old.csv");
    std::fs::write(&path, "precious").unwrap();
    drop(Writer::create(&path, &layout(), &names(1), &WriteOptions::new(FileFormat::Csv)).unwrap());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    Writer::create(&path, &layout(), &names(1), &WriteOptions::new(FileFormat::Csv))
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "ticker,Time,c0\n", "and is replaced in the end");
}

#[test]
fn directories_are_not_created() {
    let directory = directory();
    let path = directory.path().join("no/such/x.csv");
    let error = Writer::create(&path, &layout(), &names(1), &WriteOptions::new(FileFormat::Csv)).unwrap_err();
    assert!(matches!(error, FrameError::Io { doing: "create", .. }));
    let error = error.to_string();
    assert!(error.contains("no/such/x.csv") && error.contains("directories are not created"), "{error}");
    let error = Writer::create(directory.path(), &layout(), &names(1), &WriteOptions::new(FileFormat::Csv))
        .unwrap_err();
    assert!(error.to_string().contains("name a file in it"), "{error}");
}

#[cfg(unix)]
#[test]
fn symlinks_are_kept_and_permissions_are_default() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = directory();
    let (real, link, plain) = (
        directory.path().join("real.csv"),
        directory.path().join("link.csv"),
        directory.path().join("plain"),
    );
    std::fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    Writer::create(&link, &layout(), &[], &WriteOptions::new(FileFormat::Csv)).unwrap().finish().unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "ticker,Time\n");
    std::fs::write(&plain, "").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
    assert_eq!(mode(&real), mode(&plain));
}

/// A place that takes so many bytes and then is full.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::from_raw_os_error(28));
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
#[test]
fn full_target_is_reported_wherever_it_happens() {
    let rows = 4000;
    let times: Vec<i64> = (0..rows as i64).collect();
    let data = walk(rows, 1);
    for format in [FileFormat::Parquet, FileFormat::Ipc, FileFormat::Csv] {
        let options = WriteOptions { row_group: 1000, ..WriteOptions::new(format) };
        let attempt = |room: usize| -> Result<WriteSummary, FrameError> {
            let mut writer =
                Writer::over(Full(room), Path::new("full.disk"), &layout(), &names(2), &options)?;
            for _ in 0..2 {
                writer.write(None, &times, &[ColumnValues::all(&data), ColumnValues::all(&data)])?;
            }
            writer.finish()
        };
        let needed = attempt(usize::MAX).unwrap().bytes as usize;
        for room in [0, 1, 100, needed / 2, needed - 1] {
            match attempt(room) {
                Err(FrameError::Io { doing: "write", path, source }) => {
                    assert_eq!(path, Path::new("full.disk"));
                    assert_eq!(source.kind(), io::ErrorKind::StorageFull, "{format:?} after {room}");
                }
                other => panic!("{format:?} after {room}: {other:?}"),
            }
        }
        assert_eq!(attempt(needed).unwrap().rows, 2 * rows as u64);
        let said = attempt(needed / 2).unwrap_err().to_string();
        assert!(said.contains("full.disk") && said.contains("hint: free some space"), "{said}");
    }
}

#[test]
fn after_a_failure_nothing_can_be_finished() {
    let options = WriteOptions { row_group: 10, ..WriteOptions::new(FileFormat::Csv) };
    let mut writer = Writer::over(Full(50), Path::new("full.disk"), &layout(), &[], &options).unwrap();
    assert!(writer.write(None, &[1; 100], &[]).is_err());
    assert!(writer.write(None, &[1; 100], &[]).is_err());
    assert!(matches!(writer.finish(), Err(FrameError::Usage(_))));
}

/// What the child of the next test does; alone it does nothing.
#[test]
fn child_that_writes_a_large_file() {
    let Some(path) = std::env::var_os("FORGE_FRAME_TEST_OUTPUT").map(PathBuf::from) else { return };
    let data = walk(50_000, 1);
    let times = vec![0; data.len()];
    let options = WriteOptions { row_group: 10_000, ..WriteOptions::of(&path).unwrap() };
    let attempt = || -> Result<WriteSummary, FrameError> {
        let mut writer = Writer::create(&path, &layout(), &names(4), &options)?;
        writer.write(None, &times, &[ColumnValues::all(&data); 4])?;
        writer.finish()
    };
    println!("{}", attempt().unwrap_err());
}

#[cfg(unix)]
#[test]
fn full_disk_keeps_the_old_file() {
    for ending in ["parquet", "arrow", "csv"] {
        let directory = directory();
        let path = directory.path().join(format!("out.{ending}"));
        std::fs::write(&path, "old").unwrap();
        // With the signal ignored, a file beyond the limit is an error like a full disk; 100 blocks are 50 to 100 kB.
        let child = std::process::Command::new("sh")
            .args([
                "-c",
                "trap '' XFSZ; ulimit -f 100; exec \"$0\" --exact child_that_writes_a_large_file --nocapture",
            ])
            .arg(std::env::current_exe().unwrap())
            .env("FORGE_FRAME_TEST_OUTPUT", &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
        assert!(said.contains("cannot write") && said.contains(&format!("out.{ending}")), "{said}");
        assert!(said.contains("hint:") && said.contains("nothing half-written"), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(listed(directory.path()), [path]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_written_to_and_not_replaced() {
    let null = Path::new("/dev/null");
    let mut writer =
        Writer::create(null, &layout(), &names(1), &WriteOptions::new(FileFormat::Parquet)).unwrap();
    writer.write(None, &[1], &[ColumnValues::all(&[1.0])]).unwrap();
    assert!(writer.finish().unwrap().bytes > 100);
    assert!(!null.metadata().unwrap().is_file());
    let full =
        Writer::create(Path::new("/dev/full"), &layout(), &names(1), &WriteOptions::new(FileFormat::Csv))
            .unwrap();
    let error = full.finish().unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("free some space"), "{error}");
}
