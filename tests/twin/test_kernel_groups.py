"""Test groups of cube cores: products of messages, the order of messages, planted mistakes and the charged time."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from charged import COPY, GM, MODEL, UB

from opforge.codegen.data.products import SOCS

from .test_kernel_matmul import tiling

pytestmark = pytest.mark.slow

HEAD = """
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;
#define ORDER_BY(event, id) SetFlag<HardEvent::event>(id); WaitFlag<HardEvent::event>(id)
#define ORDER(event) ORDER_BY(event, EVENT_ID0)
"""
# y[i] = (2 x[i]) b + 1: vector cores write 2 x[i] and send it to a cube core of the group.
PRODUCTS = """
struct Work {
    CubeGroupMsgHead head;
    uint8_t isUnordered;
    uint64_t a, b, c;
    uint64_t unused[12];
};
using Factor = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using Product = MatmulImpl<Factor, Factor, MatmulType<TPosition::GM, CubeFormat::ND, float>>;

template <class Mm, typename Message>
struct Multiply {
    static void Init(Multiply& self, Mm& mm, GM_ADDR tiling)
    {
        GET_TILING_DATA_WITH_STRUCT(TCubeTiling, data, tiling);
        self.tiling = data;
        mm.Init(&self.tiling, GetTPipePtr());
    }
    static void Call(Mm& mm, __gm__ Message* work, CubeResGroupHandle<Message>& group)
    {
        GlobalTensor<half> a, b;
        GlobalTensor<float> c;
        a.SetGlobalBuffer((__gm__ half*)work->a);
        b.SetGlobalBuffer((__gm__ half*)work->b);
        c.SetGlobalBuffer((__gm__ float*)work->c);
        mm.SetTensorA(a);
        mm.SetTensorB(b);
        mm.IterateAll(c);
        mm.End();
        if (work->isUnordered == 0) {
            PipeBarrier<PIPE_ALL>();
        }
        group.FreeMessage(work);
    }
    TCubeTiling tiling;
};

/// `isOrdered`: the vector core orders MTE3 before a message of the scalar unit; `isWaiting`: it waits for the product.
template <PipeMode mode, bool isOrdered, bool isFreedAfter, bool isPolling>
__aicore__ inline void Products(GM_ADDR x, GM_ADDR b, GM_ADDR a, GM_ADDR y, GM_ADDR messages, GM_ADDR tiling)
{
    constexpr int32_t m = 16, n = 32, k = 48, rounds = 6;
    TPipe pipe;
    KfcWorkspace space(messages);
    auto group = CreateCubeResGroup<3, Product, Multiply, Work>(space, 2, 4, 3, tiling);
    const int32_t core = GetBlockIdx();
    if ASCEND_IS_AIC { return; }
    if (core >= 3) { return; }
    group.AssignQueue(core);
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 8192);
    LocalTensor<half> left = buffer.Get<half>();
    LocalTensor<float> sums = buffer.GetWithOffset<float>(m * n, 4096);
    for (int32_t round = 0; round < rounds; ++round) {
        const int32_t matrix = core * rounds + round;
        GlobalTensor<half> from, to;
        GlobalTensor<float> out;
        from.SetGlobalBuffer((__gm__ half*)x + matrix * m * k);
        to.SetGlobalBuffer((__gm__ half*)a + matrix * m * k);
        out.SetGlobalBuffer((__gm__ float*)y + matrix * m * n);
        DataCopy(left, from, m * k);
        ORDER(MTE2_V);
        Muls(left, left, half(2), m * k);
        ORDER(V_MTE3);
        DataCopy(to, left, m * k);
        if (mode == PipeMode::SCALAR_MODE && isOrdered) { ORDER_BY(MTE3_S, EVENT_ID1); }
        Work work = {};
        work.head.msgState = CubeMsgState::VALID;
        work.isUnordered = !isFreedAfter;
        work.a = (uint64_t)to.GetPhyAddr();
        work.b = (uint64_t)b;
        work.c = (uint64_t)out.GetPhyAddr();
        auto message = group.template AllocMessage<mode>();
        const uint16_t offset = group.template PostMessage<mode>(message, work);
        if (isPolling) {
            while (!group.template Wait<false>(offset)) {}
        } else {
            group.Wait(offset);
        }
        DataCopy(sums, out, m * n);
        ORDER(MTE2_V);
        Adds(sums, sums, 1.0f, m * n);
        ORDER(V_MTE3);
        DataCopy(out, sums, m * n);
        ORDER(MTE3_MTE2);
    }
    auto last = group.AllocMessage();
    group.SetQuit(last);
}
#define PRODUCTS(name, ...)                                                                                     \\
    extern "C" __global__ __aicore__ void name(GM_ADDR x, GM_ADDR b, GM_ADDR a, GM_ADDR y, GM_ADDR messages,    \\
                                               GM_ADDR, GM_ADDR tiling)                                         \\
    {                                                                                                           \\
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);                                                      \\
        Products<__VA_ARGS__>(x, b, a, y, messages, tiling);                                                    \\
    }
