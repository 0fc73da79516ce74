//! `policy list`: every policy that can be named here.

use crate::Stage;
use crate::trouble::Trouble;
use crate::view::policy::PoliciesView;

pub(super) fn run(stage: &Stage<'_>) -> Result<PoliciesView, Trouble> {
    let config = stage.settings.config()?;
    let policies = config.policy_names().iter().filter_map(|name| config.policy(name)).collect();
    Ok(PoliciesView::new(policies, |name| config.policies.contains_key(name), &stage.settings.policy.value))
}
