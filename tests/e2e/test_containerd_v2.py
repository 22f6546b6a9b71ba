"""containerd 1.7 and 2.x: how they treat NRI v2 plugins, and what is left in them of v0.1.

Nothing of this project runs here. These are the facts that the bridge is built on, and where the generations
differ a test says so.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.containerd import image
from harness.containerd.cri import Cri
from harness.containerd.enclosure import Enclosure
from harness.containerd.instance import Containerd, Release
from tests.e2e.standin import StandIn, StandInV2

pytestmark = pytest.mark.runtime

BEGIN = ["RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer"]
UPDATE = ["UpdateContainer", "PostUpdateContainer"]
END = ["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"]


def begin(cri: Cri) -> tuple[str, str]:
    pod = cri.run_pod("web")
    container = cri.create_container(pod, "app", image=image.NAME, command=image.FOREVER, cpu_quota=50_000)
    cri.start(container)
    return pod, container


def end(cri: Cri, pod: str, container: str) -> None:
    cri.stop(container)
    cri.stop_pod(pod)
    cri.remove(container)
    cri.remove_pod(pod)


def with_plugin(plugin: StandInV2, conf: str = "") -> Callable[[Enclosure], None]:
    def prepare(enclosure: Enclosure) -> None:
        plugin.install(enclosure)
        (enclosure.etc_nri / "conf.d").mkdir()
        (enclosure.etc_nri / f"conf.d/{plugin.plugin}.conf").write_text(conf)

    return prepare


def test_plugin_is_launched_with_three_variables_and_one_socket(containerd_v2: Release, tmp_path: Path) -> None:
    plugin = StandInV2("10-standin", tmp_path / "kept")
    with Containerd(release=containerd_v2, prepare=with_plugin(plugin)) as containerd:
        log = containerd.log.read_text()
        (launch,) = plugin.launches()

    assert launch["environment"] == {"NRI_PLUGIN_NAME": "standin", "NRI_PLUGIN_IDX": "10", "NRI_PLUGIN_SOCKET": "3"}
    assert launch["descriptors"].pop("3").startswith("socket:")
    assert launch["descriptors"] == dict.fromkeys("012", "/dev/null")  # so what it says on stderr is lost
    assert "said on stderr" not in log
    assert launch["arguments"] == ["/opt/nri/plugins/10-standin"]
    assert launch["cwd"] == "/"  # containerd's own
    assert not launch["leads its process group"]  # a signal to containerd's group is for the plugin as well


def test_a_plugin_gets_its_configuration_and_every_event(containerd_v2: Release, tmp_path: Path) -> None:
    plugin = StandInV2("10-standin", tmp_path / "kept")
    prepare = with_plugin(plugin, conf="anything: at all\n")
    with Containerd(release=containerd_v2, prepare=prepare) as containerd, containerd.cri() as cri:
        pod, container = begin(cri)
        cri.update_resources(container, cpu_quota=70_000)
        end(cri, pod, container)

    # 1.7 does not tell a plugin that it launches of the pods there are, not even that there are none
    first = ["Configure"] if containerd_v2.version < (2,) else ["Configure", "Synchronize"]
    assert plugin.events() == [*first, *BEGIN, *UPDATE, *END]
    configuration = plugin.calls()[0][1]
    assert (configuration[1], configuration[2]) == (b"anything: at all\n", b"containerd")
    assert bytes(configuration[3]).startswith(b"%d.%d." % containerd_v2.version[:2])


def test_after_a_restart_plugins_hear_little_of_earlier_pods(containerd_v2: Release, tmp_path: Path) -> None:
    plugin = StandInV2("10-standin", tmp_path / "kept")
    with Containerd(release=containerd_v2, prepare=with_plugin(plugin)) as containerd, containerd.cri() as cri:
        pod, container = begin(cri)
        containerd.stop()
        before = len(plugin.events())
        containerd.start()
        end(cri, pod, container)

    assert len(plugin.launches()) == 2  # a process for each life of containerd
    if containerd_v2.version < (2,):
        assert plugin.events()[before:] == ["Configure"]
    else:  # Synchronize tells of the pod, but its end is not told
        assert plugin.events()[before:] == ["Configure", "Synchronize", "StopContainer", "RemoveContainer"]


def test_v01_plugins_run_for_pods_on_2_and_never_on_1_7(containerd_v2: Release, tmp_path: Path) -> None:
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    plugin = StandIn(bin_dir, "standin", tmp_path / "kept")
    conf = {"version": "0.1", "plugins": [{"type": "standin"}]}
    with Containerd(release=containerd_v2, bin_dir=bin_dir, conf=conf) as containerd, containerd.cri() as cri:
        pod, container = begin(cri)
        end(cri, pod, container)

    seen = [(request["state"], request["id"]) for request in plugin.requests()]
    assert seen == ([] if containerd_v2.version < (2,) else [("create", pod), ("delete", pod)])
