"""Django: a backend for its tasks, and `manage.py scylla_worker`.

    INSTALLED_APPS = [..., "django_tasks", "scylla_pg.django"]
    TASKS = {"default": {"BACKEND": "scylla_pg.django.backend.ScyllaBackend"}}

Functions of a `scylla_pg.Queue` need no backend: `welcome.submit(to=..., conn=connection)`.
"""
