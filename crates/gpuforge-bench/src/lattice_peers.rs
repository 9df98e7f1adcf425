//! Peers of the lattice benchmark: petgraph (A* and Dijkstra on Graph and CSR), python-igraph in a child process.

use std::{
    hint::black_box,
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use gpuforge::workloads::lattice::{Lattice, csr};
use petgraph::{
    Directed,
    algo::{astar, dijkstra},
    csr::Csr,
    graph::{DiGraph, NodeIndex},
    visit::EdgeRef as _,
};

/// A lattice as petgraph graphs, with the A* heuristic precomputed as a table.
pub(crate) struct Peer {
    graph: DiGraph<(), f64>,
    rows: Csr<(), f64, Directed>,
    heuristic: Vec<f64>,
    from: usize,
    to: usize,
}

/// A search algorithm of petgraph on one of its graph types.
pub(crate) struct PetgraphSearch {
    pub(crate) name: &'static str,
    pub(crate) cost: fn(&Peer) -> Option<f64>,
}

/// All of them; the fastest is the peer.
pub(crate) const PETGRAPH: [PetgraphSearch; 4] = [
    PetgraphSearch { name: "petgraph astar on Graph", cost: astar_on_graph },
    PetgraphSearch { name: "petgraph astar on Csr", cost: astar_on_rows },
    PetgraphSearch { name: "petgraph dijkstra on Graph", cost: dijkstra_on_graph },
    PetgraphSearch { name: "petgraph dijkstra on Csr", cost: dijkstra_on_rows },
];

impl Peer {
    pub(crate) fn new(lattice: &Lattice, from: u64, to: u64) -> Result<Peer> {
        let graph = csr::petgraph_weighted(lattice)?;
        let mut edges: Vec<(u32, u32, f64)> = graph
            .edge_references()
            .map(|e| (e.source().index() as u32, e.target().index() as u32, *e.weight()))
            .collect();
        edges.sort_by_key(|(a, b, _)| (*a, *b));
        let mut rows = Csr::from_sorted_edges(&edges).ok().context("petgraph refused sorted edges")?;
        while rows.node_count() < graph.node_count() {
            rows.add_node(());
        }
        let min_weight = match lattice.weights() {
            None => 1.0,
            Some(weights) => weights.values().iter().copied().fold(f64::INFINITY, f64::min),
        };
        let grid = lattice.grid();
        let heuristic = (0..grid.vertices())
            .map(|c| Ok(grid.distance(c, to)? as f64 * min_weight))
            .collect::<Result<Vec<f64>>>()?;
        Ok(Peer { graph, rows, heuristic, from: from as usize, to: to as usize })
    }

    fn heuristic(&self, cell: usize) -> f64 {
        self.heuristic.get(cell).copied().unwrap_or(0.0)
    }

    /// Distances of all cells from the start.
    pub(crate) fn all(&self) -> usize {
        black_box(dijkstra(&self.graph, NodeIndex::new(self.from), None, |_| 1u32)).len()
    }

    /// Lines `from to weight`.
    pub(crate) fn edges(&self) -> String {
        let line = |e: petgraph::graph::EdgeReference<'_, f64>| {
            format!("{} {} {}\n", e.source().index(), e.target().index(), e.weight())
        };
        self.graph.edge_references().map(line).collect()
    }
}

fn astar_on_graph(peer: &Peer) -> Option<f64> {
    let (from, to) = (NodeIndex::new(peer.from), NodeIndex::new(peer.to));
    let found = astar(&peer.graph, from, |n| n == to, |e| *e.weight(), |n| peer.heuristic(n.index()));
    black_box(found).map(|(cost, _)| cost)
}

fn astar_on_rows(peer: &Peer) -> Option<f64> {
    let (from, to) = (peer.from as u32, peer.to as u32);
    let found = astar(&peer.rows, from, |n| n == to, |e| *e.weight(), |n| peer.heuristic(n as usize));
    black_box(found).map(|(cost, _)| cost)
}

fn dijkstra_on_graph(peer: &Peer) -> Option<f64> {
    let to = NodeIndex::new(peer.to);
    dijkstra(&peer.graph, NodeIndex::new(peer.from), Some(to), |e| *e.weight()).get(&to).copied()
}

fn dijkstra_on_rows(peer: &Peer) -> Option<f64> {
    let to = peer.to as u32;
    dijkstra(&peer.rows, peer.from as u32, Some(to), |e| *e.weight()).get(&to).copied()
}

/// Edges from stdin; then for each mode the cost of the path and the milliseconds of each of so many searches.
const SCRIPT: &str = r"
import sys, time
import igraph
n, start, goal, rounds = map(int, sys.argv[1:])
edges, weights = [], []
for line in sys.stdin:
    a, b, w = line.split()
    edges.append((int(a), int(b)))
    weights.append(float(w))
graph = igraph.Graph(n=n, edges=edges, directed=True)
print('python-igraph', igraph.__version__)
for given in (None, weights):
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        path = graph.get_shortest_paths(start, to=goal, weights=given, output='epath')[0]
        times.append((time.perf_counter() - began) * 1e3)
    cost = sum(1.0 if given is None else given[e] for e in path)
    print(cost, *times)
";

/// Times of python-igraph without and with weights, in milliseconds; an error if it is not installed.
pub(crate) struct Igraph {
    pub(crate) name: String,
    /// Cost of the path and times, by steps and by weights.
    pub(crate) modes: Vec<(f64, Vec<f64>)>,
}

pub(crate) fn igraph(peer: &Peer, rounds: usize) -> Result<Igraph> {
    let numbers = [peer.graph.node_count(), peer.from, peer.to, rounds].map(|n| n.to_string());
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).args(numbers);
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = python.spawn().context("there is no python3")?;
    // A child without igraph exits before it reads anything; its output shows that.
    let _ = child.stdin.take().context("no pipe")?.write_all(peer.edges().as_bytes());
    let output = child.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines();
    let name = lines.next().context("this python3 has no igraph")?.to_owned();
    let mode = |line: &str| -> Result<(f64, Vec<f64>)> {
        let mut numbers = line.split(' ').map(str::parse::<f64>);
        let cost = numbers.next().context("no cost")??;
        Ok((cost, numbers.collect::<Result<_, _>>()?))
    };
    let modes = lines.map(mode).collect::<Result<Vec<_>>>()?;
    ensure!(modes.len() == 2, "python-igraph ended early");
    Ok(Igraph { name, modes })
}
