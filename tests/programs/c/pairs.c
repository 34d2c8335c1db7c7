/* Time of allocating and freeing, ns a pair: cuMemAlloc of 2 MiB, cuMemAllocAsync of 1 MiB, and look-ups of the current context.
 * Prints one number a line; run in turns with and without the recorder.
 *
 * build: cc -O1 -o pairs pairs.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = 0;
    uint64_t p;
    if (!driver)
        return 1;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
    int (*release)(uint64_t) = (int (*)(uint64_t))dlsym(driver, "cuMemFree_v2");
    int (*alloc_async)(uint64_t *, size_t, void *) = (int (*)(uint64_t *, size_t, void *))dlsym(driver, "cuMemAllocAsync");
    int (*release_async)(uint64_t, void *) = (int (*)(uint64_t, void *))dlsym(driver, "cuMemFreeAsync");
    if (init(0) || retain(&context, 0) || set(context))
        return 1;
    for (int round = 0; round < 2; round++) {
        double from = now();
        for (int i = 0; i < 2000; i++)
            if (alloc(&p, 2 << 20) || release(p))
                return 1;
        double linear = (now() - from) / 2000;
        from = now();
        for (int i = 0; i < 50000; i++)
            if (alloc_async(&p, 1 << 20, 0) || release_async(p, 0))
                return 1;
        double pooled = (now() - from) / 50000;
        if (round == 1)
            printf("%.0f %.1f\n", linear, pooled);
    }
    return 0;
}
