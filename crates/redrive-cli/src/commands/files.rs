//! What `run` and `work` tell of the files of commands: that they are not protected, once for each job and reason, and that
//! they were put back after an attempt that failed. The engine hands it over on its own threads.

use std::collections::HashMap;
use std::fmt::Display;

use redrive::engine::{EngineBuilder, FileNews};
use redrive_store::JobId;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::Stage;
use crate::text::text;

/// What happened to the files of one job.
pub(super) struct FilesOf {
    id: JobId,
    name: String,
    news: FileNews,
}

/// What comes from the engine, and what was warned of already.
pub(super) struct FilesToTell {
    /// `run` or `work`: the texts that are used.
    command: &'static str,
    waiting: UnboundedReceiver<FilesOf>,
    /// A job that is tried again is as unprotected as before: nobody wants to read it again.
    warned: HashMap<JobId, String>,
}

/// The engine with a listener, and the other end of it.
pub(super) fn heard(engine: EngineBuilder, command: &'static str) -> (EngineBuilder, FilesToTell) {
    let (teller, waiting) = unbounded_channel();
    let engine = engine.on_files(move |id, name, news| {
        // Nobody listens only when this process is on its way out.
        let _ = teller.send(FilesOf { id, name: name.to_owned(), news: news.clone() });
    });
    (engine, FilesToTell { command, waiting, warned: HashMap::new() })
}

impl FilesToTell {
    /// The next that there is to tell.
    pub(super) async fn next(&mut self) -> Option<FilesOf> {
        self.waiting.recv().await
    }

    pub(super) fn tell(&mut self, files: &FilesOf, stage: &mut Stage<'_>) {
        let FilesOf { id, name, news } = files;
        let (lang, command) = (stage.settings.lang, self.command);
        let say = |key: &str, more: &[(&str, &dyn Display)]| {
            let who: [(&str, &dyn Display); 2] = [("id", id), ("name", name)];
            text(lang, &format!("{command}.{key}"), &[&who, more].concat())
        };
        match news {
            FileNews::Unprotected { why } => {
                let before = self.warned.insert(*id, why.clone());
                if before.as_ref() != Some(why) {
                    stage.talk.warning(&say("unprotected", &[("why", why)]));
                }
            }
            FileNews::PutBack { restored, aside } => {
                stage.talk.narrate(&say("put-back", &[("restored", restored), ("aside", aside)]));
            }
            _ => {}
        }
    }

    /// Tells what is there already.
    pub(super) fn rest(&mut self, stage: &mut Stage<'_>) {
        while let Ok(files) = self.waiting.try_recv() {
            self.tell(&files, stage);
        }
    }

    /// A job that is over is not spoken of again.
    pub(super) fn forget(&mut self, id: JobId) {
        self.warned.remove(&id);
    }
}
