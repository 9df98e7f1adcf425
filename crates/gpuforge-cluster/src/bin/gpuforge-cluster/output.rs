//! Output of query results: table, JSON, Parquet or CSV; cluster status in a few lines.

use std::{fmt::Write as _, fs::File, path::Path};

use anyhow::{Context as _, Result, bail};
use arrow::{array::RecordBatch, datatypes::SchemaRef, util::pretty::pretty_format_batches};
use gpuforge_cluster::{
    cluster::Status,
    dataset::{new_file, properties},
};
use parquet::arrow::ArrowWriter;

/// Rows printed at most.
pub(crate) const MAX_TABLE_ROWS: usize = 200;

/// Rows as a text table, truncated.
pub(crate) fn table(batches: &[RecordBatch]) -> Result<String> {
    let (mut head, mut left) = (Vec::new(), MAX_TABLE_ROWS);
    let all: usize = batches.iter().map(RecordBatch::num_rows).sum();
    for batch in batches {
        let n = batch.num_rows().min(left);
        left -= n;
        head.push(batch.slice(0, n));
    }
    let mut text = format!("{}\n", pretty_format_batches(&head)?);
    if all > MAX_TABLE_ROWS {
        let _ = writeln!(text, "the first {MAX_TABLE_ROWS} of {all} rows; -o FILE writes all of them");
    }
    Ok(text)
}

/// Rows as a JSON array.
pub(crate) fn json_rows(batches: &[RecordBatch]) -> Result<String> {
    let mut writer = arrow::json::ArrayWriter::new(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
    writer.finish()?;
    let text = String::from_utf8(writer.into_inner())?;
    Ok(if text.is_empty() { "[]\n".to_owned() } else { format!("{text}\n") })
}

/// Row writer with an atomic rename at the end.
pub(crate) struct RowSink {
    file: tempfile::NamedTempFile,
    to: std::path::PathBuf,
    writer: Format,
    rows: u64,
}

enum Format {
    Parquet(Box<ArrowWriter<File>>),
    Csv(Box<arrow::csv::Writer<File>>),
}

impl RowSink {
    pub(crate) fn create(path: &Path, schema: SchemaRef) -> Result<RowSink> {
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = new_file(".gpuforge-", ".tmp", directory);
        let file = file.with_context(|| format!("cannot write to {}", directory.display()))?;
        let to = file.as_file().try_clone()?;
        let writer = match path.extension().and_then(|e| e.to_str()) {
            Some("parquet") => {
                let properties = properties(&schema)?;
                Format::Parquet(Box::new(ArrowWriter::try_new(to, schema, Some(properties))?))
            }
            Some("csv") => Format::Csv(Box::new(arrow::csv::Writer::new(to))),
            _ => bail!("{}: unknown output format\n  hint: name it .parquet or .csv", path.display()),
        };
        Ok(RowSink { file, to: path.to_owned(), writer, rows: 0 })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        match &mut self.writer {
            Format::Parquet(writer) => writer.write(batch)?,
            Format::Csv(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Renames the file into place; returns the row count.
    pub(crate) fn finish(self) -> Result<u64> {
        if let Format::Parquet(writer) = self.writer {
            writer.close()?;
        }
        self.file.persist(&self.to).with_context(|| format!("cannot write {}", self.to.display()))?;
        Ok(self.rows)
    }
}

/// Cluster status as text.
pub(crate) fn status(status: &Status) -> String {
    let mut text = format!("scheduler {}: ", status.scheduler);
    let _ = match status.executors.len() {
        0 => writeln!(text, "no executors\nhint: gpuforge cluster executor --scheduler {}", status.scheduler),
        n => writeln!(text, "{n} executor{}", if n == 1 { "" } else { "s" }),
    };
    for worker in &status.executors {
        let slots = worker.specification.get("vcores").map(ToString::to_string);
        let _ =
            writeln!(text, "  {}:{}, {} tasks at once", worker.host, worker.port, slots.unwrap_or_default());
    }
    for job in &status.jobs {
        let part = |name: &str| job.get(name).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
        let _ = writeln!(text, "  job {}: {}", part("job_id"), part("job_status"));
    }
    text
}
