#include "runtime/Format/PlanFile.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

namespace ztc {

static constexpr std::string_view kMagic("ZTCPLAN\0", 8);

template <typename T> static void storeLittleEndian(char *p, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    p[i] = static_cast<char>(value >> (8 * i));
}

template <typename T> static T loadLittleEndian(const char *p) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<uint8_t>(p[i])) << (8 * i);
  return value;
}

StatusOr<std::string> serializePlan(const plan::Plan &plan) {
  if (plan.ByteSizeLong() >= (uint64_t(1) << 31))
    return internalError(fmt::format("the plan has {} bytes, more than a plan file can hold", plan.ByteSizeLong()));
  std::string bytes(kPlanHeaderBytes, '\0');
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true); // maps in key order
    plan.SerializeWithCachedSizes(&coded);
  }
  const uint64_t payload = bytes.size() - kPlanHeaderBytes;
  const Sha256Digest digest = Sha256::of(bytes.data() + kPlanHeaderBytes, payload);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  storeLittleEndian<uint32_t>(bytes.data() + 8, kPlanFormatVersion);
  storeLittleEndian<uint64_t>(bytes.data() + 16, payload);
  std::memcpy(bytes.data() + 24, digest.data(), digest.size());
  return bytes;
}

StatusOr<LoadedPlan> parsePlan(std::string_view bytes, const std::string &name) {
  const size_t magic = std::min(bytes.size(), kMagic.size());
  if (bytes.empty() || bytes.substr(0, magic) != kMagic.substr(0, magic))
    return invalidArgument(fmt::format("'{}' is not a plan; make one with ztc compile", name));
  if (bytes.size() < kPlanHeaderBytes)
    return dataLoss(fmt::format("the plan '{}' is truncated: it has {} bytes, its header alone {}", name, bytes.size(),
                                kPlanHeaderBytes));
  const auto version = loadLittleEndian<uint32_t>(bytes.data() + 8);
  if (version != 0 && version != kPlanFormatVersion)
    return failedPrecondition(fmt::format("the plan '{}' has format version {}, this program reads {}; use the ztc-run "
                                          "that belongs to the compiler which made it, or compile again",
                                          name, version, kPlanFormatVersion));
  if (version == 0 || loadLittleEndian<uint32_t>(bytes.data() + 12) != 0)
    return dataLoss(fmt::format("the plan '{}' is corrupted: its header is damaged; compile again", name));
  const auto payload = loadLittleEndian<uint64_t>(bytes.data() + 16);
  const uint64_t present = bytes.size() - kPlanHeaderBytes;
  if (present < payload)
    return dataLoss(fmt::format("the plan '{}' is truncated: {} of {} bytes are there; copy it again or compile again",
                                name, bytes.size(), kPlanHeaderBytes + payload));
  if (present > payload)
    return dataLoss(
        fmt::format("the plan '{}' is corrupted: {} bytes follow its end; compile again", name, present - payload));
  const Sha256Digest digest = Sha256::of(bytes.data() + kPlanHeaderBytes, payload);
  if (std::memcmp(digest.data(), bytes.data() + 24, digest.size()) != 0)
    return dataLoss(
        fmt::format("the plan '{}' is corrupted: its checksum does not match; copy it again or compile again", name));
  LoadedPlan loaded;
  loaded.sha256 = Sha256::hex(digest);
  const google::protobuf::LogSilencer silence; // the status says it all
  if (payload >= (uint64_t(1) << 31) ||
      !loaded.plan.ParseFromArray(bytes.data() + kPlanHeaderBytes, static_cast<int>(payload)))
    return dataLoss(fmt::format("the plan '{}' is corrupted: its payload is not a plan message; compile again", name));
  if (const Status valid = validatePlan(loaded.plan); !valid.isOk())
    return dataLoss(fmt::format("the plan '{}' is invalid: {}", name, valid.message()));
  return loaded;
}

Status writePlanFile(const plan::Plan &plan, const std::string &path) {
  if (const Status valid = validatePlan(plan); !valid.isOk())
    return internalError(fmt::format("the plan for '{}' is invalid: {}", path, valid.message()));
  ZTC_ASSIGN_OR_RETURN(const std::string bytes, serializePlan(plan));
  return replaceFile(path, bytes);
}

StatusOr<LoadedPlan> readPlanFile(const std::string &path) {
  if (isFolder(path))
    return invalidArgument(fmt::format("'{}' is a folder, and a plan is a file: `ztc compile {} -o plan.bin` makes one "
                                       "of a model",
                                       path, path));
  ZTC_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  return parsePlan({reinterpret_cast<const char *>(file.bytes().data()), file.size()}, path);
}

} // namespace ztc
