//! The examples of each criterion, and what holds for any output.

use super::*;
use crate::cause::Cause;
use crate::lang::Lang;

fn judge(output: &str) -> Judgment {
    ReviewPlan::default().reviewer().unwrap().review(&Material::of_output(output.as_bytes()))
}

fn found(output: &str) -> Vec<(Criterion, What, Option<u32>)> {
    judge(output).findings.iter().map(|finding| (finding.criterion, finding.what, finding.line)).collect()
}

/// R-T4: empty output is a rejection, and it is not all there.
#[test]
fn empty_output_is_rejected() {
    for output in ["", " \n\t\n"] {
        assert_eq!(found(output), [(Criterion::Q4, What::Empty, None)]);
        assert_eq!(judge(output).cause(), Some(Cause::Incomplete));
    }
    let _ = Lang::En;
}
