//! `review`: what is judged, and by which criteria.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive_policy::review::{Criterion, ReviewPlan};

#[derive(Debug, clap::Args)]
pub(crate) struct ReviewArgs {
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) wish: ReviewWish,
    #[arg(long)]
    pub(crate) hint: bool,
}

/// What a person asks for on top of the configuration.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ReviewWish {
    #[arg(long, value_name = "Q1,Q2…", value_delimiter = ',', ignore_case = true, value_parser = criterion_parser())]
    pub(crate) criteria: Vec<Criterion>,
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Vec<String>,
    #[arg(long)]
    pub(crate) whole_file: bool,
    #[arg(long, value_name = "CMD")]
    pub(crate) test: Option<String>,
    #[arg(long, value_name = "CMD")]
    pub(crate) lint: Option<String>,
    #[arg(long, value_name = "CMD")]
    pub(crate) types: Option<String>,
    #[arg(long, value_name = "RE")]
    pub(crate) omission_pattern: Vec<String>,
    #[arg(long, value_name = "RE")]
    pub(crate) allow: Vec<String>,
}

fn criterion_parser() -> impl TypedValueParser<Value = Criterion> {
    PossibleValuesParser::new(Criterion::OF_OUTPUT.iter().copied())
        .try_map(|name| name.to_ascii_uppercase().parse::<Criterion>())
}

impl ReviewWish {
    /// What holds: this, and what the configuration says where this says nothing.
    pub(crate) fn over(self, mut plan: ReviewPlan) -> ReviewPlan {
        let shell = |line: String| ["/bin/sh", "-c", &line].map(str::to_owned).to_vec();
        if !self.criteria.is_empty() {
            plan.criteria = self.criteria;
        }
        plan.files.extend(self.expect);
        plan.whole_file |= self.whole_file;
        plan.omission_patterns.extend(self.omission_pattern);
        plan.allow.extend(self.allow);
        plan.test = self.test.map(shell).or(plan.test);
        plan.lint = self.lint.map(shell).or(plan.lint);
        plan.types = self.types.map(shell).or(plan.types);
        plan
    }
}
