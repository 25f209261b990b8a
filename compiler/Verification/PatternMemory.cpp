#include "compiler/Verification/PatternMemory.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/TensorBytes.h"
#include "runtime/Format/BlockState.h"
#include "llvm/Support/MathExtras.h"
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace ztc::verification {
namespace {

constexpr uint64_t kPage = 4096, kPatternPages = 1021, kPatternBytes = kPage * kPatternPages;
/// So many pages hold whole records of states in blocks.
constexpr uint64_t kRecordPages = 65;
/// Pages of a pattern of records, an odd number too.
constexpr uint64_t kRecordPatternPages = 5 * kRecordPages;
static_assert(kRecordPages * kPage % kStateBlockBytes == 0 && kRecordPatternPages % 2 == 1);
/// Before and after the memory: a kernel that leaves it a little ends nothing.
constexpr uint64_t kRoom = uint64_t(1) << 20;

llvm::Error systemError(const char *what) {
  return llvm::createStringError(std::string(what) + ": " + std::strerror(errno));
}

/// A file without a name that holds `bytes`, which are a pattern's; kept until the process ends.
int makeFile(const std::vector<char> &bytes) {
  const int file = memfd_create("ztc-pattern", MFD_CLOEXEC);
  if (file < 0)
    return file;
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = pwrite(file, bytes.data() + at, bytes.size() - at, off_t(at));
    if (count <= 0) {
      close(file);
      return -1;
    }
    at += size_t(count);
  }
  return file;
}

bool isBlocks(Type type) {
  return isa<graph::Block8Type>(type);
}

/// The file of random elements, or of their magnitudes; -1 where it cannot be made.
int randomFile(Type type, bool magnitudes) {
  static std::map<std::string, int> files;
  std::string name;
  llvm::raw_string_ostream(name) << type << (magnitudes ? " magnitudes" : "");
  auto [found, isNew] = files.try_emplace(name, -1);
  if (isNew) {
    const uint64_t count = isBlocks(type) ? kRecordPatternPages * kPage / kStateBlockBytes * kStateBlock
                                          : kPatternBytes / storedBytes(type, 1);
    Tensor elements = randomOperand(RankedTensorType::get({int64_t(count)}, type), 1);
    if (magnitudes)
      for (double &element : elements.reals)
        element = std::abs(element);
    found->second = makeFile(toBytes(elements));
  }
  return found->second;
}

} // namespace

uint64_t storedBytes(Type type, int64_t elements) {
  if (isBlocks(type))
    return llvm::divideCeil(uint64_t(elements), kStateBlock) * kStateBlockBytes;
  return uint64_t(elements) * std::max(1u, type.getIntOrFloatBitWidth() / 8);
}

llvm::Expected<PatternMemory> PatternMemory::make(int file, uint64_t patternPages, uint64_t bytes, uint64_t firstPage) {
  if (file < 0)
    return systemError("a file in memory");
  PatternMemory memory;
  memory.byteCount = bytes;
  const uint64_t pages = std::max<uint64_t>(llvm::divideCeil(bytes, kPage), 1);
  memory.regionBytes = pages * kPage + 2 * kRoom;
  memory.region =
      mmap(nullptr, memory.regionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory.region == MAP_FAILED) {
    memory.region = nullptr;
    return systemError("address space for the operands");
  }
  memory.begin = static_cast<char *>(memory.region) + kRoom;
  for (uint64_t page = 0, from = firstPage % patternPages; page < pages;) {
    const uint64_t count = std::min(patternPages - from, pages - page);
    if (mmap(memory.begin + page * kPage, count * kPage, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, off_t(from * kPage)) == MAP_FAILED)
      return systemError("address space for the operands");
    page += count, from = 0;
  }
  return memory;
}

llvm::Expected<PatternMemory> PatternMemory::random(Type type, int64_t elements, unsigned seed, bool magnitudes) {
  const int file = randomFile(type, magnitudes);
  const uint64_t bytes = storedBytes(type, elements);
  if (isBlocks(type))
    return make(file, kRecordPatternPages, bytes, uint64_t(seed) * kRecordPages);
  return make(file, kPatternPages, bytes, uint64_t(seed) * 131);
}

llvm::Expected<PatternMemory> PatternMemory::poison(uint64_t bytes) {
  static const int file = makeFile(std::vector<char>(kPatternBytes, char(0x7f)));
  return make(file, kPatternPages, bytes, 0);
}

PatternMemory::~PatternMemory() {
  if (region)
    munmap(region, regionBytes);
}

/// One of states in blocks: its code stands for a part of its block's magnitude.
static double blockElement(const char *begin, bool isSigned, int64_t position) {
  const char *record = begin + uint64_t(position) / kStateBlock * kStateBlockBytes;
  float magnitude;
  std::memcpy(&magnitude, record + kStateBlock, sizeof magnitude);
  return stateMap(isSigned).values[uint8_t(record[uint64_t(position) % kStateBlock])] * magnitude;
}

Tensor PatternMemory::elements(Type type, ArrayRef<int64_t> positions) const {
  const auto tensor = RankedTensorType::get({int64_t(positions.size())}, type);
  if (auto block = dyn_cast<graph::Block8Type>(type)) {
    Tensor values(tensor);
    for (auto [value, position] : llvm::zip_equal(values.reals, positions))
      value = blockElement(begin, block.getIsSigned(), position);
    return values;
  }
  const uint64_t each = storedBytes(type, 1);
  std::vector<char> bytes(positions.size() * each);
  for (auto [number, position] : llvm::enumerate(positions))
    std::memcpy(bytes.data() + number * each, begin + uint64_t(position) * each, each);
  return fromBytes(bytes, tensor);
}

void PatternMemory::write(int64_t first, const Tensor &values) {
  const std::vector<char> bytes = toBytes(values);
  std::memcpy(begin + storedBytes(values.elementType, first), bytes.data(), bytes.size());
}

} // namespace ztc::verification
