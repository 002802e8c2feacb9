"""Photos that were replaced under the same names are described again, they and no others."""

import os

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.retrieval import descriptors as module
from samespot.retrieval.descriptors import DescriptorWriter
from samespot.storage import StorageError
from tests.retrieval.conftest import COUNT, bits, on_cpu
from tests.retrieval.test_descriptors import facts_of

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def long_ago(places):
    """So that what is written now has another time."""
    for path in places.images:
        os.utime(path, ns=(10**18, 10**18))


def replace(places, row, by):
    path = places.images[row]
    path.write_bytes(places.images[by].read_bytes())
    return path


def stop_at(count):
    def interrupt(what, done, total):
        if done >= count:
            raise KeyboardInterrupt

    return interrupt


def test_a_finished_folder_is_brought_up_to_date(net, places, tmp_path, read):
    before = bits(on_cpu(net, places, tmp_path / "d"))
    replace(places, 1, by=9)
    told = []
    read.clear()
    found = on_cpu(net, places, tmp_path / "d", progress=lambda *news: told.append(news))
    assert sorted(read) == sorted(f"{row}-0.jpg" for row in range(4))  # a batch, so that not a bit differs
    assert told == [("describing, as 1 photo changed", COUNT, COUNT)]
    fresh = on_cpu(net, places)
    assert bits(found) == bits(fresh) != before
    assert found.meta == fresh.meta
    read.clear()
    assert bits(on_cpu(net, places, tmp_path / "d")) == bits(fresh)
    assert read == []
    assert not list((tmp_path / "d").glob("done-*"))


def test_one_with_another_time_counts_as_changed_and_one_that_is_gone_does_not(net, places, tmp_path, read):
    """As in a map."""
    on_cpu(net, places, tmp_path / "d")
    read.clear()
    os.utime(places.images[13], ns=(10**18 + 1, 10**18 + 1))
    places.images[0].unlink()
    on_cpu(net, places, tmp_path / "d")
    assert sorted(read) == ["12-0.jpg", "13-0.jpg"]


def test_one_that_is_gone_keeps_its_row_where_another_of_its_batch_changed(net, places, tmp_path, read):
    before = np.array(on_cpu(net, places, tmp_path / "d").vectors)
    places.images[5].unlink()
    replace(places, 6, by=9)
    read.clear()
    with pytest.raises(KeyboardInterrupt):
        on_cpu(net, places, tmp_path / "d", progress=stop_at(1))
    found = on_cpu(net, places, tmp_path / "d")
    assert set(read) == {"4-0.jpg", "6-0.jpg", "7-0.jpg"}
    assert found.meta["bad"] == {}
    np.testing.assert_array_equal(found.vectors[5], before[5])
    np.testing.assert_allclose(found.vectors[6], before[9], atol=1e-5)


def test_a_copy_with_the_times_of_before_is_the_same(net, places, tmp_path, read):
    on_cpu(net, places, tmp_path / "d")
    places.root.rename(tmp_path / "moved")
    read.clear()
    moved = type(places)(tmp_path / "moved", places.table)
    on_cpu(net, moved, tmp_path / "d")
    assert read == []


def test_an_interrupted_folder_goes_on_without_the_rows_of_before(net, places, tmp_path, read):
    with pytest.raises(KeyboardInterrupt):
        on_cpu(net, places, tmp_path / "d", progress=stop_at(8))
    replace(places, 5, by=9)
    read.clear()
    with pytest.raises(KeyboardInterrupt):  # what was found out must outlive another kill
        on_cpu(net, places, tmp_path / "d", progress=stop_at(8))
    assert "0-0.jpg" not in read
    found = on_cpu(net, places, tmp_path / "d")
    assert bits(found) == bits(on_cpu(net, places))


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("step", ["_keep_only", "_write_states"])
def test_a_kill_meanwhile_loses_no_change(net, places, tmp_path, monkeypatch, finished, step):
    if finished:
        on_cpu(net, places, tmp_path / "d")
    else:
        with pytest.raises(KeyboardInterrupt):
            on_cpu(net, places, tmp_path / "d", progress=stop_at(8))
    replace(places, 5, by=9)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module if step == "_write_states" else DescriptorWriter, step, killed)
        with pytest.raises(KeyboardInterrupt):
            on_cpu(net, places, tmp_path / "d")
    assert bits(on_cpu(net, places, tmp_path / "d")) == bits(on_cpu(net, places))


def test_an_image_that_was_fixed_is_read_again(net, places, tmp_path):
    expected = bits(on_cpu(net, places))
    good = {row: places.images[row].read_bytes() for row in (5, 13)}
    places.images[5].write_bytes(b"no image")
    places.images[13].unlink()
    assert list(on_cpu(net, places, tmp_path / "d", on_bad_image="skip").meta["bad"]) == ["5", "13"]
    with pytest.raises(InputError, match=r"d was filled: it is read again once the image is fixed\); or"):
        on_cpu(net, places, tmp_path / "d")
    for row, content in good.items():
        places.images[row].write_bytes(content)
    found = on_cpu(net, places, tmp_path / "d")
    assert (bits(found), found.meta["bad"]) == (expected, {})


def test_folders_of_before_are_trusted_and_notice_what_changes_from_then_on(net, places, tmp_path, read):
    before = bits(on_cpu(net, places, tmp_path / "d"))
    (tmp_path / "d" / "states.npy").unlink()
    replace(places, 1, by=9)
    assert bits(on_cpu(net, places, tmp_path / "d")) == before
    replace(places, 13, by=9)
    read.clear()
    assert bits(on_cpu(net, places, tmp_path / "d")) != before
    assert sorted(read) == ["12-0.jpg", "13-0.jpg"]


def test_descriptors_are_of_use_to_whom_the_storage_lets_not_in(net, places, tmp_path, monkeypatch):
    before = bits(on_cpu(net, places, tmp_path / "d"))

    def refused(_):
        raise StorageError("s3://bucket/0.jpg: Access denied")

    monkeypatch.setattr(module, "states_of", refused)
    assert bits(on_cpu(net, places, tmp_path / "d")) == before
    writer = DescriptorWriter(tmp_path / "new", facts_of(places))
    with pytest.raises(StorageError):  # here photos are to be read
        writer.begin(places)


def test_a_damaged_record_of_states_is_not_taken_for_none(net, places, tmp_path):
    on_cpu(net, places, tmp_path / "d")
    np.save(tmp_path / "d" / "states.npy", np.zeros(3, dtype=np.uint64))
    with pytest.raises(
        InputError, match=r"states\.npy: is damaged; delete its folder .*, or this file alone if"
    ):
        on_cpu(net, places, tmp_path / "d")
