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

/// How a session runs.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Partitions of every step; `None` is one per core.
    pub partitions: Option<usize>,
    /// Bytes that operators may hold together; what does not fit goes to the disk.
    pub memory: Option<usize>,
}

/// Share of the memory that a sort keeps back for merging what it has put on the disk.
const MERGING: usize = 16;
/// Bytes of memory of a partition per row of a batch: merging holds several batches of some hundred bytes a row.
const PER_ROW: usize = 4096;
/// Fewest rows of a batch, however little memory there is.
const FEWEST: usize = 512;

/// Rows of a batch, of which several fit into so many bytes; never more than usual.
pub(crate) fn batch_rows(bytes: usize, usual: usize) -> usize {
    (bytes / PER_ROW).clamp(FEWEST, usual.max(FEWEST))
}

/// Settings with ours among them.
pub fn config(limits: &Limits) -> SessionConfig {
    let config = SessionConfig::new().with_information_schema(true).with_option_extension(Options::default());
    limited(config, limits)
}

fn limited(config: SessionConfig, limits: &Limits) -> SessionConfig {
    let config = match limits.partitions {
        Some(n) => config.with_target_partitions(n.max(1)),
        None => config,
    };
    match limits.memory {
        Some(bytes) => {
            let usual = config.options().execution.sort_spill_reservation_bytes;
            let rows = batch_rows(bytes / config.target_partitions().max(1), config.batch_size());
            config.with_sort_spill_reservation_bytes(usual.min(bytes / MERGING)).with_batch_size(rows)
        }
        None => config,
    }
}

/// Settings of a session whose plans travel.
pub fn travelling(limits: &Limits) -> SessionConfig {
    let ballista = SessionConfig::new_with_ballista().with_option_extension(Options::default());
    // Nothing of these plans is to be adapted, and partitions stay as many as were asked for.
    let config = ballista
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_logical_extension_codec(Arc::new(LogicalCodec::default()))
        .with_ballista_physical_extension_codec(Arc::new(PhysicalCodec::default()));
    limited(config, limits)
}

/// Memory and temporary files of a session.
pub fn runtime(limits: &Limits) -> Result<Arc<RuntimeEnv>> {
    let builder = stored(RuntimeEnvBuilder::new());
    let builder = match limits.memory {
        Some(bytes) => builder.with_memory_pool(Arc::new(FairSpillPool::new(bytes))),
        None => builder,
    };
    builder.build_arc()
}

/// With the stores that this program was built for.
pub(crate) fn stored(builder: RuntimeEnvBuilder) -> RuntimeEnvBuilder {
    #[cfg(feature = "s3")]
    let builder = builder.with_object_store_registry(Arc::new(crate::object_store::Stores::default()));
    builder
}

/// A state that knows everything of ours.
pub fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionState {
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_query_planner(Arc::new(Planner))
        .build();
    learn(&mut state);
    state
}

/// A state that plans for others: with the rules that plans of a cluster need.
pub(crate) fn planning(config: SessionConfig) -> Result<SessionState> {
    let state = state(config.upgrade_for_ballista(), runtime(&Limits::default())?);
    let rules = ballista_core::optimizer::ballista_default_optimizer_rules();
    Ok(SessionStateBuilder::new_from_existing(state).with_optimizer_rules(rules).build())
}

/// Adds the functions to a state.
fn learn(state: &mut SessionState) {
    use datafusion::execution::FunctionRegistry as _;
    for function in window_functions::functions() {
        // Only a registry that cannot be written to refuses.
        let _ = state.register_udwf(function);
    }
    state.register_udtf("indicators", Arc::new(IndicatorsFunction));
}

/// Adds our functions to a context that lost them while it was prepared for a cluster.
pub(crate) fn teach(context: &SessionContext) {
    for function in window_functions::functions() {
        context.register_udwf(function.as_ref().clone());
    }
    context.register_udtf("indicators", Arc::new(IndicatorsFunction));
}

/// SQL on this machine, in this process, without a scheduler.
pub fn local(limits: &Limits) -> Result<SessionContext> {
    Ok(SessionContext::new_with_state(state(config(limits), runtime(limits)?)))
}

/// The name under which the table function is known, for those who list functions.
pub fn table_function() -> TableFunction {
    TableFunction::new("indicators".to_owned(), Arc::new(IndicatorsFunction))
}
