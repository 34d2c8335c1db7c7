/* Calls every row of the hook table, and prints what came back: result, errno, and what became of the memory that was pointed to.
 * With and without the recorder the output must be the same.
 *
 * usage: rows DOOR tame|wild      DOOR: plt (built with -DPLT and linked against the driver), dlsym, gpa
 *   tame: nulls, and places to read and write; for a driver that checks for nulls, as the stand-in does and a real one does not.
 *   wild: pointers into nowhere too; for a driver that refuses every call unread (STANDIN_FAIL).
 * build: cc -O1 -o rows rows.c -ldl        (plt: cc -DPLT … libcuda.so.1)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A 64-byte name travels by value, on the stack; eight words after the others reach every argument of every row. */
typedef struct { uint64_t word[8]; } Name;
typedef int (*Call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Name);

#ifdef PLT
#define PROTOTYPE(symbol, base, version, flags) extern int symbol(void) __attribute__((weak));
#include "rows.h"
ROWS(PROTOTYPE)
#else
#include "rows.h"
#endif

static struct { const char *name; Call call; } rows[] = {
#define ROW(symbol, base, version, flags) {#symbol, NULL},
    ROWS(ROW)
};

static unsigned char memory[8][512];

/* Addresses count as one value: where the system puts things differs from run to run. */
static unsigned digest(const unsigned char *bytes) {
    uint64_t hash = 1469598103934665603u, value;
    for (int i = 0; i < 512; i += 8) {
        memcpy(&value, bytes + i, 8);
        if (value >> 40 >= 0x50 && value >> 47 == 0)
            value = 0x50;
        hash = (hash ^ value) * 1099511628211u;
    }
    return (unsigned)(hash >> 32);
}

/* One word for argument n. */
static uint64_t word(int pattern, int n) {
    switch (pattern) {
    case 0: return 0;
    case 1: return 1;
    case 2: return 0xffffffffffffffffu;
    case 3: return (uint64_t)memory[n];              /* places to read and write everywhere */
    case 4: return n == 0 ? (uint64_t)memory[0] : 1; /* an answer's place, then little numbers */
    case 5: return n == 0 ? (uint64_t)memory[0] : (uint64_t)1 << 40;
    case 6: return n % 2 ? 2 : (uint64_t)memory[n];
    case 7: return n == 0 ? 0x7f0000000000u : (uint64_t)memory[n];
    default: return (uint64_t)memory[n]; /* the same places, full of ones */
    }
}

int main(int argc, char **argv) {
    const char *door = argc > 1 ? argv[1] : "";
    int n = 0, wild = argc > 2 && !strcmp(argv[2], "wild");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(door, "plt")) {
#ifdef PLT
#define TAKE(symbol, base, version, flags) rows[n++].call = dlsym(RTLD_DEFAULT, #symbol) ? (Call)(void *)symbol : NULL;
        ROWS(TAKE)
#else
        return 2;
#endif
    } else {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!driver) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        int (*get)(const char *, void **, int, uint64_t, int *) =
            (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
        int by_name = !strcmp(door, "dlsym");
        if (!by_name && strcmp(door, "gpa"))
            return 2;
#define LOOK(symbol, base, version, flags) { \
        void *found = NULL; \
        if (by_name) found = dlsym(driver, #symbol); \
        else if (get(#base, &found, version, flags, NULL)) found = NULL; \
        rows[n++].call = (Call)found; \
    }
        ROWS(LOOK)
    }
    for (int state = 0; state < 2; state++) {
        for (int i = 0; i < n; i++) {
            if (!rows[i].call) {
                printf("%s absent\n", rows[i].name);
                continue;
            }
            if (state == 0 && !strcmp(rows[i].name, "cuInit"))
                continue;
            for (int pattern = 0; pattern < 9; pattern++) {
                if (!wild && pattern != 0 && pattern != 3 && pattern != 8)
                    continue;
                Name name = {{word(pattern, 6), word(pattern, 7)}};
                memset(memory, 0, sizeof memory);
                for (int m = 0; pattern == 8 && m < 8; m++)
                    for (int at = 0; at < 256; at += 4)
                        memory[m][at] = 1;
                errno = 77;
                int result = rows[i].call(word(pattern, 0), word(pattern, 1), word(pattern, 2), word(pattern, 3),
                                          word(pattern, 4), word(pattern, 5), name);
                int seen = errno;
                printf("%s %s %d = %d errno %d memory", state ? "ready" : "early", rows[i].name, pattern, result, seen);
                for (int m = 0; m < 8; m++)
                    printf(" %08x", digest(memory[m]));
                printf("\n");
            }
        }
        if (state == 0) {
            for (int i = 0; i < n; i++)
                if (!strcmp(rows[i].name, "cuInit") && rows[i].call)
                    printf("cuInit %d\n", rows[i].call(0, 0, 0, 0, 0, 0, (Name){{0}}));
        }
    }
    return 0;
}
