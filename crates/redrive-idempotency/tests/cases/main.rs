//! The rules of idempotency as a client sees them, over every front and every store: the 24 cases of the conformance list. Each case is
//! a function of a front and a place; the report names where it ran: `layer_sqlite::replay::an_answer_is_replayed_byte_for_byte`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod app;
mod front;
#[path = "../shared/place.rs"]
mod place;
mod world;

mod alike;
mod expiry;
mod in_flight;
mod keys;
mod lost;
mod mismatch;
mod outcome;
mod race;
mod replay;
mod size;

/// Every case, over one front and one store.
macro_rules! over {
    ($name:ident, $front:ty, $place:expr) => {
        over! { $name, $front, $place,
            keys [
                a_key_is_demanded_only_where_it_is_required
                a_malformed_key_is_refused_without_a_trace
                a_key_has_at_most_255_characters
                quoted_and_bare_are_the_same_key
                two_headers_are_refused
                a_uuid_is_demanded_where_the_route_says_so
                get_is_ignored
                another_tenant_is_independent
            ]
            replay [
                an_answer_is_replayed_byte_for_byte
                a_replay_says_that_it_is_one_and_has_the_first_date
                set_cookie_is_not_replayed
            ]
            outcome [
                what_is_wrong_for_good_is_replayed
                what_may_pass_is_not_stored
                what_went_wrong_on_the_server_is_kept_as_the_rules_say
                the_service_says_itself_what_becomes_of_the_key
            ]
            in_flight [
                a_second_request_is_told_to_come_again
                a_second_request_waits_where_the_route_says_so
                a_wait_that_is_too_long_ends_with_409
                a_client_that_is_gone_leaves_a_result
                a_client_that_goes_at_any_moment_leaves_no_unknown_outcome
            ]
            mismatch [
                another_body_is_409_or_422
                another_content_type_is_a_mismatch
                another_route_is_a_mismatch
            ]
            expiry [
                a_key_is_known_for_its_time_and_not_a_millisecond_longer
                what_is_in_flight_never_expires
            ]
            lost [
                a_killed_holder_leaves_an_unknown_outcome
                a_route_that_can_bear_it_runs_again
                a_restart_keeps_what_was_answered
            ]
            race [
                a_thousand_requests_with_one_key_run_once
                a_thousand_that_wait_get_the_same_bytes
            ]
            size [
                an_answer_that_is_too_large_reaches_its_caller_and_is_not_kept
                a_stream_without_an_end_reaches_its_caller_and_is_not_kept
                a_request_that_is_too_large_is_refused_without_a_trace
                a_request_that_breaks_off_leaves_no_trace
            ]
        }
    };
    ($name:ident, $front:ty, $place:expr, $($module:ident [$($case:ident)+])+) => {
        mod $name {
            $(mod $module {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        if let Some(place) = $place {
                            crate::$module::$case::<$front>(place).await;
                        }
                    }
                )+
            })+
        }
    };
}

over!(layer_sqlite, crate::front::Layer, Some(crate::place::Place::sqlite()));
over!(layer_postgres, crate::front::Layer, crate::place::Place::postgres());
over!(proxy_sqlite, crate::front::BehindProxy, Some(crate::place::Place::sqlite()));
over!(proxy_postgres, crate::front::BehindProxy, crate::place::Place::postgres());
