#include "runtime/Format/KernelSignature.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace ztc {

using namespace plan;
using Signature = Kernel::Signature;

namespace {

bool isSame(const SizeForm &a, const SizeForm &b) {
  return a.kind() == b.kind() && a.elements() == b.elements() && a.element_bytes() == b.element_bytes() &&
         a.only_if_accumulating() == b.only_if_accumulating() &&
         a.only_if_several_ranks() == b.only_if_several_ranks() && a.has_gpu_elements() == b.has_gpu_elements() &&
         a.gpu_elements() == b.gpu_elements() && a.block_elements() == b.block_elements() && a.quantum() == b.quantum();
}

bool isSame(const Signature::Parameter &a, const Signature::Parameter &b) {
  return a.written() == b.written() && a.bytes() == b.bytes() && isSame(a.slot(), b.slot()) &&
         a.offset() == b.offset() && a.own_shard() == b.own_shard() && a.piece_elements() == b.piece_elements();
}

bool isSame(const Signature &a, const Signature &b) {
  const auto same = [](const Signature::Parameter &one, const Signature::Parameter &other) {
    return isSame(one, other);
  };
  return std::ranges::equal(a.parameters(), b.parameters(), same) && a.extent() == b.extent() &&
         a.grain() == b.grain() && a.elements() == b.elements() && a.flat() == b.flat() &&
         a.flat_block() == b.flat_block() && a.flat_range() == b.flat_range() &&
         a.piece_elements() == b.piece_elements() && std::ranges::equal(a.scalars(), b.scalars());
}

/// Nothing where a slot or the bucket does not exist.
std::optional<Signature> signatureOf(const Plan &plan, const Step &step) {
  const Launch &launch = step.launch();
  Signature signature;
  for (const Operand &operand : step.operands()) {
    if (operand.slot() >= static_cast<uint32_t>(plan.slots_size()))
      return std::nullopt;
    Signature::Parameter &parameter = *signature.add_parameters();
    parameter.set_written(operand.access() != Operand::READ);
    parameter.set_bytes(operand.bytes());
    if (operand.bytes())
      continue;
    *parameter.mutable_slot() = plan.slots(static_cast<int>(operand.slot())).size();
    parameter.set_offset(operand.offset());
    parameter.set_own_shard(operand.own_shard());
    parameter.set_piece_elements(operand.piece_elements());
  }
  signature.set_extent(launch.extent());
  signature.set_grain(launch.grain());
  if (launch.flat()) {
    if (launch.bucket() >= static_cast<uint32_t>(plan.buckets_size()))
      return std::nullopt;
    signature.set_elements(plan.buckets(static_cast<int>(launch.bucket())).elements());
    signature.set_flat(true);
    signature.set_flat_block(launch.flat_block());
    signature.set_flat_range(launch.flat_range());
    signature.set_piece_elements(launch.piece_elements());
  }
  *signature.mutable_scalars() = launch.scalars();
  return signature;
}

bool has(const Kernel &kernel, const Signature &signature) {
  return std::ranges::any_of(kernel.signatures(), [&](const Signature &known) { return isSame(known, signature); });
}

void record(Plan &plan, uint32_t index, const Signature &signature) {
  if (index >= static_cast<uint32_t>(plan.kernels_size()))
    return;
  Kernel &kernel = *plan.mutable_kernels(static_cast<int>(index));
  if (!has(kernel, signature))
    *kernel.add_signatures() = signature;
}

/// "16 bytes" of a piece, "1000 x 4 bytes" of what is left of a slot; with a star where they are written.
std::string textOf(const Signature::Parameter &parameter) {
  const char *star = parameter.written() ? "*" : "";
  if (parameter.bytes())
    return fmt::format("{}{} bytes", star, parameter.bytes());
  return fmt::format("{}{} x {} bytes", star, parameter.slot().elements(), parameter.slot().element_bytes());
}

std::string textOf(const Signature &signature) {
  std::vector<std::string> parameters;
  for (const Signature::Parameter &parameter : signature.parameters())
    parameters.push_back(textOf(parameter));
  return fmt::format("({}) over {} {}", fmt::join(parameters, ", "),
                     signature.flat() ? signature.elements() : signature.extent(),
                     signature.flat() ? "elements" : "units");
}

} // namespace

void recordKernelSignatures(Plan &plan) {
  for (Kernel &kernel : *plan.mutable_kernels())
    kernel.clear_signatures();
  for (const Program &program : plan.programs())
    for (const Step &step : program.steps()) {
      const std::optional<Signature> signature = step.has_launch() ? signatureOf(plan, step) : std::nullopt;
      if (!signature)
        continue;
      record(plan, step.launch().kernel(), *signature);
      if (step.launch().accumulate() != OVERWRITE)
        record(plan, step.launch().kernel_add(), *signature);
    }
}

Status checkKernelSignature(const Plan &plan, const Step &step, uint32_t index) {
  const Kernel &kernel = plan.kernels(static_cast<int>(index));
  const std::optional<Signature> signature = signatureOf(plan, step);
  if (signature && has(kernel, *signature))
    return Status::ok();
  return dataLoss(fmt::format("kernel {} '{}' was not made for this launch {}", index, kernel.name(),
                              signature ? textOf(*signature) : ""));
}

} // namespace ztc
