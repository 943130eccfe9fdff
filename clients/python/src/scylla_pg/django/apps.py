# pyright: basic
from django.apps import AppConfig


class ScyllaConfig(AppConfig):
    name = "scylla_pg.django"
    label = "scylla_pg"
