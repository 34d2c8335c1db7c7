/* Makes a libcudart look up all that it wants of the driver, and prints which functions it then holds.
 *
 * usage: cudart LIBCUDART           prints the runtime's answer to cudaGetDeviceCount, then a line for each function of the driver, or of
 *                                   the recorder, whose address lies in the runtime's data: FILE:SYMBOL
 * build: cc -O1 -o cudart cudart.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *file_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int data(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    if (strcmp(file_of(info->dlpi_name), file_of(argument)))
        return 0;
    for (int n = 0; n < info->dlpi_phnum; n++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[n];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
            continue;
        uintptr_t at = (info->dlpi_addr + part->p_vaddr + 7) & ~(uintptr_t)7, end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        for (; at + 8 <= end; at += 8) {
            void *value = *(void **)at;
            Dl_info found;
            if (dladdr(value, &found) && found.dli_sname && found.dli_saddr == value && !strncmp(found.dli_sname, "cu", 2))
                printf("%s:%s\n", file_of(found.dli_fname), found.dli_sname);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    /* A runtime that cannot begin lets the driver go again: then nobody could say whose functions these were. */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *runtime = driver ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!runtime) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int count = -1, (*device_count)(int *) = (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount");
    printf("cudaGetDeviceCount %d", device_count(&count));
    printf(" %d\n", count);
    dl_iterate_phdr(data, argv[1]);
    return 0;
}
