//! How do bars of a partition become columns? Rows are put together by symbol while they arrive, and computed as many
//! symbols at once as fit, on a thread beside.
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
use gpuforge::indicators::exec::How;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::{
    compute::{self, Parts, Place},
    engine,
    groups::{Gather, Ordered, Work},
    rows::bytes,
    session::batch_rows,
    spec::{Bound, Spec},
};

/// The least that is worth a group.
const LEAST_GROUP: usize = 1 << 18;
/// Bytes of a group while a sort needs the memory, at most.
const GROUP_FROM_DISK: usize = 4 << 20;
/// The least that a sort through the disk and its group can do with.
const LEAST_SORT: usize = 1 << 20;

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
        let feed = Feed {
            bound: self.bound.clone(),
            reservation: reservation.clone(),
            spilled: MetricBuilder::new(&self.metrics).counter("sorted_on_disk", partition),
            context: context.clone(),
        };
        let seat = Seat {
            bound: self.bound.clone(),
            how: How { threads: threads(self.properties.partitioning.partition_count()), ..How::default() },
            rows: context.session_config().batch_size(),
            _held: reservation,
            told: Told::new(&self.metrics, partition),
        };
        let mut both = RecordBatchReceiverStream::builder(self.schema(), 2);
        let (work, waiting) = channel(1);
        let (out, sorted) = (both.tx(), self.sorted);
        both.spawn(async move { feed.run(input, sorted, work).await });
        both.spawn_blocking(move || seat.run(waiting, &out));
        Ok(both.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Threads of one partition: all of them together use the processor once.
fn threads(partitions: usize) -> usize {
    (How::default().threads / partitions.max(1)).max(1)
}

/// Puts rows together.
struct Feed {
    bound: Arc<Bound>,
    /// Shared with the seat: rows count until the last of them is computed.
    reservation: Arc<MemoryReservation>,
    spilled: Count,
    context: Arc<TaskContext>,
}

impl Feed {
    async fn run(self, input: SendableRecordBatchStream, sorted: bool, work: Sender<Work>) -> Result<()> {
        let group = self.room(self.bound.spec.group());
        if sorted { self.ordered(input, group, work).await } else { self.gather(input, group, work).await }
    }

    /// Bytes of a group: at most so many, or as much less as the pool has.
    fn room(&self, most: usize) -> usize {
        let mut bytes = most.max(LEAST_GROUP);
        while bytes > LEAST_GROUP && self.reservation.try_grow(bytes).is_err() {
            bytes = (bytes / 2).max(LEAST_GROUP);
        }
        if bytes < most && self.reservation.size() > LEAST_GROUP {
            // Little memory: most of it is for rows that are gathered.
            let less = (bytes / 4).max(LEAST_GROUP);
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
    async fn gather(
        self,
        mut input: SendableRecordBatchStream,
        group: usize,
        work: Sender<Work>,
    ) -> Result<()> {
        let mut gather = Gather::default();
        let row = self.bound.row_bytes().max(1);
        while let Some(batch) = input.try_next().await? {
            let fits = self.reservation.try_grow(bytes(&batch)).is_ok();
            gather.push(&self.bound, batch)?;
            if !fits {
                return self.on_disk(gather, input, work).await;
            }
        }
        let largest = gather.largest().saturating_mul(row);
        if largest > group && self.reservation.try_grow(largest - group).is_err() {
            return self.on_disk(gather, input, work).await;
        }
        for group in gather.groups((group / row).max(1)) {
            if work.send(group).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// What was gathered does not fit: everything is sorted by symbol and time, with the disk's help.
    async fn on_disk(
        self,
        gather: Gather,
        rest: SendableRecordBatchStream,
        work: Sender<Work>,
    ) -> Result<()> {
        self.spilled.add(1);
        let (group, context) = self.apart()?;
        let schema = rest.schema();
        let rows = context.session_config().batch_size();
        let all = futures::stream::iter(gather.give_up().into_iter().map(Ok)).chain(rest);
        let all = all.flat_map(move |batch| futures::stream::iter(pieces(batch, rows)));
        let once = Once::new(schema.clone(), Box::pin(RecordBatchStreamAdapter::new(schema.clone(), all)));
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
        self.reservation.grow(LEAST_SORT.saturating_sub(self.reservation.size()));
        let all = self.reservation.size();
        let group = (all / 4).clamp(LEAST_GROUP, GROUP_FROM_DISK);
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
        work: Sender<Work>,
    ) -> Result<()> {
        let mut ordered = Ordered::new(group);
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
struct Seat {
    bound: Arc<Bound>,
    how: How,
    /// Rows of a batch that leaves.
    rows: usize,
    _held: Arc<MemoryReservation>,
    told: Told,
}

impl Seat {
    fn run(self, mut waiting: Receiver<Work>, out: &Sender<Result<RecordBatch>>) -> Result<()> {
        let access = engine::access(&self.bound.spec)?;
        let mut place = Place::of(&self.bound, self.how, &access)?;
        let mut parts: Option<Parts<'_>> = None;
        while let Some(work) = waiting.blocking_recv() {
            let (batch, seconds) = match work {
                Work::Group(rows) => {
                    let (batch, lengths) = rows.assemble(&self.bound)?;
                    self.told.symbols.add(lengths.len());
                    compute::group(&self.bound, &batch, &lengths, self.how, &mut place)?
                }
                Work::Part { batch, first } => {
                    self.told.symbols.add(usize::from(first));
                    let parts = match (first, &mut parts) {
                        (false, Some(going)) => going,
                        (_, slot) => slot.insert(Parts::new(&self.bound, self.how)),
                    };
                    parts.next(&batch)?
                }
            };
            self.told.groups.add(1);
            self.told.compute.add_duration(std::time::Duration::from_secs_f64(seconds));
            if !self.put(&batch, out) {
                break;
            }
        }
        self.told.on_device.add(usize::try_from(place.on_device()).unwrap_or(usize::MAX));
        Ok(())
    }

    /// Hands rows over in batches of the usual size; `false` where nobody wants them any more.
    fn put(&self, batch: &RecordBatch, out: &Sender<Result<RecordBatch>>) -> bool {
        let all = batch.num_rows();
        (0..all).step_by(self.rows.max(1)).all(|from| {
            let some = batch.slice(from, self.rows.max(1).min(all - from));
            self.told.base.record_output(some.num_rows());
            out.blocking_send(Ok(some)).is_ok()
        })
    }
}

/// What `EXPLAIN ANALYZE` shows.
struct Told {
    base: BaselineMetrics,
    symbols: Count,
    groups: Count,
    on_device: Count,
    compute: Time,
}

impl Told {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Told {
            base: BaselineMetrics::new(metrics, partition),
            symbols: count("symbols"),
            groups: count("groups"),
            on_device: count("groups_on_device"),
            compute: MetricBuilder::new(metrics).subset_time("indicator_time", partition),
        }
    }
}

/// A stream that is there already, as the input of a node.
struct Once {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl Once {
    fn new(schema: SchemaRef, stream: SendableRecordBatchStream) -> Self {
        Once { schema, stream: Mutex::new(Some(stream)) }
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl PartitionStream for Once {
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
