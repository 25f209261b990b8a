// libztc-standin-cudnn.so: cuDNN's backend interface as cudnn-frontend calls it. Descriptors keep whatever attributes
// they get; a graph of operations is checked when it is finalized and interpreted on the host when its plan is
// executed, in the thread of the handle's stream. One engine takes every graph of attention.
//
// ZTC_STAND_IN_CUDNN: its version (default 92600). ZTC_STAND_IN_CUDNN_WORKSPACE: bytes that it wants beyond the real
// one's. ZTC_STAND_IN_CUDNN_ENGINES=0: it has no engine for any graph. ZTC_STAND_IN_CUDNN_EXECUTES=0: it plans graphs
// and runs none. ZTC_STAND_IN_CUDNN_MILLISECONDS: that a graph takes at least.
#include "tests/standin/libraries/CudnnGraph.h"
#include "tests/standin/libraries/StandIn.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cudnn.h>
#include <memory>
#include <thread>

using namespace ztc::standin;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

uint64_t variable(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Descriptor;

/// What SetAttribute was given, by bytes, or as descriptors.
struct Attribute {
  cudnnBackendAttributeType_t type{};
  int64_t count = 0;
  std::string bytes;
  std::vector<std::shared_ptr<Descriptor>> descriptors;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  bool isFinal = false;
  std::map<int, Attribute> attributes;
  CudnnGraph graph; ///< of a finalized graph of operations

  template <typename T> T scalar(cudnnBackendAttributeName_t name, T otherwise = {}) const {
    auto found = attributes.find(name);
    if (found == attributes.end() || found->second.bytes.size() < sizeof(T))
      return otherwise;
    T value;
    std::memcpy(&value, found->second.bytes.data(), sizeof value);
    return value;
  }
  template <typename T> std::vector<T> array(cudnnBackendAttributeName_t name) const {
    auto found = attributes.find(name);
    if (found == attributes.end())
      return {};
    std::vector<T> values(found->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  const Descriptor *other(cudnnBackendAttributeName_t name) const {
    auto found = attributes.find(name);
    return found == attributes.end() || found->second.descriptors.empty() ? nullptr
                                                                          : found->second.descriptors[0].get();
  }
};

/// A handle of a descriptor; others keep what it stands for.
struct Handle {
  std::shared_ptr<Descriptor> descriptor;
};
Descriptor &at(cudnnBackendDescriptor_t handle) {
  return *static_cast<Handle *>(handle)->descriptor;
}

uint64_t elementBytes(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_FRACTION:
    return 8;
  default: // enumerations, float, int32
    return 4;
  }
}

std::string lastError;

cudnnStatus_t refuse(cudnnStatus_t status, const std::string &why) {
  std::fprintf(stderr, "STAND-IN CUDNN: %s\n", why.c_str());
  lastError = why;
  return status;
}

CudnnTensor tensorOf(const Descriptor *descriptor) {
  CudnnTensor tensor;
  if (!descriptor)
    return tensor;
  tensor.uid = descriptor->scalar<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = descriptor->scalar<int32_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  tensor.alignment = descriptor->scalar<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  tensor.dimensions = descriptor->array<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = descriptor->array<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.isVirtual = descriptor->scalar<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  tensor.isByValue = descriptor->scalar<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  if (const Descriptor *offsets = descriptor->other(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC))
    tensor.offsets = std::make_shared<CudnnTensor>(tensorOf(offsets));
  // The frontend's strides of dout * out overlap; between operations they do not matter.
  if (tensor.isVirtual && tensor.dimensions.size() == tensor.strides.size() && !tensor.isInjective())
    tensor.pack();
  return tensor;
}

/// False: of a kind that the stand-in does not know.
bool readOperation(const Descriptor &from, CudnnOperation &to) {
  const auto tensor = [&](cudnnBackendAttributeName_t name) { return tensorOf(from.other(name)); };
  switch (from.type) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    to.kind = CudnnOperation::Matmul;
    to.x = tensor(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    to.b = tensor(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    to.y = tensor(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    for (auto name :
         {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
          CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC})
      if (from.other(name))
        to.lengths = tensor(name);
    return true;
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
    const Descriptor *pointwise = from.other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    to.kind = CudnnOperation::Pointwise;
    to.mode = pointwise ? pointwise->scalar<int32_t>(CUDNN_ATTR_POINTWISE_MODE) : -1;
    to.axis = pointwise ? pointwise->scalar<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1) : -1;
    to.x = tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    to.b = tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    to.t = tensor(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    to.y = tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    to.hasB = to.b.uid != 0;
    to.hasT = to.t.uid != 0;
    return from.scalar<float>(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1) == 1 &&
           from.scalar<float>(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1) == 1;
  }
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
    const Descriptor *reduction = from.other(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    to.kind = CudnnOperation::Reduction;
    to.mode = reduction ? reduction->scalar<int32_t>(CUDNN_ATTR_REDUCTION_OPERATOR) : -1;
    to.x = tensor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    to.y = tensor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    return true;
  }
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    to.kind = CudnnOperation::Reshape;
    to.x = tensor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    to.y = tensor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    return true;
  default:
    return false;
  }
}

cudnnStatus_t finalizeGraph(Descriptor &descriptor) {
  for (const auto &operation : descriptor.attributes[CUDNN_ATTR_OPERATIONGRAPH_OPS].descriptors)
    if (!readOperation(*operation, descriptor.graph.operations.emplace_back()))
      return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                    "an operation that the stand-in does not know: " + std::to_string(operation->type));
  if (std::string why = descriptor.graph.mismatch(); !why.empty())
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, why);
  return CUDNN_STATUS_SUCCESS;
}

/// The graph that an engine, its configuration or a plan is for.
const CudnnGraph *graphOf(const Descriptor *descriptor) {
  if (descriptor && descriptor->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    descriptor = descriptor->other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (descriptor && descriptor->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
    descriptor = descriptor->other(CUDNN_ATTR_ENGINECFG_ENGINE);
  const Descriptor *graph = descriptor ? descriptor->other(CUDNN_ATTR_ENGINE_OPERATION_GRAPH) : nullptr;
  return graph ? &graph->graph : nullptr;
}

uint64_t workspaceBytes(const CudnnGraph &graph) {
  return graph.workspaceBytes() + variable("ZTC_STAND_IN_CUDNN_WORKSPACE", 0);
}

/// A plan for this graph as the heuristics propose it.
std::shared_ptr<Descriptor> configurationFor(std::shared_ptr<Descriptor> graph) {
  auto engine = std::make_shared<Descriptor>();
  engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {std::move(graph)}};
  engine->isFinal = true;
  auto configuration = std::make_shared<Descriptor>();
  configuration->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  configuration->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {std::move(engine)}};
  configuration->isFinal = true;
  return configuration;
}

/// Fills handles that the caller has made.
void giveDescriptors(const std::vector<std::shared_ptr<Descriptor>> &from, int64_t room, int64_t *count, void *to) {
  if (count)
    *count = int64_t(from.size());
  for (int64_t i = 0; to && i < std::min<int64_t>(room, int64_t(from.size())); ++i)
    static_cast<Handle *>(static_cast<cudnnBackendDescriptor_t *>(to)[i])->descriptor = from[size_t(i)];
}

template <typename T> cudnnStatus_t giveScalar(T value, int64_t room, int64_t *count, void *to) {
  if (count)
    *count = 1;
  if (to && room >= 1)
    std::memcpy(to, &value, sizeof value);
  return CUDNN_STATUS_SUCCESS;
}

/// Where the tensors of a call lie, as a variant pack names them. Empty, or what is wrong with it.
std::string place(const Descriptor &pack, const CudnnGraph &graph, std::map<int64_t, void *> &memory,
                  std::vector<std::string> &scalars) {
  const auto uids = pack.array<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.array<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uids.size() != pointers.size())
    return "as many addresses as tensors are wanted";
  for (size_t i = 0; i < uids.size(); ++i)
    memory[uids[i]] = pointers[i];
  const auto bound = graph.bound();
  scalars.reserve(bound.size());
  for (const auto &[uid, tensor] : bound) {
    void *&pointer = memory[uid];
    if (!pointer)
      return "a tensor without an address";
    if (tensor.isByValue) { // read now: it is the caller's
      scalars.emplace_back(static_cast<const char *>(pointer), tensor.bytes());
      pointer = scalars.back().data();
    } else if (reinterpret_cast<uintptr_t>(pointer) % uint64_t(tensor.alignment) != 0) {
      return "a tensor is aligned to less than was promised";
    } else if (!isDeviceMemory(pointer, tensor.offsets ? 1 : tensor.bytes())) {
      return "a tensor leaves device memory";
    }
  }
  return "";
}

} // namespace

