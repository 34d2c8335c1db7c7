/* Asks for every name that it is given through every door to the driver, and prints what it is handed: status, and the
 * library and symbol that the pointer belongs to. Run with and without the recorder, the outputs may differ in one way
 * only: libcuda.so.1 becomes libgpushim.so for a hooked symbol, and the symbol stays the same.
 *
 * usage: doors DRIVER NAMES   (DRIVER: path or name for dlopen; NAMES: a file with one symbol a line)
 * build: cc -o doors doors.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*get_v1)(const char *, void **, int, uint64_t);
typedef int (*get_v2)(const char *, void **, int, uint64_t, int *);

static const char *leaf(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void show(const char *door, const char *name, void *pointer) {
    Dl_info info;
    if (!pointer)
        printf("%s %s -\n", door, name);
    else if (dladdr(pointer, &info) && info.dli_sname && info.dli_saddr == pointer)
        printf("%s %s %s:%s\n", door, name, leaf(info.dli_fname), info.dli_sname);
    else
        printf("%s %s somewhere\n", door, name);
}

/* The name that cuGetProcAddress knows: without version and stream suffix. */
static void base_of(char *name) {
    size_t n = strlen(name);
    if (n > 5 && (!strcmp(name + n - 5, "_ptsz") || !strcmp(name + n - 5, "_ptds")))
        name[n -= 5] = 0;
    if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v' && name[n - 1] >= '0' && name[n - 1] <= '9')
        name[n - 3] = 0;
}

int main(int argc, char **argv) {
    static const int thresholds[] = {2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 4020, 5000, 5050, 6000, 6050,
        7000, 7050, 8000, 9000, 9020, 10000, 10010, 10020, 11000, 11010, 11020, 11030, 11040, 11050, 11060, 11070, 11080,
        12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000, 13010, 13020, 13030, 13040, 13050, 13990};
    static const uint64_t flags[] = {0, 1, 2, 3, 16};
    char name[256];
    FILE *names;
    void *driver;
    if (argc != 3 || !(names = fopen(argv[2], "r"))) {
        fprintf(stderr, "usage: doors DRIVER NAMES\n");
        return 2;
    }
    /* Before the driver is there: nothing may be found that would not be found without the recorder. */
    while (fgets(name, sizeof name, names)) {
        name[strcspn(name, "\n")] = 0;
        show("absent-default", name, dlsym(RTLD_DEFAULT, name));
        show("absent-next", name, dlsym(RTLD_NEXT, name));
    }
    driver = dlopen(argv[1], RTLD_NOW | (getenv("DOORS_GLOBAL") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    get_v1 v1 = (get_v1)dlsym(driver, "cuGetProcAddress");
    get_v2 v2 = (get_v2)dlsym(driver, "cuGetProcAddress_v2");
    rewind(names);
    while (fgets(name, sizeof name, names)) {
        name[strcspn(name, "\n")] = 0;
        show("handle", name, dlsym(driver, name));
        char *message = dlerror();
        printf("dlerror %s\n", message ? "set" : "clear");
        show("default", name, dlsym(RTLD_DEFAULT, name));
        show("next", name, dlsym(RTLD_NEXT, name));
        show("dlvsym", name, dlvsym(driver, name, "NONE"));
        dlerror();
        for (int as_is = 0; as_is < 2; as_is++) {
            if (!as_is)
                base_of(name);
            for (size_t t = 0; t < sizeof thresholds / sizeof *thresholds; t++)
                for (int step = -10; step <= 10; step += 10)
                    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
                        char door[80];
                        void *pointer = (void *)1;
                        int status = -1, version = thresholds[t] + step, rc;
                        if (v1) {
                            rc = v1(name, &pointer, version, flags[f]);
                            snprintf(door, sizeof door, "v1 %d %d rc=%d", version, (int)flags[f], rc);
                            show(door, name, pointer == (void *)1 ? 0 : pointer);
                        }
                        pointer = (void *)1;
                        if (v2) {
                            rc = v2(name, &pointer, version, flags[f], &status);
                            snprintf(door, sizeof door, "v2 %d %d rc=%d status=%d", version, (int)flags[f], rc, status);
                            show(door, name, pointer == (void *)1 ? 0 : pointer);
                        }
                    }
        }
    }
    return 0;
}
