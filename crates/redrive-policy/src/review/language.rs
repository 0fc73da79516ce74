//! What a reviewer has to know of a language to tell code from comments and strings, and whether brackets in it match.
//!
//! Nothing here parses: a few dozen languages are described by how they begin and end a comment and a string. What is
//! not described well enough to be sure of is not judged, since a false alarm rejects good work.

/// A language as a fence or a file's name tells it.
// Each is a trait of its own; together they are no state.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Language {
    pub(super) name: &'static str,
    /// The tags of fences and the extensions of files, in lower case.
    tags: &'static [&'static str],
    pub(super) line_comments: &'static [&'static str],
    pub(super) block: Option<(&'static str, &'static str)>,
    /// Block comments hold block comments.
    pub(super) nested: bool,
    pub(super) quotes: &'static [Quote],
    pub(super) raw: Raw,
    pub(super) apostrophe: Apostrophe,
    /// `/…/` is a pattern where a value may stand.
    pub(super) regex: bool,
    /// A backslash outside of strings takes the next character along.
    pub(super) backslash: bool,
    pub(super) heredoc: bool,
    pub(super) brackets: Brackets,
}

/// A string that begins and ends so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quote {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) multiline: bool,
    pub(super) escapes: bool,
    /// Code stands in it as `${…}`.
    pub(super) template: bool,
}

/// Strings without escapes that name their own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    None,
    Rust,
    Cpp,
}

/// What a lone `'` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Apostrophe {
    /// Nothing in particular, or a quote that is listed.
    Plain,
    /// The beginning of a character, or of a lifetime, or a prime.
    Character,
}

/// Whether brackets are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brackets {
    /// All of them.
    Matched,
    /// Only those that stay open: `case x)` closes what nothing opened.
    Open,
    /// Only when it looks like code at all.
    IfCode,
    /// Not at all.
    Ignored,
}

const fn line(open: &'static str) -> Quote {
    Quote { open, close: open, multiline: false, escapes: true, template: false }
}

const fn lines(open: &'static str) -> Quote {
    Quote { open, close: open, multiline: true, escapes: true, template: false }
}

const fn verbatim(open: &'static str, close: &'static str) -> Quote {
    Quote { open, close, multiline: true, escapes: false, template: false }
}

const TEMPLATE: Quote = Quote { open: "`", close: "`", multiline: true, escapes: true, template: true };

/// Braces, `//` and `/* */`: what most of the others differ from.
const C: Language = Language {
    name: "c",
    tags: &["c", "h"],
    line_comments: &["//"],
    block: Some(("/*", "*/")),
    nested: false,
    quotes: &[line("\"")],
    raw: Raw::None,
    apostrophe: Apostrophe::Character,
    regex: false,
    backslash: false,
    heredoc: false,
    brackets: Brackets::Matched,
};

/// `#` and quotes that end with their line.
const HASH: Language = Language {
    name: "hash",
    tags: &[],
    line_comments: &["#"],
    block: None,
    quotes: &[line("\""), line("'")],
    apostrophe: Apostrophe::Plain,
    brackets: Brackets::Ignored,
    ..C
};

const MARKUP: Language = Language {
    name: "markup",
    tags: &["html", "htm", "xhtml", "xml", "svg", "vue", "svelte", "astro", "xsd", "xsl", "plist"],
    line_comments: &[],
    block: Some(("<!--", "-->")),
    quotes: &[],
    apostrophe: Apostrophe::Plain,
    brackets: Brackets::Ignored,
    ..C
};

/// A fence without a name, or with one that nobody here knows.
pub(super) const UNKNOWN: Language = Language {
    name: "",
    tags: &[],
    line_comments: &["//"],
    quotes: &[line("\""), line("'"), line("`")],
    apostrophe: Apostrophe::Plain,
    brackets: Brackets::IfCode,
    ..C
};

/// What a program said or a person wrote: no code, nothing to match.
const VERBATIM: Language = Language {
    name: "text",
    tags: &[
        "text",
        "txt",
        "plain",
        "plaintext",
        "console",
        "shell-session",
        "shellsession",
        "terminal",
        "log",
        "logs",
        "output",
        "stdout",
        "stderr",
        "none",
        "csv",
        "tsv",
        "http",
        "tree",
        "mermaid",
        "ascii",
        "dot",
        "plantuml",
        "regex",
        "regexp",
        "markdown",
        "md",
        "mdx",
        "rst",
        "adoc",
        "pycon",
        "irb",
        "quote",
        "email",
        "bnf",
        "ebnf",
    ],
    line_comments: &[],
    block: None,
    quotes: &[],
    apostrophe: Apostrophe::Plain,
    brackets: Brackets::Ignored,
    ..C
};

const DIFF: Language = Language { name: "diff", tags: &["diff", "patch", "udiff"], ..VERBATIM };

