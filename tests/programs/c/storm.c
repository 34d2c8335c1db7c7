/* Threads that allocate and free device memory as fast as they can and hand addresses to each other, until somebody stops
 * them. Every thread writes what it has done into a shared page, one count before a call and one after it, so that whoever
 * kills the process knows which calls must be in the record.
 *
 * usage: storm THREADS PAGE-FILE [CALLS]     build: cc -O1 -o storm storm.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct progress {
    volatile uint64_t tid, begun, done, pad[5];
};
static struct progress *page;
static int (*alloc)(uint64_t *, size_t), (*release)(uint64_t), (*set)(void *);
static void *context;
static uint64_t hand[64];
static long calls;

static void *work(void *argument) {
    struct progress *mine = &page[(intptr_t)argument];
    unsigned seed = (unsigned)(intptr_t)argument + 1;
    set(context);
    mine->tid = (uint64_t)syscall(SYS_gettid);
    for (uint64_t n = 1; calls == 0 || n <= (uint64_t)calls; n++) {
        uint64_t address = 0;
        /* The size says which of the thread's calls it was: what is read back must be 512 * n, without a gap. */
        mine->begun = n;
        if (alloc(&address, 512 * n) != 0)
            break;
        mine->done = n;
        uint64_t other = __atomic_exchange_n(&hand[rand_r(&seed) % 64], address, __ATOMIC_ACQ_REL);
        if (other)
            release(other);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 2 ? atoi(argv[1]) : 0, file = argc > 2 ? open(argv[2], O_RDWR) : -1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    pthread_t id[64];
    if (threads < 1 || threads > 64 || file < 0 || !driver)
        return 2;
    calls = argc > 3 ? atol(argv[3]) : 0;
    page = mmap(0, 64 * sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    set = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    alloc = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
    release = (int (*)(uint64_t))dlsym(driver, "cuMemFree_v2");
    if (init(0) || retain(&context, 0) || set(context))
        return 3;
    for (intptr_t i = 0; i < threads; i++)
        pthread_create(&id[i], NULL, work, (void *)i);
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    puts("done");
    return 0;
}
