//! A worker for every endpoint, for as long as there is one: endpoints come, change and go while servers run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::KnownSecrets;
use reqwest::Url;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::send::{Many, One, Pusher};
use super::{PushEndpoint, PushSecret};
use crate::engine::{Engine, EngineError, Shutdown, WorkerReport, host_target};
use crate::http_call::{GuardedCalls, http_client};

/// How often the board is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How much longer than a call its lease lasts.
const SPARE: Duration = Duration::from_secs(30);

/// The clients that pushes go through.
#[derive(Debug, Clone)]
pub struct PushClients {
    /// For endpoints of this machine's own configuration, which may be anywhere.
    pub local: reqwest::Client,
    /// For endpoints that were set over the API: it refuses what they must not reach.
    pub guarded: GuardedCalls,
}

impl PushClients {
    /// Clients of our own; what was set over the API goes through these calls.
    pub fn new(guarded: GuardedCalls) -> Result<PushClients, EngineError> {
        let local = http_client().build().map_err(EngineError::HttpClient)?;
        Ok(PushClients { local, guarded })
    }
}

/// An endpoint that is being pushed to.
struct Live {
    endpoint: PushEndpoint,
    shutdown: Shutdown,
    task: JoinHandle<Result<WorkerReport, EngineError>>,
}

impl Engine {
    /// Pushes to the endpoints on the board and to these of the configuration, which may change, until the shutdown: then what is
    /// under way is finished. Nothing else is done: a worker of this process, which may be one that is
    /// [only present](super::super::WorkerBuilder::only_present), keeps the store in order.
    pub async fn run_pushes(
        &self,
        mut local: watch::Receiver<Vec<PushEndpoint>>,
        clients: PushClients,
        shutdown: &Shutdown,
    ) {
        let mut pushing = Pushing {
            engine: self,
            local: local.borrow_and_update().clone(),
            clients,
            live: HashMap::new(),
            gone: HashSet::new(),
        };
        let mut leaving: Vec<Live> = Vec::new();
        loop {
            match self.push_endpoints().await {
                Ok(board) => leaving.extend(pushing.follow(board)),
                Err(error) => tracing::warn!(%error, "push endpoints cannot be read; those that run go on"),
            }
            leaving.retain(|live| !live.task.is_finished());
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                // Whoever has dropped the other end will change nothing more.
                Ok(()) = local.changed() => pushing.configured(local.borrow_and_update().clone()),
                () = shutdown.draining() => break,
            }
        }
        leaving.extend(pushing.live.into_values());
        for live in &leaving {
            live.shutdown.signal();
        }
        let hurry: Vec<Shutdown> = leaving.iter().map(|live| live.shutdown.clone()).collect();
        let left = async {
            for live in leaving {
                told(&live.endpoint, live.task.await);
            }
        };
        let mut left = std::pin::pin!(left);
        tokio::select! {
            () = &mut left => return,
            () = shutdown.ending_now() => hurry.iter().for_each(Shutdown::now),
        }
        left.await;
    }
}

struct Pushing<'a> {
    engine: &'a Engine,
    local: Vec<PushEndpoint>,
    clients: PushClients,
    live: HashMap<String, Live>,
    /// Of the configuration, and disabled by themselves: until the configuration is read again.
    gone: HashSet<String>,
}

impl Pushing<'_> {
    /// The configuration was read again. Whoever said that it is gone is asked once more: somebody has looked at it since.
    fn configured(&mut self, local: Vec<PushEndpoint>) {
        self.gone.clear();
        self.local = local;
    }

    /// Starts what is new, and answers with what leaves.
    fn follow(&mut self, board: Vec<PushEndpoint>) -> Vec<Live> {
        for (name, live) in &self.live {
            if live.shutdown.is_draining() && self.local.iter().any(|local| local.name == *name) {
                self.gone.insert(name.clone());
            }
        }
        // A name of the configuration is the configuration's.
        let wanted: HashMap<String, PushEndpoint> = board
            .into_iter()
            .chain(self.local.iter().filter(|local| !self.gone.contains(&local.name)).cloned())
            .filter(|endpoint| endpoint.enabled)
            .map(|endpoint| (endpoint.name.clone(), endpoint))
            .collect();
        let stays = |live: &Live| {
            wanted.get(&live.endpoint.name) == Some(&live.endpoint)
                && !live.task.is_finished()
                && !live.shutdown.is_draining()
        };
        let names: Vec<String> =
            self.live.iter().filter(|(_, live)| !stays(live)).map(|(name, _)| name.clone()).collect();
        let leaving: Vec<Live> = names.iter().filter_map(|name| self.live.remove(name)).collect();
        for live in &leaving {
            if !live.shutdown.is_draining() {
                live.shutdown.signal();
            }
        }
        for (name, endpoint) in wanted {
            if !self.live.contains_key(&name)
                && let Some(live) = self.start(endpoint)
            {
                self.live.insert(name, live);
            }
        }
        leaving
    }

    fn start(&self, endpoint: PushEndpoint) -> Option<Live> {
        let url = Url::parse(&endpoint.url)
            .inspect_err(|error| tracing::warn!(%endpoint, %error, "a push endpoint has no address"))
            .ok()?;
        let shutdown = Shutdown::new();
        let secrets = endpoint.secrets.iter().map(PushSecret::reveal);
        let secrets = secrets.flat_map(|whole| [whole.trim_start_matches("whsec_").to_owned(), whole]);
        let known = KnownSecrets::of_webhook(&endpoint.url).with(KnownSecrets::of_values(secrets));
        let pusher = Arc::new(Pusher {
            engine: self.engine.clone(),
            endpoint: endpoint.clone(),
            url,
            known,
            clients: self.clients.clone(),
            shutdown: shutdown.clone(),
        });
        let mut worker = self
            .engine
            .worker()
            .label(format!("push {}, process {}", endpoint.name, std::process::id()))
            .queues([endpoint.queue.clone()])
            .goes_to(host_target(&endpoint.url))
            .concurrency(endpoint.concurrency.saturating_mul(endpoint.batch))
            .lease_for(endpoint.timeout + SPARE)
            .grace(endpoint.timeout + Duration::from_secs(1));
        if endpoint.kinds.is_empty() {
            worker = worker.otherwise(Arc::new(One(pusher)));
        } else {
            for kind in &endpoint.kinds {
                worker = match endpoint.batch {
                    1 => worker.work(kind.clone(), Arc::new(One(Arc::clone(&pusher)))),
                    batch => worker.batches(kind.clone(), batch, Arc::new(Many(Arc::clone(&pusher)))),
                };
            }
        }
        let wish = shutdown.clone();
        let task = tokio::spawn(async move { worker.run(&wish).await });
        Some(Live { endpoint, shutdown, task })
    }
}

fn told(endpoint: &PushEndpoint, ended: Result<Result<WorkerReport, EngineError>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(report)) => tracing::debug!(%endpoint, ?report, "a push worker has left"),
        Ok(Err(error)) => tracing::warn!(%endpoint, %error, "a push worker ended badly"),
        Err(error) => tracing::warn!(%endpoint, %error, "a push worker broke"),
    }
}
