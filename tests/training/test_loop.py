"""Whole runs of a tiny network: what they learn, what they leave behind, and how they fail."""

import errno
import json
import os
import shutil

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.training.checkpoints import Checkpoints
from samespot.training.gradient import Learner
from samespot.training.logbook import read_metrics
from samespot.training.loop import train_network
from samespot.training.mining import Tuples
from samespot.training.sets import LabelledSet
from samespot.training.stopping import TrainingStopped
from samespot.training.validation_sets import Validation


def weights(folder) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in PlaceNet.load(folder).parameters()])


@pytest.fixture(scope="module")
def plain(tiny, photo_set, tmp_path_factory):
    """One ordinary run that several tests look at."""
    run = tmp_path_factory.mktemp("plain") / "run"
    return train_network(tiny, [photo_set], run), run


def test_a_run_leaves_its_facts(plain, tiny, photo_set):
    result, run = plain
    assert (result.steps, result.pairs) == (6, 36)
    config = json.loads((run / "config.json").read_text())
    assert config["options"] == tiny.to_dict()
    assert config["resolved"]["learning_rate"] == 0.1
    assert config["sets"][0]["digests"] == [photo_set.queries.digest()] * 2
    metrics = read_metrics(run)
    assert [m["step"] for m in metrics] == [1, 2, 3, 4, 5, 6]
    assert result.loss == metrics[-1]["loss"]
    assert Checkpoints(run / "checkpoints").steps() == [3, 6]
    net = PlaceNet.load(result.model)
    assert net.facts["pairs"] == 36
    assert result.model == run / "last"


def test_what_settings_were_resolved_to_is_said(tiny, photo_set, tmp_path):
    said: list[str] = []
    options = tiny.with_changes(steps=None, epochs=1.0)  # 12 queries, 6 pairs a step
    train_network(options, [photo_set], tmp_path / "run", say=said.append)
    (line,) = [line for line in said if line.startswith("resolved to ")]
    assert {"steps 2", "learning_rate 0.1", "precision 32"} <= set(
        line.removeprefix("resolved to ").split(", ")
    )


def test_only_the_trained_part_has_changed(plain, tiny):
    _, run = plain
    torch.manual_seed(tiny.seed)
    start = PlaceNet(tiny.backbone, pretrained=False, image_size=(64, 64)).state_dict()
    end = PlaceNet.load(run / "last").state_dict()
    changed = {name.split(".")[1] for name in start if not torch.equal(start[name], end[name])}
    assert changed == {"layer3", "layer4", "p"}


def test_training_lowers_the_loss(tiny, photo_set, tmp_path):
    options = tiny.with_changes(
        steps=60,
        log_every=20,
        images_in_memory="host",
        batches="all",
        learning_rate=0.3,
        batch_pairs=8,
        train_blocks="all",
    )
    train_network(options, [photo_set], tmp_path / "run")
    losses = [m["loss"] for m in read_metrics(tmp_path / "run")]
    assert losses[2] < losses[1] < losses[0]
    assert losses[2] < 0.8 * losses[0]


def test_training_time_is_that_of_all_sessions(tiny, photo_set, tmp_path):
    options = tiny.with_changes(steps=2)
    first = train_network(options, [photo_set], tmp_path / "run")
    longer = train_network(options.with_changes(steps=4), [photo_set], tmp_path / "run", resume=True)
    again = train_network(options.with_changes(steps=4), [photo_set], tmp_path / "run", resume=True)
    assert 0 < first.training_seconds < longer.training_seconds
    assert again.training_seconds == pytest.approx(longer.training_seconds, abs=0.05)


# ---- mined tuples: 12 queries, stretches of 3 steps of 4 tuples ----

TUPLES = {"loss": "triplet", "batch_pairs": 4, "negatives": 2, "mine_pool": 8}


