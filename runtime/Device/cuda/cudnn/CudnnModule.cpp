// libztc-cudnn.so: attention through cuDNN behind a C table. The only file that includes NVIDIA's cudnn-frontend, which
// builds the graphs of operations that cuDNN takes, needs headers of CUDA and cuDNN, and throws.
#include "runtime/Device/cuda/cudnn/CudnnModule.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// Of the process: the frontend has one library, too.
void *driverLibrary = nullptr;

/// The frontend opens the driver and the CUDA runtime by name where it wants something of them. The driver is the one
/// that ztc-run has found; of the runtime library nothing is needed, and it may be missing.
void *openForFrontend(const char *name, int) {
  return std::strncmp(name, "libcuda.so", 10) == 0 ? driverLibrary : nullptr;
}

} // namespace

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define dlopen openForFrontend
#include <cudnn_frontend.h>
#undef dlopen

namespace fe = cudnn_frontend;

void *cudnn_frontend::cudnn_dlhandle = nullptr;

struct ZtcCudnn {
  cudnnHandle_t handle = nullptr; ///< null where the GPU is only described
  std::shared_ptr<const fe::DeviceProperties> properties;
  int32_t computeCapability = 0;
};

namespace {

/// A graph that also tells about engines for which no plan has been built.
class PlannedGraph : public fe::graph::Graph {
public:
  cudnn_frontend::EngineConfigList eligible() { return plans.get_barred_engine_configs(); } // it returns the others
};

} // namespace

struct ZtcCudnnGraph {
  ZtcCudnn *cudnn = nullptr;
  PlannedGraph graph;
  std::string engine;
  std::vector<int> tensors; ///< those of the call, in the order of their numbers
};

namespace {

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// In one line, whatever cuDNN says.
int report(ZtcCudnnError *error, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::snprintf(error->message, sizeof error->message, "%s", message.c_str());
  return 1;
}

/// Runs `body` with everything that it throws turned into an error.
template <typename Body> int guarded(ZtcCudnnError *error, Body &&body) {
  try {
    body();
    return 0;
  } catch (const std::exception &exception) {
    return report(error, exception.what());
  } catch (...) {
    return report(error, "unknown failure in cudnn-frontend");
  }
}

void require(fe::error_t status, const char *what) {
  if (!status.is_good())
    throw std::runtime_error(std::string(what) + ": " + status.get_message());
}

void require(cudnnStatus_t status, const char *what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + fe::detail::get_error_string(status));
}

/// The frontend asks the environment how large the cotangents of all scores may be: 0 rules them out, -1 does not. The
/// variable's text belongs to this module, so that a change of it leaves the environment, which other threads may read,
/// in its place.
void askForWorkspace(bool linear) {
  static char variable[] = "CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT=-1";
  static char *const value = std::strchr(variable, '=') + 1;
  static const bool isSet = putenv(variable) == 0;
  if (!isSet)
    throw std::runtime_error("the environment takes no variable");
  std::strcpy(value, linear ? "0" : "-1");
}

int open(void *library, void *driver, const ZtcCudnnGpu *gpu, ZtcCudnn **result, ZtcCudnnError *error) {
  return guarded(error, [&] {
    static std::once_flag once;
    std::call_once(once, [&] {
      fe::cudnn_dlhandle = library;
      driverLibrary = driver;
    });
    if (fe::cudnn_dlhandle != library)
      throw std::invalid_argument("this process uses another libcudnn already");
    auto made = std::make_unique<ZtcCudnn>();
    made->computeCapability = gpu->computeCapability;
    if (!gpu->properties) {
      require(fe::detail::create_handle(&made->handle), "cudnnCreate");
    } else {
      auto properties = std::make_shared<fe::DeviceProperties>();
      const std::string json = gpu->properties;
      require(properties->deserialize(std::vector<uint8_t>(json.begin(), json.end())), "properties of the GPU");
      made->properties = properties;
    }
    *result = made.release();
  });
}

uint64_t libraryVersion(ZtcCudnn *) {
  return fe::detail::get_backend_version();
}

/// A tensor of a call as cuDNN orders its dimensions: batch, heads, rows, elements.
struct Tensors {
  const ZtcCudnnAttention &shape;
  fe::graph::Graph &graph;
  std::vector<int> &used;

