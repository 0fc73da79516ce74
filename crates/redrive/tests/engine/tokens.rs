//! Tokens that hold no more make room for others.

use std::time::Duration;

use redrive::engine::{EngineError, NewToken, Scope, Shown, TokenKeeper, TokenProblem};
use redrive_store::{NoticeChange, Posted};

use crate::support::{World, run};

const DAY: Duration = Duration::from_hours(24);
const MOST: usize = 10_000;

fn token(name: &str) -> NewToken {
    NewToken { name: name.to_owned(), scopes: vec![Scope::Produce], ..NewToken::default() }
}

/// More of the token that is there, under other ids, until there are so many.
async fn copy(world: &World, id: &str, ids: impl Iterator<Item = String>) {
    let store = world.engine.store();
    let there = store.notice("token".to_owned(), id.to_owned()).await.unwrap().unwrap();
    let change = |name: String| NoticeChange {
        space: "token".to_owned(),
        name,
        seen: None,
        value: Some(there.value.clone()),
        due_at: None,
    };
    let changes: Vec<NoticeChange> = ids.map(change).collect();
    for some in changes.chunks(5_000) {
        let posted = store.post(world.engine.now(), some.to_vec(), Vec::new(), Vec::new()).await.unwrap();
        assert!(matches!(posted, Posted::Done { .. }));
    }
}

/// Reliability 65: a store may have had any number of tokens: who was revoked or has expired makes room, and who holds does not.
#[test]
fn tokens_that_ended_make_room() {
    run(async {
        let world = World::new();
        let engine = &world.engine;
        let (holds, text) = engine.create_token(token("holds"), "test", None).await.unwrap();
        let expires = NewToken { expires_at: Some(engine.now().after(DAY)), ..token("short") };
        let (short, _) = engine.create_token(expires, "test", None).await.unwrap();
        copy(&world, &short.id, (2..MOST).map(|number| format!("short{number}"))).await;
        let full = engine.create_token(token("more"), "test", None).await;
        assert!(
            matches!(full, Err(EngineError::BadToken(TokenProblem::TooMany))),
            "all of them hold: {full:?}"
        );
        world.clock.advance(2 * DAY);
        for _ in 0..3 {
            engine.create_token(token("more"), "test", None).await.unwrap();
        }
        let all = engine.tokens().await.unwrap();
        assert_eq!(all.len(), MOST, "what ended two days ago is still shown, as far as there is room");
        assert!(all.iter().any(|one| one.id == holds.id), "who holds stays");
        world.clock.advance(30 * DAY);
        engine.create_token(token("more"), "test", None).await.unwrap();
        assert_eq!(
            engine.tokens().await.unwrap().len(),
            MOST - 200 + 1,
            "a month later they go, some at a time"
        );
        let shown = TokenKeeper::new(engine).check(text.reveal()).await.unwrap();
        assert!(matches!(shown, Shown::Good(token) if token.id == holds.id));
    });
}

/// Reliability 65: a store that ever had a token is never open again, however long ago the last one ended.
#[test]
fn that_there_was_a_token_is_never_forgotten() {
    run(async {
        let world = World::new();
        let engine = &world.engine;
        for _ in 0..3 {
            let (made, text) = engine.create_token(token("one"), "test", None).await.unwrap();
            let keeper = TokenKeeper::new(engine);
            assert!(matches!(keeper.check(text.reveal()).await.unwrap(), Shown::Good(_)));
            engine.revoke_token(&made.id, "test", None).await.unwrap();
            world.clock.advance(60 * DAY);
            assert!(engine.has_tokens().await.unwrap());
            assert!(TokenKeeper::new(engine).any().await.unwrap());
        }
        let left = engine.tokens().await.unwrap();
        assert_eq!(left.len(), 2, "each that was made has made those before the last go: {left:?}");
    });
}
