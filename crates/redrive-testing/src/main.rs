//! `throw-away-postgres`: starts a cluster, prints its address and its folder, and lives for as long as somebody holds its standard input.
//! `./test.sh` is that somebody.
#![allow(clippy::print_stdout)]

use std::io::Read;

use redrive_testing::Cluster;

fn main() {
    let cluster = Cluster::start();
    println!("{}\n{}", cluster.url(), cluster.socket_folder().display());
    // Both an end and an error mean that nobody is there.
    let _read = std::io::stdin().read_to_end(&mut Vec::new());
}
