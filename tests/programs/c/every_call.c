/* Makes every hooked driver call, with good and with bad arguments, and prints what came back: result, out-parameters, errno.
 * With and without the recorder the output must be the same.
 *
 * usage: every_call DOOR [gentle]     DOOR: plt (built with -DPLT and linked against the driver), dlsym, gpa
 *   gentle leaves out what a driver that checks nothing would crash on.
 * build: cc -O1 -o every_call every_call.c -ldl -lpthread        (plt: cc -DPLT … libcuda.so.1)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
typedef uint64_t P;
typedef uint32_t P1;
typedef void *V;
typedef size_t Z;
typedef unsigned U;

/* Row: exported symbol, name and version and flags for cuGetProcAddress, signature. */
#define CALLS(X) \
    X(cuInit, cuInit, 2000, 0, (U)) \
    X(cuMemAlloc, cuMemAlloc, 2000, 0, (P1 *, U)) \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, 0, (P *, Z)) \
    X(cuMemAllocPitch, cuMemAllocPitch, 2000, 0, (P1 *, U *, U, U, U)) \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, 0, (P *, Z *, Z, Z, U)) \
    X(cuMemFree, cuMemFree, 2000, 0, (P1)) \
    X(cuMemFree_v2, cuMemFree, 3020, 0, (P)) \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, 0, (P *, Z, U)) \
    X(cuMemAllocHost, cuMemAllocHost, 2000, 0, (V *, U)) \
    X(cuMemAllocHost_v2, cuMemAllocHost, 3020, 0, (V *, Z)) \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, 0, (V *, Z, U)) \
    X(cuMemFreeHost, cuMemFreeHost, 2000, 0, (V)) \
    X(cuMemHostRegister, cuMemHostRegister, 4000, 0, (V, Z, U)) \
    X(cuMemHostRegister_v2, cuMemHostRegister, 6050, 0, (V, Z, U)) \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, 0, (V)) \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, 0, (P *, Z, V)) \
    X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, 2, (P *, Z, V)) \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 0, (P *, Z, V, V)) \
    X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, 2, (P *, Z, V, V)) \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, 0, (P, V)) \
    X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, 2, (P, V)) \
    X(cuMemAddressReserve, cuMemAddressReserve, 10020, 0, (P *, Z, Z, P, uint64_t)) \
    X(cuMemAddressFree, cuMemAddressFree, 10020, 0, (P, Z)) \
    X(cuMemCreate, cuMemCreate, 10020, 0, (P *, Z, const V, uint64_t)) \
    X(cuMemRelease, cuMemRelease, 10020, 0, (P)) \
    X(cuMemMap, cuMemMap, 10020, 0, (P, Z, Z, P, uint64_t)) \
    X(cuMemUnmap, cuMemUnmap, 10020, 0, (P, Z)) \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, 0, (V *, int)) \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, 0, (int)) \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, 0, (int)) \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, 0, (int)) \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, 0, (int)) \
    X(cuCtxCreate, cuCtxCreate, 2000, 0, (V *, U, int)) \
    X(cuCtxCreate_v2, cuCtxCreate, 3020, 0, (V *, U, int)) \
    X(cuCtxCreate_v3, cuCtxCreate, 11040, 0, (V *, V, int, U, int)) \
    X(cuCtxCreate_v4, cuCtxCreate, 12050, 0, (V *, V, U, int)) \
    X(cuCtxDestroy, cuCtxDestroy, 2000, 0, (V)) \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000, 0, (V)) \
    X(cuCtxAttach, cuCtxAttach, 2000, 0, (V *, U)) \
    X(cuCtxDetach, cuCtxDetach, 2000, 0, (V)) \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, 0, (V)) \
    X(cuCtxPushCurrent, cuCtxPushCurrent, 2000, 0, (V)) \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, 0, (V)) \
    X(cuCtxPopCurrent, cuCtxPopCurrent, 2000, 0, (V *)) \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, 0, (V *)) \
    X(cuGetExportTable, cuGetExportTable, 3000, 0, (V *, V)) \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, 0, (V *, int)) \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, 0, (Z *, Z *))