  /// To cuDNN each document of a packed row is a sequence.
  std::vector<int64_t> dimensions(int index) const {
    const bool packed = shape.documents != 0;
    return {packed ? shape.documents : shape.batch, ofKeys(index) ? shape.kvHeads : shape.heads,
            packed ? shape.longest : shape.seq, index == ZTC_CUDNN_LSE ? 1 : shape.headDim};
  }
  std::vector<int64_t> strides(int index) const {
    if (index == ZTC_CUDNN_LSE)
      return {shape.heads * shape.seq, shape.seq, 1, 1};
    const ZtcCudnnStrides &strides = shape.strides[index];
    return {strides.batch, strides.head, strides.row, 1};
  }
  fe::DataType_t type(int index) const {
    if (index == ZTC_CUDNN_LSE)
      return fe::DataType_t::FLOAT;
    return shape.type == ZTC_CUDNN_BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
  }
  /// Tensors are known by their numbers from 1 on.
  fe::graph::Tensor_attributes &fill(fe::graph::Tensor_attributes &tensor, int index) {
    used.push_back(index);
    tensor.set_uid(index + 1).set_dim(dimensions(index)).set_stride(strides(index)).set_data_type(type(index));
    if (shape.documents)
      tensor.set_ragged_offset(index == ZTC_CUDNN_LSE ? lseOffsets : ofKeys(index) ? keyOffsets : queryOffsets);
    return tensor;
  }
  Tensor input(int index) {
    fe::graph::Tensor_attributes tensor;
    return graph.tensor(fill(tensor, index));
  }
  void output(const Tensor &tensor, int index) { fill(*tensor, index).set_output(true); }

