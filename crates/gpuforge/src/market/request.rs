//! Column request: the selected indicators with their plan, and the split into streamable and whole-series columns.

use gpuforge_indicators::select::{self, SelectItem, Selection};
use gpuforge_indicators_gpu::ExecRequest;

/// Selected columns with one plan for all of them. Where some need the whole series, they are also planned separately, so
/// that only they are held in memory for all of its bars.
#[derive(Debug)]
pub struct Request {
    /// All columns.
    pub selection: Selection,
    pub(crate) wanted: Vec<SelectItem>,
    pub(super) split: Option<StreamSplit>,
}

/// Streamable columns, and columns that need the whole series.
#[derive(Debug)]
pub(super) struct StreamSplit {
    /// Columns that can be computed in chunks of bars.
    pub(super) streamable: Selection,
    /// Columns that look at all bars of a series at once.
    pub(super) whole: Selection,
    /// For each column of the selection: is it among `whole`, and its position there.
    pub(super) order: Vec<(bool, usize)>,
}

impl Request {
    /// Plans a selection.
    pub fn of(wanted: &[SelectItem]) -> Request {
        let selection = select::plan(wanted);
        let split =
            (!selection.plan.supports_streaming()).then(|| StreamSplit::of(wanted, &selection.columns));
        Request { selection, wanted: wanted.to_vec(), split }
    }

    /// Columns that look at all bars of a series at once, and so cannot be streamed.
    pub fn whole_series_columns(&self) -> &[String] {
        self.split.as_ref().map_or(&[], |split| &split.whole.columns)
    }

    /// The columns that are streamed where not everything fits.
    pub(super) fn streamable(&self) -> &Selection {
        self.split.as_ref().map_or(&self.selection, |split| &split.streamable)
    }
}

impl<'a> From<&'a Request> for ExecRequest<'a> {
    fn from(request: &'a Request) -> Self {
        ExecRequest { wanted: &request.wanted, selection: &request.selection }
    }
}

impl StreamSplit {
    fn of(wanted: &[SelectItem], columns: &[String]) -> StreamSplit {
        let streams = |one: &SelectItem| select::plan(std::slice::from_ref(one)).plan.supports_streaming();
        let (streamable, whole): (Vec<SelectItem>, Vec<SelectItem>) =
            wanted.iter().cloned().partition(streams);
        let (streamable, whole) = (select::plan(&streamable), select::plan(&whole));
        let position = |name: &String| {
            let at = |selection: &Selection| selection.columns.iter().position(|c| c == name);
            at(&streamable).map(|i| (false, i)).or_else(|| at(&whole).map(|i| (true, i)))
        };
        let order: Vec<(bool, usize)> = columns.iter().filter_map(position).collect();
        // Column names are unique within a plan only: where both sides share one, everything is computed as whole series.
        let unique = streamable.columns.iter().all(|c| !whole.columns.contains(c));
        if unique && order.len() == columns.len() {
            return StreamSplit { streamable, whole, order };
        }
        let order = (0..columns.len()).map(|at| (true, at)).collect();
        StreamSplit { streamable: select::plan(&[]), whole: select::plan(wanted), order }
    }
}
