//! How are many lattices analysed at once? As items of a batch: small ones on all threads, each with a result of its own.
//!
//! ```
//! use gpuforge_route::{CpuSite, Router, RouterSettings, batch::BatchOptions};
//! use gpuforge_workloads::lattice::{Grid, Lattice, batch};
//! let router = Router::new(vec![std::sync::Arc::new(CpuSite::default())], Vec::new(), RouterSettings::default());
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

type Room = Arc<OnceLock<Result<Analysis, LatticeError>>>;

/// Analyses that a batch computes.
#[derive(Debug)]
pub struct Pending(Vec<Room>);

impl Pending {
    /// What was found, in the order of the lattices; `None` where an item was called off or has not run.
    pub fn results(&self) -> Vec<Option<Result<Analysis, LatticeError>>> {
        self.0.iter().map(|room| room.get().cloned()).collect()
    }
}

/// One item per lattice, and where their results will be. A lattice that cannot be analysed fails alone.
pub fn analyses(lattices: impl IntoIterator<Item = Lattice>) -> (Vec<Item>, Pending) {
    let (mut items, mut rooms) = (Vec::new(), Vec::new());
    for lattice in lattices {
        let room = Room::default();
        rooms.push(room.clone());
        items.push(Item::call(move || {
            let result = analyse(&lattice);
            let failed = result.as_ref().err().map(ToString::to_string);
            // Each item runs once: the room is empty.
            let _ = room.set(result);
            failed.map_or(Ok(Vec::new()), Err)
        }));
    }
    (items, Pending(rooms))
}
