// The part of googletest's interface that unit tests of kernels use: tests, fixtures, parameters and comparisons.
#ifndef OPFORGE_TWIN_GTEST_H
#define OPFORGE_TWIN_GTEST_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace testing {

/// Runs of kernels by tests, and what was wrong in them.
struct Counts {
    uint64_t launches = 0;
    uint64_t findings = 0;
    uint64_t failures = 0;
};

/// The tests of the program and what they found.
struct Registry {
    struct Entry {
        std::string name;
        std::function<void()> run;
    };
    std::vector<Entry> entries;
    uint64_t checks = 0;
    Counts counts;
    bool isFailed = false;

    static Registry& Get()
    {
        static Registry registry;
        return registry;
    }
};

class Test {
public:
    virtual ~Test() = default;
    static void SetUpTestCase() {}
    static void TearDownTestCase() {}
    static void SetUpTestSuite() {}
    static void TearDownTestSuite() {}
    static bool HasFailure() { return Registry::Get().isFailed; }
    static bool HasFatalFailure() { return Registry::Get().isFailed; }
    virtual void TestBody() = 0;
    void RunTest()
    {
        const Counts before = Registry::Get().counts;
        SetUp();
        TestBody();
        TearDown();
        const Counts& after = Registry::Get().counts;
        if (after.launches != before.launches) {
            const bool isClean = after.findings == before.findings && after.failures == before.failures;
            std::printf("\nopforge unit test\t%s\n", isClean ? "clean" : "not clean");
            std::fflush(stdout);
        }
    }

protected:
    virtual void SetUp() {}
    virtual void TearDown() {}
};

template <typename T>
class WithParamInterface {
public:
    using ParamType = T;
    static const T& GetParam() { return *Parameter(); }
    static const T*& Parameter()
    {
        static const T* parameter = nullptr;
        return parameter;
    }
};

template <typename T>
class TestWithParam : public Test, public WithParamInterface<T> {};

inline int AddTest(const char* suite, const char* name, void (*run)())
{
    Registry::Get().entries.push_back({std::string(suite) + "." + name, run});
    return 0;
}

/// Runs of a test with parameters: the values come from INSTANTIATE_TEST_SUITE_P, in any order.
template <typename Fixture>
struct Parameterized {
    static std::vector<std::function<void()>>& Tests()
    {
        static std::vector<std::function<void()>> tests;
        return tests;
    }
    static std::vector<typename Fixture::ParamType>& Values()
    {
        static std::vector<typename Fixture::ParamType> values;
        return values;
    }
    static void RunAll()
    {
        for (const auto& value : Values()) {
            Fixture::Parameter() = &value;
            for (const auto& test : Tests()) {
                test();
            }
        }
    }
    template <typename Values_>
    static int Add(const char* suite, const Values_& values)
    {
        Values().insert(Values().end(), std::begin(values), std::end(values));
        Registry::Get().entries.push_back({suite, [] { RunAll(); }});
        return 0;
    }
};

template <typename T>
const T& ValuesIn(const T& values)
{
    return values;
}
template <typename First, typename... Rest>
std::vector<First> Values(const First& first, const Rest&... rest)
{
    return {first, First(rest)...};
}

/// The outcome of one comparison, with the message that a test adds to it.
class Check {
public:
    Check(bool holds, const char* text, const char* file, int line) : holds_(holds)
    {
        Registry::Get().checks++;
        if (!holds) {
            message_ << file << ":" << line << ": failed: " << text << " ";
        }
    }
    Check(const Check&) = delete;
    ~Check()
    {
        if (!holds_) {
            Registry::Get().counts.failures++;
            Registry::Get().isFailed = true;
            std::printf("%s\n", message_.str().c_str());
        }
    }
    template <typename T>
    Check& operator<<(const T& value)
    {
        message_ << value;
        return *this;
    }

private:
    bool holds_;
    std::ostringstream message_;
};

/// Lets `ASSERT_*` return from a test together with its message.
struct Returned {
    void operator=(const Check&) const {}
};

inline void InitGoogleTest(int*, char**) {}

inline int RunAll()
{
    auto& registry = Registry::Get();
    uint64_t failed = 0;
    for (auto& entry : registry.entries) {
        registry.isFailed = false;
        std::printf("[ RUN ] %s\n", entry.name.c_str());
        std::fflush(stdout);
        entry.run();
        failed += registry.isFailed ? 1 : 0;
    }
    std::printf("opforge unit tests: %zu tests, %llu comparisons, %llu failed\n", registry.entries.size(),
                static_cast<unsigned long long>(registry.checks), static_cast<unsigned long long>(failed));
    return failed != 0 ? 1 : 0;
}

}  // namespace testing

