// Calls the ONNX library, which throws: compiled with exceptions; Reader.cpp catches them.
#include "frontends/onnx/Schemas.h"
#include "onnx/defs/schema.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

constexpr TypeSet kFloats =
    typeBit(ElementType::F32) | typeBit(ElementType::F16) | typeBit(ElementType::BF16) | typeBit(ElementType::F64);
constexpr TypeSet kIntegers = typeBit(ElementType::I8) | typeBit(ElementType::I16) | typeBit(ElementType::I32) |
                              typeBit(ElementType::I64) | typeBit(ElementType::U8) | typeBit(ElementType::U16) |
                              typeBit(ElementType::U32) | typeBit(ElementType::U64);
constexpr TypeSet kAnything = ~TypeSet(0);

/// "tensor(float16)" -> its bit.
TypeSet typeBitOf(const std::string &text) {
  StringRef name(text);
  if (!name.consume_front("tensor(") || !name.consume_back(")"))
    return 1;
  ::onnx::TensorProto_DataType type;
  return ::onnx::TensorProto_DataType_Parse(name.upper(), &type) && unsigned(type) < 32 ? TypeSet(1) << unsigned(type)
                                                                                        : 1;
}

/// Exporters write types that an older opset's list lacks (bf16 in opset 18) and onnxruntime runs: a kind of numbers is
/// taken as a whole.
TypeSet widened(TypeSet types) {
  return types | (types & kFloats ? kFloats : 0) | (types & kIntegers ? kIntegers : 0);
}

Attribute::Kind kindOf(::onnx::AttributeProto::AttributeType type) {
  using Proto = ::onnx::AttributeProto;
  switch (type) {
  case Proto::FLOAT:
    return Attribute::Kind::Float;
  case Proto::INT:
    return Attribute::Kind::Int;
  case Proto::STRING:
    return Attribute::Kind::String;
  case Proto::TENSOR:
    return Attribute::Kind::Tensor;
  case Proto::FLOATS:
    return Attribute::Kind::Floats;
  case Proto::INTS:
    return Attribute::Kind::Ints;
  case Proto::GRAPH:
    return Attribute::Kind::Graph;
  default:
    return Attribute::Kind::Other;
  }
}

std::vector<OperatorSchema::Formal> convert(const std::vector<::onnx::OpSchema::FormalParameter> &formals,
                                            const ::onnx::OpSchema &schema) {
  std::vector<OperatorSchema::Formal> result;
  for (const auto &from : formals) {
    OperatorSchema::Formal to;
    to.name = from.GetName();
    to.option = from.GetOption() == ::onnx::OpSchema::Single     ? OperatorSchema::Option::Single
                : from.GetOption() == ::onnx::OpSchema::Optional ? OperatorSchema::Option::Optional
                                                                 : OperatorSchema::Option::Variadic;
    for (const std::string *type : from.GetTypes())
      to.types |= typeBitOf(*type);
    to.types = widened(to.types);
    const auto &variables = schema.typeConstraintParams();
    for (size_t i = 0; i < variables.size() && from.GetIsHomogeneous(); ++i)
      if (variables[i].type_param_str == from.GetTypeStr())
        to.variable = int(i);
    result.push_back(std::move(to));
  }
  return result;
}

OperatorSchema convert(const ::onnx::OpSchema &schema) {
  OperatorSchema result;
  result.minInputs = unsigned(schema.min_input());
  result.maxInputs = unsigned(schema.max_input());
  result.minOutputs = unsigned(schema.min_output());
  result.maxOutputs = unsigned(schema.max_output());
  result.inputs = convert(schema.inputs(), schema);
  result.outputs = convert(schema.outputs(), schema);
  for (const auto &[name, attribute] : schema.attributes())
    result.attributes[name] = {kindOf(attribute.type), attribute.required};
  return result;
}

/// Operators of onnxruntime. Formals are `name:type`, `name?:type` optional; types are M any, I an integer, B a
/// boolean, and T, U, C: floats, one type for each letter. Attributes are `name:kind`, `name!:kind` required; kinds are
/// i, f, s.
struct OwnSchema {
  const char *signature, *inputs, *outputs, *attributes;
};
constexpr OwnSchema kOwnSchemas[] = {
    {"SimplifiedLayerNormalization", "X:T scale:U", "Y:M inv_std_var?:M", "axis:i epsilon:f stash_type:i"},
    {"com.microsoft::SimplifiedLayerNormalization", "X:T scale:U", "Y:M inv_std_var?:M",
     "axis:i epsilon:f stash_type:i"},
    {"com.microsoft::SkipSimplifiedLayerNormalization", "input:T skip:T gamma:T bias?:T",
     "output:T mean?:M inv_std_var?:M input_skip_bias_sum?:T", "epsilon:f"},
    {"com.microsoft::SkipLayerNormalization", "input:T skip:T gamma:T beta?:T bias?:T",
     "output:T mean?:M inv_std_var?:M input_skip_bias_sum?:T", "epsilon:f"},
    {"com.microsoft::RotaryEmbedding", "input:T position_ids:I cos_cache:T sin_cache:T", "output:T",
     "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f"},
    {"com.microsoft::GroupQueryAttention",
     "query:T key?:T value?:T past_key?:M past_value?:M seqlens_k:I total_sequence_length:I cos_cache?:T sin_cache?:T "
     "position_ids?:I attention_bias?:T head_sink?:T k_scale?:M v_scale?:M",
     "output:T present_key?:M present_value?:M output_qk?:M",
     "num_heads!:i kv_num_heads!:i scale:f softcap:f local_window_size:i do_rotary:i rotary_interleaved:i "
     "smooth_softmax:i "
     "qk_output:i"},
    {"com.microsoft::LinearAttention", "query:T key:T value:T past_state?:S decay?:T beta?:T",
     "output:T present_state?:S", "q_num_heads!:i kv_num_heads!:i update_rule:s scale:f chunk_size:i state_window:i"},
    {"com.microsoft::CausalConvWithState", "input:T weight:T bias?:T past_state?:T", "output:T present_state?:T",
     "ndim:i activation:s state_window:i"},
    {"com.microsoft::MatMulNBits", "A:T B:M scales:U zero_points?:M g_idx?:I bias?:T", "Y:T",
     "K!:i N!:i bits:i block_size!:i accuracy_level:i weight_prepacked:i"},
    {"com.microsoft::GatherBlockQuantized", "data:M indices:I scales:T zero_points?:M", "output:T",
     "bits:i block_size:i gather_axis:i quantize_axis:i"},
    {"com.microsoft::MoE",
     "input:T router_probs:T fc1_experts_weights:T fc1_experts_bias?:T fc2_experts_weights:T fc2_experts_bias?:T "
     "fc3_experts_weights?:T fc3_experts_bias?:T",
     "output:T",
     "activation_type:s activation_alpha:f activation_beta:f k:i normalize_routing_weights:i swiglu_fusion:i "
     "swiglu_limit:f use_sparse_mixer:i"},
    {"com.microsoft::Gelu", "X:T", "Y:T", ""},
    {"com.microsoft::QuickGelu", "X:T", "Y:T", "alpha:f"},
    {"com.microsoft::FastGelu", "X:T bias?:T", "Y:T", ""},
    {"com.microsoft::BiasGelu", "A:T B:T", "C:T", ""},
    {"com.microsoft::FusedMatMul", "A:T B:T", "Y:T", "alpha:f transA:i transB:i transBatchA:i transBatchB:i"},
};

