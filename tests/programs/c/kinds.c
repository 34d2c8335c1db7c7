/* Takes and gives back every kind of memory and handle, a step at a time.
 *
 * usage: kinds           prints what each call answered: the same with and without the recorder
 *        kinds costs     prints for each step: STEP name kind clock_ns used_bytes
 *   kind: "exact" when every byte of the step was asked for by a call; "driver" when the driver takes memory for itself (contexts,
 *   modules, streams); "pages" when managed pages move. The clock is CLOCK_MONOTONIC, used_bytes the device's memory in use: NVML's
 *   on a card, the stand-in's own.
 * build: cc -O1 -o kinds kinds.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t P;
typedef void *V;
typedef struct { unsigned char bytes[64]; } Name;
enum { MIB = 1 << 20 };

static void *driver;
static int costs, failures;
/* Any driver call: extra words do no harm by the calling convention. */
typedef int (*Call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static Call find(const char *name) {
    Call call = (Call)dlsym(driver, name);
    if (!call) {
        fprintf(stderr, "no %s\n", name);
        exit(3);
    }
    return call;
}

#define W(x) ((uint64_t)(x))
#define PICK(a, b, c, d, e, f, g, h, ...) W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h)
#define GET(name, ...) find(#name)(PICK(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0))
/* A call that must answer 0. */
#define DO(name, ...) must(#name, GET(name, __VA_ARGS__), 0)
#define REFUSED(result, name, ...) must(#name, GET(name, __VA_ARGS__), result)

static void must(const char *name, int result, int wanted) {
    if (!costs)
        printf("%s %d\n", name, result);
    if (result != wanted) {
        fprintf(stderr, "%s answered %d instead of %d\n", name, result, wanted);
        failures++;
    }
}

/* NVML's own structure: version, then bytes. */
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
static int (*nvml_memory)(V, Memory *);
static V nvml_device;
static int64_t (*standin_used)(int);

static void find_witness(void) {
    standin_used = (int64_t(*)(int))dlsym(driver, "standin_used_bytes");
    V nvml = standin_used ? NULL : dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!nvml)
        return;
    ((int (*)(void))dlsym(nvml, "nvmlInit_v2"))();
    ((int (*)(unsigned, V *))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &nvml_device);
    nvml_memory = (int (*)(V, Memory *))dlsym(nvml, "nvmlDeviceGetMemoryInfo_v2");
}

static unsigned long long used(void) {
    Memory memory = {sizeof memory | 2u << 24, 0, 0, 0, 0};
    if (standin_used)
        return (unsigned long long)standin_used(0);
    if (nvml_memory)
        nvml_memory(nvml_device, &memory);
    return memory.used;
}

static void step(const char *name, const char *kind) {
    struct timespec now;
    unsigned long long bytes = costs ? used() : 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (costs)
        printf("STEP\t%s\t%s\t%lld\t%llu\n", name, kind, now.tv_sec * 1000000000LL + now.tv_nsec, bytes);
    else
        printf("-- %s\n", name);
}

static V primary, pool;
static uint32_t device_place[8] = {1, 1, 1, 0}; /* pinned, made descriptors of, on device 0 */

static void linear(void) {
    static const size_t sizes[][2] = {{64, 1}, {64, 512}, {64, 64 << 10}, {64, MIB}, {1, MIB + 1}, {1, 2 * MIB + 1},
                                      {1, 3 * MIB}, {1, 10 * MIB}, {1, 20975616}};
    for (unsigned n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        P p[64];
        char name[64];
        for (size_t i = 0; i < sizes[n][0]; i++)
            DO(cuMemAlloc_v2, &p[i], sizes[n][1]);
        snprintf(name, sizeof name, "%zu times %zu bytes", sizes[n][0], sizes[n][1]);
        step(name, "exact");
        for (size_t i = 0; i < sizes[n][0]; i++)
            DO(cuMemFree_v2, p[i]);
        step("freed", "exact");
    }
    P p = 0;
    size_t pitch = 0;
    DO(cuMemAllocPitch_v2, &p, &pitch, 1000, 4096, 4);
    step("4096 rows of 1000 bytes", "exact");
    DO(cuMemFree_v2, p);
    step("freed", "exact");
}

