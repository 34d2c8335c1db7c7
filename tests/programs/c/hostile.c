/* Processes in which something stands in the recorder's way. Each prints what it saw, so that runs with and without the recorder can be
 * compared. Linked against the driver, so that its calls go through the procedure linkage table.
 *
 * usage: hostile HABIT     build: cc -O1 -rdynamic -o hostile hostile.c LIBCUDA -ldl -lpthread
 *
 *   iterate       defines dl_iterate_phdr itself, by a dlsym inside; no CUDA
 *   orphan        forks while another thread is inside dl_iterate_phdr; the child looks things up and uses CUDA
 *   jump          leaves a driver call by siglongjmp, then allocates five times 10 MiB (use STANDIN_SLOW)
 *   handler       allocates 50 MiB in a signal handler that interrupts a driver call (use STANDIN_SLOW)
 *   small         makes its first calls on a thread with a stack of 16 KiB
 *   cancel        is to be cancelled while it allocates, where only its own test would allow it
 *   refused       asks for a private table with a wild pointer for its UUID
 *   allocate      allocates 1 MiB and 4 MiB, and frees the first
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern int cuInit(unsigned);
extern int cuDevicePrimaryCtxRetain(void **, int);
extern int cuCtxSetCurrent(void *);
extern int cuMemAlloc_v2(uint64_t *, size_t);
extern int cuMemFree_v2(uint64_t);
extern int cuGetExportTable(const void **, const void *);

static int start(void) {
    void *context;
    int result = cuInit(0);
    result |= cuDevicePrimaryCtxRetain(&context, 0);
    return result | cuCtxSetCurrent(context);
}

typedef int callback(struct dl_phdr_info *, size_t, void *);

/* Interposes the C library's, as sanitizers and profilers do. */
int dl_iterate_phdr(callback *visit, void *data) {
    static int (*real)(callback *, void *);
    if (!real)
        real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return real(visit, data);
}

static int nothing(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size, (void)data;
    return 0;
}

static volatile int inside;

static int stay(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size, (void)data;
    inside = 1;
    for (;;)
        pause();
    return 0;
}

static void *iterator(void *data) {
    (void)data;
    dl_iterate_phdr(stay, 0);
    return 0;
}

static int orphan(void) {
    pthread_t thread;
    pthread_create(&thread, 0, iterator, 0);
    while (!inside)
        usleep(1000);
    pid_t child = fork();
    if (!child) {
        alarm(5);
        int found = dlsym(RTLD_DEFAULT, "malloc") != 0;
        int result = start();
        uint64_t address;
        result |= cuMemAlloc_v2(&address, 1 << 20);
        _exit(found ? result : 77);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %#x\n", status);
    fflush(stdout);
    _exit(0);
}

static sigjmp_buf back;
static void jump(int signal) { siglongjmp(back, signal); }
static void allocate(int signal) {
    uint64_t address;
    (void)signal;
    printf("in the handler %d\n", cuMemAlloc_v2(&address, 50 << 20));
}

static void soon(void (*handler)(int)) {
    struct itimerval once = {{0, 0}, {0, 50000}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &once, 0);
}

static void *small(void *data) {
    (void)data;
    uint64_t address;
    int first = start();
    printf("%d %d\n", first, cuMemAlloc_v2(&address, 1 << 20));
    return 0;
}

static void *cancelled(void *data) {
    uint64_t address;
    long done = 0;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, 0);
    pthread_cancel(pthread_self());
    for (; done < 20000; done++)
        if (!cuMemAlloc_v2(&address, 1024))
            cuMemFree_v2(address);
    *(long *)data = done;
    pthread_testcancel();
    return 0;
}

int main(int count, char **arguments) {
    const char *habit = count > 1 ? arguments[1] : "";
    uint64_t address = 0, other = 0;
    setvbuf(stdout, 0, _IONBF, 0);
    if (!strcmp(habit, "iterate")) {
        printf("%d %d\n", dlsym(RTLD_DEFAULT, "malloc") != 0, dl_iterate_phdr(nothing, 0));
    } else if (!strcmp(habit, "orphan")) {
        return orphan();
    } else if (!strcmp(habit, "jump")) {
        printf("%d\n", start());
        soon(jump);
        if (!sigsetjmp(back, 1))
            cuMemAlloc_v2(&address, 1 << 20);
        for (int n = 0; n < 5; n++)
            printf("%d\n", cuMemAlloc_v2(&address, 10 << 20));
    } else if (!strcmp(habit, "handler")) {
        printf("%d\n", start());
        soon(allocate);
        printf("%d\n", cuMemAlloc_v2(&address, 1 << 20));
    } else if (!strcmp(habit, "small")) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 16384);
        pthread_create(&thread, &attributes, small, 0);
        pthread_join(thread, 0);
    } else if (!strcmp(habit, "cancel")) {
        pthread_t thread;
        long done = -1;
        printf("%d\n", start());
        pthread_create(&thread, 0, cancelled, &done);
        pthread_join(thread, 0);
        printf("%ld\n", done);
    } else if (!strcmp(habit, "refused")) {
        const void *table;
        printf("%d\n", start());
        printf("%d\n", cuGetExportTable(0, (void *)8));
        printf("%d\n", cuGetExportTable(&table, 0));
    } else if (!strcmp(habit, "allocate")) {
        printf("%d\n", start());
        printf("%d\n", cuMemAlloc_v2(&address, 1 << 20));
        printf("%d\n", cuMemAlloc_v2(&other, 4 << 20));
        printf("%d\n", cuMemFree_v2(address));
    }
    return 0;
}
