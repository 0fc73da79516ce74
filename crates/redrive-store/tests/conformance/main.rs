//! One suite for every back end: plain functions over `dyn Store`, by noun. Each test ends with a clean `check`.
//!
//! A function that is not in the list below does not compile without a warning, so none is forgotten.
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod back_end;
mod begin;
mod board;
mod bounds;
mod close;
mod dead_letter;
mod enqueue;
mod event;
#[path = "../given/mod.rs"]
mod given;
mod groups;
mod idempotency;
mod import;
mod job;
mod job_list;
mod key_counts;
mod lease;
mod letters;
mod metrics;
mod open_work;
mod outbox;
mod page;
mod prune;
mod queues;
mod redrive;
mod redrive_runs;
mod renew;
mod seize;
mod settle;
mod status;
mod tasks;
mod told_tasks;
mod unique_key;
mod wait;
mod worker;

use back_end::Given;
use given::Hand;

/// Runs one test on a fresh store, and checks the store afterwards. A back end that this machine cannot have has said so.
async fn prove(given: Option<Given>, test: impl AsyncFnOnce(&Given)) {
    let Some(given) = given else { return };
    test(&given).await;
    Hand(&*given.store).clean().await;
    given.store.close().await.unwrap();
}

macro_rules! suite {
    ($back_end:ident) => {
        mod $back_end {
            suite!(@ $back_end enqueue [
                a_job_is_read_back_as_it_was_given, either_all_or_none, limits_are_kept, nothing_at_all_is_fine,
                bad_calls_do_not_hurt_their_neighbours,
            ]);
            suite!(@ $back_end unique_key [
                a_duplicate_answers_the_first_job, each_queue_has_its_own, a_race_has_one_winner,
                freed_by_success_cancel_and_death, redrive_is_refused_while_the_key_is_taken,
            ]);
            suite!(@ $back_end lease [
                two_workers_never_share_a_job, large_jobs_are_handed_out_a_few_at_a_time, priority_comes_first_then_time, later_work_hides_nothing,
                only_what_was_asked_for, max_is_kept, not_begun_is_not_counted, past_its_deadline_nothing_begins,
                the_fence_grows, a_lease_may_last_for_ever, a_dropped_answer_gives_back_uncounted,
                an_answer_dropped_at_any_moment_gives_back_uncounted,
            ]);
            suite!(@ $back_end wait [
                answered_by_an_enqueue, answered_by_an_enqueue_elsewhere, answered_when_the_time_comes,
                ends_with_nothing, everybody_who_can_work_is_woken, answered_by_a_settlement,
            ]);
            suite!(@ $back_end begin [
                twice_is_once, a_lost_lease_does_not_begin, each_token_has_its_answer, past_the_deadline_it_is_refused,
            ]);
            suite!(@ $back_end renew [
                a_heartbeat_extends, a_lost_lease_is_told, a_wish_to_cancel_is_told, presence_lasts_longer, any_worker_may_renew_and_settle,
            ]);
            suite!(@ $back_end settle [
                success_ends_the_job, a_stale_token_changes_nothing, the_same_twice_in_one_call,
                snoozed_and_released_are_uncounted, a_wish_to_cancel_sticks, retries_and_crashes_are_charged_apart,
                a_retry_waits_for_its_time, a_time_beyond_all_calendars_is_read_back, a_hint_reaches_the_next_attempt_only, many_at_once,
                parked_work_is_uncounted_and_keeps_its_hint, a_target_is_read_back,
            ]);
            suite!(@ $back_end seize [
                what_expired_is_taken_over, what_never_began_is_not_counted, at_most_so_many,
                a_zombie_settles_nothing, a_cancelled_job_is_over_with_its_lease,
                a_clock_that_goes_forward_takes_nothing_from_the_living, a_clock_that_goes_back_frees_leases_all_the_same,
                inline_work_dies_with_its_process, a_job_that_kills_its_workers_is_counted,
            ]);
            suite!(@ $back_end worker [
                presence_ends, reserved_work_is_for_one_worker, leaving_frees_what_was_reserved,
                a_reservation_for_a_stranger_does_not_strand_the_job, inline_work_left_behind_is_seized,
                released_work_stays_reserved, freed_work_can_end,
                who_was_taken_for_gone_comes_back,
            ]);
            suite!(@ $back_end dead_letter [
                a_letter_has_its_fields, pages_follow_each_other, filters_choose, cancelling_ends_a_letter,
            ]);
            suite!(@ $back_end redrive [
                a_fresh_budget_and_the_old_story, redriven_inline_work_is_everybodys, only_letters_go_back, twice_in_a_row, a_job_that_was_run_now,
                a_deadline_that_passed_is_renewed,
            ]);
            suite!(@ $back_end redrive_runs [
                a_run_is_read_back, a_step_counts_for_who_knows_the_version, a_race_has_one_winner,
                a_run_puts_a_letter_back_once, each_letter_has_its_answer, one_holds_a_run, first_attempts_are_judged,
                what_is_not_judged_is_not_listed, an_end_is_told, old_runs_go,
            ]);
            suite!(@ $back_end tasks [
                a_task_is_read_back, tasks_are_found_by_place, a_step_begins_jobs, who_waits_gets_what_begins,
                what_begins_is_enqueued_as_anything, a_step_counts_for_who_knows_the_version, a_race_has_one_winner,
                one_holds_a_task, begun_tells_each_standing, a_job_without_a_story_is_gone, marks_move_subtasks,
                a_step_tells_its_events, an_end_is_told, a_task_is_reopened, what_is_seen_is_known, old_tasks_go,
            ]);
            suite!(@ $back_end open_work [
                tasks_are_found_page_by_page, who_has_a_task_is_seen, who_only_waits_is_seen, runs_are_found_page_by_page,
            ]);
            suite!(@ $back_end told_tasks [those_that_people_were_told_of_are_found]);
            suite!(@ $back_end idempotency [
                an_answer_is_replayed, another_request_is_a_mismatch, in_flight_nobody_else_runs_it,
                a_silent_holder_leaves_an_unknown_outcome, a_rerun_takes_over, an_answer_is_forgotten_in_time,
                in_flight_never_expires_and_unknown_does, a_late_completion_counts, a_late_heartbeat_holds_on,
                a_clock_that_was_ahead_holds_no_key,
                what_is_given_up_is_unknown, what_is_released_is_free, a_person_resets_a_key, principals_are_independent,
                of_a_thousand_one_runs_it, a_crowd_gets_the_answer, a_claim_dropped_before_its_answer_frees_the_key, a_sweep_is_bounded, answers_are_kept_byte_by_byte, too_much_is_refused,
                records_are_listed_in_pages,
            ]);
            suite!(@ $back_end key_counts [counts_are_added_to_the_hour]);
            suite!(@ $back_end outbox [
                an_item_is_read_back, the_same_key_is_the_same_item, a_lane_keeps_its_order, one_holds_a_lane,
                a_begun_send_is_counted, what_never_left_is_uncounted, what_failed_is_put_back_at_its_place,
                what_is_discarded_is_gone, items_are_listed_in_pages, what_was_sent_is_forgotten, a_save_has_one_key,
                old_saves_are_forgotten,
            ]);
            suite!(@ $back_end board [
                a_change_counts_for_who_has_seen_the_version, outrun_leaves_nothing_behind, outrun_hurts_no_neighbour,
                a_version_never_returns, the_most_urgent_come_first, several_change_together, notices_are_listed_in_pages,
                jobs_and_events_come_with_it, its_jobs_wake_who_waits, a_race_has_one_winner, what_cannot_be_stored_is_refused,
            ]);
            suite!(@ $back_end groups [
                letters_of_one_kind_are_one_group, a_group_follows_its_redrive, a_change_of_state_is_told,
                failing_in_the_same_way_is_a_relapse, another_failure_is_another_group,
                letters_that_go_leave_their_group, a_person_says_where_a_group_stands, old_groups_go,
            ]);
            suite!(@ $back_end letters [
                heads_say_what_is_short, every_filter_chooses_and_counts, both_orders_page_by_page, a_test_looks_no_further_than_it_may,
                a_replaced_payload_is_kept, who_comes_too_late_edits_nothing, only_a_letter_is_edited, what_is_discarded_is_gone,
                a_letter_from_elsewhere_is_one_of_ours, a_letter_comes_in_once,
                a_letter_from_elsewhere_is_kept_from_its_coming_on,
            ]);
            suite!(@ $back_end queues [
                nothing_is_handed_out_while_paused, what_runs_goes_on, reserved_work_waits_too, new_work_is_not_handed_over,
                resuming_wakes_who_waits, resuming_elsewhere_wakes_who_waits, pausing_twice_is_once, a_bad_name_is_refused,
            ]);
            suite!(@ $back_end metrics [
                every_end_is_counted, a_redrive_is_counted_to_its_end, hours_and_queues_stand_apart, old_hours_go,
            ]);
            suite!(@ $back_end job [
                run_now_makes_it_due, run_now_answers_for_every_state, cancel_answers_for_every_state,
                unfinished_knows_queues_and_kinds, a_job_run_now_ends_without_a_trace,
            ]);
            suite!(@ $back_end job_list [
                a_job_is_listed_as_it_stands, filters_choose, pages_follow_each_other, a_look_is_bounded,
            ]);
            suite!(@ $back_end event [
                what_was_appended_is_read_back, the_state_is_found_by_itself, filters_choose,
                job_filters_choose, causality_goes_back_to_the_beginning, bad_events_are_refused,
                a_follower_is_told, a_follower_elsewhere_is_told, a_look_without_waiting_sees_others,
                events_about_a_job_do_not_disturb_it, events_about_a_job_are_found_with_it,
            ]);
            suite!(@ $back_end import [
                a_place_is_no_id_of_what_came_from_elsewhere,
                twice_adds_nothing, parents_are_found_by_their_ids, what_cannot_be_read_is_kept, what_cannot_be_stored_is_refused,
            ]);
            suite!(@ $back_end prune [
                living_jobs_and_letters_keep_their_events, old_letters_go, a_round_is_bounded,
                an_import_comes_back_after_it,
            ]);
            suite!(@ $back_end close [
                afterwards_everything_is_refused, whoever_is_under_way_has_an_answer,
                whoever_waits_is_answered,
            ]);
            suite!(@ $back_end bounds [
                a_call_takes_no_more_than_a_batch, a_task_takes_no_more_than_it_may,
            ]);
            suite!(@ $back_end status [
                counters_follow_everything, what_is_reserved_is_seen,
            ]);
        }
    };
    (@ $back_end:ident $noun:ident [$($test:ident),* $(,)?]) => {
        mod $noun {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::prove(crate::back_end::$back_end().await, crate::$noun::$test).await;
                }
            )*
        }
    };
}

suite!(sqlite);
suite!(sqlite_sealed);
suite!(postgres);
suite!(postgres_sealed);
suite!(pgbouncer);
