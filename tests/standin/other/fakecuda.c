/* A stand-in driver by another hand, kept as a second witness: the shim is run over both. Written as a smoke test for
 * driver-level programs before this project's own stand-in existed, and left as it was. */
/* fakecuda.c - a stand-in libcuda.so.1 (no GPU) used only to smoke-test the driver-level cases.
 * It keeps book of live objects and prints one FAKE line at exit (stderr), to compare with TRUTH.
 * FAKE_DEVICES=n sets the device count (default 1). Not a model of real driver memory costs.
 * BUILD: cc -shared -fPIC -Wl,-soname,libcuda.so.1 fakecuda.c -o libcuda.so.1
 * RUN:   LD_LIBRARY_PATH=. program */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
typedef int R; typedef uint64_t P; typedef void *V; typedef size_t Z;
enum { ALLOC, MANAGED, HOST, HREG, ASYNC, GRAPHMEM, VMM, MODULE, STREAM, EVENT, ARRAY, TEX, CTX, NK };
static const char *kn[] = {"alloc", "managed", "host", "hostreg", "async", "graphmem", "vmm", "module",
    "stream", "event", "array", "tex", "ctx"};
static struct O { P h; Z n; int k, live, rel, mapped; P ctx, owner; } o[200000];
static int no; static P next = 0x7f0000000000ull, cur, prim[16]; static int refs[16], capturing, inited;
static P capgraph; static P poolthr, poolres, poolused;
static void at(void) {
    long c[NK] = {0}, b[NK] = {0};
    for (int i = 0; i < no; i++) if (o[i].live) { c[o[i].k]++; b[o[i].k] += o[i].n; }
    fprintf(stderr, "FAKE");
    for (int k = 0; k < NK; k++) if (c[k]) fprintf(stderr, " %s=%ld/%ld", kn[k], c[k], b[k]);
    fprintf(stderr, " poolres=%lu poolused=%lu\n", poolres, poolused);
}
static struct O *add(int k, Z n) { struct O *x = &o[no++]; memset(x, 0, sizeof *x); x->k = k; x->n = n;
    x->h = next; next += (n + 0x1fffff) / 0x200000 * 0x200000 + 0x200000; x->live = 1; x->ctx = cur; return x; }
static struct O *find(P h, int k) { for (int i = no - 1; i >= 0; i--)
    if (o[i].live && o[i].h == h && (k < 0 || o[i].k == k)) return &o[i]; return 0; }
static R drop(P h, int k) { struct O *x = find(h, k); if (!x) return 1; x->live = 0; return 0; }
static void killctx(P c) { for (int i = 0; i < no; i++) if (o[i].live && o[i].ctx == c && o[i].k != CTX) o[i].live = 0; }
R cuInit(unsigned f) { if (!inited) { inited = 1; atexit(at); } return 0; }
R cuDeviceGetCount(int *n) { char *e = getenv("FAKE_DEVICES"); *n = e ? atoi(e) : 1; return 0; }
R cuDeviceGet(int *d, int i) { *d = i; return 0; }
R cuDevicePrimaryCtxRetain(V *c, int d) { if (!refs[d]++) { struct O *x = add(CTX, 500 << 20); prim[d] = x->h; } *c = (V)prim[d]; return 0; }
R cuDevicePrimaryCtxRelease_v2(int d) { if (!refs[d]) return 201; if (!--refs[d]) { killctx(prim[d]); drop(prim[d], CTX); } return 0; }
R cuDevicePrimaryCtxReset_v2(int d) { killctx(prim[d]); drop(prim[d], CTX); refs[d] = 0; return 0; }
R cuCtxSetCurrent(V c) { cur = (P)c; return 0; }
R cuCtxPushCurrent_v2(V c) { cur = (P)c; return 0; }
R cuCtxPopCurrent_v2(V *c) { *c = (V)cur; cur = 0; return 0; }
R cuCtxCreate_v2(V *c, unsigned f, int d) { struct O *x = add(CTX, 500 << 20); cur = x->h; *c = (V)cur; return 0; }
R cuCtxCreate_v4(V *c, V p, unsigned f, int d) { return cuCtxCreate_v2(c, f, d); }
R cuCtxDestroy_v2(V c) { killctx((P)c); return drop((P)c, CTX); }
R cuCtxSynchronize(void) { return cur ? 0 : 201; }
R cuMemGetInfo_v2(Z *f, Z *t) { Z u = 0; if (!cur) return 201; for (int i = 0; i < no; i++) if (o[i].live) u += o[i].n;
    *t = 150ull << 30; *f = *t - u - poolres; return 0; }