#define RUN_ALL_TESTS() ::testing::RunAll()
#define OPFORGE_TEST_CLASS(suite, name) suite##_##name##_Test
// The functions of a fixture may be protected: a member of the test calls them.
#define OPFORGE_TEST_BODY(suite, name, fixture)              \
    class OPFORGE_TEST_CLASS(suite, name) : public fixture { \
    public:                                                  \
        void TestBody() override;                            \
        static void Run()                                    \
        {                                                    \
            SetUpTestCase();                                 \
            SetUpTestSuite();                                \
            {                                                \
                OPFORGE_TEST_CLASS(suite, name) test;        \
                test.::testing::Test::RunTest();             \
            }                                                \
            TearDownTestSuite();                             \
            TearDownTestCase();                              \
        }                                                    \
    };
#define OPFORGE_TEST(suite, name, fixture)                                        \
    OPFORGE_TEST_BODY(suite, name, fixture)                                       \
    [[maybe_unused]] static const int opforgeTest_##suite##_##name =              \
        ::testing::AddTest(#suite, #name, &OPFORGE_TEST_CLASS(suite, name)::Run); \
    void OPFORGE_TEST_CLASS(suite, name)::TestBody()
#define TEST(suite, name) OPFORGE_TEST(suite, name, ::testing::Test)
#define TEST_F(fixture, name) OPFORGE_TEST(fixture, name, fixture)
#define TEST_P(fixture, name)                                                                               \
    OPFORGE_TEST_BODY(fixture, name, fixture)                                                               \
    [[maybe_unused]] static const int opforgeTest_##fixture##_##name =                                      \
        (::testing::Parameterized<fixture>::Tests().push_back(&OPFORGE_TEST_CLASS(fixture, name)::Run), 0); \
    void OPFORGE_TEST_CLASS(fixture, name)::TestBody()
#define INSTANTIATE_TEST_SUITE_P(prefix, fixture, values, ...)             \
    [[maybe_unused]] static const int opforgeValues_##prefix##_##fixture = \
        ::testing::Parameterized<fixture>::Add(#prefix "/" #fixture, values)
#define INSTANTIATE_TEST_CASE_P INSTANTIATE_TEST_SUITE_P

#define OPFORGE_EXPECT(holds, text) ::testing::Check((holds), text, __FILE__, __LINE__)
#define OPFORGE_ASSERT(holds, text) \
    if (holds) {                    \
        OPFORGE_EXPECT(true, text); \
    } else                          \
        return ::testing::Returned() = OPFORGE_EXPECT(false, text)

#define EXPECT_TRUE(a) OPFORGE_EXPECT(static_cast<bool>(a), #a)
#define EXPECT_FALSE(a) OPFORGE_EXPECT(!static_cast<bool>(a), "!(" #a ")")
#define EXPECT_EQ(a, b) OPFORGE_EXPECT((a) == (b), #a " == " #b)
#define EXPECT_NE(a, b) OPFORGE_EXPECT((a) != (b), #a " != " #b)
#define EXPECT_LT(a, b) OPFORGE_EXPECT((a) < (b), #a " < " #b)
#define EXPECT_LE(a, b) OPFORGE_EXPECT((a) <= (b), #a " <= " #b)
#define EXPECT_GT(a, b) OPFORGE_EXPECT((a) > (b), #a " > " #b)
#define EXPECT_GE(a, b) OPFORGE_EXPECT((a) >= (b), #a " >= " #b)
#define EXPECT_NEAR(a, b, most) OPFORGE_EXPECT(std::abs((a) - (b)) <= (most), #a " near " #b)
#define EXPECT_FLOAT_EQ(a, b) OPFORGE_EXPECT(std::abs((a) - (b)) <= 5e-7 * std::abs(b), #a " == " #b)
#define EXPECT_DOUBLE_EQ(a, b) OPFORGE_EXPECT(std::abs((a) - (b)) <= 1e-15 * std::abs(b), #a " == " #b)
#define EXPECT_STREQ(a, b) OPFORGE_EXPECT(std::strcmp((a), (b)) == 0, #a " == " #b)
#define ASSERT_TRUE(a) OPFORGE_ASSERT(static_cast<bool>(a), #a)
#define ASSERT_FALSE(a) OPFORGE_ASSERT(!static_cast<bool>(a), "!(" #a ")")
#define ASSERT_EQ(a, b) OPFORGE_ASSERT((a) == (b), #a " == " #b)
#define ASSERT_NE(a, b) OPFORGE_ASSERT((a) != (b), #a " != " #b)
#define ASSERT_LT(a, b) OPFORGE_ASSERT((a) < (b), #a " < " #b)
#define ASSERT_LE(a, b) OPFORGE_ASSERT((a) <= (b), #a " <= " #b)
#define ASSERT_GT(a, b) OPFORGE_ASSERT((a) > (b), #a " > " #b)
#define ASSERT_GE(a, b) OPFORGE_ASSERT((a) >= (b), #a " >= " #b)
#define ASSERT_NEAR(a, b, most) OPFORGE_ASSERT(std::abs((a) - (b)) <= (most), #a " near " #b)
#define ADD_FAILURE() OPFORGE_EXPECT(false, "ADD_FAILURE")
#define FAIL() return ::testing::Returned() = OPFORGE_EXPECT(false, "FAIL")
#define GTEST_SKIP() return

#endif  // OPFORGE_TWIN_GTEST_H
