"""Who uses the informers of a host."""

from __future__ import annotations

from ctrlhost.informers import InformerFactory
from ctrlhost.status.informers import informer_rows
from tests.support.controllers import Bench


def test_a_plugin_uses_what_it_asked_for_from_the_first_use_on() -> None:
    bench = Bench()
    bench.factory = InformerFactory(bench.client)
    context = bench.plugin()
    informer = context.informer("v1", "Secret", reads="metadata")
    assert informer_rows(bench.factory.informers(), [context]) == []
    # The status has made none.
    assert bench.factory.informers() == []
    informer.add_handler(lambda _obj, _initial: None)
    (row,) = informer_rows(bench.factory.informers(), [context])
    assert [(user.plugin, user.controller, user.reads) for user in row.users] == [("demo", "", "reads=metadata")]
    bench.close()
    bench.factory.stop()