#define DECLARE(symbol, base, version, flags, signature) \
    static R (*p_##symbol) signature;
CALLS(DECLARE)
#ifdef PLT
/* Weak, so that a driver may lack some; then dlsym says which, since a weak reference also finds a preloaded name. */
#define PROTOTYPE(symbol, base, version, flags, signature) extern R symbol signature __attribute__((weak));
CALLS(PROTOTYPE)
extern R cuGetProcAddress(const char *, V *, int, uint64_t) __attribute__((weak));
extern R cuGetProcAddress_v2(const char *, V *, int, uint64_t, int *) __attribute__((weak));
#endif
static R (*get1)(const char *, V *, int, uint64_t), (*get2)(const char *, V *, int, uint64_t, int *);

static int gentle;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* One call, one line. errno is set before, so that one that is left alone shows too. */
#define CALL(symbol, ...) (p_##symbol ? (errno = 77, last = p_##symbol(__VA_ARGS__), seen = errno, \
    printf("%-30s (%s) = %d errno %d", #symbol, #__VA_ARGS__, last, seen)) : (last = -1, printf("%-30s absent", #symbol)))
#define END() printf("\n")
static __thread int last, seen;

static void show(const char *name, P value) { printf(" %s %#lx", name, (unsigned long)value); }

static void device_memory(void) {
    P p = 0, q = 0;
    P1 p1 = 0;
    U pitch1 = 0;
    Z pitch = 0;
    CALL(cuMemAlloc_v2, &p, 1000); show("p", p); END();
    CALL(cuMemAlloc_v2, &q, 3 << 20); show("q", q); END();
    CALL(cuMemFree_v2, p); END();
    CALL(cuMemFree_v2, p); END();
    CALL(cuMemAlloc_v2, &p, 1000); show("p", p); END();
    CALL(cuMemFree_v2, p); END();
    CALL(cuMemFree_v2, q); END();
    CALL(cuMemFree_v2, 0); END();
    CALL(cuMemFree_v2, 0x1234); END();
    CALL(cuMemAlloc_v2, &p, (Z)1 << 60); show("p", p); END();
    CALL(cuMemAlloc, &p1, 5000); show("p1", p1); END();
    CALL(cuMemFree, p1); END();
    CALL(cuMemFree, 77); END();
    CALL(cuMemAllocPitch_v2, &p, &pitch, 1000, 10, 4); show("p", p); show("pitch", pitch); END();
    CALL(cuMemFree_v2, p); END();
    CALL(cuMemAllocPitch, &p1, &pitch1, 1000, 10, 4); show("p1", p1); show("pitch", pitch1); END();
    CALL(cuMemFree, p1); END();
    CALL(cuMemAllocPitch_v2, &p, &pitch, 1000, 10, 3); show("p", p); END();
    CALL(cuMemAllocManaged, &p, 1 << 20, 1); show("p", p); END();
    CALL(cuMemFree_v2, p); END();
    if (!gentle) {
        CALL(cuMemAlloc_v2, NULL, 1000); END();
        CALL(cuMemAlloc_v2, &p, 0); END();
        CALL(cuMemAlloc, NULL, 1000); END();
        CALL(cuMemAllocPitch_v2, NULL, NULL, 1000, 10, 4); END();
        CALL(cuMemAllocPitch, NULL, &pitch1, 1000, 10, 4); END();
        CALL(cuMemAllocManaged, &p, 1 << 20, 9); END();
        CALL(cuMemAllocManaged, NULL, 1 << 20, 1); END();
    }
}

static void host_memory(void) {
    static char own[8192];
    V p = 0;
    Z bytes = 4096;
    CALL(cuMemHostAlloc, &p, bytes, 0); printf(" p %s", p ? "set" : "null"); END();
    if (!last && !gentle)
        memset(p, 1, bytes);
    CALL(cuMemFreeHost, p); END();
    CALL(cuMemFreeHost, p); END();
    CALL(cuMemAllocHost_v2, &p, bytes); printf(" p %s", last ? "unset" : "set"); END();
    if (p_cuMemAllocHost_v2) { CALL(cuMemFreeHost, p); END(); }
    CALL(cuMemAllocHost, &p, 100); printf(" p %s", last ? "unset" : "set"); END();
    if (p_cuMemAllocHost) { CALL(cuMemFreeHost, p); END(); }
    CALL(cuMemFreeHost, own); END();
    CALL(cuMemHostRegister_v2, own, sizeof own, 0); END();
    CALL(cuMemHostRegister_v2, own, sizeof own, 0); END();
    CALL(cuMemHostUnregister, own); END();
    CALL(cuMemHostUnregister, own); END();
    CALL(cuMemHostRegister, own, sizeof own, 0); END();
    if (p_cuMemHostRegister) { CALL(cuMemHostUnregister, own); END(); }
    if (!gentle) {
        CALL(cuMemHostAlloc, NULL, bytes, 0); END();
        CALL(cuMemHostAlloc, &p, bytes, 0x100); END();
        CALL(cuMemHostRegister_v2, NULL, bytes, 0); END();
        CALL(cuMemAllocHost_v2, NULL, bytes); END();
        CALL(cuMemAllocHost, NULL, 1); END();
    }
}

static void pools(void) {
    P p = 0, q = 0;
    V pool = 0;
    CALL(cuDeviceGetDefaultMemPool, &pool, 0); printf(" pool %s", pool ? "set" : "null"); END();
    CALL(cuMemAllocAsync, &p, 1 << 20, 0); show("p", p); END();
    CALL(cuMemFreeAsync, p, 0); END();
    CALL(cuMemFreeAsync, p, 0); END();
    CALL(cuMemAllocAsync_ptsz, &p, 1 << 20, (V)2); show("p", p); END();
    CALL(cuMemFreeAsync_ptsz, p, (V)2); END();
    CALL(cuMemAllocFromPoolAsync, &p, 5 << 20, pool, 0); show("p", p); END();
    CALL(cuMemAllocFromPoolAsync_ptsz, &q, 5 << 20, pool, (V)1); show("q", q); END();
    if (p_cuMemAllocFromPoolAsync) { CALL(cuMemFree_v2, p); END(); }
    if (p_cuMemFreeAsync_ptsz) { CALL(cuMemFreeAsync_ptsz, q, (V)1); END(); }
    if (!gentle) {
        CALL(cuMemAllocAsync, NULL, 1 << 20, 0); END();
        CALL(cuMemAllocAsync, &p, 0, 0); END();
        CALL(cuMemAllocAsync, &p, 1 << 20, (V)0x1234); END();
        CALL(cuMemAllocFromPoolAsync, &p, 1 << 20, (V)0x77, 0); END();
    }
}

static void virtual_memory(void) {
    uint32_t prop[8] = {1, 0, 1, 0}, host[8] = {1, 0, 2, 0}, wrong[8] = {1, 0, 1, 77};
    const Z block = 2 << 20;
    P range = 0, handle = 0, other = 0;
    CALL(cuMemAddressReserve, &range, 4 * block, 0, 0, 0); show("range", range); END();
    CALL(cuMemCreate, &handle, block, prop, 0); printf(" handle %s", handle ? "set" : "null"); END();
    CALL(cuMemMap, range, block, 0, handle, 0); END();
    CALL(cuMemRelease, handle); END();
    CALL(cuMemUnmap, range, block); END();
    CALL(cuMemUnmap, range, block); END();
    CALL(cuMemCreate, &handle, block, prop, 0); END();
    CALL(cuMemCreate, &other, block, host, 0); END();
    CALL(cuMemRelease, handle); END();
    CALL(cuMemRelease, other); END();
    CALL(cuMemAddressFree, range, 4 * block); END();
    if (!gentle) {
        CALL(cuMemRelease, handle); END();
        CALL(cuMemAddressFree, range, block); END();
        CALL(cuMemCreate, &handle, 1000, prop, 0); END();
        CALL(cuMemCreate, &handle, block, wrong, 0); END();
        CALL(cuMemCreate, &handle, block, NULL, 0); END();
        CALL(cuMemCreate, NULL, block, prop, 0); END();
        CALL(cuMemMap, 0x1000, block, 0, 0x77, 0); END();
        CALL(cuMemAddressReserve, NULL, block, 0, 0, 0); END();
        CALL(cuMemAddressReserve, &range, 1, 0, 0, 0); END();
    }
}

static void contexts(V primary) {
    static uint64_t params[3];
    V made = 0, popped = 0;
    P p = 0;
    CALL(cuCtxCreate_v2, &made, 0, 0); printf(" made %s", made ? "set" : "null"); END();
    CALL(cuMemAlloc_v2, &p, 100); END();
    CALL(cuCtxPushCurrent_v2, primary); END();
    CALL(cuCtxPopCurrent_v2, &popped); printf(" popped %s", popped == primary ? "primary" : "another"); END();
    CALL(cuCtxPushCurrent, primary); END();
    CALL(cuCtxPopCurrent, &popped); printf(" popped %s", last ? "unset" : "set"); END();
    CALL(cuCtxAttach, &popped, 0); END();
    if (p_cuCtxAttach && !gentle) { CALL(cuCtxDetach, popped); END(); }
    CALL(cuCtxDestroy_v2, made); END();
    CALL(cuMemFree_v2, p); END();
    CALL(cuCtxSetCurrent, primary); END();
    CALL(cuCtxSetCurrent, primary); END();
    CALL(cuCtxCreate_v4, &made, params, 0, 0); END();
    CALL(cuCtxDestroy_v2, made); END();
    CALL(cuCtxCreate_v3, &made, NULL, 0, 0, 0); END();
    if (p_cuCtxCreate_v3 && !(gentle && last)) { CALL(cuCtxDestroy, made); END(); } /* a stale handle is anything to a real driver */
    CALL(cuCtxCreate, &made, 0, 0); END();
    if (p_cuCtxCreate && !(gentle && last)) { CALL(cuCtxDestroy, made); END(); }
    CALL(cuCtxSetCurrent, primary); END();
    if (!gentle) {
        CALL(cuCtxSetCurrent, (V)0x1234); END();
        CALL(cuCtxDestroy_v2, (V)0x1234); END();
        CALL(cuCtxDestroy_v2, primary); END();
        CALL(cuCtxDestroy, NULL); END();
        CALL(cuCtxDetach, (V)0x1234); END();
        CALL(cuCtxCreate_v2, &made, 0, 99); END();
        CALL(cuCtxCreate_v2, NULL, 0, 0); END();
        CALL(cuCtxCreate_v3, NULL, NULL, 0, 0, 0); END();
        CALL(cuCtxPushCurrent_v2, NULL); END();
        CALL(cuCtxPopCurrent_v2, NULL); END();
        CALL(cuCtxPopCurrent_v2, &popped); END();
        CALL(cuMemAlloc_v2, &p, 100); END();
        CALL(cuCtxSetCurrent, primary); END();
        CALL(cuDevicePrimaryCtxRetain, NULL, 0); END();
        CALL(cuDevicePrimaryCtxRetain, &made, 99); END();
        CALL(cuDevicePrimaryCtxRelease_v2, 99); END();
        CALL(cuDevicePrimaryCtxReset_v2, -1); END();
    }
}

static void doors(void) {
    static const unsigned char known[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}, unknown[16] = {1};
    V table = 0;
    V pointer = (V)1;
    int status = -1;
    CALL(cuGetExportTable, &table, (V)known); printf(" table %s", table ? "set" : "null"); END();
    CALL(cuGetExportTable, &table, (V)unknown); END();
    if (!gentle) { CALL(cuGetExportTable, NULL, (V)known); END(); CALL(cuGetExportTable, &table, NULL); END(); }
    if (get2) {
        printf("get2 nothing %d", get2("cuNothing", &pointer, 12000, 0, &status)); printf(" %p %d\n", pointer, status);
        printf("get2 null status %d\n", get2("cuMemAlloc", &pointer, 12000, 0, NULL));
        if (!gentle) {
            /* Real drivers crash on the first of these. */
            printf("get2 null name %d\n", get2(NULL, &pointer, 12000, 0, &status));
            printf("get2 null place %d\n", get2("cuMemAlloc", NULL, 12000, 0, &status));
        }
    }
    if (get1)
        printf("get1 old %d %s\n", get1("cuMemAllocAsync", &pointer, 11000, 0), pointer ? "set" : "null");
}

static void *other_thread(void *primary) {
    P p = 0;
    pthread_mutex_lock(&turn);
    printf("second thread\n");
    CALL(cuMemAlloc_v2, &p, 100); show("p", p); END();
    CALL(cuCtxSetCurrent, primary); END();
    CALL(cuMemAlloc_v2, &p, 100); show("p", p); END();
    CALL(cuMemFree_v2, p); END();
    pthread_mutex_unlock(&turn);
    return NULL;
}

int main(int argc, char **argv) {
    const char *door = argc > 1 ? argv[1] : "";
    V primary = 0, driver;
    P p = 0;
    pthread_t thread;
    Z free_bytes = 0, total = 0;
    gentle = argc > 2 && !strcmp(argv[2], "gentle");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(door, "plt")) {
#ifdef PLT
#define TAKE(symbol, base, version, flags, signature) p_##symbol = dlsym(RTLD_DEFAULT, #symbol) ? symbol : NULL;
        CALLS(TAKE)
        get1 = dlsym(RTLD_DEFAULT, "cuGetProcAddress") ? cuGetProcAddress : NULL;
        get2 = dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2") ? cuGetProcAddress_v2 : NULL;
#else
        return 2;
#endif
    } else {
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!driver) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        get1 = (R(*)(const char *, V *, int, uint64_t))dlsym(driver, "cuGetProcAddress");
        get2 = (R(*)(const char *, V *, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
        if (!strcmp(door, "dlsym")) {
#define LOOK(symbol, base, version, flags, signature) p_##symbol = (R(*) signature)dlsym(driver, #symbol);
            CALLS(LOOK)
        } else if (!strcmp(door, "gpa")) {
            V itself = 0;
            int status;
            if (get2 && !get2("cuGetProcAddress", &itself, 12000, 0, &status) && itself)
                get2 = (R(*)(const char *, V *, int, uint64_t, int *))itself;
#define ASK(symbol, base, version, flags, signature) \
    if (get2) { V found = 0; int s; if (!get2(#base, &found, version, flags, &s)) p_##symbol = (R(*) signature)found; } \
    else p_##symbol = (R(*) signature)dlsym(driver, #symbol);
            CALLS(ASK)
        } else
            return 2;
    }
    if (!gentle) {
        printf("before cuInit\n");
        CALL(cuMemAlloc_v2, &p, 100); show("p", p); END();
        CALL(cuMemFree_v2, 0x1000); END();
        CALL(cuDevicePrimaryCtxRetain, &primary, 0); END();
        CALL(cuInit, 7); END();
    }
    CALL(cuInit, 0); END();
    CALL(cuInit, 0); END();
    if (!gentle) {
        printf("without a context\n");
        CALL(cuMemAlloc_v2, &p, 100); show("p", p); END();
        CALL(cuMemAllocAsync, &p, 100, 0); END();
        CALL(cuMemHostAlloc, &primary, 100, 0); END();
        CALL(cuCtxPopCurrent_v2, &primary); END();
    }
    CALL(cuDevicePrimaryCtxRetain, &primary, 0); printf(" primary %s", primary ? "set" : "null"); END();
    CALL(cuCtxSetCurrent, primary); END();
    device_memory();
    host_memory();
    pools();
    virtual_memory();
    contexts(primary);
    doors();
    pthread_create(&thread, NULL, other_thread, primary);
    pthread_join(thread, NULL);
    CALL(cuMemGetInfo_v2, &free_bytes, &total); show("used", total - free_bytes); END();
    CALL(cuMemAlloc_v2, &p, 4 << 20); END();
    CALL(cuDevicePrimaryCtxRelease, 0); END();
    CALL(cuDevicePrimaryCtxRetain, &primary, 0); END();
    CALL(cuDevicePrimaryCtxRelease_v2, 0); END();
    CALL(cuDevicePrimaryCtxRetain, &primary, 0); END();
    CALL(cuDevicePrimaryCtxReset_v2, 0); END();
    CALL(cuDevicePrimaryCtxReset, 0); END();
    return 0;
}
