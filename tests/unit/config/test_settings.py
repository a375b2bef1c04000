from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from ctrlhost import ConfigError, Duration
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.switch_interval import switching_after


class Inner(msgspec.Struct):
    deep: int = 1


class Settings(msgspec.Struct):
    mode: Literal["observe", "enforce"] = "observe"
    diff_grace: Duration = Duration("30s")
    title: str = ""
    count: int = 0
    on: bool = False
    groups: list[str] = []
    labels: dict[str, str] = {}
    inner: Inner = msgspec.field(default_factory=Inner)
    limit: Duration | None = None


def settings(*assignments: str, file: Path | None = None, **environment: str) -> Settings:
    return Configuration.gather(file, environment, assignments).plugin("ingress-status", Settings)


def refusal(*assignments: str, file: Path | None = None, **environment: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_all(file, environment, assignments)
    return caught.value


def read_all(file: Path | None, environment: dict[str, str], assignments: tuple[str, ...]) -> None:
    configuration = Configuration.gather(file, environment, assignments)
    configuration.check_names(["ingress-status", "naming"])
    _ = configuration.host
    _ = configuration.controllers
    for plugin in ("ingress-status", "naming"):
        configuration.plugin(plugin, Settings)
        configuration.supervision(plugin)


@pytest.fixture
def toml(tmp_path):
    def write(text: str) -> Path:
        file = tmp_path / "ctrlhost.toml"
        file.write_text(text)
        return file

    return write


def test_the_defaults_apply_without_any_source():
    configuration = Configuration.gather()
    assert configuration.host == HostSettings()
    assert configuration.plugin("naming", Settings) == Settings()
    assert configuration.plugin("naming", None) is None


def test_the_environment_overrides_the_file_and_a_flag_overrides_both(toml):
    file = toml('[plugins.ingress-status]\ntitle = "file"\ncount = 1\nmode = "enforce"')
    environment = {
        "CTRLHOST_PLUGINS__INGRESS_STATUS__TITLE": "environment",
        "CTRLHOST_PLUGINS__INGRESS_STATUS__COUNT": "2",
    }
    values = settings("ingress-status.count=3", file=file, **environment)
    assert (values.mode, values.title, values.count) == ("enforce", "environment", 3)


def test_environment_variables_are_parsed_as_toml_values():
    prefix = "CTRLHOST_PLUGINS__INGRESS_STATUS__"
    values = settings(
        **{
            f"{prefix}ON": "true",
            f"{prefix}GROUPS": '["a", "b"]',
            f"{prefix}DIFF_GRACE": "1m",
            f"{prefix}INNER__DEEP": "4",
            f"{prefix}TITLE": '"quoted"',
            f"{prefix}LIMIT": "2.5",
        }
    )
    assert values == Settings(
        on=True, groups=["a", "b"], diff_grace=Duration(60), inner=Inner(4), title="quoted", limit=Duration(2.5)
    )


def test_strings_need_no_quotes_and_lists_of_strings_need_no_brackets():
    values = settings("ingress-status.title=5", "ingress-status.groups=a, b", "ingress-status.labels.app=7")
    assert (values.title, values.groups, values.labels) == ("5", ["a", "b"], {"app": "7"})


def test_dashes_and_underscores_are_equal_in_setting_names(toml):
    file = toml('[plugins.ingress_status]\ndiff-grace = "1s"\n[plugins.ingress_status.labels]\na-b = "kept"')
    assert settings(file=file) == Settings(diff_grace=Duration(1), labels={"a-b": "kept"})
    assert settings("ingress-status.diff-grace=2s", file=file).diff_grace == 2


@pytest.mark.parametrize(
    ("assignment", "message", "hint"),
    [
        ("ingress-status.mod=x", "plugins.ingress-status.mod: unknown setting (in --set ingress-status.mod)", "`mode`"),
        ("ingress-status.inner.dep=3", "plugins.ingress-status.inner.dep: unknown setting", "`deep`"),
        ("ingress-status.mode=bad", "plugins.ingress-status.mode: invalid enum value 'bad'", "observe, enforce"),
        ("ingress-status.count=x", "plugins.ingress-status.count: expected `int`, got `str`", None),
        ("ingress-status.inner.deep=x", "plugins.ingress-status.inner.deep: expected `int`, got `str`", None),
        ('ingress-status.groups=["a", 3]', "plugins.ingress-status.groups[1]: expected `str`, got `int`", None),
        ("ingress-status.diff_grace=3x", "plugins.ingress-status.diff_grace: invalid duration `3x`", None),
        ("ingress-status.limit=true", "plugins.ingress-status.limit: a duration must be a string", None),
        ("nmaing.mode=x", "plugins.nmaing: no plugin `nmaing` is installed (in --set nmaing.mode)", "`naming`"),
        ("host.lisen=x", "host.lisen: unknown setting", "`listen`"),
        ("host.log_level=loud", "host.log_level: invalid enum value 'loud'", "debug, info"),
        ("controllers.naming/names.workers=0", "controllers.naming/names: `workers` must be at least 1", None),
        (
            "controllers.naming/names.base_delay=0s",
            "controllers.naming/names: `base_delay` must be positive",
            None,
        ),
        ("controllers.naming/names.max_delay=0s", "controllers.naming/names: `max_delay` must be positive", None),
        (
            "supervision.naming.process=thread",
            "supervision.naming.process: invalid enum value 'thread' (in --set supervision.naming.process)",
            "one of: shared, own",
        ),
        ("supervision.process=thread", "supervision.process: invalid enum value 'thread'", "one of: shared, own"),
        ("supervision.naming.heartbeat_timeout=0s", "supervision.naming: `heartbeat_timeout` must be positive", None),
        ("supervision.naming.memory_limit=100m", "supervision.naming.memory_limit: invalid size `100m`", None),
        ("supervision.naming.memory_limit=1.5", "supervision.naming.memory_limit: a size must be a string", None),
        ("supervision.naming.memory_limit=-1", "supervision.naming.memory_limit: a size must not be negative", None),
        ("supervision.naming.memory_limit=100", "supervision.naming: `memory_limit` must be at least 16Mi", None),
        ("controllers.naming.workers=3", "controllers.naming: write the controller as `PLUGIN/NAME`", None),
        ("naming", "--set naming: expected NAME.key=value", None),
        ("naming=3", "--set naming: expected NAME.key=value", None),
    ],
)
def test_an_invalid_setting_is_refused_with_its_full_path(assignment, message, hint):
    error = refusal(assignment)
    assert message in str(error)
    assert hint is None or hint in str(error.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[plugins.naming", "invalid TOML"),
        ("[pluginz.naming]", "pluginz: unknown section"),
        ("host = 3", "host: expected a table"),
        ("[plugins]\nnaming = 3", "plugins.naming: expected a table"),
        ('[plugins.ingress-status]\ncount = "x"', "plugins.ingress-status.count: expected `int`, got `str`"),
        ("[host]\ndrain_timeout = -3", "host.drain_timeout: a duration must be finite and not negative"),
        ("[plugins.nmaing]\nx = 3", "plugins.nmaing: no plugin `nmaing` is installed"),
    ],
)
def test_an_invalid_file_is_refused_and_named(toml, text, message):
    error = refusal(file=toml(text))
    assert message in str(error)
    assert "ctrlhost.toml" in str(error)


def test_the_host_sets_the_switch_interval_and_restores_it_at_its_end():
    with pytest.raises(ConfigError, match="switch_interval"):
        _ = Configuration.gather(None, {}, ["host.switch_interval=0s"]).host
    before = sys.getswitchinterval()
    with switching_after(HostSettings(switch_interval=Duration("2ms")).switch_interval):
        assert sys.getswitchinterval() == pytest.approx(0.002)
    assert sys.getswitchinterval() == before


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        Configuration.gather(tmp_path / "missing.toml")


def test_settings_for_a_plugin_without_settings_are_refused():
    with pytest.raises(ConfigError, match=r"plugins\.naming\.mode: the plugin `naming` has no settings"):
        Configuration.gather(None, {}, ["naming.mode=x"]).plugin("naming", None)


def test_variables_that_kubernetes_sets_for_a_service_named_ctrlhost_are_not_settings():
    environment = {"CTRLHOST_SERVICE_HOST": "10.0.0.1", "CTRLHOST_PORT_80_TCP": "x", "CTRLHOST_HOST": "y"}
    assert Configuration.gather(None, environment).host == HostSettings()


def test_controllers_are_overridden_by_name(toml):
    file = toml('[controllers."naming/names"]\nworkers = 4\ntimeout = "1m"')
    overrides = Configuration.gather(file, {"CTRLHOST_CONTROLLERS__NAMING__NAMES__WORKERS": "5"}).controllers
    assert overrides["naming/names"].workers == 5
    assert overrides["naming/names"].timeout == 60


def test_informers_are_set_for_all_kinds_and_for_one(toml):
    file = toml('[informers]\nencoding = "json"\n[informers."apps/v1/Deployment"]\nencoding = "auto"')
    common, kinds = Configuration.gather(file, {}, ['informers."example.com/v1/Foo".encoding=json']).encodings
    assert common == "json"
    assert kinds == {"apps/v1/Deployment": "auto", "example.com/v1/Foo": "json"}
    assert Configuration.gather().encodings == ("auto", {})
    file = toml('[informers]\ncompression = "off"\n[informers."apps/v1/Deployment"]\ncompression = "on"')
    common, kinds = Configuration.gather(file, {}, ['informers."v1/Pod".compression=auto']).compressions
    assert common == "off"
    assert kinds == {"apps/v1/Deployment": "on", "v1/Pod": "auto"}
    assert Configuration.gather().compressions == ("auto", {})


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("informers.encoding=yaml", "informers.encoding: invalid enum value 'yaml' (in --set informers.encoding)"),
        ("informers.compression=fast", "informers.compression: invalid enum value 'fast' (in --set informers.compr"),
        ('informers."v1/Pod".compression=slow', "informers.\"v1/Pod\".compression: invalid enum value 'slow'"),
        ("informers.format=json", "informers.format: unknown setting"),
        ('informers."v1/Pod".encoding=xml', "informers.\"v1/Pod\".encoding: invalid enum value 'xml'"),
        ("informers.Pod.encoding=json", "informers.Pod: write the kind as `APIVERSION/KIND`"),
        ("informers.memory_budget=-1", "informers.memory_budget: a size must not be negative, got -1"),
        ("informers.memory_budget=512", "informers: `memory_budget` must be at least 1Mi, got 512"),
        ("informers.memory_budget=much", "informers.memory_budget: invalid size `much`"),
        ("informers.max_object=0", "informers: `max_object` must be between 64Ki and 1Gi, got 0"),
        ("informers.max_object=2Gi", "informers: `max_object` must be between 64Ki and 1Gi, got 2Gi"),
        ("informers.max_object=16 stone", "informers.max_object: invalid size `16 stone`"),
    ],
)
@pytest.mark.behaviour("scale/SC113")
@pytest.mark.behaviour("findings3/NC18")
def test_an_invalid_setting_of_informers_is_refused_with_its_name(assignment, message):
    with pytest.raises(ConfigError) as refused:
        _ = Configuration.gather(assignments=[assignment]).encodings
    assert message in str(refused.value)


