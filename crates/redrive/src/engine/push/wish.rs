//! Setting an endpoint up: what is asked for is laid over what is there. The API and the command line both come through here, and
//! differ in one thing alone: an address that came over the API may not be a private one.

use std::time::Duration;

use redrive_store::Origin;

use super::{BadEndpoint, MOST_ENDPOINTS, PushEndpoint, PushSecret};
use crate::engine::{Engine, EngineError};

/// How many secrets are kept while they are exchanged: the new one, and the one before.
const WHILE_EXCHANGED: usize = 2;

/// What is wanted of an endpoint. What is absent stays as it is, or is what is usual.
#[derive(Clone, Default)]
pub struct PushWish {
    /// The queue whose jobs it gets.
    pub queue: Option<String>,
    /// Where it is called.
    pub url: Option<String>,
    /// Only these kinds; an empty list: all of the queue.
    pub kinds: Option<Vec<String>>,
    /// The secrets that calls are signed with, the newest first. One is made when there are none.
    pub secrets: Option<Vec<PushSecret>>,
    /// Makes a new secret and keeps the one before, so that the service can change over.
    pub rotate: bool,
    /// How many calls are under way at a time.
    pub concurrency: Option<usize>,
    /// How many jobs go into one call.
    pub batch: Option<usize>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// Whether it is called.
    pub enabled: Option<bool>,
    /// Who gives the address, if one is given.
    pub origin: Origin,
}

/// Why an endpoint cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushProblem {
    /// Something of it is wrong.
    #[error("{0}")]
    Bad(#[from] BadEndpoint),
    /// One more than are looked at would never be called.
    #[error("there are {0} push endpoints already, which is the most")]
    TooMany(u32),
}

impl PushWish {
    /// What is wrong with it as that of a new endpoint, before anything is there to lay it over.
    pub fn check_new(&self, name: &str) -> Result<(), EngineError> {
        self.over(name, None).map(|_| ())
    }

    /// The endpoint that is asked for, and the secret that was made for it.
    fn over(
        &self,
        name: &str,
        there: Option<PushEndpoint>,
    ) -> Result<(PushEndpoint, Option<PushSecret>), EngineError> {
        let before = match there {
            Some(there) => there,
            None => PushEndpoint { secrets: Vec::new(), ..PushEndpoint::new(name, "", "")? },
        };
        let mut made = None;
        let secrets = match &self.secrets {
            Some(given) => given.clone(),
            None if before.secrets.is_empty() || self.rotate => {
                let fresh = PushSecret::fresh()?;
                made = Some(fresh.clone());
                let kept = before.secrets.into_iter().take(WHILE_EXCHANGED - 1);
                std::iter::once(fresh).chain(kept).collect()
            }
            None => before.secrets,
        };
        let endpoint = PushEndpoint {
            name: before.name,
            queue: self.queue.clone().unwrap_or(before.queue),
            kinds: self.kinds.clone().unwrap_or(before.kinds),
            // Who gave the address decides where it may lead: turning another screw does not open a door.
            origin: if self.url.is_some() { self.origin } else { before.origin },
            url: self.url.clone().unwrap_or(before.url),
            secrets,
            concurrency: self.concurrency.unwrap_or(before.concurrency),
            batch: self.batch.unwrap_or(before.batch),
            timeout: self.timeout.unwrap_or(before.timeout),
            enabled: self.enabled.unwrap_or(before.enabled),
            disabled_why: if self.enabled.is_some() { None } else { before.disabled_why },
        };
        endpoint.check().map_err(PushProblem::Bad)?;
        Ok((endpoint, made))
    }
}

impl Engine {
    /// Whether [`Engine::set_push_endpoint`] would refuse. What is refused is no act, and is not written down as one.
    pub async fn check_push_endpoint(&self, name: &str, wish: &PushWish) -> Result<(), EngineError> {
        let there = self.push_endpoint(name).await?;
        let is_new = there.is_none();
        wish.over(name, there)?;
        if is_new && self.push_endpoints().await?.len() >= MOST_ENDPOINTS as usize {
            return Err(PushProblem::TooMany(MOST_ENDPOINTS).into());
        }
        Ok(())
    }

