//! R-T4 with real files and real commands: what is claimed is looked up, and nothing that is looked at hangs.
#![cfg(feature = "exec")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use redrive::review::{Captured, FILE_BOUND, Reviewed, review_output};
use redrive::{Cancel, Cause, CommandSpec, Surroundings, Wiring, run_command};
use redrive_policy::Lang;
use redrive_policy::review::{Criterion, Judgment, ReviewPlan, What};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn judge(plan: &ReviewPlan, output: &str, cwd: &Path) -> Judgment {
    let output = output.as_bytes();
    let reviewed =
        Reviewed { output, total_bytes: output.len() as u64, name: None, cwd, changed_files: None };
    block_on(async {
        let around = Surroundings::new("job_01", 1);
        let review = review_output(plan, reviewed, &around);
        tokio::time::timeout(Duration::from_secs(30), review).await.expect("the review hangs").unwrap()
    })
}

fn found(judgment: &Judgment) -> Vec<(Criterion, What, Option<&str>)> {
    let parts = |finding: &'_ redrive_policy::review::Finding| (finding.criterion, finding.what);
    judgment
        .findings
        .iter()
        .map(|finding| (parts(finding).0, parts(finding).1, finding.file.as_deref()))
        .collect()
}

fn expecting(files: &[&str]) -> ReviewPlan {
    ReviewPlan { files: files.iter().map(|file| (*file).to_owned()).collect(), ..ReviewPlan::default() }
}

/// R-T4 Q1, Q5, Q6: a claim counts when the file is there, and only then.
#[test]
fn claims_are_verified_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let output = "Created `src/a.rs`.\n\nThis completes the implementation.\n";
    let judgment = judge(&ReviewPlan::default(), output, dir.path());
    assert_eq!(judgment.failed_criteria(), [Criterion::Q1, Criterion::Q5, Criterion::Q6]);
    assert_eq!(judgment.cause(), Some(Cause::Quality));
    fs::create_dir(dir.path().join("src")).unwrap();
    fs::write(dir.path().join("src/a.rs"), "pub fn a() -> u32 {\n    1\n}\n").unwrap();
    assert!(judge(&ReviewPlan::default(), output, dir.path()).passed());
}

/// R-T4 Q2, Q3: what was made is read too; what was only changed is not blamed for what it held before.
#[test]
fn files_that_were_made_are_reviewed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.py"), "def a():\n    return 1\n\n\n# TODO: the rest\n").unwrap();
    let judgment =
        judge(&ReviewPlan::default(), "Wrote a.py with the function that was asked for.", dir.path());
    assert_eq!(found(&judgment), [(Criterion::Q2, What::TodoLeft, Some("a.py"))]);
    assert_eq!(judgment.findings[0].line, Some(5));
    assert!(judge(&ReviewPlan::default(), "Updated a.py: it returns 1 now.", dir.path()).passed());
    let judgment = judge(&expecting(&["a.py"]), "Updated a.py: it returns 1 now.", dir.path());
    assert_eq!(found(&judgment), [(Criterion::Q2, What::TodoLeft, Some("a.py"))]);
}

/// R-T4 Q1: nothing outside of where the work ran is looked at by a relative path, neither by dots nor by links.
#[test]
fn relative_paths_stay_inside() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("work");
    fs::create_dir(&inside).unwrap();
    fs::write(dir.path().join("secret.txt"), "TODO: the launch codes").unwrap();
    std::os::unix::fs::symlink(dir.path(), inside.join("link")).unwrap();
    for path in ["../secret.txt", "link/secret.txt", "a/../../secret.txt"] {
        let judgment = judge(&expecting(&[path]), "The answer is 42, as always.", &inside);
        assert_eq!(found(&judgment)[0], (Criterion::Q1, What::OutsideFile, Some(path)));
        let told = format!("{judgment:?}{}", judgment.message(Lang::Ja));
        assert!(!told.contains("launch"), "{told}");
    }
    // An absolute path may be looked at, and is not read.
    let absolute = dir.path().join("secret.txt").display().to_string();
    assert!(judge(&expecting(&[&absolute]), "The answer is 42, as always.", &inside).passed());
}

