#include "engine/kv_pool.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

TEST(KvPool, TakesAllPagesOfAnExtensionOrNone) {
  KvPool pool({.layers = 2, .pages = 4});
  CacheTable table = pool.empty_table();

  EXPECT_TRUE(pool.extend(table, 0, kPageSlots));
  EXPECT_FALSE(pool.extend(table, static_cast<std::int32_t>(kPageSlots), 2 * kPageSlots));

  EXPECT_EQ(pool.used_pages(), 2U);
  EXPECT_EQ(pool.positions(table.layers[0].pages[0])[1], 1);
  pool.release(table);
  EXPECT_EQ(pool.free_pages(), 4U);
}

TEST(KvPool, KeepsASharedPageUntilItsLastOwnerGivesItBack) {
  KvPool pool({.layers = 1, .pages = 4});
  CacheTable first = pool.empty_table();
  ASSERT_TRUE(pool.extend(first, 0, 2 * kPageSlots));

  CacheTable second = pool.share(first, kPageSlots);
  pool.release(first);

  EXPECT_EQ(pool.used_pages(), 1U);
  pool.release(second);
  EXPECT_EQ(pool.used_pages(), 0U);
}

// Whatever happens, every page has its owners or is free, and the pool is never larger than it is.
TEST(KvPool, LosesNoPageInAnyOrderOfUse) {
  Rng rng(5);
  KvPool pool({.layers = 3, .pages = 60});
  std::vector<CacheTable> tables;
  std::vector<std::int32_t> lengths;
  for (int round = 0; round < 5000; ++round) {
    if (tables.empty() || rng.below(4) == 0) {
      tables.push_back(pool.empty_table());
      lengths.push_back(0);
    }
    const std::size_t i = rng.below(tables.size());
    if (rng.below(5) == 0) {
      pool.release(tables[i]);
      tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(i));
      lengths.erase(lengths.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    const std::size_t tokens = 1 + rng.below(40);
    const std::size_t wanted = pool.pages_for(tables[i], tokens);
    const bool fits = wanted <= pool.free_pages();
    const std::size_t before = pool.free_pages();
    ASSERT_EQ(pool.extend(tables[i], lengths[i], tokens), fits);
    ASSERT_EQ(pool.free_pages(), fits ? before - wanted : before);
    lengths[i] += fits ? static_cast<std::int32_t>(tokens) : 0;
  }
  for (CacheTable& table : tables) {
    pool.release(table);
  }
  EXPECT_EQ(pool.free_pages(), pool.total_pages());
}

}  // namespace
}  // namespace spillway