def test_flags_override_all_other_sources(toml):
    file = toml('[host]\nplugins = ["a"]\nlisten = "127.0.0.1:1"\nkubeconfig = "f"')
    environment = {"CTRLHOST_HOST__PLUGINS": "b,c", "CTRLHOST_HOST__LISTEN": "127.0.0.1:2"}
    flags = {"listen": "127.0.0.1:4", "plugins": (), "context": None}
    host = Configuration.gather(file, environment, ["host.listen=127.0.0.1:3"], flags).host
    assert (host.plugins, host.listen, host.kubeconfig) == (("b", "c"), "127.0.0.1:4", "f")


def test_the_process_of_a_plugin_is_shared_and_unlimited_by_default():
    supervision = Configuration.gather().supervision("naming")
    assert (supervision.process, supervision.heartbeat_timeout, supervision.memory_limit) == ("shared", 10, None)


def test_the_settings_of_a_process_override_the_defaults_for_all_plugins(toml):
    file = toml(
        '[supervision]\nprocess = "own"\nheartbeat_timeout = "3s"\nmemory_limit = "1Gi"\n'
        '[supervision.naming]\nprocess = "shared"\nmemory-limit = 200_000_000'
    )
    configuration = Configuration.gather(file, {"CTRLHOST_SUPERVISION__NAMING__HEARTBEAT_TIMEOUT": "5s"})
    naming, other = configuration.supervision("naming"), configuration.supervision("ingress-status")
    assert (naming.process, naming.heartbeat_timeout, naming.memory_limit) == ("shared", 5, 200_000_000)
    assert (other.process, other.heartbeat_timeout, other.memory_limit) == ("own", 3, 1 << 30)


def test_the_flag_isolate_overrides_all_other_sources(toml):
    file = toml('[supervision.ingress-status]\nprocess = "shared"\nrestart_limit = 3')
    environment = {"CTRLHOST_SUPERVISION__INGRESS_STATUS__PROCESS": "shared"}
    configuration = Configuration.gather(file, environment, ["supervision.ingress-status.process=shared"])
    isolated = configuration.isolate(["ingress-status"])
    assert configuration.supervision("ingress-status").process == "shared"
    assert isolated.supervision("ingress-status").process == "own"
    assert isolated.supervision("ingress-status").restart_limit == 3
    assert isolated.supervision("naming").process == "shared"


def test_two_fields_whose_names_differ_only_in_case_are_refused():
    class Twice(msgspec.Struct):
        size: int = 1
        Size: int = 2

    for assignments in ([], ["p.size=9"]):
        with pytest.raises(ConfigError, match=r"^plugins\.p: the fields `size` and `Size` of Twice are one") as raised:
            Configuration.gather(None, {}, assignments).plugin("p", Twice)
        assert "rename one" in str(raised.value.hint)
