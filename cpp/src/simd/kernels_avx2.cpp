#define DPOCO_VARIANT kAvx2
#define DPOCO_VARIANT_NAME "avx2"
#define DPOCO_VECTOR_BYTES 32
#include "kernels.inl"
