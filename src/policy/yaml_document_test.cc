#include "policy/yaml_document.h"

#include <string>

#include <gtest/gtest.h>

#include "policy/map_reader.h"

namespace spillway {
namespace {

std::vector<Finding> findings_of(std::string_view text) {
  std::vector<Finding> findings;
  parse_yaml(text, "f.yaml", findings);
  return findings;
}

TEST(YamlDocument, ARepeatedKeyIsRefusedWithBothLines) {
  const auto findings =
      findings_of("limits:\n  max_tokens: 4096\n  queue: 10\n  max_tokens: 262144\n");

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].line, 4);
  EXPECT_NE(findings[0].problem.find("first on line 2"), std::string::npos);
}

TEST(YamlDocument, PlainWordsAreTextAndOnlyTrueAndFalseAreFlags) {
  std::vector<Finding> errors;
  const YamlNode document = parse_yaml(
      "NO: 1\nfallback: off\ntenant: no\nname: y\nmodel: on\ngood: true\n", "f.yaml", errors);
  ASSERT_TRUE(errors.empty());
  Reading reading{"f.yaml", errors, nullptr};
  {
    MapReader reader(reading, document, "");
    std::string text;
    reader.text("tenant", text);
    EXPECT_EQ(text, "no");
    reader.text("name", text);
    EXPECT_EQ(text, "y");
    reader.text("model", text);
    EXPECT_EQ(text, "on");
    reader.text("NO", text);
    bool flag = false;
    reader.flag("good", flag);
    EXPECT_TRUE(flag);
    EXPECT_TRUE(errors.empty());
    reader.flag("fallback", flag);
  }
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].line, 2);
}

TEST(YamlDocument, AliasesAreRefusedAndNothingExpands) {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'z'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 9; ++i) {
      bomb += std::string(i > 0 ? "," : "") + "*" + static_cast<char>(c - 1);
    }
    bomb += "]\n";
  }
  for (const std::string& text :
       {std::string("&x\n- *x\n"), bomb, std::string("a: *undefined\n")}) {
    EXPECT_FALSE(findings_of(text).empty());
  }
}

// yaml-cpp 0.7 gives empty values for ever on some texts with an unfinished flow or block.
TEST(YamlDocument, NoTextMakesItGiveValuesForEver) {
  const std::string controls(60, '\x0f');
  for (const std::string& text :
       {"replicas:\n      -" + controls + "heduling: true\n   ,default: 773\n    ma" + controls +
            "\r" + controls + "x:0\n 2000\n",
        std::string("a: [") + std::string(300'000, ','), "- " + std::string(20'000, '-') + "\n",
        std::string(5000, '[')}) {
    EXPECT_LE(findings_of(text).size(), 201U);
  }
}

}  // namespace
}  // namespace spillway
