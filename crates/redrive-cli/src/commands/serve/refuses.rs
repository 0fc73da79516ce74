//! What `serve` would refuse although the file can be read, or would only find out when it is too late: `config check` and `doctor` ask
//! before anybody relies on it.

use std::ffi::OsStr;
use std::io;

use redrive::engine::{EngineError, check_alert_receivers};
use redrive_policy::Config;
use redrive_server::{Certificate, TlsTrouble};

use super::push;
use crate::Stage;
use crate::trouble::{ServeTrouble, Trouble};

/// Something that a server would stumble over.
pub(in crate::commands) struct Stumble {
    /// Where in the file.
    pub(in crate::commands) path: String,
    pub(in crate::commands) trouble: Trouble,
    pub(in crate::commands) weight: Weight,
}

/// How sure it is that a server stumbles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Weight {
    /// Every server does: it stands in the file.
    Everywhere,
    /// One on this machine does.
    Here,
    /// One may be given, or may read, what we are not given here; or it goes on without.
    Perhaps,
}

/// Everything of the kind, in the order of the file's parts.
pub(in crate::commands) fn stumbles(config: &Config, stage: &Stage<'_>) -> Vec<Stumble> {
    let mut found = Vec::new();
    if let Some(tls) = &config.server.tls
        && let Err(trouble) = Certificate::read(stage.cwd.join(&tls.cert), stage.cwd.join(&tls.key))
    {
        let denied = matches!(&trouble, TlsTrouble::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied);
        let trouble = Trouble::Serve(ServeTrouble::Tls(trouble));
        let weight = if denied { Weight::Perhaps } else { Weight::Here };
        found.push(Stumble { path: "server.tls".to_owned(), trouble, weight });
    }
    if let Err(problem) = check_alert_receivers(&config.alerts, &config.server.listen) {
        let trouble = Trouble::from(EngineError::from(problem));
        found.push(Stumble { path: "alerts.receivers".to_owned(), trouble, weight: Weight::Everywhere });
    }
    for (at, receiver) in config.alerts.receivers.iter().enumerate() {
        let Some(template) = &receiver.template else { continue };
        let path = stage.cwd.join(template);
        if let Err(source) = std::fs::read_to_string(&path) {
            let trouble = Trouble::Unreadable { path: template.into(), source };
            let path = format!("alerts.receivers[{at}].template");
            found.push(Stumble { path, trouble, weight: Weight::Perhaps });
        }
    }
    for (at, service) in config.push.iter().enumerate() {
        let variable = |name: &str| stage.env.get(OsStr::new(name))?.clone().into_string().ok();
        if let Err(trouble @ Trouble::Serve(ServeTrouble::PushSecret { .. })) =
            push::endpoints(std::slice::from_ref(service), variable)
        {
            found.push(Stumble { path: format!("push[{at}].secret_env"), trouble, weight: Weight::Perhaps });
        }
    }
    found
}
