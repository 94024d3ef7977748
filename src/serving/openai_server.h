#pragma once
// The OpenAI surface of an engine: chat and text completions, models, health, version and the
// metrics page, over any Backend. Runs on the thread of its io_context.

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "net/http_server.h"
#include "serving/backend.h"
#include "serving/engine_page.h"
#include "serving/faults.h"

namespace spillway {

class OpenAiServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;
    std::vector<std::string> models;  // names it answers to; not empty
    bool obey_faults = false;         // POST /sim/faults
  };

  // REQUIRES: io outlives it.
  static Result<std::unique_ptr<OpenAiServer>> open(boost::asio::io_context& io, Options options,
                                                    std::unique_ptr<Backend> backend);
  std::uint16_t port() const { return server_->port(); }
  void stop() { server_->stop(); }

 private:
  class Reply;

  OpenAiServer(boost::asio::io_context& io, Options options, std::unique_ptr<Backend> backend);
  void handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);
  void generate(OpenAiRoute route, const HttpRequest& request,
                const std::shared_ptr<HttpExchange>& exchange);
  void take_fault(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);
  bool fail_on_purpose(const GenerationRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange);
  void start_reply(const GenerationRequest& request, const std::shared_ptr<HttpExchange>& exchange);
  std::string metrics_page();

  boost::asio::io_context& io_;
  Options options_;
  OpenAiRequestParser parser_;
  EnginePage page_;
  Faults faults_;
  std::string frozen_page_;
  std::uint64_t replies_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace spillway