static void physical(void) {
    P range = 0, handle = 0, again = 0, second = 0;
    int descriptor = -1;
    DO(cuMemAddressReserve, &range, (size_t)64 << 30, 0, 0, 0);
    step("64 GiB of addresses", "exact");
    DO(cuMemCreate, &handle, 64 * MIB, device_place, 0);
    step("physical 64 MiB created", "exact");
    DO(cuMemMap, range, 64 * MIB, 0, handle, 0);
    uint32_t access[3] = {1, 0, 3};
    DO(cuMemSetAccess, range, 64 * MIB, access, 1);
    DO(cuMemRetainAllocationHandle, &again, range);
    DO(cuMemRelease, again);
    DO(cuMemRelease, handle);
    step("mapped and released", "exact");
    DO(cuMemUnmap, range, 64 * MIB);
    step("unmapped", "exact");
    DO(cuMemCreate, &handle, 32 * MIB, device_place, 0);
    DO(cuMemExportToShareableHandle, &descriptor, handle, 1, 0);
    DO(cuMemImportFromShareableHandle, &second, (long)descriptor, 1);
    step("created, exported and imported again", "exact");
    DO(cuMemRelease, handle);
    step("the first handle released", "exact");
    DO(cuMemRelease, second);
    step("the other released, a descriptor open", "descriptor");
    close(descriptor);
    step("the descriptor closed", "closed");
    DO(cuMemCreate, &handle, 16 * MIB, device_place, 0);
    step("one handle kept", "exact");
    DO(cuMemAddressFree, range, (size_t)64 << 30);
}

static void pools(void) {
    P p = 0, q = 0;
    uint64_t value = 0;
    V own = 0;
    DO(cuDeviceGetDefaultMemPool, &pool, 0);
    DO(cuDeviceGetMemPool, &own, 0);
    DO(cuMemAllocAsync, &p, MIB, 0);
    DO(cuStreamSynchronize, 0);
    step("1 MiB from the default pool", "exact");
    DO(cuMemAllocAsync, &q, 100 * MIB, 0);
    DO(cuStreamSynchronize, 0);
    step("100 MiB more", "exact");
    DO(cuMemFreeAsync, q, 0);
    DO(cuStreamSynchronize, 0);
    step("freed, waited", "exact");
    DO(cuMemFreeAsync, p, 0);
    DO(cuCtxSynchronize, 0);
    step("all freed, waited", "exact");
    value = UINT64_MAX;
    DO(cuMemPoolSetAttribute, pool, 4, &value);
    DO(cuMemAllocAsync, &p, 50 * MIB, 0);
    DO(cuMemFree_v2, p);
    DO(cuStreamSynchronize, 0);
    step("the pool keeps everything", "exact");
    DO(cuMemPoolGetAttribute, pool, 5, &value);
    DO(cuMemPoolTrimTo, pool, 0);
    step("trimmed", "exact");
    value = 0;
    DO(cuMemPoolSetAttribute, pool, 4, &value);
    unsigned char properties[88] = {1, 0, 0, 0, 0, 0, 0, 0, 1};
    DO(cuMemPoolCreate, &own, properties);
    DO(cuMemAllocFromPoolAsync, &p, 10 * MIB, own, 0);
    DO(cuStreamSynchronize, 0);
    step("10 MiB from a pool of its own", "exact");
    DO(cuMemPoolDestroy, own);
    step("the pool destroyed, the block out", "exact");
    DO(cuMemFreeAsync, p, 0);
    DO(cuStreamSynchronize, 0);
    step("the block freed", "exact");
    DO(cuMemAllocAsync, &p, 5 * MIB, 0);
    step("5 MiB kept", "exact");
}

