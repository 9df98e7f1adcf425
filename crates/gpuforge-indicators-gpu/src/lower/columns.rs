//! Column allocation: a column per stored value, reused after its last reader (liveness by stage).

use std::collections::HashMap;

use gpuforge_indicators::graph::{NodeOp, ValueId};

use super::{Call, Column, Lowering, UploadSource, analysis::NodeClass};

impl Lowering<'_> {
    /// Gives every stored value its column.
    pub(super) fn assign_columns(&mut self) {
        let mut decoded: Vec<ValueId> = self.decoded.keys().copied().collect();
        decoded.sort_unstable();
        for v in decoded {
            let column = self.new_column();
            self.decoded.insert(v, column);
        }
        for (at, node) in self.graph.nodes().iter().enumerate() {
            if self.needed.get(at) == Some(&true) && self.stored.get(at) == Some(&true) {
                for port in 0..node.op.ports() {
                    let v = ValueId {
                        node: u32::try_from(at).unwrap_or(u32::MAX),
                        port: u8::try_from(port).unwrap_or(u8::MAX),
                    };
                    let column = self.new_column();
                    self.columns.insert(v, column);
                }
            }
        }
    }
}

/// Uploaded values and their columns.
pub(super) fn uploads(lowering: &Lowering<'_>) -> Vec<(UploadSource, Column)> {
    let mut all: Vec<(UploadSource, Column)> = lowering
        .columns
        .iter()
        .filter_map(|(v, column)| match (lowering.class(*v), lowering.op(*v)) {
            (NodeClass::Uploaded, Some(NodeOp::Input(field))) => Some((UploadSource::Field(*field), *column)),
            (NodeClass::Cpu, _) => Some((UploadSource::Cpu(*v), *column)),
            _ => None,
        })
        .collect();
    all.sort_by_key(|(_, column)| *column);
    all
}

/// Nodes that compute something: the columns of an unfused plan.
pub(super) fn unfused(lowering: &Lowering<'_>) -> usize {
    let computes = |at: &usize| {
        let op = lowering.graph.nodes().get(*at).map(|n| &n.op);
        lowering.needed.get(*at) == Some(&true)
            && lowering.roots.get(*at).is_some_and(Option::is_none)
            && !matches!(op, Some(NodeOp::Const(_) | NodeOp::Input(_)) | None)
    };
    (0..lowering.needed.len()).filter(computes).count()
}

/// Renumbers columns: results first, then uploads, then all others, reused after their last reader.
pub(super) fn reuse_columns(
    stages: &[Vec<Call>],
    results: &[Column],
    uploads: &[(UploadSource, Column)],
) -> (usize, HashMap<Column, Column>) {
    let mut new: HashMap<Column, Column> = HashMap::new();
    for column in results.iter().chain(uploads.iter().map(|(_, c)| c)) {
        let at = new.len();
        new.entry(*column).or_insert(at);
    }
    let fixed = new.len();
    let mut last_use: HashMap<Column, usize> = HashMap::new();
    for (stage, calls) in stages.iter().enumerate() {
        for column in calls.iter().flat_map(|c| c.reads().into_iter().chain(c.writes())) {
            last_use.insert(column, stage);
        }
    }
    let (mut count, mut free) = (fixed, Vec::new());
    for (stage, calls) in stages.iter().enumerate() {
        for column in calls.iter().flat_map(Call::writes) {
            new.entry(column).or_insert_with(|| {
                free.pop().unwrap_or_else(|| {
                    count += 1;
                    count - 1
                })
            });
        }
        let mut dead: Vec<Column> = last_use.iter().filter(|(_, s)| **s == stage).map(|(c, _)| *c).collect();
        dead.sort_unstable();
        // Uploads could be freed too, but there are few.
        free.extend(dead.iter().filter_map(|c| new.get(c)).filter(|c| **c >= fixed));
    }
    (count, new)
}
