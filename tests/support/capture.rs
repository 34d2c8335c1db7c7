//! Captures made by hand from the tables of FORMAT.md, with that document's own numbers and not the layout
//! module's constants: what the reader makes of them is held against the document.

const HEADER: usize = 4096;
const RING: usize = 8;

/// A record's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) call: u16,
    pub(crate) result: u16,
    pub(crate) at_ns: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) thread: u32,
    pub(crate) stack: u32,
    pub(crate) context: u16,
    pub(crate) device: u8,
    pub(crate) flags: u8,
}

/// A device of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) uuid: [u8; 16],
    pub(crate) name: &'static str,
    pub(crate) pci: &'static str,
}

/// The only device of most captures.
pub(crate) const H200: Device = Device {
    uuid: *b"\x18\x62\x88\x9f234567890abc",
    name: "NVIDIA H200",
    pci: "0000:06:00.0",
};

/// A thread, in a call or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    /// Row id, address, size of the call in flight; 0 is none.
    pub(crate) call: (u16, u64, u64),
}

/// Whose capture it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    pub(crate) group: u32,
    pub(crate) start_ticks: u64,
    pub(crate) pid_namespace: u64,
    pub(crate) boot_id: [u8; 16],
    /// CLOCK_REALTIME, ns, when the capture was opened; CLOCK_MONOTONIC was 1 s.
    pub(crate) opened_realtime: u64,
}

