#include "base/result.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace spillway {
namespace {

Result<std::string> echo(bool good) {
  if (!good) {
    return Error{ErrorCode::kInvalid, "page.yaml:3: bad"};
  }
  return std::string("fine");
}

TEST(Result, HoldsAValueOrAnErrorNeverBoth) {
  EXPECT_TRUE(echo(true).ok());
  EXPECT_EQ(*echo(true), "fine");
  ASSERT_FALSE(echo(false).ok());
  EXPECT_EQ(echo(false).error().message, "page.yaml:3: bad");
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));

  const std::unique_ptr<int> taken = *std::move(result);

  EXPECT_EQ(*taken, 7);
}

}  // namespace
}  // namespace spillway
