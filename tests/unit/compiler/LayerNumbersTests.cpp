// Which parameters are of which transformer block, also where lists of blocks have names of their own.
#include "frontends/onnx/LayerNumbers.h"
#include "gmock/gmock.h"

using testing::Each;
using testing::ElementsAre;
using ztc::importer::layersOf;
using ztc::importer::NamedShape;

namespace ztc::test {
namespace {

constexpr int64_t kMatrix[] = {8, 8}, kVector[] = {8}, kWide[] = {100, 8};

TEST(LayerNumbers, NamesOfListsThatAreKnown) {
  EXPECT_THAT(layersOf({{"wte.weight", kWide}, {"blocks.0.w", kMatrix}, {"blocks.1.w", kMatrix}, {"head.0.w", kWide}}),
              ElementsAre(-1, 0, 1, -1));
}

TEST(LayerNumbers, AListOfAnyNameWhoseMembersHaveMatrices) {
  EXPECT_THAT(layersOf({{"embed.weight", kWide},
                        {"body.stack.0.attention.q.weight", kMatrix},
                        {"body.stack.0.attention.o.weight", kMatrix},
                        {"body.stack.0.norm.weight", kVector},
                        {"body.stack.1.attention.q.weight", kMatrix},
                        {"body.stack.1.attention.o.weight", kMatrix},
                        {"body.stack.1.norm.weight", kVector},
                        {"out.0.weight", kVector},
                        {"out.1.weight", kWide},
                        {"out.2.weight", kWide}}),
              ElementsAre(-1, 0, 0, 0, 1, 1, 1, -1, -1, -1));
}

TEST(LayerNumbers, ListsSideBySide) {
  EXPECT_THAT(layersOf({{"attentions.0.q", kMatrix},
                        {"attentions.0.o", kMatrix},
                        {"attentions.1.q", kMatrix},
                        {"attentions.1.o", kMatrix},
                        {"norms.0.weight", kVector},
                        {"norms.1.weight", kVector},
                        {"feeds.0.w", kMatrix},
                        {"feeds.1.w", kMatrix},
                        {"feeds.2.w", kMatrix}}),
              ElementsAre(0, 0, 1, 1, 0, 1, -1, -1, -1));
}

TEST(LayerNumbers, NoListOfBlocks) {
  // Experts stand side by side; a Sequential has a matrix a member; a list without its second member is none.
  EXPECT_THAT(layersOf({{"experts.0.up", kMatrix},
                        {"experts.0.down", kMatrix},
                        {"experts.1.up", kMatrix},
                        {"experts.1.down", kMatrix}}),
              Each(-1));
  EXPECT_THAT(
      layersOf(
          {{"net.0.weight", kMatrix}, {"net.0.bias", kVector}, {"net.1.weight", kMatrix}, {"net.1.bias", kVector}}),
      Each(-1));
  EXPECT_THAT(
      layersOf({{"part.0.up", kMatrix}, {"part.0.down", kMatrix}, {"part.2.up", kMatrix}, {"part.2.down", kMatrix}}),
      Each(-1));
  EXPECT_THAT(layersOf({}), ElementsAre());
}

} // namespace
} // namespace ztc::test
