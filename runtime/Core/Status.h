// Errors as values: what failed, where, and what to do.
#pragma once
#include <optional>
#include <source_location>
#include <string>
#include <utility>

namespace ztc {

/// The comment of each code says what the caller should do.
enum class StatusCode {
  Ok,
  InvalidArgument,    ///< the user's input is wrong: report it, exit 2 where it is the command line, else 1
  NotFound,           ///< a file or name is missing: report it
  FailedPrecondition, ///< the machine or the files do not fit the plan: report what was found and what is needed
  ResourceExhausted,  ///< memory or disk: report the missing bytes
  DataLoss,           ///< a file is truncated or corrupt: fall back to an older one or report it
  Unavailable,        ///< a peer or library is gone: stop the run
  Internal,           ///< a defect of ztc: report it with its place
};

/// The result of an operation that can fail. Ignoring one is a compile-time warning.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status ok() { return {}; }
  bool isOk() const { return code_ == StatusCode::Ok; }
  StatusCode code() const { return code_; }
  /// One sentence for a user: what failed, in which file or step, what to do. No full stop.
  const std::string &message() const { return message_; }
  /// The same status with "context: " before its message.
  Status withContext(const std::string &context) const {
    return isOk() ? *this : Status(code_, context + ": " + message_);
  }

private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
};

/// A value or the Status that says why there is none.
template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(T value) : value_(std::move(value)) {}
  StatusOr(Status status) : status_(std::move(status)) {}
  bool isOk() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

inline Status invalidArgument(std::string m) {
  return {StatusCode::InvalidArgument, std::move(m)};
}
inline Status notFound(std::string m) {
  return {StatusCode::NotFound, std::move(m)};
}
inline Status failedPrecondition(std::string m) {
  return {StatusCode::FailedPrecondition, std::move(m)};
}
inline Status resourceExhausted(std::string m) {
  return {StatusCode::ResourceExhausted, std::move(m)};
}
inline Status dataLoss(std::string m) {
  return {StatusCode::DataLoss, std::move(m)};
}
inline Status unavailable(std::string m) {
  return {StatusCode::Unavailable, std::move(m)};
}
/// A defect of ztc: the message ends with its place in the source, which a report of it needs.
inline Status internalError(std::string m, std::source_location place = std::source_location::current()) {
  m += std::string(" (a defect of ztc: ") + place.file_name() + ":" + std::to_string(place.line()) + ")";
  return {StatusCode::Internal, std::move(m)};
}

#define ZTC_CONCAT_INNER(a, b) a##b
#define ZTC_CONCAT(a, b) ZTC_CONCAT_INNER(a, b)
/// Returns from the function with the status of `expression` unless it is ok.
#define ZTC_RETURN_IF_ERROR(expression)                                                                                \
  do {                                                                                                                 \
    if (::ztc::Status ztcStatus = (expression); !ztcStatus.isOk())                                                     \
      return ztcStatus;                                                                                                \
  } while (false)
/// Declares `lhs` from a StatusOr, or returns its status.
#define ZTC_ASSIGN_OR_RETURN(lhs, expression)                                                                          \
  auto ZTC_CONCAT(ztcOr, __LINE__) = (expression);                                                                     \
  if (!ZTC_CONCAT(ztcOr, __LINE__).isOk())                                                                             \
    return ZTC_CONCAT(ztcOr, __LINE__).status();                                                                       \
  lhs = std::move(*ZTC_CONCAT(ztcOr, __LINE__))

} // namespace ztc