/// A capture in the making. A field is named after what FORMAT.md calls it.
#[derive(Debug)]
pub(crate) struct Synthesis {
    /// Slots of the ring, a power of two.
    pub(crate) slots: usize,
    /// 0, or the number of slots by which it wraps.
    pub(crate) frozen: u64,
    pub(crate) version: u16,
    pub(crate) complete: bool,
    pub(crate) clean_exit: u64,
    pub(crate) counters: [u64; 11],
    /// Number of the header's text, and the text.
    pub(crate) texts: Vec<(usize, &'static str)>,
    pub(crate) owner: Owner,
    pub(crate) devices: Vec<Device>,
    /// Device ordinal and handle.
    pub(crate) contexts: Vec<(u32, u64)>,
    pub(crate) threads: Vec<Thread>,
    /// Path and first address; each is a megabyte long.
    pub(crate) modules: Vec<(&'static str, u64)>,
    /// Return address and the caller's node.
    pub(crate) stacks: Vec<(u64, u32)>,
    /// Kind, value, text.
    pub(crate) notes: Vec<(u32, u32, &'static str)>,
    /// Numbers given out: state and slot, or never touched for it.
    pub(crate) records: Vec<Option<(u32, Slot)>>,
}

impl Default for Synthesis {
    fn default() -> Self {
        Self {
            slots: 64,
            frozen: 0,
            version: 1,
            complete: true,
            clean_exit: 0,
            counters: [0; 11],
            texts: vec![
                (0, "/usr/bin/python3"),
                (1, "python3\0train.py"),
                (3, "host"),
                (4, "0.1.0"),
            ],
            // A process id that no kernel gives, of a boot that never was.
            owner: Owner {
                pid: 4_242_424,
                group: 4_242_424,
                start_ticks: 0,
                pid_namespace: 0,
                boot_id: [0; 16],
                opened_realtime: 1_700_000_000_000_000_000,
            },
            devices: vec![H200],
            contexts: vec![(0, 0xc0de)],
            threads: vec![Thread {
                id: 501,
                name: "pt_main",
                call: (3, 0, 1 << 30),
            }],
            modules: vec![("/opt/lib/libcudart.so.13", 0x7000_0000)],
            stacks: vec![(0x7000_1234, 0), (0x9999, 0)],
            notes: vec![(1, 12_000, "cuLaunchKernel")],
            records: Vec::new(),
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn put_text(bytes: &mut [u8], at: usize, (offset, len): (u32, u32)) {
    put(bytes, at, &offset.to_le_bytes());
    put(bytes, at + 4, &len.to_le_bytes());
}

impl Synthesis {
    /// Adds a committed record.
    pub(crate) fn record(&mut self, slot: Slot) -> &mut Self {
        self.records.push(Some((2, slot)));
        self
    }

    /// Adds a number that was claimed and never committed.
    pub(crate) fn hole(&mut self, slot: Slot) -> &mut Self {
        self.records.push(Some((1, slot)));
        self
    }

    /// Adds a number whose slot was never touched for it.
    pub(crate) fn dropped(&mut self) -> &mut Self {
        self.records.push(None);
        self
    }

    /// The file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut references = Vec::new();
        for (_, text) in &self.texts {
            references.push((strings.len() as u32, text.len() as u32));
            strings.extend_from_slice(text.as_bytes());
        }
        let mut text = |value: &str| {
            let at = (strings.len() as u32, value.len() as u32);
            strings.extend_from_slice(value.as_bytes());
            at
        };
        let mut devices = vec![0; self.devices.len() * 64];
        for (index, device) in self.devices.iter().enumerate() {
            let at = index * 64;
            put(&mut devices, at, &1_u32.to_le_bytes());
            put(&mut devices, at + 4, &9_u16.to_le_bytes());
            put(&mut devices, at + 8, &device.uuid);
            put(&mut devices, at + 24, &(143_771_u64 << 20).to_le_bytes());
            put_text(&mut devices, at + 32, text(device.name));
            put_text(&mut devices, at + 40, text(device.pci));
        }
        let mut contexts = vec![0; self.contexts.len() * 32];
        for (index, (device, handle)) in self.contexts.iter().enumerate() {
            let at = index * 32;
            put(&mut contexts, at, &1_u32.to_le_bytes());
            put(&mut contexts, at + 4, &device.to_le_bytes());
            put(&mut contexts, at + 8, &handle.to_le_bytes());
        }
        let mut threads = vec![0; self.threads.len() * 64];
        for (index, thread) in self.threads.iter().enumerate() {
            let at = index * 64;
            let (call, address, size) = thread.call;
            put(&mut threads, at, &thread.id.to_le_bytes());
            put(&mut threads, at + 4, &call.to_le_bytes());
            put(&mut threads, at + 8, &address.to_le_bytes());
            put(&mut threads, at + 16, &size.to_le_bytes());
            put(&mut threads, at + 32, thread.name.as_bytes());
        }
        let mut modules = vec![0; self.modules.len() * 64];
        for (index, (path, start)) in self.modules.iter().enumerate() {
            let at = index * 64;
            put(&mut modules, at, &1_u32.to_le_bytes());
            put(&mut modules, at + 4, &4_u32.to_le_bytes());
            put(&mut modules, at + 8, &start.to_le_bytes());
            put(&mut modules, at + 16, &start.to_le_bytes());
            put(&mut modules, at + 24, &(start + (1 << 20)).to_le_bytes());
            put_text(&mut modules, at + 32, text(path));
            put(&mut modules, at + 40, b"\xde\xad\xbe\xef");
        }
        let mut stacks = vec![0; self.stacks.len() * 16];
        for (index, (address, parent)) in self.stacks.iter().enumerate() {
            let at = index * 16;
            put(&mut stacks, at, &address.to_le_bytes());
            put(&mut stacks, at + 8, &parent.to_le_bytes());
            put(&mut stacks, at + 12, &1_u32.to_le_bytes());
        }
        let mut notes = vec![0; self.notes.len() * 16];
        for (index, (kind, value, note)) in self.notes.iter().enumerate() {
            let at = index * 16;
            put(&mut notes, at, &kind.to_le_bytes());
            put(&mut notes, at + 4, &value.to_le_bytes());
            put_text(&mut notes, at + 8, text(note));
        }
        let mut ring = vec![0; self.slots * 64];
        let modulus = if self.frozen == 0 {
            self.slots
        } else {
            self.frozen as usize
        };
        for (number, written) in self.records.iter().enumerate() {
            if let Some((state, slot)) = written {
                let lap = (number / modulus) as u32;
                let at = number % modulus * 64;
                put(&mut ring, at, &(lap * 4 + state).to_le_bytes());
                put(&mut ring, at + 4, &slot.call.to_le_bytes());
                put(&mut ring, at + 6, &slot.result.to_le_bytes());
                put(&mut ring, at + 8, &slot.at_ns.to_le_bytes());
                put(&mut ring, at + 16, &slot.address.to_le_bytes());
                put(&mut ring, at + 24, &slot.size.to_le_bytes());
                put(&mut ring, at + 32, &slot.a.to_le_bytes());
                put(&mut ring, at + 40, &slot.b.to_le_bytes());
                put(&mut ring, at + 48, &slot.thread.to_le_bytes());
                put(&mut ring, at + 52, &slot.stack.to_le_bytes());
                put(&mut ring, at + 56, &slot.context.to_le_bytes());
                put(&mut ring, at + 60, &[slot.device, slot.flags]);
            }
        }
        // Kind, length of an entry, bytes.
        let parts: [(u32, u32, &[u8]); 8] = [
            (1, 64, &devices),
            (2, 32, &contexts),
            (3, 64, &threads),
            (4, 64, &modules),
            (5, 16, &stacks),
            (6, 1, &strings),
            (7, 16, &notes),
            (RING as u32, 64, &ring),
        ];
        let mut file = vec![0; HEADER];
        for (index, (kind, entry, bytes)) in parts.into_iter().enumerate() {
            let offset = file.len();
            file.extend_from_slice(bytes);
            file.resize(file.len().next_multiple_of(HEADER), 0);
            let at = 512 + index * 64;
            let reserved = if kind == RING as u32 {
                bytes.len()
            } else {
                file.len() - offset
            };
            put(&mut file, at, &kind.to_le_bytes());
            put(&mut file, at + 4, &entry.to_le_bytes());
            put(&mut file, at + 8, &(offset as u64).to_le_bytes());
            put(&mut file, at + 16, &(reserved as u64).to_le_bytes());
            put(&mut file, at + 24, &(reserved as u64).to_le_bytes());
            put(
                &mut file,
                at + 32,
                &((bytes.len() / entry as usize) as u64).to_le_bytes(),
            );
        }
        put(&mut file, 0, b"gpushim\0");
        put(&mut file, 8, &self.version.to_le_bytes());
        put(&mut file, 10, &4096_u16.to_le_bytes());
        put(&mut file, 12, &u32::from(self.complete).to_le_bytes());
        let length = file.len() as u64;
        put(&mut file, 24, &length.to_le_bytes());
        let owner = self.owner;
        put(&mut file, 32, &owner.pid.to_le_bytes());
        put(&mut file, 36, &1_u32.to_le_bytes());
        put(&mut file, 40, &owner.group.to_le_bytes());
        put(&mut file, 52, &13_000_u32.to_le_bytes());
        put(&mut file, 56, &owner.start_ticks.to_le_bytes());
        put(&mut file, 64, &owner.pid_namespace.to_le_bytes());
        put(&mut file, 72, &owner.boot_id);
        put(&mut file, 88, &1_000_000_000_u64.to_le_bytes());
        put(&mut file, 96, &owner.opened_realtime.to_le_bytes());
        put(&mut file, 104, &self.clean_exit.to_le_bytes());
        for ((which, _), (offset, len)) in self.texts.iter().zip(references) {
            put(&mut file, 112 + which * 8, &offset.to_le_bytes());
            put(&mut file, 116 + which * 8, &len.to_le_bytes());
        }
        for (index, counter) in self.counters.iter().enumerate() {
            put(&mut file, 1536 + index * 8, &counter.to_le_bytes());
        }
        put(&mut file, 2048, &(self.records.len() as u64).to_le_bytes());
        put(&mut file, 2112, &self.frozen.to_le_bytes());
        file
    }
}

/// A record of this call at this many milliseconds.
pub(crate) fn at(call: u16, milliseconds: u64) -> Slot {
    Slot {
        call,
        at_ns: 1_000_000_000 + milliseconds * 1_000_000,
        thread: 500,
        stack: 1,
        device: 0xff,
        ..Slot::default()
    }
}

/// The beginning of most programs: `cuInit`, and a primary context.
pub(crate) fn program() -> Synthesis {
    let mut made = Synthesis {
        clean_exit: 9_000_000_000,
        ..Synthesis::default()
    };
    made.record(Slot {
        context: 0xffff,
        ..at(1, 0)
    });
    made.record(Slot {
        address: 0xc0de,
        device: 0,
        context: 0xffff,
        ..at(28, 100)
    });
    made
}

/// `cuMemAlloc_v2`.
pub(crate) fn alloc(milliseconds: u64, address: u64, size: u64) -> Slot {
    Slot {
        address,
        size,
        device: 0,
        ..at(3, milliseconds)
    }
}

/// `cuMemFree_v2`, as it is recorded before the driver answers.
pub(crate) fn free(milliseconds: u64, address: u64) -> Slot {
    Slot {
        address,
        result: 0xffff,
        ..at(7, milliseconds)
    }
}