/// Bad input: a FIFO, a directory and a device are there, and nobody waits for them.
#[test]
fn what_is_no_file_does_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe.txt")).status().unwrap().success());
    fs::create_dir(dir.path().join("folder.txt")).unwrap();
    let plan = expecting(&["pipe.txt", "folder.txt", "/dev/zero"]);
    assert!(judge(&plan, "The answer is 42, as always.", dir.path()).passed());
}

/// Bad input: of a huge file the beginning is read, and its end is not missed.
#[test]
fn of_a_huge_file_the_beginning_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut huge = "const A: u32 = (1);\n".repeat(usize::try_from(FILE_BOUND).unwrap() / 20 + 10);
    huge.push_str("// TODO: too far away to be seen\nfn a() {");
    fs::write(dir.path().join("a.rs"), huge).unwrap();
    assert!(judge(&expecting(&["a.rs"]), "The constants are written.", dir.path()).passed());
}

/// R-T4 Q7 to Q9: commands run when nothing else is wrong; the first that fails is told with what it said.
#[test]
fn commands_are_run_when_nothing_else_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let argv = |line: &str| Some(["/bin/sh", "-c", line].map(str::to_owned).to_vec());
    let plan = ReviewPlan {
        test: argv("touch tested"),
        lint: argv("echo 'src/a.rs:3: error: unused variable'; echo done; exit 1"),
        types: argv("touch typed"),
        ..ReviewPlan::default()
    };
    let judgment = judge(&plan, "// TODO: everything", dir.path());
    assert_eq!(judgment.failed_criteria(), [Criterion::Q2]);
    assert!(!dir.path().join("tested").exists());
    let judgment = judge(&plan, "The parser accepts both forms now.", dir.path());
    assert_eq!(found(&judgment), [(Criterion::Q8, What::CheckFailed, None)]);
    assert_eq!(judgment.findings[0].excerpt, "src/a.rs:3: error: unused variable");
    assert!(dir.path().join("tested").exists() && !dir.path().join("typed").exists());
    let gone = ReviewPlan { test: Some(vec!["/nowhere/test".to_owned()]), ..ReviewPlan::default() };
    let judgment = judge(&gone, "The parser accepts both forms now.", dir.path());
    assert!(judgment.findings[0].excerpt.contains("/nowhere/test"), "{judgment:?}");
}

/// R-T4: a review that is stopped comes to no judgment, and leaves no command behind.
#[test]
fn a_cancelled_review_judges_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let plan = ReviewPlan { test: Some(vec!["sleep".to_owned(), "60".to_owned()]), ..ReviewPlan::default() };
    let output = b"The parser accepts both forms now.";
    let cancel = Cancel::new();
    let around = Surroundings { cancel: Some(cancel.clone()), ..Surroundings::new("job_01", 1) };
    let reviewed = Reviewed {
        output,
        total_bytes: output.len() as u64,
        name: None,
        cwd: dir.path(),
        changed_files: None,
    };
    let error = block_on(async {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cancel.cancel();
        });
        review_output(&plan, reviewed, &around).await.unwrap_err()
    });
    assert!(error.to_string().contains("cancelled"), "{error}");
}

/// Bad input: a command that floods its output is kept up to the bound, and rejected for its length.
#[test]
fn a_flood_is_kept_up_to_the_bound() {
    let captured = Captured::with_bound(1_000);
    let wiring = Wiring { stdout: Some(captured.writer(None)), ..Wiring::captured() };
    let spec = CommandSpec::new(["sh", "-c", "yes 'a line of output' | head -c 1000000"]);
    block_on(run_command(&spec, &Surroundings::new("job_01", 1), wiring));
    let (output, total_bytes) = captured.take();
    assert_eq!((output.len(), total_bytes), (1_000, 1_000_000));
    let dir = tempfile::tempdir().unwrap();
    let reviewed =
        Reviewed { output: &output, total_bytes, name: None, cwd: dir.path(), changed_files: None };
    let judgment =
        block_on(review_output(&ReviewPlan::default(), reviewed, &Surroundings::new("job_01", 1))).unwrap();
    assert_eq!(found(&judgment), [(Criterion::Q4, What::TooLong, None)]);
}
