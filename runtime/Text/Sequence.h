// Parts of tokenizer.json that are applied one after the other: of normalizers, pre-tokenizers and decoders alike.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include <memory>
#include <utility>
#include <vector>

namespace ztc {

/// A `Part` that is several of them. `Data`: what they are applied to.
template <typename Part, typename Data> class Sequence final : public Part {
public:
  explicit Sequence(std::vector<std::unique_ptr<Part>> parts) : parts_(std::move(parts)) {}
  Status apply(Data &data) const override {
    for (const std::unique_ptr<Part> &part : parts_)
      ZTC_RETURN_IF_ERROR(part->apply(data));
    return Status::ok();
  }

private:
  std::vector<std::unique_ptr<Part>> parts_;
};

/// The one that the array `name` of `fields` lists; parts that are null are left out.
template <typename Part, typename Data>
StatusOr<std::unique_ptr<Part>> readSequence(const JsonFields &fields, const char *name) {
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json *list, fields.array(name));
  std::vector<std::unique_ptr<Part>> parts;
  for (const nlohmann::json &one : *list) {
    ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Part> part, Part::read(&one, fields.place()));
    if (part)
      parts.push_back(std::move(part));
  }
  return StatusOr<std::unique_ptr<Part>>(std::make_unique<Sequence<Part, Data>>(std::move(parts)));
}

} // namespace ztc
