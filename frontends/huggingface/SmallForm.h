// The same model with few and narrow layers: what is checked on it holds of the mathematics of the large one.
#pragma once
#include <string>

namespace ztc::huggingface {

/// The text of a config.json whose model has every kind of layer that `config` has, each as often as a period of its
/// pattern needs, and widths of some dozens: a step of it is interpreted in seconds. Keys that no size depends on stay.
/// Text that is not a JSON object is returned as it is.
/// What says how stored weights are quantised goes: a small model has none.
std::string smallForm(const std::string &config);

/// The text of an adapter_config.json for the model of a small form, whose own text is `small`: what names single
/// layers names those that are left, and fresh values take the place of given tensors. Text that is not a JSON object
/// is returned as it is.
std::string smallAdapter(const std::string &adapter, const std::string &small);

} // namespace ztc::huggingface
