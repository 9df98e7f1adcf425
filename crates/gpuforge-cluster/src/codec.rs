//! Plan codec: our nodes are encoded as their specification (protobuf) in the extension slot of DataFusion's plans; everything
//! else is left to Ballista's codecs.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::{
    catalog::TableProvider,
    common::TableReference,
    datasource::file_format::FileFormatFactory,
    error::{DataFusionError, Result},
    execution::TaskContext,
    logical_expr::{Extension, LogicalPlan, WindowUDF},
    physical_plan::ExecutionPlan,
};
use datafusion_proto::{
    logical_plan::LogicalExtensionCodec,
    physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension},
};
use prost::Message as _;

use crate::{
    dataset::{DatasetExec, DatasetNode},
    error::ClusterError,
    exec::IndicatorExec,
    node::IndicatorNode,
    spec::Spec,
    window_functions,
};

/// Magic prefix of our nodes; no protobuf message starts with it (field number 0 is not allowed).
const MAGIC: &[u8] = &[0, b'g', b'f', 1];

/// One of our nodes without its input.
#[derive(Clone, PartialEq, prost::Oneof)]
enum NodeKind {
    /// Indicators.
    #[prost(message, tag = "1")]
    Indicators(Spec),
    /// The directory of a dataset.
    #[prost(string, tag = "2")]
    Dataset(String),
}

#[derive(Clone, PartialEq, prost::Message)]
struct NodeMessage {
    #[prost(oneof = "NodeKind", tags = "1, 2")]
    node: Option<NodeKind>,
}

fn encode(node: NodeKind, buf: &mut Vec<u8>) -> Result<()> {
    buf.extend_from_slice(MAGIC);
    NodeMessage { node: Some(node) }.encode(buf).map_err(|e| ClusterError::InvalidPlan(e.to_string()).into())
}

/// The node, if the bytes have our prefix.
fn decode(buf: &[u8]) -> Option<Result<NodeKind>> {
    let invalid = |why: String| ClusterError::InvalidPlan(why).into();
    let message = NodeMessage::decode(buf.strip_prefix(MAGIC)?);
    Some(
        message
            .map_err(|e| invalid(e.to_string()))
            .and_then(|w| w.node.ok_or_else(|| invalid("an unknown node".to_owned()))),
    )
}

fn one_input<T: Clone>(inputs: &[T]) -> Result<T> {
    match inputs {
        [input] => Ok(input.clone()),
        other => {
            Err(ClusterError::InvalidPlan(format!("indicators have one input, not {}", other.len())).into())
        }
    }
}

/// A window function by name, for processes that have not registered it.
fn window_function(name: &str) -> Result<Arc<WindowUDF>> {
    let found = window_functions::functions().into_iter().find(|f| f.name() == name);
    found.ok_or_else(|| DataFusionError::Plan(format!("there is no window function `{name}`")))
}

/// Codec of logical plans with our nodes.
#[derive(Debug, Default)]
pub struct LogicalCodec(BallistaLogicalExtensionCodec);

impl LogicalExtensionCodec for LogicalCodec {
    fn try_decode(&self, buf: &[u8], inputs: &[LogicalPlan], ctx: &TaskContext) -> Result<Extension> {
        match decode(buf) {
            None => self.0.try_decode(buf, inputs, ctx),
            Some(node) => Ok(Extension {
                node: match node? {
                    NodeKind::Indicators(spec) => {
                        Arc::new(IndicatorNode::try_new(&spec, "the input", one_input(inputs)?)?)
                    }
                    NodeKind::Dataset(dir) => Arc::new(DatasetNode::try_new(dir, one_input(inputs)?)?),
                },
            }),
        }
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        let any = node.node.as_any();
        if let Some(ours) = any.downcast_ref::<IndicatorNode>() {
            return encode(NodeKind::Indicators(ours.spec().clone()), buf);
        }
        match any.downcast_ref::<DatasetNode>() {
            Some(ours) => encode(NodeKind::Dataset(ours.dir().to_owned()), buf),
            None => self.0.try_encode(node, buf),
        }
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        self.0.try_decode_table_provider(buf, table, schema, ctx)
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.0.try_encode_table_provider(table, node, buf)
    }

    fn try_decode_file_format(&self, buf: &[u8], ctx: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.0.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(&self, buf: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.0.try_encode_file_format(buf, node)
    }

    fn try_decode_udwf(&self, name: &str, _: &[u8]) -> Result<Arc<WindowUDF>> {
        window_function(name)
    }
}

/// Codec of physical plans with our nodes.
#[derive(Debug, Default)]
pub struct PhysicalCodec(BallistaPhysicalExtensionCodec);

impl PhysicalExtensionCodec for PhysicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        convert: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match decode(buf) {
            None => self.0.try_decode(buf, inputs, ctx, convert),
            Some(node) => Ok(match node? {
                NodeKind::Indicators(spec) => Arc::new(IndicatorExec::try_new(&spec, one_input(inputs)?)?),
                NodeKind::Dataset(dir) => Arc::new(DatasetExec::new(dir, one_input(inputs)?)),
            }),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        convert: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(ours) = node.downcast_ref::<IndicatorExec>() {
            return encode(NodeKind::Indicators(ours.spec().clone()), buf);
        }
        match node.downcast_ref::<DatasetExec>() {
            Some(ours) => encode(NodeKind::Dataset(ours.dir().to_owned()), buf),
            None => self.0.try_encode(node, buf, convert),
        }
    }

    fn try_decode_udwf(&self, name: &str, _: &[u8]) -> Result<Arc<WindowUDF>> {
        window_function(name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn spec_round_trips_and_foreign_bytes_are_ignored() {
        let node = NodeKind::Indicators(Spec::of("rsi(14)").with_columns("close=PX_LAST").unwrap());
        let mut bytes = Vec::new();
        encode(node.clone(), &mut bytes).unwrap();
        assert_eq!(decode(&bytes).unwrap().unwrap(), node);
        assert!(decode(b"").is_none() && decode(&[10, 2, 3]).is_none());
        let cut = bytes.get(..bytes.len() - 1).unwrap();
        assert!(decode(cut).unwrap().unwrap_err().to_string().contains("same version"));
    }
}
