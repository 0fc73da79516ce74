//! The verbs that both builders share, written once.
//!
//! A builder has `terms`, which gives its terms to be written into, and `reshape`, which puts another reporter and
//! other hooks into it. The two literals open and close the doc examples around the verb that is shown.

macro_rules! shared_verbs {
    ($open:literal, $close:literal) => {
        /// What the work is called in messages and logs.
        ///
        /// ```
        #[doc = $open]
        ///     .named("fetch the rates")
        #[doc = $close]
        /// ```
        pub fn named(mut self, name: impl Into<std::borrow::Cow<'static, str>>) -> Self {
            self.terms().name = Some(name.into());
            self
        }

        /// Ends everything within so long of the beginning. No attempt and no wait may end later: a wait that
        /// would reach the deadline is not begun. (A blocking attempt cannot be cut off while it runs.)
        ///
        /// ```
        #[doc = $open]
        ///     .deadline(Duration::from_secs(30))
        #[doc = $close]
        /// ```
        pub fn deadline(mut self, total: std::time::Duration) -> Self {
            self.terms().deadline = Some(total);
            self
        }

        /// Lets somebody else end it, at once, while it waits or runs.
        ///
        /// ```
        /// let cancel = redrive::Cancel::new();
        #[doc = $open]
        ///     .cancelled_by(&cancel)
        #[doc = $close]
        /// ```
        pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
            self.terms().cancel = Some(cancel.clone());
            self
        }

        /// Takes a panic in an attempt for a failure with the cause `crashed`, which is charged to the policy's
        /// crash budget. Without this a panic passes through.
        ///
        /// Panics of what belongs to an attempt are caught too: when it is dropped because its time is over, when
        /// what it panicked with is dropped, and when its error is read, which is then of an unknown cause.
        ///
        /// ```
        #[doc = $open]
        ///     .catch_panics()
        #[doc = $close]
        /// ```
        pub fn catch_panics(mut self) -> Self {
            self.terms().catch_panics = true;
            self
        }

        /// Recognises failures by another classifier, such as one with rules of one's own.
        ///
        /// ```
        #[doc = $open]
        ///     .classifier(redrive::Classifier::with_user_rules(Vec::new()))
        #[doc = $close]
        /// ```
        pub fn classifier(mut self, classifier: impl Into<std::sync::Arc<Classifier>>) -> Self {
            self.terms().classifier = Some(classifier.into());
            self
        }

        /// Draws jitter from this seed, so that the delays repeat.
        ///
        /// ```
        #[doc = $open]
        ///     .seed(7)
        #[doc = $close]
        /// ```
        pub fn seed(self, seed: u64) -> Self {
            self.rng(Rng::seeded(seed))
        }

        /// Draws jitter from this generator.
        ///
        /// ```
        #[doc = $open]
        ///     .rng(redrive::Rng::seeded(7))
        #[doc = $close]
        /// ```
        pub fn rng(mut self, rng: Rng) -> Self {
            self.terms().rng = Some(rng);
            self
        }
    };
}

/// The verbs that change the builder's type.
macro_rules! shaping_verbs {
    ($builder:ident<$($kept:ident),+>, $open:literal, $close:literal) => {
        /// Reads the evidence out of an error by a closure: for errors without [`IntoFailure`], or to say more.
        ///
        /// [`IntoFailure`]: crate::IntoFailure
        ///
        /// ```
        #[doc = $open]
        ///     .classify_with(|error| redrive::Report::chain(error).with_status(503))
        #[doc = $close]
        /// ```
        pub fn classify_with<R2>(self, report: R2) -> $builder<$($kept),+, By<R2>, H>
        where
            R2: Fn(&E) -> Report<'_>,
        {
            self.reshape(|_, hooks| (By(report), hooks))
        }

        /// Has the last say: asked after the policy has decided to retry; `false` ends it.
        ///
        /// ```
        #[doc = $open]
        ///     .when(|attempt| attempt.number < 3 && attempt.failure.http_status != Some(501))
        #[doc = $close]
        /// ```
        pub fn when<P>(self, predicate: P) -> $builder<$($kept),+, R, When<H, P>>
        where
            P: FnMut(&Attempt<E>) -> bool,
        {
            self.reshape(|reporter, hooks| (reporter, When(hooks, predicate)))
        }

        /// Tells the number of the attempt that failed (from 1), why, and how long will be waited — before the wait.
        ///
        /// The callback returns nothing, or `Option<Policy>`: another policy for what remains, under which the
        /// retries made so far still count. It may return a `Result` of either; its error is logged and not fatal,
        /// and neither is a panic.
        ///
        /// ```
        #[doc = $open]
        ///     .on_retry(|attempt, failure, delay| eprintln!("{attempt}: {}, again in {delay:?}", failure.cause))
        #[doc = $close]
        /// ```
        pub fn on_retry<C, A>(self, callback: C) -> $builder<$($kept),+, R, OnRetry<H, C>>
        where
            C: FnMut(u32, &Failure, std::time::Duration) -> A,
            A: OnRetryAnswer,
        {
            self.reshape(|reporter, hooks| (reporter, OnRetry(hooks, callback)))
        }

        /// Tells the end, when it is not a success.
        ///
        /// ```
        #[doc = $open]
        ///     .on_failure(|error| eprintln!("{error}"))
        #[doc = $close]
        /// ```
        pub fn on_failure<C>(self, callback: C) -> $builder<$($kept),+, R, OnFailure<H, C>>
        where
            C: FnMut(&RetryError<E>),
        {
            self.reshape(|reporter, hooks| (reporter, OnFailure(hooks, callback)))
        }
    };
}

pub(crate) use {shaping_verbs, shared_verbs};