static KNOWN: &[Language] = &[
    C,
    Language {
        name: "cpp",
        tags: &[
            "cpp",
            "c++",
            "cc",
            "cxx",
            "hpp",
            "hh",
            "cu",
            "objc",
            "m",
            "mm",
            "objective-c",
            "arduino",
            "ino",
        ],
        raw: Raw::Cpp,
        ..C
    },
    Language {
        name: "rust",
        tags: &["rust", "rs"],
        nested: true,
        quotes: &[lines("\"")],
        raw: Raw::Rust,
        ..C
    },
    Language {
        name: "javascript",
        tags: &[
            "javascript",
            "js",
            "jsx",
            "mjs",
            "cjs",
            "typescript",
            "ts",
            "tsx",
            "mts",
            "cts",
            "node",
            "javascriptreact",
            "typescriptreact",
        ],
        quotes: &[line("\""), line("'"), TEMPLATE],
        apostrophe: Apostrophe::Plain,
        regex: true,
        ..C
    },
    Language { name: "go", tags: &["go", "golang"], quotes: &[line("\""), verbatim("`", "`")], ..C },
    Language { name: "java", tags: &["java"], quotes: &[lines("\"\"\""), line("\"")], ..C },
    Language {
        name: "groovy",
        tags: &["groovy", "gradle"],
        quotes: &[lines("\"\"\""), lines("'''"), line("\""), line("'")],
        apostrophe: Apostrophe::Plain,
        regex: true,
        ..C
    },
    Language {
        name: "kotlin",
        tags: &["kotlin", "kt", "kts", "scala", "swift"],
        quotes: &[lines("\"\"\""), line("\"")],
        nested: true,
        ..C
    },
    Language {
        name: "csharp",
        tags: &["csharp", "cs", "c#"],
        quotes: &[verbatim("@\"", "\""), verbatim("\"\"\"", "\"\"\""), line("\"")],
        ..C
    },
    Language {
        name: "clike",
        tags: &[
            "dart", "proto", "protobuf", "solidity", "sol", "zig", "json5", "jsonc", "verilog", "v", "sv",
            "d", "glsl", "hlsl", "wgsl", "thrift", "prisma", "bicep", "typespec", "cue",
        ],
        quotes: &[line("\""), line("'"), verbatim("`", "`")],
        apostrophe: Apostrophe::Plain,
        ..C
    },
    Language {
        name: "json",
        tags: &["json", "jsonl", "ndjson", "geojson", "ipynb"],
        apostrophe: Apostrophe::Plain,
        ..C
    },
    Language {
        name: "php",
        tags: &["php", "php5", "php7"],
        line_comments: &["//", "# "],
        quotes: &[line("\""), line("'")],
        apostrophe: Apostrophe::Plain,
        heredoc: true,
        ..C
    },
    Language {
        name: "css",
        tags: &["css"],
        line_comments: &[],
        quotes: &[line("\""), line("'")],
        apostrophe: Apostrophe::Plain,
        ..C
    },
    Language {
        name: "scss",
        tags: &["scss", "less", "sass"],
        quotes: &[line("\""), line("'")],
        apostrophe: Apostrophe::Plain,
        ..C
    },
    Language {
        name: "hcl",
        tags: &["hcl", "terraform", "tf", "tfvars"],
        line_comments: &["#", "//"],
        apostrophe: Apostrophe::Plain,
        heredoc: true,
        ..C
    },
    Language {
        name: "python",
        tags: &["python", "py", "python3", "py3", "pyi", "pyx", "starlark", "bzl"],
        quotes: &[lines("\"\"\""), lines("'''"), line("\""), line("'")],
        brackets: Brackets::Matched,
        ..HASH
    },
    Language {
        name: "ruby",
        tags: &["ruby", "rb", "rake", "gemspec", "crystal", "cr"],
        regex: true,
        heredoc: true,
        brackets: Brackets::Matched,
        ..HASH
    },
    Language {
        name: "shell",
        tags: &["bash", "sh", "shell", "zsh", "ksh", "fish", "bats", "dash"],
        quotes: &[lines("\""), verbatim("'", "'")],
        backslash: true,
        heredoc: true,
        brackets: Brackets::Open,
        ..HASH
    },
    Language {
        name: "toml",
        tags: &["toml"],
        quotes: &[lines("\"\"\""), verbatim("'''", "'''"), line("\""), line("'")],
        brackets: Brackets::Matched,
        ..HASH
    },
    Language { name: "r", tags: &["r"], brackets: Brackets::Matched, ..HASH },
    Language {
        name: "graphql",
        tags: &["graphql", "gql"],
        quotes: &[lines("\"\"\""), line("\"")],
        brackets: Brackets::Matched,
        ..HASH
    },
    Language {
        name: "hash",
        tags: &[
            "yaml",
            "yml",
            "dockerfile",
            "docker",
            "containerfile",
            "makefile",
            "make",
            "mk",
            "perl",
            "pl",
            "pm",
            "elixir",
            "ex",
            "exs",
            "nix",
            "powershell",
            "ps1",
            "pwsh",
            "julia",
            "jl",
            "conf",
            "cfg",
            "env",
            "dotenv",
            "properties",
            "nginx",
            "apache",
            "cmake",
            "gitignore",
            "tcl",
            "awk",
            "sed",
            "just",
            "justfile",
            "coffee",
            "nim",
            "po",
        ],
        ..HASH
    },
    Language {
        name: "sql",
        tags: &["sql", "postgresql", "postgres", "pgsql", "mysql", "sqlite", "tsql", "plsql", "psql", "ddl"],
        line_comments: &["--"],
        quotes: &[verbatim("'", "'"), line("\""), line("`")],
        apostrophe: Apostrophe::Plain,
        ..C
    },
    Language {
        name: "lua",
        tags: &["lua"],
        line_comments: &["--"],
        block: Some(("--[[", "]]")),
        quotes: &[verbatim("[[", "]]"), line("\""), line("'")],
        apostrophe: Apostrophe::Plain,
        ..C
    },
    Language {
        name: "haskell",
        tags: &["haskell", "hs", "elm", "purescript", "purs", "agda", "ada", "vhdl"],
        line_comments: &["--"],
        block: Some(("{-", "-}")),
        nested: true,
        ..C
    },
    Language {
        name: "lisp",
        tags: &[
            "lisp",
            "clojure",
            "clj",
            "cljs",
            "edn",
            "scheme",
            "scm",
            "racket",
            "rkt",
            "elisp",
            "el",
            "common-lisp",
        ],
        line_comments: &[";"],
        block: Some(("#|", "|#")),
        quotes: &[lines("\"")],
        apostrophe: Apostrophe::Plain,
        backslash: true,
        ..C
    },
    Language {
        name: "semicolon",
        tags: &["ini", "asm", "nasm", "s", "reg", "desktop"],
        line_comments: &[";", "#"],
        ..HASH
    },
    Language {
        name: "percent",
        tags: &["tex", "latex", "matlab", "octave", "erlang", "erl", "prolog", "bib"],
        line_comments: &["%"],
        ..HASH
    },
    Language {
        name: "vim",
        tags: &["vim", "viml", "bat", "cmd", "vb", "vba", "basic"],
        line_comments: &[],
        ..HASH
    },
    Language {
        name: "fsharp",
        tags: &["ocaml", "ml", "mli", "fsharp", "fs", "fsx", "pascal", "pas"],
        line_comments: &["//"],
        block: Some(("(*", "*)")),
        ..HASH
    },
    MARKUP,
    DIFF,
    VERBATIM,
];

