//! Where CPython keeps what a stack walk needs, by version. Offsets are bytes, for x86-64 builds with the GIL.
//!
//! Taken from the headers of each version, and checked against every interpreter that the tests find. They hold for all patch
//! releases that were tried of a minor version; an interpreter whose own description of itself (from 3.13 on it carries one) says
//! otherwise is not read.

/// How a frame says which instruction it is at, and how lines are found from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Pairs of address and line steps, up to 3.9.
    Lnotab,
    /// Ranges with line steps, 3.10.
    Ranges,
    /// The location table, from 3.11 on.
    Locations,
}

/// Offsets and peculiarities of one minor version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Minor version.
    pub(crate) minor: u8,
    pub(crate) lines: Lines,
    /// In a thread's state: the current frame, or what holds it.
    pub(crate) thread_frame: u16,
    /// In what holds it: the current frame; only 3.11 and 3.12 have that step.
    pub(crate) holder_frame: Option<u16>,
    /// In a thread's state: what pthread_self says.
    pub(crate) thread_id: u16,
    /// In a frame.
    pub(crate) frame_previous: u16,
    pub(crate) frame_code: u16,
    pub(crate) frame_instruction: u16,
    /// In a frame: who owns it; greatest value that is a frame of Python's.
    pub(crate) frame_owner: Option<(u16, u8)>,
    /// Bytes of a frame that are read.
    pub(crate) frame_len: u16,
    /// In a code object.
    pub(crate) code_file: u16,
    pub(crate) code_name: u16,
    pub(crate) code_first_line: u16,
    pub(crate) code_lines: u16,
    /// In a code object: where its instructions begin; `None` where frames count from there themselves.
    pub(crate) code_start: Option<u16>,
    /// In a code object: a number that no other one has.
    pub(crate) code_version: Option<u16>,
    /// What `PyCode_Type` says of the size of its objects.
    pub(crate) code_len: u16,
    /// In a text: its characters, where they are ASCII, and where they are not.
    pub(crate) text_ascii: u16,
    pub(crate) text_other: u16,
    /// In the interpreter's own description of itself, where it has one.
    pub(crate) described: Option<Described>,
}

/// Where the description in `_PyRuntime` names the offsets above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) thread_frame: u16,
    pub(crate) frame_previous: u16,
    pub(crate) code_file: u16,
    pub(crate) code_start: u16,
}

/// In any object: its type.
pub(crate) const OBJECT_TYPE: u64 = 8;
/// In a type: its name; size of its objects.
pub(crate) const TYPE_NAME: u64 = 24;
pub(crate) const TYPE_SIZE: u64 = 32;
/// In a bytes object: its length; its bytes.
pub(crate) const BYTES_LEN: u64 = 16;
pub(crate) const BYTES_DATA: u64 = 32;
/// In a text: its length in characters; its state.
pub(crate) const TEXT_LEN: u64 = 16;
pub(crate) const TEXT_STATE: u64 = 32;

const OLD: Layout = Layout {
    minor: 8,
    lines: Lines::Lnotab,
    thread_frame: 24,
    holder_frame: None,
    thread_id: 176,
    frame_previous: 24,
    frame_code: 32,
    frame_instruction: 104,
    frame_owner: None,
    frame_len: 112,
    code_file: 104,
    code_name: 112,
    code_first_line: 40,
    code_lines: 120,
    code_start: None,
    code_version: None,
    code_len: 176,
    text_ascii: 48,
    text_other: 72,
    described: None,
};

const V3_11: Layout = Layout {
    minor: 11,
    lines: Lines::Locations,
    thread_frame: 56,
    holder_frame: Some(8),
    thread_id: 152,
    frame_previous: 48,
    frame_code: 32,
    frame_instruction: 56,
    frame_owner: Some((69, 2)),
    frame_len: 80,
    code_file: 112,
    code_name: 128,
    code_first_line: 72,
    code_lines: 136,
    code_start: Some(184),
    code_version: None,
    code_len: 184,
    ..OLD
};

const V3_12: Layout = Layout {
    minor: 12,
    holder_frame: Some(0),
    thread_id: 136,
    frame_previous: 8,
    frame_code: 0,
    frame_owner: Some((70, 2)),
    code_first_line: 68,
    code_start: Some(192),
    code_version: Some(92),
    code_len: 192,
    text_ascii: 40,
    text_other: 56,
    ..V3_11
};

const V3_13: Layout = Layout {
    minor: 13,
    thread_frame: 72,
    holder_frame: None,
    thread_id: 152,
    code_start: Some(200),
    code_len: 200,
    described: Some(Described {
        thread_frame: 184,
        frame_previous: 232,
        code_file: 280,
        code_start: 344,
    }),
    ..V3_12
};

const V3_14: Layout = Layout {
    minor: 14,
    frame_owner: Some((74, 2)),
    code_start: Some(208),
    code_len: 208,
    described: Some(Described {
        thread_frame: 208,
        frame_previous: 256,
        code_file: 320,
        code_start: 384,
    }),
    ..V3_13
};

/// Every version that can be read, oldest first.
pub(crate) const LAYOUTS: [Layout; 7] = [
    OLD,
    Layout { minor: 9, ..OLD },
    Layout {
        minor: 10,
        lines: Lines::Ranges,
        frame_instruction: 96,
        ..OLD
    },
    V3_11,
    V3_12,
    V3_13,
    V3_14,
];
