#include "host/acl/stream.h"

#include <utility>

#include "host/acl/capture.h"

namespace opforge::twin::host {

Stream::Stream() : thread_([this] { Work(); }) {}

Stream::~Stream()
{
    AbortCapture(*this);
    {
        const std::lock_guard<std::mutex> guard(lock_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    StreamOrder& order = StreamOrder::Instance();
    order.Join(StreamOrder::kHost, order.Of(number_));
}

std::shared_ptr<Capture> Stream::Captured()
{
    std::unique_lock<std::mutex> guard(lock_);
    std::shared_ptr<Capture> capture = capture_.lock();
    guard.unlock();
    return IfActive(std::move(capture));
}

void Stream::SetCapture(const std::shared_ptr<Capture>& capture)
{
    const std::lock_guard<std::mutex> guard(lock_);
    capture_ = capture;
}

void Stream::Submit(const std::string& name, Task task)
{
    const std::shared_ptr<Capture> capture = Captured();
    if (capture != nullptr && capture->Add(*this, name, task)) {
        return;
    }
    {
        const std::lock_guard<std::mutex> guard(lock_);
        queue_.push_back({std::move(task), nullptr, StreamOrder::Instance().Begin(number_)});
    }
    changed_.notify_all();
}

void Stream::SubmitMark(std::function<void()> mark)
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        queue_.push_back({nullptr, std::move(mark)});
    }
    changed_.notify_all();
}

std::optional<TaskResult> Stream::Wait(std::optional<std::chrono::milliseconds> timeout)
{
    if (IsOwnTask()) {
        return TaskResult{ACL_ERROR_RT_PARAM_INVALID,
                          "a function of aclrtLaunchHostFunc waits for its stream; wait for it in another thread"};
    }
    std::unique_lock<std::mutex> guard(lock_);
    const auto isIdle = [this] { return HasNoTask(); };
    if (!timeout) {
        changed_.wait(guard, isIdle);
    } else if (!changed_.wait_for(guard, *timeout, isIdle)) {
        return std::nullopt;
    }
    StreamOrder& order = StreamOrder::Instance();
    order.Join(StreamOrder::kHost, order.Of(number_));
    return failure_;
}

bool Stream::IsIdle()
{
    const std::lock_guard<std::mutex> guard(lock_);
    return HasNoTask();
}

void Stream::Work()
{
    std::unique_lock<std::mutex> guard(lock_);
    for (;;) {
        changed_.wait(guard, [this] { return !queue_.empty() || ending_; });
        if (queue_.empty()) {
            return;
        }
        Entry entry = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
        const bool isDropped = entry.work != nullptr && failure_.code != 0;
        guard.unlock();
        TaskResult result;
        {
            const StreamOrder::Running running(std::move(entry.order));
            if (entry.mark) {
                entry.mark();
            } else if (!isDropped) {
                result = entry.work();
            }
        }
        entry = {};  // release the task's resources before the stream counts as idle
        guard.lock();
        if (result.code != 0) {
            failure_ = std::move(result);
        }
        busy_ = false;
        changed_.notify_all();
    }
}

class EventState {
public:
    uint64_t Request()
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return ++requested_;
    }

    uint64_t Requested() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return requested_;
    }

    void Reach(uint64_t ticket)
    {
        const std::lock_guard<std::mutex> guard(lock_);
        reached_ = ticket > reached_ ? ticket : reached_;
        time_ = std::chrono::steady_clock::now();
        changed_.notify_all();
    }

    void WaitFor(uint64_t ticket) const
    {
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [this, ticket] { return reached_ >= ticket; });
    }

    bool IsComplete() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return reached_ == requested_;
    }

    std::chrono::steady_clock::time_point Time() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return time_;
    }

    void SetOrder(StreamOrder::Clock order)
    {
        const std::lock_guard<std::mutex> guard(lock_);
        order_ = std::move(order);
    }

    /// The tasks before the last record.
    StreamOrder::Clock Order() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return order_;
    }

    void SetCapture(const std::shared_ptr<Capture>& capture, Steps steps)
    {
        const std::lock_guard<std::mutex> guard(lock_);
        capture_ = capture;
        steps_ = std::move(steps);
    }

    /// The capture of the last record, and its steps.
    std::pair<std::shared_ptr<Capture>, Steps> Captured() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return {capture_.lock(), steps_};
    }

private:
    mutable std::mutex lock_;
    mutable std::condition_variable changed_;
    uint64_t requested_ = 0;
    uint64_t reached_ = 0;
    std::chrono::steady_clock::time_point time_;
    std::weak_ptr<Capture> capture_;
    Steps steps_;
    StreamOrder::Clock order_;
};

Event::Event() : state_(std::make_shared<EventState>()) {}

void Event::Record(Stream& stream)
{
    const std::shared_ptr<Capture> capture = stream.Captured();
    state_->SetCapture(capture, capture == nullptr ? Steps() : capture->Record(stream));
    if (capture != nullptr) {
        return;
    }
    state_->SetOrder(StreamOrder::Instance().Of(stream.Number()));
    stream.SubmitMark([state = state_, ticket = state_->Request()] { state->Reach(ticket); });
}

aclError Event::LetWait(Stream& stream) const
{
    const auto [last, steps] = state_->Captured();
    const std::shared_ptr<Capture> recorded = IfActive(last);
    const std::shared_ptr<Capture> current = stream.Captured();
    if (recorded == nullptr && current != nullptr) {
        return ACL_ERROR_RT_CAPTURE_DEPENDENCY;
    }
    if (recorded == nullptr) {
        StreamOrder::Instance().Join(stream.Number(), state_->Order());
        stream.SubmitMark([state = state_, ticket = state_->Requested()] { state->WaitFor(ticket); });
        return ACL_SUCCESS;
    }
    if (current != nullptr && current != recorded) {
        return ACL_ERROR_STREAM_CAPTURE_CONFLICT;
    }
    recorded->Join(recorded, stream, steps);
    return ACL_SUCCESS;
}

std::shared_ptr<Capture> Event::Captured() const
{
    return IfActive(state_->Captured().first);
}

void Event::Wait() const
{
    const StreamOrder::Clock order = state_->Order();
    state_->WaitFor(state_->Requested());
    StreamOrder::Instance().Join(StreamOrder::kHost, order);
}

bool Event::WasRecorded() const
{
    return state_->Requested() != 0;
}

bool Event::IsComplete() const
{
    const StreamOrder::Clock order = state_->Order();
    const bool isComplete = state_->IsComplete();
    if (isComplete) {
        StreamOrder::Instance().Join(StreamOrder::kHost, order);
    }
    return isComplete;
}

std::chrono::steady_clock::time_point Event::Time() const
{
    return state_->Time();
}

}  // namespace opforge::twin::host
