//! Messages by command, and the words that they are made of.

use std::time::Duration;

use crate::sink::Sink;
use crate::world::{World, run};

/// R-C5: a command gets the message on stdin and its facts in the environment, in the receiver's language.
#[test]
fn a_command_is_told_in_its_language() {
    run(async {
        let config = "[[alerts.receivers]]\nname = \"en\"\ncommand = \"cat > FOLDER/en; echo $REDRIVE_ALERT_RULE $REDRIVE_ALERT_SEVERITY $REDRIVE_ALERT_VALUE >> FOLDER/en\"\n\
                      [[alerts.receivers]]\nname = \"ja\"\ncommand = [\"sh\", \"-c\", \"cat > FOLDER/ja\"]\nlang = \"ja\"\n";
        let world = World::new(config).await;
        world.die(1, "no such address").await;
        world.look_after(Duration::from_secs(1)).await;
        world.deliver().await;
        let read = |name: &str| std::fs::read_to_string(world.folder.path().join(name)).unwrap();
        let english = read("en");
        assert!(
            english.starts_with("redrive: critical: dead letters: 1 (limit 1).\n- 1 × validation_error"),
            "{english}"
        );
        assert!(english.ends_with("dead_letters critical 1\n"), "{english}");
        let japanese = read("ja");
        assert!(
            japanese.starts_with("redrive: 重大: デッドレター: 1（基準 1）。\n- 1 件 validation_error"),
            "{japanese}"
        );
    });
}

/// R-C5: a template of one's own is used; one that is broken, endless or makes no JSON is told of, and the built-in one is used.
#[test]
fn a_broken_template_falls_back_loudly() {
    let templates = [
        ("{\"say\": {{ severity }}, \"n\": {{ number }}}", true),
        ("{{ nothing.at.all }", false),
        ("{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}", false),
        ("no JSON", false),
    ];
    for (template, works) in templates {
        run(async {
            let sink = Sink::answering(&[]).await;
            let url = sink.url();
            let config = format!(
                "[[alerts.receivers]]\nname = \"own\"\nwebhook = \"{url}\"\ntemplate = \"FOLDER/own.j2\"\n"
            );
            let world = World::new(&config).await;
            std::fs::write(world.folder.path().join("own.j2"), template).unwrap();
            world.die(1, "say \"hello\"\n<!channel>").await;
            world.look_after(Duration::from_secs(1)).await;
            world.deliver().await;
            let body = &sink.got()[0].body;
            let broken = world.stream().await.contains("alert_template_broken");
            if works {
                assert_eq!(*body, serde_json::json!({ "say": "critical", "n": 1.0 }));
            } else {
                assert_eq!(body["schema"], "redrive/alert.v1", "{template}");
            }
            assert_eq!(broken, !works, "{template}");
        });
    }
}

/// R-C5: what Slack gets mentions nobody, whatever an error says; a test reaches whom it is meant for.
#[test]
fn slack_is_told_in_its_form() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let url = sink.url();
        let config =
            format!("[[alerts.receivers]]\nname = \"chat\"\nwebhook = \"{url}\"\nformat = \"slack\"\n");
        let world = World::new(&config).await;
        world.die(1, "wake <!channel> up").await;
        world.look_after(Duration::from_secs(1)).await;
        world.deliver().await;
        let text = sink.got()[0].body["text"].as_str().unwrap().to_owned();
        assert!(text.contains("&lt;!channel&gt;") && !text.contains("<!channel>"), "{text}");
        let sent = world.engine.test_alerts(Some("chat")).await.unwrap();
        assert_eq!(sent[0].0, "chat");
        world.deliver().await;
        assert_eq!(sink.got()[1].body["text"], "redrive: a test. Messages reach chat.");
        let nobody = world.engine.test_alerts(Some("pager")).await.unwrap_err().to_string();
        assert!(nobody.contains("known: chat"), "{nobody}");
    });
}
