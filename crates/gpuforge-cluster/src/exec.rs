//! `IndicatorExec`, the physical node: rows are grouped by symbol as they arrive and computed in groups that fit memory, on a
//! blocking thread.
//!
//! A partition has all rows of its symbols ([`Distribution::KeyPartitioned`]). Where the input is sorted by symbol and
//! time already, nothing is held but one group; else rows are gathered in memory, and where that does not fit the pool,
//! DataFusion's own sort takes over, which can use the disk. Rows leave in the order of symbol and time either way.

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
    engine,
    key_columns::bytes,
    session::batch_rows,
    spec::{Bound, Spec},
    symbol_groups::{ComputeTask, HashGrouper, SortedGrouper},
};

/// The least that is worth a group.
const MIN_GROUP: usize = 1 << 18;
/// Bytes of a group while a sort needs the memory, at most.
const GROUP_FROM_DISK: usize = 4 << 20;
/// The least that a sort through the disk and its group can do with.
const MIN_SORT: usize = 1 << 20;

/// The node of a physical plan that computes indicators.
#[derive(Debug)]
pub struct IndicatorExec {
    bound: Arc<Bound>,
    input: Arc<dyn ExecutionPlan>,
    /// Does the input come sorted by symbol and time?
    sorted: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndicatorExec {
    /// Computes `spec` from `input`.
    pub fn try_new(spec: &Spec, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let bound = Arc::new(Bound::new(spec, "the input", &input.schema())?);
        Self::over(bound, input)
    }

    fn over(bound: Arc<Bound>, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let order = order(&bound);
        let sorted = input.equivalence_properties().ordering_satisfy(order.clone())?;
        // Columns of the input keep their places, and so does what is said about them.
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

    /// Does the input come sorted by symbol and time, so that nothing is gathered?
    pub fn streams(&self) -> bool {
        self.sorted
    }
}

fn column(bound: &Bound, at: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(bound.name(at), at))
}

/// Symbol, then time; as `ORDER BY` means it.
fn order(bound: &Bound) -> Vec<PhysicalSortExpr> {
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
            return Ok(Arc::new(Self::over(self.bound.clone(), input)?));
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
        let feed = GroupFeeder {
            bound: self.bound.clone(),
            reservation: reservation.clone(),
            spilled: MetricBuilder::new(&self.metrics).counter("sorted_on_disk", partition),
            context: context.clone(),
        };
        let worker = ComputeWorker {
            bound: self.bound.clone(),
            exec_options: ExecOptions {
                threads: threads(self.properties.partitioning.partition_count()),
                ..ExecOptions::default()
            },
            rows: context.session_config().batch_size(),
            _held: reservation,
            metrics_of: ExecMetrics::new(&self.metrics, partition),
        };
        let mut both = RecordBatchReceiverStream::builder(self.schema(), 2);
        let (work, waiting) = channel(1);
        let (out, sorted) = (both.tx(), self.sorted);
        both.spawn(async move { feed.run(input, sorted, work).await });
        both.spawn_blocking(move || worker.run(waiting, &out));
        Ok(both.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Threads of one partition: all of them together use the CPU once.
fn threads(partitions: usize) -> usize {
    (ExecOptions::default().threads / partitions.max(1)).max(1)
}

/// Puts rows together.
struct GroupFeeder {
    bound: Arc<Bound>,
    /// Shared with the worker: rows count until the last of them is computed.
    reservation: Arc<MemoryReservation>,
    spilled: Count,
    context: Arc<TaskContext>,
}

impl GroupFeeder {
    async fn run(
        self,
        input: SendableRecordBatchStream,
        sorted: bool,
        work: Sender<ComputeTask>,
    ) -> Result<()> {
        let group = self.room(self.bound.spec.group());
        if sorted {
            self.ordered(input, group, work).await
        } else {
            self.group_in_memory(input, group, work).await
        }
    }

    /// Bytes of a group: at most so many, or as much less as the pool has.
    fn room(&self, most: usize) -> usize {
        let mut bytes = most.max(MIN_GROUP);
        while bytes > MIN_GROUP && self.reservation.try_grow(bytes).is_err() {
            bytes = (bytes / 2).max(MIN_GROUP);
        }
        if bytes < most && self.reservation.size() > MIN_GROUP {
            // Little memory: most of it is for rows that are gathered.
            let less = (bytes / 4).max(MIN_GROUP);
            self.reservation.shrink(bytes - less);
            bytes = less;
        }
        if self.reservation.size() == 0 {
            // A pool that has not even this much is told nevertheless: nothing can be computed with less.
            self.reservation.grow(bytes);
        }
        bytes
    }

    /// Everything in memory, or through the disk.
    async fn group_in_memory(
        self,
        mut input: SendableRecordBatchStream,
        group: usize,
        work: Sender<ComputeTask>,
    ) -> Result<()> {
        let mut group_in_memory = HashGrouper::default();
        let row = self.bound.row_bytes().max(1);
        while let Some(batch) = input.try_next().await? {
            let fits = self.reservation.try_grow(bytes(&batch)).is_ok();
            group_in_memory.push(&self.bound, batch)?;
            if !fits {
                return self.on_disk(group_in_memory, input, work).await;
            }
        }
        let largest = group_in_memory.largest().saturating_mul(row);
        if largest > group && self.reservation.try_grow(largest - group).is_err() {
            return self.on_disk(group_in_memory, input, work).await;
        }
        for group in group_in_memory.groups((group / row).max(1)) {
            if work.send(group).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// What was gathered does not fit: everything is sorted by symbol and time, with the disk's help.
    async fn on_disk(
        self,
        group_in_memory: HashGrouper,
        rest: SendableRecordBatchStream,
        work: Sender<ComputeTask>,
    ) -> Result<()> {
        self.spilled.add(1);
        let (group, context) = self.apart()?;
        let schema = rest.schema();
        let rows = context.session_config().batch_size();
        let all = futures::stream::iter(group_in_memory.into_batches().into_iter().map(Ok)).chain(rest);
        let all = all.flat_map(move |batch| futures::stream::iter(pieces(batch, rows)));
        let once =
            SingleStream::new(schema.clone(), Box::pin(RecordBatchStreamAdapter::new(schema.clone(), all)));
        let source = StreamingTableExec::try_new(schema, vec![Arc::new(once)], None, [], false, None)?;
        let keys = LexOrdering::new(order(&self.bound))
            .ok_or_else(|| DataFusionError::Internal("bars have no keys".to_owned()))?;
        let sorted = SortExec::new(keys, Arc::new(source)).execute(0, context)?;
        self.ordered(sorted, group, work).await
    }

    /// The memory that rows were gathered in, for a sort: a pool of its own, since sorts that share one take from each
    /// other what they need for merging. Also says how many bytes of it are left for a group.
    fn apart(&self) -> Result<(usize, Arc<TaskContext>)> {
        // A pool that has not even this much is told nevertheless: nothing can be sorted with less.
        self.reservation.grow(MIN_SORT.saturating_sub(self.reservation.size()));
        let all = self.reservation.size();
        let group = (all / 4).clamp(MIN_GROUP, GROUP_FROM_DISK);
        let sort = all - group;
        let config = self.context.session_config().clone();
        let merging = config.options().execution.sort_spill_reservation_bytes.min(sort / 4);
        let rows = batch_rows(sort, config.batch_size());
        // In place, rows would have to fit twice.
        let config = config.with_sort_spill_reservation_bytes(merging).with_sort_in_place_threshold_bytes(0);
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.context.runtime_env())
            .with_memory_pool(Arc::new(FairSpillPool::new(sort)))
            .build_arc()?;
        let context = TaskContext::default().with_session_config(config.with_batch_size(rows));
        Ok((group, Arc::new(context.with_runtime(runtime))))
    }

    /// Rows that come by symbol and time.
    async fn ordered(
        self,
        mut input: SendableRecordBatchStream,
        group: usize,
        work: Sender<ComputeTask>,
    ) -> Result<()> {
        let mut ordered = SortedGrouper::new(group);
        while let Some(batch) = input.try_next().await? {
            for next in ordered.push(&self.bound, &batch)? {
                if work.send(next).await.is_err() {
                    return Ok(());
                }
            }
        }
        if let Some(last) = ordered.flush() {
            let _ = work.send(last).await;
        }
        Ok(())
    }
}

/// Batches of at most so many rows: a sort takes a batch whole or not at all, and a slice counts as what it was cut from.
fn pieces(batch: Result<RecordBatch>, rows: usize) -> Vec<Result<RecordBatch>> {
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

/// Computes what is put together, on a thread of its own.
struct ComputeWorker {
    bound: Arc<Bound>,
    exec_options: ExecOptions,
    /// Rows of a batch that leaves.
    rows: usize,
    _held: Arc<MemoryReservation>,
    metrics_of: ExecMetrics,
}

impl ComputeWorker {
    fn run(self, mut waiting: Receiver<ComputeTask>, out: &Sender<Result<RecordBatch>>) -> Result<()> {
        let access = device::access(&self.bound.spec)?;
        let mut place = Executor::of(&self.bound, self.exec_options, &access)?;
        let mut parts: Option<StreamedSymbol<'_>> = None;
        while let Some(work) = waiting.blocking_recv() {
            let (batch, seconds) = match work {
                ComputeTask::Group(rows) => {
                    let (batch, lengths) = rows.assemble(&self.bound)?;
                    self.metrics_of.symbols.add(lengths.len());
                    compute::group(&self.bound, &batch, &lengths, self.exec_options, &mut place)?
                }
                ComputeTask::SymbolChunk { batch, first } => {
                    self.metrics_of.symbols.add(usize::from(first));
                    let parts = match (first, &mut parts) {
                        (false, Some(going)) => going,
                        (_, slot) => slot.insert(StreamedSymbol::new(&self.bound, self.exec_options)),
                    };
                    parts.next(&batch)?
                }
            };
            self.metrics_of.groups.add(1);
            self.metrics_of.compute.add_duration(std::time::Duration::from_secs_f64(seconds));
            if !self.put(&batch, out) {
                break;
            }
        }
        self.metrics_of.on_device.add(usize::try_from(place.on_device()).unwrap_or(usize::MAX));
        Ok(())
    }

    /// Hands rows over in batches of the usual size; `false` where nobody wants them any more.
    fn put(&self, batch: &RecordBatch, out: &Sender<Result<RecordBatch>>) -> bool {
        let all = batch.num_rows();
        (0..all).step_by(self.rows.max(1)).all(|from| {
            let some = batch.slice(from, self.rows.max(1).min(all - from));
            self.metrics_of.base.record_output(some.num_rows());
            out.blocking_send(Ok(some)).is_ok()
        })
    }
}

/// What `EXPLAIN ANALYZE` shows.
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

/// A stream that is there already, as the input of a node.
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
