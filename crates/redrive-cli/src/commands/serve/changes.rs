//! What differs between two readings of a configuration: what holds at once, and what waits for a restart. Named as the file
//! writes it.

use redrive_policy::Config;

use super::plan::Plan;

/// What differs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// It holds from now on.
    pub(super) at_once: Vec<&'static str>,
    /// It holds once the process is started again.
    pub(super) restart: Vec<&'static str>,
}

impl Changes {
    /// From one reading to the next. What a flag says is the same in both plans, and differs in neither.
    pub(super) fn between(before: (&Config, &Plan), after: (&Config, &Plan)) -> Changes {
        let ((old, old_plan), (new, plan)) = (before, after);
        let (was, is) = (&old.server, &new.server);
        let named = |differs: &[(&'static str, bool)]| {
            differs.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect()
        };
        let both_encrypt = old_plan.tls.is_some() && plan.tls.is_some();
        Changes {
            at_once: named(&[
                ("policies", old.policies != new.policies),
                ("policy", old.settings.policy != new.settings.policy),
                ("rules", old.rules != new.rules),
                ("recovery", old.recovery != new.recovery),
                ("escalate", old.escalate != new.escalate),
                ("alerts", old.alerts != new.alerts),
                ("auto_redrive", old.auto_redrive != new.auto_redrive),
                ("targets", old.targets != new.targets),
                ("push", old.push != new.push),
                ("server.hosts", was.hosts != is.hosts),
                ("server.origins", was.origins != is.origins),
                ("server.allow", was.allow != is.allow),
                ("server.ports", was.ports != is.ports),
                ("server.commands", was.commands != is.commands),
                ("server.max_connections", was.max_connections != is.max_connections),
                (
                    "server.max_connections_per_address",
                    was.max_connections_per_address != is.max_connections_per_address,
                ),
                ("server.tls", both_encrypt && old_plan.tls != plan.tls),
            ]),
            restart: named(&[
                ("server.listen", old_plan.listen != plan.listen),
                ("server.tls", !both_encrypt && old_plan.tls != plan.tls),
                ("server.insecure_http", old_plan.insecure_http != plan.insecure_http),
                ("server.concurrency", old_plan.concurrency != plan.concurrency),
                ("server.drain_for", old_plan.settings.drain_for != plan.settings.drain_for),
                ("server.max_body", old_plan.settings.max_body != plan.settings.max_body),
                ("store", old.settings.store != new.settings.store),
                ("key_file", old.settings.key_file != new.settings.key_file),
                ("lang", old.settings.lang != new.settings.lang),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use redrive_policy::{Format, Lang};

    use super::*;
    use crate::args::{Command, ServeArgs, StoredCommand, parse};

    fn args(line: &str) -> ServeArgs {
        let words: Vec<_> = line.split_whitespace().map(Into::into).collect();
        match parse(&words, Lang::En).unwrap().command {
            Some(Command::Stored(StoredCommand::Serve(args))) => args,
            other => panic!("{other:?}"),
        }
    }

    fn changes(line: &str, before: &str, after: &str) -> (String, String) {
        let args = args(line);
        let [before, after] = [before, after].map(|text| {
            let config = Config::parse(text, Format::Toml, "redrive.toml").unwrap();
            let plan = Plan::new(&args, &config, Lang::En, &HashMap::new(), Path::new("/")).unwrap();
            (config, plan)
        });
        let found = Changes::between((&before.0, &before.1), (&after.0, &after.1));
        (found.at_once.join(" "), found.restart.join(" "))
    }

    /// Issue 8, operations: each part of a file that differs is told where it belongs, and what a flag beats is not told at all.
    #[test]
    fn what_differs_is_told_where_it_belongs() {
        let check = |line: &str, before: &str, after: &str, at_once: &str, restart: &str| {
            assert_eq!(changes(line, before, after), (at_once.to_owned(), restart.to_owned()), "{after}");
        };
        check("redrive serve", "", "", "", "");
        let all = "policy = \"stream\"\nlang = \"ja\"\n[server]\nlisten = [\"127.0.0.1:1\"]\nhosts = [\"a\"]\nallow = [\"10.0.0.0/8\"]\ncommands = [\"/bin/true\"]\nconcurrency = 2\nmax_body = \"1MiB\"\n[retry]\nmax_retries = 1\n[targets.\"queue:a\"]\nconcurrency = 1\n[alerts]\nrepeat_every = \"1h\"\n[[auto_redrive]]\nname = \"a\"\nwhere = \"cause=network\"\n[[rules]]\nid = \"r\"\ncause = \"network\"\nregex = \"a\"\n";
        check(
            "redrive serve",
            "",
            all,
            "policies policy rules alerts auto_redrive targets server.hosts server.allow server.commands",
            "server.listen server.concurrency server.max_body lang",
        );
        check("redrive serve", all, all, "", "");
        check("redrive serve", all, &all.replace("regex = \"a\"", "regex = \"b\""), "rules", "");
        let listen = "[server]\nlisten = [\"127.0.0.1:1\"]\nconcurrency = 1\n";
        check("redrive serve --listen 127.0.0.1:0 --concurrency 3", "", listen, "", "");
        let tls = "[server.tls]\ncert = \"a.pem\"\nkey = \"b.pem\"\n";
        check("redrive serve", "", tls, "", "server.tls");
        check("redrive serve", tls, &tls.replace("a.pem", "c.pem"), "server.tls", "");
    }
}