def test_mining_looks_at_the_weights_of_its_step_and_is_counted(tiny, photo_set, tmp_path, monkeypatch):
    mined = []
    original = Tuples.mine

    def watched(self, step, describe):
        def describing(numbers):
            found = describe(numbers)
            mined.append((step, numbers, found[0].clone()))
            return found

        return original(self, step, describing)

    monkeypatch.setattr(Tuples, "mine", watched)
    options = tiny.with_changes(**TUPLES, steps=7, checkpoint_every=3, keep_checkpoints=9)
    result = train_network(options, [photo_set], tmp_path / "run")
    assert [step for step, _, _ in mined] == [0, 3, 6]
    assert result.mining_images == sum(len(numbers) for _, numbers, _ in mined)
    assert result.learning_images == 7 * 4 * (1 + 1 + 2)
    assert result.mining_seconds > 0
    metrics = read_metrics(tmp_path / "run")
    assert [m["learning_images"] for m in metrics] == [16 * step for step in range(1, 8)]
    counts = np.cumsum([len(numbers) for _, numbers, _ in mined])
    assert [m["mining_images"] for m in metrics] == [counts[i] for i in (0, 0, 0, 1, 1, 1, 2)]
    # the second mining saw what a network with the weights of step 3 sees
    state = torch.load(tmp_path / "run" / "checkpoints" / "step-000000003.pt", weights_only=True)
    net = PlaceNet.load(tmp_path / "run" / "last")
    net.load_state_dict(state["net"])
    paths = [photo_set.queries.images[number] for number in mined[1][1]]
    torch.testing.assert_close(net.describe_images(paths), mined[1][2], rtol=1e-4, atol=1e-5)


def test_pairs_cost_two_passes_each_and_no_mining(plain):
    result, run = plain
    assert (result.learning_images, result.mining_images, result.mining_seconds) == (72, 0, 0.0)
    assert [m["learning_images"] for m in read_metrics(run)] == [12, 24, 36, 48, 60, 72]
    assert json.loads((run / "result.json").read_text())["mining_images"] == 0


@pytest.mark.parametrize("loss", ["triplet", "sare-ind", "sare-joint"])
def test_training_on_tuples_lowers_the_loss(tiny, photo_set, tmp_path, loss):
    options = tiny.with_changes(
        **{**TUPLES, "loss": loss, "mine_pool": 12},
        steps=30,
        log_every=15,
        cache_frozen="memory",
        optimiser="adamw",  # photos of a random network are all alike, and plain steps are slow at first
        learning_rate=0.001,
        checkpoint_every=100,
    )
    train_network(options, [photo_set], tmp_path / "run")
    first, last = [m["loss"] for m in read_metrics(tmp_path / "run")]
    assert last < 0.85 * first


def test_tuples_from_the_cache_and_from_files_are_the_same(tiny, photo_set, tmp_path):
    options = tiny.with_changes(**TUPLES)
    results = [
        train_network(options.with_changes(cache_frozen=where), [photo_set], tmp_path / where)
        for where in ("no", "memory")
    ]
    assert torch.equal(weights(tmp_path / "memory" / "last"), weights(tmp_path / "no" / "last"))
    assert results[0].mining_images == results[1].mining_images  # of the trained part, in either case


def test_random_tuples_are_trained_without_a_pass_for_mining(tiny, photo_set, tmp_path):
    options = tiny.with_changes(**TUPLES, mining="random")
    result = train_network(options, [photo_set], tmp_path / "run")
    assert (result.mining_images, result.learning_images) == (0, 96)


def test_an_unreadable_photo_is_neither_mined_nor_learned_from(tiny, street_of_photos, tmp_path):
    street = street_of_photos(tmp_path, 12)
    (tmp_path / "5.jpg").write_bytes(b"")
    options = tiny.with_changes(**TUPLES, on_bad_image="skip")
    result = train_network(options, [street], tmp_path / "run")
    assert [path.rsplit("/")[-1] for path in result.skipped_images] == ["5.jpg"]
    assert np.isfinite(result.loss)


def test_a_longer_run_of_tuples_is_the_same_run(tiny, photo_set, tmp_path):
    options = tiny.with_changes(**TUPLES)
    train_network(options.with_changes(steps=4), [photo_set], tmp_path / "run")
    longer = train_network(options, [photo_set], tmp_path / "run", resume=True)
    once = train_network(options, [photo_set], tmp_path / "once")
    assert torch.equal(weights(tmp_path / "run" / "last"), weights(tmp_path / "once" / "last"))
    assert (longer.mining_images, longer.learning_images) == (once.mining_images, once.learning_images)


# ---- what is kept ----


