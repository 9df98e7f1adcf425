//! `IndicatorExec`, the physical node: rows are grouped by symbol as they arrive and computed in groups that fit memory, on a
//! blocking thread.
//!
//! A partition has all rows of its symbols ([`Distribution::KeyPartitioned`]). Input sorted by symbol and time streams, one
//! group at a time; unsorted input is hash-grouped in memory, and beyond the memory pool DataFusion's external sort takes over.
//! Output is ordered by symbol and time either way.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use arrow::{
    array::{RecordBatch, UInt64Array},
    compute::{SortOptions, take_record_batch},
    datatypes::SchemaRef,
};
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    error::{DataFusionError, Result},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{FairSpillPool, MemoryConsumer, MemoryReservation},
        runtime_env::RuntimeEnvBuilder,
    },
    physical_expr::{
        Distribution, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr, expressions::Column,
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _,
        InputDistributionRequirements, PlanProperties,
        execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions},
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time},
        sorts::sort::SortExec,
        stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter},
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use futures::{StreamExt as _, TryStreamExt as _};
use gpuforge::indicators::exec::ExecOptions;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::{
    compute::{self, Executor, StreamedSymbol},
    device,
    key_columns::bytes,
    session::batch_rows,
    spec::{Bound, Spec},
    symbol_groups::{ComputeTask, HashGrouper, SortedGrouper},
};

/// Minimum bytes of a group.
const MIN_GROUP_BYTES: usize = 1 << 18;
/// Maximum bytes of a group while an external sort needs the memory.
const EXTERNAL_SORT_GROUP_BYTES: usize = 4 << 20;
/// Minimum memory of an external sort and its group.
const MIN_SORT_BYTES: usize = 1 << 20;

