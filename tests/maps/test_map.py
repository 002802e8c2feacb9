"""From a photo to an answer: the whole way, with the real network and the real local features, on made-up scenes."""

import io
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import samespot
from samespot.errors import InputError
from samespot.maps import looking
from samespot.maps.answer import Answer, Trouble
from samespot.maps.map import Map, open_map
from samespot.maps.questions import Question
from samespot.maps.trust import Trust
from samespot.places.table import Places
from tests import warm
from tests.light import refused_without_torch
from tests.maps.test_trust import questions

SCENES, VIEWS = 12, 3
SIDE = 40.0  # [m] between two scenes
SHIFT = 12  # [pixels] between two views of a scene


def scene(number, width=320, height=120):
    """A wide wall of blocks of many sizes, unlike any other."""
    dice = np.random.default_rng(number)
    wall = Image.new("RGB", (width, height), tuple(int(c) for c in dice.integers(60, 200, 3)))
    for _ in range(260):
        x, y = int(dice.integers(0, width)), int(dice.integers(0, height))
        size = int(dice.integers(3, 30)), int(dice.integers(3, 30))
        wall.paste(tuple(int(c) for c in dice.integers(0, 256, 3)), (x, y, x + size[0], y + size[1]))
    return wall


def view(number, shift):
    return scene(number).crop((80 + shift, 0, 240 + shift, 120))