def test_what_fits_into_memory_is_kept_and_said(plain, tiny, photo_set, tmp_path):
    """Where nobody chose: the frozen part runs once per photo, with the same result; a resumed run keeps to it."""
    said: list[str] = []
    free = tiny.with_changes(cache_frozen="auto", images_in_memory="auto", compile=None)
    train_network(free, [photo_set], tmp_path / "run", say=said.append)
    assert torch.equal(weights(tmp_path / "run" / "last"), weights(plain[1] / "last"))
    chosen = json.loads((tmp_path / "run" / "config.json").read_text())["options"]
    assert (chosen["cache_frozen"], chosen["images_in_memory"], chosen["compile"]) == ("memory", "no", False)
    (line,) = [line for line in said if "once per image" in line]
    assert "12 photos, each seen 6.0 times" in line
    assert train_network(free.with_changes(steps=7), [photo_set], tmp_path / "run", resume=True).steps == 7
    with pytest.raises(InputError, match="cache_frozen was 'memory' and is now 'no'"):
        train_network(free.with_changes(cache_frozen="no"), [photo_set], tmp_path / "run", resume=True)


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("strategy", ["A", "all"])
def test_the_cache_changes_nothing(tiny, photo_set, tmp_path, where, strategy):
    options = tiny.with_changes(batches=strategy, cache_frozen="no")
    train_network(options, [photo_set], tmp_path / "without")
    cached = options.with_changes(cache_frozen=where, cache_dir=str(tmp_path / "cache"))
    train_network(cached, [photo_set], tmp_path / "with")
    assert torch.equal(weights(tmp_path / "with" / "last"), weights(tmp_path / "without" / "last"))


def test_a_cache_file_is_used_again_by_the_same_network_only(tiny, photo_set, tmp_path, monkeypatch):
    options = tiny.with_changes(cache_frozen="file", cache_dir=str(tmp_path / "cache"), steps=2)
    seen = []
    original = Learner.frozen
    monkeypatch.setattr(
        Learner, "frozen", lambda self, images, a=None: seen.append(len(images)) or original(self, images, a)
    )
    train_network(options, [photo_set], tmp_path / "1")
    assert sum(seen) == 1 + 12  # one to learn the shape, then each image once
    seen.clear()
    train_network(options, [photo_set], tmp_path / "2")
    assert sum(seen) == 1
    seen.clear()
    train_network(options.with_changes(seed=5), [photo_set], tmp_path / "3")  # other random weights
    assert sum(seen) == 13


def test_images_in_memory_change_nothing(plain, tiny, photo_set, tmp_path):
    train_network(tiny.with_changes(images_in_memory="host"), [photo_set], tmp_path / "run")
    assert torch.equal(weights(tmp_path / "run" / "last"), weights(plain[1] / "last"))


def test_workers_and_prefetch_change_nothing(plain, tiny, photo_set, tmp_path):
    train_network(tiny.with_changes(workers=1, prefetch=1), [photo_set], tmp_path / "run")
    assert torch.equal(weights(tmp_path / "run" / "last"), weights(plain[1] / "last"))


def test_the_learning_rate_counts_pairs(tiny, photo_set, tmp_path):
    options = tiny.with_changes(drop_pairs=12, learning_rate=0.2)
    train_network(options, [photo_set], tmp_path / "run")
    rates = [m["learning_rate"] for m in read_metrics(tmp_path / "run")]
    np.testing.assert_allclose(rates, [0.2, 0.2, 0.02, 0.02, 0.002, 0.002])


def test_the_best_model_is_kept(tiny, photo_set, tmp_path):
    near = Validation.within(photo_set.queries.select([0, 4, 8]), photo_set.places, 5.0, ks=(1, 5))
    options = tiny.with_changes(validate_every=2)
    result = train_network(options, [photo_set], tmp_path / "run", validation=near)
    # each query is in the map itself, so it is found at once; the first best is kept, not the last
    assert result.recall == result.best_recall == {1: 1.0, 5: 1.0}
    assert result.best_step == 2
    assert PlaceNet.load(tmp_path / "run" / "best").facts["steps"] == 2
    assert result.model == tmp_path / "run" / "best"
    recalls = [m["step"] for m in read_metrics(tmp_path / "run") if "recall@5" in m]
    assert recalls == [2, 4, 6]


# ---- resume ----


