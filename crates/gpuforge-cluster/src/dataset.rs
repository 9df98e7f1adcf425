//! Distributed dataset writer: each partition writes its own file into a shared directory.
//!
//! A task may run twice (its executor died, its result was lost), so the directory listing does not count: a task returns the
//! path of its finished file as a row, and only files in the result of the whole query become part of the dataset
//! ([`Staging::publish`]).

use std::{
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray as _, RecordBatch, StringArray, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type},
};
use datafusion::{
    common::{DFSchema, DFSchemaRef, tree_node::TreeNodeRecursion},
    dataframe::DataFrame,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
        execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions},
        stream::RecordBatchReceiverStream,
    },
};
use futures::TryStreamExt as _;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
    schema::types::ColumnPath,
};
use tempfile::TempDir;

/// Prefix of the staging directory for unpublished files.
const STAGING_PREFIX: &str = ".staging-";

/// Dataset write errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The directory already contains Parquet files.
    #[error("{} already has {files} Parquet files\n  hint: name an empty or new directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// How many.
        files: usize,
    },
    /// A file written by an executor is not visible here.
    #[error(
        "{} was written by an executor and is not visible here\n  hint: executors and this machine must share the \
         directory (NFS, a mounted store); name one that they share",
        path.display()
    )]
    NotVisible {
        /// The file.
        path: PathBuf,
    },
    /// I/O failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> DatasetError {
    move |source| DatasetError::Io { doing, path: path.to_owned(), source }
}

/// A file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DatasetFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
}

/// Staging directory of a dataset that is being written.
pub struct Staging {
    out: PathBuf,
    dir: TempDir,
}

impl Staging {
    /// Creates the output directory and the staging directory inside it.
    pub fn new(out: &Path) -> Result<Staging, DatasetError> {
        std::fs::create_dir_all(out).map_err(io("create", out))?;
        let out = out.canonicalize().map_err(io("find", out))?;
        let there = std::fs::read_dir(&out).map_err(io("read", &out))?;
        let parquet = |e: &std::fs::DirEntry| e.path().extension().is_some_and(|x| x == "parquet");
        let files = there.filter_map(Result::ok).filter(parquet).count();
        if files > 0 {
            return Err(DatasetError::NotEmpty { path: out, files });
        }
        let dir = TempDir::with_prefix_in(STAGING_PREFIX, &out).map_err(io("write to", &out))?;
        Ok(Staging { out, dir })
    }

    /// A query that writes the frame here; its rows list the files written.
    pub fn write(&self, frame: DataFrame) -> Result<DataFrame> {
        let (state, plan) = frame.into_parts();
        let node = DatasetNode::try_new(self.dir.path().display().to_string(), plan)?;
        Ok(DataFrame::new(state, LogicalPlan::Extension(Extension { node: Arc::new(node) })))
    }

    /// Publishes the files that the query's rows list; all others are removed.
    pub fn publish(self, rows: &[RecordBatch]) -> Result<Vec<DatasetFile>, DatasetError> {
        let mut named: Vec<DatasetFile> = rows.iter().flat_map(files_of).collect();
        named.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some(lost) = named.iter().find(|p| !p.path.is_file()) {
            return Err(DatasetError::NotVisible { path: lost.path.clone() });
        }
        let mut all = Vec::new();
        for (at, part) in named.into_iter().enumerate() {
            let path = self.out.join(format!("part-{at:05}.parquet"));
            std::fs::rename(&part.path, &path).map_err(io("write", &path))?;
            all.push(DatasetFile { path, ..part });
        }
        Ok(all)
    }
}

fn files_of(batch: &RecordBatch) -> Vec<DatasetFile> {
    let (Some(paths), Some(rows)) = (
        batch.column_by_name("path").and_then(|c| c.as_string_opt::<i32>().cloned()),
        batch.column_by_name("rows").and_then(|c| c.as_primitive_opt::<UInt64Type>().cloned()),
    ) else {
        return Vec::new();
    };
    let entries = paths.iter().flatten().zip(rows.values());
    entries.map(|(path, rows)| DatasetFile { path: PathBuf::from(path), rows: *rows }).collect()
}

fn schema() -> SchemaRef {
    let field = |name: &str, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![field("path", DataType::Utf8), field("rows", DataType::UInt64)]))
}

/// Logical node that writes every input partition to a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatasetNode {
    dir: String,
    input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
}

impl DatasetNode {
    /// Into this directory.
    pub fn try_new(dir: String, input: LogicalPlan) -> Result<Self> {
        let schema = Arc::new(DFSchema::try_from(schema())?);
        Ok(DatasetNode { dir, input: Arc::new(input), schema })
    }

