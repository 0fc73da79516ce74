//! `metrics`: the numbers of a period (R-C4). A store that is not there yet has numbers, too: none.

use redrive::engine::MetricsReport;
use redrive_store::Timestamp;

use super::opened;
use crate::Stage;
use crate::args::{MetricsArgs, Since};
use crate::trouble::Trouble;
use crate::view::metrics::MetricsView;

pub(super) fn run(args: &MetricsArgs, stage: &mut Stage<'_>) -> Result<MetricsView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let since = match args.since {
        Since::Ago(length) => length,
        Since::At(at) => now.since(at),
    };
    let report = match opened::if_there(stage)? {
        Some(opened) => {
            let engine = opened.looker()?;
            opened.runtime.block_on(engine.metrics(since, args.queue.as_deref()))?
        }
        None => MetricsReport::of_nothing(now, since, args.queue.as_deref()),
    };
    Ok(MetricsView::new(report))
}
