#define DPOCO_VARIANT kBaseline
#define DPOCO_VARIANT_NAME "baseline"
#define DPOCO_VECTOR_BYTES 16
#include "kernels.inl"