PRODUCTS(scalar_mode, PipeMode::SCALAR_MODE, true, true, false)
PRODUCTS(mte3_mode, PipeMode::MTE3_MODE, false, true, false)
PRODUCTS(polling, PipeMode::SCALAR_MODE, true, true, true)
PRODUCTS(unordered_post, PipeMode::SCALAR_MODE, false, true, false)
PRODUCTS(unordered_free, PipeMode::SCALAR_MODE, true, false, false)
"""
# Cube cores note the values of their messages in the order of arrival. 2 cube cores have 5 queues of 5 vector cores.
# IS(name) is true if the mistake `name` is planted.
NOTES = """
struct Note {
    CubeGroupMsgHead head;
    uint8_t mistake;
    uint8_t skip;
    int32_t value;
    uint64_t unused[7];
};
struct Odd {
    CubeGroupMsgHead head;
    uint8_t bytes[58];
};
struct Book {
    GlobalTensor<int32_t> lines;
    int32_t count = 0;
};
#define IS(name) (mistake == k_##name)

template <class Mm, typename Message>
struct NoteDown {
    static void Init(NoteDown&, Mm& log, GM_ADDR lines)
    {
        log.lines.SetGlobalBuffer((__gm__ int32_t*)lines + (GetBlockIdx() - 1) * 16 * 32);
    }
    static void Call(Mm& log, __gm__ Message* note, CubeResGroupHandle<Message>& group)
    {
        if constexpr (std::is_same_v<Message, Note>) {
            const uint8_t mistake = note->mistake;
            const int32_t skip = note->skip;
            log.lines.SetValue(log.count * 16, note->value);
            DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(
                log.lines[log.count * 16]);
            ++log.count;
            if (IS(quit_state)) { group.FreeMessage(note, CubeMsgState::QUIT); }
            if (IS(never_fake)) { group.FreeMessage(note + 1, CubeMsgState::FAKE); }
            if (IS(foreign)) { group.FreeMessage(note + 12); }
            if (IS(inside)) { group.FreeMessage((__gm__ Message*)((__gm__ uint8_t*)note + 8)); }
            if (!IS(not_freed) && !IS(left_posted) && !IS(vain_poll)) { group.FreeMessage(note); }
            if (IS(freed_twice)) { group.FreeMessage(note); }
            for (int32_t i = 1; i <= skip && !IS(fake_not_freed); ++i) {
                group.FreeMessage(note + i, CubeMsgState::FAKE);
            }
            if (skip > 0 && !IS(not_skipped)) { group.SetSkipMsg(IS(skip_many) ? 3 : skip); }
            if (IS(skip_true)) { group.SetSkipMsg(1); }
        }
    }
};

