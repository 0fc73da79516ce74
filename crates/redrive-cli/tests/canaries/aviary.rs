//! A store with tokens, a configuration and an environment full of secrets, and what is asked of it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Canary, Everything, Parrot, canary};
use crate::serve_home::{Home, PATIENCE, Serving};

/// Not a secret: a queue's name, which is told everywhere. Where the search does not find it, it finds nothing.
pub const CONTROL: &str = "Chiffchaff-Pipit";
/// What the environment holds.
pub const ENV_TOKEN: &str = "Kestrel+Vane/\"One\"";
pub const ENV_PASSWORD: &str = "Marten Rook & Two";
pub const ENV_ADDRESS: &str = "Plover_Finch";
/// What requests to us are made with.
pub const ASKED_API_KEY: &str = "Osprey-Heron";
pub const ASKED_COOKIE: &str = "Bittern-Crake";
pub const ASKED_TOKEN: &str = "Shrike-Wagtail";
pub const ASKED_WHY: &str = "Dunnock-Linnet";
pub const ASKED_QUERY: &str = "Pochard-Smew";
/// What calls are made with.
pub const CALL_TICKET: &str = "Redpoll Siskin";
pub const CALL_AUTH: &str = "Twite-Brambling";
pub const CALL_COOKIE: &str = "Hoopoe-Roller";
pub const CALL_USER: &str = "Godwit-Knot";
pub const CALL_PATH: &str = "b8Wryneck4Hobby21q";
pub const CALL_QUERY: &str = "Sanderling-Dunlin";
pub const CALL_FRAGMENT: &str = "Whimbrel-Curlew";
pub const CALL_BODY: &str = "Gannet-Fulmar";
/// What commands are given.
pub const ARGV_OPTION: &str = "Petrel-Skua";
pub const ARGV_HEADER: &str = "Guillemot-Auk";
pub const ARGV_ADDRESS: &str = "Puffin-Tern";
pub const STEP_ENV: &str = "Avocet-Stilt";
/// What other workers are given.
pub const PULL_PAYLOAD: &str = "Nuthatch/Wren";
pub const PUSH_PATH: &str = "Firecrest-Goldcrest";
pub const PUSH_QUERY: &str = "Treecreeper-Dipper";
pub const PUSH_PAYLOAD: &str = "Ouzel-Fieldfare";
pub const PUSH_API_PATH: &str = "Corncrake-Rail";
pub const PUSH_SIGNING: [u8; 32] = *b"Nightjar-Nightingale-Nutcracker!";
/// What the configuration holds.
pub const ALERT_PATH: &str = "Redwing-Thrush";
pub const ALERT_HEADER: &str = "Blackcap-Whinchat";
pub const ALERT_ARGV: &str = "Stonechat-Wheatear";
/// What waits.
pub const SCHEDULE_ARGV: &str = "Yaffle-Jackdaw";
pub const OUTBOX_HEADER: &str = "Capercaillie-Grouse";
pub const OUTBOX_BODY: &str = "Ptarmigan-Quail";

/// A store, a server, and all that was planted in it.
pub struct Aviary {
    pub home: Home,
    pub parrot: Parrot,
    key: Option<String>,
    tokens: BTreeMap<&'static str, String>,
    pub told: Everything,
}

pub fn refuses(first: &str, before: usize) -> &'static str {
    match first {
        "alerts" | "http" if before == 0 => "503 Service Unavailable",
        "alerts" => "200 OK",
        _ => "422 Unprocessable Content",
    }
}