  /// What says where documents lie, before the first tensor that does.
  void addDocuments() {
    const auto add = [&](int index, int64_t count) {
      return graph.tensor(fe::graph::Tensor_attributes()
                              .set_uid(index + 1)
                              .set_dim({count, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(fe::DataType_t::INT32));
    };
    lengths = add(ZTC_CUDNN_LENGTHS, shape.documents);
    queryOffsets = add(ZTC_CUDNN_QUERY_OFFSETS, shape.documents + 1);
    keyOffsets = add(ZTC_CUDNN_KEY_OFFSETS, shape.documents + 1);
    lseOffsets = add(ZTC_CUDNN_LSE_OFFSETS, shape.documents + 1);
  }
  static bool ofKeys(int index) {
    return index == ZTC_CUDNN_K || index == ZTC_CUDNN_V || index == ZTC_CUDNN_DK || index == ZTC_CUDNN_DV;
  }
  Tensor lengths, queryOffsets, keyOffsets, lseOffsets; ///< null where rows hold one document
};

/// Both forms of a call name these alike.
template <typename Attributes> Attributes describe(const ZtcCudnnAttention &shape, const Tensors &tensors) {
  Attributes attributes;
  if (shape.documents)
    attributes.set_padding_mask(true)
        .set_seq_len_q(tensors.lengths)
        .set_seq_len_kv(tensors.lengths)
        .set_max_total_seq_len_q(shape.seq)
        .set_max_total_seq_len_kv(shape.seq);
  attributes.set_attn_scale(shape.scale);
  if (shape.causal) {
    attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (shape.window)
      attributes.set_diagonal_band_left_bound(int(shape.window));
  }
  return attributes;
}

void addForward(const ZtcCudnnAttention &shape, Tensors &tensors, fe::graph::Graph &graph) {
  Tensor q = tensors.input(ZTC_CUDNN_Q), k = tensors.input(ZTC_CUDNN_K), v = tensors.input(ZTC_CUDNN_V);
  auto attributes = describe<fe::graph::SDPA_attributes>(shape, tensors);
  // The same operations on every GPU, mask or not: those that tests execute.
  attributes.set_name("attention")
      .set_generate_stats(true)
      .set_implementation(fe::AttentionImplementation_t::COMPOSITE);
  auto [out, lse] = graph.sdpa(q, k, v, attributes);
  tensors.output(out, ZTC_CUDNN_OUT);
  tensors.output(lse, ZTC_CUDNN_LSE);
}

void addGradient(const ZtcCudnnAttention &shape, Tensors &tensors, fe::graph::Graph &graph) {
  Tensor q = tensors.input(ZTC_CUDNN_Q), k = tensors.input(ZTC_CUDNN_K), v = tensors.input(ZTC_CUDNN_V),
         out = tensors.input(ZTC_CUDNN_OUT), lse = tensors.input(ZTC_CUDNN_LSE), dout = tensors.input(ZTC_CUDNN_DOUT);
  auto attributes = describe<fe::graph::SDPA_backward_attributes>(shape, tensors);
  attributes.set_name("attention_grad").set_deterministic_algorithm(shape.deterministic != 0);
  auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, out, dout, lse, attributes);
  tensors.output(dq, ZTC_CUDNN_DQ);
  tensors.output(dk, ZTC_CUDNN_DK);
  tensors.output(dv, ZTC_CUDNN_DV);
}

/// Builds a plan with the first engine that accepts the graph; where there is no GPU to build for, only names it.
void choose(ZtcCudnnGraph &made, uint64_t *workspaceBytes) {
  int64_t bytes = 0;
  if (made.cudnn->handle) {
    require(made.graph.build_plans(), "build_plans");
    require(made.graph.get_workspace_size(bytes), "get_workspace_size");
    require(made.graph.get_plan_name(made.engine), "get_plan_name");
  } else {
    auto engines = made.graph.eligible();
    if (engines.empty())
      throw std::runtime_error("no engine");
    require(fe::detail::get_workspace_size(engines[0], bytes), "workspace of an engine");
    bytes += made.graph.get_autotune_workspace_size(); // no plan is built: the frontend's own part
    made.engine = fe::detail::get_engine_tag(engines[0]);
  }
  *workspaceBytes = uint64_t(bytes);
}

int create(ZtcCudnn *cudnn, const ZtcCudnnAttention *shape, ZtcCudnnGraph **result, uint64_t *workspaceBytes,
           ZtcCudnnError *error) {
  static std::mutex mutex; // one call at a time asks the frontend for its workspace
  return guarded(error, [&] {
    std::lock_guard lock(mutex);
    askForWorkspace(shape->linearWorkspace != 0);
    auto made = std::make_unique<ZtcCudnnGraph>();
    made->cudnn = cudnn;
    fe::graph::Graph &graph = made->graph;
    graph.set_io_data_type(shape->type == ZTC_CUDNN_BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(cudnn->computeCapability);
    // CUDA graphs end before the steps whose plans they call.
    graph.set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
    if (cudnn->properties)
      graph.set_device_properties(cudnn->properties);
    Tensors tensors{*shape, graph, made->tensors, {}, {}, {}, {}};
    if (shape->documents)
      tensors.addDocuments();
    shape->grad ? addGradient(*shape, tensors, graph) : addForward(*shape, tensors, graph);
    if (shape->documents) // their numbers follow those of the rest
      made->tensors.insert(made->tensors.end(),
                           {ZTC_CUDNN_LENGTHS, ZTC_CUDNN_QUERY_OFFSETS, ZTC_CUDNN_KEY_OFFSETS, ZTC_CUDNN_LSE_OFFSETS});
    require(graph.validate(), "validate");
    require(cudnn->handle ? graph.build_operation_graph(cudnn->handle) : graph.build_operation_graph(),
            "build_operation_graph");
    require(graph.create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans");
    require(graph.check_support(), "check_support");
    choose(*made, workspaceBytes);
    *result = made.release();
  });
}

const char *engine(ZtcCudnnGraph *graph) {
  return graph->engine.c_str();
}

int execute(ZtcCudnnGraph *graph, void *stream, void *const *tensors, void *workspace, ZtcCudnnError *error) {
  return guarded(error, [&] {
    cudnnHandle_t handle = graph->cudnn->handle;
    require(fe::detail::set_stream(handle, cudaStream_t(stream)), "cudnnSetStream");
    void *addresses[ZTC_CUDNN_ALL_TENSORS];
    int count = 0;
    for (int index : graph->tensors)
      addresses[count++] = tensors[index];
    require(graph->graph.execute(handle, addresses, count, workspace), "execute");
  });
}

void destroy(ZtcCudnnGraph *graph) {
  delete graph;
}

void close(ZtcCudnn *cudnn) {
  if (cudnn->handle)
    fe::detail::destroy_handle(cudnn->handle);
  delete cudnn;
}

constexpr ZtcCudnnFunctions kFunctions = {ZTC_CUDNN_VERSION, open,    libraryVersion, create, engine,
                                          execute,           destroy, close};

} // namespace

extern "C" __attribute__((visibility("default"))) const ZtcCudnnFunctions *ztcCudnnFunctions(void) {
  return &kFunctions;
}
