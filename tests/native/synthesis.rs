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

/// A capture in the making.
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
    pub(crate) texts: Vec<(usize, &'static str)>,
    /// Numbers given out that were not written: claimed or not at all.
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
            records: Vec::new(),
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
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
        // One device, one context, one thread, one module, two stack nodes, one note.
        let mut device = vec![0; 64];
        put(&mut device, 0, &1_u32.to_le_bytes());
        put(&mut device, 4, &9_u16.to_le_bytes());
        put(&mut device, 8, b"\x18\x62\x88\x9f234567890abc");
        put(&mut device, 24, &(143_771_u64 << 20).to_le_bytes());
        let (offset, len) = text("NVIDIA H200");
        put(&mut device, 32, &offset.to_le_bytes());
        put(&mut device, 36, &len.to_le_bytes());
        let (offset, len) = text("0000:06:00.0");
        put(&mut device, 40, &offset.to_le_bytes());
        put(&mut device, 44, &len.to_le_bytes());
        let mut context = vec![0; 32];
        put(&mut context, 0, &1_u32.to_le_bytes());
        put(&mut context, 8, &0xc0de_u64.to_le_bytes());
        let mut thread = vec![0; 64];
        put(&mut thread, 0, &501_u32.to_le_bytes());
        put(&mut thread, 4, &3_u16.to_le_bytes());
        put(&mut thread, 16, &(1_u64 << 30).to_le_bytes());
        put(&mut thread, 32, b"pt_main");
        let mut module = vec![0; 64];
        put(&mut module, 0, &1_u32.to_le_bytes());
        put(&mut module, 4, &4_u32.to_le_bytes());
        put(&mut module, 8, &0x7000_0000_u64.to_le_bytes());
        put(&mut module, 16, &0x7000_0000_u64.to_le_bytes());
        put(&mut module, 24, &0x7010_0000_u64.to_le_bytes());
        let (offset, len) = text("/opt/lib/libcudart.so.13");
        put(&mut module, 32, &offset.to_le_bytes());
        put(&mut module, 36, &len.to_le_bytes());
        put(&mut module, 40, b"\xde\xad\xbe\xef");
        let mut stacks = vec![0; 32];
        put(&mut stacks, 0, &0x7000_1234_u64.to_le_bytes());
        put(&mut stacks, 12, &1_u32.to_le_bytes());
        put(&mut stacks, 16, &0x9999_u64.to_le_bytes());
        put(&mut stacks, 28, &1_u32.to_le_bytes());
        let mut note = vec![0; 16];
        put(&mut note, 0, &1_u32.to_le_bytes());
        put(&mut note, 4, &12_000_u32.to_le_bytes());
        let (offset, len) = text("cuLaunchKernel");
        put(&mut note, 8, &offset.to_le_bytes());
        put(&mut note, 12, &len.to_le_bytes());
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
            (1, 64, &device),
            (2, 32, &context),
            (3, 64, &thread),
            (4, 64, &module),
            (5, 16, &stacks),
            (6, 1, &strings),
            (7, 16, &note),
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
        // A process id that no kernel gives, of a boot that never was.
        put(&mut file, 32, &4_242_424_u32.to_le_bytes());
        put(&mut file, 36, &1_u32.to_le_bytes());
        put(&mut file, 52, &13_000_u32.to_le_bytes());
        put(&mut file, 88, &1_000_000_000_u64.to_le_bytes());
        put(&mut file, 96, &1_700_000_000_000_000_000_u64.to_le_bytes());
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
