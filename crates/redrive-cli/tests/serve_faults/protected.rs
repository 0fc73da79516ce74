//! Limits of a target hold over two servers that are killed again and again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::counting_server::Counting;
use crate::pair::Pair;
use crate::until_within;
use crate::workers::{Crew, FarSide};

const AT_ONCE: usize = 4;
const CALLS_AT_ONCE: usize = 3;
const A_SECOND: usize = 40;

/// R-P15, R-D2, reliability rows 2 and 29: while servers are killed and come back, never more work of a queue runs than may, nor begins
/// faster than may, by workers over HTTP; nor are more calls made to a host by the servers themselves. Places of the dead come free:
/// everything ends, and nothing is lost.
#[test]
fn killed_servers_pass_no_limit_and_free_their_places() {
    let (called, far) = (Counting::there(), Arc::new(FarSide::default()));
    called.takes(Duration::from_millis(120));
    let url = called.url();
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let toml = format!(
        "[targets.\"queue:orders\"]\nconcurrency = {AT_ONCE}\nrate = \"{A_SECOND}/s\"\n\
         [targets.\"host:{host}\"]\nconcurrency = {CALLS_AT_ONCE}\nbreaker = false\nbudget = false\n\
         [server]\nallow = [\"{host}\"]\n"
    );
    let Some(mut pair) = Pair::start(&toml, "--concurrency 4 --queue calls") else { return };
    let (jobs, calls) = (240, 60);
    let order = |n: usize| json!({ "kind": "order", "queue": "orders", "payload": { "n": n } });
    let call = |n: usize| json!({ "kind": "http", "queue": "calls", "payload": { "method": "POST", "url": url, "body": n.to_string() } });
    pair.doors.enqueue(&(0..jobs).map(order).collect::<Vec<Value>>());
    pair.doors.enqueue(&(0..calls).map(call).collect::<Vec<Value>>());
    let crew = Crew::work(&pair.doors, &far, "orders", 12, Duration::from_millis(80));
    for kill in 0..6 {
        std::thread::sleep(Duration::from_millis(900));
        pair.kill(kill % 2);
    }
    let ended = |queue: &Value| queue["succeeded"].as_u64().unwrap_or(0);
    until_within(Duration::from_mins(3), "not everything ends", || {
        let (orders, called) = (pair.queue("orders"), pair.queue("calls"));
        (ended(&orders), ended(&called)) == (jobs as u64, calls as u64)
    });
    drop(crew);
    for queue in ["orders", "calls"] {
        let stands = pair.queue(queue);
        assert_eq!(
            (&stands["ready"], &stands["leased"], &stands["dead"]),
            (&json!(0), &json!(0), &json!(0)),
            "{stands}"
        );
    }
    assert_eq!(far.done().0, jobs, "every order was done");
    assert_eq!(called.keys().len(), calls, "every call was made");
    let (orders, calls) = (far.most_at_once(), called.most_at_once());
    println!("{orders} orders and {calls} calls at a time; done twice: {}", far.done().1);
    assert_eq!(orders, AT_ONCE, "as many as may, and no more");
    assert_eq!(calls, CALLS_AT_ONCE, "as many as may, and no more");
    // Whoever was parked may catch up within a second, and each that runs may have been on its way for a while.
    let began = far.began();
    for (n, first) in began.iter().enumerate() {
        let within = began[n..]
            .iter()
            .take_while(|at| at.duration_since(*first).unwrap_or_default() < Duration::from_secs(1));
        let count = within.count();
        assert!(count <= 2 * A_SECOND + AT_ONCE + 1, "{count} began within a second");
    }
    assert_eq!(pair.home.redrive("store check").0, Some(0));
}