extern "C" {

const char *ztcStandIn() {
  return "cudnn";
}

size_t cudnnGetVersion() {
  return variable("ZTC_STAND_IN_CUDNN", 92600);
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS as the stand-in says on stderr";
}
void cudnnGetLastErrorString(char *message, size_t bytes) {
  std::snprintf(message, bytes, "%s", lastError.c_str());
}
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
  auto *made = new Handle{std::make_shared<Descriptor>()};
  made->descriptor->type = type;
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handle *>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
  if (at(descriptor).isFinal)
    return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute of a descriptor that is finalized");
  Attribute attribute{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      auto *other = static_cast<Handle *>(static_cast<const cudnnBackendDescriptor_t *>(elements)[i]);
      if (!other || !other->descriptor->isFinal)
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor in another one is not finalized");
      attribute.descriptors.push_back(other->descriptor);
    }
  } else {
    attribute.bytes.assign(static_cast<const char *>(elements), size_t(count) * elementBytes(type));
  }
  at(descriptor).attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *elements) {
  const Descriptor &from = at(descriptor);
  switch (int(name)) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
    std::vector<std::shared_ptr<Descriptor>> found;
    const auto graph = from.attributes.find(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (graph != from.attributes.end() && variable("ZTC_STAND_IN_CUDNN_ENGINES", 1))
      found.push_back(configurationFor(graph->second.descriptors.at(0)));
    giveDescriptors(found, room, count, elements);
    return CUDNN_STATUS_SUCCESS;
  }
  case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    if (const CudnnGraph *graph = graphOf(&from))
      return giveScalar(int64_t(workspaceBytes(*graph)), room, count, elements);
    return refuse(CUDNN_STATUS_BAD_PARAM, "the workspace of nothing");
  case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
    return giveScalar(int32_t(0), room, count, elements);
  case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
    return giveScalar(int64_t(16), room, count, elements);
  default:
    break;
  }
  const auto found = from.attributes.find(name);
  if (found == from.attributes.end() || type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    giveDescriptors(found == from.attributes.end() ? std::vector<std::shared_ptr<Descriptor>>()
                                                   : found->second.descriptors,
                    room, count, elements);
    return CUDNN_STATUS_SUCCESS;
  }
  if (count)
    *count = found->second.count;
  if (elements)
    std::memcpy(elements, found->second.bytes.data(),
                std::min(found->second.bytes.size(), size_t(room) * elementBytes(type)));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  Descriptor &descriptor = at(handle);
  if (descriptor.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
    if (cudnnStatus_t status = finalizeGraph(descriptor); status != CUDNN_STATUS_SUCCESS)
      return status;
  if ((descriptor.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR || descriptor.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) &&
      !variable("ZTC_STAND_IN_CUDNN_ENGINES", 1))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine, as ZTC_STAND_IN_CUDNN_ENGINES says");
  descriptor.isFinal = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const CudnnGraph *graph = graphOf(&at(plan));
  if (!handle || !graph || !at(plan).isFinal || !at(pack).isFinal)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a call without handle, plan or addresses");
  if (!variable("ZTC_STAND_IN_CUDNN_EXECUTES", 1)) // as cuDNN 9.14 on an H200 where no loader found the CUDA runtime
    return refuse(CUDNN_STATUS_INTERNAL_ERROR, "Unable to load any libcudart library");
  struct Call {
    CudnnGraph graph;
    std::map<int64_t, void *> memory;
    std::vector<std::string> scalars;
  };
  auto call = std::make_shared<Call>();
  call->graph = *graph;
  if (std::string why = place(at(pack), *graph, call->memory, call->scalars); !why.empty())
    return refuse(CUDNN_STATUS_BAD_PARAM, why);
  void *workspace = at(pack).scalar<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const uint64_t bytes = workspaceBytes(*graph);
  if (!isDeviceMemory(workspace, bytes))
    return refuse(CUDNN_STATUS_BAD_PARAM, "the workspace is too small, or no device memory");
  const bool given = enqueue(handle->stream, [call, workspace, bytes] {
    std::memset(workspace, 0x5a, bytes); // all of it is used
    std::this_thread::sleep_for(std::chrono::milliseconds(variable("ZTC_STAND_IN_CUDNN_MILLISECONDS", 0)));
    if (const std::string why = call->graph.execute(call->memory); !why.empty()) {
      std::fprintf(stderr, "STAND-IN CUDNN: %s\n", why.c_str());
      std::abort(); // a GPU would read or write elsewhere
    }
  });
  return given ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

} // extern "C"
