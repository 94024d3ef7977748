// Strict with strangers: everything that lets two readers disagree about where a message ends is
// refused and the connection closed (RFC 9112, sections 2.2, 5, 6, 11.2), and nothing behind it is
// ever taken for a request.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "session/session.h"

namespace spillway {
namespace {

constexpr const char* kSmuggled = "GET /livez HTTP/1.1\r\nHost: smuggled\r\n\r\n";

struct Answers {
  std::string bytes;
  std::vector<RequestRecord> records;
  bool closed = false;
  int engines = 0;
};

class StrictnessTest : public testing::Test {
 protected:
  StrictnessTest() : services_(1) {
    Snapshot snapshot;
    snapshot.policy = std::make_shared<const Policy>();
    PoolConfig pool;
    pool.name = "chat";
    pool.models = {"m"};
    pool.replicas = {{{"127.0.0.1", 8000}}};
    snapshot.config.pools = {pool};
    services_.pools.apply(snapshot.config, snapshot.policy);
    services_.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  }

  // Feeds the bytes in reads of `size`.
  Answers send(const std::string& bytes, std::size_t size = 100'000) {
    Session session(services_, Instant());
    Answers out;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      session.feed(Side::kCaller, std::string_view(bytes).substr(at, size), Instant());
    }
    for (Effect& effect : session.take_effects()) {
      if (const auto* ended = std::get_if<RequestEnded>(&effect)) {
        out.records.push_back(ended->record);
      }
      out.closed = out.closed || std::holds_alternative<CloseCaller>(effect);
      out.engines += std::holds_alternative<ConnectEngine>(effect) ? 1 : 0;
    }
    out.bytes = session.output(Side::kCaller);
    return out;
  }

  static int status_of(const Answers& answers) {
    return answers.bytes.size() < 12 ? 0 : std::atoi(answers.bytes.c_str() + 9);
  }