static void arrays(void) {
    /* Width, height and depth, then format, channels and flags. */
    struct { uint64_t width, height, depth; uint32_t format, channels, flags; } shape = {4000, 4000, 0, 0x20, 1, 0};
    V array = 0, mipmapped = 0;
    DO(cuArray3DCreate_v2, &array, &shape);
    step("array of 4000 x 4000 floats", "exact");
    struct { uint32_t kind; V array; uint64_t rest[16]; } resource = {0, array, {0}};
    uint32_t texture[32] = {0};
    uint64_t object = 0;
    if (!GET(cuTexObjectCreate, &object, &resource, texture, 0))
        DO(cuTexObjectDestroy, object);
    DO(cuArrayDestroy, array);
    step("destroyed", "exact");
    shape.width = shape.height = 1024;
    DO(cuMipmappedArrayCreate, &mipmapped, &shape, 11);
    step("mipmapped array of 1024 x 1024 floats", "exact");
    DO(cuMipmappedArrayDestroy, mipmapped);
    struct { uint64_t width, height; uint32_t format, channels; } flat = {256, 256, 0x20, 4};
    V many[32];
    for (int n = 0; n < 32; n++)
        DO(cuArrayCreate_v2, &many[n], &flat);
    step("32 arrays of 1 MiB", "exact");
    for (int n = 0; n < 31; n++)
        DO(cuArrayDestroy, many[n]);
    step("all but one destroyed", "exact");
}

static void host(void) {
    V p = 0;
    P managed = 0;
    static char own[1 << 16];
    DO(cuMemHostAlloc, &p, 64 * MIB, 0);
    DO(cuMemHostRegister_v2, own, sizeof own, 0);
    step("64 MiB pinned", "exact");
    DO(cuMemFreeHost, p);
    DO(cuMemHostUnregister, own);
    DO(cuMemAllocManaged, &managed, 64 * MIB, 1);
    step("64 MiB managed", "exact");
    DO(cuMemPrefetchAsync, managed, 64 * MIB, 0, 0);
    DO(cuCtxSynchronize, 0);
    step("prefetched", "pages");
    DO(cuMemFree_v2, managed);
    step("freed", "pages");
}

static void graphs(void) {
    V stream = 0, graph = 0, exec = 0, node = 0;
    P p = 0;
    uint64_t value = 0;
    DO(cuStreamCreate, &stream, 1);
    step("stream", "driver");
    /* A pool is asked by nobody while this stream is captured: it would end the capture. */
    DO(cuStreamBeginCapture_v2, stream, 0);
    DO(cuMemAllocAsync, &p, 64 * MIB, stream);
    DO(cuStreamEndCapture, stream, &graph);
    step("64 MiB captured", "exact");
    DO(cuGraphInstantiateWithFlags, &exec, graph, 1);
    step("made executable", "driver");
    DO(cuGraphLaunch, exec, stream);
    DO(cuStreamSynchronize, stream);
    step("launched", "exact");
    DO(cuGraphLaunch, exec, stream);
    DO(cuStreamSynchronize, stream);
    step("launched again", "exact");
    DO(cuGraphExecDestroy, exec);
    DO(cuGraphDestroy, graph);
    step("executable and graph destroyed", "driver");
    DO(cuDeviceGetGraphMemAttribute, 0, 0, &value);
    DO(cuMemFreeAsync, p, stream);
    DO(cuStreamSynchronize, stream);
    step("the block freed", "exact");
    DO(cuDeviceGraphMemTrim, 0);
    step("trimmed", "exact");
    unsigned char node_params[120] = {1, 0, 0, 0, 0, 0, 0, 0, 1};
    value = 32 * MIB;
    memcpy(node_params + 104, &value, 8);
    DO(cuGraphCreate, &graph, 0);
    DO(cuGraphAddMemAllocNode, &node, graph, 0, 0, node_params);
    memcpy(&p, node_params + 112, 8);
    V free_node = 0;
    DO(cuGraphAddMemFreeNode, &free_node, graph, &node, 1, p);
    DO(cuGraphInstantiateWithFlags, &exec, graph, 0);
    DO(cuGraphUpload, exec, stream);
    DO(cuStreamSynchronize, stream);
    step("32 MiB of a node uploaded", "graph");
    DO(cuGraphLaunch, exec, stream);
    DO(cuStreamSynchronize, stream);
    step("launched", "exact");
    DO(cuGraphExecDestroy, exec);
    DO(cuGraphDestroy, graph);
    DO(cuDeviceGraphMemTrim, 0);
    step("destroyed and trimmed", "driver");
    /* A capture that a forbidden call ends. */
    DO(cuStreamBeginCapture_v2, stream, 1);
    DO(cuMemAllocAsync, &p, MIB, stream);
    REFUSED(900, cuMemPoolGetAttribute, pool, 5, &value);
    REFUSED(901, cuStreamEndCapture, stream, &graph);
    DO(cuMemAllocAsync, &p, MIB, stream);
    DO(cuMemFreeAsync, p, stream);
    DO(cuStreamSynchronize, stream);
    DO(cuStreamDestroy_v2, stream);
    step("a capture that failed", "driver");
}

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .b8 big[16777216];\n"
    ".visible .entry k() { .local .align 4 .b8 room[4096]; .reg .u64 %rd<3>; .reg .u32 %r<3>; mov.u64 %rd1, room;\n"
    " mov.u32 %r1, %tid.x; cvt.u64.u32 %rd2, %r1; add.u64 %rd1, %rd1, %rd2; st.local.u8 [%rd1], %r1; ld.local.u8 %r2, [%rd1];\n"
    " mov.u64 %rd2, big; st.global.u32 [%rd2], %r2; ret; }\n";

