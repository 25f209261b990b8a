// Output that nobody may take: a pipe whose reader stands still, a frozen terminal. Who writes never waits for it.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

namespace ztc {

/// Writes to a descriptor from a thread of its own. What is not taken waits in memory, up to a limit.
class BackgroundWriter {
public:
  /// `descriptor` stays open as long as the thread lives, which is longer than this object where end() returns false.
  BackgroundWriter(int descriptor, size_t capacityBytes);
  /// Like end().
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter &) = delete;
  BackgroundWriter &operator=(const BackgroundWriter &) = delete;

  /// Any thread; never waits. False where the text is dropped whole: the memory is full, or the descriptor broken.
  bool write(std::string_view text);
  /// Bytes that wait, 0 where all are taken.
  size_t pendingBytes() const;
  /// The errno of a write that failed; 0: none did.
  int error() const;
  /// Waits until everything is taken, but not for a reader that has taken nothing for `patienceSeconds`. True where
  /// everything is written and the thread has ended. Nothing may be written afterwards.
  bool end(double patienceSeconds);

  static constexpr double kPatienceSeconds = 5;

private:
  struct State;
  std::shared_ptr<State> state_; ///< shared with the thread, which may be left behind in a write
};

} // namespace ztc
