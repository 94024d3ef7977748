#include "wire/prometheus_text.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(PrometheusText, ReadsSamplesOfEveryForm) {
  const PrometheusPage page = parse_prometheus_text(
      "# HELP a x\n# TYPE a counter\n"
      "a 1\n"
      "b{x=\"1\",y=\"q\\\"u\\\\o\\nt\"} 2.5e3\r\n"
      "  c { x = \"1\" , } -0.5 1395066363000\n"
      "d NaN\ne +Inf\nf -Inf\n"
      "g 1 # {trace_id=\"x\"} 0.5\n"
      "{\"odd.name\",x=\"1\"} 3\n"
      "# EOF\n");

  ASSERT_EQ(page.samples.size(), 8U);
  EXPECT_EQ(page.unreadable_lines, 0);
  EXPECT_EQ(page.first("b")->label("y"), "q\"u\\o\nt");
  EXPECT_DOUBLE_EQ(page.first("b")->value, 2500);
  EXPECT_DOUBLE_EQ(page.first("c")->value, -0.5);
  EXPECT_TRUE(std::isnan(page.first("d")->value));
  EXPECT_TRUE(std::isinf(page.first("f")->value));
  EXPECT_DOUBLE_EQ(page.first("odd.name")->value, 3);
  EXPECT_EQ(page.first("nowhere"), nullptr);
}

TEST(PrometheusText, SkipsLinesThatItCanNotRead) {
  const PrometheusPage page =
      parse_prometheus_text("a{x=\"1\" 2\nb\nc x\n{} 1\nd{x=1} 1\ngood 1\ne{x=\"1");

  EXPECT_EQ(page.samples.size(), 1U);
  EXPECT_EQ(page.unreadable_lines, 6);
}

TEST(PrometheusWriter, WritesWhatTheReaderReads) {
  PrometheusWriter writer;
  writer.family("x_total", "counter", "Things\nseen.");
  writer.sample("x_total", {{"class", "a\"b\\c\nd"}}, 3);
  const std::array<double, 2> bounds = {0.1, 1};
  const std::array<std::uint64_t, 3> counts = {1, 2, 4};
  writer.family("h", "histogram", "Times.");
  writer.histogram("h", {}, bounds, counts, 9.5);

  const PrometheusPage page = parse_prometheus_text(writer.text());

  EXPECT_EQ(page.unreadable_lines, 0);
  EXPECT_EQ(page.first("x_total")->label("class"), "a\"b\\c\nd");
  EXPECT_EQ(page.samples[2].label("le"), "1");
  EXPECT_DOUBLE_EQ(page.samples[2].value, 3);
  EXPECT_DOUBLE_EQ(page.first("h_count")->value, 7);
  EXPECT_NE(writer.text().find("# HELP x_total Things\\nseen.\n# TYPE x_total counter\n"),
            std::string::npos);
}

}  // namespace
}  // namespace spillway
