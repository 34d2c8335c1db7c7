//! What records refer to: devices, contexts, threads, modules, stacks, texts and notes.

use gpushim_abi::events::Event;
use gpushim_abi::hooks::HookId;
use gpushim_abi::layout::{Region, context, device, module, note, stream, thread};

use super::{u16_at, u32_at, u64_at};
use crate::error::Error;

/// A device of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Ordinal in this process.
    pub ordinal: u8,
    /// UUID: the identity across processes.
    pub uuid: [u8; 16],
    /// Total memory, bytes.
    pub total: u64,
    /// Compute capability, major and minor.
    pub capability: (u16, u16),
    /// Multiprocessors, and the greatest number of threads on one; 0 unknown.
    pub processors: (u32, u32),
    /// Name.
    pub name: String,
    /// PCI bus id.
    pub pci: String,
}

/// A context handle that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Handle.
    pub handle: u64,
    /// Device ordinal.
    pub device: Option<u8>,
}

/// A thread's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Thread id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Calls of `cuCtxSetCurrent` that changed nothing, not recorded.
    pub unchanged: u64,
    /// The call that it was in when the capture was read.
    pub in_flight: Option<InFlight>,
}

/// A call that had not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Which.
    pub call: u16,
    /// Its address or handle argument.
    pub address: u64,
    /// Its size argument, bytes.
    pub size: u64,
    /// Sequence numbers given out when it began.
    pub head: u64,
}

/// A loaded library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Path.
    pub path: String,
    /// Load bias.
    pub bias: u64,
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Build id, hexadecimal; empty without one.
    pub build_id: String,
}

/// A fact that was noted once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A driver entry point without a hook was handed out, for this version.
    Unhooked(String, u32),
    /// `cuGetExportTable` was asked for this UUID, with this result.
    ExportTable(String, u32),
    /// The recorder lost an ability.
    Degraded(String),
    /// A kind that only a later version knows.
    Unknown(u32, String),
}

/// Everything that records refer to.
#[derive(Debug, Default)]
pub struct Tables {
    /// Devices, by their order.
    pub devices: Vec<Device>,
    contexts: Vec<Option<Context>>,
    /// Threads that called the driver and were alive, or whose entry nobody took over.
    pub threads: Vec<Thread>,
    /// Libraries that called the driver.
    pub modules: Vec<Module>,
    /// Facts.
    pub notes: Vec<Note>,
    /// PyTorch's streams, as device and id.
    pub streams: Vec<(u8, u64)>,
    pub(super) stacks: Vec<u8>,
    pub(super) frames: Vec<u8>,
    strings: Vec<u8>,
}

impl Tables {
    /// Loads the tables, each by its region's bytes and number of entries.
    pub(super) fn load(
        load: impl Fn(Region) -> Result<(Vec<u8>, u64), Error>,
    ) -> Result<Self, Error> {
        let mut tables = Self {
            strings: load(Region::Strings)?.0,
            stacks: load(Region::Stacks)?.0,
            frames: load(Region::Frames)?.0,
            ..Self::default()
        };
        for (index, entry) in entries(&load(Region::Devices)?.0, device::LEN).enumerate() {
            if u32_at(entry, device::COMPLETE.start) == 1
                && let Ok(ordinal) = u8::try_from(index)
            {
                tables.devices.push(Device {
                    ordinal,
                    uuid: entry[device::UUID].try_into().unwrap_or_default(),
                    total: u64_at(entry, device::TOTAL.start),
                    capability: (
                        u16_at(entry, device::MAJOR.start),
                        u16_at(entry, device::MINOR.start),
                    ),
                    processors: (
                        u32_at(entry, device::PROCESSORS.start),
                        u32_at(entry, device::PROCESSOR_THREADS.start),
                    ),
                    name: tables.text(&entry[device::NAME]),
                    pci: tables.text(&entry[device::PCI]),
                });
            }
        }
        for entry in entries(&load(Region::Contexts)?.0, context::LEN) {
            let complete = u32_at(entry, context::COMPLETE.start) == 1;
            tables.contexts.push(complete.then(|| Context {
                handle: u64_at(entry, context::HANDLE.start),
                device: u8::try_from(u32_at(entry, context::DEVICE.start)).ok(),
            }));
        }
        for entry in entries(&load(Region::Threads)?.0, thread::LEN) {
            let id = u32_at(entry, thread::TID.start);
            if id != 0 {
                let call = u16_at(entry, thread::CALL.start);
                let name = &entry[thread::NAME];
                let name = name.split(|&b| b == 0).next().unwrap_or_default();
                tables.threads.push(Thread {
                    id,
                    name: String::from_utf8_lossy(name).into_owned(),
                    unchanged: u64_at(entry, thread::UNCHANGED.start),
                    in_flight: (call != 0).then(|| InFlight {
                        call,
                        address: u64_at(entry, thread::ADDRESS.start),
                        size: u64_at(entry, thread::SIZE.start),
                        head: u64_at(entry, thread::HEAD.start),
                    }),
                });
            }
        }
        for entry in entries(&load(Region::Modules)?.0, module::LEN) {
            if u32_at(entry, module::COMPLETE.start) == 1 {
                let id_len = (u32_at(entry, module::BUILD_ID_LEN.start) as usize).min(20);
                let id = &entry[module::BUILD_ID][..id_len];
                tables.modules.push(Module {
                    path: tables.text(&entry[module::PATH]),
                    bias: u64_at(entry, module::BIAS.start),
                    start: u64_at(entry, module::START.start),
                    end: u64_at(entry, module::END.start),
                    build_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
                });
            }
        }
        for entry in entries(&load(Region::Streams)?.0, stream::LEN) {
            let device = u8::try_from(u32_at(entry, stream::DEVICE.start));
            tables
                .streams
                .push((device.unwrap_or(u8::MAX), u64_at(entry, stream::ID.start)));
        }
        for entry in entries(&load(Region::Notes)?.0, note::LEN) {
            let value = u32_at(entry, note::VALUE.start);
            let text = tables.text(&entry[note::TEXT]);
            match u32_at(entry, note::KIND.start) {
                0 => {}
                note::UNHOOKED => tables.notes.push(Note::Unhooked(text, value)),
                note::EXPORT_TABLE => tables.notes.push(Note::ExportTable(text, value)),
                note::DEGRADED => tables.notes.push(Note::Degraded(text)),
                kind => tables.notes.push(Note::Unknown(kind, text)),
            }
        }
        Ok(tables)
    }

