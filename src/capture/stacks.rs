//! Stacks: from a record's node to frames that a person can read.

use gpushim_abi::layout::{Absent, frame, stack};

use super::{Tables, u32_at, u64_at};

/// Frames of one stack that are read; the recorder keeps fewer. A longer chain is a broken one.
const DEPTH_MAX: usize = 1024;

/// A line of a function in a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// File, as the interpreter names it.
    pub file: String,
    /// Function, qualified where the interpreter knows that.
    pub function: String,
    /// Line, 0 unknown.
    pub line: u32,
    /// First line of the function, 0 unknown.
    pub first_line: u32,
}

/// A stack, innermost frames first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Return addresses, below which Python's frames come.
    pub native: Vec<u64>,
    /// Frames of Python.
    pub python: Vec<Frame>,
    /// Whether outer frames were left out, as the stack was too deep.
    pub cut: bool,
    /// Why there are no frames of Python.
    pub absent: Option<Absent>,
    /// The node of PyTorch's autograd graph that was being evaluated.
    pub autograd: Option<Autograd>,
}

/// A node of PyTorch's autograd graph that was being evaluated; the frames of the stack are those of the caller of `backward()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Autograd {
    /// Class of the node.
    pub class: String,
    /// The stack at which the node was made, where that is proven.
    pub forward: Vec<Frame>,
}

impl Stack {
    /// The frame to name first: the innermost that is the program's own, else the innermost.
    pub fn site(&self) -> Option<&Frame> {
        let forward = self.autograd.as_ref().map(|node| &node.forward);
        let frames = match forward {
            Some(forward) if !forward.is_empty() => forward,
            _ => &self.python,
        };
        frames
            .iter()
            .find(|frame| !frame.is_library())
            .or_else(|| frames.iter().find(|frame| !frame.is_plumbing()))
            .or_else(|| frames.first())
    }

    /// Frames of Python without those that only pass a call on.
    pub fn folded(&self) -> impl Iterator<Item = &Frame> {
        self.python.iter().filter(|frame| !frame.is_plumbing())
    }
}

impl Frame {
    /// Whether it only passes a call on: import machinery, and PyTorch's way from a module or a function to its code.
    pub fn is_plumbing(&self) -> bool {
        const FILES: [&str; 9] = [
            "/torch/nn/modules/module.py",
            "/torch/_ops.py",
            "/torch/overrides.py",
            "/torch/utils/_contextlib.py",
            "/torch/utils/_device.py",
            "/torch/_compile.py",
            "/torch/autograd/function.py",
            "/torch/autograd/graph.py",
            "/runpy.py",
        ];
        const FOLDERS: [&str; 4] = [
            "/torch/_dynamo/",
            "/torch/_functorch/",
            "/torch/_inductor/",
            "/importlib/",
        ];
        self.file.starts_with("<frozen ")
            || self.function == "_wrapped_call_impl"
            || self.function == "_call_impl"
            || FILES.iter().any(|end| self.file.ends_with(end))
            || FOLDERS.iter().any(|part| self.file.contains(part))
    }

    /// Whether it is of an installed library, or of Python's own, and not of the program.
    pub fn is_library(&self) -> bool {
        const FOLDERS: [&str; 2] = ["/site-packages/", "/dist-packages/"];
        self.is_plumbing()
            || FOLDERS.iter().any(|part| self.file.contains(part))
            || in_standard_library(&self.file)
            || self.file.starts_with("<__array_function__")
            || self.file.starts_with("<eval_with_key>")
    }
}

/// `…/lib/python3.12/asyncio/events.py` and the like.
fn in_standard_library(file: &str) -> bool {
    file.split_once("/lib/python3.").is_some_and(|(_, rest)| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
            .starts_with('/')
    })
}

/// A node of a capture.
#[derive(Clone, Copy)]
struct Node {
    kind: u32,
    value: u64,
    parent: u32,
}

impl Tables {
    fn node(&self, number: u32) -> Option<Node> {
        let at = (number.checked_sub(1)? as usize).checked_mul(stack::LEN)?;
        let entry = self.stacks.get(at..at + stack::LEN)?;
        let parent = u32_at(entry, stack::PARENT.start);
        // A parent is older than its child: no chain has a ring in it.
        (parent < number).then(|| Node {
            kind: u32_at(entry, stack::KIND.start),
            value: u64_at(entry, stack::VALUE.start),
            parent,
        })
    }

    /// The frame with this number; an empty one where there is none.
    fn frame(&self, number: u64) -> Frame {
        let entry = usize::try_from(number)
            .ok()
            .and_then(|number| number.checked_sub(1)?.checked_mul(frame::LEN))
            .and_then(|at| self.frames.get(at..at + frame::LEN))
            .filter(|entry| u32_at(entry, frame::COMPLETE.start) == 1);
        entry.map_or_else(Frame::default, |entry| Frame {
            file: self.text(&entry[frame::FILE]),
            function: self.text(&entry[frame::FUNCTION]),
            line: u32_at(entry, frame::LINE.start),
            first_line: u32_at(entry, frame::FIRST_LINE.start),
        })
    }