R cuMemAlloc_v2(P *p, Z n) { if (!cur) return 201; if (n > (150ull << 30)) return 2; *p = add(ALLOC, n)->h; return 0; }
R cuMemFree_v2(P p) { return !p ? 0 : drop(p, -1); }
R cuMemAllocManaged(P *p, Z n, unsigned f) { *p = add(MANAGED, n)->h; return 0; }
R cuMemsetD8_v2(P p, unsigned char v, Z n) { return find(p, -1) ? 0 : 1; }
R cuMemsetD8Async(P p, unsigned char v, Z n, V s) { return find(p, -1) ? 0 : 1; }
R cuMemHostAlloc(V *p, Z n, unsigned f) { *p = (V)add(HOST, n)->h; return 0; }
R cuMemFreeHost(V p) { return drop((P)p, HOST); }
R cuMemHostRegister_v2(V p, Z n, unsigned f) { if (find((P)p, HREG)) return 712; add(HREG, n)->h = (P)p; return 0; }
R cuMemHostUnregister(V p) { return drop((P)p, HREG); }
R cuModuleLoadData(V *m, const V img) { *m = (V)add(MODULE, 16 << 20)->h; return 0; }
R cuModuleUnload(V m) { return drop((P)m, MODULE); }
R cuModuleGetGlobal_v2(P *p, Z *n, V m, const char *s) { *p = (P)m; *n = 16 << 20; return 0; }
R cuStreamCreate(V *s, unsigned f) { *s = (V)add(STREAM, 1 << 18)->h; return 0; }
R cuStreamDestroy_v2(V s) { return drop((P)s, STREAM); }
R cuStreamSynchronize(V s) { if (poolthr != ~0ull) poolres = poolused; return 0; }
R cuEventCreate(V *e, unsigned f) { *e = (V)add(EVENT, 64)->h; return 0; }
R cuEventDestroy_v2(V e) { return drop((P)e, EVENT); }
R cuEventRecord(V e, V s) { return find((P)e, EVENT) ? 0 : 400; }
typedef struct { Z w, h; int f; unsigned ch; } AD;
R cuArrayCreate_v2(V *a, const AD *d) { *a = (V)add(ARRAY, d->w * d->h * 4 * d->ch)->h; return 0; }
R cuArrayDestroy(V a) { return drop((P)a, ARRAY); }
R cuTexObjectCreate(P *t, const V r, const V d, const V v) { *t = add(TEX, 0)->h; return 0; }
R cuTexObjectDestroy(P t) { return drop(t, TEX); }
R cuStreamBeginCapture_v2(V s, int m) { capturing = 1; capgraph = next; next += 0x200000; return 0; }
R cuStreamEndCapture(V s, V *g) { capturing = 0; *g = (V)capgraph; return 0; }
R cuGraphInstantiateWithFlags(V *e, V g, unsigned long long f) { *e = g; return 0; }
R cuGraphLaunch(V e, V s) { return 0; }
R cuGraphExecDestroy(V e) { return 0; }
R cuGraphDestroy(V g) { return 0; }
R cuDeviceGetGraphMemAttribute(int d, int a, P *v) { Z u = 0; for (int i = 0; i < no; i++) if (o[i].live && o[i].k == GRAPHMEM) u += o[i].n; *v = u; return 0; }
R cuMemAllocAsync(P *p, Z n, V s) { if (capturing) { *p = add(GRAPHMEM, n)->h; return 0; } *p = add(ASYNC, n)->h; find(*p, ASYNC)->n = 0; find(*p, ASYNC)->owner = n;
    poolused += n; if (poolused > poolres) poolres = poolused; return 0; }
R cuMemFreeAsync(P p, V s) { struct O *x = find(p, ASYNC); if (!x) return 1; poolused -= x->owner; x->live = 0; return 0; }
R cuDeviceGetDefaultMemPool(V *p, int d) { *p = (V)1; return 0; }
R cuMemPoolSetAttribute(V p, int a, P *v) { if (a == 4) poolthr = *v; return 0; }
R cuMemPoolGetAttribute(V p, int a, P *v) { *v = a == 5 ? poolres : a == 7 ? poolused : 0; return 0; }
R cuMemPoolTrimTo(V p, Z n) { poolres = poolused > n ? poolused : n; return 0; }
R cuMemAddressReserve(P *p, Z n, Z al, P a, unsigned long long f) { *p = next; next += n; return 0; }
R cuMemAddressFree(P p, Z n) { return 0; }
R cuMemCreate(P *h, Z n, const V pr, unsigned long long f) { *h = add(VMM, n)->h; return 0; }
R cuMemMap(P a, Z n, Z off, P h, unsigned long long f) { struct O *x = find(h, VMM); if (!x) return 1; x->mapped = 1; x->owner = a; return 0; }
R cuMemRelease(P h) { struct O *x = find(h, VMM); if (!x) return 1; x->rel = 1; if (!x->mapped) x->live = 0; return 0; }
R cuMemUnmap(P a, Z n) { for (int i = 0; i < no; i++) if (o[i].live && o[i].k == VMM && o[i].mapped && o[i].owner == a) { o[i].mapped = 0; if (o[i].rel) o[i].live = 0; return 0; } return 1; }
