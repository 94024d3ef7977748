#include "serving/openai_server.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "net/clock.h"
#include "serving/reply_json.h"
#include "serving/stop_matcher.h"
#include "wire/sse.h"

namespace spillway {
namespace {

void refuse(const std::shared_ptr<HttpExchange>& exchange, const OpenAiError& error) {
  exchange->respond(error.status, "application/json", to_json(error));
}

std::string event(std::string_view data) {
  std::string out;
  append_sse_data(out, data);
  return out;
}

}  // namespace

// One reply on its way to a caller: text in, events out.
class OpenAiServer::Reply : public std::enable_shared_from_this<Reply> {
 public:
  Reply(OpenAiServer& server, const GenerationRequest& request,
        std::shared_ptr<HttpExchange> exchange)
      : server_(server),
        exchange_(std::move(exchange)),
        stream_(request.stream),
        include_usage_(request.include_usage),
        names_{
            .chat = request.chat,
            .id = fmt::format("{}-{:016x}", request.chat ? "chatcmpl" : "cmpl", ++server.replies_),
            .model = request.model,
            .created = wall_now().time_since_epoch() / std::chrono::seconds(1)},
        stops_(request.stop),
        began_(monotonic_now()) {}

  void start(const GenerationRequest& request) {
    auto started = server_.backend_->start(
        request,
        {.token = [self = shared_from_this()](std::string_view text) { self->token(text); },
         .end = [self = shared_from_this()](std::string_view reason,
                                            const Usage& usage) { self->end(reason, usage); },
         .failed =
             [self = shared_from_this()](const OpenAiError& error) {
               if (!self->over_) {
                 self->over_ = true;
                 refuse(self->exchange_, error);
               }
             }});
    if (const auto* error = std::get_if<OpenAiError>(&started)) {
      refuse(exchange_, *error);
      return;
    }
    id_ = std::get<Started>(started).id;
    prompt_tokens_ = std::get<Started>(started).prompt_tokens;
    exchange_->when_gone([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->server_.backend_->cancel(self->id_);
        self->over_ = true;
        self->server_.page_.ended("abort", monotonic_now() - self->began_);
      }
    });
  }

 private:
  void token(std::string_view text) {
    if (over_) {
      return;
    }
    const Instant now = monotonic_now();
    if (tokens_++ == 0) {
      server_.page_.first_token(now - began_);
      if (stream_) {
        exchange_->begin(200, "text/event-stream; charset=utf-8");
        if (names_.chat) {
          exchange_->write(event(role_chunk(names_)));
        }
      }
    } else {
      server_.page_.next_token(now - last_token_);
    }
    last_token_ = now;
    if (obey_fault(now)) {
      return;
    }
    show(stops_.push(text));
    if (stops_.stopped()) {
      server_.backend_->cancel(id_);
      finish("stop", {.prompt_tokens = prompt_tokens_, .completion_tokens = tokens_});
    }
  }

  void end(std::string_view reason, const Usage& usage) {
    if (!over_ && !stalled_) {
      show(stops_.finish());
      finish(reason, usage);
    }
  }

  // True when this token is not to be passed on.
  bool obey_fault(Instant now) {
    const FaultOrder& order = server_.faults_.at(now);
    if (stalled_ || (order.fault == Fault::kStall && tokens_ > order.after_tokens)) {
      stalled_ = true;
      return true;
    }
    if (order.fault == Fault::kCut && tokens_ > order.after_tokens) {
      server_.backend_->cancel(id_);
      over_ = true;
      exchange_->cut();
      return true;
    }
    if (order.fault == Fault::kMalformedChunk && tokens_ == order.after_tokens + 1 && stream_) {
      exchange_->write("data: {\"choices\":[{\"index\":0,\"delta\":{\"con\n\n");
    }
    return false;
  }

  void show(std::string text) {
    if (text.empty()) {
      return;
    }
    if (stream_) {
      exchange_->write(event(text_chunk(names_, text)));
    } else {
      text_.append(text);
    }
  }

  void finish(std::string_view reason, const Usage& usage) {
    over_ = true;
    server_.page_.ended(reason, monotonic_now() - began_);
    if (!stream_) {
      exchange_->respond(200, "application/json", whole_reply(names_, text_, reason, usage));
      return;
    }
    if (tokens_ == 0) {
      exchange_->begin(200, "text/event-stream; charset=utf-8");
    }
    std::string last = event(end_chunk(names_, reason));
    if (include_usage_) {
      last += event(usage_chunk(names_, usage));
    }
    exchange_->write(last + event(kSseDone));
    exchange_->finish();
  }

  OpenAiServer& server_;
  std::shared_ptr<HttpExchange> exchange_;
  bool stream_;
  bool include_usage_;
  ReplyNames names_;
  StopMatcher stops_;
  Instant began_;
  Instant last_token_;
  GenerationId id_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t prompt_tokens_ = 0;
  std::string text_;
  bool over_ = false;
  bool stalled_ = false;
};

