//! Arrays, mipmapped arrays, textures and surfaces.

use core::ffi::{c_int, c_uint};

use gpushim_abi::hooks::{CUarray, CUexternalMemory, CUmipmappedArray, Opaque};

use super::contexts::current;
use super::streams::{end, make};
use crate::entry::{Answer, INVALID_HANDLE, INVALID_VALUE, driver_calls, ledger, out};
use crate::ledger::Kind;

/// An array, as its descriptor says.
#[derive(Clone, Copy)]
struct Shape {
    width: u64,
    height: u64,
    depth: u64,
    /// Bytes of a texel.
    texel: u64,
    flags: c_uint,
}

/// Reads little fields at their offsets.
struct Fields(*const u8);

impl Fields {
    fn narrow(&self, at: usize) -> u64 {
        // SAFETY: the program gave a descriptor that holds this field.
        unsafe { self.0.wrapping_add(at).cast::<c_uint>().read_unaligned() }.into()
    }

    fn wide(&self, at: usize) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.wrapping_add(at).cast::<u64>().read_unaligned() }
    }
}

/// Bytes of one channel, for the formats that are modelled.
fn channel(format: u64) -> Result<u64, c_int> {
    match format {
        0x01 | 0x08 => Ok(1),
        0x02 | 0x09 | 0x10 => Ok(2),
        0x03 | 0x0a | 0x20 => Ok(4),
        _ => Err(INVALID_VALUE),
    }
}

impl Shape {
    fn new(
        width: u64,
        height: u64,
        depth: u64,
        format: u64,
        channels: u64,
        flags: u64,
    ) -> Result<Self, c_int> {
        if width == 0
            || width > 1 << 17
            || height > 1 << 17
            || depth > 1 << 14
            || !matches!(channels, 1 | 2 | 4)
        {
            return Err(INVALID_VALUE);
        }
        Ok(Self {
            width,
            height: height.max(1),
            depth: depth.max(1),
            texel: channel(format)? * channels,
            flags: flags as c_uint,
        })
    }

    fn flat32(at: *const Opaque) -> Result<Self, c_int> {
        let fields = present(at)?;
        Self::new(
            fields.narrow(0),
            fields.narrow(4),
            0,
            fields.narrow(8),
            fields.narrow(12),
            0,
        )
    }

    fn flat(at: *const Opaque) -> Result<Self, c_int> {
        let fields = present(at)?;
        Self::new(
            fields.wide(0),
            fields.wide(8),
            0,
            fields.narrow(16),
            fields.narrow(20),
            0,
        )
    }

    fn solid32(at: *const Opaque) -> Result<Self, c_int> {
        let fields = present(at)?;
        Self::new(
            fields.narrow(0),
            fields.narrow(4),
            fields.narrow(8),
            fields.narrow(12),
            fields.narrow(16),
            fields.narrow(20),
        )
    }

    fn solid(at: *const Opaque, from: usize) -> Result<Self, c_int> {
        let fields = present(at)?;
        Self::new(
            fields.wide(from),
            fields.wide(from + 8),
            fields.wide(from + 16),
            fields.narrow(from + 24),
            fields.narrow(from + 28),
            fields.narrow(from + 32),
        )
    }

    /// What an array takes: rows of 64 bytes, columns of up to 16 blocks of 8 rows. Fits what was measured on an H200 for eleven shapes.
    fn bytes(&self) -> u64 {
        let blocks = self.height.div_ceil(8).next_power_of_two().min(16);
        (self.width * self.texel).next_multiple_of(64)
            * self.height.next_multiple_of(8 * blocks)
            * self.depth
    }

    /// The next smaller level.
    fn smaller(self) -> Self {
        let layered = self.flags & 1 != 0;
        Self {
            width: (self.width / 2).max(1),
            height: (self.height / 2).max(1),
            depth: if layered {
                self.depth
            } else {
                (self.depth / 2).max(1)
            },
            ..self
        }
    }

    /// Sparse arrays have no memory, nor do those that are mapped later.
    fn has_memory(&self) -> bool {
        self.flags & 0xc0 == 0
    }
}

fn present(at: *const Opaque) -> Result<Fields, c_int> {
    if at.is_null() {
        Err(INVALID_VALUE)
    } else {
        Ok(Fields(at.cast()))
    }
}

fn create(pHandle: *mut CUarray, shape: Result<Shape, c_int>) -> Answer {
    let place = out!(pHandle);
    place.check()?;
    let context = current()?;
    let shape = shape?;
    let bytes = if shape.has_memory() { shape.bytes() } else { 0 };
    place.put(ledger().array(context, Kind::Array, bytes, 0)? as CUarray);
    Ok(())
}

