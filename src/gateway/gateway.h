#pragma once
// The data path: accepts callers, runs their sessions, owns the decision state. Everything here
// happens on one thread, the one that runs its io_context; other threads post to it.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "gateway/caller_connection.h"
#include "gateway/engine_connections.h"
#include "gateway/lingering_closes.h"
#include "gateway/record_queue.h"
#include "net/listener.h"
#include "net/timer.h"
#include "net/turn_end.h"
#include "observe/gateway_status.h"
#include "session/services.h"

namespace spillway {

class Gateway {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::optional<int> pin_level;          // holds every pool at this level
    std::size_t connections_max = 10'000;  // whatever the configuration says
    int listening_socket = -1;             // inherited; below 0: bind the configured address
  };

  // REQUIRES: io and records outlive the gateway.
  Gateway(boost::asio::io_context& io, std::shared_ptr<const Snapshot> snapshot,
          RecordQueue& records, Options options);
  ~Gateway();

  Status listen();
  std::uint16_t port() const { return listener_->port(); }

  // Takes a new configuration; requests under way keep the one they began with.
  void apply(std::shared_ptr<const Snapshot> snapshot);
  void reload_failed(std::string why);
  void on_page(const std::string& replica, const Result<EngineFacts>& facts);
  // A plain proxy for so long: no ladder, no edits, no retries. Zero ends it.
  void bypass(Duration span);

  // Readiness is false and nothing more is accepted from now on; `drained` runs when the last
  // connection has ended, or after the configured time, when the rest is closed.
  void drain(std::function<void()> drained);

  GatewayStatus status();

  // For its connections.
  Services& services() { return services_; }
  boost::asio::io_context& io() { return io_; }
  EngineConnections& engines() { return engines_; }
  LingeringCloses& lingering() { return lingering_; }
  std::span<char> read_buffer() { return read_buffer_; }
  void ended(RequestRecord record) { records_.push(std::move(record)); }
  void forget(const std::shared_ptr<CallerConnection>& connection);
  // Pumps it when everything that this turn of the loop found readable has been read. What is sent
  // then leaves in one burst, and a process that waits for it is woken once instead of once a
  // message.
  void pump_soon(std::shared_ptr<CallerConnection> connection);

 private:
  void accept(std::unique_ptr<TcpStream> stream);
  void pump_due();
  void tick();
  void pin_pools();
  void log_change(const std::string& pool, const LevelChange& change);
  void log_event(const std::string& event, const std::string& message);
  void look_for_hung(const std::string& replica, const Pool& pool);

  boost::asio::io_context& io_;
  RecordQueue& records_;
  Options options_;
  Services services_;
  EngineConnections engines_;
  std::unique_ptr<Listener> listener_;
  std::set<std::shared_ptr<CallerConnection>> connections_;
  std::vector<std::shared_ptr<CallerConnection>> due_;  // to be pumped
  std::map<std::string, int> hangs_;                    // how often each replica was found hanging
  Timer tick_timer_;
  Timer drain_timer_;
  TurnEnd turn_end_;
  std::function<void()> drained_;
  std::uint64_t connections_refused_ = 0;
  std::uint64_t reloads_ = 0;
  std::uint64_t reloads_failed_ = 0;
  std::string last_reload_error_;
  std::array<char, 64 * 1024>
      read_buffer_{};  // shared by all connections: each read is dealt with at once
  LingeringCloses lingering_;
};

}  // namespace spillway
