"""What a resumed run finds in its metrics is what it had written up to its checkpoint."""

from samespot.training.logbook import Logbook, read_metrics


def test_lines_after_the_checkpoint_are_dropped(tmp_path):
    book = Logbook(tmp_path, 0, tensorboard=False, writes=True)
    for step in (1, 2, 3, 4):
        book.write({"step": step, "loss": 1 / step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')  # a kill in the middle of a line
    assert [r["step"] for r in read_metrics(tmp_path)] == [1, 2, 3, 4]
    again = Logbook(tmp_path, 2, tensorboard=False, writes=True)
    again.write({"step": 3, "loss": 7.0})
    assert read_metrics(tmp_path) == [
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": 0.5},
        {"step": 3, "loss": 7.0},
    ]


def test_tensorboard_gets_the_same_numbers(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    book = Logbook(tmp_path, 0, tensorboard=True, writes=True)
    for step in (1, 2):
        book.write({"step": step, "loss": step / 4})
    book.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 0.25), (2, 0.5)]


def test_only_one_process_writes(tmp_path):
    Logbook(tmp_path, 0, tensorboard=False, writes=False).write({"step": 1})
    assert not (tmp_path / "metrics.jsonl").exists()
