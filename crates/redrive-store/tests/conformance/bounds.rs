//! Everything is bounded (design invariant 8): one call is one transaction, in which nobody else gets a turn.

use redrive_store::{JobId, LeaseToken, MAX_BATCH, Refusal, Scrap, Settlement, StoreError, Trouble};

use crate::back_end::Given;
use crate::given::{Hand, SECOND, at, job, success, wants};
use crate::import::imported;

fn is_too_many<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    let refused = Refusal::TooMany { count: MAX_BATCH + 1, most: MAX_BATCH };
    assert!(matches!(error.trouble(), Trouble::Refused(why) if *why == refused), "{error}");
}

/// Design invariant 8
pub(crate) async fn a_call_takes_no_more_than_a_batch(given: &Given) {
    let (hand, store) = (Hand(&*given.store), &given.store);
    hand.add(job("a")).await;
    let worker = hand.worker().await;
    let token = LeaseToken { job: JobId(1), fence: 1 };
    let many = MAX_BATCH + 1;
    is_too_many(store.begin(at(0), vec![token; many]).await);
    is_too_many(store.renew(at(0), worker, SECOND, vec![token; many]).await);
    is_too_many(store.settle(at(0), vec![Settlement { token, ending: success() }; many]).await);
    is_too_many(store.redrive(at(0), vec![JobId(1); many], "redrive").await);
    let scrap = Scrap { origin: String::new(), line: 1, why: String::new(), text: Vec::new() };
    is_too_many(store.import(at(0), vec![imported("x", None, 0)], vec![scrap; MAX_BATCH]).await);
    let mut request = wants(worker, &["a"], usize::MAX);
    request.begin = false;
    assert_eq!(store.lease(at(0), request).await.unwrap().len(), 1);
    assert_eq!(store.begin(at(0), vec![token; MAX_BATCH]).await.unwrap().len(), MAX_BATCH);
}
