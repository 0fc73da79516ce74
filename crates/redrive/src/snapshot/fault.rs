//! What is wrong with a root, a name, a pattern, a disk or what we kept: each with a code that programs and other
//! languages go by, and a sentence.

use std::fmt;

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident $code:literal $words:literal,)+) => {
        /// What exactly is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Fault {
            /// Every fault there is.
            pub const ALL: &'static [Fault] = &[$(Fault::$name,)+];

            /// A name that does not change.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Fault::$name => $code,)+
                }
            }
        }

        impl fmt::Display for Fault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Fault::$name => $words,)+
                })
            }
        }
    };
}

faults! {
    /// A root without a name.
    NoName "no-name" "it has no name",
    /// A root with `..` in its path.
    Upward "upward" "it has '..' in it: write the path out",
    /// The root is `/`.
    WholeFileSystem "whole-file-system" "it is the whole file system",
    /// The root is a folder of ours.
    OurOwn "our-own" "it is where redrive keeps its own files",
    /// No root, or too many.
    RootCount "root-count" "a snapshot has between 1 and 100 roots",
    /// A root in another.
    Nested "nested" "it lies in another root of the same snapshot: name the outer one only",
    /// A root by a relative path.
    NotAbsolute "not-absolute" "it is not an absolute path",
    /// The root, or a folder on the way, has become a link.
    NowALink "now-a-link" "it is a link now",
    /// The root, or a folder on the way, is a file.
    NotAFolder "not-a-folder" "it is a file, not a folder",
    /// A name that is none.
    EmptyName "empty-name" "it is empty",
    /// A NUL in a name.
    Nul "nul" "it has a NUL in it",
    /// A path that begins with `/`.
    Absolute "absolute" "it is absolute",
    /// Two slashes, or one at the end.
    EmptyPart "empty-part" "a part of it is empty",
    /// `.` or `..` in a path.
    Dots "dots" "it leads elsewhere by '.' or '..'",
    /// A path that the system would not take, or not where we move things aside.
    PathTooLong "path-too-long" "the path is longer than 3,600 bytes: ignore it, or make it shorter",
    /// One name of more than 255 bytes.
    NameTooLong "name-too-long" "a part of it is longer than 255 bytes",
    /// A pattern of more than 1,000 bytes.
    PatternTooLong "pattern-too-long" "it is longer than 1,000 bytes",
    /// More patterns than anybody writes.
    TooManyPatterns "too-many-patterns" "there are more than 10,000 patterns",
    /// A pattern of slashes only.
    NamesNothing "names-nothing" "it names nothing",
    /// A pattern that takes too much memory.
    TooComplex "too-complex" "it is too large to be compiled",
    /// A backslash with nothing behind it.
    LastBackslash "last-backslash" "it ends with a backslash",
    /// A `[` without its `]`.
    OpenClass "open-class" "a '[' is never closed",
    /// `[z-a]`, or a range that begins with nothing.
    BadRange "bad-range" "a range that runs backwards",
    /// A class that can match nothing.
    EmptyClass "empty-class" "a class that holds nothing but a slash",
    /// The root's own rules are too many bytes.
    RulesTooLarge "rules-too-large" "the file is larger than 1 MiB",
    /// The root's own rules are not UTF-8.
    RulesNotText "rules-not-text" "the file is not UTF-8",
    /// The disk is full.
    Full "full" "it is full",
    /// What is to be written is more than what is free.
    DoesNotFit "does-not-fit" "what is to be put back does not fit",
    /// Too few inodes.
    NoInodes "no-inodes" "not enough inodes are free",
    /// Nobody ever pruned.
    TooManyAsides "too-many-asides" "100,000 restores are aside there: prune them",
    /// Our file does not add up.
    Checksum "checksum" "its checksum is wrong",
    /// Our file cannot be understood although it adds up.
    Unreadable "unreadable" "it cannot be read",
    /// Our file is of a newer redrive.
    OtherVersion "other-version" "it was written by another version",
    /// Our file is not the one that was looked for.
    OtherSnapshot "other-snapshot" "it belongs to another snapshot",
    /// Our file says something that we never write.
    Refused "refused" "it holds an entry that no snapshot has: somebody has written to it",
    /// A content that is not there.
    ContentMissing "content-missing" "what was kept of it is missing",
    /// A content with flipped bits.
    ContentChanged "content-changed" "what was kept of it is not what was written",
    /// A journal that cannot be read.
    JournalUnreadable "journal-unreadable" "it is a journal of a restore: remove it, and restore again",
}
