//! `policy show NAME`: one policy, cause by cause.

use crate::Stage;
use crate::trouble::Trouble;
use crate::view::policy::PolicyView;

pub(super) fn run(name: &str, stage: &Stage<'_>) -> Result<PolicyView, Trouble> {
    let config = stage.settings.config()?;
    let policy = config
        .policy(name)
        .ok_or_else(|| Trouble::NoSuchPolicy { written: name.to_owned(), known: config.policy_names() })?;
    Ok(PolicyView::new(policy, config.policies.contains_key(name)))
}
