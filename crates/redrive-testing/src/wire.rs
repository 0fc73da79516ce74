//! A wire that is cut at will: a proxy before PostgreSQL that knows where its messages begin and end.
//!
//! A [`Fault`] strikes once, at a message that a [`Moment`] names; messages are counted over all connections from the moment at which it
//! is laid. So a sweep can cut before, in the middle of, and behind each message of a script, in either direction, and stop when
//! a run ends unharmed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What the store sends.
    Client,
    /// What PostgreSQL answers.
    Server,
}

/// A message in the stream of all messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// The n-th message of one side, from 0.
    Message(Side, usize),
    /// The n-th message of one side, from 0, in which this stands.
    Says(Side, &'static str, usize),
}

/// What happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut, and the message is lost.
    CutBefore,
    /// The connection is cut after half of the message.
    CutWithin,
    /// The message is passed on, and the connection is cut at once.
    CutAfter,
    /// From this message on nothing passes on that connection any more, and nobody is told.
    Silence,
    /// The message comes so much later.
    Delay(Duration),
}

#[derive(Debug, Default)]
struct Plan {
    laid: Option<(Moment, Fault)>,
    client: usize,
    server: usize,
    said: usize,
}

impl Plan {
    /// Counts a message, and says what happens to it.
    fn meets(&mut self, side: Side, message: &[u8]) -> Option<Fault> {
        let count = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let number = *count;
        *count += 1;
        let (moment, fault) = self.laid.as_ref()?;
        let strikes = match moment {
            Moment::Message(speaks, n) => *speaks == side && *n == number,
            Moment::Says(speaks, text, n) => {
                let says = *speaks == side && message.windows(text.len()).any(|part| part == text.as_bytes());
                let now = says && *n == self.said;
                self.said += usize::from(says);
                now
            }
        };
        let fault = strikes.then_some(*fault);
        if strikes {
            self.laid = None;
        }
        fault
    }
}

/// The proxy. It runs for as long as this is held.
#[derive(Debug)]
pub struct Wire {
    url: String,
    plan: Arc<Mutex<Plan>>,
    /// Counts how often all connections were cut; odd while nobody may come in.
    door: watch::Sender<u64>,
    accepts: tokio::task::JoinHandle<()>,
}

impl Wire {
    /// Between its callers and the server at `url`, an address as [`Cluster::url`](crate::Cluster::url) gives it.
    pub async fn before(url: &str) -> Wire {
        let (head, rest) = url.rsplit_once('@').expect("a user");
        let (server, database) = rest.split_once('/').expect("a database");
        let server: SocketAddr = server.parse().expect("an address and a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{head}@{}/{database}", listener.local_addr().unwrap());
        let plan = Arc::new(Mutex::new(Plan::default()));
        let door = watch::Sender::new(0);
        let (its_plan, its_door) = (Arc::clone(&plan), door.clone());
        let accepts = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (plan, door) = (Arc::clone(&its_plan), its_door.subscribe());
                if *door.borrow() % 2 == 0 {
                    tokio::spawn(carry(client, server, plan, door));
                }
            }
        });
        Wire { url, plan, door, accepts }
    }

    /// The server, by way of this wire.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Lays a fault, and counts from here on.
    pub fn lay(&self, moment: Moment, fault: Fault) {
        *self.plan() = Plan { laid: Some((moment, fault)), ..Plan::default() };
    }

    /// Whether the fault has struck.
    pub fn has_struck(&self) -> bool {
        self.plan().laid.is_none()
    }

    /// How many messages each side has sent since the last fault was laid.
    pub fn counted(&self) -> (usize, usize) {
        let plan = self.plan();
        (plan.client, plan.server)
    }

    /// Cuts every connection at once, and lets new ones in.
    pub fn cut_all(&self) {
        self.door.send_modify(|cuts| *cuts += 2);
    }

    /// Cuts every connection, and hangs up on whoever comes, until [`Wire::open`].
    pub fn close(&self) {
        self.door.send_modify(|cuts| *cuts = (*cuts | 1) + u64::from(*cuts % 2 == 1) * 2);
    }

    /// Lets everybody in again.
    pub fn open(&self) {
        self.door.send_modify(|cuts| *cuts += *cuts % 2);
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepts.abort();
        self.cut_all();
    }
}

/// One connection, from its first message to its end, whoever ends it. An end needs no reason here: both sides see it.
async fn carry(
    client: TcpStream,
    server: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    mut door: watch::Receiver<u64>,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _quick = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let (mut from_client, mut from_server) = (BufReader::new(from_client), BufReader::new(from_server));
    let talk = async {
        greet(&mut from_client, &mut to_client, &mut to_server).await?;
        tokio::select! {
            end = pump(Side::Client, &mut from_client, &mut to_server, &plan) => end,
            end = pump(Side::Server, &mut from_server, &mut to_client, &plan) => end,
        }
    };
    let _end: Option<std::io::Result<()>> = tokio::select! {
        end = talk => Some(end),
        _cut = door.changed() => None,
    };
}

/// The first message has no type. Encryption is not offered.
async fn greet(
    client: &mut BufReader<OwnedReadHalf>,
    to_client: &mut OwnedWriteHalf,
    to_server: &mut OwnedWriteHalf,
) -> std::io::Result<()> {
    const ASKS_FOR_TLS: [u8; 4] = 80_877_103_u32.to_be_bytes();
    const ASKS_FOR_GSS: [u8; 4] = 80_877_104_u32.to_be_bytes();
    loop {
        let length = client.read_u32().await?;
        let mut message = length.to_be_bytes().to_vec();
        message.resize(usize::try_from(length).unwrap_or(8).max(8), 0);
        client.read_exact(&mut message[4..]).await?;
        if [ASKS_FOR_TLS, ASKS_FOR_GSS].iter().any(|code| message[4..8] == *code) {
            to_client.write_all(b"N").await?;
        } else {
            return to_server.write_all(&message).await;
        }
    }
}

/// Passes one side's messages on, until a fault cuts it.
async fn pump(
    side: Side,
    from: &mut BufReader<OwnedReadHalf>,
    to: &mut OwnedWriteHalf,
    plan: &Mutex<Plan>,
) -> std::io::Result<()> {
    let mut out = Vec::new();
    loop {
        let start = out.len();
        out.push(from.read_u8().await?);
        let length = from.read_u32().await?;
        out.extend_from_slice(&length.to_be_bytes());
        out.resize(start + 1 + usize::try_from(length).unwrap_or(4).max(4), 0);
        from.read_exact(&mut out[start + 5..]).await?;
        let fault = plan.lock().unwrap_or_else(PoisonError::into_inner).meets(side, &out[start..]);
        let passes = match fault {
            Some(Fault::CutBefore | Fault::Silence) => start,
            Some(Fault::CutWithin) => usize::midpoint(start, out.len()),
            Some(Fault::CutAfter | Fault::Delay(_)) | None => out.len(),
        };
        if let Some(Fault::Delay(long)) = fault {
            tokio::time::sleep(long).await;
        }
        // What has come together goes on together.
        if fault.is_some() || from.buffer().is_empty() || out.len() > 1 << 16 {
            to.write_all(&out[..passes]).await?;
            out.clear();
        }
        match fault {
            Some(Fault::CutBefore | Fault::CutWithin | Fault::CutAfter) => return Ok(()),
            Some(Fault::Silence) => std::future::pending().await,
            Some(Fault::Delay(_)) | None => {}
        }
    }
}
