// Weights that are stored in fewer bits, as numbers.
#include "runtime/Format/QuantizedWeight.h"
#include "tests/conformance/NarrowValues.h"

namespace ztc::test {
namespace {

/// The device's numbers are the format's, rounded once.
void expectDequantized(plan::WeightFormat format, uint64_t rows, uint64_t columns) {
  const QuantizedLayout layout = quantizedLayout(format, rows, columns).value();
  const std::vector<float> weight = randomFloats(layout.elements(), 7);
  const std::vector<std::byte> bytes = quantize(
      layout, [&](uint64_t begin, uint64_t count, float *out) { std::copy_n(weight.data() + begin, count, out); }, 2);
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16})
    for (uint32_t threads : {1u, 3u}) {
      std::vector<float> want(layout.elements());
      dequantize(bytes.data(), layout, 0, want.size(), want.data());
      roundTo(want, type);
      StepRunner runner;
      const uint32_t from = runner.slot(bytes), to = runner.scratch(want.size() * (type == plan::F32 ? 4 : 2), false);
      plan::Dequantize &call = *runner.step("dequantize", {from, to})->mutable_dequantize();
      call.set_format(format);
      call.set_rows(rows);
      call.set_columns(columns);
      call.set_type(type);
      runner.useGpuKernels(call, {std::string("gpu_dequantize_") + weightFormatName(format) +
                                  (layout.hasScalesByRow() ? "_rows" : "") + gpuSuffix(type)});
      runner.runOnce(threads);
      EXPECT_TRUE(sameBits(readTyped(runner, to, want.size(), type), want))
          << weightFormatName(format) << " " << rows << " x " << columns << " as " << plan::DataType_Name(type);
    }
}

TEST(TransferConformance, Dequantize) {
  for (plan::WeightFormat format : {plan::NF4, plan::NF4_SINGLE, plan::MXFP4, plan::INT8}) {
    expectDequantized(format, 64, 128);
    expectDequantized(format, 64, 96);  // rows that are multiples of 16, not of 64
    expectDequantized(format, 300, 72); // blocks lie across rows, more than 256 of them
    expectDequantized(format, 7, 13);
    expectDequantized(format, 1, 1);
  }
}

} // namespace
} // namespace ztc::test