static void modules(void) {
    V module = 0, function = 0, library = 0, kernel = 0;
    P global = 0;
    size_t bytes = 0;
    DO(cuModuleLoadData, &module, ptx);
    DO(cuModuleGetFunction, &function, module, "k");
    DO(cuModuleGetGlobal_v2, &global, &bytes, module, "big");
    step("module with a variable of 16 MiB", "driver");
    DO(cuModuleUnload, module);
    step("unloaded", "driver");
    DO(cuLibraryLoadData, &library, ptx, 0, 0, 0, 0, 0, 0);
    DO(cuLibraryGetKernel, &kernel, library, "k");
    DO(cuKernelGetFunction, &function, kernel);
    step("library", "driver");
    DO(cuLibraryUnload, library);
    step("unloaded", "driver");
}

static void contexts(void) {
    V made = 0, streams[64], events[1000];
    P p = 0, q = 0;
    struct { uint64_t width, height, depth; uint32_t format, channels, flags; } shape = {4096, 4096, 0, 0x20, 1, 0};
    V array = 0;
    DO(cuCtxCreate_v2, &made, 0, 0);
    step("a second context", "driver");
    DO(cuMemAlloc_v2, &p, 64 * MIB);
    DO(cuArray3DCreate_v2, &array, &shape);
    DO(cuMemAllocAsync, &q, 64 * MIB, 0);
    DO(cuCtxSynchronize, 0);
    step("memory, an array, a block of a pool in it", "exact");
    DO(cuCtxDestroy_v2, made);
    step("the context destroyed", "driver");
    DO(cuCtxSetCurrent, primary);
    DO(cuMemFree_v2, q);
    DO(cuCtxSynchronize, 0);
    step("the block freed", "exact");
    DO(cuCtxSetLimit, 0, 4096);
    step("stacks of 4096 bytes", "exact");
    DO(cuCtxSetLimit, 0, 1024);
    step("stacks of 1024 bytes", "exact");
    for (int n = 0; n < 64; n++)
        DO(cuStreamCreate, &streams[n], 1);
    for (int n = 0; n < 1000; n++)
        DO(cuEventCreate, &events[n], 2);
    step("64 streams and 1000 events", "driver");
    for (int n = 0; n < 63; n++)
        DO(cuStreamDestroy_v2, streams[n]);
    for (int n = 0; n < 990; n++)
        DO(cuEventDestroy_v2, events[n]);
    step("all but 1 and 10 destroyed", "driver");
    size_t free_bytes = 0, total = 0;
    DO(cuMemGetInfo_v2, &free_bytes, &total);
}