extern "C" __global__ __aicore__ void notes(GM_ADDR lines, GM_ADDR messages, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GET_TILING_DATA_WITH_STRUCT(Plan, plan, tiling);
    const int32_t mistake = plan.mistake;
    TPipe pipe;
    if (IS(matmul_object)) {
        Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
               MatmulType<TPosition::GM, CubeFormat::ND, float>> product;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product);
    }
    KfcWorkspace space(IS(misaligned) ? messages + 32 : IS(null_memory) ? (GM_ADDR)0 : messages);
    if (IS(moved_by_hand)) { space.UpdateKfcWorkspace(0); }
    if (IS(message_size)) { CreateCubeResGroup<0, Book, NoteDown, Odd>(space, 2, 4, 5, lines); }
    auto group = CreateCubeResGroup<0, Book, NoteDown, Note>(space, IS(odd_start) ? 1 : 2, IS(many_cores) ? 6 : 4,
                                                            IS(few_queues) ? 1 : IS(many_queues) ? 49 : 5, lines);
    if (IS(address_by_hand)) { space.GetKfcWorkspace(); }
    if (IS(second_group)) { group = CreateCubeResGroup<1, Book, NoteDown, Note>(space, 4, 2, 2, lines); }
    if (IS(no_group)) { group = CubeResGroupHandle<Note>(); }
    if ASCEND_IS_AIC {
        if (IS(skip_outside)) { group.SetSkipMsg(1); }
        return;
    }
    const int32_t core = GetBlockIdx();
    if (core >= 5) { return; }
    TBuf<TPosition::VECCALC> buffer;
    if (IS(full)) { pipe.InitBuffer(buffer, 195584); }
    if (IS(not_assigned) && core == 4) { return; }
    if (!IS(no_queue)) { group.AssignQueue(IS(beyond) ? core + 1 : IS(same_queue) ? 3 : core); }
    if (IS(assigned_again)) { group.AssignQueue(core); }
    __gm__ Note* message = nullptr;
    if (IS(never_posted) && core == 1) { group.AllocMessage(); return; }
    if (IS(five_messages)) { for (int32_t i = 0; i < 5; ++i) { group.AllocMessage(); } }
    if (IS(not_posted)) { group.AllocMessage(); group.Wait(0); }
    const int32_t count = plan.counts[core];
    uint16_t offset = 0;
    for (int32_t i = 0; i < count; ++i) {
        Note note = {{IS(free_state) ? CubeMsgState::FREE : CubeMsgState::VALID, 0}, (uint8_t)mistake, 0, 0, {}};
        note.value = core * 100 + i;
        note.skip = core == 0 ? plan.skip : 0;
        const bool isFake = core > 0 && core <= plan.skip;
        if (IS(mode) && core == 2) {
            auto other = group.AllocMessage<PipeMode::MTE3_MODE>();
            group.PostMessage(other, note);
        }
        if (IS(fake_mode) && core == 2) { group.PostFakeMsg(group.AllocMessage<PipeMode::MTE3_MODE>()); }
        if (i == 0 || !(IS(posted_again) || IS(fake_again))) { message = group.AllocMessage(); }
        offset = (IS(not_fake) && core == 2) || isFake || IS(fake_again) ? group.PostFakeMsg(message)
                                                                      : group.PostMessage(message, note);
        if (IS(odd_offset)) { group.Wait(1); }
        if (IS(vain_poll)) { while (!group.Wait<false>(offset)) {} }
        if (i % 2 == 1 && !IS(left_posted)) { group.Wait(offset); }
    }
    if (IS(no_quit) && core == 2) { return; }
    if (!IS(quit_again)) { message = group.AllocMessage(); }
    group.SetQuit(message);
    if (IS(wait_quit)) { group.Wait(count % 4 * 3); }
    if (IS(after_quit)) { group.AllocMessage(); }
}

