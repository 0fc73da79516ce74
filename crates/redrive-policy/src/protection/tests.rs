//! R-P15 as properties: whatever comes in whatever order, limits hold, parked work is spread, and nothing is stuck.

use proptest::prelude::*;

use super::*;
use crate::cause::Cause;
use crate::lang::Lang;
use crate::rng::Rng;

const T0: i64 = 1_800_000_000_000;

fn well(began: i64) -> CallResult {
    CallResult { began, took_ms: 10, health: Health::Well, wait_ms: None, times: 1 }
}

fn sick(began: i64) -> CallResult {
    CallResult { health: Health::Sick, ..well(began) }
}

fn ask_one(settings: &Protection, state: &mut TargetState, now: i64, ask: Ask) -> Admission {
    admit(settings, state, now, Place::Process("me", now + 30_000), &[ask], &mut Rng::seeded(1)).remove(0)
}

fn parked_until(admission: &Admission) -> i64 {
    match admission {
        Admission::Park { until, .. } => *until,
        Admission::Go => panic!("it went"),
    }
}

fn breaker_only() -> Protection {
    Protection { breaker: Some(Breaker::default()), ..Protection::default() }
}

/// A target of which this many calls failed at once.
fn fallen(settings: &Protection) -> TargetState {
    let mut state = TargetState::default();
    let results: Vec<CallResult> = (0..20).map(|_| sick(T0)).collect();
    observe(settings, &mut state, T0, &results, &mut Rng::seeded(2));
    assert_eq!(state.phase.name(), "open");
    state
}

/// R-P15: half of at least twenty must say that the target is sick; one job's bad request says nothing of the kind.
#[test]
fn only_a_sick_target_opens() {
    let settings = breaker_only();
    let check = |results: &[(Health, u32)], expected: &str| {
        let mut state = TargetState::default();
        for (health, times) in results {
            let result = CallResult { health: *health, times: *times, ..well(T0) };
            observe(&settings, &mut state, T0, &[result], &mut Rng::seeded(1));
        }
        assert_eq!(state.phase.name(), expected, "{results:?}");
    };
    check(&[(Health::Sick, 19)], "closed");
    check(&[(Health::Well, 11), (Health::Sick, 10)], "closed");
    check(&[(Health::Well, 10), (Health::Sick, 10)], "open");
    check(&[(Health::Nothing, 1_000)], "closed");
    check(&[(Health::Well, 1), (Health::Refused, 1_000)], "closed");
    check(&[(Health::Refused, 20)], "open");
    for (cause, health) in [
        (Cause::Network, Health::Sick),
        (Cause::RateLimit, Health::Sick),
        (Cause::AuthError, Health::Refused),
        (Cause::ValidationError, Health::Well),
        (Cause::Crashed, Health::Nothing),
    ] {
        assert_eq!(Health::of(cause), health);
    }
}

/// R-P15: what failed long ago is forgotten.
#[test]
fn the_window_slides() {
    let settings = breaker_only();
    let mut state = TargetState::default();
    observe(&settings, &mut state, T0, &vec![sick(T0); 19], &mut Rng::seeded(1));
    assert_eq!(state.standing(&settings, T0).failed, 19);
    observe(&settings, &mut state, T0 + 31_000, &[sick(T0 + 31_000)], &mut Rng::seeded(1));
    assert_eq!((state.phase.name(), state.standing(&settings, T0 + 31_000).failed), ("closed", 1));
}

/// R-P15: open → half open → ramp → closed; a probe that fails opens it again, for longer.
#[test]
fn a_target_is_tried_by_few_and_heals_step_by_step() {
    let settings = breaker_only();
    let mut state = fallen(&settings);
    let first = parked_until(&ask_one(&settings, &mut state, T0 + 1, Ask::default()));
    assert!((5_000..=5_500).contains(&(first - T0)), "{}", first - T0);
    // Three may try, the fourth waits.
    let asks = [Ask { waited: true, ..Ask::default() }; 4];
    let answers =
        admit(&settings, &mut state, first, Place::Process("me", first + 30_000), &asks, &mut Rng::seeded(1));
    assert_eq!(answers.iter().filter(|answer| answer.goes()).count(), 3);
    assert!(matches!(&answers[3], Admission::Park { why: ParkedWhy::Probing, .. }));
    // One that began before the outage was noticed says nothing about now.
    observe(&settings, &mut state, first + 10, &[sick(T0 - 50), well(T0 - 50)], &mut Rng::seeded(1));
    assert_eq!(state.phase.name(), "half_open");
    observe(&settings, &mut state, first + 20, &[well(first), sick(first)], &mut Rng::seeded(1));
    let Phase::Open { until, times, .. } = state.phase else { panic!("{:?}", state.phase) };
    assert_eq!(times, 2);
    assert!((10_000..=11_000).contains(&(until - first - 20)));
    let answers =
        admit(&settings, &mut state, until, Place::Process("me", until), &asks, &mut Rng::seeded(1));
    assert_eq!(answers.iter().filter(|answer| answer.goes()).count(), 3);
    observe(&settings, &mut state, until + 5, &[well(until), well(until), well(until)], &mut Rng::seeded(1));
    assert_eq!(state.phase.name(), "ramp");
    let later = until + 5 + 30_000;
    assert!(ask_one(&settings, &mut state, later, Ask { waited: true, ..Ask::default() }).goes());
    assert_eq!(state.phase, Phase::Closed);
}

