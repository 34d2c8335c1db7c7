//! Modules, libraries, kernels, variables.

use core::ffi::{c_char, c_int, c_uint, c_void};

use gpushim_abi::hooks::{
    CUdeviceptr, CUdeviceptr_v1, CUfunction, CUkernel, CUlibrary, CUmodule, Opaque, Text,
};

use super::contexts::current;
use super::streams::{end, make};
use crate::entry::{Answer, INVALID_HANDLE, INVALID_VALUE, driver_calls, ledger, out};
use crate::ledger::{Kind, MIB};

/// What a module costs its device: code and the driver's growth.
const MODULE_BYTES: u64 = 2 * MIB;
/// Size of every variable.
const VARIABLE_BYTES: usize = 4096;
/// A thread's local memory in every kernel, bytes.
const LOCAL_BYTES: c_int = 256;

fn load(module: *mut CUmodule, image: *const c_void) -> Answer {
    if image.is_null() {
        return Err(INVALID_VALUE);
    }
    make(module, Kind::Module, MODULE_BYTES)
}

fn load_library(library: *mut CUlibrary, code: *const c_void) -> Answer {
    let place = out!(library);
    place.check()?;
    if code.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut ledger = ledger();
    let handle = ledger.handle();
    ledger.add(handle, Kind::Library, 0, 0, 0);
    place.put(handle as CUlibrary);
    Ok(())
}

/// Something of a loaded module or library.
fn part(of: *mut c_void, kind: Kind) -> Answer {
    match ledger().objects.get(&(of as u64)) {
        Some(object) if object.kind == kind => Ok(()),
        _ => Err(INVALID_HANDLE),
    }
}

/// Every variable of everything is at one place.
fn variable(dptr: *mut CUdeviceptr, bytes: *mut usize, of: *mut c_void, kind: Kind) -> Answer {
    part(of, kind)?;
    out!(dptr).put(0x7e00_0000_0000);
    out!(bytes).put(VARIABLE_BYTES);
    Ok(())
}

driver_calls! {
    /// Loads a module from a file.
    Init fn cuModuleLoad(module: *mut CUmodule, fname: *const Text) { load(module, fname.cast()) }
    /// Loads a module.
    Init fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) { load(module, image) }
    /// Loads a module with options.
    Init fn cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, _n: c_uint, _options: *mut Opaque, _values: *mut *mut c_void) {
        load(module, image)
    }
    /// Loads a module from a fat binary.
    Init fn cuModuleLoadFatBinary(module: *mut CUmodule, fatCubin: *const c_void) { load(module, fatCubin) }
    /// Unloads a module.
    Init fn cuModuleUnload(hmod: CUmodule) { end(hmod, Kind::Module) }
    /// Loads a library.
    Init fn cuLibraryLoadData(library: *mut CUlibrary, code: *const c_void, _o: *mut Opaque, _v: *mut *mut c_void, _n: c_uint, _lo: *mut Opaque, _lv: *mut *mut c_void, _ln: c_uint) {
        load_library(library, code)
    }
    /// Loads a library from a file.
    Init fn cuLibraryLoadFromFile(library: *mut CUlibrary, fileName: *const Text, _o: *mut Opaque, _v: *mut *mut c_void, _n: c_uint, _lo: *mut Opaque, _lv: *mut *mut c_void, _ln: c_uint) {
        load_library(library, fileName.cast())
    }
    /// Unloads a library.
    Init fn cuLibraryUnload(library: CUlibrary) { end(library, Kind::Library) }
    /// A function of a module, which is the module.
    Init fn cuModuleGetFunction(hfunc: *mut CUfunction, hmod: CUmodule, _name: *const c_char) {
        let place = out!(hfunc);
        place.check()?;
        part(hmod, Kind::Module)?;
        place.put(hmod);
        Ok(())
    }
    /// A kernel of a library, which is the library.
    Init fn cuLibraryGetKernel(pKernel: *mut CUkernel, library: CUlibrary, _name: *const c_char) {
        let place = out!(pKernel);
        place.check()?;
        part(library, Kind::Library)?;
        place.put(library);
        Ok(())
    }
    /// A kernel in the current context, which is the library.
    Init fn cuKernelGetFunction(pFunc: *mut CUfunction, kernel: CUkernel) {
        let place = out!(pFunc);
        place.check()?;
        current()?;
        part(kernel, Kind::Library)?;
        place.put(kernel);
        Ok(())
    }
    /// Every kernel is loaded.
    Init fn cuFuncLoad(function: CUfunction) { part(function, Kind::Module).or_else(|_| part(function, Kind::Library)) }
    /// Every kernel is loaded.
    Init fn cuFuncIsLoaded(state: *mut c_uint, function: CUfunction) {
        let place = out!(state);
        place.check()?;
        part(function, Kind::Module).or_else(|_| part(function, Kind::Library))?;
        place.put(1);
        Ok(())
    }
    /// A thread's local memory, 3.
    Init fn cuFuncGetAttribute(pi: *mut c_int, attrib: c_uint, hfunc: CUfunction) {
        let place = out!(pi);
        place.check()?;
        part(hfunc, Kind::Module).or_else(|_| part(hfunc, Kind::Library))?;
        place.put(if attrib == 3 { LOCAL_BYTES } else { 0 });
        Ok(())
    }
    /// A variable, 32-bit interface.
    Init fn cuModuleGetGlobal(dptr: *mut CUdeviceptr_v1, bytes: *mut c_uint, hmod: CUmodule, _name: *const Text) {
        part(hmod, Kind::Module)?;
        out!(dptr).put(0x7000_0000);
        out!(bytes).put(VARIABLE_BYTES as c_uint);
        Ok(())
    }
    /// A variable of a module.
    Init fn cuModuleGetGlobal_v2(dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule, _name: *const Text) { variable(dptr, bytes, hmod, Kind::Module) }
    /// A variable of a library.
    Init fn cuLibraryGetGlobal(dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, _name: *const Text) { variable(dptr, bytes, library, Kind::Library) }
    /// A managed variable of a library.
    Init fn cuLibraryGetManaged(dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, _name: *const Text) { variable(dptr, bytes, library, Kind::Library) }
}