/// Without cube cores.
extern "C" __global__ __aicore__ void alone(GM_ADDR lines, GM_ADDR messages, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    KfcWorkspace space(messages);
    CreateCubeResGroup<0, Book, NoteDown, Note>(space, 0, 2, 1, lines);
}
"""
MISTAKES = {
    "matmul_object": ("api_contract", "KfcWorkspace: a kernel has either groups of cube cores or REGIST_MATMUL_OBJ"),
    "misaligned": ("gm_misaligned", "CreateCubeResGroup: the memory of the messages does not start at a multiple"),
    "null_memory": ("null_argument", "CreateCubeResGroup: the memory of the messages"),
    "moved_by_hand": ("api_contract", "CreateCubeResGroup: both the kernel and CreateCubeResGroup"),
    "address_by_hand": ("api_contract", "GetKfcWorkspace: both the kernel and CreateCubeResGroup"),
    "message_size": (
        "field_range",
        "CreateCubeResGroup: the type of a message has 60 bytes, expected a multiple of 64",
    ),
    "odd_start": ("field_range", "CreateCubeResGroup: blockStart is 1 and blockSize 4, expected even numbers"),
    "many_cores": ("field_range", "CreateCubeResGroup: the group ends at cube core 4 of a launch with 3"),
    "few_queues": ("field_range", "CreateCubeResGroup: msgQueueSize is 1 for 2 cube cores"),
    "many_queues": ("field_range", "CreateCubeResGroup: msgQueueSize"),
    "second_group": ("api_contract", "CreateCubeResGroup: another group has the same cube cores or memory"),
    "no_group": ("message_order", "AssignQueue: the handle has no group"),
    "beyond": ("field_range", "AssignQueue: queueIdIn"),
    "same_queue": ("message_order", "AssignQueue: queue 3 is assigned at"),
    "assigned_again": ("message_order", "AssignQueue: the handle has queue"),
    "not_assigned": ("deadlock", "queue 4 has no message: no vector core has called AssignQueue(4)"),
    "no_queue": ("message_order", "AllocMessage: the handle has no queue"),
    "full": ("no_scratch", "AllocMessage: messages use the end of the unified buffer"),
    "five_messages": ("message_order", "AllocMessage: the message of AllocMessage at"),
    "never_posted": ("deadlock", "queue 1 has no message: AIV block 1 has not posted the message of AllocMessage"),
    "not_posted": ("message_order", "Wait: no message was posted at offset 0"),
    "odd_offset": ("message_order", "Wait: no message was posted at offset 1"),
    "free_state": ("message_order", "PostMessage: msgState of msgInput.head is not CubeMsgState::VALID"),
    "mode": ("message_order", "PostMessage: AllocMessage at"),
    "fake_mode": ("message_order", "PostFakeMsg: AllocMessage at"),
    "posted_again": ("message_order", "PostMessage: AllocMessage has not returned msg"),
    "fake_again": ("message_order", "PostFakeMsg: AllocMessage has not returned msg"),
    "quit_again": ("message_order", "SetQuit: AllocMessage has not returned msg"),
    "not_fake": ("message_order", "CreateCubeResGroup: the message of PostFakeMsg at"),
    "wait_quit": ("message_order", "Wait: the message is that of SetQuit"),
    "after_quit": ("message_order", "AllocMessage: queue 0 has quit with SetQuit at"),
    "no_quit": ("deadlock", "queue 2 has no message: AIV block 2 posts no more messages to queue 2; call SetQuit"),
    "quit_state": ("field_range", "FreeMessage: waitState is QUIT, expected VALID or FAKE"),
    "never_fake": ("deadlock", "FreeMessage: waits for FAKE, but the message at"),
    "foreign": ("message_order", "FreeMessage: msg belongs to queue 3 of another cube core"),
    "inside": ("message_order", "FreeMessage: msg is no message of this group"),
    "freed_twice": ("message_order", "FreeMessage: msg is FREE, expected a message that is posted"),
    "not_freed": ("deadlock", "Wait: the message is never freed: the cube core has handled the message of"),
    "vain_poll": ("deadlock", "Wait: the message is never freed"),
    "left_posted": ("message_not_freed", "CreateCubeResGroup: the cube core has handled the message of"),
    "fake_not_freed": ("message_order", "SetSkipMsg: the skipped message of queue 1 was not freed"),
    "not_skipped": ("deadlock", "without SetSkipMsg; call it in the same Call"),
    "skip_many": ("field_range", "SetSkipMsg: skipCnt"),
    "skip_true": ("message_order", "SetSkipMsg: the skipped message of queue"),
    "skip_outside": ("message_order", "SetSkipMsg: SetSkipMsg is called outside of the callback"),
}
# The mistakes that need other data than the kernel without mistakes.
COUNTS = {"vain_poll": (1, 0, 0, 0, 0), "left_posted": (1, 1, 1, 1, 1)}
SKIPS = {"fake_not_freed": 2, "not_skipped": 2, "skip_many": 2}
DATA = f"""
struct Plan {{
    int32_t mistake = 0;
    int32_t skip = 0;
    int32_t counts[5] = {{}};
}};
enum Mistake : int32_t {{ k_none, {", ".join(f"k_{name}" for name in MISTAKES)} }};
"""
CUBES, QUEUES = 2, 3  # of the first cube core; the second one has 2
AREA = CUBES * QUEUES * 4 * 64


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(HEAD + DATA + PRODUCTS + NOTES)


def memory(size: int = AREA) -> np.ndarray:
    """Return zeros at a multiple of 64 bytes."""
    whole = np.zeros(size + 64, np.uint8)
    first = -whole.ctypes.data % 64
    return whole[first : first + size]


def _products(kernels, name, **options):
    random = np.random.default_rng(7)
    x = random.standard_normal((18, 16, 48)).astype(np.float16)
    b = random.standard_normal((48, 32)).astype(np.float16)
    y = np.zeros((18, 16, 32), np.float32)
    data = tiling(16, 32, 48, base=(16, 32, 48))
    arrays = (x, b, np.zeros_like(x), y, memory(2 * 2 * 4 * 128))
    report = kernels.launch(name, *arrays, tiling=data, task_type="MIX_AIC_1_2", blocks=3, **options)
    expected = 2 * x.astype(np.float64) @ b.astype(np.float64) + 1
    return report, np.abs(y - expected).max()


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("name", ["scalar_mode", "mte3_mode", "polling"])
def test_products_of_messages(kernels, name, threads):
    """Cube cores multiply the matrices of three vector cores, also if the twin runs one core at a time."""
    report, error = _products(kernels, name, threads=threads)
    assert report["findings"] == []
    assert error < 1e-4


@pytest.mark.parametrize("name", ["unordered_post", "unordered_free"])
def test_messages_of_the_scalar_unit_order_no_other_pipe(kernels, name):
    """A store of MTE3 before PostMessage, and of Fixpipe before FreeMessage, needs its own wait."""
    report, _ = _products(kernels, name)
    assert {finding["kind"] for finding in report["findings"]} == {"race"}


def _notes(kernels, mistake="none", counts=(3, 5, 1, 6, 2), skip=0, area=None, **options):
    lines = np.full((CUBES, 32, 16), -1, np.int32)
    number = [*MISTAKES].index(mistake) + 1 if mistake in MISTAKES else 0
    data = struct.pack("7i", number, skip, *counts)
    area = memory(2 * AREA) if area is None else area
    report = kernels.launch("notes", lines, area, tiling=data, task_type="MIX_AIC_1_2", blocks=3, **options)
    return report, [[int(value) for value in row if value >= 0] for row in lines[:, :, 0]], area


def _arrivals(counts, skip):
    """Return the values in rounds: one message of each queue that has not quit, without fake ones."""
    order = []
    for queues in (range(QUEUES), range(QUEUES, 5)):
        rounds = range(max(counts[queue] for queue in queues))
        true = [queue for queue in queues if not 0 < queue <= skip]
        order.append([queue * 100 + at for at in rounds for queue in true if at < counts[queue]])
    return order


@pytest.mark.parametrize(
    ("counts", "skip"), [((3, 5, 1, 6, 2), 0), ((1, 0, 9, 0, 4), 0), ((6, 6, 6, 1, 1), 2), ((5, 5, 7, 0, 0), 1)]
)
def test_cube_cores_read_one_message_of_each_queue_in_turn(kernels, counts, skip):
    report, received, area = _notes(kernels, counts=counts, skip=skip)
    assert report["findings"] == []
    assert received == _arrivals(counts, skip)
    # The memory has the message of SetQuit of each queue, at its last position.
    states = area[:AREA].reshape(CUBES, 4, QUEUES, 64)[..., 0]
    quits = {(queue // QUEUES, count % 4, queue % QUEUES) for queue, count in enumerate(counts)}
    assert {tuple(map(int, place)) for place in np.argwhere(states)} == quits
    assert set(states[states != 0].tolist()) == {2}


@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes(kernels, record_planted, name):
    kind, message = MISTAKES[name]
    findings = _notes(kernels, name, COUNTS.get(name, (6, 6, 6, 6, 6)), SKIPS.get(name, 0))[0]["findings"]
    found = [finding for finding in findings if finding["kind"] == kind and message in finding["message"]]
    assert found, findings
    assert ":" in found[0]["where"]
    record_planted(name, found[0])


def test_memory_of_messages(kernels):
    """The memory is zero, and has 4 messages for each queue."""
    findings = _notes(kernels, area=memory(AREA - 64))[0]["findings"]
    assert {finding["kind"] for finding in findings} == {"gm_out_of_range"}
    used = _notes(kernels)[2]
    findings = _notes(kernels, area=used)[0]["findings"]
    assert "sync_workspace" in {finding["kind"] for finding in findings}
    assert any("AssignQueue: the memory of the messages is not zero" in finding["message"] for finding in findings)


def test_a_group_needs_cube_cores(kernels):
    lines = np.zeros(16, np.int32)
    findings = kernels.launch("alone", lines, memory(), task_type="AIV_ONLY")["findings"]
    assert [finding["kind"] for finding in findings] == ["sync_task_type"]


def test_only_ascend_910b_has_groups(kernels):
    findings = _notes(kernels, soc="Ascend910_9391")[0]["findings"]
    assert [finding["kind"] for finding in findings] == ["api_contract"]
    assert "Ascend910_9391 has no groups of cores, expected a chip of Ascend 910B" in findings[0]["message"]


def test_fake_messages_in_level_device(kernels):
    """The device calls the callback with a fake message that is not skipped."""
    report, received, _ = _notes(kernels, "not_fake", (1, 1, 1, 1, 1), strict=2)
    assert report["findings"] == []
    assert len(received[0]) == 3


def test_time(kernels):
    """CreateCubeResGroup and messages cost an access to global memory for each 64 bytes, or a copy of MTE3."""
    random = np.random.default_rng(7)
    arrays = [random.standard_normal((18, 16, 48)).astype(np.float16), np.ones((48, 32), np.float16)]
    arrays += [np.zeros_like(arrays[0]), np.zeros((18, 16, 32), np.float32)]
    data = tiling(16, 32, 48, base=(16, 32, 48))
    options = {"tiling": data, "task_type": "MIX_AIC_1_2", "blocks": 3}
    scalar = kernels.cycles("scalar_mode", *arrays, memory(2048), **options)
    mte3 = kernels.cycles("mte3_mode", *arrays, memory(2048), **options)
    messages, lines, cores = 18, 2, 3
    assert scalar["PostMessage"] == pytest.approx(messages * lines * GM, rel=0.01)
    assert mte3["PostMessage"] == pytest.approx(messages * (128 // 8 * UB + COPY), rel=0.01)
    for name, count in {
        "AllocMessage": messages + cores,
        "Wait": messages,
        "FreeMessage": messages,
        "SetQuit": cores,
        "CreateCubeResGroup": messages + cores,
    }.items():
        assert scalar[name] == pytest.approx(count * GM, rel=0.01), name


def test_messages_delay_cores(kernels):
    """A round trip has two flags between cores, and the accesses of both cores to the message."""
    one, two = (
        _notes(kernels, counts=(count, 0, 0, 0, 0))[0]["estimate_us"] * SOCS["Ascend910B1"].mhz for count in (2, 4)
    )
    # Two messages more: the vector core waits for the second one.
    assert two - one >= 2 * MODEL["cross_core_flag_cycles"] + 4 * GM