def known_trust():
    """Of made-up questions: right answers have a contrast of about seven, wrong ones of one."""
    both = [questions(), questions(seed=1, verified=False)]
    return Trust.fit(*(np.concatenate(parts) for parts in zip(*both, strict=True)))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A map of twelve scenes, three views each, headings as the views are shifted."""
    folder = tmp_path_factory.mktemp("maps")
    (folder / "photos").mkdir()
    rows = []
    for number in range(SCENES):
        for at in range(VIEWS):
            name = f"{number:02d}-{at}.png"
            view(number, SHIFT * at).save(folder / "photos" / name)
            rows.append((name, SIDE * number, 2.0 * at, 90.0 + 5 * at, f"walk{at}"))
    columns = dict(
        zip(("image", "easting", "northing", "heading", "sequence"), zip(*rows, strict=True), strict=True)
    )
    places = Places.build(folder / "photos", columns)
    for number in range(SCENES + 2):
        view(number, SHIFT + 5).save(folder / f"query{number:02d}.png")
    with pytest.MonkeyPatch.context() as patch:
        from samespot.maps import build

        patch.setattr(build._Work, "_calibration", lambda self, generation: known_trust().to_dict())
        samespot.build_map(places, out=folder / "map", within=15.0)
    return folder


@pytest.fixture(scope="module")
def there(real):
    return open_map(real / "map", device="cpu")


def test_every_query_finds_its_scene_and_knows_it(real, there):
    answers = [there.locate(real / f"query{number:02d}.png") for number in range(SCENES)]
    assert [round(one.position.easting / SIDE) for one in answers] == list(range(SCENES))
    assert all(one.found and one.probability > 0.9 for one in answers)
    assert all(one.matches[0].image.startswith(f"{n:02d}-") for n, one in enumerate(answers))


def test_what_is_not_in_the_map_is_not_found(real, there):
    for number in (SCENES, SCENES + 1):
        answer = there.locate(real / f"query{number:02d}.png")
        assert not answer.found
        assert answer.probability < 0.2
        assert str(answer).startswith(f"{real}/query{number}.png: not in this map")


def test_an_answer_says_what_it_rests_on(real, there):
    answer = there.locate(real / "query03.png", k=4, outside=0.25)
    assert len(answer.matches) == 4
    first = answer.matches[0]
    assert first.verified > 40
    assert 0.2 < first.overlap.share <= 1
    assert 0 < first.distance < 1.2
    assert first.position.easting == there.positions[first.row, 0]
    assert (answer.radius, answer.outside, answer.calibration) == (15.0, 0.25, "map")
    assert answer.matches[3].verified < first.verified / 2  # of another scene


def test_the_heading_is_between_those_of_the_views_on_either_side(real, there):
    # a shift to the right of five pixels of 160 is a turn of some two degrees
    answer = there.locate(real / "query05.png")
    match = answer.matches[0]
    shift = SHIFT + 5 - SHIFT * int(match.image[3])
    expected = match.heading + shift / 160 * 65
    # or, of a flat picture, a step to the side without any turn: the geometry cannot tell, and three compasses speak
    assert answer.heading == pytest.approx(expected, abs=3.0)


def test_more_photos_outside_make_every_answer_less_likely(real, there):
    likely = [there.locate(real / "query03.png", outside=share).probability for share in (0.01, 0.5, 0.99)]
    assert likely[0] > likely[1] > likely[2]


def test_a_photo_of_the_map_finds_itself(real, there):
    answer = there.locate(real / "photos/07-1.png")
    assert answer.matches[0].image == "07-1.png"
    assert answer.matches[0].distance < 0.02
    assert answer.found


def test_however_a_photo_is_handed_over_the_answer_is_the_same(real, there):
    path = real / "query02.png"
    with Image.open(path) as image:
        ways = [path.read_bytes(), np.asarray(image), image.copy()]
    expected = there.locate(path)
    for way in ways:
        assert replace(there.locate(way), photo=str(path)) == expected


def test_without_verification_nothing_is_verified(real, there):
    answer = there.locate(real / "query02.png", verify=False)
    assert all(match.verified is None and match.overlap is None for match in answer.matches)
    assert answer.heading is None


def test_many_photos_come_in_their_order_and_a_broken_one_does_not_stop_them(real, there, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff no photo")
    asked = [real / "query01.png", tmp_path / "broken.jpg", real / "query04.png"]
    one, two, three = there.locate_many(asked)
    assert (one, three) == (there.locate(asked[0]), there.locate(asked[2]))
    assert isinstance(two, Trouble)
    assert "broken.jpg" in two.why


def test_a_sequence_of_one_photo_is_answered_as_the_photo_is(real, there):
    for outside in (0.05, 0.5, 0.9):
        for number in (3, SCENES):
            alone = there.locate(real / f"query{number:02d}.png", outside=outside)
            (along,) = there.track([real / f"query{number:02d}.png"], outside=outside)
            assert along.probability == pytest.approx(alone.probability)
            assert along.matches[0] == alone.matches[0]
            assert along.position == alone.position


def test_a_sequence_tells_a_place_that_one_photo_cannot(real, there):
    faint = np.asarray(Image.open(real / "query04.png").resize((40, 30)).resize((160, 120)))
    photos = [real / "query03.png", faint, real / "query05.png"]
    alone = there.locate(faint)
    along = list(there.track(photos, speed=30.0, every=2.0))
    live = list(there.track(photos, speed=30.0, every=2.0, live=True))
    assert [one.time for one in along] == [0.0, 2.0, 4.0]
    right = [one for one in alone.matches if one.image.startswith("04-")]
    assert right  # it is among the first
    assert live[1].probability > alone.probability
    assert along[1].probability > live[1].probability
    assert round(along[1].position.easting / SIDE) == 4


def test_a_reader_keeps_its_generation_and_can_move_on(real, tmp_path, monkeypatch):
    import shutil

    from samespot.maps import build

    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: known_trust().to_dict())
    shutil.copytree(real / "map", tmp_path / "map")
    old = open_map(tmp_path / "map", device="cpu")
    assert old.newest() is old
    (tmp_path / "more").mkdir()
    view(SCENES, 0).save(tmp_path / "more/new.png")
    more = Places.build(
        tmp_path / "more", {"image": ["new.png"], "easting": [900.0], "northing": [0.0], "heading": [0.0]}
    )
    before = old.locate(real / f"query{SCENES}.png")
    samespot.build_map(None, out=tmp_path / "map", add=[more])
    assert old.locate(real / f"query{SCENES}.png") == before
    new = old.newest()
    assert len(new) == len(old) + 1
    assert new.locate(real / f"query{SCENES}.png").matches[0].image.endswith("new.png")


def test_several_threads_may_ask(real):
    fresh = Map(open_map(real / "map").generation, "cpu")
    photos = [real / f"query{number:02d}.png" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(fresh.locate, photos))
    for one, other in zip(together, (fresh.locate(photo) for photo in photos), strict=True):
        assert (one.photo, one.probability, one.matches) == (other.photo, other.probability, other.matches)
        # BLAS may sum in other runs while others ask
        assert one.position.easting == pytest.approx(other.position.easting, abs=1e-3)
        assert one.position.northing == pytest.approx(other.position.northing, abs=1e-3)


def test_the_command_answers_about_a_photo_from_standard_input(real):
    words = ["-m", "samespot", "locate", real / "map", "-", "--json", "-"]
    done = warm.run(words, given=(real / "query06.png").read_bytes())
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["found"] == 1
    assert round(told["answers"][0]["position"]["easting"] / SIDE) == 6
    assert "within 15 m with a probability of" in done.stderr


def test_the_command_refuses_in_one_line(real, tmp_path, samespot):
    broken = tmp_path / "no.jpg"
    broken.write_bytes(b"no photo")
    for words, said in (
        ((tmp_path / "nomap", real / "query00.png"), "no such folder"),
        ((real / "photos", real / "query00.png"), "no map here"),
        ((real / "map", tmp_path / "none.jpg"), "none.jpg: cannot read the image"),
        ((real / "map", broken), "no.jpg: cannot decode the image"),
        ((real / "map", real / "query00.png", "--speed", 3), "--speed has no effect without --sequence"),
        ((real / "map", real / "query00.png", "--out", tmp_path / "a.txt"), "answers are written as .json"),
        ((real / "map", real / "query00.png", "--outside", 1), "--outside 1 must be below 1"),
    ):
        code, _, told = samespot("locate", *words)
        assert code == 2, (words, told)
        lines = told.strip().splitlines()
        assert len(lines) == 1, lines
        assert said in lines[0], lines
    done = warm.run(["-m", "samespot", "locate", real / "map", "-"])
    assert done.returncode == 2
    assert "standard input: there is nothing in it" in done.stderr


def test_a_table_of_answers_has_every_photo(real, tmp_path, there):
    from samespot.maps.results import write_answers

    path = write_answers(there.locate_many([real / "photos"]), tmp_path / "answers.csv")
    import pandas as pd

    table = pd.read_csv(path)
    assert len(table) == SCENES * VIEWS
    assert table["found"].all()
    assert [name[-8:] for name in table["match"]] == [name[-8:] for name in table["photo"]]
    assert io.BytesIO(path.read_bytes()).readline().startswith(b"photo,found,probability")


def test_an_empty_folder_among_the_photos_does_not_stop_the_others(real, there, tmp_path):
    one, two, three = there.locate_many([real / "query01.png", tmp_path, real / "query04.png"])
    assert isinstance(one, Answer)
    assert isinstance(two, Trouble)
    assert "no photos there" in two.why
    assert isinstance(three, Answer)


def test_times_of_a_sequence_count_from_its_first_photo_and_gaps_are_filled(real, there):
    asked = [
        Question(str(n), real / f"query{n:02d}.png", time)
        for n, time in ((3, 1.7e9), (4, None), (5, 1.7e9 + 9))
    ]
    assert [one.time for one in there.track(asked, every=2.0)] == [0.0, 2.0, 9.0]


def test_what_is_asked_for_by_precision_is_found_only_if_it_is_that_sure(real, there):
    photo = real / "query03.png"
    least = there.trust.threshold(0.9, 0.5)
    answer = there.locate(photo, precision=0.9)
    assert least is not None
    assert answer.found == (answer.probability >= least)
    stranger = there.locate(real / f"query{SCENES}.png", precision=0.9)
    assert not stranger.found
    with pytest.raises(InputError, match="`at_least` has no effect with `precision`"):
        there.locate(photo, precision=0.9, at_least=0.3)


def test_only_photos_that_may_answer_answer(real, there):
    photo = real / "query03.png"
    near = f"{4 * SIDE}m,2m,50"
    answer = there.locate(photo, near=near, k=20)
    assert {match.image[:2] for match in answer.matches} == {"03", "04", "05"}
    assert answer.found
    assert answer.matches[0].image.startswith("03-")
    elsewhere = there.locate(photo, area=f"{5 * SIDE}m,-9m,{9 * SIDE}m,9m", k=20)
    assert {match.image[:2] for match in elsewhere.matches} == {"05", "06", "07", "08", "09"}
    assert not elsewhere.found
    assert elsewhere.probability < answer.probability
    turned = there.locate(photo, heading="95,2", near=near, k=20)
    assert [match.image for match in turned.matches] == [
        "03-1.png",
        *(one.image for one in turned.matches[1:]),
    ]
    assert {match.image[3] for match in turned.matches} == {"1"}


def test_where_no_photo_may_answer_nothing_is_found(real, there):
    photo = real / "query03.png"
    for words in ({"near": "9000m,0m,5"}, {"heading": "270,5"}):
        answer = there.locate(photo, **words)
        assert (answer.found, answer.probability, answer.position, answer.matches) == (False, 0.0, None, ())
        (one,) = there.track([photo], **words)
        assert (one.found, one.position) == (False, None)
        json.dumps(answer.to_dict())
        (name,), (value,) = words, words.values()
        why = f"no photo of this map, which has {len(there)}, passes the filter {name} {value}"
        assert answer.no_match == one.no_match == why
        assert str(answer) == f"{photo}: {why}"
        with pytest.raises(InputError, match=r"nofile\.png: cannot read the image"):
            there.locate(real / "nofile.png", **words)


def test_filters_hold_for_many_photos_and_for_sequences(real, there):
    photos = [real / "query03.png", real / "query04.png"]
    near = f"{3 * SIDE}m,2m,20"
    for answers in (there.locate_many(photos, near=near), there.track(photos, near=near)):
        one, two = answers
        assert one.found
        assert not two.found
        assert {match.image[:2] for match in (*one.matches, *two.matches)} == {"03"}


def test_a_filter_that_this_map_cannot_have_is_no_photo_s_fault(real, there):
    for asked in (there.locate_many, there.track, lambda photos, **words: [there.locate(photos[0], **words)]):
        for words, line in (
            ({"near": "48.1,11.5,200"}, "this map has no projection, so `near` must be in metres"),
            ({"since": "2026-05-01"}, "do not tell when they were taken"),
            ({"condition": "night"}, "tell no condition"),
        ):
            with pytest.raises(InputError, match=line):
                list(asked([real / "query03.png"], **words))


def test_filters_by_command(real, tmp_path, samespot):
    told, asked = tmp_path / "told.json", ("locate", real / "map", real / "query03.png")
    assert samespot(*asked, "--near", "160m,2m,50", "--heading", "95,2", "--json", told)[0] == 0
    (answer,) = json.loads(told.read_text())["answers"]
    assert answer["found"]
    assert {match["image"][3] for match in answer["matches"]} == {"1"}
    code, _, line = samespot(*asked, "--near", "48.1,11.5,200")
    assert code == 2
    assert "so --near must be in metres on its plane" in line
    code, said, _ = samespot(*asked, "--near", "-5m,-5m,1")
    assert code == 0
    said = " ".join(said.split())
    why = "no photo of this map, which has 36, passes the filter near -5m,-5m,1"
    assert said.endswith(f"query03.png not found: {why}")
    assert samespot(*asked, real / "query04.png", "--near", "-5m,-5m,1")[1].count(f"{why}\n") == 2
    assert samespot(*asked, "--near", "-5m,-5m,1", "--json", told)[0] == 0
    (answer,) = json.loads(told.read_text())["answers"]
    assert (answer["found"], answer["position"], answer["no_match"]) == (False, None, why)


def test_mistakes_are_told_before_torch_is_loaded(real, tmp_path):
    (tmp_path / "note.txt").write_text("no photo")
    (tmp_path / "empty").mkdir()
    (tmp_path / "names.csv").write_text("name\na.jpg\n")
    asked, query, taken = (
        f"locate {real / 'map'}",
        real / "query03.png",
        socket.create_server(("127.0.0.1", 0)),
    )
    mistakes = {
        f"{asked} nowhere.jpg": "nowhere.jpg: cannot read the image",
        f"{asked} note.txt": "note.txt: cannot decode the image (not an image)",
        f"{asked} empty": "empty: no photos there",
        f"{asked} names.csv": "names.csv: no column image",
        f"{asked} {query} --near 48.1,11.5,200": "so --near must be in metres",
        f"{asked} {query} --since yesterday": "do not tell when they were taken",
        f"{asked} {query} --condition night": "tell no condition",
        f"{asked} {query} --device tpu": "--device 'tpu' is unknown",
        f"index {real / 'query03.png'} --out {real / 'map'}": "query03.png",
        f"index --out {real / 'map'} --remove nothing": "--remove 'nothing': no photo of the map is meant",
        f"serve {real / 'map'} --port {taken.getsockname()[1]}": "--host 127.0.0.1, --port",
        f"serve {real / 'map'} --keys nowhere": "nowhere: cannot read the keys",
        f"serve {real / 'map'} --device tpu": "--device 'tpu' is unknown",
    }
    with taken:
        said = refused_without_torch(mistakes, tmp_path)
    assert {words: said[words] for words, line in mistakes.items() if line not in said[words]} == {}


# ---- number formats ----


def test_queries_are_described_as_the_map_is_where_that_can_be(net, monkeypatch):
    made = []

    def describer_for(net, device, precision, images):
        made.append(precision)
        if precision == "int8" and len(made) > 1:
            raise InputError("onnxruntime not installed")

    monkeypatch.setattr(looking, "describer_for", describer_for)
    monkeypatch.setattr(
        looking, "precision_name", lambda word, device: {"cpu": "32", "cuda": "bf16"}[device.type]
    )
    cases = [
        ("cpu", "int8"),
        ("cpu", "int8"),
        ("cuda", "int8"),
        ("cpu", "bf16"),
        ("cuda", "bf16"),
        ("cuda", "32"),
    ]
    for device, precision in cases:
        looking.query_describer(net, torch.device(device), precision)
    assert made == ["int8", "int8", "32", "32", "32", "bf16", "32"]


@pytest.mark.usefixtures("quick")
def test_a_photo_of_an_int8_map_is_found_by_its_own_numbers(street, net, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "cache"))
    photos, how = street(3), {"whiten": "none", "device": "cpu"}
    samespot.build_map(photos, net, tmp_path / "plain", **how)
    samespot.build_map(photos, net, tmp_path / "map", precision="int8", **how)
    plain, there = (open_map(tmp_path / name, device="cpu") for name in ("plain", "map"))
    asked = there.look(photos / "001.jpg", verify=False).vector
    np.testing.assert_allclose(asked, there.generation.vectors[1], atol=1e-3)
    assert np.abs(asked - plain.look(photos / "001.jpg", verify=False).vector).max() > 3e-3


@pytest.mark.usefixtures("quick")
def test_the_newest_generation_keeps_the_network_but_not_in_another_number_format(street, net, tmp_path):
    photos, out = street(3), tmp_path / "map"
    old = samespot.build_map(photos, net, out, device="cpu", precision="32")
    old._describe  # noqa: B018 - which loads the network, too
    samespot.build_map(photos, out=out, device="cpu", thumbnail=100)
    assert set(old.newest()._loaded) == {"model", "describer"}
    samespot.build_map(photos, out=out, device="cpu", precision="bf16")
    assert set(old.newest()._loaded) == {"model"}
    assert old.newest().model is old.model
