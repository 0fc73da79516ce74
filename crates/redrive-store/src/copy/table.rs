//! The tables that are copied row by row, and what their columns are.

/// A value on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn as_int(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }

    /// How much memory it takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Value::Null | Value::Int(_) => 8,
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
        }
    }
}

/// A row on its way, in the order of its table's columns.
pub(crate) type Record = Vec<Value>;

/// What a column holds. A truth is 0 or 1 on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Truth,
    Text,
    Bytes,
}

/// Whether a number means the same in every store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Name,
    Queue,
    Lane,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [Column],
}

/// A column's kind and role, by one word.
macro_rules! sort {
    (Lane) => {
        (Kind::Int, Role::Lane)
    };
    (Name) => {
        (Kind::Int, Role::Name)
    };
    (Queue) => {
        (Kind::Int, Role::Queue)
    };
    ($kind:ident) => {
        (Kind::$kind, Role::Plain)
    };
}

macro_rules! columns {
    ($($sort:ident { $($name:ident)* })*) => {
        &[$($(Column { name: stringify!($name), kind: sort!($sort).0, role: sort!($sort).1 }),*),*]
    };
}

pub(crate) static NAMES: Table = Table { name: "name", columns: columns!(Int { id } Text { text }) };
pub(crate) static QUEUES: Table = Table {
    name: "queue",
    columns: columns!(Int { id } Text { name } Int { paused_at } Text { paused_why }),
};
pub(crate) static LANES: Table = Table {
    name: "lane",
    columns: columns!(
        Int { id queue_id } Text { kind } Int { ready leased dead succeeded cancelled discarded }
    ),
};

/// In an order in which nothing refers to what comes later.
pub(crate) static TABLES: &[Table] = &[
    Table { name: "seal_key", columns: columns!(Int { number } Text { key_id proof } Int { since }) },
    Table { name: "reseal", columns: columns!(Int { one } Text { key_id } Int { step reached cells }) },
    Table {
        name: "job",
        columns: columns!(
            Int { id } Lane { lane_id } Bytes { payload } Int { enqueued_at run_at rank } Name { source_id }
            Int { event } Text { policy overrides caller_id idempotency_key unique_key }
            Int { timeout_ms deadline_at origin } Truth { inline } Text { target }
        ),
    },
    Table { name: "unique_job", columns: columns!(Queue { queue_id } Text { key } Int { job_id }) },
    Table { name: "ready", columns: columns!(Lane { lane_id } Int { rank run_at job_id }) },
    Table {
        name: "progress",
        columns: columns!(
            Int { job_id run_at held_for fence attempts retries crashes last_delay_ms } Text { hint }
            Int { redrives event } Text { fingerprint } Int { run_id redriven_at }
        ),
    },
    Table {
        name: "lease",
        columns: columns!(
            Int { job_id } Lane { lane_id }
            Int { fence worker_id leased_at expires_at lease_for_ms begun_at attempts retries crashes }
            Name { source_id } Int { flags event } Text { cancel_why }
        ),
    },
    Table {
        name: "worker",
        columns: columns!(
            Int { id } Text { label } Int { started_at seen_at expires_at lasts_ms } Text { queues kinds }
        ),
    },
    Table {
        name: "dead_letter",
        columns: columns!(
            Int { job_id } Lane { lane_id } Int { died_at event } Text { reason cause } Truth { retryable }
            Text { rule fingerprint error_type error_message } Int { attempts retries crashes max_retries fence }
            Int { redrives } Text { caller_id } Int { run_id }
        ),
    },
    Table { name: "letter_report", columns: columns!(Int { job_id } Text { context report }) },
    Table {
        name: "letter_group",
        columns: columns!(
            Int { id } Text { fingerprint cause error_type sample }
            Int { letters failures under_way recovered relapsed first_seen last_seen state state_since } Text { note }
        ),
    },
    Table {
        name: "redrive_run",
        columns: columns!(
            Int { id created_at } Text { wanted_by plan progress } Int { moved skipped state } Text { why }
            Int { version held_by held_until ended_at }
        ),
    },
    Table {
        name: "redrive_item",
        columns: columns!(Int { run_id job_id step outcome } Text { fingerprint }),
    },
    Table {
        name: "payload_version",
        columns: columns!(Int { id job_id version at } Text { edited_by } Bytes { payload }),
    },
    Table {
        name: "task",
        columns: columns!(
            Int { id created_at } Text { name place }
            Int { subtasks waiting started succeeded failed skipped cancelled } Text { progress } Int { state }
            Text { why report } Int { version held_by held_until ended_at event }
        ),
    },
    Table { name: "task_plan", columns: columns!(Int { task_id } Text { plan }) },
    Table {
        name: "subtask",
        columns: columns!(Int { task_id number state job_id rounds started_at ended_at }),
    },
    Table { name: "escalation_ack", columns: columns!(Int { id } Text { subject } Int { at } Text { note }) },
    Table {
        name: "idempotency_keys",
        columns: columns!(
            Int { id } Text { principal key endpoint request_hash } Int { state incarnation leased_until response_status }
            Bytes { response_headers response_body } Int { job_id created_at ended_at expires_at }
        ),
    },
    Table {
        name: "outbox",
        columns: columns!(
            Int { id } Text { lane key call call_hash } Int { state sends created_at not_before sent_at ended_at }
            Text { last } Int { last_status }
        ),
    },
    Table { name: "outbox_lane", columns: columns!(Text { lane } Int { held_by held_until }) },
    Table { name: "saved_key", columns: columns!(Text { name key } Int { created_at }) },
    Table {
        name: "notice",
        columns: columns!(Int { id } Text { space name } Int { version } Text { value } Int { due_at changed_at }),
    },
    Table { name: "hour_count", columns: columns!(Int { hour } Lane { lane_id } Int { what n }) },
    Table { name: "ended", columns: columns!(Int { job_id event }) },
    Table {
        name: "event",
        columns: columns!(
            Int { seq at } Name { type_id source_id } Int { status job_id } Lane { lane_id }
            Int { parent attempt retries max_retries latency_ms exit_code importance } Text { hypothesis caller_id tags }
            Int { imported_at } Text { detail }
        ),
    },
    Table { name: "event_alias", columns: columns!(Text { event_id } Int { seq }) },
    Table {
        name: "aside",
        columns: columns!(Int { id at } Text { origin } Int { line } Text { why } Bytes { text }),
    },
];