impl Aviary {
    pub fn new(encrypted: bool) -> Aviary {
        let home = Home::new();
        let parrot = Parrot::new(refuses);
        let at = parrot.address;
        home.configure(&format!(
            "policy = \"quick\"\n[policies.quick]\nextends = \"standard\"\nmax_retries = 1\nbackoff = {{ type = \"fixed\", initial_delay = \"1ms\" }}\n\
             [server]\nallow = [\"{at}\"]\n\
             [[push]]\nname = \"crm\"\nqueue = \"pushed\"\nsecret_env = [\"CRM_SIGNING\"]\n\
             url = \"http://{at}/push/{PUSH_PATH}?for={PUSH_QUERY}\"\n\
             [alerts]\ndead_letters = 1\n\
             [[alerts.receivers]]\nname = \"chat\"\nwebhook = \"http://{at}/alerts/{ALERT_PATH}\"\n\
             headers = {{ X-Route = \"{ALERT_HEADER}\" }}\n\
             [[alerts.receivers]]\nname = \"pager\"\ncommand = [\"./page.sh\", \"--token\", \"{ALERT_ARGV}\"]\n"
        ));
        let page = "#!/bin/sh\n{ echo \"$@\"; cat; env | grep '^REDRIVE'; } >> paged.txt\necho \"marker-page $*\" >&2\nexit 1\n";
        std::fs::write(home.path("page.sh"), page).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(home.path("page.sh")).status().unwrap().success());
        let mut aviary =
            Aviary { home, parrot, key: None, tokens: BTreeMap::new(), told: Everything::default() };
        if encrypted {
            aviary.key = Some(aviary.run(&["store", "keygen", "--id", "k"]).trim().to_owned());
        }
        for (name, scopes) in [
            ("looks", "read,operate,admin,produce"),
            ("works", "work,produce"),
            ("reads", "read,read:payload"),
        ] {
            let text = aviary.run(&["token", "create", name, "--scope", scopes]).trim().to_owned();
            assert!(text.starts_with("rdv_"), "{text}");
            aviary.tokens.insert(name, text);
        }
        aviary
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.home.command(words);
        command
            .env("DEPLOY_TOKEN", ENV_TOKEN)
            .env("BILLING_PASSWORD", ENV_PASSWORD)
            .env("DATABASE_URL", format!("postgres://app:{ENV_ADDRESS}@db.example/x"))
            .env("CRM_SIGNING", format!("whsec_{}", STANDARD.encode(PUSH_SIGNING)))
            .env("RUST_LOG", "trace")
            .env("RUST_BACKTRACE", "full");
        if let Some(key) = &self.key {
            command.env("REDRIVE_KEY", key);
        }
        command
    }

    /// What a command says on stdout; what it says on stderr is told.
    pub fn run(&mut self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.told.add(format!("stderr of {}", words[0]), text(&output.stderr));
        text(&output.stdout)
    }

    /// All that a command says is told.
    pub fn look(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let stdout = self.run(&words);
        assert!(!stdout.is_empty() || line.contains("trace") || line.contains("show"), "{line} says nothing");
        self.told.add(line, stdout);
    }

    pub fn ask(&self, serving: &Serving, token: &str, line: &str, more: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        let token = self.tokens.get(token).map_or_else(|| token.to_owned(), Clone::clone);
        let (host, length) = (&serving.address, body.len());
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {length}\r\nX-Api-Key: {ASKED_API_KEY}\r\n\
             Cookie: session={ASKED_COOKIE}\r\nRedrive-Reason: password={ASKED_WHY}\r\n{more}\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        // A stream of events does not end by itself.
        stream
            .set_read_timeout(Some(Duration::from_secs(if more.contains("event-stream") { 2 } else { 60 })))
            .unwrap();
        let (mut answer, mut chunk) = (Vec::new(), vec![0; 65_536]);
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            answer.extend_from_slice(&chunk[..read]);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_default(), answer)
    }

    /// Asks with the token that may not see payloads; the whole answer is told.
    pub fn ask_and_tell(&mut self, serving: &Serving, line: &str, more: &str, body: &str) -> (u16, String) {
        let (status, answer) = self.ask(serving, "looks", line, more, body);
        self.told.add(format!("the answer to {line} {more}"), answer.clone());
        (status, answer)
    }

    pub fn secrets(&self) -> Vec<Canary> {
        let mut all = vec![
            canary("a variable called DEPLOY_TOKEN", ENV_TOKEN),
            canary("a variable called BILLING_PASSWORD", ENV_PASSWORD),
            canary("the password in DATABASE_URL", ENV_ADDRESS),
            canary("X-Api-Key of a request", ASKED_API_KEY),
            canary("Cookie of a request", ASKED_COOKIE),
            canary("Authorization of a request", ASKED_TOKEN),
            canary("a reason for an act", ASKED_WHY),
            canary("the query of a request", ASKED_QUERY),
            canary("a header of a call", CALL_TICKET),
            canary("Authorization of a call", CALL_AUTH),
            canary("Cookie of a call", CALL_COOKIE),
            canary("the password in a call's address", CALL_USER),
            canary("the path of a call's address", CALL_PATH),
            canary("the query of a call's address", CALL_QUERY),
            canary("the fragment of a call's address", CALL_FRAGMENT),
            canary("a field of a call's body", CALL_BODY),
            canary("an option of a command", ARGV_OPTION),
            canary("a header on a command line", ARGV_HEADER),
            canary("an address on a command line", ARGV_ADDRESS),
            canary("a variable of a step", STEP_ENV),
            canary("a payload of a worker elsewhere", PULL_PAYLOAD),
            canary("the path of a push endpoint", PUSH_PATH),
            canary("the query of a push endpoint", PUSH_QUERY),
            canary("a payload that is pushed", PUSH_PAYLOAD),
            canary("the path of a push endpoint set over the API", PUSH_API_PATH),
            canary("the secret that pushes are signed with", String::from_utf8_lossy(&PUSH_SIGNING)),
            canary("the path of a receiver's webhook", ALERT_PATH),
            canary("a header of a receiver", ALERT_HEADER),
            canary("the command line of a receiver", ALERT_ARGV),
            canary("the command line of a schedule", SCHEDULE_ARGV),
            canary("a header of the outbox", OUTBOX_HEADER),
            canary("a field of the outbox", OUTBOX_BODY),
        ];
        all.extend(self.tokens.values().map(|text| canary("a token", &text[15..])));
        // The id stands before it, and is told.
        all.extend(
            self.key.iter().map(|key| canary("the key of the store", key.rsplit([' ', ':']).next().unwrap())),
        );
        all
    }
}

/// A process whose words are all kept.
pub struct Talking {
    child: Child,
    words: std::thread::JoinHandle<String>,
}

impl Talking {
    pub fn started(mut command: Command) -> Talking {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let words = std::thread::spawn(move || {
            let beside = std::thread::spawn(move || {
                let mut text = Vec::new();
                out.read_to_end(&mut text).unwrap();
                text
            });
            let mut text = Vec::new();
            err.read_to_end(&mut text).unwrap();
            text.extend(beside.join().unwrap());
            String::from_utf8_lossy(&text).into_owned()
        });
        Talking { child, words }
    }

    pub fn ended(mut self) -> String {
        // The second time it ends at once; who has ended already is only looked after.
        for _ in 0..2 {
            if self.child.try_wait().unwrap().is_none() {
                let pid = self.child.id().to_string();
                assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        self.child.wait().unwrap();
        self.words.join().unwrap()
    }
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}
