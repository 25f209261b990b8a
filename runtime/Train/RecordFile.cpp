#include "runtime/Train/RecordFile.h"
#include "runtime/Core/Print.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ztc {

void RecordFile::open(int descriptor, std::string name, std::string_view records) {
  close();
  descriptor_ = descriptor;
  name_ = std::move(name);
  records_ = records;
  isRemoved_ = false;
}

void RecordFile::append(std::string_view record) {
  if (!isOpen() || record.empty())
    return;
  waiting_ += record;
  sizes_.push_back(record.size());
  const int error = writeWaiting();
  if (error && waiting_.size() > kMostKeptBytes)
    return giveUp(error);
  if (error && !waits_)
    print(stderr, "ztc-run: warning: {} waits: {}; its {} are kept and written as soon as that works\n", name_,
          std::strerror(error), records_);
  if (!error)
    sayWhole();
  waits_ = error != 0;
  sayRemoved();
}

void RecordFile::sayRemoved() {
  struct stat file{};
  if (isRemoved_ || ::fstat(descriptor_, &file) != 0 || file.st_nlink != 0)
    return;
  isRemoved_ = true;
  print(stderr, "ztc-run: warning: {} was removed while the run writes it: its {} go nowhere\n", name_, records_);
}

void RecordFile::close() {
  if (!isOpen())
    return;
  if (const int error = writeWaiting())
    return giveUp(error);
  sayWhole();
  waits_ = false;
  ::close(std::exchange(descriptor_, -1));
}

void RecordFile::sayWhole() const {
  if (waits_)
    print(stderr, "ztc-run: {} is whole again: the {} that waited are written\n", name_, records_);
}

int RecordFile::writeWaiting() {
  size_t done = 0;
  int error = 0;
  while (done < waiting_.size() && !error) {
    const ssize_t written = ::write(descriptor_, waiting_.data() + done, waiting_.size() - done);
    if (written > 0)
      done += size_t(written);
    else if (written == 0)
      error = ENOSPC;
    else if (errno != EINTR)
      error = errno;
  }
  size_t whole = 0;
  while (!sizes_.empty() && whole + sizes_.front() <= done) {
    whole += sizes_.front();
    sizes_.pop_front();
  }
  const size_t part = done - whole;
  if (part && !cut(part)) {
    // It stays begun: what is left of it is what waits.
    sizes_.front() -= part;
    whole = done;
  }
  waiting_.erase(0, whole);
  return error;
}

bool RecordFile::cut(size_t bytes) const {
  struct stat file{};
  const off_t end = ::lseek(descriptor_, 0, SEEK_CUR);
  // Where somebody else has written on, the end is not ours to cut.
  if (end < off_t(bytes) || ::fstat(descriptor_, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size != end)
    return false;
  const off_t begin = end - off_t(bytes);
  return ::ftruncate(descriptor_, begin) == 0 && ::lseek(descriptor_, begin, SEEK_SET) == begin;
}

void RecordFile::giveUp(int error) {
  print(stderr, "ztc-run: warning: {} ends here: {}; the last {} of its {} are lost\n", name_, std::strerror(error),
        sizes_.size(), records_);
  ::close(std::exchange(descriptor_, -1));
  waiting_.clear();
  sizes_.clear();
  waits_ = false;
}

} // namespace ztc
