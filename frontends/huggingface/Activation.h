// The activations of feed-forwards, heads and convolutions.
#pragma once

namespace ztc::huggingface {

/// transformers' names of activations that ztc builds.
enum class Activation {
  Silu,
  GeluTanh,
  Gelu,
  QuickGelu,   ///< x * sigmoid(1.702 x)
  ClippedGelu, ///< within -10 and 10
  Relu,
  Relu6, ///< 6 at most
  ReluSquared,
  LeakyRelu, ///< 0.01 x below 0
  HardSwish,
  Mish,
  Tanh,
  Sigmoid,
  Laplace, ///< the distribution function of a normal distribution (arXiv:2209.10655, section 3.4)
  SqrtSoftplus,
  Linear,
  Xielu, ///< arXiv:2411.13010, with two learned numbers below the module: act_fn.alpha_p, act_fn.alpha_n
};

} // namespace ztc::huggingface
