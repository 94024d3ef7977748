// spillway load: replays a trace, or a steady rate, against an OpenAI endpoint. Open loop: a
// request leaves when it is due, however many are still open, and its times count from then.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "host/file_watch.h"
#include "main/commands.h"
#include "main/load_report.h"
#include "main/load_trace.h"
#include "net/clock.h"
#include "net/http_client.h"
#include "wire/openai_reply.h"
#include "wire/sse.h"

namespace spillway {
namespace {

struct LoadFlags {
  std::string url = "http://127.0.0.1:8080";
  std::string model;
  std::string api_key;
  std::string trace;
  double rate = 0;
  double duration = 60;
  std::int64_t prompt_tokens = 200;
  std::int64_t output_tokens = 150;
  int rounds = 1;
  std::string mix = "critical=20,high=30,normal=50";
  LoadShape shape;
  double slo = 2;
  double timeout = 120;
  std::size_t open_max = 4000;
  std::uint64_t seed = 1;
  bool ignore_eos = false;
  std::string json;
};

// About so many tokens of plain words: most are one token in every vocabulary.
std::string words(std::int64_t tokens, Rng& rng) {
  static constexpr std::string_view kWords[] = {
      "water", "stone", "river", "gate",  "light", "house", "field", "garden",
      "north", "small", "early", "paper", "green", "round", "open",  "table"};
  std::string out;
  for (std::int64_t i = 0; i < tokens; ++i) {
    out.append(i > 0 ? " " : "").append(kWords[rng.below(std::size(kWords))]);
  }
  return out;
}

class LoadRun {
 public:
  LoadRun(const LoadFlags& flags, HttpUrl url, Load load)
      : flags_(flags),
        url_(std::move(url)),
        load_(std::move(load)),
        rng_(flags.seed),
        timer_(io_),
        progress_timer_(io_) {
    report_.slo_seconds = flags.slo;
    report_.prompts_clamped = load_.prompts_clamped;
    report_.outputs_clamped = load_.outputs_clamped;
  }

  LoadReport run() {
    begin_ = monotonic_now();
    send_due();
    show_progress();
    io_.run();
    report_.seconds = std::max(to_seconds(monotonic_now() - begin_), 1e-9);
    return std::move(report_);
  }

 private:
  struct Open {
    LoadResult result;
    Instant due;
    Instant last_token;
    int status = 0;
    bool ended_well = false;
    bool in_band_error = false;
    SseScanner scanner{16 * 1024 * 1024};
    HttpCallPtr call;
  };

  void send_due() {
    const Duration now = monotonic_now() - begin_;
    while (next_ < load_.arrivals.size() && load_.arrivals[next_].at <= now) {
      send(load_.arrivals[next_++]);
    }
    if (next_ < load_.arrivals.size()) {
      timer_.expires_after(load_.arrivals[next_].at - now);
      timer_.async_wait([this](boost::system::error_code stopped) {
        if (!stopped) {
          send_due();
        }
      });
    }
  }

  std::string body_of(const Arrival& arrival) {
    nlohmann::json messages = nlohmann::json::array();
    const std::int64_t parts = 2 * flags_.rounds - 1;
    for (std::int64_t i = 0; i < parts; ++i) {
      messages.push_back(
          {{"role", i % 2 == 0 ? "user" : "assistant"},
           {"content", words(std::max<std::int64_t>(arrival.prompt_tokens / parts, 1), rng_)}});
    }
    nlohmann::json body{{"model", flags_.model},
                        {"stream", true},
                        {"stream_options", {{"include_usage", true}}},
                        {"max_tokens", arrival.output_tokens},
                        {"messages", std::move(messages)}};
    if (flags_.ignore_eos) {
      body["ignore_eos"] = true;
    }
    return body.dump();
  }

  void send(const Arrival& arrival) {
    if (open_ >= flags_.open_max) {
      ++report_.unsent;
      return;
    }
    ++open_;
    const auto request = std::make_shared<Open>();
    request->result.qos_class = arrival.qos_class;
    request->due = begin_ + arrival.at;
    HttpCall call{.method = "POST",
                  .address = url_.address,
                  .path = (url_.path == "/" ? "" : url_.path) + "/v1/chat/completions",
                  .fields = {{"content-type", "application/json"},
                             {"x-spillway-class", std::string(name_of(arrival.qos_class))}},
                  .body = body_of(arrival),
                  .timeout = from_seconds(flags_.timeout)};
    if (!flags_.api_key.empty()) {
      call.fields.emplace_back("authorization", "Bearer " + flags_.api_key);
    }
    HttpCallEvents events;
    events.head = [request](const HttpReply& head) {
      request->status = head.status;
      request->result.level = head.field("x-spillway-level");
      request->result.degraded = !head.field("x-spillway-actions").empty();
    };
    events.piece = [this, request](std::string_view piece) { take(*request, piece); };
    events.end = [this, request](const Status& status) { finish(*request, status); };
    request->call = start_call(io_, std::move(call), std::move(events));
  }

  void take(Open& request, std::string_view piece) {
    const Instant now = monotonic_now();
    const Status status = request.scanner.feed(piece, [&](const SseEvent& event) {
      if (event.data == kSseDone) {
        request.ended_well = !request.in_band_error;
        return;
      }
      const ReplyFacts facts = reader_.read(event.data);
      request.in_band_error = request.in_band_error || facts.is_error;
      if (facts.usage) {
        request.result.tokens = facts.usage->completion_tokens;
      }
      if (!facts.has_content) {
        return;
      }
      if (request.result.ttft < 0) {
        request.result.ttft = to_seconds(now - request.due);
      } else {
        request.result.gaps.push_back(static_cast<float>(to_seconds(now - request.last_token)));
      }
      request.last_token = now;
    });
    request.in_band_error = request.in_band_error || !status;
  }

