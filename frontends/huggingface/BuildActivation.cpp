// transformers' activations (its table ACT2FN) by name, each in ONNX's operators.
#include "frontends/huggingface/BuildDecoder.h"
#include "frontends/huggingface/Families.h"
#include <cmath>

namespace ztc::huggingface {

using Value = GraphWriter::Value;

Activation activationOf(Config &config, const char *key, const std::string &name) {
  struct Entry {
    const char *name;
    Activation activation;
  };
  static constexpr Entry kActivations[] = {
      {"silu", Activation::Silu},
      {"swish", Activation::Silu},
      {"gelu_pytorch_tanh", Activation::GeluTanh},
      {"gelu_new", Activation::GeluTanh},
      {"gelu_fast", Activation::GeluTanh},
      {"gelu_accurate", Activation::GeluTanh},
      {"gelu_python_tanh", Activation::GeluTanh},
      {"gelu", Activation::Gelu},
      {"gelu_python", Activation::Gelu},
      {"gelu_10", Activation::ClippedGelu},
      {"quick_gelu", Activation::QuickGelu},
      {"relu", Activation::Relu},
      {"relu2", Activation::ReluSquared},
      {"relu6", Activation::Relu6},
      {"leaky_relu", Activation::LeakyRelu},
      {"hardswish", Activation::HardSwish},
      {"mish", Activation::Mish},
      {"tanh", Activation::Tanh},
      {"sigmoid", Activation::Sigmoid},
      {"laplace", Activation::Laplace},
      {"sqrtsoftplus", Activation::SqrtSoftplus},
      {"linear", Activation::Linear},
      {"xielu", Activation::Xielu},
  };
  for (const Entry &entry : kActivations)
    if (name == entry.name)
      return entry.activation;
  config.fail(std::string(key) + " is '" + name + "', an activation that ztc does not build");
  return Activation::Silu;
}

/// a x^2 + x / 2 above 0, b (e^x - 1 - x) + x / 2 below, where a = softplus(alpha_p), b = 1/2 + softplus(alpha_n).
Value DecoderBuilder::xielu(const std::string &module, Value x) {
  std::string path = inside(module, "act_fn.");
  Value above = graph.add("Softplus", {parameter(path + "alpha_p", {1})}),
        below = graph.add("Add", {graph.add("Softplus", {parameter(path + "alpha_n", {1})}), graph.scalar(0.5)});
  Value square = graph.add("Mul", {graph.add("Mul", {x, x}), above});
  Value small = graph.add("Exp", {graph.add("Min", {x, graph.scalar(-1e-6f)})}); // e^x of large x would be infinite
  small = graph.add("Sub", {graph.add("Sub", {small, graph.scalar(1)}), x});
  Value curve =
      graph.add("Where", {graph.add("Greater", {x, graph.scalar(0)}), square, graph.add("Mul", {small, below})});
  return graph.add("Add", {curve, graph.add("Mul", {x, graph.scalar(0.5)})});
}

/// 1/2 (1 + erf((x - mu) / (sigma sqrt 2))), with the mu and sigma that come nearest to the squared ReLU.
Value DecoderBuilder::laplace(Value x) {
  constexpr double kMean = 0.707107, kDeviation = 0.282095;
  Value distance = graph.add("Sub", {x, graph.scalar(float(kMean))});
  Value share = graph.add("Erf", {graph.add("Div", {distance, graph.scalar(float(kDeviation * std::sqrt(2.0)))})});
  return graph.add("Mul", {graph.add("Add", {share, graph.scalar(1)}), graph.scalar(0.5)});
}

Value DecoderBuilder::activate(Activation activation, const std::string &module, Value x) {
  switch (activation) {
  case Activation::Silu:
    return graph.add("Mul", {x, graph.add("Sigmoid", {x})});
  case Activation::GeluTanh:
    return graph.add("Gelu", {x}, {{"approximate", std::string("tanh")}});
  case Activation::Gelu:
    return graph.add("Gelu", {x});
  case Activation::ClippedGelu:
    return graph.add("Clip", {graph.add("Gelu", {x}), graph.scalar(-10), graph.scalar(10)});
  case Activation::QuickGelu:
    return graph.add("Mul", {x, graph.add("Sigmoid", {scaled(x, 1.702)})});
  case Activation::Relu:
    return graph.add("Relu", {x});
  case Activation::Relu6: // not Clip, whose derivative at 0 is 1
    return graph.add("Min", {graph.add("Relu", {x}), graph.scalar(6)});
  case Activation::ReluSquared: {
    Value y = graph.add("Relu", {x});
    return graph.add("Mul", {y, y});
  }
  case Activation::LeakyRelu:
    return graph.add("LeakyRelu", {x}, {{"alpha", 0.01f}});
  case Activation::HardSwish:
    return graph.add("HardSwish", {x});
  case Activation::Mish:
    return graph.add("Mish", {x});
  case Activation::Tanh:
    return graph.add("Tanh", {x});
  case Activation::Sigmoid:
    return graph.add("Sigmoid", {x});
  case Activation::Laplace:
    return laplace(x);
  case Activation::SqrtSoftplus:
    return graph.add("Sqrt", {graph.add("Softplus", {x})});
  case Activation::Linear:
    return x;
  case Activation::Xielu:
    break;
  }
  return xielu(module, x);
}

} // namespace ztc::huggingface
