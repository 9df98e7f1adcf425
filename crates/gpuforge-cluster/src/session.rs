//! Session context: node, table function, window functions and settings, the same in every process.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt as _;
use datafusion::{
    catalog::TableFunction,
    error::Result,
    execution::{
        SessionState, SessionStateBuilder,
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::{SessionConfig, SessionContext},
};

use crate::{
    codec::{LogicalCodec, PhysicalCodec},
    node::Planner,
    options::Options,
    table_function::IndicatorsFunction,
    window_functions,
};

/// Limits of a session.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Partitions per stage; `None` is one per core.
    pub partitions: Option<usize>,
    /// Memory pool size; operators spill beyond it.
    pub memory: Option<usize>,
}

/// Divisor of the memory that a sort reserves for merging spilled runs.
const SPILL_MERGE_FRACTION: usize = 16;
/// Partition memory per batch row: merging holds several batches of some hundred bytes per row.
const BYTES_PER_ROW: usize = 4096;
/// Minimum rows per batch.
const MIN_BATCH_ROWS: usize = 512;

/// Batch size such that several batches fit into `bytes`; at most `default`.
pub(crate) fn batch_rows(bytes: usize, default: usize) -> usize {
    (bytes / BYTES_PER_ROW).clamp(MIN_BATCH_ROWS, default.max(MIN_BATCH_ROWS))
}

/// Session config with our settings extension.
pub fn config(limits: &Limits) -> SessionConfig {
    let config = SessionConfig::new().with_information_schema(true).with_option_extension(Options::default());
    with_limits(config, limits)
}

fn with_limits(config: SessionConfig, limits: &Limits) -> SessionConfig {
    let config = match limits.partitions {
        Some(n) => config.with_target_partitions(n.max(1)),
        None => config,
    };
    match limits.memory {
        Some(bytes) => {
            let default = config.options().execution.sort_spill_reservation_bytes;
            let rows = batch_rows(bytes / config.target_partitions().max(1), config.batch_size());
            config
                .with_sort_spill_reservation_bytes(default.min(bytes / SPILL_MERGE_FRACTION))
                .with_batch_size(rows)
        }
        None => config,
    }
}

/// Session config for distributed plans: Ballista with our codecs.
pub fn distributed_config(limits: &Limits) -> SessionConfig {
    let ballista = SessionConfig::new_with_ballista().with_option_extension(Options::default());
    // No adaptive replanning: the partition count stays as requested.
    let config = ballista
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_logical_extension_codec(Arc::new(LogicalCodec::default()))
        .with_ballista_physical_extension_codec(Arc::new(PhysicalCodec::default()));
    with_limits(config, limits)
}

/// Runtime environment: memory pool, temporary files, object stores.
pub fn runtime(limits: &Limits) -> Result<Arc<RuntimeEnv>> {
    let builder = with_object_stores(RuntimeEnvBuilder::new());
    let builder = match limits.memory {
        Some(bytes) => builder.with_memory_pool(Arc::new(FairSpillPool::new(bytes))),
        None => builder,
    };
    builder.build_arc()
}

/// Adds the object stores compiled in.
pub(crate) fn with_object_stores(builder: RuntimeEnvBuilder) -> RuntimeEnvBuilder {
    #[cfg(feature = "s3")]
    let builder = builder.with_object_store_registry(Arc::new(crate::object_store::S3Registry::default()));
    builder
}

/// Session state with our planner and functions.
pub fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionState {
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_query_planner(Arc::new(Planner))
        .build();
    add_functions(&mut state);
    state
}

/// Session state of the scheduler: with Ballista's optimizer rules.
pub(crate) fn scheduler_state(config: SessionConfig) -> Result<SessionState> {
    let state = state(config.upgrade_for_ballista(), runtime(&Limits::default())?);
    let rules = ballista_core::optimizer::ballista_default_optimizer_rules();
    Ok(SessionStateBuilder::new_from_existing(state).with_optimizer_rules(rules).build())
}

/// Registers our functions in a state.
fn add_functions(state: &mut SessionState) {
    use datafusion::execution::FunctionRegistry as _;
    for function in window_functions::functions() {
        // Fails only for read-only registries.
        let _ = state.register_udwf(function);
    }
    state.register_udtf("indicators", Arc::new(IndicatorsFunction));
}

/// Registers our functions in a context; Ballista drops them when it prepares a remote session.
pub(crate) fn register_functions(context: &SessionContext) {
    for function in window_functions::functions() {
        context.register_udwf(function.as_ref().clone());
    }
    context.register_udtf("indicators", Arc::new(IndicatorsFunction));
}

/// Local session: DataFusion in this process, without a scheduler.
pub fn local(limits: &Limits) -> Result<SessionContext> {
    Ok(SessionContext::new_with_state(state(config(limits), runtime(limits)?)))
}

/// The table function, for function listings.
pub fn table_function() -> TableFunction {
    TableFunction::new("indicators".to_owned(), Arc::new(IndicatorsFunction))
}