    /// Tables of nothing but contexts, each a handle and a device.
    #[cfg(test)]
    pub(crate) fn with_contexts(contexts: &[(u64, u8)]) -> Self {
        Self {
            contexts: contexts
                .iter()
                .map(|&(handle, device)| {
                    Some(Context {
                        handle,
                        device: Some(device),
                    })
                })
                .collect(),
            ..Self::default()
        }
    }

    /// The text that eight bytes refer to; empty where they refer to nothing that is there.
    pub fn text(&self, reference: &[u8]) -> String {
        let (offset, len) = (u32_at(reference, 0) as usize, u32_at(reference, 4) as usize);
        let bytes = offset
            .checked_add(len)
            .and_then(|end| self.strings.get(offset..end))
            .unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The context that a record's index means.
    pub fn context(&self, index: u16) -> Option<Context> {
        self.contexts.get(usize::from(index)).copied().flatten()
    }

    /// The device with this ordinal.
    pub fn device(&self, ordinal: u8) -> Option<&Device> {
        self.devices.iter().find(|device| device.ordinal == ordinal)
    }

    /// The library that an address belongs to; the one listed last where several had the place in turn.
    pub fn module(&self, address: u64) -> Option<&Module> {
        self.modules
            .iter()
            .rev()
            .find(|module| (module.start..module.end).contains(&address))
    }

    /// The caller of a recorded call: library and offset in its file, or the bare address.
    pub fn caller(&self, node: u32) -> String {
        match self.return_address(node) {
            None => "unknown caller".to_owned(),
            Some(address) => self.place(address),
        }
    }

    /// An address as library and offset in its file, or bare.
    pub fn place(&self, address: u64) -> String {
        match self.module(address) {
            None => format!("{address:#x}, in no library"),
            Some(module) => {
                let name = library_name(&module.path);
                format!("{name}+{:#x}", address.wrapping_sub(module.bias))
            }
        }
    }

    /// The library of the caller alone.
    pub fn caller_library(&self, node: u32) -> Option<String> {
        let module = self.module(self.return_address(node)?)?;
        Some(library_name(&module.path))
    }
}

/// What people know a library by: its file's name, or, for a Python extension module, the name it is imported under, as there are
/// many `runtime.cpython-312-x86_64-linux-gnu.so`.
fn library_name(path: &str) -> String {
    let leaf = path.rsplit('/').next().unwrap_or_default();
    let Some((module, _)) = leaf.split_once(".cpython-") else {
        return leaf.to_owned();
    };
    let packages = ["/site-packages/", "/dist-packages/", "/lib-dynload/"];
    let relative = packages
        .iter()
        .find_map(|folder| path.rsplit_once(folder))
        .map_or(leaf, |(_, relative)| relative);
    match relative.rsplit_once('/') {
        Some((folders, _)) => format!("{}.{module}", folders.replace('/', ".")),
        None => module.to_owned(),
    }
}

impl InFlight {
    /// Name of the call.
    pub fn symbol(&self) -> String {
        symbol(self.call)
    }
}

/// Name of a call by its row id.
pub fn symbol(call: u16) -> String {
    if let Some(event) = Event::from_raw(call) {
        return event.name().to_owned();
    }
    HookId::from_raw(call).map_or_else(
        || format!("call {call} of a later version"),
        |hook| hook.hook().symbol.to_owned(),
    )
}

fn entries(bytes: &[u8], len: usize) -> std::slice::ChunksExact<'_, u8> {
    bytes.chunks_exact(len)
}

#[cfg(test)]
mod tests {
    use super::library_name;

    #[test]
    fn an_extension_module_has_the_name_it_is_imported_under() {
        let cupy = "/opt/venv/lib/python3.12/site-packages/cupy_backends/cuda/api/runtime.cpython-312-x86_64-linux-gnu.so";
        assert_eq!(library_name(cupy), "cupy_backends.cuda.api.runtime");
        let ctypes = "/usr/lib/python3.12/lib-dynload/_ctypes.cpython-312-x86_64-linux-gnu.so";
        assert_eq!(library_name(ctypes), "_ctypes");
        assert_eq!(
            library_name("/home/me/fast.cpython-312-x86_64-linux-gnu.so"),
            "fast"
        );
        assert_eq!(library_name("/usr/lib/libcudart.so.13"), "libcudart.so.13");
        assert_eq!(library_name(""), "");
    }
}
