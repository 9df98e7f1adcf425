//! Batched lattice analysis: one batch item per lattice; small ones run on all threads.
//!
//! ```
//! use gpuforge_route::{CpuBackend, Router, RouterSettings, batch::BatchOptions};
//! use gpuforge_workloads::lattice::{Grid, Lattice, batch};
//! let router = Router::new(vec![std::sync::Arc::new(CpuBackend::default())], Vec::new(), RouterSettings::default());
//! let lattices = (1..=6).map(|d| Grid::new(d, 3).map(Lattice::new)).collect::<Result<Vec<_>, _>>()?;
//! let (items, pending) = batch::analyses(lattices);
//! let run = router.batch(items, BatchOptions::default()); // or `forge.batch(items)`
//! assert_eq!(run.stats.failed, 0);
//! assert!(pending.results().into_iter().flatten().all(|a| a.is_ok_and(|a| a.connected)));
//! # Ok::<(), gpuforge_workloads::lattice::LatticeError>(())
//! ```

use std::sync::{Arc, OnceLock};

use gpuforge_route::batch::Item;

use super::{Analysis, Lattice, LatticeError, analyse};

type ResultCell = Arc<OnceLock<Result<Analysis, LatticeError>>>;

/// Pending results of a batch of analyses.
#[derive(Debug)]
pub struct Pending(Vec<ResultCell>);

impl Pending {
    /// Results in the order of the lattices; `None` where an item was cancelled or has not run.
    pub fn results(&self) -> Vec<Option<Result<Analysis, LatticeError>>> {
        self.0.iter().map(|cell| cell.get().cloned()).collect()
    }
}

/// One item per lattice, and handles to their results. A lattice that cannot be analysed fails alone.
pub fn analyses(lattices: impl IntoIterator<Item = Lattice>) -> (Vec<Item>, Pending) {
    let (mut items, mut cells) = (Vec::new(), Vec::new());
    for lattice in lattices {
        let cell = ResultCell::default();
        cells.push(cell.clone());
        items.push(Item::call(move || {
            let result = analyse(&lattice);
            let failed = result.as_ref().err().map(ToString::to_string);
            // Each item runs once: the cell is empty.
            let _ = cell.set(result);
            failed.map_or(Ok(Vec::new()), Err)
        }));
    }
    (items, Pending(cells))
}
