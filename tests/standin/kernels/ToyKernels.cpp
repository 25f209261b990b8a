// The kernels of tests/unit/runtime/ToyPlan.h as an image of target simt: each is one thread that does everything.
#include "tests/unit/runtime/ToyPlan.h"

/// parameters: the operands' addresses, one scalar, the extent.
template <size_t operands>
static void call(void (*kernel)(void *const *, const int64_t *, int64_t, int64_t), void *const *parameters) {
  void *buffers[operands];
  for (size_t i = 0; i < operands; ++i)
    buffers[i] = *static_cast<void *const *>(parameters[i]);
  kernel(buffers, static_cast<const int64_t *>(parameters[operands]), 0,
         *static_cast<const int64_t *>(parameters[operands + 1]));
}

extern "C" {

void toy_microstep(void *const *parameters) {
  call<6>(ztc::toy::microstep<false>, parameters);
}
void toy_microstep_add(void *const *parameters) {
  call<6>(ztc::toy::microstep<true>, parameters);
}
void toy_update(void *const *parameters) {
  call<6>(ztc::toy::update, parameters);
}
void toy_eval(void *const *parameters) {
  call<4>(ztc::toy::evaluate, parameters);
}
void toy_generate(void *const *parameters) {
  call<3>(ztc::toy::generate, parameters);
}

} // extern "C"
