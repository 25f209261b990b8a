// oneDNN's C API, opened at run time: headers are needed to build, the library only where a plan is run.
#pragma once
#include "runtime/Core/Status.h"
#include <oneapi/dnnl/dnnl.h>
#include <string>

namespace ztc {

/// Every function of the C API that we call.
#define ZTC_ONEDNN_FUNCTIONS(X)                                                                                        \
  X(dnnl_version)                                                                                                      \
  X(dnnl_set_max_cpu_isa)                                                                                              \
  X(dnnl_get_effective_cpu_isa)                                                                                        \
  X(dnnl_engine_create)                                                                                                \
  X(dnnl_stream_create)                                                                                                \
  X(dnnl_stream_destroy)                                                                                               \
  X(dnnl_memory_desc_init_by_strides)                                                                                  \
  X(dnnl_memory_desc_get_size)                                                                                         \
  X(dnnl_memory_create)                                                                                                \
  X(dnnl_memory_destroy)                                                                                               \
  X(dnnl_memory_set_data_handle)                                                                                       \
  X(dnnl_matmul_desc_init)                                                                                             \
  X(dnnl_post_ops_create)                                                                                              \
  X(dnnl_post_ops_destroy)                                                                                             \
  X(dnnl_post_ops_append_sum)                                                                                          \
  X(dnnl_primitive_attr_create)                                                                                        \
  X(dnnl_primitive_attr_destroy)                                                                                       \
  X(dnnl_primitive_attr_set_output_scales)                                                                             \
  X(dnnl_primitive_attr_set_post_ops)                                                                                  \
  X(dnnl_primitive_attr_set_scratchpad_mode)                                                                           \
  X(dnnl_primitive_desc_create)                                                                                        \
  X(dnnl_primitive_desc_destroy)                                                                                       \
  X(dnnl_primitive_desc_query)                                                                                         \
  X(dnnl_primitive_desc_query_md)                                                                                      \
  X(dnnl_primitive_create)                                                                                             \
  X(dnnl_primitive_execute)                                                                                            \
  X(dnnl_primitive_destroy)

/// The loaded library: its functions by their own names, and its CPU engine.
struct OneDnn {
#define ZTC_DECLARE(function) decltype(&::function) function = nullptr;
  ZTC_ONEDNN_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE
  dnnl_engine_t engine = nullptr;
  std::string version; ///< "oneDNN 2.6.3"

  /// Debian's oneDNN runs on OpenMP, whose thread count is a variable of the calling thread: after this call everything
  /// that oneDNN does for this thread happens in it. Before every use in a thread; costs next to nothing when repeated.
  void makeThreadSingle() const;

  /// The instructions by which the library multiplies bf16 here, "AMX" or "AVX512-BF16"; empty where the processor has
  /// none (AVX-512 alone emulates them, slower than f32) or ONEDNN_MAX_CPU_ISA forbids them. f16 it never multiplies.
  const char *bf16Instructions() const;

  /// Loads the library once per process: the first call's `path` counts, empty for the usual names. Fails (Unavailable)
  /// with what to install.
  static StatusOr<const OneDnn *> load(const std::string &path);
  /// Opens one more copy of the functions: what load() does the first time.
  Status open(const std::string &path);

private:
  void (*setOpenMpThreads)(int) = nullptr;
};

} // namespace ztc