  void finish(Open& request, const Status& status) {
    LoadResult& result = request.result;
    if (!status) {
      const bool timeout = status.error().code == ErrorCode::kTimeout;
      result.error = timeout ? "timeout" : request.status == 0 ? "connect" : "cut";
    } else if (request.status != 200) {
      result.error = std::to_string(request.status);
    } else if (request.in_band_error) {
      result.error = "in-band";
    } else if (!request.ended_well) {
      result.error = "cut";
    }
    result.ok = result.error.empty();
    request.call.reset();
    report_.add(result);
    --open_;
  }

  void show_progress() {
    const double seconds = to_seconds(monotonic_now() - begin_);
    fmt::print(stderr, "\r{:6.0f} s  sent {}/{}  open {}  ok {}  refused {}  failed {}   ", seconds,
               next_, load_.arrivals.size(), open_, report_.all.ok, report_.all.refused,
               report_.all.failed);
    if (next_ >= load_.arrivals.size() && open_ == 0) {
      fmt::print(stderr, "\n");
      return;
    }
    progress_timer_.expires_after(
        std::chrono::milliseconds(next_ >= load_.arrivals.size() ? 100 : 1000));
    progress_timer_.async_wait([this](boost::system::error_code stopped) {
      if (!stopped) {
        show_progress();
      }
    });
  }

  const LoadFlags& flags_;
  HttpUrl url_;
  Load load_;
  Rng rng_;
  boost::asio::io_context io_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer progress_timer_;
  ReplyReader reader_;
  Instant begin_;
  std::size_t next_ = 0;
  std::size_t open_ = 0;
  LoadReport report_;
};

int fail(const std::string& message) {
  fmt::print(stderr, "error: {}\n", message);
  return 2;
}

int load(LoadFlags& flags) {
  auto url = parse_http_url(flags.url);
  if (!url) {
    return fail("--url: " + url.error().message);
  }
  if (Status status = parse_class_mix(flags.mix, flags.shape); !status) {
    return fail("--class-mix: " + status.error().message);
  }
  if (flags.trace.empty() == (flags.rate <= 0)) {
    return fail("give either --trace FILE or --rate R");
  }
  Rng rng(flags.seed);
  Load wanted;
  if (!flags.trace.empty()) {
    const auto text = read_file(flags.trace, 1024UL * 1024 * 1024);
    if (!text) {
      return fail(text.error().message);
    }
    auto read = load_from_trace(*text, flags.trace, flags.shape, rng);
    if (!read) {
      return fail(read.error().message);
    }
    wanted = *std::move(read);
  } else {
    wanted = load_at_rate(flags.rate, from_seconds(flags.duration), flags.prompt_tokens,
                          flags.output_tokens, flags.shape, rng);
  }
  if (wanted.arrivals.empty()) {
    return fail("there is nothing to send");
  }
  const LoadReport report = LoadRun(flags, *std::move(url), std::move(wanted)).run();
  if (flags.json.empty()) {
    fmt::print("{}", to_table(report));
  } else if (flags.json == "-") {
    fmt::print("{}", to_json(report));
  } else {
    std::ofstream(flags.json) << to_json(report);
    fmt::print("{}", to_table(report));
  }
  return 0;
}

}  // namespace

void add_load_command(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<LoadFlags>();
  CLI::App* command =
      app.add_subcommand("load", "Replays a trace, or a steady rate, against an OpenAI endpoint");
  command->add_option("--url", flags->url, "The endpoint, without /v1")->capture_default_str();
  command->add_option("--model", flags->model, "Model name")->required();
  command->add_option("--api-key", flags->api_key, "Sent as Authorization: Bearer");
  command->add_option("--trace", flags->trace, "CSV: timestamp_ms,prompt_tokens,output_tokens");
  command->add_option("--rate", flags->rate, "Poisson arrivals a second, instead of a trace");
  command->add_option("--duration", flags->duration, "Seconds, with --rate")->capture_default_str();
  command->add_option("--prompt-tokens", flags->prompt_tokens, "With --rate")
      ->capture_default_str();
  command->add_option("--output-tokens", flags->output_tokens, "With --rate")
      ->capture_default_str();
  command->add_option("--rounds", flags->rounds, "User messages of each conversation")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--class-mix", flags->mix, "Parts of the classes")->capture_default_str();
  command->add_option("--speed", flags->shape.speed, "Faster or slower than recorded")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--scale", flags->shape.scale, "Multiplies all lengths")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--max-prompt", flags->shape.max_prompt,
                   "Longer prompts are clamped, and counted")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--max-output", flags->shape.max_output,
                   "Longer replies are clamped, and counted")
      ->check(CLI::PositiveNumber);
  command->add_option("--limit", flags->shape.limit, "Requests at most");
  command->add_option("--slo", flags->slo, "Seconds to the first token that count as good")
      ->capture_default_str();
  command->add_option("--timeout", flags->timeout, "Seconds a request may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--open-max", flags->open_max,
                   "Requests open at once; more are not sent, and counted")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Of arrivals, classes and words")
      ->capture_default_str();
  command->add_flag("--ignore-eos", flags->ignore_eos,
                    "Ask engines that know it for replies of full length");
  command->add_option("--json", flags->json,
                      "Write the report as JSON to this file; - for standard output");
  command->footer("Example: spillway load --model sim --rate 36 --duration 60 --ignore-eos");
  command->callback([flags, &exit_code] { exit_code = load(*flags); });
}

}  // namespace spillway
