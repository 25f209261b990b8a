#include "runtime/Train/EventFile.h"
#include "runtime/Core/Crc32c.h"
#include "runtime/Core/File.h"
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/file.h>
#include <unistd.h>

namespace ztc {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

/// Numbers of the fields in tensorflow/core/util/event.proto and framework/summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };

static std::string encodeValue(const Scalar &scalar) {
  std::string text;
  StringOutputStream stream(&text);
  CodedOutputStream out(&stream);
  WireFormatLite::WriteString(kTag, std::string(scalar.tag), &out);
  WireFormatLite::WriteFloat(kSimpleValue, float(scalar.value), &out);
  out.Trim();
  return text;
}

static std::string encodeSummary(std::initializer_list<Scalar> scalars) {
  std::string text;
  StringOutputStream stream(&text);
  CodedOutputStream out(&stream);
  for (const Scalar &scalar : scalars)
    WireFormatLite::WriteBytes(kValue, encodeValue(scalar), &out);
  out.Trim();
  return text;
}

static double wallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// An event with either a version, which is the first of a file, or a summary.
static std::string encodeEvent(uint64_t step, EventField field, const std::string &content) {
  std::string text;
  StringOutputStream stream(&text);
  CodedOutputStream out(&stream);
  WireFormatLite::WriteDouble(kWallTime, wallSeconds(), &out);
  WireFormatLite::WriteInt64(kStep, int64_t(step), &out);
  WireFormatLite::WriteBytes(field, content, &out);
  out.Trim();
  return text;
}

/// As records store it (tensorflow/core/lib/hash/crc32c.h): data that hold checksums must not look like one.
static uint32_t maskedChecksum(const void *data, size_t bytes) {
  constexpr uint32_t kMaskDelta = 0xa282ead8;
  return std::rotr(crc32c(data, bytes), 15) + kMaskDelta;
}

/// Whether the run that writes this file goes on: it holds a lock on it. File systems without locks know of none.
static bool isInUse(const std::string &path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  const bool isLocked = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return isLocked;
}

Status EventFile::open(const std::string &folder, const std::string &run, bool overwrite) {
  ZTC_RETURN_IF_ERROR(checkWritable(folder).withContext("--tensorboard"));
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> names, listFolder(folder));
  for (const std::string &name : names) {
    if (name.find("tfevents") == std::string::npos)
      continue;
    if (isInUse(folder + "/" + name))
      return failedPrecondition(
          fmt::format("--tensorboard: another run is writing into '{}' ({}): wait for its end, or "
                      "give this one a folder of its own",
                      folder, name));
    if (name.ends_with("." + run))
      continue;
    if (!overwrite)
      return failedPrecondition(fmt::format("--tensorboard: '{}' has events of another run ({}), which TensorBoard "
                                            "would draw as one curve with these: give this run a folder of its own "
                                            "below a common one, or replace the other one (--overwrite)",
                                            folder, name));
    ZTC_RETURN_IF_ERROR(removeAll(folder + "/" + name));
  }
  char host[256] = "host";
  (void)::gethostname(host, sizeof host - 1);
  // TensorBoard reads a folder's files in the order of their names: the time comes first.
  const std::string path =
      fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, uint64_t(wallSeconds()), host, ::getpid(), run);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return fileError("write", path, errno).withContext("--tensorboard");
  (void)::flock(descriptor, LOCK_EX | LOCK_NB);
  file_.open(descriptor, "the event file " + path, "events");
  writeRecord(encodeEvent(0, kFileVersion, "brain.Event:2"));
  return Status::ok();
}

void EventFile::write(uint64_t step, std::initializer_list<Scalar> scalars) {
  if (isOpen())
    writeRecord(encodeEvent(step, kSummary, encodeSummary(scalars)));
}

/// Length, its checksum, data, their checksum (tensorflow/core/lib/io/record_writer.cc).
void EventFile::writeRecord(const std::string &event) {
  const uint64_t length = event.size();
  std::string record(sizeof length, 0);
  std::memcpy(record.data(), &length, sizeof length);
  const auto append = [&record](uint32_t checksum) {
    record.append(reinterpret_cast<const char *>(&checksum), sizeof checksum);
  };
  append(maskedChecksum(&length, sizeof length));
  record += event;
  append(maskedChecksum(event.data(), event.size()));
  file_.append(record);
}

} // namespace ztc
