"""Allocates from many kinds of Python code, each time another size, and prints what the interpreter says of the stack at that moment.

One line of JSON each: the size, and [file, line, function] of every frame, innermost first. The call and the question stand on one
line, so that they have the same line number.
"""
import asyncio
import ctypes
import functools
import json
import sys
import threading

driver = ctypes.CDLL("libcuda.so.1")
holding = ctypes.PyDLL("libcuda.so.1")
driver.cuInit(0)
context = ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
lock = threading.Lock()
next_size = [1000]
truth = []


def frames():
    frame = sys._getframe(1)
    found = []
    while frame is not None:
        code = frame.f_code
        found.append([code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)])
        frame = frame.f_back
    return found


def take(library=driver):
    with lock:
        next_size[0] += 1
        size = next_size[0]
    address = ctypes.c_uint64()
    result, stack = library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), frames()
    assert result == 0
    with lock:
        truth.append({"size": size, "stack": stack})


def nested(depth):
    if depth:
        return nested(depth - 1)
    take()


def generator():
    yield 1
    take()
    yield from inner_generator()


def inner_generator():
    take()
    yield 2


async def coroutine():
    await asyncio.sleep(0)
    take()
    await deeper()


async def deeper():
    take()
    [take() async for _ in asynchronous()]


async def asynchronous():
    take()
    yield 1


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


@decorated
def plain():
    take()


class Thing:
    def __init__(self):
        self.method()

    def method(self):
        take()

    @property
    def prop(self):
        return take()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return take()

    def __del__(self):
        take()

    @staticmethod
    def static():
        take()

    def __lt__(self, other):
        take()
        return False


def δοκιμή_имя():
    take()


def many_lines():
    take(); take()

    (
        take(),

        take(),
    )
    for _ in range(2):
        try:
            take()
            raise ValueError
        except ValueError:
            take()
        finally:
            take()
    with lambda_context():
        take()
    match_like = {
        "a": take(),
        "b": [take() for _ in range(2)],
        "c": {i: take() for i in range(2)},
        "d": {take() for _ in range(1)},
        "e": list(take() for _ in range(2)),
    }
    return match_like


class lambda_context:
    __enter__ = lambda self: take()
    __exit__ = lambda self, *_: (take(), None)[1]


def worker(n):
    driver.cuCtxSetCurrent(context)
    for _ in range(3):
        nested(n)


def main():
    take()
    take(holding)
    for depth in (0, 1, 2, 10, 50, 120, 127, 128, 900):
        nested(depth)
    list(generator())
    asyncio.run(coroutine())
    (lambda: take())()
    [take() for _ in range(3)]
    list(map(lambda _: take(), range(2)))
    sorted([3, 1, 2], key=lambda n: (take(), n)[1])
    functools.reduce(lambda a, b: take(), [1, 2, 3])
    plain()
    thing = Thing()
    thing.prop
    thing.unknown
    Thing.static()
    sorted([thing, Thing()])
    del thing
    δοκιμή_имя()
    many_lines()
    exec(compile("take()", "<made up>", "exec"), globals())
    eval("take()")
    # The same place in memory, again and again, for other code.
    for n in range(30):
        exec(compile("\n" * n + "def made_%d():\n    take()\nmade_%d()" % (n, n), "made_%d.py" % n, "exec"), dict(globals()))
    exec("def long():\n" + "    pass\n" * 3000 + "    take()\nlong()", dict(globals()))
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    libc = ctypes.CDLL(None)
    libc.qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), callback(lambda a, b: (take(), 0)[1]))
    threads = [threading.Thread(target=worker, args=(n % 5,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
for line in truth:
    print(json.dumps(line))
