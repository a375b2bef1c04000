"""A Prometheus that scrapes hosts twice a second and evaluates the alerts without their delays."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, Self

import yaml

from tests.support import promql
from tests.support.promtool import program
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PERIOD = "500ms"


class Prometheus:
    """The process; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._targets: list[dict[str, Any]] = []
        self.quicken({})
        self._write_targets()
        scrapes = {
            "job_name": "ctrlhost",
            "tls_config": {"insecure_skip_verify": True},
            "file_sd_configs": [{"files": [str(folder / "targets.json")], "refresh_interval": "1s"}],
        }
        config = {
            "global": {"scrape_interval": _PERIOD, "evaluation_interval": _PERIOD},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [scrapes],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._log = (folder / "prometheus.log").open("w+", encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def quicken(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Make the alerts fire at once, and change the texts of expressions, by alert; the process is told below."""
        content: Any = yaml.safe_load(promql.RULES.read_text())
        for rule in content["groups"][0]["rules"]:
            rule["for"] = "0s"
            for old, new in changes.get(rule["alert"], {}).items():
                assert old in rule["expr"], f"{rule['alert']} has no {old}"
                rule["expr"] = rule["expr"].replace(old, new)
        self._replace("rules.yaml", yaml.safe_dump(content))

    def reload(self) -> None:
        """Read the rules again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def scrape(self, instance: str, address: str, scheme: str = "http") -> None:
        """Scrape a host from now on."""
        labels = {"instance": instance, "__scheme__": scheme}
        self._targets.append({"targets": [address], "labels": labels})
        self._write_targets()

    def _write_targets(self) -> None:
        self._replace("targets.json", json.dumps(self._targets))

    def _replace(self, name: str, text: str) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(text)
        new.rename(self._folder / name)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the current result of an expression."""
        answer = self._get("query?" + urllib.parse.urlencode({"query": expression}))
        results: list[dict[str, Any]] = answer["result"]
        return results

    def firing(self) -> set[tuple[str, str]]:
        """Return the names of the alerts that fire, each with its instance, empty for none."""
        alerts = self._get("alerts")["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"].get("instance", ""))
            for alert in alerts
            if alert["state"] == "firing"
        }

    def evaluations(self) -> int:
        """Return how often the rules have been evaluated without an error."""
        (group,) = self._get("rules")["groups"]
        assert [rule["lastError"] for rule in group["rules"] if rule.get("lastError")] == []
        counts = self._self_metric("prometheus_rule_group_iterations_total")
        return int(counts)

    def _self_metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://{self._address}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    def _get(self, what: str) -> Any:
        with urllib.request.urlopen(f"http://{self._address}/api/v1/{what}", timeout=30) as answer:
            return json.load(answer)["data"]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={self._folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._address = eventually(self._listening, 60, "a listening Prometheus", 0.05)
        return self

    def _listening(self) -> str:
        assert self._process is not None
        text = (self._folder / "prometheus.log").read_text()
        assert self._process.poll() is None, text
        ready = "ready to receive web requests" in text
        match = re.search(r'msg="Listening on" address=(\S+)', text)
        return match[1] if ready and match is not None else ""

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._log.close()