OpenAiServer::OpenAiServer(boost::asio::io_context& io, Options options,
                           std::unique_ptr<Backend> backend)
    : io_(io),
      options_(std::move(options)),
      page_(options_.models.front()),
      backend_(std::move(backend)) {}

Result<std::unique_ptr<OpenAiServer>> OpenAiServer::open(boost::asio::io_context& io,
                                                         Options options,
                                                         std::unique_ptr<Backend> backend) {
  std::unique_ptr<OpenAiServer> self(new OpenAiServer(io, std::move(options), std::move(backend)));
  auto server = HttpServer::open(io, {.host = self->options_.host, .port = self->options_.port},
                                 [raw = self.get()](const HttpRequest& request,
                                                    const std::shared_ptr<HttpExchange>& exchange) {
                                   raw->handle(request, exchange);
                                 });
  if (!server) {
    return server.error();
  }
  self->server_ = *std::move(server);
  return self;
}

void OpenAiServer::handle(const HttpRequest& request,
                          const std::shared_ptr<HttpExchange>& exchange) {
  const bool get = request.method == "GET";
  const bool post = request.method == "POST";
  if (post && request.path == "/v1/chat/completions") {
    generate(OpenAiRoute::kChat, request, exchange);
  } else if (post && request.path == "/v1/completions") {
    generate(OpenAiRoute::kCompletions, request, exchange);
  } else if (get && request.path == "/v1/models") {
    exchange->respond(200, "application/json",
                      models_reply(options_.models, backend_->max_model_len()));
  } else if (get && request.path == "/health") {
    exchange->respond(200, "text/plain", "");
  } else if (get && request.path == "/version") {
    exchange->respond(200, "application/json", R"({"version":"spillway )" SPILLWAY_VERSION "\"}");
  } else if (get && request.path == "/metrics") {
    exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics_page());
  } else if (post && request.path == "/sim/faults" && options_.obey_faults) {
    take_fault(request, exchange);
  } else {
    refuse(exchange, {.status = 404, .message = "There is no such path.", .code = "not_found"});
  }
}

std::string OpenAiServer::metrics_page() {
  if (faults_.is(Fault::kFrozenMetrics, monotonic_now())) {
    return frozen_page_;
  }
  frozen_page_ = page_.text(backend_->stats());
  return frozen_page_;
}

void OpenAiServer::take_fault(const HttpRequest& request,
                              const std::shared_ptr<HttpExchange>& exchange) {
  const auto order = parse_fault(request.body);
  if (!order) {
    refuse(exchange, {.message = order.error().message});
    return;
  }
  if (order->fault == Fault::kDie) {
    std::_Exit(1);
  }
  faults_.order(monotonic_now(), *order);
  backend_->hang_until(order->fault == Fault::kHang ? faults_.until() : Instant{});
  exchange->respond(200, "application/json", "{}");
}

bool OpenAiServer::fail_on_purpose(const GenerationRequest& request,
                                   const std::shared_ptr<HttpExchange>& exchange) {
  const FaultOrder& order = faults_.at(monotonic_now());
  const OpenAiError error{
      .status = order.status, .message = "A fault on purpose.", .type = "simulated_fault"};
  if (order.fault == Fault::kWrongStatus) {
    refuse(exchange, error);
    return true;
  }
  if (order.fault == Fault::kErrorEvent && request.stream) {
    exchange->begin(200, "text/event-stream; charset=utf-8");
    exchange->write(event(
        fmt::format(R"({{"error":{{"message":"A fault on purpose.","code":{}}}}})", order.status)));
    exchange->finish();
    return true;
  }
  return false;
}

void OpenAiServer::generate(OpenAiRoute route, const HttpRequest& request,
                            const std::shared_ptr<HttpExchange>& exchange) {
  auto parsed = parse_generation(route, request.body, parser_);
  if (const auto* error = std::get_if<OpenAiError>(&parsed)) {
    refuse(exchange, *error);
    return;
  }
  const auto& wanted = std::get<GenerationRequest>(parsed);
  if (std::ranges::find(options_.models, wanted.model) == options_.models.end()) {
    refuse(exchange, {.status = 404,
                      .message = fmt::format("The model '{}' does not exist.", wanted.model),
                      .param = "model",
                      .code = "model_not_found"});
    return;
  }
  if (fail_on_purpose(wanted, exchange)) {
    return;
  }
  const FaultOrder& order = faults_.at(monotonic_now());
  if (order.fault != Fault::kSlowFirstToken) {
    start_reply(wanted, exchange);
    return;
  }
  const auto timer = std::make_shared<boost::asio::steady_timer>(io_, order.delay);
  timer->async_wait([this, timer, wanted, exchange](boost::system::error_code stopped) {
    if (!stopped) {
      start_reply(wanted, exchange);
    }
  });
}

void OpenAiServer::start_reply(const GenerationRequest& request,
                               const std::shared_ptr<HttpExchange>& exchange) {
  std::make_shared<Reply>(*this, request, exchange)->start(request);
}

}  // namespace spillway
