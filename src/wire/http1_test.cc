#include "wire/http1.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

RequestHead good(std::string_view text) {
  auto parsed = parse_request_head(text, {});
  EXPECT_TRUE(std::holds_alternative<RequestHead>(parsed)) << std::get<HttpError>(parsed).message;
  return std::get<RequestHead>(parsed);
}

TEST(RequestHead, IsReadInPlace) {
  const RequestHead head = good(
      "POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: "
      "12\r\nX-Spillway-Class:  high \r\n\r\n");

  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/chat/completions");
  EXPECT_EQ(head.framing.kind, BodyFraming::Kind::kLength);
  EXPECT_EQ(head.framing.length, 12U);
  EXPECT_EQ(find_field(head.fields, "x-spillway-class"), "high");
  EXPECT_TRUE(head.keep_alive);
}

TEST(RequestHead, KnowsWhenTheConnectionStaysOpen) {
  EXPECT_FALSE(good("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n").keep_alive);
  EXPECT_FALSE(good("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(good("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

TEST(RequestHead, ReadsAbsoluteForms) {
  EXPECT_EQ(good("GET http://h:1/v1/models?a HTTP/1.1\r\nHost: h\r\n\r\n").path, "/v1/models");
  EXPECT_EQ(good("GET http://h:1 HTTP/1.1\r\nHost: h\r\n\r\n").path, "/");
}

TEST(RequestHead, RefusesWhatTwoReadersCouldTakeDifferently) {
  struct Case {
    const char* name;
    std::string text;
    int status;
  };
  const std::string line = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::vector<Case> cases = {
      {"two lengths", line + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
      {"conflicting lengths", line + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {"list of lengths", line + "Content-Length: 5, 5\r\n\r\n", 400},
      {"signed length", line + "Content-Length: +5\r\n\r\n", 400},
      {"empty length", line + "Content-Length:\r\n\r\n", 400},
      {"huge length", line + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"length and chunked", line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"chunked twice", line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"unknown coding", line + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"obscured coding", line + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"blank before colon", line + "Content-Length : 5\r\n\r\n", 400},
      {"folded line", line + "X: a\r\n b\r\n\r\n", 400},
      {"bare LF", "POST / HTTP/1.1\nHost: a\n\n", 400},
      {"bare LF after a field", line + "X: a\n\r\n", 400},
      {"bare CR", line + "X: a\rb\r\n\r\n", 400},
      {"NUL in a value", line + std::string("X: a\0b\r\n\r\n", 10), 400},
      {"no colon", line + "nonsense\r\n\r\n", 400},
      {"empty name", line + ": x\r\n\r\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", line + "Host: b\r\n\r\n", 400},
      {"chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
      {"two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"odd method", "G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"other expectation", line + "Expect: gold\r\n\r\n", 417},
  };

  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto parsed = parse_request_head(c.text, {});

    ASSERT_TRUE(std::holds_alternative<HttpError>(parsed));
    EXPECT_EQ(std::get<HttpError>(parsed).status, c.status);
  }
}

TEST(RequestHead, HasLimits) {
  const std::string line = "GET / HTTP/1.1\r\nHost: a\r\n";
  std::string many = line;
  for (int i = 0; i < 200; ++i) {
    many += "X: y\r\n";
  }

  EXPECT_EQ(std::get<HttpError>(parse_request_head(many + "\r\n", {})).status, 431);
  EXPECT_EQ(std::get<HttpError>(parse_request_head(line + "\r\n", {.bytes = 10})).status, 431);
}

TEST(FindHeadEnd, IsFoundWhereverTheReadsAreCut) {
  const std::string text = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
  for (std::size_t searched = 0; searched < text.size() - 5; ++searched) {
    EXPECT_EQ(find_head_end(text, searched), text.size() - 4) << searched;
  }
  EXPECT_FALSE(find_head_end("GET / HTTP/1.1\r\nHost: a\r\n\r", 0));
}

TEST(ResponseHead, KnowsItsBody) {
  struct Case {
    const char* text;
    BodyFraming::Kind kind;
    bool keep_alive;
  };
  for (const Case& c :
       {Case{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", BodyFraming::Kind::kLength, true},
        Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", BodyFraming::Kind::kChunked,
             true},
        Case{"HTTP/1.1 200 OK\r\n\r\n", BodyFraming::Kind::kUntilClose, false},
        Case{"HTTP/1.1 204 No Content\r\n\r\n", BodyFraming::Kind::kNone, true},
        Case{"HTTP/1.1 200 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
             BodyFraming::Kind::kNone, false},
        Case{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n",
             BodyFraming::Kind::kLength, true},
        Case{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
             BodyFraming::Kind::kChunked, false}}) {
    SCOPED_TRACE(c.text);
    const auto parsed = parse_response_head(c.text, {});

    ASSERT_TRUE(std::holds_alternative<ResponseHead>(parsed));
    EXPECT_EQ(std::get<ResponseHead>(parsed).framing.kind, c.kind);
    EXPECT_EQ(std::get<ResponseHead>(parsed).keep_alive, c.keep_alive);
  }
}

// Decodes a body that arrives in pieces of the given sizes.
std::string decode_all(BodyDecoder& decoder, std::string_view bytes, Rng& rng,
                       std::size_t piece_max) {
  std::string payload;
  std::string pending;
  while (!bytes.empty() || !pending.empty()) {
    const std::size_t n = std::min<std::size_t>(bytes.size(), 1 + rng.below(piece_max));
    pending.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    bool moved = true;
    while (moved && !decoder.done()) {
      auto step = decoder.decode(pending);
      if (std::holds_alternative<HttpError>(step)) {
        return "error";
      }
      const auto& piece = std::get<BodyDecoder::Piece>(step);
      payload.append(piece.payload);
      moved = piece.consumed > 0;
      pending.erase(0, piece.consumed);
    }
    if (decoder.done() || bytes.empty()) {
      break;
    }
  }
  return payload;
}

TEST(BodyDecoder, ReadsChunksWhereverTheReadsAreCut) {
  const std::string body =
      "5;ext=\"a\"\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    BodyDecoder decoder({BodyFraming::Kind::kChunked});

    EXPECT_EQ(decode_all(decoder, body, rng, 1 + static_cast<std::size_t>(round) % 9),
              "hello 0123456789");
    EXPECT_TRUE(decoder.done());
  }
}

TEST(BodyDecoder, LeavesTheNextMessageAlone) {
  BodyDecoder decoder({BodyFraming::Kind::kLength, 3});

  const auto piece = std::get<BodyDecoder::Piece>(decoder.decode("abcGET /"));

  EXPECT_EQ(piece.payload, "abc");
  EXPECT_EQ(piece.consumed, 3U);
  EXPECT_TRUE(piece.done);
}

TEST(BodyDecoder, RefusesMalformedChunks) {
  for (const char* body :
       {"5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "x\r\n", "-1\r\n", "0x5\r\nhello\r\n",
        "\r\n", "fffffffffffffffff\r\n", "5 6\r\nhello\r\n"}) {
    SCOPED_TRACE(body);
    BodyDecoder decoder({BodyFraming::Kind::kChunked});
    Rng rng(1);

    EXPECT_EQ(decode_all(decoder, body, rng, 100), "error");
  }
}

TEST(BodyDecoder, BoundsALineThatNeverEnds) {
  BodyDecoder decoder({BodyFraming::Kind::kChunked});

  EXPECT_TRUE(std::holds_alternative<HttpError>(decoder.decode(std::string(5000, '1'))));
}

TEST(AppendChunk, WritesNothingForNothing) {
  std::string out;

  append_chunk(out, "");
  append_chunk(out, "hello world, this");

  EXPECT_EQ(out, "11\r\nhello world, this\r\n");
}

}  // namespace
}  // namespace spillway
