#define DPOCO_VARIANT kAvx512
#define DPOCO_VARIANT_NAME "avx512"
#define DPOCO_VECTOR_BYTES 64
#include "kernels.inl"
