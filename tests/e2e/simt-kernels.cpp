// Runs every generated kernel of a plan on the host and on the SIMT engine with equal operands, and compares: to the
// bit where nothing is summed, else within rounding. Counts what a GPU would move: a large operand once.
//
//     simt-kernels PLAN          a plan for host and simt
#include "runtime/Core/FloatTypes.h"
#include "runtime/Device/host/KernelLibrary.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/PlanValidator.h"
#include "tests/e2e/KernelOperands.h"
#include "tests/standin/Simt.h"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

using namespace ztc;
using ztc::test::fill;

namespace {

/// A piece of memory that a kernel works on, and the bytes of it that were read and written, repetitions included.
struct Counted {
  const char *begin, *end;
  uint64_t moved;
};
std::vector<Counted> counted; ///< of the running kernel

/// Of an access by a GPU's thread: inside an operand, and at a multiple of its size, as the hardware demands.
bool countAccess(const void *address, uint64_t bytes) {
  const auto *at = static_cast<const char *>(address);
  if (reinterpret_cast<uintptr_t>(at) % std::min<uint64_t>(bytes, 16))
    return false;
  for (Counted &piece : counted)
    if (at >= piece.begin && at + bytes <= piece.end) {
      piece.moved += bytes;
      return true;
    }
  return false;
}

double valueAt(const char *at, plan::DataType type) {
  if (type == plan::F32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  if (type == plan::BF16) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char *>(&bits) + 2, at, 2);
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  if (type == plan::F16) {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return fromF16(bits);
  }
  return 0; // of other types only equal bits are accepted
}

class Comparison {
public:
  explicit Comparison(const plan::Plan &plan) : plan_(plan) {}

  int run() {
    if (Status status = library_.load(plan_, {}); !status.isOk())
      return failed(status.message());
    for (const plan::Image &image : plan_.images())
      if (image.target() == "simt") {
        auto loaded = simt::Image::load(image.data());
        if (!loaded.isOk())
          return failed(loaded.status().message());
        image_ = std::move(*loaded);
      }
    if (!image_)
      return failed("the plan has no image for simt");
    simt::setMemoryCheck(countAccess);
    for (const plan::Program &program : plan_.programs())
      for (const plan::Step &step : program.steps())
        if (step.has_launch()) {
          compare(step, step.launch().kernel());
          if (step.launch().accumulate() != plan::OVERWRITE)
            compare(step, step.launch().kernel_add());
        }
    std::printf("%zu kernels compared, %d wrong\n", seen_.size(), wrong_);
    return wrong_ || seen_.empty();
  }

private:
  using Memory = std::vector<std::vector<char>>; ///< by position in slots_

  int failed(const std::string &message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    return 1;
  }

  plan::DataType typeOf(uint32_t slot) const { return plan_.slots(static_cast<int>(slot)).type(); }

  Memory makeMemory(const plan::Step &step) {
    slots_.clear();
    for (const plan::Operand &operand : step.operands())
      if (std::find(slots_.begin(), slots_.end(), operand.slot()) == slots_.end())
        slots_.push_back(operand.slot());
    Memory memory;
    for (uint32_t slot : slots_) {
      memory.emplace_back(sizeFormBytes(plan_.slots(static_cast<int>(slot)).size(), 1, true, 1).value_or(0));
      fill(memory.back(), typeOf(slot), slot + 1);
    }
    return memory;
  }

  std::vector<void *> pointers(const plan::Step &step, Memory &memory) const {
    std::vector<void *> result;
    for (const plan::Operand &operand : step.operands())
      result.push_back(memory[position(operand.slot())].data() + operand.offset());
    return result;
  }
  size_t position(uint32_t slot) const {
    return static_cast<size_t>(std::find(slots_.begin(), slots_.end(), slot) - slots_.begin());
  }

  void compare(const plan::Step &step, uint32_t index) {
    if (!seen_.insert(index).second)
      return;
    const plan::Kernel &kernel = plan_.kernels(static_cast<int>(index));
    const plan::Kernel::Version *version = nullptr;
    for (const plan::Kernel::Version &candidate : kernel.versions())
      if (candidate.target() == "simt")
        version = &candidate;
    const simt::Entry entry = version ? image_->find(kernel.name()) : nullptr;
    const StatusOr<KernelFunction> host = library_.find(index);
    if (!entry || !host.isOk())
      return report(kernel, "is missing");
    const plan::Launch &launch = step.launch();
    std::vector<int64_t> scalars(launch.scalars().begin(), launch.scalars().end());
    uint64_t extent = launch.extent();
    if (launch.flat()) {
      const uint64_t elements = plan_.buckets(static_cast<int>(launch.bucket())).elements();
      scalars = {static_cast<int64_t>(elements), 0};
      if (!extent)
        extent = (elements + launch.flat_block() - 1) / launch.flat_block();
    }
    Memory expected = makeMemory(step), got = expected;
    (*host)(pointers(step, expected).data(), scalars.data(), 0, static_cast<int64_t>(extent));
    if (const std::string problem = runSimt(step, entry, *version, scalars, extent, got); !problem.empty())
      return report(kernel, problem);
    const bool sums =
        kernel.form() == "fold" ||
        plan_.kernels(static_cast<int>(launch.kernel())).text().find("graph.reduce") != std::string::npos ||
        plan_.kernels(static_cast<int>(launch.kernel())).text().find("graph.sum_squares") != std::string::npos;
    for (size_t i = 0; i < slots_.size(); ++i)
      if (const std::string problem = difference(expected[i], got[i], typeOf(slots_[i]), sums); !problem.empty())
        return report(kernel, plan_.slots(static_cast<int>(slots_[i])).name() + ": " + problem);
    checkTraffic(kernel, step);
  }

