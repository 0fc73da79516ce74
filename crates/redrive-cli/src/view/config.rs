//! The settings in force, and where each comes from.

use std::borrow::Cow;

use serde::Serialize;

use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::secret;
use crate::settings::Origin;
use crate::text::{say, text};

#[derive(Debug, Serialize)]
pub(crate) struct ConfigView {
    pub(crate) schema: &'static str,
    pub(crate) file: Option<String>,
    pub(crate) settings: Vec<SettingView>,
    pub(crate) policies: Vec<String>,
    pub(crate) rules: Vec<String>,
    #[serde(skip)]
    pub(crate) with_origin: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct SettingView {
    name: Cow<'static, str>,
    value: serde_json::Value,
    origin: String,
    #[serde(skip)]
    source: Origin,
}

impl SettingView {
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        value: impl Into<serde_json::Value>,
        source: Origin,
    ) -> SettingView {
        let origin = match &source {
            Origin::Flag(flag) => format!("flag {flag}"),
            Origin::Env(name) => format!("env {name}"),
            Origin::File(path) => format!("file {}", path.display()),
            Origin::Search => "search".to_owned(),
            Origin::BuiltIn => "built-in".to_owned(),
        };
        let value = match value.into() {
            serde_json::Value::String(text) => redrive::redact(&text).into(),
            other => other,
        };
        SettingView { name: name.into(), value, origin, source }
    }

    /// The store; its password is for nobody to read.
    pub(crate) fn store(url: &str, source: Origin) -> SettingView {
        SettingView::new("store", secret::blanked(url), source)
    }

    fn shown(&self) -> String {
        match &self.value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => "-".to_owned(),
            other => other.to_string(),
        }
    }
}

impl Page for ConfigView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let file = self.file.as_ref().map_or_else(
            || Span::new(say(lang, "config.no-file"), Tone::Dim),
            |file| Span::new(file.clone(), Tone::Strong),
        );
        let list = |names: &[String]| {
            if names.is_empty() {
                Span::new(say(lang, "config.none"), Tone::Dim)
            } else {
                Span::plain(names.join(", "))
            }
        };
        let fields = vec![
            (say(lang, "config.file"), file),
            (say(lang, "config.policies"), list(&self.policies)),
            (say(lang, "config.rules"), list(&self.rules)),
        ];
        let rows = self.settings.iter().map(|setting| {
            let mut row = vec![
                Span::plain(setting.name.clone().into_owned()),
                Span::new(setting.shown(), Tone::Strong),
            ];
            if self.with_origin {
                row.push(match &setting.source {
                    Origin::Flag(flag) => Span::plain((*flag).to_owned()),
                    Origin::Env(name) => Span::plain(text(lang, "config.origin.env", &[("name", name)])),
                    Origin::File(path) => Span::plain(path.display().to_string()),
                    Origin::Search => Span::plain(say(lang, "config.origin.search")),
                    Origin::BuiltIn => Span::new(say(lang, "config.origin.built-in"), Tone::Dim),
                });
            }
            row
        });
        let mut columns =
            vec![(say(lang, "config.setting"), Align::Left), (say(lang, "config.value"), Align::Left)];
        if self.with_origin {
            columns.push((say(lang, "config.from"), Align::Left));
        }
        vec![Block::Fields(fields), Block::Gap, Block::Table(Table { columns, rows: rows.collect() })]
    }
}
