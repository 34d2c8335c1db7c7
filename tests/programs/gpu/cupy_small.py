"""A pool that keeps, an array that stays, pinned memory."""
import cupy

a = cupy.arange(1 << 20, dtype=cupy.float32)
b = (a * 2).sum()
pinned = cupy.cuda.alloc_pinned_memory(1 << 20)
print(float(b), cupy.get_default_memory_pool().used_bytes())
del a
cupy.get_default_memory_pool().free_all_blocks()
print(cupy.get_default_memory_pool().total_bytes())
