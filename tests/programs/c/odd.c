/* Processes with habits. Each prints what it saw, so that runs with and without the recorder can be compared.
 *
 * usage: odd HABIT     build: cc -O1 -o odd odd.c -ldl -lpthread
 *
 *   fork-before   the child touches CUDA, the parent does too
 *   fork-after    the parent has touched CUDA before it forks; the child tries
 *   exec          touches CUDA, then becomes /bin/echo
 *   reload        closes the driver and opens it again
 *   default       finds the driver's functions through RTLD_DEFAULT after opening it globally
 *   lookups       only looks things up
 *   threads       six hundred threads, one after another, each allocates once
 *   chdir         changes its directory, then records enough for the capture to grow
 *   many N        N allocations and frees
 *   close-all     closes every descriptor that it does not know, then records enough for the capture to grow
 *   die-inside    is killed by a signal while the driver is in cuMemAlloc (use STANDIN_SLOW)
 *   leave         allocates, then _exit
 *   lacks         calls a function by a weak reference, whether the driver has it or not
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern int cuMemAllocPitch_v2(uint64_t *, size_t *, size_t, size_t, unsigned) __attribute__((weak));
static void *driver, *context;

static void *find(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) {
        printf("%s is missing\n", name);
        exit(1);
    }
    return found;
}

static int init(void) {
    int (*call)(unsigned) = (int (*)(unsigned))find("cuInit");
    int status = call(0);
    if (!status) {
        int (*retain)(void **, int) = (int (*)(void **, int))find("cuDevicePrimaryCtxRetain");
        int (*set)(void *) = (int (*)(void *))find("cuCtxSetCurrent");
        status = retain(&context, 0);
        if (!status)
            status = set(context);
    }
    return status;
}

static int take(uint64_t *address, size_t bytes) {
    int (*call)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))find("cuMemAlloc_v2");
    *address = 0;
    return call(address, bytes);
}

static int give(uint64_t address) {
    int (*call)(uint64_t) = (int (*)(uint64_t))find("cuMemFree_v2");
    return call(address);
}

static void open_driver(int flags) {
    driver = dlopen("libcuda.so.1", flags);
    if (!driver) {
        printf("%s\n", dlerror());
        exit(1);
    }
}

static void *one_call(void *unused) {
    int (*set)(void *) = (int (*)(void *))find("cuCtxSetCurrent");
    uint64_t address;
    (void)unused;
    set(context);
    return (void *)(intptr_t)take(&address, 512);
}

static void *kill_soon(void *unused) {
    (void)unused;
    usleep(100000);
    kill(getpid(), SIGKILL);
    return NULL;
}

static int many(long n) {
    uint64_t address;
    int bad = 0;
    for (long i = 0; i < n; i++) {
        errno = 77;
        bad += take(&address, 512 * (size_t)(i % 7 + 1)) != 0;
        bad += give(address) != 0;
    }
    return bad;
}

int main(int argc, char **argv) {
    const char *habit = argc > 1 ? argv[1] : "";
    uint64_t address;
    int status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(habit, "lookups")) {
        printf("%d %d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL, dlsym(RTLD_NEXT, "cuInit") != NULL);
        printf("%d\n", dlsym(RTLD_DEFAULT, "qsort") != NULL);
        printf("%s\n", dlsym(RTLD_DEFAULT, "cuInit") ? "" : dlerror());
        return 0;
    }
    open_driver(RTLD_NOW | (!strcmp(habit, "default") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!strcmp(habit, "fork-before") || !strcmp(habit, "fork-after")) {
        int after = habit[5] == 'a';
        if (after)
            printf("parent init %d\n", init());
        pid_t child = fork();
        if (child == 0) {
            status = init();
            printf("child init %d\n", status);
            status = take(&address, 4096);
            printf("child alloc %d\n", status);
            _exit(0);
        }
        waitpid(child, &status, 0);
        printf("child status %d\n", status);
        if (!after)
            printf("parent init %d\n", init());
        printf("parent alloc %d\n", take(&address, 8192));
    } else if (!strcmp(habit, "exec")) {
        printf("init %d\n", init());
        printf("alloc %d\n", take(&address, 4096));
        execl("/bin/echo", "echo", "echoed", (char *)NULL);
    } else if (!strcmp(habit, "reload")) {
        for (int i = 0; i < 4; i++) {
            printf("init %d\n", init());
            printf("alloc %d\n", take(&address, 4096 * (size_t)(i + 1)));
            printf("close %d\n", dlclose(driver));
            open_driver(RTLD_NOW);
        }
    } else if (!strcmp(habit, "default")) {
        driver = RTLD_DEFAULT;
        printf("init %d\n", init());
        printf("alloc %d\n", take(&address, 4096));
        printf("free %d\n", give(address));
    } else if (!strcmp(habit, "threads")) {
        printf("init %d\n", init());
        for (int i = 0; i < 600; i++) {
            pthread_t thread;
            void *answer;
            pthread_create(&thread, NULL, one_call, NULL);
            pthread_join(thread, &answer);
            if (answer)
                printf("alloc %d\n", (int)(intptr_t)answer);
        }
    } else if (!strcmp(habit, "chdir")) {
        printf("init %d\n", init());
        printf("chdir %d\n", chdir("/"));
        printf("many %d\n", many(10000));
    } else if (!strcmp(habit, "many")) {
        printf("init %d\n", init());
        printf("many %d\n", many(argc > 2 ? atol(argv[2]) : 1000));
    } else if (!strcmp(habit, "close-all")) {
        printf("init %d\n", init());
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        printf("many %d\n", many(10000));
        printf("next descriptor %d\n", dup(1));
    } else if (!strcmp(habit, "die-inside")) {
        pthread_t thread;
        printf("init %d\n", init());
        pthread_create(&thread, NULL, kill_soon, NULL);
        printf("alloc %d\n", take(&address, 123456));
    } else if (!strcmp(habit, "lacks")) {
        size_t pitch = 0;
        printf("init %d\n", init());
        printf("pitch %d\n", cuMemAllocPitch_v2 ? cuMemAllocPitch_v2(&address, &pitch, 64, 64, 4) : -1);
    } else if (!strcmp(habit, "leave")) {
        printf("init %d\n", init());
        printf("alloc %d\n", take(&address, 4096));
        _exit(3);
    } else {
        fprintf(stderr, "usage: odd HABIT\n");
        return 2;
    }
    return 0;
}
