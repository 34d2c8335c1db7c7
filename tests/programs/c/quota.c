/* A neighbour to be preloaded: stands before one driver function, as quota shims do, and refuses more than 2 MiB.
 *
 * build: cc -shared -fPIC -o libquota.so quota.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    int (*real)(uint64_t *, size_t) = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    return size > 2 << 20 ? 2 : real(address, size);
}
