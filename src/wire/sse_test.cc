#include "wire/sse.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

struct Seen {
  std::string raw;
  std::vector<std::string> data;
};

Seen scan(std::string_view bytes, Rng& rng, std::size_t piece_max) {
  SseScanner scanner(1 << 20);
  Seen seen;
  while (!bytes.empty()) {
    const std::size_t n = std::min<std::size_t>(bytes.size(), 1 + rng.below(piece_max));
    EXPECT_TRUE(scanner
                    .feed(bytes.substr(0, n),
                          [&](const SseEvent& event) {
                            seen.raw.append(event.raw);
                            if (event.has_data) {
                              seen.data.emplace_back(event.data);
                            }
                          })
                    .ok());
    bytes.remove_prefix(n);
  }
  seen.raw.append(scanner.rest());
  return seen;
}

TEST(SseScanner, GivesTheSameEventsWhereverTheReadsAreCut) {
  struct Case {
    const char* name;
    std::string bytes;
    std::vector<std::string> data;
  };
  const std::vector<Case> cases = {
      {"LF", "data: a\n\ndata: b\n\n", {"a", "b"}},
      {"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", {"a", "b"}},
      {"CR", "data: a\r\rdata: b\r\r", {"a", "b"}},
      {"no blank", "data:a\n\n", {"a"}},
      {"two blanks", "data:  a\n\n", {" a"}},
      {"comment", ": ping\n\ndata: a\n\n", {"a"}},
      {"comment beside data", ": x\ndata: a\n\n", {"a"}},
      {"lines", "data: a\ndata: b\n\n", {"a\nb"}},
      {"other fields", "event: x\nid: 7\nretry: 10\ndata: a\n\n", {"a"}},
      {"bare data", "data\n\n", {""}},
      {"similar name", "database: a\n\n", {}},
      {"empty lines between", "\n\ndata: a\n\n\n\n", {"a"}},
      {"unfinished", "data: a\n\ndata: b\n", {"a"}},
      {"characters of several bytes", "data: ok 你好 🙂\n\n", {"ok 你好 🙂"}},
      {"done", "data: {\"x\":1}\n\ndata: [DONE]\n\n", {"{\"x\":1}", "[DONE]"}},
  };

  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Rng rng(5);
    for (std::size_t piece_max : {1U, 2U, 3U, 7U, 1000U}) {
      for (int round = 0; round < 20; ++round) {
        const Seen seen = scan(c.bytes, rng, piece_max);

        EXPECT_EQ(seen.data, c.data);
        EXPECT_EQ(seen.raw, c.bytes);
      }
    }
  }
}

TEST(SseScanner, GivesAnEventAtOnceThatEndsInTwoCarriageReturns) {
  SseScanner scanner(100);
  int events = 0;

  EXPECT_TRUE(scanner.feed("data: x\r\r", [&](const SseEvent&) { ++events; }).ok());

  EXPECT_EQ(events, 1);
}

TEST(SseScanner, RefusesAnEventWithoutEnd) {
  SseScanner scanner(100);

  const Status status = scanner.feed("data: " + std::string(200, 'x'), [](const SseEvent&) {});

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace spillway
