//! Logical plan node of indicators, and the planner that turns it into `IndicatorExec`.

use std::{
    cmp::Ordering,
    collections::HashSet,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{DFSchema, DFSchemaRef},
    error::{DataFusionError, Result},
    execution::context::QueryPlanner,
    logical_expr::{
        Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
};

use crate::{
    dataset::{DatasetExec, DatasetNode},
    exec::IndicatorExec,
    spec::{Bound, Spec},
};

/// Logical node: all input columns plus the computed ones.
#[derive(Debug, Clone)]
pub struct IndicatorNode {
    bound: Arc<Bound>,
    input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
}

impl IndicatorNode {
    /// Computes `spec` from `input`; `table` is its name in errors.
    pub fn try_new(spec: &Spec, table: &str, input: LogicalPlan) -> Result<Self> {
        let bound = Bound::new(spec, table, input.schema().inner())?;
        let mut fields: Vec<_> = input.schema().iter().map(|(q, f)| (q.cloned(), f.clone())).collect();
        let computed = bound.output.fields().iter().skip(fields.len());
        fields.extend(computed.map(|f| (None, f.clone())));
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(IndicatorNode { bound: Arc::new(bound), input: Arc::new(input), schema })
    }

    /// Wraps the node as a logical plan.
    pub fn plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// What is computed.
    pub fn spec(&self) -> &Spec {
        &self.bound.spec
    }
}

impl PartialEq for IndicatorNode {
    fn eq(&self, other: &Self) -> bool {
        self.bound.spec == other.bound.spec && self.input == other.input
    }
}

impl Eq for IndicatorNode {}

impl Hash for IndicatorNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bound.spec.hash(state);
        self.input.hash(state);
    }
}

impl PartialOrd for IndicatorNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.bound.spec.partial_cmp(&other.bound.spec) {
            Some(Ordering::Equal) => self.input.partial_cmp(&other.input),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for IndicatorNode {
    fn name(&self) -> &'static str {
        "Indicators"
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

    /// Only filters on the symbol may be pushed down: fewer bars would change the series.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let symbol = self.bound.symbol.map(|at| self.bound.name(at));
        let all = self.bound.output.fields().iter().map(|f| f.name());
        all.filter(|n| Some(n.as_str()) != symbol).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Indicators: {}", self.bound.spec.select.trim())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.into_iter().next();
        let input =
            input.ok_or_else(|| DataFusionError::Internal("Indicators without an input".to_owned()))?;
        Self::try_new(&self.bound.spec, "the input", input)
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let given = self.bound.input.fields().len();
        let mut all = self.bound.read();
        all.extend(output.iter().copied().filter(|at| *at < given));
        all.sort_unstable();
        all.dedup();
        Some(vec![all])
    }
}

/// Plans our logical nodes as physical ones.
#[derive(Debug, Default)]
pub struct IndicatorPlanner;

#[async_trait]
impl ExtensionPlanner for IndicatorPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let [input] = inputs else { return Ok(None) };
        if let Some(node) = node.as_any().downcast_ref::<IndicatorNode>() {
            return Ok(Some(Arc::new(IndicatorExec::try_new(node.spec(), input.clone())?)));
        }
        let dataset = node.as_any().downcast_ref::<DatasetNode>();
        Ok(dataset.map(|node| Arc::new(DatasetExec::new(node.dir().to_owned(), input.clone())) as _))
    }
}

/// DataFusion's planner with our extension planner.
#[derive(Debug, Default)]
pub struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(IndicatorPlanner)])
            .create_physical_plan(plan, session)
            .await
    }
}
