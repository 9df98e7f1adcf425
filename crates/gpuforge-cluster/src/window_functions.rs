//! `rsi(close, 14) OVER (PARTITION BY symbol ORDER BY ts)`: the common indicators as window functions.
//!
//! One symbol at a time and one column per function: for a few columns inside other SQL. For many columns use the table
//! function, which plans them together.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanBufferBuilder, Float64Array, RecordBatch, RecordBatchOptions},
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{DataType, Field as ArrowField, FieldRef, Schema},
};
use datafusion::{
    common::{DataFusionError, Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
        function::{
            ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs,
        },
    },
    physical_expr::PhysicalExpr,
};
use gpuforge::indicators::{
    catalogue::{self, Indicator},
    exec::{self, ExecOptions, Series},
    graph::Field,
    select::{Selection, Selector, plan},
};

use crate::{compute::to_float64, error::ClusterError};

/// Indicators exposed as window functions; one function per output.
pub const WINDOW_INDICATORS: [&str; 26] = [
    "sma", "ema", "wma", "dema", "tema", "trima", "kama", "rsi", "macd", "bbands", "stoch", "stochrsi",
    "atr", "natr", "trange", "adx", "cci", "mfi", "obv", "roc", "mom", "willr", "aroon", "sar", "ultosc",
    "trix",
];

/// Every window function.
pub fn functions() -> Vec<Arc<WindowUDF>> {
    let indicators = WINDOW_INDICATORS.iter().filter_map(|name| catalogue::find(name));
    indicators
        .flat_map(|indicator| {
            (0..indicator.outputs.len())
                .map(move |output| Arc::new(WindowUDF::from(IndicatorWindow::new(indicator, output))))
        })
        .collect()
}

/// Window function of one indicator output.
#[derive(Debug)]
struct IndicatorWindow {
    indicator: &'static Indicator,
    output: usize,
    name: String,
    signature: Signature,
}

impl PartialEq for IndicatorWindow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for IndicatorWindow {}

impl std::hash::Hash for IndicatorWindow {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl IndicatorWindow {
    fn new(indicator: &'static Indicator, output: usize) -> Self {
        let called = indicator.outputs.get(output).copied().unwrap_or_default();
        let own =
            indicator.outputs.len() == 1 || output == 0 && (called == indicator.name || called == "value");
        let name = if own { indicator.name.to_owned() } else { format!("{}_{called}", indicator.name) };
        IndicatorWindow { indicator, output, name, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn argument_error(&self, message: String) -> DataFusionError {
        let inputs = self.indicator.inputs.iter().map(|f| format!("{f:?}").to_lowercase());
        let params = self.indicator.params.iter().map(|p| p.default.to_string());
        let all: Vec<String> = inputs.chain(params).collect();
        let hint = format!("{}({}) OVER (PARTITION BY symbol ORDER BY time)", self.name, all.join(", "));
        ClusterError::Window { function: self.name.clone(), message, hint }.into()
    }

    /// The plan for these parameters.
    fn plan_for(&self, params: &[f64]) -> Result<Selection> {
        let params: Vec<String> = params.iter().map(ToString::to_string).collect();
        let output = self.indicator.outputs.get(self.output).copied().unwrap_or_default();
        let suffix = if self.indicator.outputs.len() == 1 { String::new() } else { format!(".{output}") };
        let text = format!("{}({}){suffix}", self.indicator.name, params.join(","));
        let wanted = Selector::new().select(&text).map_err(ClusterError::from)?;
        Ok(plan(&wanted))
    }
}

impl WindowUDFImpl for IndicatorWindow {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (min_args, max_args) =
            (self.indicator.inputs.len(), self.indicator.inputs.len() + self.indicator.params.len());
        if given.len() < min_args || given.len() > max_args {
            return Err(
                self.argument_error(format!("{} arguments; it takes {min_args} to {max_args}", given.len()))
            );
        }
        match given.iter().find(|kind| !kind.is_numeric() && !kind.is_null()) {
            Some(kind) => Err(self.argument_error(format!("an argument is {kind}, and all must be numbers"))),
            None => Ok(vec![DataType::Float64; given.len()]),
        }
    }

    /// Parameters are constants, not columns.
    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        args.input_exprs().iter().take(self.indicator.inputs.len()).cloned().collect()
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        let params = args.input_exprs().iter().skip(self.indicator.inputs.len());
        let params = params.map(constant).collect::<Option<Vec<f64>>>();
        let params =
            params.ok_or_else(|| self.argument_error("a parameter is not a constant number".to_owned()))?;
        Ok(Box::new(Evaluator { selection: self.plan_for(&params)?, inputs: self.indicator.inputs }))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        let function = self.name.clone();
        Some(Box::new(move |call, _| {
            if call.params.order_by.is_empty() {
                return Err(ClusterError::NoOrder { function: function.clone() }.into());
            }
            Ok(Expr::WindowFunction(Box::new(call)))
        }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(ArrowField::new(args.name(), DataType::Float64, true)))
    }
}

/// The value of a constant expression.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<f64> {
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one).ok()?;
    let value = match expr.evaluate(&row).ok()? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
    };
    match value.cast_to(&DataType::Float64).ok()? {
        ScalarValue::Float64(value) => value,
        _ => None,
    }
}

#[derive(Debug)]
struct Evaluator {
    selection: Selection,
    inputs: &'static [Field],
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let columns = values.iter().map(to_float64).collect::<Result<Vec<Float64Array>>>()?;
        let column = |field: Field| -> &[f64] {
            let at = self.inputs.iter().position(|f| *f == field);
            at.and_then(|at| columns.get(at)).map_or(&[], |c| c.values())
        };
        let series = Series {
            open: column(Field::Open),
            high: column(Field::High),
            low: column(Field::Low),
            close: column(Field::Close),
            volume: column(Field::Volume),
            time: &[],
        };
        let plan = &self.selection.plan;
        // Partitions already run in parallel.
        let exec_options = ExecOptions { threads: 1, ..ExecOptions::default() };
        let found = exec::run(plan, &[series], exec_options)
            .pop()
            .and_then(|mut all| all.drain(..).next())
            .unwrap_or_default();
        let warm_up = plan.starts().first().copied().unwrap_or(0).min(rows);
        let mut bits = BooleanBufferBuilder::new(rows);
        bits.append_n(warm_up, false);
        bits.append_n(rows - warm_up, true);
        Ok(Arc::new(Float64Array::try_new(ScalarBuffer::from(found), Some(NullBuffer::new(bits.finish())))?))
    }
}
