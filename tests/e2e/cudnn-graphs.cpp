// cudnn-graphs LIBCUDNN PROPERTIES.json...: asks a real cuDNN for the attention of our models on GPUs that are only
// described. cuDNN must have an engine for each graph, within the workspace that plans reserve. Ends with 1 where it
// refuses a forward form, with 2 where all it refuses is gradients.
#include "runtime/Core/LoadModule.h"
#include "runtime/Device/cuda/CudnnShape.h"
#include "runtime/Format/CudnnAttention.h"
#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <string>

using namespace ztc;

namespace {

struct Model {
  const char *name;
  uint64_t batch, seq, heads, kvHeads, headDim, window;
  bool causal = true;
  uint64_t documents = 0, longest = 0; ///< of packed rows
};

constexpr Model kModels[] = {
    {"Llama-3.2-1B", 1, 2048, 32, 8, 64, 0},
    {"Llama-3.2-1B, long", 1, 8192, 32, 8, 64, 0},
    {"Llama-3.2-1B, batch of 8", 8, 2048, 32, 8, 64, 0},
    {"Llama-3.2-3B", 1, 2048, 24, 8, 128, 0},
    {"Llama-3-8B", 1, 8192, 32, 8, 128, 0},
    {"Llama-3-8B, batch of 4", 4, 2048, 32, 8, 128, 0},
    {"Llama-3-70B", 1, 4096, 64, 8, 128, 0},
    {"Llama-2-7B", 2, 4096, 32, 32, 128, 0},
    {"Mistral-7B", 1, 8192, 32, 8, 128, 4096},
    {"Qwen3-0.6B", 1, 2048, 16, 8, 128, 0},
    {"Qwen3-8B", 1, 4096, 32, 8, 128, 0},
    {"Gemma-2B", 1, 2048, 8, 1, 256, 0},
    {"GPT-2", 8, 1024, 12, 12, 64, 0},
    {"GPT-2 XL", 1, 1024, 25, 25, 64, 0},
    {"stories15M", 4, 256, 6, 6, 48, 0},
    {"llama-mini", 2, 256, 8, 4, 32, 0},
    {"llama-tiny", 2, 33, 4, 2, 16, 0},
    {"gpt2-tiny", 1, 128, 4, 4, 16, 0},
    {"a window of an odd sequence", 1, 1001, 4, 2, 64, 100},
    {"an encoder", 2, 512, 12, 12, 64, 0, false},
    {"Llama-3.2-1B, packed", 4, 2048, 32, 8, 64, 0, true, 11, 1500},
    {"Llama-3.2-1B, most packed", 4, 2048, 32, 8, 64, 0, true, cudnnMostDocuments(2048), 2048},
    {"Llama-3-8B, packed", 1, 8192, 32, 8, 128, 0, true, 40, 8192},
    {"Llama-3-8B, most packed", 2, 8192, 32, 8, 128, 0, true, cudnnMostDocuments(8192), 8192},
    {"Llama-2-7B, most packed", 1, 4096, 32, 32, 128, 0, true, cudnnMostDocuments(4096), 4096},
    {"Mistral-7B, most packed", 1, 8192, 32, 8, 128, 4096, true, cudnnMostDocuments(8192), 8192},
    {"GPT-2, most packed", 8, 1024, 12, 12, 64, 0, true, cudnnMostDocuments(1024), 1024},
    {"stories15M, packed", 4, 256, 6, 6, 48, 0, true, 16, 100},
    {"llama-tiny, packed", 2, 33, 4, 2, 16, 0, true, 3, 30},
    {"70B, 32k tokens, packed", 1, 32768, 64, 8, 128, 0, true, cudnnMostDocuments(32768), 32768},
};

plan::Attention attentionOf(const Model &model, plan::DataType type, bool grad) {
  plan::Attention attention;
  attention.set_batch(model.batch);
  attention.set_seq(model.seq);
  attention.set_heads(model.heads);
  attention.set_kv_heads(model.kvHeads);
  attention.set_head_dim(model.headDim);
  attention.set_scale(0.125);
  attention.set_causal(model.causal);
  attention.set_window(model.window);
  attention.set_type(type);
  attention.set_grad(grad);
  return attention;
}

struct Count {
  int forms = 0, refused = 0;
};

enum class Form { Forward, Gradient, GradientWithScores, GradientInAnyOrder };

const char *nameOf(Form form) {
  switch (form) {
  case Form::Forward:
    return "forward";
  case Form::Gradient:
    return "gradient";
  case Form::GradientWithScores:
    return "gradient with scores";
  case Form::GradientInAnyOrder:
    return "gradient in any order";
  }
  return "";
}

/// Asks for one form and prints the answer.
void ask(const ZtcCudnnFunctions &functions, ZtcCudnn *cudnn, const Model &model, plan::DataType type, Form form,
         Count &count) {
  const bool grad = form != Form::Forward, deterministic = form != Form::GradientInAnyOrder;
  const plan::Attention attention = attentionOf(model, type, grad);
  const AttentionExtras extras{.packed = model.documents != 0};
  ZtcCudnnAttention shape = extras.packed ? cudnnPackedShape(attention, {model.documents, model.longest}, deterministic)
                                          : cudnnShape(attention, deterministic);
  shape.linearWorkspace = form == Form::Gradient;
  uint64_t reserved = form == Form::GradientWithScores
                          ? cudnnScoresWorkspaceBytes(model.batch, model.seq, model.heads, model.kvHeads, model.headDim)
                          : gpuAttentionScratchBytes(model.batch, model.seq, model.heads, model.kvHeads, model.headDim,
                                                     true, grad, extras);
  if (extras.packed) // where documents lie stands in front
    reserved -= DocumentTable{model.documents}.bytes(model.batch);
  ZtcCudnnGraph *graph = nullptr;
  ZtcCudnnError error{};
  uint64_t bytes = 0;
  std::printf("  %-28s %-4s %-21s ", model.name, type == plan::BF16 ? "bf16" : "f16", nameOf(form));
  ++count.forms;
  if (functions.create(cudnn, &shape, &graph, &bytes, &error)) {
    ++count.refused;
    std::printf("REFUSED: %s\n", error.message);
    return;
  }
  const bool fits = bytes <= reserved;
  count.refused += !fits;
  std::printf("%s%s, %lu bytes of %lu reserved\n", fits ? "" : "TOO MUCH: ", functions.engine(graph), bytes, reserved);
  functions.destroy(graph);
}

int fail(const std::string &why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 3;
}

} // namespace

