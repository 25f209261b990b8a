// What libraries take of a GPU beside the arena, taken before it: their code is loaded with their first call.
#include "runtime/Device/cuda/CudaWarm.h"
#include "runtime/Device/cuda/CudaProduct.h"
#include <algorithm>
#include <set>
#include <tuple>

namespace ztc {
namespace {

constexpr uint64_t kSize = 128; ///< of a product's matrices

class Scratch {
public:
  explicit Scratch(const CudaDriver &driver) : driver_(driver) {}
  ~Scratch() {
    if (memory_)
      driver_.cuMemFree_v2(memory_); // waits for its users
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  Status create(uint64_t bytes, cuda::Stream stream) {
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemAlloc_v2(&memory_, bytes), "cuMemAlloc"));
    return driver_.check(driver_.cuMemsetD8Async(memory_, 0, bytes, stream), "cuMemsetD8Async");
  }
  std::byte *at(uint64_t offset) const { return reinterpret_cast<std::byte *>(memory_ + offset); }

private:
  const CudaDriver &driver_;
  cuda::Address memory_ = 0;
};

/// A small product for each combination of types that the plan multiplies.
Status multiply(CudaResources &resources, const Scratch &scratch, cuda::Stream stream) {
  std::set<std::tuple<plan::DataType, plan::DataType, plan::DataType, bool>> types;
  for (const auto &[signature, call] : resources.products)
    if (const auto live = call.lock())
      types.emplace(live->shape().typeA, live->shape().typeB, live->shape().typeC, live->shape().tf32);
  for (const auto &[typeA, typeB, typeC, tf32] : types) {
    CudaProductShape shape;
    shape.m = shape.n = shape.k = shape.lda = shape.ldb = shape.ldc = kSize;
    shape.typeA = typeA, shape.typeB = typeB, shape.typeC = typeC, shape.tf32 = tf32;
    shape.transposeB = shape.isScaled(); // the one form that fp8 codes have
    const auto call = CudaProductCall::find(resources, shape);
    if (!call.isOk()) // without workspace the library may have none: its code is then loaded later
      continue;
    const uint64_t bytes = kSize * kSize * sizeof(float);
    ZTC_RETURN_IF_ERROR((*call)->execute(
        stream, (*call)->algorithm(),
        {scratch.at(0), scratch.at(bytes), scratch.at(2 * bytes), nullptr, scratch.at(0), scratch.at(0)}, 1, 0));
  }
  return Status::ok();
}

} // namespace

Status warmCudaLibraries(CudaResources &resources, Communicator *communicator) {
  const CudaDriver &driver = resources.driver;
  const cuda::Stream stream = resources.streams[kComputeStream];
  Scratch scratch(driver);
  ZTC_RETURN_IF_ERROR(
      scratch.create(std::max(3 * kSize * kSize * sizeof(float),
                              communicator ? communicator->world() * Communicator::kWarmBytes : uint64_t(0)),
                     stream));
  ZTC_RETURN_IF_ERROR(multiply(resources, scratch, stream));
  ZTC_RETURN_IF_ERROR(driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize"));
  if (communicator)
    ZTC_RETURN_IF_ERROR(communicator->warm(scratch.at(0), {.label = "the first collectives", .stream = stream}));
  return driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

} // namespace ztc
