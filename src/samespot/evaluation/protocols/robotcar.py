"""RobotCar Seasons v2: rear images at all seasons and hours, localised in one reference drive."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.poses import CAMERAS, NEAR_ENOUGH, NO_RECALL, POSE_LIMITS, SATTLER
from samespot.evaluation.protocol import Protocol
from samespot.options import check_choice
from samespot.places import robotcar

NIGHT = ("night", "night-rain")  # the other conditions are "day-all"


def _robotcar(root: Path, *, split: str, cameras: str) -> list[Case]:
    check_choice("split", split, ("test", "train"))
    check_choice("cameras", cameras, ("all", *CAMERAS))
    queries, places = robotcar.read(root, split), robotcar.read(root, "reference")
    # the server scores rear images alone: the poses of the three cameras follow from each other
    queries = queries.select(queries.table["camera"] == "rear")
    if cameras != "all":
        places = places.select(places.table["camera"] == cameras)
    if not (len(queries) and len(places)):
        lacking = (
            f"queries of the rear camera in {split}" if not len(queries) else f"{cameras} reference images"
        )
        raise InputError(f"{root}: no {lacking}; see `samespot datasets --layout robotcar`")
    condition = queries.table["condition"].to_numpy(dtype=np.str_)
    light = np.where(np.isin(condition, NIGHT), "night-all", "day-all")
    return [
        Case(split, queries, places, groups={"light": light, "condition": condition}, notes=queries.notes)
    ]


PROTOCOLS = (
    Protocol(
        name="robotcar-seasons-v2",
        title="RobotCar Seasons v2",
        data_set="robotcar",
        queries="rear images of robotcar_v2_test.txt (1,872; poses secret), or with split=train of"
        " robotcar_v2_train.txt (1,906; poses public)",
        positive=NEAR_ENOUGH,
        exclusions="none; the map is the reference drive, by default all three cameras (about 21k images)",
        citation=f"{SATTLER}; W. Maddern et al., 1 Year, 1000 km: The Oxford RobotCar Dataset, IJRR 2017",
        make=_robotcar,
        ks=(1,),
        truth="pose",
        limits=POSE_LIMITS,
        options={"split": "test", "cameras": "all"},
        notes=(
            NO_RECALL,
            "one search over the whole reference drive, as the graded-similarity paper (21k map images are all three"
            " cameras) and Patch-NetVLAD do; hloc's listed result searched by location and camera (cameras=rear is"
            " half of that)",
            "day-all and night-all pool the images of all day and all night conditions, as the server does",
        ),
    ),
)
