"""Allocates with the interpreter's list of frames broken in many ways. usage: wild.py LIBRARY (of wild_frames.c)

Prints one line for each: the size, and what was broken. The interpreter itself never sees the broken list.
"""
import ctypes
import mmap
import sys

driver = ctypes.PyDLL("libcuda.so.1")
breaker = ctypes.PyDLL(sys.argv[1])
driver.cuInit(0)
context = ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0

python = ctypes.pythonapi
python.PyGILState_GetThisThreadState.restype = ctypes.c_void_p
state = python.PyGILState_GetThisThreadState()
minor = sys.version_info[1]


def word(address):
    return ctypes.c_uint64.from_address(address).value


if minor >= 13:
    top = state + 72
elif minor == 12:
    top = word(state + 56)
elif minor == 11:
    top = word(state + 56) + 8
else:
    top = state + 24
previous = 8 if minor >= 12 else 48 if minor == 11 else 24
code = 0 if minor >= 12 else 32

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
closed = libc.mmap(None, 4096, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
edge = libc.mmap(None, 8192, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.munmap(edge + 4096, 4096)
zeros = ctypes.create_string_buffer(65536)
noise = (ctypes.c_uint64 * 512)(*[(n * 0x9E3779B97F4A7C15) & (2**64 - 1) for n in range(512)])
ring = (ctypes.c_uint64 * 64)()
frame = word(top)


def copied():
    """A copy of the innermost frame, to be broken."""
    copy = (ctypes.c_uint64 * 16)()
    ctypes.memmove(copy, frame, 128)
    return copy


looping = copied()
looping[previous // 8] = ctypes.addressof(looping)
wild_code = copied()
wild_code[code // 8] = 0xDEAD0000BEEF8
closed_code = copied()
closed_code[code // 8] = closed
noisy_code = copied()
noisy_code[code // 8] = ctypes.addressof(noise)
text_code = copied()
text_code[code // 8] = id("a string, and no code")
wild_previous = copied()
wild_previous[previous // 8] = 0x7FFFFFFFF000
edge_previous = copied()
edge_previous[previous // 8] = edge + 4096 - 8

ways = {
    "1": 1,
    "unmapped": 0xDEADBEEF000,
    "no canonical address": 0x8000000000000000,
    "all bits": 0xFFFFFFFFFFFFFFFF,
    "the kernel's": 0xFFFFFFFF81000000,
    "a page that cannot be read": closed,
    "the last word of a page": edge + 4096 - 8,
    "an odd address": ctypes.addressof(zeros) + 3,
    "zeros": ctypes.addressof(zeros),
    "noise": ctypes.addressof(noise),
    "a frame that is its own caller": ctypes.addressof(looping),
    "a frame with a wild code": ctypes.addressof(wild_code),
    "a frame with a code that cannot be read": ctypes.addressof(closed_code),
    "a frame whose code is noise": ctypes.addressof(noisy_code),
    "a frame whose code is a string": ctypes.addressof(text_code),
    "a frame with a wild caller": ctypes.addressof(wild_previous),
    "a frame whose caller ends at a page's end": ctypes.addressof(edge_previous),
}
breaker.take_with.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
allocate = ctypes.cast(driver.cuMemAlloc_v2, ctypes.c_void_p)
for number, (name, wild) in enumerate(ways.items()):
    size = 5000 + number
    assert breaker.take_with(top, wild, allocate, size) == 0
    print(size, name)
# And then as before.
assert breaker.take_with(top, frame, allocate, 6000) == 0