/// R-P15: whoever tried and died does not keep the others from trying.
#[test]
fn a_lost_probe_is_replaced() {
    let settings = breaker_only();
    let mut state = fallen(&settings);
    let at = T0 + 6_000;
    let asks = [Ask::default(); 3];
    assert!(
        admit(&settings, &mut state, at, Place::Process("dead", at), &asks, &mut Rng::seeded(1))
            .iter()
            .all(Admission::goes)
    );
    assert!(!ask_one(&settings, &mut state, at + 59_000, Ask::default()).goes());
    assert!(ask_one(&settings, &mut state, at + 60_000, Ask::default()).goes());
}

/// R-P15: a killed process gives its calls free when it has been silent for long enough.
#[test]
fn a_silent_holder_frees_its_share() {
    let settings = Protection { concurrency: Some(2), ..Protection::default() };
    let mut state = TargetState::default();
    let both = admit(
        &settings,
        &mut state,
        T0,
        Place::Process("dead", T0 + 30_000),
        &[Ask::default(); 3],
        &mut Rng::seeded(1),
    );
    assert_eq!(both.iter().map(Admission::goes).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(state.standing(&settings, T0).running, 2);
    assert!(!ask_one(&settings, &mut state, T0 + 29_999, Ask::default()).goes());
    assert!(ask_one(&settings, &mut state, T0 + 30_000, Ask::default()).goes());
    assert_eq!(state.standing(&settings, T0 + 30_000).running, 1);
    hold(&settings, &mut state, T0 + 30_001, "me", Holder { calls: 0, until: 0 });
    assert_eq!(state.standing(&settings, T0 + 30_001).running, 0);
}

fn lend(settings: &Protection, state: &mut TargetState, now: i64, lease: &str) -> Admission {
    let place = Place::Lease(lease, now + 15_000);
    admit(settings, state, now, place, &[Ask::default()], &mut Rng::seeded(1)).remove(0)
}

/// R-P15: work under a lease has its place until it is told or seen that it is over, whoever let it through and whoever tells. Told late,
/// twice or by several, an end frees one place and no other; no time frees it, and nobody who knows of no limit.
#[test]
fn a_lease_has_one_place_while_it_lasts() {
    let settings = Protection { concurrency: Some(2), ..Protection::default() };
    let mut state = TargetState::default();
    assert!(lend(&settings, &mut state, T0, "a").goes());
    assert!(lend(&settings, &mut state, T0, "b").goes());
    assert!(!lend(&settings, &mut state, T0 + 10, "c").goes());
    for _ in 0..3 {
        lease_over(&mut state, "a");
    }
    lease_over(&mut state, "never");
    assert_eq!(state.standing(&settings, T0 + 10).running, 1);
    // Nobody knows whether the first time was heard: it is one place all the same.
    assert!(lend(&settings, &mut state, T0 + 20, "c").goes());
    assert!(lend(&settings, &mut state, T0 + 21, "c").goes());
    assert!(
        !ask_one(&settings, &mut state, T0 + 22, Ask::default()).goes(),
        "a process's own calls count with them"
    );
    let later = T0 + 3_600_000;
    assert!(ask_one(&breaker_only(), &mut state, later, Ask::default()).goes(), "it knows of no limit");
    reset(&mut state);
    assert!(!ask_one(&settings, &mut state, later, Ask::default()).goes(), "nobody has looked");
    lease_over(&mut state, "b");
    lease_lasts(&mut state, "c", later + 5_000);
    lease_lasts(&mut state, "found", later + 5_000);
    assert_eq!(state.standing(&settings, later).running, 2, "one was found to run");
    assert!(!state.is_idle(&settings, later + 86_400_000));
    assert!(state.is_idle(&settings, later + 86_406_000), "nobody has looked for a day");
}

/// R-P15: what cannot be counted has no place: neither so many processes nor so many leases pass a limit.
#[test]
fn what_is_not_counted_does_not_go() {
    let settings = Protection { concurrency: Some(1_000_000), ..Protection::default() };
    let mut state = TargetState::default();
    let leases = (0..10_001).map(|n| lend(&settings, &mut state, T0, &n.to_string()).goes());
    assert_eq!(leases.filter(|goes| *goes).count(), 10_000);
    let mut state = TargetState::default();
    let mut process = |name: &str| {
        let place = Place::Process(name, T0 + 30_000);
        admit(&settings, &mut state, T0, place, &[Ask::default()], &mut Rng::seeded(1))[0].goes()
    };
    assert!((0..1_024).all(|n| process(&n.to_string())));
    assert!(!process("one more") && process("7"));
}

/// R-P15: work that waits for a place costs next to nothing while none comes free, and soon fills those that do.
#[test]
fn who_waits_for_a_place_asks_seldom() {
    for (limit, waiting) in [(1, 1), (1, 300), (20, 280)] {
        let settings = Protection { concurrency: Some(limit), ..Protection::default() };
        let mut state = TargetState::default();
        let ask = |state: &mut TargetState, now: i64| {
            let asks = [Ask { waited: true, ..Ask::default() }];
            admit(&settings, state, now, Place::Process("me", now + 30_000), &asks, &mut Rng::seeded(1))
                .remove(0)
        };
        let lives = |state: &mut TargetState, now: i64| {
            hold(&settings, state, now, "me", Holder { calls: limit, until: now + 30_000 });
        };
        for _ in 0..limit {
            assert!(ask(&mut state, T0).goes());
        }
        let mut untils: Vec<i64> = (0..waiting).map(|_| parked_until(&ask(&mut state, T0))).collect();
        let (mut parked, end) = (0, T0 + 600_000);
        loop {
            untils.sort_unstable();
            if untils[0] > end {
                break;
            }
            lives(&mut state, untils[0]);
            untils[0] = parked_until(&ask(&mut state, untils[0]));
            parked += 1;
        }
        assert!(
            parked < 200 + 100 * limit + 14 * waiting,
            "{limit} places, {waiting} wait: parked {parked} times"
        );
        hold(&settings, &mut state, end, "me", Holder { calls: 0, until: end });
        let filled =
            untils.iter().take(limit as usize).filter(|until| ask(&mut state, **until).goes()).count();
        assert_eq!(filled, untils.len().min(limit as usize));
        assert!(untils[filled - 1] - end < 100_000, "{limit} places: {} ms", untils[filled - 1] - end);
    }
}

/// R-P15: retries and redriven work are paid for by first attempts, and by a floor.
#[test]
fn the_budget_bounds_what_is_done_again() {
    let settings = Protection { budget: Some(Budget::default()), ..Protection::default() };
    let mut state = TargetState::default();
    let again = Ask { again: true, waited: false };
    let go = |state: &mut TargetState, now: i64, ask: Ask, times: usize| {
        let answers =
            admit(&settings, state, now, Place::Process("me", now), &vec![ask; times], &mut Rng::seeded(1));
        answers.iter().filter(|answer| answer.goes()).count()
    };
    assert_eq!(go(&mut state, T0, again, 300), 100, "ten seconds of the floor had gathered");
    assert_eq!(go(&mut state, T0, Ask::default(), 1_000), 1_000, "first attempts are never held up by it");
    let returned = Ask { again: true, waited: true };
    assert_eq!(go(&mut state, T0, returned, 300), 100, "a thousand first attempts pay for a hundred");
    // Those who were parked come ten a second, and each finds what it needs.
    let mut state = TargetState::default();
    let asks = vec![again; 200];
    let answers = admit(&settings, &mut state, T0, Place::Process("me", T0), &asks, &mut Rng::seeded(1));
    let untils: Vec<i64> = answers.iter().filter(|answer| !answer.goes()).map(parked_until).collect();
    assert_eq!((untils.len(), untils[0], untils[99]), (100, T0 + 100, T0 + 10_000));
    for until in untils {
        assert_eq!(go(&mut state, until, returned, 1), 1, "at {}", until - T0);
    }
}

/// R-P15: numbers at the end of their range, and a clock that goes back, stop nothing for ever.
#[test]
fn extremes_and_a_clock_that_goes_back() {
    let mut settings =
        Protection { rate: Some(Rate::per_second(1)), burst: Some(u32::MAX), ..Protection::of_a_host() };
    settings.breaker = Some(Breaker {
        within_ms: u64::MAX,
        open_for_ms: u64::MAX,
        open_for_at_most_ms: u64::MAX,
        ramp_ms: u64::MAX,
        probes: 0,
        ..Breaker::default()
    });
    let mut state = TargetState::default();
    for now in [i64::MIN, -1, 0, T0, i64::MAX] {
        let result = CallResult { took_ms: u64::MAX, wait_ms: Some(u64::MAX), times: u32::MAX, ..sick(now) };
        observe(&settings, &mut state, now, &[result, result], &mut Rng::seeded(1));
        admit(
            &settings,
            &mut state,
            now,
            Place::Process("me", i64::MAX),
            &[Ask { again: true, waited: true }; 3],
            &mut Rng::seeded(1),
        );
        state.standing(&settings, now);
    }
    let settings = breaker_only();
    let mut state = fallen(&settings);
    let long_before = T0 - 366 * 86_400_000;
    let until = parked_until(&ask_one(&settings, &mut state, long_before, Ask::default()));
    assert!(until - long_before <= 3_600_000, "parked for an hour at most, whatever was written ahead");
}

/// R-P15: a rate that lets one go in an hour is obeyed as well, its burst too, and those who wait longer are counted.
#[test]
fn slow_rates_are_obeyed() {
    let rate = Some(Rate { count: 1, per_ms: 3_600_000 });
    let settings = Protection { rate, burst: Some(3), ..Protection::default() };
    let mut state = TargetState::default();
    let mut go = |now: i64, waited: bool| {
        let asks = [Ask { again: false, waited }; 5];
        let answers =
            admit(&settings, &mut state, now, Place::Process("me", now), &asks, &mut Rng::seeded(1));
        (answers.iter().filter(|answer| answer.goes()).count(), state.standing(&settings, now).parked)
    };
    assert_eq!(go(T0, false), (3, 2));
    assert_eq!(go(T0 + 60_000, false), (0, 7));
    assert_eq!(go(T0 + 61_000, true).0, 0);
    assert_eq!(go(T0 + 3_600_000, true).0, 1);
    assert_eq!(go(T0 + 3_601_000, true).0, 0);
}

/// R-P15: what is kept can be read by who comes later, and what is not known is left out.
#[test]
fn the_state_is_kept_as_json() {
    let settings = breaker_only();
    let state = fallen(&settings);
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<TargetState>(&text).unwrap(), state);
    assert!(text.contains("\"phase\":\"open\"") && text.len() < 1_000, "{text}");
    assert_eq!(
        serde_json::from_str::<TargetState>("{\"phase\":\"closed\",\"new\":1}").unwrap(),
        TargetState::default()
    );
    let why = ParkedWhy::Open { failed: 37, calls: 40 };
    assert_eq!(why.words("host:a", Lang::Ja), "host:a への直近 40 回の呼び出しのうち 37 回が失敗しました");
}

