#include "net/http_server.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "wire/http1.h"
#include "wire/openai_error.h"

namespace spillway {
namespace {

constexpr std::size_t kReadAtOnce = 64 * 1024;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return out;
}

}  // namespace

std::string_view HttpRequest::field(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) {
      return value;
    }
  }
  return {};
}

class HttpServer::Connection : public HttpExchange,
                               public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServer& server, std::unique_ptr<TcpStream> stream)
      : server_(&server), stream_(std::move(stream)) {}

  void start() { wait_readable(); }

  void close() {
    if (!stream_) {
      return;
    }
    stream_->close();
    ended();
  }

  void respond(int status, std::string_view content_type, std::string_view body) override {
    if (!stream_ || !busy_ || streaming_) {
      return;
    }
    append_status_line(out_, status);
    append_field(out_, "content-type", content_type);
    append_field(out_, "content-length", std::to_string(body.size()));
    if (!keep_alive_) {
      append_field(out_, "connection", "close");
    }
    out_.append("\r\n").append(body);
    end_exchange();
  }

  void begin(int status, std::string_view content_type) override {
    if (!stream_ || !busy_ || streaming_) {
      return;
    }
    streaming_ = true;
    keep_alive_ = keep_alive_ && !http10_;
    append_status_line(out_, status);
    append_field(out_, "content-type", content_type);
    append_field(out_, "cache-control", "no-cache");
    if (!http10_) {
      append_field(out_, "transfer-encoding", "chunked");
    }
    if (!keep_alive_) {
      append_field(out_, "connection", "close");
    }
    out_.append("\r\n");
  }

  void write(std::string_view piece) override {
    if (!stream_ || !streaming_) {
      return;
    }
    if (http10_) {
      out_.append(piece);
    } else {
      append_chunk(out_, piece);
    }
    flush();
  }

  void finish() override {
    if (!stream_ || !streaming_) {
      return;
    }
    if (!http10_) {
      out_.append(kLastChunk);
    }
    end_exchange();
  }

  void cut() override {
    if (stream_) {
      stream_->abort();
      ended();
    }
  }

  void when_gone(std::function<void()> callback) override { gone_ = std::move(callback); }

 private:
  void wait_readable() {
    stream_->when_readable([self = shared_from_this()] { self->readable(); });
  }

  void readable() {
    std::array<char, kReadAtOnce> buffer;
    const auto got = stream_->receive(buffer);
    if (got.state == TcpStream::State::kClosed) {
      close();
      return;
    }
    in_.append(buffer.data(), got.bytes);
    if (in_.size() > server_->options_.body_bytes_max + 2 * kReadAtOnce) {
      close();
      return;
    }
    if (!busy_) {
      read_request();
    }
    if (stream_) {
      wait_readable();
    }
  }

  void refuse(int status, const std::string& message) {
    busy_ = true;
    keep_alive_ = false;
    respond(status, "application/json", to_json({.status = status, .message = message}));
  }

  void read_request() {
    if (!decoder_) {
      const auto end = find_head_end(in_, 0);
      if (!end) {
        if (in_.size() > kReadAtOnce) {
          refuse(431, "The request's header is too large.");
        }
        return;
      }
      const std::string bytes = in_.substr(0, *end);
      in_.erase(0, *end);
      auto parsed = parse_request_head(bytes, {});
      if (const auto* error = std::get_if<HttpError>(&parsed)) {
        refuse(error->status, error->message);
        return;
      }
      take_head(std::get<RequestHead>(parsed));
    }
    read_body();
  }

  void take_head(const RequestHead& head) {
    request_ = {.method = std::string(head.method), .path = std::string(head.path)};
    for (const HeaderField& field : head.fields) {
      request_.fields.emplace_back(lower(field.name), std::string(field.value));
    }
    keep_alive_ = head.keep_alive;
    http10_ = head.minor_version == 0;
    decoder_.emplace(head.framing);
    if (head.expects_continue && !decoder_->done()) {
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
      flush();
    }
  }

  void read_body() {
    while (decoder_ && !decoder_->done()) {
      auto step = decoder_->decode(in_);
      if (const auto* error = std::get_if<HttpError>(&step)) {
        refuse(error->status, error->message);
        return;
      }
      const auto& piece = std::get<BodyDecoder::Piece>(step);
      request_.body.append(piece.payload);
      if (request_.body.size() > server_->options_.body_bytes_max) {
        refuse(413, "The body is too large.");
        return;
      }
      if (piece.consumed == 0) {
        return;
      }
      in_.erase(0, piece.consumed);
    }
    decoder_.reset();
    busy_ = true;
    streaming_ = false;
    server_->handler_(std::exchange(request_, {}), shared_from_this());
  }

  void end_exchange() {
    busy_ = false;
    streaming_ = false;
    gone_ = nullptr;
    flush();
    if (stream_ && keep_alive_ && !in_.empty()) {
      read_request();
    }
  }

  void flush() {
    while (stream_ && !writing_ && sent_ < out_.size()) {
      const auto put = stream_->send(std::string_view(out_).substr(sent_));
      if (put.state == TcpStream::State::kClosed) {
        close();
        return;
      }
      sent_ += put.bytes;
      if (put.state == TcpStream::State::kWouldBlock) {
        writing_ = true;
        stream_->when_writable([self = shared_from_this()] {
          self->writing_ = false;
          self->flush();
        });
      }
    }
    if (sent_ == out_.size()) {
      out_.clear();
      sent_ = 0;
      if (stream_ && !busy_ && !keep_alive_) {
        close();
      }
    } else if (out_.size() - sent_ > server_->options_.output_bytes_max) {
      close();
    }
  }

  // The connection is over: whoever still works on an answer is told.
  void ended() {
    const auto self = shared_from_this();
    stream_.reset();
    busy_ = false;
    if (auto gone = std::exchange(gone_, nullptr)) {
      gone();
    }
    if (server_ != nullptr) {
      server_->connections_.erase(self);
    }
  }

  friend class HttpServer;

  HttpServer* server_;
  std::unique_ptr<TcpStream> stream_;
  std::string in_;
  std::string out_;
  std::size_t sent_ = 0;
  bool writing_ = false;
  HttpRequest request_;
  std::optional<BodyDecoder> decoder_;
  bool busy_ = false;       // a request waits for its answer
  bool streaming_ = false;  // its answer has begun
  bool keep_alive_ = true;
  bool http10_ = false;
  std::function<void()> gone_;
};

HttpServer::HttpServer(Options options, Handler handler, std::unique_ptr<Listener> listener)
    : options_(std::move(options)), handler_(std::move(handler)), listener_(std::move(listener)) {
  listener_->start([this](std::unique_ptr<TcpStream> stream) { accept(std::move(stream)); });
}

HttpServer::~HttpServer() {
  stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(boost::asio::io_context& io, Options options,
                                                     Handler handler) {
  auto listener = options.listening_socket >= 0 ? Listener::adopt(io, options.listening_socket)
                                                : Listener::open(io, options.host, options.port);
  if (!listener) {
    return listener.error();
  }
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(options), std::move(handler), *std::move(listener)));
}

void HttpServer::accept(std::unique_ptr<TcpStream> stream) {
  if (connections_.size() >= options_.connections_max) {
    stream->close();
    return;
  }
  const auto connection = std::make_shared<Connection>(*this, std::move(stream));
  connections_.insert(connection);
  connection->start();
}

void HttpServer::stop() {
  listener_->stop();
  const auto all = std::exchange(connections_, {});
  for (const auto& connection : all) {
    connection->server_ = nullptr;
    connection->close();
  }
}

}  // namespace spillway
