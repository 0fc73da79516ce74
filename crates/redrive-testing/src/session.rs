//! A session of somebody else, which stands in the way: it has said something to the server, and stays.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Holds what it was told to take until it is dropped.
#[derive(Debug)]
pub struct Session(Child);

impl Session {
    /// Says these words, and comes back when they have been carried out.
    pub fn holding(url: &str, words: &str) -> Session {
        let mut command = Command::new("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let script = format!("{words};\n\\echo held\n");
        child.stdin.as_mut().expect("it is piped").write_all(script.as_bytes()).unwrap();
        let mut told = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while line.trim_end() != "held" {
            line.clear();
            assert!(told.read_line(&mut line).unwrap() > 0, "{words} failed");
        }
        Session(child)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Killed, so that it lets go whatever it is doing; it may have ended by itself.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}