fn mipmapped(
    pHandle: *mut CUmipmappedArray,
    shape: Shape,
    levels: c_uint,
    external: u64,
) -> Answer {
    let place = out!(pHandle);
    place.check()?;
    let context = current()?;
    if levels == 0 {
        return Err(INVALID_VALUE);
    }
    let most = 64
        - shape
            .width
            .max(shape.height)
            .max(if shape.flags & 1 != 0 { 1 } else { shape.depth })
            .leading_zeros();
    let (mut level, mut bytes) = (shape, 0);
    for _ in 0..levels.min(most) {
        bytes += level.bytes();
        level = level.smaller();
    }
    if !shape.has_memory() || external != 0 {
        bytes = 0;
    }
    place.put(ledger().array(context, Kind::Mipmapped, bytes, external)? as CUmipmappedArray);
    Ok(())
}

/// Makes a texture or surface object; the program's word for it is a number.
fn object(at: *mut u64, resource: *const Opaque, kind: Kind) -> Answer {
    if resource.is_null() {
        return Err(INVALID_VALUE);
    }
    make(at.cast(), kind, 0)
}

driver_calls! {
    /// An array, 32-bit interface.
    Init fn cuArrayCreate(pHandle: *mut CUarray, desc: *const Opaque) { create(pHandle, Shape::flat32(desc)) }
    /// An array.
    Init fn cuArrayCreate_v2(pHandle: *mut CUarray, desc: *const Opaque) { create(pHandle, Shape::flat(desc)) }
    /// An array, 32-bit interface.
    Init fn cuArray3DCreate(pHandle: *mut CUarray, desc: *const Opaque) { create(pHandle, Shape::solid32(desc)) }
    /// An array.
    Init fn cuArray3DCreate_v2(pHandle: *mut CUarray, desc: *const Opaque) { create(pHandle, Shape::solid(desc, 0)) }
    /// Ends an array.
    Init fn cuArrayDestroy(hArray: CUarray) { end(hArray, Kind::Array) }
    /// A mipmapped array.
    Init fn cuMipmappedArrayCreate(pHandle: *mut CUmipmappedArray, desc: *const Opaque, numMipmapLevels: c_uint) {
        mipmapped(pHandle, Shape::solid(desc, 0)?, numMipmapLevels, 0)
    }
    /// Ends a mipmapped array.
    Init fn cuMipmappedArrayDestroy(array: CUmipmappedArray) { end(array, Kind::Mipmapped) }
    /// A mipmapped array of external memory; the descriptor is at offset 8, the number of levels at 48.
    Init fn cuExternalMemoryGetMappedMipmappedArray(mipmap: *mut CUmipmappedArray, extMem: CUexternalMemory, desc: *const Opaque) {
        if ledger().objects.get(&(extMem as u64)).is_none_or(|object| object.kind != Kind::External) {
            return Err(INVALID_HANDLE);
        }
        let levels = present(desc)?.narrow(48) as c_uint;
        mipmapped(mipmap, Shape::solid(desc, 8)?, levels, extMem as u64)
    }
    /// A texture object.
    Init fn cuTexObjectCreate(pTexObject: *mut u64, pResDesc: *const Opaque, _t: *const Opaque, _v: *const Opaque) { object(pTexObject, pResDesc, Kind::Texture) }
    /// Ends a texture object.
    Init fn cuTexObjectDestroy(texObject: u64) { end(texObject as *mut core::ffi::c_void, Kind::Texture) }
    /// A surface object.
    Init fn cuSurfObjectCreate(pSurfObject: *mut u64, pResDesc: *const Opaque) { object(pSurfObject, pResDesc, Kind::Surface) }
    /// Ends a surface object.
    Init fn cuSurfObjectDestroy(surfObject: u64) { end(surfObject as *mut core::ffi::c_void, Kind::Surface) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read off the card: so much does each of 32 arrays of a shape take, MiB.
    #[test]
    fn arrays_cost_what_they_cost_on_the_card() {
        for (width, height, depth, format, channels, mib) in [
            (4000, 4000, 0, 0x20, 1, 64.0),
            (1, 0, 0, 1, 1, 0.0625),
            (256, 256, 0, 0x20, 4, 1.0),
            (1000, 1000, 0, 1, 1, 1.0),
            (1024, 1024, 0, 0x20, 1, 4.0),
            (1025, 1025, 0, 0x20, 1, 6.0),
            (100, 100, 100, 0x20, 1, 6.0),
            (4096, 1, 0, 0x20, 1, 0.125),
            (65536, 0, 0, 0x20, 4, 8.0),
            (3000, 100, 0, 0x20, 4, 6.0),
            (513, 2049, 0, 0x10, 2, 6.0),
        ] {
            let mut ledger = crate::ledger::Ledger::with(&[0], 1 << 40);
            let context = ledger.new_context(0, true).expect("room");
            let before = ledger.devices[0].used;
            let bytes = Shape::new(width, height, depth, format, channels, 0)
                .expect("a shape")
                .bytes();
            for _ in 0..32 {
                ledger.array(context, Kind::Array, bytes, 0).expect("room");
            }
            let each = (ledger.devices[0].used - before) as f64 / 32.0 / f64::from(1 << 20);
            assert!(
                (each - mib).abs() < 1e-9,
                "{width} x {height} x {depth}: {each} instead of {mib}"
            );
        }
    }
}
