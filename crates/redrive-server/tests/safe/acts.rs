//! What operators do is written down before it is done, with who and why (R-D3).

use redrive::engine::Scope;

use crate::world::{Ground, Kind, World, until};

/// R-D3: an act over the API is written down with the token that did it, and its reason from the body or the header.
#[tokio::test(flavor = "multi_thread")]
async fn an_act_is_written_down_with_who_and_why() {
    for kind in Kind::all() {
        let ground = Ground::new(kind).await;
        let world = World::on(&ground, |_| ()).await;
        let (id, token) = world.token(&[Scope::Operate, Scope::Read], &[]).await;
        let pause = world.client.post(world.url("/v1/queues/mail/pause")).bearer_auth(&token);
        let answer =
            pause.header("Redrive-Reason", "the provider is down; password=hunter2").send().await.unwrap();
        assert!(answer.status().is_success(), "{kind:?}: {}", answer.text().await.unwrap());
        let acts = world.events("operator_act").await;
        let act = acts.iter().find(|event| event.data["act"] == "queue.pause").expect("it is written down");
        assert_eq!(
            (act.data["who"].as_str(), act.data["target"].as_str()),
            (Some(format!("token:{id}").as_str()), Some("mail"))
        );
        assert_eq!(act.data["why"], "the provider is down; password=[redacted]");
        let paused = world.events("queue_paused").await;
        assert!(paused.iter().all(|event| event.seq > act.seq), "the record comes first");
    }
}

/// R-D3: who is refused is written down as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_written_down() {
    let world = World::new().await;
    let (id, token) = world.token(&[Scope::Read], &[]).await;
    let pause = world.client.post(world.url("/v1/queues/mail/pause")).bearer_auth(&token);
    assert_eq!(pause.send().await.unwrap().status(), 403);
    until("it is written down", async || !world.events("operator_refused").await.is_empty()).await;
    let refused = world.events("operator_refused").await;
    assert_eq!(refused[0].data["who"], format!("token:{id}"));
    assert_eq!(refused[0].data["target"], "POST /v1/queues/mail/pause");
    assert!(world.events("queue_paused").await.is_empty());
    assert_eq!(world.engine.store().status(world.engine.now()).await.unwrap().failed_events, 0);
}
