//! A retry inside a retry, and what `?` makes of its end (R-P13): judged once, by what its last attempt ended with.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

use redrive::{Cause, Fail, RetryError, RetryExt, fail};

mod work;
use work::*;

mod nested {
    //! R-P13: a retry inside a retry is judged once.
    use super::*;
    use redrive::{IntoFailure, Report, Verdict, report_chain};
    use std::error::Error;

    #[derive(Debug, thiserror::Error)]
    enum Wrapped {
        #[error("could not load the rates")]
        Source(#[source] RetryError<Fail>),
        #[error(transparent)]
        Transparent(RetryError<Fail>),
    }
    impl IntoFailure for Wrapped {
        fn report(&self) -> Report<'_> {
            report_chain(self)
        }
        fn never_sent(&self) -> bool {
            false
        }
    }

    fn vetoed() -> impl Future<Output = Result<(), RetryError<Fail>>> {
        (|| async { Err::<(), _>(fail(Cause::Network, "no").code("E17").retry_after(seconds(9))) })
            .retry(at_once(3))
            .when(|_| false)
    }

    /// What an outer retry makes of an error: how many attempts, and which failure.
    async fn outer<E: IntoFailure, Fut: Future<Output = Result<(), E>>>(
        inner: impl FnMut() -> Fut,
    ) -> (u32, redrive::Failure) {
        let error = inner.retry(at_once(2)).await.unwrap_err();
        (error.attempts_made(), error.into_attempts().pop().unwrap().failure)
    }

    fn check((made, failure): (u32, redrive::Failure)) {
        assert_eq!((made, failure.cause, failure.verdict), (1, Cause::Network, Verdict::No));
        assert_eq!(failure.code.unwrap().as_str(), "E17");
        assert_eq!(failure.retry_after, Some(seconds(9)));
    }

    /// R-P13: a veto holds for outer retries as well, however the inner error is wrapped.
    #[tokio::test(start_paused = true)]
    async fn a_veto_holds_for_the_outer_retry() {
        check(outer(vetoed).await);
        check(outer(|| async { vetoed().await.map_err(Wrapped::Source) }).await);
        check(outer(|| async { vetoed().await.map_err(Wrapped::Transparent) }).await);
        check(outer(|| async { vetoed().await.map_err(std::io::Error::other) }).await);
        check(
            outer(|| async { vetoed().await.map_err(|e| Box::new(e) as Box<dyn Error + Send + Sync>) }).await,
        );
    }

    /// R-P13: what a closure found is not judged again, and neither is what has no error of its own.
    #[tokio::test(start_paused = true)]
    async fn what_was_found_stays_found() {
        let revoked = || {
            (|| async { Err::<(), _>(Foreign(503)) })
                .retry(at_once(3))
                .classify_with(|_| Report::said(Cause::AuthError, Verdict::No, "revoked"))
        };
        let (made, failure) = outer(revoked).await;
        assert_eq!((made, failure.cause), (1, Cause::AuthError));
        let crashed = || {
            (|| async { if true { panic!("bug") } else { Ok::<(), Fail>(()) } })
                .retry(at_once(3))
                .catch_panics()
                .named("probe the connection timeout: 429 too many requests")
        };
        let (_, failure) = outer(|| async { crashed().await.map_err(Wrapped::Source) }).await;
        assert_eq!(failure.cause, Cause::Crashed, "a name is no evidence");
    }

    /// R-P13: that nothing was sent is known through any wrapper.
    #[tokio::test(start_paused = true)]
    async fn nothing_sent_is_known_from_outside() {
        let refused = || async { Err::<(), _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) };
        let error = refused.retry(at_once(1)).await.unwrap_err();
        assert!(std::io::Error::other(error).never_sent());
    }

    /// A chain that is printed says nothing twice, and what is behind the last error is still there.
    #[tokio::test(start_paused = true)]
    async fn a_chain_says_nothing_twice() {
        let root = || std::io::Error::other("disk on fire");
        let error = (|| async { Err::<(), _>(fail(Cause::AuthError, "key revoked").because(root())) })
            .retry(at_once(1))
            .await
            .unwrap_err();
        assert!(error.source().unwrap().is::<std::io::Error>());
        let whole = redrive::Words::Chain(&error).render().into_owned();
        assert_eq!(whole.matches("key revoked").count(), 1, "{whole}");
        assert!(whole.ends_with("; last: key revoked: disk on fire"), "{whole}");
    }
}

/// `?` passes the end of a retry on, whatever error it was made of.
mod question_mark {
    use super::*;
    use std::error::Error;
    type Boxed = Box<dyn Error + Send + Sync>;

    async fn boxed() -> Result<u32, Boxed> {
        Ok("x".parse()?)
    }

    async fn words() -> Result<u32, String> {
        Err("no such host".to_owned())
    }

    async fn into_box() -> Result<u32, Boxed> {
        let first = boxed.retry(at_once(0)).await;
        assert!(first.is_err());
        words.retry(at_once(0)).await?;
        Ok(first?)
    }

    /// R-P13: boxed errors and plain words.
    #[tokio::test]
    async fn passes_boxes_and_words_on() {
        let error = into_box().await.unwrap_err();
        assert!(error.to_string().ends_with("; last: no such host"), "{error}");
    }

    /// R-P13: anyhow in, anyhow out.
    #[cfg(feature = "anyhow")]
    #[tokio::test]
    async fn passes_anyhow_on() {
        async fn load() -> anyhow::Result<u32> {
            Err(anyhow::Error::from(reset()).context("could not load the rates"))
        }
        async fn all() -> anyhow::Result<u32> {
            let _ = words.retry(at_once(0)).await.map_err(anyhow::Error::from);
            let _ = boxed.retry(at_once(0)).await.map_err(anyhow::Error::from);
            Ok(load.retry(at_once(1)).named("loading").await?)
        }
        let error = all().await.unwrap_err();
        let whole = format!("{error:#}");
        assert!(whole.starts_with("loading gave up after 2 attempts: "), "{whole}");
        assert!(whole.ends_with("; last: could not load the rates: connection reset by peer"), "{whole}");
    }
}
