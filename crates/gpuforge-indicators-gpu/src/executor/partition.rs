//! Partition of the graph into device and CPU columns, and of a batch into the buffers that each side writes.

use gpuforge_indicators::{
    exec::{Columns, Series},
    graph::{Graph, ValueId},
    plan::ExecPlan,
    select::{self, SelectItem},
};

use super::CpuGpuCounts;
use crate::placement::{self, ColumnPlacement};

/// Which columns of a graph run where when a device is used.
pub(super) struct GraphPartition {
    pub(super) graph: Graph,
    pub(super) values: Vec<ValueId>,
    pub(super) placed: Vec<ColumnPlacement>,
    pub(super) on_device: Vec<bool>,
    /// The CPU's columns: their plan, and their positions among all columns.
    pub(super) cpu_plan: Option<(ExecPlan, Vec<usize>)>,
}

impl GraphPartition {
    pub(super) fn of(wanted: &[SelectItem]) -> GraphPartition {
        let (graph, values, columns) = select::graph(wanted);
        let placed = placement::place_columns(&graph, &values, &columns);
        let mut partition = GraphPartition { graph, values, placed, on_device: Vec::new(), cpu_plan: None };
        partition.split();
        partition
    }

    /// Splits the columns as they are placed.
    fn split(&mut self) {
        self.on_device = self.placed.iter().map(|p| p.on_device).collect();
        let cpu: Vec<usize> =
            self.on_device.iter().enumerate().filter(|(_, on)| !**on).map(|(at, _)| at).collect();
        let values: Vec<ValueId> = cpu.iter().filter_map(|at| self.values.get(*at).copied()).collect();
        self.cpu_plan = (!cpu.is_empty()).then(|| (ExecPlan::new(&self.graph, &values), cpu));
    }

    /// Moves device columns to the CPU that were measured to be beyond the tolerance.
    pub(super) fn move_to_cpu(&mut self, columns: impl Iterator<Item = usize>) {
        for column in columns {
            if let Some(placed) = self.placed.get_mut(column) {
                placed.on_device = false;
                placed.reason = Some(placement::MEASURED);
            }
        }
        self.split();
    }

    pub(super) fn has_device_columns(&self) -> bool {
        self.on_device.contains(&true)
    }

    pub(super) fn column_counts(&self) -> CpuGpuCounts {
        let gpu = self.on_device.iter().filter(|on| **on).count() as u64;
        CpuGpuCounts { gpu, cpu: self.on_device.len() as u64 - gpu }
    }
}

/// Series of a batch and their output slices, by the side that computes them.
pub(super) struct BatchSplit<'s, 'c> {
    /// Series whose values are finite in f32.
    pub(super) gpu_series: Vec<Series<'s>>,
    /// Their device columns.
    pub(super) gpu_columns: Vec<Columns<'c>>,
    /// Their CPU columns, computed beside the device.
    pub(super) beside: Vec<Columns<'c>>,
    /// The other series.
    pub(super) cpu_series: Vec<Series<'s>>,
    /// All of their columns.
    pub(super) cpu_columns: Vec<Columns<'c>>,
}

impl<'s, 'c> BatchSplit<'s, 'c> {
    pub(super) fn of(
        partition: &GraphPartition,
        series: &[Series<'s>],
        all: &'c mut [Columns<'_>],
        finite: &[bool],
    ) -> Self {
        let mut split = BatchSplit {
            gpu_series: Vec::new(),
            gpu_columns: Vec::new(),
            beside: Vec::new(),
            cpu_series: Vec::new(),
            cpu_columns: Vec::new(),
        };
        for ((one, columns), finite) in series.iter().zip(all.iter_mut()).zip(finite) {
            if !finite {
                split.cpu_series.push(*one);
                split.cpu_columns.push(columns.iter_mut().map(|column| &mut **column).collect());
                continue;
            }
            split.gpu_series.push(*one);
            let (mut gpu_columns, mut beside): (Columns<'c>, Columns<'c>) = Default::default();
            for (column, on_device) in columns.iter_mut().zip(&partition.on_device) {
                if *on_device {
                    gpu_columns.push(column);
                } else {
                    // An empty slice keeps the position: the device addresses columns by index.
                    gpu_columns.push(&mut []);
                    beside.push(column);
                }
            }
            split.gpu_columns.push(gpu_columns);
            split.beside.push(beside);
        }
        split
    }
}