  std::string runSimt(const plan::Step &step, simt::Entry entry, const plan::Kernel::Version &version,
                      std::vector<int64_t> scalars, uint64_t extent, Memory &memory) {
    std::vector<void *> operands = pointers(step, memory), parameters;
    counted.clear();
    for (std::vector<char> &slot : memory)
      counted.push_back({slot.data(), slot.data() + slot.size(), 0});
    scalars.push_back(static_cast<int64_t>(extent));
    for (void *&operand : operands)
      parameters.push_back(&operand);
    for (int64_t &scalar : scalars)
      parameters.push_back(&scalar);
    const Memory before = memory;
    simt::LaunchShape shape;
    shape.grid.x = static_cast<uint32_t>((extent + version.units_per_block() - 1) / version.units_per_block());
    shape.block.x = version.block_threads();
    if (const Status status = simt::launch(entry, shape, parameters.data()); !status.isOk())
      return status.message();
    // Another order of blocks and threads gives the same bits.
    const Memory first = memory;
    const std::vector<Counted> traffic = counted;
    for (size_t i = 0; i < memory.size(); ++i)
      std::copy(before[i].begin(), before[i].end(), memory[i].begin());
    shape.order = simt::Order::Descending;
    if (const Status status = simt::launch(entry, shape, parameters.data()); !status.isOk())
      return status.message();
    counted = traffic;
    return memory == first ? "" : "the order of threads changes the result";
  }

  static std::string difference(const std::vector<char> &expected, const std::vector<char> &got, plan::DataType type,
                                bool sums) {
    const size_t step = dataTypeBytes(type);
    for (size_t i = 0; i + step <= expected.size(); i += step) {
      if (std::memcmp(&expected[i], &got[i], step) == 0)
        continue;
      const double want = valueAt(&expected[i], type), have = valueAt(&got[i], type);
      if (std::isnan(want) && std::isnan(have))
        continue;
      const double tolerance = type == plan::BF16 ? 8e-3 : type == plan::F16 ? 1e-3 : 2e-5;
      if (!sums || !(std::abs(want - have) <= tolerance * (1 + std::abs(want))))
        return "element " + std::to_string(i / step) + " is " + std::to_string(have) + ", not " + std::to_string(want);
    }
    return "";
  }

  /// What all threads share (a weight, a table, the step's parameters) is read by each of them, from the cache; the
  /// others once.
  void checkTraffic(const plan::Kernel &kernel, const plan::Step &step) {
    std::vector<uint64_t> expected(slots_.size());
    uint64_t largest = 0;
    for (const plan::Operand &operand : step.operands()) {
      const size_t slot = position(operand.slot());
      const uint64_t whole = static_cast<uint64_t>(counted[slot].end - counted[slot].begin);
      uint64_t bytes = operand.bytes() ? operand.bytes() : whole - operand.offset();
      if (step.launch().flat())
        bytes = std::min(bytes, plan_.buckets(static_cast<int>(step.launch().bucket())).elements() *
                                    dataTypeBytes(typeOf(operand.slot())));
      const bool adds = kernel.name().ends_with("__add") && operand.access() != plan::Operand::READ;
      expected[slot] += adds || operand.access() == plan::Operand::READ_WRITE ? 2 * bytes : bytes;
      largest = std::max(largest, bytes);
    }
    uint64_t moved = 0, wanted = 0;
    for (size_t i = 0; i < slots_.size(); ++i)
      if (expected[i] >= largest / 2 && slots_[i] != plan_.bindings().step_parameters())
        moved += counted[i].moved, wanted += expected[i];
    std::printf("%-36s %-18s %10llu bytes, %.3f of its operands\n", kernel.name().c_str(), kernel.form().c_str(),
                static_cast<unsigned long long>(moved), static_cast<double>(moved) / static_cast<double>(wanted));
    if (static_cast<double>(moved) > 1.02 * static_cast<double>(wanted))
      report(kernel, "moves more than 1.02 times its operands");
  }

  void report(const plan::Kernel &kernel, const std::string &problem) {
    std::printf("%s (%s): %s\n", kernel.name().c_str(), kernel.form().c_str(), problem.c_str());
    ++wrong_;
  }

  const plan::Plan &plan_;
  KernelLibrary library_;
  std::unique_ptr<simt::Image> image_;
  std::vector<uint32_t> slots_; ///< of the current step
  std::set<uint32_t> seen_;
  int wrong_ = 0;
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: simt-kernels PLAN\n");
    return 2;
  }
  auto plan = readPlanFile(argv[1]);
  if (!plan.isOk()) {
    std::fprintf(stderr, "%s\n", plan.status().message().c_str());
    return 1;
  }
  return Comparison(plan->plan).run();
}
