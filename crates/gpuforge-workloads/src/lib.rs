//! Example workloads on routed operations: path finding on lattices (`lattice`) and ball trajectories (`trajectory`).
//!
//! ```text
//!   description (grid, blocked cells, weights · launches, ball, air)
//!        │ checked once: errors name the value and its limit
//!        ├─► closed form, where one is valid
//!        └─► CPU computation, or the same recorded as a plan for a device, where the router predicts that to be faster
//!                 └─► plain results (paths, distances, analyses · flight summaries)
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `lattice/grid.rs` · `blocked.rs` · `weights.rs` | closed forms; blocked cells as a bitset; cell weights and heuristic tables |
//! | `lattice/search.rs` · `bidirectional.rs` · `weighted_astar.rs` · `calendar_queue.rs` | A* and the choice of algorithm; bidirectional BFS; weighted A* and Dijkstra; bucket priority queue |
//! | `lattice/distances.rs` · `bfs.rs` · `shader/lattice_sweep.wgsl` | distances to all cells as an operation; BFS on the CPU; fast sweeping on a device |
//! | `lattice/analyse.rs` · `path_count.rs` · `centrality.rs` · `community.rs` · `csr.rs` · `batch.rs` · `svg.rs` | components and diameter, path counts, centrality (Brandes), communities (Louvain), graph export, batches, drawing |
//! | `trajectory/ball.rs` · `air.rs` · `wind.rs` · `coefficients.rs` · `launch.rs` | inputs with their ranges; the summary of a flight |
//! | `trajectory/flight_model.rs` · `integrator.rs` · `event.rs` · `simd_batch.rs` · `math.rs` | forces; RK4 and Dormand-Prince; event detection and step control; SIMD across launches |
//! | `trajectory/op.rs` · `shader/trajectory_*.wgsl` | flights as an operation and its kernels |

pub mod lattice;
pub mod trajectory;
