// Allocates while the interpreter's own list of frames is broken, and mends it before the interpreter looks: what a recorder that
// walks the list meets when the structures are not what it takes them for.
#include <stddef.h>
#include <stdint.h>

// Puts `wild` where `field` points, calls `allocate(address, size)` and puts back what was there.
int take_with(void **field, void *wild, int (*allocate)(uint64_t *, size_t), size_t size) {
    uint64_t address = 0;
    void *kept = *field;
    *(void *volatile *)field = wild;
    int result = allocate(&address, size);
    *(void *volatile *)field = kept;
    return result;
}