int main(int count, char **arguments) {
  if (count < 3)
    return fail("cudnn-graphs LIBCUDNN PROPERTIES.json...");
  const auto table =
      openModuleTable(moduleCandidates("libztc-cudnn.so", "", programFolder()), "ztcCudnnFunctions", ZTC_CUDNN_VERSION);
  if (!table.isOk())
    return fail(table.status().message());
  const auto &functions = *static_cast<const ZtcCudnnFunctions *>(*table);
  void *library = dlopen(arguments[1], RTLD_NOW);
  if (!library)
    return fail(dlerror());
  Count forward, gradient;
  for (int i = 2; i < count; ++i) {
    std::ifstream file(arguments[i]);
    const std::string properties(std::istreambuf_iterator<char>(file), {});
    const ZtcCudnnGpu gpu{90, properties.c_str()};
    ZtcCudnn *cudnn = nullptr;
    ZtcCudnnError error{};
    if (functions.open(library, nullptr, &gpu, &cudnn, &error))
      return fail(std::string(arguments[i]) + ": " + error.message);
    std::printf("cuDNN %lu, %s\n", functions.libraryVersion(cudnn), arguments[i]);
    for (const Model &model : kModels)
      for (plan::DataType type : {plan::BF16, plan::F16})
        for (Form form : {Form::Forward, Form::Gradient, Form::GradientWithScores, Form::GradientInAnyOrder})
          if (!model.documents || form != Form::GradientWithScores) // of packed rows it is not called
            ask(functions, cudnn, model, type, form, form == Form::Forward ? forward : gradient);
    functions.close(cudnn);
  }
  std::printf("%d of %d forward forms and %d of %d gradients are accepted\n", forward.forms - forward.refused,
              forward.forms, gradient.forms - gradient.refused, gradient.forms);
  return forward.refused ? 1 : gradient.refused ? 2 : 0;
}