impl Language {
    /// The language of a fence by its first word, in any case.
    pub(super) fn of_tag(tag: &str) -> &'static Language {
        let tag = tag.to_ascii_lowercase();
        KNOWN.iter().find(|known| known.tags.contains(&tag.as_str())).unwrap_or(&UNKNOWN)
    }

    /// The language of a file by its name; `None` for one that is prose, or of which nothing is known.
    pub(super) fn of_file(path: &str) -> Option<&'static Language> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        let lower = name.to_ascii_lowercase();
        let stem = lower.split('.').next().unwrap_or_default();
        if matches!(stem, "makefile" | "dockerfile" | "containerfile" | "justfile") {
            return Some(Language::of_tag("makefile"));
        }
        if matches!(lower.as_str(), "gemfile" | "rakefile" | "vagrantfile") {
            return Some(Language::of_tag("ruby"));
        }
        let (_, extension) = lower.rsplit_once('.')?;
        let found = KNOWN.iter().find(|known| known.tags.contains(&extension))?;
        (!found.is_prose()).then_some(found)
    }

    /// Whether it is what somebody said rather than code.
    pub(super) fn is_prose(&self) -> bool {
        self.name == "text"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-T4: a tag names one language, and the names of files lead to the same ones.
    #[test]
    fn a_tag_names_one_language() {
        let mut seen = std::collections::HashSet::new();
        for tag in KNOWN.iter().flat_map(|known| known.tags) {
            assert!(seen.insert(*tag), "{tag} twice");
            assert_eq!(*tag, tag.to_ascii_lowercase());
        }
        assert_eq!(Language::of_tag("TypeScript").name, "javascript");
        assert_eq!(Language::of_file("src/App.tsx").map(|found| found.name), Some("javascript"));
        assert_eq!(Language::of_file("build/Dockerfile.dev").map(|found| found.name), Some("hash"));
        assert!(Language::of_file("notes.md").is_none() && Language::of_file("LICENSE").is_none());
    }
}