    /// The directory.
    pub fn dir(&self) -> &str {
        &self.dir
    }
}

impl PartialOrd for DatasetNode {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.dir.partial_cmp(&other.dir)
    }
}

impl UserDefinedLogicalNodeCore for DatasetNode {
    fn name(&self) -> &'static str {
        "Dataset"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dataset: {}", self.dir)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.into_iter().next();
        let input = input.ok_or_else(|| DataFusionError::Internal("Dataset without an input".to_owned()))?;
        Self::try_new(self.dir.clone(), input)
    }

    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

/// Physical node that writes every partition to a file.
#[derive(Debug)]
pub struct DatasetExec {
    dir: String,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl DatasetExec {
    /// Into this directory.
    pub fn new(dir: String, input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema()),
            datafusion::physical_plan::Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        DatasetExec { dir, input, properties }
    }

    /// The directory.
    pub fn dir(&self) -> &str {
        &self.dir
    }
}

impl DisplayAs for DatasetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatasetExec: {}", self.dir)
    }
}

impl ExecutionPlan for DatasetExec {
    fn name(&self) -> &'static str {
        "DatasetExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // Repartitioning would split symbols.
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children)
            .map_err(|c| DataFusionError::Internal(format!("DatasetExec has one input, not {}", c.len())))?;
        Ok(Arc::new(DatasetExec::new(self.dir.clone(), input)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context)?;
        let (columns, dir) = (self.input.schema(), PathBuf::from(&self.dir));
        let mut builder = RecordBatchReceiverStream::builder(schema(), 1);
        let (rows, mut receiver) = tokio::sync::mpsc::channel::<RecordBatch>(2);
        let (input_done, finished) = tokio::sync::oneshot::channel::<()>();
        let out = builder.tx();
        builder.spawn(async move {
            while let Some(batch) = input.try_next().await? {
                if rows.send(batch).await.is_err() {
                    return Ok(());
                }
            }
            // Only a complete input makes a file.
            let _ = input_done.send(());
            Ok(())
        });
        builder.spawn_blocking(move || {
            let mut sink = None;
            while let Some(batch) = receiver.blocking_recv() {
                sink.get_or_insert(RowSink::create(&dir, &columns))
                    .as_mut()
                    .map_err(to_execution_error)?
                    .write(&batch)?;
            }
            if finished.blocking_recv().is_ok()
                && let Some(sink) = sink
            {
                let _ = out.blocking_send(Ok(sink?.finish()?));
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

fn to_execution_error(error: &mut DataFusionError) -> DataFusionError {
    DataFusionError::Execution(error.to_string())
}

/// Parquet writer properties: byte stream split for floats (exponents repeat, values do not) and light zstd compression; the
/// same as `gpuforge indicators` writes.
pub fn properties(columns: &Schema) -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(1)?;
    let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
    for field in columns.fields().iter().filter(|f| f.data_type().is_floating()) {
        let path = ColumnPath::from(field.name().as_str());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
            .set_column_encoding(path, Encoding::BYTE_STREAM_SPLIT);
    }
    Ok(properties.build())
}

/// Temporary file with the default permissions of a new file, removed unless kept.
pub fn new_file(prefix: &str, suffix: &str, directory: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(suffix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Subject to the umask, as for any new file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
}

/// Parquet writer whose file is removed unless finished.
struct RowSink {
    file: tempfile::NamedTempFile,
    writer: ArrowWriter<File>,
    rows: u64,
}

impl RowSink {
    fn create(dir: &Path, columns: &SchemaRef) -> Result<RowSink> {
        let lost = |source| DataFusionError::External(Box::new(io("write to", dir)(source)));
        let file = new_file("part-", ".parquet", dir).map_err(lost)?;
        let writer =
            ArrowWriter::try_new(file.as_file().try_clone()?, columns.clone(), Some(properties(columns)?))?;
        Ok(RowSink { file, writer, rows: 0 })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        Ok(self.writer.write(batch)?)
    }

    fn finish(self) -> Result<RecordBatch> {
        self.writer.close()?;
        let (_, path) = self.file.keep().map_err(|e| DataFusionError::IoError(e.error))?;
        let path: ArrayRef = Arc::new(StringArray::from(vec![path.display().to_string()]));
        let rows: ArrayRef = Arc::new(UInt64Array::from(vec![self.rows]));
        Ok(RecordBatch::try_new(schema(), vec![path, rows])?)
    }
}