    /// Sets an endpoint up, or changes the one of that name. Answers what it is now, and the secret that was made for it.
    pub async fn set_push_endpoint(
        &self,
        name: &str,
        wish: &PushWish,
    ) -> Result<(PushEndpoint, Option<PushSecret>), EngineError> {
        let mut set = None;
        self.change_push_endpoint(name, |there| {
            let (endpoint, made) = wish.over(name, there)?;
            set = Some((endpoint.clone(), made));
            Ok::<_, EngineError>(Some(endpoint))
        })
        .await?;
        set.ok_or_else(|| EngineError::Outrun(format!("push/{name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(url: Option<&str>, origin: Origin) -> PushWish {
        let queue = Some("orders".to_owned());
        PushWish { queue, url: url.map(str::to_owned), origin, ..PushWish::default() }
    }

    /// Reliability row 60: who gave the address decides where it may lead, whoever changes the rest.
    #[test]
    fn the_origin_follows_the_address() {
        let api = wish(Some("http://hooks.example/a"), Origin::Api);
        let (endpoint, made) = api.over("crm", None).unwrap();
        assert_eq!((endpoint.origin, made.is_some()), (Origin::Api, true));
        let local = PushWish { concurrency: Some(9), ..wish(None, Origin::Local) };
        let (endpoint, made) = local.over("crm", Some(endpoint)).unwrap();
        assert_eq!((endpoint.origin, endpoint.concurrency, made), (Origin::Api, 9, None));
        let (endpoint, _) =
            wish(Some("http://localhost/a"), Origin::Local).over("crm", Some(endpoint)).unwrap();
        assert_eq!(endpoint.origin, Origin::Local);
        let (endpoint, _) =
            wish(Some("http://localhost/a"), Origin::Api).over("crm", Some(endpoint)).unwrap();
        assert_eq!(endpoint.origin, Origin::Api);
    }

    /// R-P15, Standard Webhooks: the secret before is kept while the service changes over, and no longer.
    #[test]
    fn a_new_secret_stands_before_the_one_that_was_there() {
        let first = wish(Some("https://hooks.example/a"), Origin::Local);
        let (endpoint, one) = first.over("crm", None).unwrap();
        let rotate = PushWish { rotate: true, ..PushWish::default() };
        let (endpoint, two) = rotate.over("crm", Some(endpoint)).unwrap();
        assert_eq!(endpoint.secrets, [two.clone().unwrap(), one.unwrap()]);
        let (endpoint, three) = rotate.over("crm", Some(endpoint)).unwrap();
        assert_eq!(endpoint.secrets, [three.unwrap(), two.unwrap()]);
    }

    /// R-P15: what a service disabled stays so until somebody says that it is called again.
    #[test]
    fn what_is_disabled_is_enabled_by_a_word() {
        let (endpoint, _) = wish(Some("https://hooks.example/a"), Origin::Local).over("crm", None).unwrap();
        let gone = PushEndpoint { enabled: false, disabled_why: Some("410".to_owned()), ..endpoint };
        let (still, _) = PushWish::default().over("crm", Some(gone.clone())).unwrap();
        assert_eq!((still.enabled, still.disabled_why.as_deref()), (false, Some("410")));
        let again = PushWish { enabled: Some(true), ..PushWish::default() };
        let (again, _) = again.over("crm", Some(gone)).unwrap();
        assert_eq!((again.enabled, again.disabled_why), (true, None));
        // One that is new and has no address is none.
        let refused = PushWish::default().over("crm", None).unwrap_err();
        assert!(
            matches!(refused, EngineError::Push(PushProblem::Bad(BadEndpoint { field: "queue", .. }))),
            "{refused}"
        );
    }
}
