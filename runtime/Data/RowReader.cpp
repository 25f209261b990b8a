#include "runtime/Data/Sources.h"
#include <fmt/format.h>
#include <vector>

namespace ztc {

StatusOr<RowReader> RowReader::open(const MappedFile &mapped) {
  ZTC_ASSIGN_OR_RETURN(File file, File::open(mapped.path(), File::Mode::Read));
  ZTC_ASSIGN_OR_RETURN(const uint64_t size, file.size());
  if (size != mapped.size())
    return dataLoss(
        fmt::format("'{}' has changed while it was opened: {} bytes, then {}", mapped.path(), mapped.size(), size));
  return RowReader(std::move(file));
}

StatusOr<const std::byte *> RowReader::read(uint64_t offset, uint64_t bytes, int place) const {
  thread_local std::vector<std::byte> buffers[2];
  std::vector<std::byte> &buffer = buffers[place];
  if (buffer.size() < bytes)
    buffer.resize(bytes);
  ZTC_RETURN_IF_ERROR(file_.readAt(offset, buffer.data(), bytes));
  return static_cast<const std::byte *>(buffer.data());
}

} // namespace ztc