  Services services_;
};

TEST_F(StrictnessTest, RefusesEveryDoubtAboutWhereAMessageEnds) {
  struct Case {
    const char* name;
    std::string head;
    int status;
  };
  const std::string post = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n";
  const std::vector<Case> cases = {
      {"two lengths", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
      {"two different lengths", post + "Content-Length: 5\r\ncontent-length: 50\r\n\r\n", 400},
      {"a list of lengths", post + "Content-Length: 5, 5\r\n\r\n", 400},
      {"a signed length", post + "Content-Length: +5\r\n\r\n", 400},
      {"a negative length", post + "Content-Length: -1\r\n\r\n", 400},
      {"a hexadecimal length", post + "Content-Length: 0x5\r\n\r\n", 400},
      {"a length beyond 64 bits", post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"an empty length", post + "Content-Length:\r\n\r\n", 400},
      {"CL.TE", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"TE.CL", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
      {"TE twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"TE.TE, hidden", post + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"TE of two codings", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"TE with a control character",
       post + "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n",
       400},
      {"TE in HTTP/1.0", "POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"blank before the colon", post + "Content-Length : 5\r\n\r\n", 400},
      {"folded line", post + "Content-Length: 5\r\n X: y\r\n\r\n", 400},
      {"bare LF", "POST /v1/completions HTTP/1.1\nHost: a\nContent-Length: 5\n\n", 400},
      {"one bare LF", "POST /v1/completions HTTP/1.1\r\nHost: a\nContent-Length: 5\r\n\r\n", 400},
      {"bare CR", "POST /v1/completions HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400},
      {"NUL in a value", post + std::string("X: a\0b\r\n\r\n", 10), 400},
      {"no name", post + ": x\r\n\r\n", 400},
      {"no colon", post + "nonsense\r\n\r\n", 400},
      {"blank in the name", post + "X Y: z\r\n\r\n", 400},
      {"no Host", "GET /livez HTTP/1.1\r\n\r\n", 400},
      {"two Hosts", "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"blank in the target", "GET /livez /x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"HTTP/0.9", "GET /livez\r\n\r\n", 400},
      {"a method that is no token", "GE(T /livez HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"an expectation that we do not know", post + "Expect: tea\r\n\r\n", 417},
      {"too many lines",
       [&] {
         std::string head = post;
         for (int i = 0; i < 200; ++i) {
           head += "X-" + std::to_string(i) + ": y\r\n";
         }
         return head + "\r\n";
       }(),
       431},
      {"a line without an end", "GET /livez HTTP/1.1\r\nHost: " + std::string(40'000, 'a'), 431},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    for (const std::size_t size : {100'000U, 1U}) {
      const Answers answers = send(c.head + kSmuggled, size);

      EXPECT_EQ(status_of(answers), c.status) << answers.bytes;
      EXPECT_TRUE(answers.closed);
      EXPECT_EQ(answers.records.size(), 1U);
      EXPECT_EQ(answers.engines, 0);
      EXPECT_EQ(answers.bytes.find("\r\n\r\nok\n"), std::string::npos);
    }
  }
}

TEST_F(StrictnessTest, RefusesBrokenChunks) {
  const std::string head =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body :
       {"zz\r\n", "-1\r\nx\r\n", "ffffffffffffffffff\r\n", "5\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n"}) {
    SCOPED_TRACE(body);
    const Answers answers = send(head + body + kSmuggled);

    EXPECT_EQ(status_of(answers), 400) << answers.bytes;
    EXPECT_TRUE(answers.closed);
    EXPECT_EQ(answers.records.size(), 1U);
  }
}

TEST_F(StrictnessTest, SkipsExtensionsAndTrailersOfChunksWithinLimits) {
  const std::string head =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
      "Trailer: X-Sum\r\n\r\n";
  const std::string rest = R"(el":"m","messages":[{"role":"user","content":"hello there"}]}     )";
  std::string second;
  append_chunk(second, rest);
  const std::string chunks = "5 ;ext=1\r\n{\"mod\r\n" + second + "0\r\nX-Sum: 1\r\n\r\n";
  const Answers good = send(head + chunks);
  EXPECT_EQ(good.engines, 1) << good.bytes;

  const Answers endless = send(head + "1;" + std::string(20'000, 'x') + "\r\n");
  EXPECT_EQ(status_of(endless), 400);
  const Answers trailers = send(head + "0\r\nX: " + std::string(40'000, 'x'));
  EXPECT_EQ(status_of(trailers), 400);
}

TEST_F(StrictnessTest, AcceptsWhatIsAllowed) {
  struct Case {
    const char* name;
    std::string bytes;
  };
  for (const Case& c : std::vector<Case>{
           {"names of any case",
            "GET /livez HTTP/1.1\r\nhOsT: a\r\nCONNECTION: Keep-Alive\r\n\r\n"},
           {"absolute form", "GET http://a:80/livez?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"},
           {"empty lines before", "\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n"},
           {"HTTP/1.0 without Host", "GET /livez HTTP/1.0\r\n\r\n"},
           {"blanks around values", "GET /livez HTTP/1.1\r\nHost: \t a \t\r\nX:\r\n\r\n"},
           {"length zero", "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"},
       }) {
    SCOPED_TRACE(c.name);
    for (const std::size_t size : {100'000U, 1U}) {
      const Answers answers = send(c.bytes, size);
      EXPECT_EQ(status_of(answers), 200) << answers.bytes;
      EXPECT_EQ(answers.records.size(), 1U);
    }
  }
}

TEST_F(StrictnessTest, SaysContinueOnlyWhenABodyIsWanted) {
  const Answers wanted = send(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: "
      "2\r\n\r\n");
  EXPECT_EQ(wanted.bytes, "HTTP/1.1 100 Continue\r\n\r\n");
  const Answers large = send(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: "
      "99999999\r\n\r\n");
  EXPECT_EQ(status_of(large), 413);
}

// Any bytes at all: it never does more than answer, and every answer is one record.
TEST_F(StrictnessTest, MutatedRequestsAreAnsweredOrWaitedFor) {
  const std::string base =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\n{}\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
  Rng rng(11);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = base;
    for (int edits = 0; edits < 3; ++edits) {
      const auto at = static_cast<std::size_t>(rng.uniform() * static_cast<double>(bytes.size()));
      const double what = rng.uniform();
      if (what < 0.4) {
        bytes[at] = static_cast<char>(rng.next() & 0xffU);
      } else if (what < 0.7) {
        bytes.erase(at, 1);
      } else {
        bytes.insert(at, 1, "\r\n: ,;0aG"[rng.next() % 9]);
      }
    }
    const Answers answers = send(bytes, 1 + static_cast<std::size_t>(rng.uniform() * 40));
    std::size_t statuses = 0;
    for (std::size_t at = 0;
         (at = answers.bytes.find("\r\nx-request-id: ", at)) != std::string::npos; ++at) {
      ++statuses;
    }
    ASSERT_EQ(statuses, answers.records.size()) << bytes << "\n----\n" << answers.bytes;
  }
}

}  // namespace
}  // namespace spillway