    /// The stack that a record's number means.
    pub fn stack(&self, number: u32) -> Stack {
        let mut stack = Stack::default();
        let mut next = number;
        let mut forward = 0;
        let mut passes = 0;
        for _ in 0..DEPTH_MAX {
            let Some(node) = self.node(next) else {
                break;
            };
            match node.kind {
                stack::NATIVE => stack.native.push(node.value),
                stack::PYTHON => stack.python.push(self.frame(node.value)),
                // Of passes within passes the innermost.
                stack::AUTOGRAD => {
                    passes += 1;
                    stack.autograd.get_or_insert_with(|| Autograd {
                        class: class_name(&self.frame(node.value).function),
                        forward: Vec::new(),
                    });
                }
                stack::FORWARD if passes == 1 && forward == 0 => {
                    forward = u32::try_from(node.value).unwrap_or(0);
                }
                stack::CUT => stack.cut = true,
                stack::ABSENT => stack.absent = Absent::from_raw(node.value),
                _ => {}
            }
            next = node.parent;
        }
        for _ in 0..DEPTH_MAX {
            let Some(node) = self.node(forward) else {
                break;
            };
            if node.kind == stack::PYTHON
                && let Some(autograd) = &mut stack.autograd
            {
                autograd.forward.push(self.frame(node.value));
            }
            forward = node.parent;
        }
        stack
    }

    /// The innermost return address of a stack.
    pub fn return_address(&self, number: u32) -> Option<u64> {
        self.node(number)
            .filter(|node| node.kind == stack::NATIVE)
            .map(|node| node.value)
    }
}

/// The last part of a C++ class's name, from how the compiler writes it (`N5torch8autograd9generated14AddmmBackward0E`).
fn class_name(mangled: &str) -> String {
    let symbol = cpp_demangle::Symbol::new(format!("_Z{mangled}"));
    let whole = symbol.and_then(|symbol| {
        let mut text = String::new();
        let options = cpp_demangle::DemangleOptions::default();
        symbol
            .structured_demangle(&mut text, &options)
            .map(|()| text)
            .map_err(|_| cpp_demangle::error::Error::UnexpectedText)
    });
    let whole = whole.unwrap_or_else(|_| mangled.to_owned());
    let before_arguments = whole.split('<').next().unwrap_or_default();
    match before_arguments.rsplit_once("::") {
        Some((_, last)) => last.to_owned(),
        None => before_arguments.to_owned(),
    }
}

/// Why there are no frames, in words.
pub fn absent_text(absent: Absent) -> &'static str {
    match absent {
        Absent::ForeignThread => "a thread that Python does not know",
        Absent::NoFrames => "a thread that runs no Python code",
        Absent::UnknownVersion => "a Python whose structures gpushim does not know",
        Absent::FreeThreaded => "a free-threaded Python, which cannot be read",
        Absent::Finalizing => "Python was ending",
        Absent::Unreadable => "Python's structures could not be read",
        Absent::Off => "GPUSHIM_STACKS leaves Python frames out",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_short_names() {
        for (mangled, name) in [
            (
                "N5torch8autograd9generated14AddmmBackward0E",
                "AddmmBackward0",
            ),
            ("N5torch8autograd14AccumulateGradE", "AccumulateGrad"),
            ("N5torch8autograd6PyNodeE", "PyNode"),
            ("4Node", "Node"),
            ("", ""),
            ("\u{1}?", "\u{1}?"),
        ] {
            assert_eq!(class_name(mangled), name);
        }
    }

    #[test]
    fn a_site_is_the_programs_own_line() {
        let frame = |file: &str, line| Frame {
            file: file.to_owned(),
            function: "f".to_owned(),
            line,
            first_line: 1,
        };
        let stack = Stack {
            python: vec![
                frame(
                    "/opt/venv/lib/python3.12/site-packages/torch/optim/adam.py",
                    1,
                ),
                frame("/usr/lib/python3.12/contextlib.py", 2),
                frame("/home/me/train.py", 3),
                frame("/home/me/main.py", 4),
            ],
            ..Stack::default()
        };
        assert_eq!(stack.site().map(|frame| frame.line), Some(3));
        let library = Stack {
            python: stack.python[..2].to_vec(),
            ..Stack::default()
        };
        assert_eq!(library.site().map(|frame| frame.line), Some(1));
        assert_eq!(Stack::default().site(), None);
        assert!(!frame("/srv/lib/python3.x/me.py", 1).is_library());
    }
}
