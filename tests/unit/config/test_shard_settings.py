"""The settings of shards, and what `--shards` cannot be combined with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlhost.config.load import Configuration
from ctrlhost.errors import ConfigError


def test_shards_elect_a_leader_for_all_that_is_not_sharded():
    configuration = Configuration.gather(environ={}, flags={"shards": True})
    assert configuration.shards.enabled
    assert configuration.host.leader_elect
    assert not Configuration.gather(environ={}).host.leader_elect


@pytest.mark.behaviour("shards/SH86")
@pytest.mark.parametrize(
    ("assignments", "texts"),
    [
        (["host.leader_elect=false"], ["host.leader_elect", "shards.enabled"]),
        (["shards.min_members=0"], ["shards", "`min_members` must be at least 1, got 0"]),
        (["shards.name=No Name"], ["shards", "`name` must be a DNS label"]),
        (["shards.name=" + "x" * 41], ["shards", "40 characters"]),
        (["host.leader_elect_lease_duration=5s"], ["`leader_elect_lease_duration` must be greater"]),
        (["controllers.plugin/name.shard_by=x"], ["controllers.plugin/name.shard_by", "x"]),
        (["shards.nonsense=1"], ["shards.nonsense"]),
    ],
)
def test_settings_that_are_no_shards_are_refused_by_name(assignments, texts):
    configuration = Configuration.gather(environ={}, assignments=assignments, flags={"shards": True})
    with pytest.raises(ConfigError) as caught:
        _ = configuration.host, configuration.shards, configuration.controllers
    for text in texts:
        assert text in str(caught.value)


def test_the_file_and_the_environment_name_the_fleet(tmp_path: Path):
    file = tmp_path / "ctrlhost.toml"
    file.write_text('[shards]\nname = "shop"\nmin_members = 3\n')
    configuration = Configuration.gather(file, {"CTRLHOST_SHARDS__HANDOVER_TIMEOUT": "5s"})
    shards = configuration.shards
    assert (shards.name, shards.min_members, float(shards.handover_timeout)) == ("shop", 3, 5.0)
    assert not shards.enabled
    assert not configuration.host.leader_elect
