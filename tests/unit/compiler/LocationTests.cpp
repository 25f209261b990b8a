// Locations are names: scopeOf and layerOf.
#include "compiler/Support/Location.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace mlir;

TEST(Location, LayerIsTheNumberBehindLayersOrH) {
  EXPECT_EQ(ztc::layerOf("model.layers.3.self_attn.q_proj"), 3);
  EXPECT_EQ(ztc::layerOf("layers.12"), 12);
  EXPECT_EQ(ztc::layerOf("transformer.h.7.mlp"), 7);
  EXPECT_EQ(ztc::layerOf("/model/layers.4/mlp/Mul"), 4);
  EXPECT_EQ(ztc::layerOf("model.embed_tokens.weight"), -1);
  EXPECT_EQ(ztc::layerOf("model.layers.norm"), -1);
  EXPECT_EQ(ztc::layerOf("sublayers.3"), -1);
  EXPECT_EQ(ztc::layerOf(""), -1);
}

TEST(Location, ScopeIsTheFirstNameOfALocation) {
  MLIRContext context;
  Location unknown = UnknownLoc::get(&context), file = FileLineColLoc::get(&context, "model.onnx", 1, 2);
  Location block = NameLoc::get(StringAttr::get(&context, "model.layers.5.mlp"), file);
  EXPECT_EQ(ztc::scopeOf(unknown), "");
  EXPECT_EQ(ztc::scopeOf(file), "");
  EXPECT_EQ(ztc::scopeOf(block), "model.layers.5.mlp");
  EXPECT_EQ(ztc::scopeOf(FusedLoc::get(&context, {unknown, block})), "model.layers.5.mlp");
  EXPECT_EQ(ztc::scopeOf(CallSiteLoc::get(block, file)), "model.layers.5.mlp");
  EXPECT_EQ(ztc::layerOf(FusedLoc::get(&context, {file, block})), 5);
  EXPECT_EQ(ztc::layerOf(unknown), -1);
}