/// Physical node that computes indicators.
#[derive(Debug)]
pub struct IndicatorExec {
    bound: Arc<Bound>,
    input: Arc<dyn ExecutionPlan>,
    /// Whether the input is sorted by symbol and time.
    sorted: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndicatorExec {
    /// Computes `spec` from `input`.
    pub fn try_new(spec: &Spec, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let bound = Arc::new(Bound::new(spec, "the input", &input.schema())?);
        Self::with_bound(bound, input)
    }

    fn with_bound(bound: Arc<Bound>, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let order = sort_keys(&bound);
        let sorted = input.equivalence_properties().ordering_satisfy(order.clone())?;
        // Input columns keep their positions and their properties.
        let orders = EquivalenceProperties::new_with_orderings(bound.output.clone(), [order]);
        let properties = Arc::new(PlanProperties::new(
            orders,
            input.output_partitioning().clone(),
            if sorted { EmissionType::Incremental } else { EmissionType::Final },
            Boundedness::Bounded,
        ));
        Ok(IndicatorExec { bound, input, sorted, properties, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// What is computed.
    pub fn spec(&self) -> &Spec {
        &self.bound.spec
    }

    /// Whether the input is sorted by symbol and time, so that it streams without grouping.
    pub fn streams(&self) -> bool {
        self.sorted
    }
}

fn column(bound: &Bound, at: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(bound.name(at), at))
}

/// Sort keys: symbol, then time, with SQL's default options.
fn sort_keys(bound: &Bound) -> Vec<PhysicalSortExpr> {
    let options = SortOptions { descending: false, nulls_first: false };
    let keys = bound.symbol.into_iter().chain([bound.time]);
    keys.map(|at| PhysicalSortExpr::new(column(bound, at), options)).collect()
}

impl DisplayAs for IndicatorExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bound { spec, request, symbol, .. } = self.bound.as_ref();
        write!(
            f,
            "IndicatorExec: select=[{}], columns={}",
            spec.select.trim(),
            request.selection.columns.len()
        )?;
        if let Some(at) = symbol {
            write!(f, ", by={}", self.bound.name(*at))?;
        }
        write!(f, ", input={}", if self.sorted { "sorted" } else { "gathered" })
    }
}

impl ExecutionPlan for IndicatorExec {
    fn name(&self) -> &'static str {
        "IndicatorExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match self.bound.symbol {
            Some(at) => Distribution::KeyPartitioned(vec![column(&self.bound, at)]),
            None => Distribution::SinglePartition,
        }])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.sorted]
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
        let [input] = <[_; 1]>::try_from(children).map_err(|c| {
            DataFusionError::Internal(format!("IndicatorExec has one input, not {}", c.len()))
        })?;
        if input.schema() == self.bound.input {
            return Ok(Arc::new(Self::with_bound(self.bound.clone(), input)?));
        }
        Ok(Arc::new(Self::try_new(&self.bound.spec, input)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let consumer = MemoryConsumer::new(format!("IndicatorExec[{partition}]")).with_can_spill(true);
        let reservation = Arc::new(consumer.register(context.memory_pool()));
        let feeder = GroupFeeder {
            bound: self.bound.clone(),
            reservation: reservation.clone(),
            spill_count: MetricBuilder::new(&self.metrics).counter("sorted_on_disk", partition),
            context: context.clone(),
        };
        let worker = ComputeWorker {
            bound: self.bound.clone(),
            exec_options: ExecOptions {
                threads: threads(self.properties.partitioning.partition_count()),
                ..ExecOptions::default()
            },
            rows: context.session_config().batch_size(),
            _reservation: reservation,
            metrics: ExecMetrics::new(&self.metrics, partition),
        };
        let mut builder = RecordBatchReceiverStream::builder(self.schema(), 2);
        let (tasks, tasks_in) = channel(1);
        let (out, sorted) = (builder.tx(), self.sorted);
        builder.spawn(async move { feeder.run(input, sorted, tasks).await });
        builder.spawn_blocking(move || worker.run(tasks_in, &out));
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Threads per partition, so that all partitions together use each core once.
fn threads(partitions: usize) -> usize {
    (ExecOptions::default().threads / partitions.max(1)).max(1)
}

/// Groups input rows by symbol and sends groups to the worker.
struct GroupFeeder {
    bound: Arc<Bound>,
    /// Shared with the worker: memory stays reserved until the last row is computed.
    reservation: Arc<MemoryReservation>,
    spill_count: Count,
    context: Arc<TaskContext>,
}

impl GroupFeeder {
    async fn run(
        self,
        input: SendableRecordBatchStream,
        sorted: bool,
        tasks: Sender<ComputeTask>,
    ) -> Result<()> {
        let group = self.reserve_group(self.bound.spec.group());
        if sorted {
            self.group_sorted(input, group, tasks).await
        } else {
            self.group_in_memory(input, group, tasks).await
        }
    }

    /// Reserves memory for a group: up to `max_bytes`, halved while the pool refuses.
    fn reserve_group(&self, max_bytes: usize) -> usize {
        let mut bytes = max_bytes.max(MIN_GROUP_BYTES);
        while bytes > MIN_GROUP_BYTES && self.reservation.try_grow(bytes).is_err() {
            bytes = (bytes / 2).max(MIN_GROUP_BYTES);
        }
        if bytes < max_bytes && self.reservation.size() > MIN_GROUP_BYTES {
            // Little memory: keep most of it for grouped rows.
            let less = (bytes / 4).max(MIN_GROUP_BYTES);
            self.reservation.shrink(bytes - less);
            bytes = less;
        }
        if self.reservation.size() == 0 {
            // Reserve the minimum even if the pool is exhausted: nothing can be computed with less.
            self.reservation.grow(bytes);
        }
        bytes
    }

    /// Hash grouping in memory; falls back to an external sort.
    async fn group_in_memory(
        self,
        mut input: SendableRecordBatchStream,
        group: usize,
        tasks: Sender<ComputeTask>,
    ) -> Result<()> {
        let mut grouper = HashGrouper::default();
        let row = self.bound.row_bytes().max(1);
        while let Some(batch) = input.try_next().await? {
            let fits = self.reservation.try_grow(bytes(&batch)).is_ok();
            grouper.push(&self.bound, batch)?;
            if !fits {
                return self.external_sort(grouper, input, tasks).await;
            }
        }
        let largest = grouper.largest().saturating_mul(row);
        if largest > group && self.reservation.try_grow(largest - group).is_err() {
            return self.external_sort(grouper, input, tasks).await;
        }
        for group in grouper.groups((group / row).max(1)) {
            if tasks.send(group).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Memory exceeded: external sort by symbol and time, spilling to disk.
    async fn external_sort(
        self,
        grouper: HashGrouper,
        rest: SendableRecordBatchStream,
        tasks: Sender<ComputeTask>,
    ) -> Result<()> {
        self.spill_count.add(1);
        let (group, context) = self.sort_context()?;
        let schema = rest.schema();
        let rows = context.session_config().batch_size();
        let all = futures::stream::iter(grouper.into_batches().into_iter().map(Ok)).chain(rest);
        let all = all.flat_map(move |batch| futures::stream::iter(split_batch(batch, rows)));
        let once =
            SingleStream::new(schema.clone(), Box::pin(RecordBatchStreamAdapter::new(schema.clone(), all)));
        let source = StreamingTableExec::try_new(schema, vec![Arc::new(once)], None, [], false, None)?;
        let keys = LexOrdering::new(sort_keys(&self.bound))
            .ok_or_else(|| DataFusionError::Internal("bars have no keys".to_owned()))?;
        let sorted = SortExec::new(keys, Arc::new(source)).execute(0, context)?;
        self.group_sorted(sorted, group, tasks).await
    }

    /// Task context of the external sort: the memory of the grouped rows as a pool of its own, since sorts that share a pool
    /// starve each other's merges. Also returns the bytes left for a group.
    fn sort_context(&self) -> Result<(usize, Arc<TaskContext>)> {
        // Reserve the minimum even if the pool is exhausted: nothing can be sorted with less.
        self.reservation.grow(MIN_SORT_BYTES.saturating_sub(self.reservation.size()));
        let all = self.reservation.size();
        let group = (all / 4).clamp(MIN_GROUP_BYTES, EXTERNAL_SORT_GROUP_BYTES);
        let sort = all - group;
        let config = self.context.session_config().clone();
        let merging = config.options().execution.sort_spill_reservation_bytes.min(sort / 4);
        let rows = batch_rows(sort, config.batch_size());
        // An in-place sort would need the rows in memory twice.
        let config = config.with_sort_spill_reservation_bytes(merging).with_sort_in_place_threshold_bytes(0);
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.context.runtime_env())
            .with_memory_pool(Arc::new(FairSpillPool::new(sort)))
            .build_arc()?;
        let context = TaskContext::default().with_session_config(config.with_batch_size(rows));
        Ok((group, Arc::new(context.with_runtime(runtime))))
    }

    /// Run detection over rows sorted by symbol and time.
    async fn group_sorted(
        self,
        mut input: SendableRecordBatchStream,
        group: usize,
        tasks: Sender<ComputeTask>,
    ) -> Result<()> {
        let mut ordered = SortedGrouper::new(group);
        while let Some(batch) = input.try_next().await? {
            for next in ordered.push(&self.bound, &batch)? {
                if tasks.send(next).await.is_err() {
                    return Ok(());
                }
            }
        }
        if let Some(last) = ordered.flush() {
            let _ = tasks.send(last).await;
        }
        Ok(())
    }
}

/// Splits a batch into copies of at most `rows` rows: a sort reserves whole batches, and a slice counts as its parent buffer.
fn split_batch(batch: Result<RecordBatch>, rows: usize) -> Vec<Result<RecordBatch>> {
    match batch {
        Ok(batch) if batch.num_rows() > rows => {
            let starts = (0..batch.num_rows()).step_by(rows.max(1));
            let copy = |from: usize| {
                let to = (from + rows).min(batch.num_rows());
                let these = UInt64Array::from_iter_values(from as u64..to as u64);
                Ok(take_record_batch(&batch, &these)?)
            };
            starts.map(copy).collect()
        }
        whole => vec![whole],
    }
}

/// Computes groups on a blocking thread.
struct ComputeWorker {
    bound: Arc<Bound>,
    exec_options: ExecOptions,
    /// Rows per output batch.
    rows: usize,
    _reservation: Arc<MemoryReservation>,
    metrics: ExecMetrics,
}

impl ComputeWorker {
    fn run(self, mut tasks_in: Receiver<ComputeTask>, out: &Sender<Result<RecordBatch>>) -> Result<()> {
        let access = device::access(&self.bound.spec)?;
        let mut executor = Executor::of(&self.bound, self.exec_options, &access)?;
        let mut streamed: Option<StreamedSymbol<'_>> = None;
        while let Some(task) = tasks_in.blocking_recv() {
            let (batch, seconds) = match task {
                ComputeTask::Group(rows) => {
                    let (batch, lengths) = rows.assemble(&self.bound)?;
                    self.metrics.symbols.add(lengths.len());
                    compute::compute_group(&self.bound, &batch, &lengths, self.exec_options, &mut executor)?
                }
                ComputeTask::SymbolChunk { batch, first } => {
                    self.metrics.symbols.add(usize::from(first));
                    let streamed = match (first, &mut streamed) {
                        (false, Some(going)) => going,
                        (_, slot) => slot.insert(StreamedSymbol::new(&self.bound, self.exec_options)),
                    };
                    streamed.next(&batch)?
                }
            };
            self.metrics.groups.add(1);
            self.metrics.compute.add_duration(std::time::Duration::from_secs_f64(seconds));
            if !self.put(&batch, out) {
                break;
            }
        }
        self.metrics.on_device.add(usize::try_from(executor.on_device()).unwrap_or(usize::MAX));
        Ok(())
    }

    /// Sends output batches of the session's batch size; `false` if the receiver is gone.
    fn put(&self, batch: &RecordBatch, out: &Sender<Result<RecordBatch>>) -> bool {
        let all = batch.num_rows();
        (0..all).step_by(self.rows.max(1)).all(|from| {
            let some = batch.slice(from, self.rows.max(1).min(all - from));
            self.metrics.base.record_output(some.num_rows());
            out.blocking_send(Ok(some)).is_ok()
        })
    }
}

/// Metrics shown by `EXPLAIN ANALYZE`.
struct ExecMetrics {
    base: BaselineMetrics,
    symbols: Count,
    groups: Count,
    on_device: Count,
    compute: Time,
}

impl ExecMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        ExecMetrics {
            base: BaselineMetrics::new(metrics, partition),
            symbols: count("symbols"),
            groups: count("groups"),
            on_device: count("groups_on_device"),
            compute: MetricBuilder::new(metrics).subset_time("indicator_time", partition),
        }
    }
}

/// An existing stream as a one-shot partition source.
struct SingleStream {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl SingleStream {
    fn new(schema: SchemaRef, stream: SendableRecordBatchStream) -> Self {
        SingleStream { schema, stream: Mutex::new(Some(stream)) }
    }
}

impl fmt::Debug for SingleStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SingleStream")
    }
}

impl PartitionStream for SingleStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let taken = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.unwrap_or_else(|| {
            let twice = DataFusionError::Internal("a stream is read twice".to_owned());
            let said = futures::stream::once(async { Err(twice) });
            Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), said))
        })
    }
}