/// R-P15: a reset lets everybody go, and what runs is still counted.
#[test]
fn a_reset_forgets_what_was_held_against_it() {
    let settings = Protection { concurrency: Some(1), ..breaker_only() };
    let mut state = fallen(&settings);
    hold(&settings, &mut state, T0, "me", Holder { calls: 1, until: T0 + 30_000 });
    reset(&mut state);
    assert_eq!((state.phase.name(), state.opened_total), ("closed", 1));
    assert!(!ask_one(&settings, &mut state, T0, Ask::default()).goes());
}

/// R-P15: who is parked again and again is counted once, and a reset does not make those vanish who keep their times.
#[test]
fn those_who_wait_are_counted_as_they_are() {
    let settings = breaker_only();
    let mut state = fallen(&settings);
    let asks = [Ask::default(); 30];
    let answers = admit(&settings, &mut state, T0 + 1, Place::Process("me", T0), &asks, &mut Rng::seeded(1));
    let mut untils: Vec<i64> = answers.iter().map(parked_until).collect();
    let mut now = T0;
    for turn in 0..500 {
        untils.sort_unstable();
        now = untils[0];
        let mut answer = ask_one(&settings, &mut state, now, Ask { waited: true, ..Ask::default() });
        if answer.goes() {
            // It tries, fails, and comes again at once.
            observe(&settings, &mut state, now, &[sick(now)], &mut Rng::seeded(turn));
            answer = ask_one(&settings, &mut state, now, Ask { again: true, waited: false });
        }
        untils[0] = parked_until(&answer);
        let told = state.standing(&settings, now).parked;
        assert!((27..=33).contains(&told), "turn {turn}: {told} of 30");
    }
    reset(&mut state);
    assert!(ask_one(&settings, &mut state, now, Ask::default()).goes(), "nobody goes behind them");
    let Standing { parked, put_off, .. } = state.standing(&settings, now);
    assert!(parked == put_off && (27..=33).contains(&parked), "{parked} of 30 after the reset");
    let last = untils.iter().max().unwrap() + 1_000;
    assert_eq!(state.standing(&settings, last).parked, 0);
    assert!(state.is_idle(&settings, last + 3_600_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// R-P15: no more begin than the rate and its burst allow, in any stretch of time.
    #[test]
    fn a_rate_is_never_passed(
        count in 1_u32..200,
        burst in 1_u32..20,
        steps in prop::collection::vec((0_i64..2_000, 1_usize..40, any::<bool>()), 1..60),
    ) {
        let settings =
            Protection { rate: Some(Rate::per_second(count)), burst: Some(burst), ..Protection::default() };
        let mut state = TargetState::default();
        let (mut now, mut gone) = (T0, Vec::new());
        for (step, asks, waited) in steps {
            now += step;
            let asks = vec![Ask { again: false, waited }; asks];
            let answers = admit(&settings, &mut state, now, Place::Process("me", now), &asks, &mut Rng::seeded(1));
            gone.extend(answers.iter().filter(|answer| answer.goes()).map(|_| now));
        }
        for (i, from) in gone.iter().enumerate() {
            for (j, to) in gone.iter().enumerate().skip(i) {
                // Turns that come late may catch up one second.
                let most = i64::from(burst) + 1 + (to - from + 1_000).max(1) * i64::from(count) / 1_000 + 1;
                prop_assert!(i64::try_from(j - i + 1).unwrap() <= most, "{} in {} ms", j - i + 1, to - from);
            }
        }
    }

    /// R-P15: parked work has a time of its own, in the order in which it came, at the rate.
    #[test]
    fn parked_work_is_spread(count in 1_u32..1_000, asks in 2_usize..300) {
        let settings = Protection { rate: Some(Rate::per_second(count)), ..Protection::default() };
        let mut state = TargetState::default();
        let answers =
            admit(&settings, &mut state, T0, Place::Process("me", T0), &vec![Ask::default(); asks], &mut Rng::seeded(1));
        let untils: Vec<i64> = answers.iter().skip(1).map(parked_until).collect();
        for (number, until) in untils.iter().enumerate() {
            let expected = (i64::try_from(number).unwrap() + 1) * 1_000_000 / i64::from(count) / 1_000;
            prop_assert!((until - T0 - expected).abs() <= 1 + i64::try_from(number).unwrap() / 500, "{until}");
        }
        prop_assert_eq!(state.standing(&settings, T0).parked, u32::try_from(asks - 1).unwrap());
        // Each finds room when its time has come: nobody waits twice.
        for until in untils {
            let came = ask_one(&settings, &mut state, until, Ask { waited: true, ..Ask::default() });
            prop_assert!(came.goes(), "at {}", until - T0);
        }
    }

    /// R-P15: never more at a time than allowed, whoever asks, and whoever goes makes room.
    #[test]
    fn a_number_at_a_time_is_never_passed(
        limit in 1_u32..10,
        steps in prop::collection::vec((0_usize..4, 0_u32..5, any::<bool>()), 1..100),
    ) {
        let settings = Protection { concurrency: Some(limit), ..Protection::default() };
        let mut state = TargetState::default();
        let mut runs = [0_u32; 4];
        for (number, (who, asks, ends)) in steps.into_iter().enumerate() {
            let now = T0 + i64::try_from(number).unwrap();
            let name = who.to_string();
            if ends {
                runs[who] = runs[who].saturating_sub(asks);
                hold(&settings, &mut state, now, &name, Holder { calls: runs[who], until: now + 30_000 });
            } else {
                let asks = vec![Ask::default(); asks as usize];
                let answers =
                    admit(&settings, &mut state, now, Place::Process(&name, now + 30_000), &asks, &mut Rng::seeded(1));
                runs[who] += u32::try_from(answers.iter().filter(|answer| answer.goes()).count()).unwrap();
            }
            prop_assert!(runs.iter().sum::<u32>() <= limit);
            prop_assert_eq!(state.standing(&settings, now).running, runs.iter().sum::<u32>());
        }
    }

    /// R-P15: whatever is asked and told in whatever order, everybody is told a time ahead that is bounded, and a target that
    /// is well from some moment on lets everything pass in the end.
    #[test]
    fn nothing_is_stuck(
        steps in prop::collection::vec((0_i64..20_000, 0_usize..20, 0_u8..4, any::<bool>()), 1..80),
        seed in any::<u64>(),
    ) {
        let settings = Protection { concurrency: Some(50), ..Protection::of_a_host() };
        let mut rng = Rng::seeded(seed);
        let (mut state, mut now) = (TargetState::default(), T0);
        for (step, asks, how, again) in steps {
            now += step;
            let asks = vec![Ask { again, waited: how == 0 }; asks];
            let answers = admit(&settings, &mut state, now, Place::Process("me", now + 30_000), &asks, &mut rng);
            let mut results = Vec::new();
            for answer in answers {
                match answer {
                    Admission::Go => results.push(if how < 2 { sick(now) } else { well(now) }),
                    Admission::Park { until, .. } => {
                        prop_assert!(until > now && until <= now + 3_600_000, "{}", until - now);
                    }
                }
            }
            hold(&settings, &mut state, now, "me", Holder { calls: 0, until: now });
            observe(&settings, &mut state, now, &results, &mut rng);
        }
        let mut waits = now;
        let mut went = 0;
        for _ in 0..200 {
            match admit(&settings, &mut state, waits, Place::Process("me", waits), &[Ask { again: true, waited: true }], &mut rng).remove(0) {
                Admission::Go => {
                    observe(&settings, &mut state, waits, &[well(waits)], &mut rng);
                    hold(&settings, &mut state, waits, "me", Holder { calls: 0, until: waits });
                    went += 1;
                    waits += 100;
                }
                Admission::Park { until, .. } => waits = until,
            }
        }
        prop_assert!(went > 50, "{went} of 200 went: {state:?}");
    }
}

/// R-P15: where no place has come free for half a minute, everybody has a turn within another one, however many wait.
#[test]
fn nobody_waits_much_longer_than_there_was_no_place() {
    let settings = Protection { concurrency: Some(4), ..Protection::default() };
    let mut state = TargetState::default();
    let mut rng = Rng::seeded(7);
    let gone = Place::Process("gone", T0 + 30_000);
    assert_eq!(
        admit(&settings, &mut state, T0, gone, &[Ask::default(); 4], &mut rng)
            .iter()
            .filter(|answer| answer.goes())
            .count(),
        4
    );
    let mut waits: Vec<i64> = vec![T0 + 1; 200];
    let (mut now, mut asks) = (T0, 0);
    while let Some(next) = waits.iter().copied().min().filter(|next| *next < T0 + 30_000) {
        now = now.max(next);
        let one = waits.iter().position(|at| *at == next).unwrap();
        let ask = [Ask { again: false, waited: next > T0 + 1 }];
        let answer =
            admit(&settings, &mut state, now, Place::Process("me", now + 30_000), &ask, &mut rng).pop();
        let Some(Admission::Park { until, .. }) = answer else { panic!("there is no place: {answer:?}") };
        (waits[one], asks) = (until, asks + 1);
    }
    let last = waits.iter().copied().max().unwrap();
    assert!(last <= T0 + 65_000, "the last one waits for {} s", (last - T0) / 1_000);
    assert!(asks < 2_000, "{asks} asked in vain");
}

/// Reliability row 16: what a dead process held before the clock went back comes free as soon as it would have anyway.
#[test]
fn a_clock_that_went_back_frees_the_places_of_the_dead() {
    let settings = Protection { concurrency: Some(1), ..Protection::default() };
    let mut state = TargetState::default();
    let ask = |state: &mut TargetState, now: i64, who: &str| {
        admit(
            &settings,
            state,
            now,
            Place::Process(who, now + 30_000),
            &[Ask::default()],
            &mut Rng::seeded(1),
        )[0]
        .goes()
    };
    assert!(ask(&mut state, T0 + 3_600_000, "dead"));
    assert!(!ask(&mut state, T0, "other"), "nobody knows that it is dead");
    assert!(ask(&mut state, T0 + 60_001, "other"), "it has been silent for a minute");
}
