#include "runtime/Device/host/OneDnn.h"
#include "runtime/Device/host/Matmul.h"
#include <filesystem>
#include <gtest/gtest.h>

namespace ztc {
namespace {

size_t threadsOfThisProcess() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return size_t(std::distance(begin(tasks), end(tasks)));
}

TEST(OneDnn, MissingLibraryNamesTheRemedy) {
  OneDnn library;
  Status status = library.open("/nonexistent/libdnnl.so.2");
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  const std::string &message = status.message();
  EXPECT_NE(message.find("/nonexistent/libdnnl.so.2"), std::string::npos) << message;
  EXPECT_NE(message.find("apt-get install libdnnl2"), std::string::npos) << message;
}

TEST(OneDnn, StartsNoThreadsOfItsOwn) {
  auto library = OneDnn::load("");
  ASSERT_TRUE(library.isOk()) << library.status().message();
  MatmulCache cache(**library, 2);
  ThreadPool pool(2);
  size_t before = threadsOfThisProcess();
  MatmulProblem problem;
  problem.m = problem.n = problem.k = problem.lda = problem.ldb = problem.ldc = 384;
  auto product = ParallelMatmul::prepare(cache, problem);
  ASSERT_TRUE(product.isOk()) << product.status().message();
  std::vector<float> a(384 * 384, 1), b(384 * 384, 2), c(384 * 384, 0);
  ASSERT_TRUE(product->execute(pool, a.data(), b.data(), c.data()).isOk());
  EXPECT_EQ(c[0], 768);
  EXPECT_EQ(c.back(), 768);
  EXPECT_EQ(threadsOfThisProcess(), before);
}

TEST(OneDnn, ShapesOfModelsGetFastImplementations) {
  auto library = OneDnn::load("");
  ASSERT_TRUE(library.isOk()) << library.status().message();
  MatmulCache cache(**library, 1);
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (bool add : {false, true})
        for (uint64_t m : {1, 256, 77}) {
          MatmulProblem problem;
          problem.m = m;
          problem.n = 128;
          problem.k = 64;
          problem.lda = 1024;
          problem.ldb = 640;
          problem.ldc = 2064;
          problem.transposeA = transposeA;
          problem.transposeB = transposeB;
          problem.add = add;
          problem.alpha = 0.125f;
          auto matmul = cache.get(problem);
          ASSERT_TRUE(matmul.isOk()) << matmul.status().message();
          EXPECT_EQ((*matmul)->implementation().find("ref"), std::string::npos)
              << (*matmul)->implementation() << " m " << m << " transposes " << transposeA << transposeB << " add "
              << add;
        }
}

TEST(OneDnn, EqualProblemsShareAPrimitive) {
  auto library = OneDnn::load("");
  ASSERT_TRUE(library.isOk());
  MatmulCache cache(**library, 1);
  MatmulProblem problem;
  problem.m = problem.n = problem.k = problem.lda = problem.ldb = problem.ldc = 32;
  auto first = cache.get(problem), second = cache.get(problem);
  problem.add = true;
  auto third = cache.get(problem);
  ASSERT_TRUE(first.isOk() && second.isOk() && third.isOk());
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *third);
}

} // namespace
} // namespace ztc
