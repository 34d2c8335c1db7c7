// The CUDA runtime's ways to memory, good and bad, one line each. Built with the static and with the shared runtime:
// both go through cuGetProcAddress, and both must print the same with and without the recorder.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(float *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = i;
}

static void show(const char *call, cudaError_t status) {
    printf("%-24s %d %s\n", call, (int)status, cudaGetErrorName(status));
    cudaGetLastError();
}

int main() {
    float *linear = 0, *pooled = 0, *managed = 0, *rows = 0, *wild = (float *)0x1234;
    void *pinned = 0;
    static char own[8192];
    size_t pitch = 0;
    cudaStream_t stream;
    show("cudaMalloc", cudaMalloc(&linear, 10 << 20));
    show("cudaStreamCreate", cudaStreamCreate(&stream));
    show("cudaMallocAsync", cudaMallocAsync(&pooled, 1 << 20, stream));
    fill<<<40, 256>>>(linear, 10240);
    show("kernel", cudaDeviceSynchronize());
    show("cudaMallocManaged", cudaMallocManaged(&managed, 1 << 20));
    show("cudaMallocPitch", cudaMallocPitch(&rows, &pitch, 1000, 1000));
    printf("pitch %zu\n", pitch);
    show("cudaMallocHost", cudaMallocHost(&pinned, 1 << 20));
    show("cudaHostRegister", cudaHostRegister(own, sizeof own, 0));
    show("cudaHostRegister twice", cudaHostRegister(own, sizeof own, 0));
    show("cudaMalloc too much", cudaMalloc(&wild, (size_t)1 << 50));
    show("cudaFree wild", cudaFree((void *)0x1234));
    show("cudaFree null", cudaFree(0));
    show("cudaHostUnregister", cudaHostUnregister(own));
    show("cudaFreeHost", cudaFreeHost(pinned));
    show("cudaFreeAsync", cudaFreeAsync(pooled, stream));
    show("cudaFree managed", cudaFree(managed));
    show("cudaFree", cudaFree(linear));
    show("cudaFree twice", cudaFree(linear));
    float first = 0;
    show("cudaMalloc again", cudaMalloc(&linear, 4096));
    fill<<<4, 256>>>(linear, 1024);
    show("cudaMemcpy", cudaMemcpy(&first, linear + 7, 4, cudaMemcpyDeviceToHost));
    printf("value %g\n", first);
    show("cudaDeviceReset", cudaDeviceReset());
    show("cudaMalloc after reset", cudaMalloc(&linear, 2 << 20));
    return 0;
}
