"""7Scenes before a flat wall, where the overlap of two views is known."""

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.evaluation.protocols.seven_scenes import PROTOCOLS
from samespot.overlap.task import preset_tasks, run_task

ROOMS, SEQUENCE = PROTOCOLS
WIDE = 640 / 585 * 2  # [m] of a wall 2 m away that a view takes in


def frame(folder, number, right):
    """A view of the wall from 2 m, so many metres to the right."""
    folder.mkdir(parents=True, exist_ok=True)
    pose = np.eye(4)
    pose[0, 3] = right
    np.savetxt(folder / f"frame-{number:06d}.pose.txt", pose)
    Image.new("RGB", (640, 480)).save(folder / f"frame-{number:06d}.color.png")
    Image.fromarray(np.full((480, 640), 2000, np.uint16)).save(folder / f"frame-{number:06d}.depth.png")


def test_a_scene_is_tested_in_its_training_frames(wall_scene):
    """Training frames stand at 0 and 0.5 m, test frames at 0 and 1 m; one 0.5 m aside is a positive.

    Points come from the training frames, so of what the last one sees the outer half metre is not in the cloud.
    """
    frame(wall_scene / "heads" / "seq-02", 1, 1.0)
    (case,) = ROOMS.cases(wall_scene)
    assert case.name == "heads"
    assert case.place_names == ["heads/seq-01/frame-000000.color.png", "heads/seq-01/frame-000001.color.png"]
    overlap = case.overlap(None).dense()
    first = [1, (WIDE - 0.5) / (WIDE + 0.5)]
    second = [(WIDE - 1) / (WIDE + 0.5), (WIDE - 0.5) / WIDE]
    np.testing.assert_allclose(overlap, [first, second], atol=0.01)
    assert [rows.tolist() for rows in case.positives] == [[0, 1], [1]]
    assert [rows.tolist() for rows in case.positives[1:]] == [[1]]
    assert case.counted.all()
    assert ROOMS.all_pairs


def test_labels_are_made_once_and_only_when_asked_for(wall_scene):
    (case,) = ROOMS.cases(wall_scene)
    (wall_scene / "heads" / "seq-01" / "frame-000001.depth.png").unlink()  # too late to be read
    assert len(case.positives) == 1
    with pytest.raises((InputError, FileNotFoundError)):
        case.overlap(None)
    (case,) = ROOMS.cases(wall_scene)  # now without that depth image
    seen = []
    first = case.overlap(lambda what, done, total: seen.append(what))
    assert "fusing depth" in seen
    assert case.overlap(None) is first


def test_labels_of_the_label_command_are_taken(wall_scene, tmp_path_factory):
    out = tmp_path_factory.mktemp("labels")
    for task in preset_tasks("7scenes", wall_scene):
        run_task(task, out / task.name / "labels")
    (made,), (taken,) = ROOMS.cases(wall_scene), ROOMS.cases(wall_scene, labels=out)
    np.testing.assert_array_equal(made.overlap(None).dense(), taken.overlap(None).dense())
    assert [rows.tolist() for rows in taken.positives] == [[0, 1]]
    frame(wall_scene / "heads" / "seq-02", 1, 1.0)
    with pytest.raises(InputError, match="heads-test/labels: the labels are for 1 queries, the table has 2"):
        ROOMS.cases(wall_scene, labels=out)
    with pytest.raises(
        InputError, match=r"no labels here; write them with `samespot label .* --preset 7scenes"
    ):
        ROOMS.cases(wall_scene, labels=out / "elsewhere")


def test_scenes_can_be_chosen(wall_scene):
    assert [case.name for case in ROOMS.cases(wall_scene, scenes="heads")] == ["heads"]
    with pytest.raises(InputError, match="no scene 'chess' with both splits; there are heads"):
        ROOMS.cases(wall_scene, scenes="heads,chess")


def test_the_two_layouts_name_each_others_protocol(wall_scene, tmp_path_factory):
    bare = tmp_path_factory.mktemp("bare")
    frame(bare, 0, 0.0)
    with pytest.raises(InputError, match="use the protocol 7scenes-sequence"):
        ROOMS.cases(bare)
    with pytest.raises(InputError, match="not a bare sequence"):
        SEQUENCE.cases(wall_scene)
    with pytest.raises(InputError, match=r"no scene with TrainSplit.txt and TestSplit.txt"):
        ROOMS.cases(tmp_path_factory.mktemp("empty"))


def test_a_sequence_is_its_own_map(tmp_path):
    """Six frames, every third a query; all see the same but frame 4, a wall away. Near frames never count."""
    for number in range(6):
        frame(tmp_path, 10 * number, 50.0 if number == 4 else 0.0)
    (case,) = SEQUENCE.cases(tmp_path, every=3, gap=10)
    assert [name[:12] for name in case.query_names] == ["frame-000000", "frame-000030"]
    # the map: 10, 20, 40, 50; within 10 of frame 0 is 10, of frame 30 are 20 and 40
    out = case.excluded(slice(0, 2), slice(0, 4))
    assert out.tolist() == [[True, False, False, False], [False, True, True, False]]
    assert case.excluded(slice(1, 2), slice(1, 3)).tolist() == [[True, True]]
    assert [rows.tolist() for rows in case.positives] == [[1, 3], [0, 3]]
    assert case.overlap(None).dense().tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    with pytest.raises(InputError, match="every 1: give a whole number from 2 on"):
        SEQUENCE.cases(tmp_path, every=1)
    with pytest.raises(InputError, match="gap 'x': give a whole number from 0 on"):
        SEQUENCE.cases(tmp_path, gap="x")
