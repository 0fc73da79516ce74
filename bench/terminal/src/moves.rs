//! What goes through the whole store: exports, whose memory must not grow with it, and a redrive of everything.

use crate::command::Redrive;
use crate::make::Amount;

/// The most memory that each export has, on a store and on one of a tenth of its size.
pub fn exports(small: &Redrive, few: Amount, large: &Redrive, many: Amount) {
    println!("\n| | rows | s | rows/s | peak RSS MB |\n|---|---|---|---|---|");
    let commands: [(&[&str], fn(Amount) -> u64); 2] =
        [(&["dlq", "export"], |of| of.letters), (&["export"], |of| of.events)];
    for (args, rows) in commands {
        for (redrive, amount) in [(small, few), (large, many)] {
            let took = redrive.run(args);
            let name = args.join(" ");
            if !took.is_done {
                println!("| {name} | | | | refused by this version |");
                continue;
            }
            let (rows, seconds) = (rows(amount), took.wall.as_secs_f64());
            println!(
                "| {name} | {rows} | {seconds:.1} | {:.0} | {:.0} |",
                rows as f64 / seconds,
                took.peak_mb
            );
        }
    }
}

/// Puts every letter back, as fast as it goes.
pub fn redrive_all(redrive: &Redrive, amount: Amount) {
    println!("\n| | letters | s | letters/s (floor 10,000) | peak RSS MB |\n|---|---|---|---|---|");
    let took = redrive.run(&["redrive", "--all", "--yes"]);
    assert!(took.is_done, "the redrive failed");
    let seconds = took.wall.as_secs_f64();
    let rate = amount.letters as f64 / seconds;
    println!("| redrive --all --yes | {} | {seconds:.1} | {rate:.0} | {:.0} |", amount.letters, took.peak_mb);
}
