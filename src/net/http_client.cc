#include "net/http_client.h"

#include <algorithm>
#include <array>
#include <optional>

#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "net/tcp_stream.h"
#include "wire/http1.h"

namespace spillway {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return out;
}

}  // namespace

std::string_view HttpReply::field(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) {
      return value;
    }
  }
  return {};
}

class HttpCallHandle : public std::enable_shared_from_this<HttpCallHandle> {
 public:
  HttpCallHandle(boost::asio::io_context& io, HttpCall call, HttpCallEvents events)
      : io_(io), timer_(io), call_(std::move(call)), events_(std::move(events)) {}

  void start() {
    timer_.expires_after(call_.timeout);
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code stopped) {
      const auto self = weak.lock();
      if (self && !stopped) {
        self->finish(Error{ErrorCode::kTimeout, "no whole answer in time"});
      }
    });
    TcpStream::connect(
        io_, call_.address, [weak = weak_from_this()](Result<std::unique_ptr<TcpStream>> made) {
          const auto self = weak.lock();
          if (!self || self->ended_) {
            return;
          }
          if (!made) {
            self->finish(Error{ErrorCode::kUnavailable, "connect: " + made.error().message});
            return;
          }
          self->stream_ = *std::move(made);
          self->write_request();
        });
  }

  void drop() {
    ended_ = true;
    timer_.cancel();
    if (stream_) {
      stream_->close();
    }
    events_ = {};
  }

 private:
  void write_request() {
    out_ = fmt::format("{} {} HTTP/1.1\r\nhost: {}\r\n", call_.method, call_.path, call_.address);
    for (const auto& [name, value] : call_.fields) {
      append_field(out_, name, value);
    }
    if (!call_.body.empty() || call_.method == "POST") {
      append_field(out_, "content-length", std::to_string(call_.body.size()));
    }
    append_field(out_, "connection", "close");
    out_.append("\r\n").append(call_.body);
    flush();
    read();
  }

  void flush() {
    while (stream_ && sent_ < out_.size()) {
      const auto put = stream_->send(std::string_view(out_).substr(sent_));
      if (put.state == TcpStream::State::kClosed) {
        return;  // the reading side says why
      }
      sent_ += put.bytes;
      if (put.state == TcpStream::State::kWouldBlock) {
        stream_->when_writable([self = shared_from_this()] { self->flush(); });
        return;
      }
    }
  }

  void read() {
    stream_->when_readable([self = shared_from_this()] { self->readable(); });
  }

  void readable() {
    std::array<char, 64 * 1024> buffer;
    const auto got = stream_->receive(buffer);
    if (got.state == TcpStream::State::kClosed) {
      const bool whole = decoder_ && (decoder_->done() || decoder_->ends_with_close());
      finish(whole ? Status(Ok{}) : Error{ErrorCode::kUnavailable, "the connection was cut"});
      return;
    }
    in_.append(buffer.data(), got.bytes);
    if (!take()) {
      return;
    }
    read();
  }

  // False when the call has ended.
  bool take() {
    const auto self = shared_from_this();
    if (!decoder_) {
      const auto end = find_head_end(in_, 0);
      if (!end) {
        return true;
      }
      auto parsed =
          parse_response_head(std::string_view(in_).substr(0, *end), {}, call_.method == "HEAD");
      if (const auto* error = std::get_if<HttpError>(&parsed)) {
        finish(Error{ErrorCode::kUnavailable, error->message});
        return false;
      }
      const auto& head = std::get<ResponseHead>(parsed);
      HttpReply reply{.status = head.status};
      for (const HeaderField& field : head.fields) {
        reply.fields.emplace_back(lower(field.name), std::string(field.value));
      }
      decoder_.emplace(head.framing);
      in_.erase(0, *end);
      if (events_.head) {
        events_.head(reply);
      }
    }
    while (!ended_ && !decoder_->done()) {
      auto step = decoder_->decode(in_);
      if (const auto* error = std::get_if<HttpError>(&step)) {
        finish(Error{ErrorCode::kUnavailable, error->message});
        return false;
      }
      const auto& piece = std::get<BodyDecoder::Piece>(step);
      if (piece.consumed == 0) {
        return true;
      }
      if (!piece.payload.empty() && events_.piece) {
        events_.piece(piece.payload);
      }
      in_.erase(0, piece.consumed);
    }
    if (!ended_) {
      finish(Ok{});
    }
    return false;
  }

  void finish(Status status) {
    if (ended_) {
      return;
    }
    const auto self = shared_from_this();
    auto end = std::move(events_.end);
    drop();
    if (end) {
      end(std::move(status));
    }
  }

  boost::asio::io_context& io_;
  boost::asio::steady_timer timer_;
  HttpCall call_;
  HttpCallEvents events_;
  std::unique_ptr<TcpStream> stream_;
  std::string out_;
  std::size_t sent_ = 0;
  std::string in_;
  std::optional<BodyDecoder> decoder_;
  bool ended_ = false;
};

HttpCallPtr start_call(boost::asio::io_context& io, HttpCall call, HttpCallEvents events) {
  auto handle = std::make_shared<HttpCallHandle>(io, std::move(call), std::move(events));
  handle->start();
  return handle;
}

void drop_call(const HttpCallPtr& call) {
  if (call) {
    call->drop();
  }
}

HttpCallPtr fetch(boost::asio::io_context& io, HttpCall call, std::size_t bytes_max,
                  std::function<void(Result<HttpReply>)> done) {
  struct Gathered {
    HttpReply reply;
    HttpCallPtr call;
    bool too_large = false;
  };
  const auto gathered = std::make_shared<Gathered>();
  HttpCallEvents events;
  events.head = [gathered](const HttpReply& head) { gathered->reply = head; };
  events.piece = [gathered, bytes_max](std::string_view piece) {
    gathered->too_large =
        gathered->too_large || gathered->reply.body.size() + piece.size() > bytes_max;
    if (!gathered->too_large) {
      gathered->reply.body.append(piece);
    }
  };
  events.end = [gathered, done = std::move(done)](Status status) {
    gathered->call.reset();
    if (!status) {
      done(status.error());
    } else if (gathered->too_large) {
      done(Error{ErrorCode::kTooLarge, "the answer is too large"});
    } else {
      done(std::move(gathered->reply));
    }
  };
  gathered->call = start_call(io, std::move(call), std::move(events));
  return gathered->call;
}

Result<HttpUrl> parse_http_url(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    return Error{
        ErrorCode::kInvalid,
        fmt::format("\"{}\" is not a plain HTTP address; give http://HOST:PORT/PATH", url)};
  }
  url.remove_prefix(kScheme.size());
  const std::size_t slash = url.find('/');
  HttpUrl out{std::string(url.substr(0, slash)),
              slash == std::string_view::npos ? "/" : std::string(url.substr(slash))};
  const std::size_t bracket = out.address.rfind(']');
  if (out.address.find(':', bracket == std::string::npos ? 0 : bracket) == std::string::npos) {
    out.address += ":80";
  }
  return out;
}

}  // namespace spillway