def test_a_longer_run_is_the_same_run(tiny, photo_set, tmp_path):
    train_network(tiny.with_changes(steps=4), [photo_set], tmp_path / "run")
    train_network(tiny.with_changes(steps=6), [photo_set], tmp_path / "run", resume=True)
    train_network(tiny, [photo_set], tmp_path / "once")
    assert torch.equal(weights(tmp_path / "run" / "last"), weights(tmp_path / "once" / "last"))
    assert [m["step"] for m in read_metrics(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


def test_a_broken_checkpoint_is_passed_over(tiny, photo_set, tmp_path, plain):
    shutil.copytree(plain[1], tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "step-000000006.pt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    said: list[str] = []
    result = train_network(tiny, [photo_set], tmp_path / "run", resume=True, say=said.append)
    assert "step-000000006.pt: broken checkpoint" in result.warnings[0]
    assert "resumed from the checkpoint of step 3" in said
    assert torch.equal(weights(tmp_path / "run" / "last"), weights(plain[1] / "last"))
    assert [m["step"] for m in read_metrics(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


def test_a_run_without_a_whole_checkpoint_says_that_it_starts_again(tmp_path):
    kept = Checkpoints(tmp_path)
    for step in (1, 2):
        kept.save(step, {"step": step})
        (tmp_path / f"step-00000000{step}.pt").write_bytes(b"")
    state, warnings = kept.newest()
    assert state is None
    assert [line.partition("); ")[2] for line in warnings] == [
        "going back to the one before",
        "none is whole; starting again",
    ]


def test_a_flipped_bit_is_noticed(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save(1, {"step": 1, "x": torch.zeros(1000)})
    kept.save(2, {"step": 2, "x": torch.zeros(1000)})
    content = bytearray((tmp_path / "step-000000002.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "step-000000002.pt").write_bytes(content)
    state, warnings = kept.newest()
    assert state["step"] == 1
    assert "digest" in warnings[0]


def test_only_the_newest_checkpoints_stay(tmp_path):
    kept = Checkpoints(tmp_path, keep=2)
    for step in (10, 20, 30, 100):
        kept.save(step, {"step": step})
    assert kept.steps() == [30, 100]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_run_is_not_mixed_with_another(tiny, photo_set, plain, tmp_path):
    _, run = plain
    with pytest.raises(InputError, match="holds a run already; pass `resume`"):
        train_network(tiny, [photo_set], run)
    with pytest.raises(InputError, match=r"margin was 0\.5 and is now 0\.7"):
        train_network(tiny.with_changes(margin=0.7), [photo_set], run, resume=True)
    fewer = photo_set.queries.select(slice(0, 10))
    from samespot.overlap.rules import label_pairs

    other = LabelledSet(fewer, fewer, label_pairs(fewer, fewer))
    with pytest.raises(InputError, match="other places or labels"):
        train_network(tiny, [other], run, resume=True)


# ---- bad input ----


def test_a_loss_that_is_no_number_stops_the_run(tiny, photo_set, tmp_path, monkeypatch):
    original = Learner.backward

    def explode(self, batch, loaded):
        stats = original(self, batch, loaded)
        if batch.step == 4:
            stats.loss.fill_(float("nan"))
        return stats

    monkeypatch.setattr(Learner, "backward", explode)
    with pytest.raises(
        TrainingStopped, match=r"step 5: the loss is not a finite number; the checkpoint of step 3 is kept"
    ):
        train_network(tiny, [photo_set], tmp_path / "run")
    assert Checkpoints(tmp_path / "run" / "checkpoints").steps() == [3]


def test_a_rate_that_is_far_too_high_stops_the_run(tiny, photo_set, tmp_path):
    with pytest.raises(TrainingStopped, match=r"not a finite number|no longer finite"):
        train_network(tiny.with_changes(learning_rate=1e30, steps=10), [photo_set], tmp_path / "run")


def test_a_full_disk_keeps_the_earlier_checkpoint(tiny, photo_set, tmp_path, monkeypatch):
    original = os.fsync

    def full_from_6(fd):
        if "step-000000006.pt" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        original(fd)

    monkeypatch.setattr(os, "fsync", full_from_6)
    with pytest.raises(
        TrainingStopped, match=r"the disk is full\); the checkpoint of step 3 is intact; free some space"
    ) as e:
        train_network(tiny, [photo_set], tmp_path / "run")
    assert "\n" not in str(e.value)
    monkeypatch.undo()
    state, warnings = Checkpoints(tmp_path / "run" / "checkpoints").newest()
    assert state["step"] == 3
    assert warnings == []
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))  # nothing half-written is left


def test_a_full_disk_while_logging_is_one_line_too(tiny, photo_set, tmp_path, monkeypatch):
    from samespot.training.logbook import Logbook

    def full(self, record):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Logbook, "write", full)
    with pytest.raises(TrainingStopped, match="the disk is full"):
        train_network(tiny, [photo_set], tmp_path / "run")


def test_a_truncated_image_is_named(tiny, street_of_photos, tmp_path):
    broken = street_of_photos(tmp_path, 12)
    for number in (3, 7):
        content = (tmp_path / f"{number}.jpg").read_bytes()
        (tmp_path / f"{number}.jpg").write_bytes(content[: len(content) // 3])
    with pytest.raises(InputError, match=r"[37]\.jpg: cannot decode the image .*`on_bad_image=skip`"):
        train_network(tiny, [broken], tmp_path / "fails")
    result = train_network(tiny.with_changes(on_bad_image="skip"), [broken], tmp_path / "skips")
    assert {path.rsplit("/")[-1] for path in result.skipped_images} == {"3.jpg", "7.jpg"}
    assert np.isfinite(result.loss)
    kept = tiny.with_changes(on_bad_image="skip", images_in_memory="host")
    again = train_network(kept, [broken], tmp_path / "kept")
    assert torch.equal(weights(tmp_path / "kept" / "last"), weights(tmp_path / "skips" / "last"))
    assert again.skipped_images == result.skipped_images


def test_a_cache_file_remembers_the_images_that_were_bad(tiny, street_of_photos, tmp_path):
    street = street_of_photos(tmp_path, 12)
    (tmp_path / "5.jpg").write_bytes(b"")
    skip = tiny.with_changes(
        cache_frozen="file", cache_dir=str(tmp_path / "cache"), steps=2, on_bad_image="skip"
    )
    first = train_network(skip, [street], tmp_path / "first")
    again = train_network(skip, [street], tmp_path / "again")
    assert [path.rsplit("/")[-1] for path in again.skipped_images] == ["5.jpg"]
    assert again.skipped_images.keys() == first.skipped_images.keys()
    with pytest.raises(InputError, match=r"5\.jpg: the file is empty.*cache was filled.*`on_bad_image=skip`"):
        train_network(skip.with_changes(on_bad_image="fail"), [street], tmp_path / "fails")


def test_missing_and_empty_images_are_named(tiny, street_of_photos, tmp_path):
    street = street_of_photos(tmp_path, 12)
    (tmp_path / "5.jpg").unlink()
    with pytest.raises(InputError, match=r"5\.jpg: cannot read the image"):
        train_network(tiny.with_changes(images_in_memory="host"), [street], tmp_path / "run")


def test_augmentation_and_cache_exclude_each_other(tiny):
    with pytest.raises(InputError, match="augmentation changes the image each time"):
        tiny.with_changes(cache_frozen="memory", augment=1.0)


def test_nothing_to_train_is_refused(tiny, photo_set, tmp_path):
    with pytest.raises(InputError, match="nothing to train"):
        train_network(tiny.with_changes(train_blocks=0, pool="gap"), [photo_set], tmp_path / "run")


def test_photos_of_other_formats_and_sizes(tiny, tmp_path):
    from PIL import Image

    from samespot.overlap.rules import label_pairs

    names = [f"{i}.{'png' if i % 3 == 0 else 'webp' if i % 3 == 1 else 'jpg'}" for i in range(9)]
    for i, name in enumerate(names):
        Image.new(
            "RGB" if i % 2 else "L", (40 + 5 * i, 60), color=i * 20 if i % 2 == 0 else (i * 20, 90, 10)
        ).save(tmp_path / name)
    columns = {"image": names, "easting": [0.0] * 9, "northing": np.arange(9) * 14.0, "heading": [90.0] * 9}
    table = Places.build(tmp_path, columns)
    street = LabelledSet(table, table, label_pairs(table, table))
    assert train_network(tiny.with_changes(steps=1), [street], tmp_path / "run").steps == 1


def test_a_model_describes_at_multiples_of_the_size_it_learned_at(plain, tiny, photo_set, tmp_path):
    result = train_network(tiny.with_changes(scales=(0.5, 1.0, 2.0)), [photo_set], tmp_path / "run")
    net, other = PlaceNet.load(result.model), PlaceNet.load(plain[0].model)
    height, width = other.preprocessing.size
    sizes = {net.preprocessing.size, *net.preprocessing.also}
    assert (height, width) in sizes
    assert max(sizes) == (2 * height, 2 * width)
    assert len(sizes) == 3
    assert torch.equal(weights(result.model), weights(plain[0].model))  # training is the same
    on = tiny.with_changes(model=str(result.model), image_size=(height, width), steps=7)
    assert train_network(on, [photo_set], tmp_path / "on").steps == 7