std::vector<OperatorSchema::Formal> parseFormals(StringRef text) {
  std::vector<OperatorSchema::Formal> formals;
  for (StringRef word : llvm::split(text, ' ')) {
    auto [name, type] = word.split(':');
    OperatorSchema::Formal formal;
    formal.option = name.consume_back("?") ? OperatorSchema::Option::Optional : OperatorSchema::Option::Single;
    formal.name = name.str();
    formal.types = type == "I"   ? kIntegers
                   : type == "B" ? typeBit(ElementType::Bool)
                   : type == "M" ? kAnything
                                 : kFloats;
    formal.variable = formal.types == kFloats ? type[0] : -1;
    formals.push_back(std::move(formal));
  }
  return formals;
}

unsigned countSingle(const std::vector<OperatorSchema::Formal> &formals) {
  unsigned count = 0;
  for (size_t i = 0; i < formals.size(); ++i)
    if (formals[i].option == OperatorSchema::Option::Single)
      count = unsigned(i) + 1;
  return count;
}

OperatorSchema convert(const OwnSchema &own) {
  OperatorSchema result;
  result.inputs = parseFormals(own.inputs);
  result.outputs = parseFormals(own.outputs);
  result.minInputs = countSingle(result.inputs);
  result.maxInputs = unsigned(result.inputs.size());
  result.minOutputs = countSingle(result.outputs);
  result.maxOutputs = unsigned(result.outputs.size());
  for (StringRef word : llvm::split(StringRef(own.attributes), ' ')) {
    auto [name, kind] = word.split(':');
    bool required = name.consume_back("!");
    if (!name.empty())
      result.attributes[name] = {kind == "i"   ? Attribute::Kind::Int
                                 : kind == "f" ? Attribute::Kind::Float
                                               : Attribute::Kind::String,
                                 required};
  }
  return result;
}

/// The schema of a signature: "Op", or "domain::Op".
std::shared_ptr<const OperatorSchema> findSchema(const Node &node, const llvm::StringMap<int64_t> &versions) {
  for (const OwnSchema &own : kOwnSchemas)
    if (node.signature == own.signature)
      return std::make_shared<OperatorSchema>(convert(own));
  auto version = versions.find(node.domain);
  if (version == versions.end())
    return nullptr;
  const ::onnx::OpSchema *schema = ::onnx::OpSchemaRegistry::Schema(node.op, int(version->second), node.domain);
  return schema ? std::make_shared<OperatorSchema>(convert(*schema)) : nullptr;
}

} // namespace

bool loadSchemas(Model &model, llvm::ArrayRef<std::pair<std::string, int64_t>> opsets, std::string &error) {
  const auto &known = ::onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  llvm::StringMap<int64_t> versions;
  for (const auto &[name, version] : opsets) {
    std::string domain = name == "ai.onnx" ? "" : name;
    auto range = known.find(domain);
    if (range == known.end())
      continue; // its operators are named where they are met
    if (version < 1 || version > range->second.second) {
      error = "is written for opset " + std::to_string(version) + (domain.empty() ? "" : " of " + domain) +
              "; ztc knows 1 to " + std::to_string(range->second.second);
      return false;
    }
    if (!versions.try_emplace(domain, version).second && versions[domain] != version) {
      error =
          "imports two opsets of one domain: " + std::to_string(versions[domain]) + " and " + std::to_string(version);
      return false;
    }
  }
  for (const Node &node : model.nodes)
    if (!model.schemas.count(node.signature))
      model.schemas[node.signature] = findSchema(node, versions);
  bool usesDefault = llvm::any_of(model.nodes, [](const Node &node) { return node.domain.empty(); });
  if (usesDefault && !versions.count("")) {
    error = "names no opset for ONNX's own operators: it is not a valid ONNX model";
    return false;
  }
  return true;
}

} // namespace ztc::importer
