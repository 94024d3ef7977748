#include "decision/quarantine.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::seconds;

TEST(Quarantine, RefusesWhatWasLiveInTwoCrashesForAMinute) {
  Quarantine quarantine;
  const std::uint64_t poison = Quarantine::fingerprint("200k tokens");
  const Instant now(seconds(100));

  quarantine.on_lost(now, poison, "a:1");
  EXPECT_FALSE(quarantine.refuses(now, poison));
  quarantine.on_lost(now + seconds(1), poison, "b:1");

  EXPECT_TRUE(quarantine.refuses(now + seconds(2), poison));
  EXPECT_FALSE(quarantine.refuses(now + seconds(2), Quarantine::fingerprint("another")));
  EXPECT_FALSE(quarantine.refuses(now + seconds(62), poison));
}

TEST(Quarantine, AcquitsWhenTheReplicaLivesOn) {
  Quarantine quarantine;
  const Instant now(seconds(100));
  quarantine.on_lost(now, 7, "a:1");
  quarantine.on_lost(now, 7, "b:1");

  quarantine.on_alive(now, "a:1");  // a page that was under way when the connection broke
  EXPECT_TRUE(quarantine.refuses(now, 7));
  quarantine.on_alive(now + seconds(1), "a:1");

  EXPECT_FALSE(quarantine.refuses(now + seconds(1), 7));
  quarantine.on_alive(now + seconds(1), "b:1");
  EXPECT_EQ(quarantine.size(), 0U);
}

TEST(Quarantine, AFlakyConnectionIsOneStrikeHoweverOftenItBreaks) {
  Quarantine quarantine;
  const Instant now(seconds(100));
  for (int i = 0; i < 10; ++i) {
    quarantine.on_lost(now, 7, "a:1");
  }
  EXPECT_FALSE(quarantine.refuses(now, 7));
}

TEST(Quarantine, KnowsALoopOfCrashesOfTheOnlyReplica) {
  Quarantine quarantine;
  const Instant now(seconds(100));
  quarantine.on_lost(now, 7, "a:1");
  quarantine.on_dead("a:1");
  quarantine.on_alive(now + seconds(2), "a:1");  // started again, but it had died
  EXPECT_FALSE(quarantine.refuses(now + seconds(2), 7));
  quarantine.on_lost(now + seconds(3), 7, "a:1");

  EXPECT_TRUE(quarantine.refuses(now + seconds(3), 7));
}

TEST(Quarantine, IsBounded) {
  Quarantine quarantine;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    quarantine.on_lost(Instant(seconds(1)), i, "a:1");
  }

  EXPECT_LE(quarantine.size(), Quarantine::kEntriesMax);
}

}  // namespace
}  // namespace spillway
