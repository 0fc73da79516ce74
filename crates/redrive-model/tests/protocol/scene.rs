//! The scenes that are explored, each to its end. One scene with every budget would have hundreds of millions of states; each of these
//! leaves something out so that the rest can be looked at in full.

use crate::state::{Budget, JOBS, Nature};

pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) natures: [Nature; JOBS],
    pub(crate) budget: Budget,
}

/// Nothing goes wrong, and nobody does anything.
pub(crate) const NOTHING: Budget = Budget { faults: 0, copies: 0, give_backs: 0, cancels: 0, redrives: 0 };

pub(crate) const SCENES: &[Scene] = &[
    Scene {
        name: "a good job beside one that fails and kills; one fault",
        natures: [Nature::Good, Nature::Wild],
        budget: Budget { faults: 1, ..NOTHING },
    },
    Scene {
        name: "two good jobs; two faults",
        natures: [Nature::Good, Nature::Good],
        budget: Budget { faults: 2, ..NOTHING },
    },
    Scene {
        name: "a good job beside one that fails; one fault, a settlement that is repeated",
        natures: [Nature::Good, Nature::Failing],
        budget: Budget { faults: 1, copies: 1, ..NOTHING },
    },
    Scene {
        name: "a good job; two faults, a repeated settlement, given back, cancelled",
        natures: [Nature::Good, Nature::Absent],
        budget: Budget { faults: 2, copies: 1, give_backs: 1, cancels: 1, redrives: 0 },
    },
    Scene {
        name: "a good job; three faults, cancelled",
        natures: [Nature::Good, Nature::Absent],
        budget: Budget { faults: 3, cancels: 1, ..NOTHING },
    },
    Scene {
        name: "a job that fails; one fault, a repeated settlement, cancelled, redriven",
        natures: [Nature::Failing, Nature::Absent],
        budget: Budget { faults: 1, copies: 1, give_backs: 0, cancels: 1, redrives: 1 },
    },
    Scene {
        name: "a job that fails and kills; one fault, given back, cancelled",
        natures: [Nature::Wild, Nature::Absent],
        budget: Budget { faults: 1, give_backs: 1, cancels: 1, ..NOTHING },
    },
    Scene {
        name: "a job that fails and kills; redriven, a repeated settlement",
        natures: [Nature::Wild, Nature::Absent],
        budget: Budget { copies: 1, redrives: 1, ..NOTHING },
    },
];
