"""By which resource names nodes are asked for accelerators: nothing that a replica may run on is left out."""

from dataclasses import replace
from typing import Any

from modelfleet.core.asked_resources import resources_of
from planner_worlds import gpu_class, planned, settled

LARGE = "deviceclass.resource.kubernetes.io/large"


def test_the_names_of_all_classes_are_asked_for_also_before_there_is_a_plan():
    by_devices = gpu_class("dra", deviceClassName="large")
    del by_devices["spec"]["resourceName"]
    world = replace(settled(planned()).world(), classes={"h100": gpu_class(), "dra": by_devices}, revisions=(), pods=())
    assert resources_of(world) == {"nvidia.com/gpu", LARGE}


def test_a_pinned_plan_is_asked_for_by_its_own_name_after_its_class_has_another():
    world = settled(planned()).world()
    changed = replace(world, classes={"h100": gpu_class(resourceName="example.com/other")}, pods=())
    assert resources_of(changed) == {"nvidia.com/gpu", "example.com/other"}


def test_the_pools_beside_a_plan_are_asked_for_too():
    two = {"h100": gpu_class(), "b": gpu_class("b", resourceName="example.com/b")}
    fleet = settled(planned(accelerators={"classes": ["h100", "b"]}), classes=two)
    for (kind, _), item in fleet.objects.items():
        if kind == "ControllerRevision":
            item["data"]["plan"]["others"] = [{**item["data"]["plan"], "resourceName": "example.com/b"}]
    world = replace(fleet.world(), classes={}, pods=())
    assert resources_of(world) == {"nvidia.com/gpu", "example.com/b"}


def test_what_an_admission_webhook_added_to_a_pod_is_asked_for():
    fleet = settled(planned())
    for pod in fleet.pods().values():
        pod["spec"]["containers"][0]["resources"]["limits"]["example.com/rdma"] = "1"
    assert resources_of(fleet.world()) == {"nvidia.com/gpu", "example.com/rdma"}


def test_odd_objects_ask_for_nothing():
    odd: Any = {"spec": "x", "data": [], "metadata": None}
    world = replace(
        settled(planned()).world(), classes={"h100": odd}, revisions=(odd,), pods=(odd,), config_maps=(odd,)
    )
    assert resources_of(world) == set()
