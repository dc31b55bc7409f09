"""What the headers of each codec let a plan leave out, and that damaged headers never change a frame."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from storage_schemas.errors import SetAside
from tasks.media.av1_syntax import Av1Reader, parse_sequence, with_frames
from tasks.media.bitstream import CodedPicture, InvalidBitstream, NotProvable, PictureReader
from tasks.media.decode import FrameSampler
from tasks.media.hevc_syntax import HevcReader, parse_hvcc, parse_sps
from tasks.media.packet_plan import ALL_FRAMES, PacketPlan, probe_and_plan
from tasks.media.vp9_syntax import Vp9Reader, frame_sizes, parse_frame
from tests.tasks.media.corpus import Video, packets_of, place_of, run

Frames = list[tuple[int, bytes]]

#: Corpus video and the largest share of its packets that the frames at 1 fps may need.
SHARES = {
    "plain": 0.6,
    "vp9": 0.7,
    "vp9_hidden_frames": 0.7,
    "vp9_mp4": 0.7,
    "vp9_key_frames_often": 0.5,
    "hevc": 0.5,
    "hevc_closed_gop": 0.4,
    "hevc_open_gop": 0.5,
    "hevc_layers": 0.5,
    "av1": 0.4,
    "av1_key_frames_often": 0.4,
    "av1_libaom": 0.5,
    "av1_rav1e": 0.6,
}


@pytest.mark.parametrize("name", SHARES)
def test_a_plan_leaves_out_what_no_frame_needs(name: str, video: Video) -> None:
    plan = probe_and_plan(video(name), Fraction(1))[1]
    assert isinstance(plan, PacketPlan)
    needed = plan.needed > 0
    assert needed[plan.chosen].all()
    assert needed.mean() <= SHARES[name]
    for start, stop in zip(np.flatnonzero(plan.entry), [*np.flatnonzero(plan.entry)[1:], None], strict=True):
        wanted = plan.chosen[(plan.chosen >= start) & (plan.chosen < (stop or len(needed)))]
        assert needed[start:stop].any() == bool(len(wanted)), "a section without wanted frames is decoded"
        if len(wanted):
            assert not needed[wanted[-1] + 1 : stop].any(), "what follows the last wanted frame is decoded"


DAMAGED = ["vp9_hidden_frames", "vp9_mp4", "av1", "av1_libaom", "hevc", "hevc_open_gop"]


def frames_of(path: Path, mode: Literal["auto", "full"]) -> tuple[Frames, str]:
    """The frames at 3 fps up to the end or the first damage, and how they were got, or "damage"."""
    frames: Frames = []
    try:
        sampler = FrameSampler(path, fps=Fraction(3), long_side=64, mode=mode)
        frames.extend((frame.index, frame.planes.tobytes()) for frame in sampler)
    except SetAside:
        return frames, "damage"
    return frames, sampler.mode


def check_damaged_headers(source: Path, target: Path, seeds: range) -> Counter[tuple[str, str]]:
    """Change bytes at the ends of packets, compare frames, and count the outcomes of (plan, full way).

    Where the change damages what is shown and the decoder does not notice, neither way gives the true frame,
    and there may be in it what the decoder's memory happened to hold.
    """
    truth = dict(frames_of(source, "full")[0])
    outcomes: Counter[tuple[str, str]] = Counter()
    packets, original = packets_of(source), source.read_bytes()
    places = [original.index(bytes(packet), place_of(packet)) for packet in packets]
    for seed in seeds:
        draw = random.Random(seed)
        data = bytearray(original)
        for _ in range(draw.choice([1, 1, 2, 5])):
            number = draw.randrange(len(packets))
            from_head = min(draw.choice([1, 2, 4, 12, 40]), packets[number].size)
            at = draw.randrange(from_head) if draw.random() < 0.8 else packets[number].size - 1
            data[places[number] + at] ^= draw.choice([1 << draw.randrange(8), draw.randrange(1, 256)])
        target.write_bytes(data)
        planned, way = frames_of(target, "auto")
        full, full_way = frames_of(target, "full")
        for (k, ours), (same_k, theirs) in zip(planned, full, strict=False):
            assert k == same_k, seed
            assert ours == theirs or truth[k] not in (ours, theirs), seed
        assert "damage" in (way, full_way) or len(planned) == len(full), seed
        outcomes[way, full_way] += 1
    return outcomes


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_headers_never_change_a_frame(name: str, video: Video, tmp_path: Path) -> None:
    check_damaged_headers(video(name), tmp_path / f"damaged{video(name).suffix}", range(4))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DAMAGED, "vp9", "av1_rav1e", "hevc_layers", "hevc_matroska"])
def test_many_damaged_headers_never_change_a_frame(name: str, video: Video, tmp_path: Path) -> None:
    outcomes = check_damaged_headers(video(name), tmp_path / f"d{video(name).suffix}", range(1000, 1100))
    assert outcomes["packet_plan", "filter_graph"]


#: Settings of each encoder with their range, or with the values that are chosen from.
SETTINGS = {
    "libx264": "bframes=0..6 b-pyramid=none|strict|normal b-adapt=0..2 ref=1..8 keyint=2..60 "
    "min-keyint=1..20 scenecut=0|40 weightp=0..2 slices=1..3 open-gop=0|0|1 intra-refresh=0|0|1 "
    "direct=spatial|temporal|auto cabac=0..1 stitchable=0..1 nal-hrd=none|vbr",
    "libx265": "bframes=0..8 b-pyramid=0..1 b-adapt=0..2 ref=1..6 keyint=2..60 scenecut=0|40 open-gop=0..1 "
    "intra-refresh=0|0|1 temporal-layers=0|0|1 slices=1..2 scaling-list=off|default log2-max-poc-lsb=4|5|8 "
    "repeat-headers=0..1",
    "libsvtav1": "preset=10..12 keyint=2..60 hierarchical-levels=3..5 pred-struct=1|2|2 irefresh-type=1..2 "
    "film-grain=0|0|20 tile-columns=0..1",
    "libaom-av1": "g=2..60 lag-in-frames=0|10|19|25 "
    "aom-params=frame-parallel=1|film-grain-test=3|reduced-reference-set=1",
    "libvpx-vp9": "g=2..60 auto-alt-ref=0|1|1|4 lag-in-frames=0..25 error-resilient=0|0|1 aq-mode=0..3 "
    "deadline=good|realtime frame-parallel=0..1",
}


def one_of(values: str) -> st.SearchStrategy[str]:
    first, dots, last = values.partition("..")
    return st.integers(int(first), int(last)).map(str) if dots else st.sampled_from(values.split("|"))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["mp4", "mkv"])
@pytest.mark.parametrize("codec", [*SETTINGS, "libx264"])
@given(data=st.data())
def test_both_ways_agree(codec: str, ending: str, data: st.DataObject, ffmpeg: str, tmp_path: Path) -> None:
    ranges = [setting.partition("=") for setting in SETTINGS[codec].split()]
    chosen = {key: data.draw(one_of(values), label=key) for key, _, values in ranges}
    if chosen.get("intra-refresh") == "1" and codec == "libx265":
        # x265 divides by zero otherwise
        assume(int(chosen["keyint"]) > int(chosen["bframes"]))
    path = tmp_path / f"film.{ending}"
    joined = ":".join(f"{key}={value}" for key, value in chosen.items())
    each = " ".join(f"-{key} {value}" for key, value in chosen.items())
    options = {
        "libx264": f"-threads 1 -x264-params {joined}:vbv-maxrate=900:vbv-bufsize=900",
        "libx265": f"-preset ultrafast -x265-params log-level=none:pools=1:rc-lookahead=20:{joined}",
        "libsvtav1": f"-svtav1-params {joined}",
    }.get(codec, f"-cpu-used 8 -b:v 200k {each}")
    picture = "testsrc2=s=96x64:r=24:d=4,noise=alls=20:allf=t"
    run(ffmpeg, "-f", "lavfi", "-i", picture, "-pix_fmt", "yuv420p", "-c:v", codec, *options.split(), path)
    planned, full = frames_of(path, "auto"), frames_of(path, "full")
    assert planned[0] == full[0] != []
    assert full[1] == "filter_graph"
    if codec != "libx264" or (chosen["open-gop"], chosen["intra-refresh"]) == ("0", "0"):
        assert planned[1] == "packet_plan"
    assert "damage" not in planned


def read(reader: PictureReader, packets: list[bytes]) -> list[CodedPicture]:
    """What a reader says of packets."""
    return [reader.read(memoryview(packet)) for packet in packets]


VP9_KEY = bytes.fromhex("82498342001 3f00b38000000".replace(" ", ""))
VP9_INTER, VP9_HIDDEN, VP9_AGAIN = b"\x86\x00" + bytes(9), b"\x84\x00" + bytes(9), b"\x88"


def superframe(*frames: bytes) -> bytes:
    """Frames and their index, with sizes of one byte."""
    marker = bytes([0xC0 | len(frames) - 1])
    return b"".join(frames) + marker + bytes(map(len, frames)) + marker


def test_vp9_headers() -> None:
    key = parse_frame(VP9_KEY)
    assert (key.shown, key.key, key.format) == (True, True, (0, 0, 0, 0, 319, 179))
    assert parse_frame(VP9_INTER) == parse_frame(VP9_AGAIN)
    assert not parse_frame(VP9_HIDDEN).shown
    assert frame_sizes(memoryview(superframe(VP9_HIDDEN, VP9_INTER))) == [11, 11]
    for wrong in (b"\x00", b"\xb8", b"\x82\x00\x00\x00", b"\x82\x49"):
        with pytest.raises(InvalidBitstream):
            parse_frame(wrong)
    with pytest.raises(InvalidBitstream):  # its sizes do not add up
        frame_sizes(memoryview(superframe(VP9_HIDDEN, VP9_INTER)[1:]))


@pytest.mark.parametrize(
    "packets",
    [
        [VP9_KEY, VP9_HIDDEN],
        [VP9_KEY, superframe(VP9_INTER, VP9_INTER)],
        [VP9_KEY, superframe(VP9_INTER, VP9_HIDDEN)],
        [superframe(VP9_HIDDEN, VP9_KEY)],
        [VP9_KEY, VP9_KEY[:-5] + b"\x0c" + VP9_KEY[-4:]],
    ],
)
def test_vp9_packets_that_prove_nothing(packets: list[bytes]) -> None:
    reader = Vp9Reader(b"", 0)
    read(reader, packets[:-1])
    with pytest.raises(NotProvable):
        read(reader, packets[-1:])


def packed(bits: str) -> bytes:
    """Bytes of a string of bits, with zeros up to the whole byte and beyond."""
    digits = bits.replace(" ", "")
    size = -(-len(digits) // 8)
    return int(digits.ljust(8 * size, "0"), 2).to_bytes(size, "big") + bytes(4)


def unit(kind: int, payload: bytes) -> bytes:
    """A unit of AV1 with its size."""
    return bytes([kind << 3 | 2, len(payload)]) + payload


#: No timing, no layers, level 0, size of 16 bits each; then: no frame numbers, order hints of 7 bits.
AV1_SIZES = "000 0 0 0 0 00000 {layers} 00000 1111 1111" + "0" * 32
AV1_TOOLS = "{numbers} 0000000 1 11 1 1 110"
AV1_SEQUENCE = packed((AV1_SIZES + AV1_TOOLS).format(layers="0" * 12, numbers=0))
# show_existing_frame, frame_type, show_frame, [showable_frame], [error_resilient_mode], tools, ...
AV1_KEY = packed("0 00 1 0 0 0 0000000")
# up to the slots that take the frame; then frame_refs_short_signaling and the slots that it is decoded from
AV1_REFERENCE = packed("0 01 1 0 0 0 0 0000001 111 00000100" + "0" + "000" * 7)
AV1_DISPOSABLE = packed("0 01 1 0 0 0 0 0000010 111 00000000" + "0" + "010" + "011" * 6)
AV1_AHEAD = packed("0 01 0 1 0 0 0 0 0001000 111 00001000" + "0" + "000" * 6 + "010")
AV1_BY_ORDER = packed("0 01 1 0 0 0 0 0000010 111 00000000" + "1" + "000 000")
AV1_RESILIENT = packed("0 01 1 1 0 0 0 0000010 00000000" + "0000001" * 8 + "0" + "010" * 7)
AV1_INTRA = packed("0 10 1 0 0 0 0 0000010 00000010")
AV1_HIDDEN_KEY = packed("0 00 0 1 1 0 0 0 0001000 00001000")
AV1_SHOW = "1 {:03b}"


def av1_packets(*frames: list[bytes]) -> list[bytes]:
    """A shown key frame with the sequence header, then a packet for each list of frame headers."""
    first = unit(1, AV1_SEQUENCE) + unit(6, AV1_KEY)
    return [first] + [b"".join(unit(3, header) for header in packet) for packet in frames]


def test_av1_headers_say_from_which_frames_each_is_decoded() -> None:
    packets = av1_packets([AV1_REFERENCE], [AV1_DISPOSABLE], [AV1_AHEAD, AV1_DISPOSABLE], [AV1_INTRA])
    packets.append(unit(3, packed(AV1_SHOW.format(3))))
    packets += av1_packets([AV1_BY_ORDER], [AV1_RESILIENT])[1:]
    pictures = read(Av1Reader(b"", 0), packets)
    assert [picture.entry for picture in pictures] == [True] + 7 * [False]
    needs = [[sorted(of_frame) for of_frame in picture.needs] for picture in pictures]
    assert needs[:5] == [[[]], [[0]], [[0, 1]], [[0, 1], [1, 3]], [[0]]]
    assert needs[5:] == [[[3]], [[0, 1, 3, 5]], [[0, 1, 3, 5]]]


def test_av1_frames_are_taken_out_of_a_packet() -> None:
    metadata = unit(5, b"\4")
    ahead, shown = unit(3, AV1_AHEAD) + unit(4, b"tiles") + unit(4, b"more tiles"), unit(6, AV1_DISPOSABLE)
    packet = memoryview(metadata + ahead + shown)
    expected = [metadata, metadata + ahead, metadata + shown, packet]
    assert [with_frames(packet, frames) for frames in (0b00, 0b01, 0b10, 0b11)] == expected


def test_av1_packets_with_some_of_their_frames_give_the_same_pictures(video: Video) -> None:
    plan = probe_and_plan(video("av1"), Fraction(1))[1]
    assert isinstance(plan, PacketPlan)
    assert set(plan.needed.tolist()) - {0, ALL_FRAMES}, "no packet is left out in part"
    planned, full = frames_of(video("av1"), "auto"), frames_of(video("av1"), "full")
    assert (planned[1], full[1]) == ("packet_plan", "filter_graph")
    assert planned[0] == full[0]


def test_av1_timing_and_decoder_models_are_read() -> None:
    timing = "1" + "0" * 64 + "0" + "1 00111" + "0" * 32 + "01001 10001"
    points = "0 00001" + 2 * ("0" * 12 + "01000 0 1" + "0" * 17)
    tools = AV1_TOOLS.format(numbers=0)
    sequence = parse_sequence(packed("000 0 0" + timing + points + "1111 1111" + "0" * 32 + tools))
    assert (sequence.presentation_bits, sequence.removal_bits) == (18, (10, 10))
    assert (sequence.order_hint_bits, sequence.has_decoder_model) == (7, True)


@pytest.mark.parametrize(
    "packets",
    [
        av1_packets([AV1_HIDDEN_KEY, AV1_DISPOSABLE]),
        av1_packets([AV1_REFERENCE, AV1_REFERENCE]),
        av1_packets([AV1_AHEAD]),
        av1_packets([AV1_KEY]),
        av1_packets([packed(AV1_SHOW.format(0))]),
        [unit(6, AV1_KEY)],
        [unit(1, AV1_SEQUENCE[:-1] + b"\1") + unit(6, AV1_KEY), av1_packets()[0]],
        [unit(1, packed(AV1_SIZES.format(layers="000100000001")))],
        [unit(1, packed((AV1_SIZES + AV1_TOOLS).format(layers="0" * 12, numbers=1)))],
        [unit(1, packed("000 1 1"))],
        [unit(8, b"")],
        [b"\x36\x00\x01"],
        [b"\x32\x05"],
        [b"\x32\xff"],
        [b"\xb2\x00"],
    ],
)
def test_av1_packets_that_prove_nothing(packets: list[bytes]) -> None:
    reader = Av1Reader(b"", 0)
    read(reader, packets[:-1])
    with pytest.raises((NotProvable, InvalidBitstream)):
        read(reader, packets[-1:])


def of_kind(kind: int, rest: bytes = b"", layer: int = 0, temporal: int = 1) -> bytes:
    """A NAL unit of H.265 with its length."""
    body = bytes([kind << 1 | layer >> 5, (layer & 31) << 3 | temporal]) + rest
    return len(body).to_bytes(4, "big") + body


@pytest.fixture(scope="module")
def hevc(video: Video) -> tuple[bytes, list[bytes]]:
    """Extradata and packets of a film of H.265."""
    path = video("hevc_closed_gop")
    with av.open(str(path)) as box:
        return box.streams.video[0].codec_context.extradata or b"", [bytes(p) for p in packets_of(path)]


def test_hevc_parameter_sets(hevc: tuple[bytes, list[bytes]]) -> None:
    record = parse_hvcc(hevc[0])
    sps = parse_sps(record.sets[33][0])
    assert (record.length_size, sps.highest_layer, sps.separate_planes) == (4, 0, False)
    assert (sps.log2_max_poc_lsb, sps.num_reorder) == (8, 2)
    for wrong in (b"\0\0\0\1", hevc[0][:60]):
        with pytest.raises(InvalidBitstream):
            parse_hvcc(wrong)


def test_hevc_pictures_are_in_the_order_in_which_they_are_shown(hevc: tuple[bytes, list[bytes]]) -> None:
    pictures = read(HevcReader(hevc[0], 0), hevc[1])
    starts = [i for i, picture in enumerate(pictures) if picture.entry]
    assert len(starts) == 3
    for start, stop in zip(starts, [*starts[1:], len(pictures)], strict=True):
        assert sorted(p.order for p in pictures[start:stop]) == list(range(stop - start))
        referred = {number for p in pictures[start:stop] for needs in p.needs for number in needs}
        assert 0.2 < len(referred) / (stop - start) < 0.5


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (of_kind(36, b"\x80"), "type 36"),
        (of_kind(62, b"\x80"), "type 62"),
        (of_kind(16, b"\x80"), "type 16"),
        (of_kind(1, b"\x80", layer=1), "layers"),
        (of_kind(1, b"\xc0"), "several pictures"),
        (of_kind(0, b"\x40"), "differ in kind"),
        (of_kind(34, b"\xc0"), "parameter set"),
        (of_kind(39, b"\x2f\x01\x00\x80"), "messages"),
        (b"\0\0\7\0\x28\1", "sequence of NAL units"),
    ],
)
def test_hevc_packets_that_prove_nothing(more: bytes, reason: str, hevc: tuple[bytes, list[bytes]]) -> None:
    with pytest.raises(NotProvable, match=reason):
        read(HevcReader(hevc[0], 0), [hevc[1][0], hevc[1][1] + more])


def test_plan_refuses_hevc_that_discards_or_hides_a_reference(hevc: tuple[bytes, list[bytes]]) -> None:
    extradata, packets = hevc
    with pytest.raises(NotProvable, match="discards"):
        read(HevcReader(extradata, 0), [of_kind(19, b"\xc0\0\0\0")])
    pictures = read(HevcReader(extradata, 0), packets)
    second = [picture.entry for picture in pictures].index(True, 1)
    number = sorted({number for picture in pictures[:second] for number in picture.needs[0]})[1]
    with pytest.raises(NotProvable, match="refers to one that is missing"):
        read(HevcReader(extradata, 0), packets[:number] + packets[number + 1 :])
    hidden = bytearray(packets[number])
    assert hidden[4] >> 1 == 1  # TRAIL_R
    hidden[4] = 0
    with pytest.raises(NotProvable, match="none may refer to"):
        read(HevcReader(extradata, 0), [*packets[:number], bytes(hidden), *packets[number + 1 :]])