/* Another process opens what this one shares, says so, and closes it when its input ends. */
static int child(void) {
    struct { Name name; int descriptor; } shared;
    P p = 0, handle = 0, range = 0;
    V context = 0;
    if (read(0, &shared, sizeof shared) != sizeof shared)
        return 4;
    DO(cuInit, 0);
    DO(cuDevicePrimaryCtxRetain, &context, 0);
    DO(cuCtxSetCurrent, context);
    int (*open)(P *, Name, unsigned) = (int (*)(P *, Name, unsigned))dlsym(driver, "cuIpcOpenMemHandle_v2");
    must("cuIpcOpenMemHandle_v2", open(&p, shared.name, 1), 0);
    DO(cuMemImportFromShareableHandle, &handle, (long)shared.descriptor, 1);
    close(shared.descriptor);
    DO(cuMemAddressReserve, &range, 32 * MIB, 0, 0, 0);
    DO(cuMemMap, range, 32 * MIB, 0, handle, 0);
    fflush(stdout);
    if (write(3, "r", 1) != 1)
        return 4;
    char rest;
    while (read(0, &rest, 1) > 0)
        ;
    return failures != 0;
}

static void sharing(const char *self) {
    struct { Name name; int descriptor; } shared;
    int in[2], out[2], status = 0;
    P p = 0, handle = 0;
    char ready = 0;
    DO(cuMemAlloc_v2, &p, 64 * MIB);
    DO(cuIpcGetMemHandle, &shared.name, p);
    DO(cuMemCreate, &handle, 32 * MIB, device_place, 0);
    DO(cuMemExportToShareableHandle, &shared.descriptor, handle, 1, 0);
    step("64 and 32 MiB to be shared", "exact");
    if (pipe(in) || pipe(out))
        exit(4);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int kept = dup(shared.descriptor);
        dup2(in[0], 0);
        dup2(out[1], 3);
        for (int n = 4; n < 256; n++)
            if (n != kept)
                close(n);
        char number[16];
        snprintf(number, sizeof number, "%d", kept);
        execl(self, self, "child", number, NULL);
        _exit(5);
    }
    close(in[0]);
    close(out[1]);
    if (write(in[1], &shared, sizeof shared) != sizeof shared || read(out[0], &ready, 1) != 1)
        failures++;
    DO(cuMemFree_v2, p);
    DO(cuMemRelease, handle);
    close(shared.descriptor);
    usleep(20000);
    close(in[1]);
    waitpid(pid, &status, 0);
    failures += status != 0;
    step("freed here, and the other process is over", "closed");
}

int main(int argc, char **argv) {
    costs = argc > 1 && !strcmp(argv[1], "costs");
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (argc > 2 && !strcmp(argv[1], "child")) {
        costs = 1; /* says nothing but what went wrong */
        /* The descriptor has another number here than in the parent. */
        struct { Name name; int descriptor; } shared;
        int through[2];
        if (read(0, &shared, sizeof shared) != sizeof shared || pipe(through))
            return 4;
        shared.descriptor = atoi(argv[2]);
        if (write(through[1], &shared, sizeof shared) != sizeof shared)
            return 4;
        int rest = dup(0);
        dup2(through[0], 0);
        close(through[1]);
        int answer = child();
        char byte;
        while (read(rest, &byte, 1) > 0)
            ;
        return answer;
    }
    find_witness();
    step("start", "driver");
    DO(cuInit, 0);
    step("initialised", "driver");
    DO(cuDevicePrimaryCtxRetain, &primary, 0);
    DO(cuCtxSetCurrent, primary);
    step("primary context", "driver");
    linear();
    physical();
    pools();
    arrays();
    host();
    graphs();
    modules();
    contexts();
    sharing("/proc/self/exe");
    DO(cuDevicePrimaryCtxReset_v2, 0);
    step("reset", "driver");
    V again = 0;
    DO(cuDevicePrimaryCtxRetain, &again, 0);
    DO(cuDevicePrimaryCtxRelease, 0);
    DO(cuDevicePrimaryCtxRelease, 0);
    step("released", "driver");
    return failures != 0;
}
