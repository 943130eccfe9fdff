import os

import psycopg

_known = psycopg.conninfo.conninfo_to_dict(os.environ.get("SCYLLA_TEST_DSN", ""))
SECRET_KEY = "for tests"
USE_TZ = True
INSTALLED_APPS = ["django_tasks", "scylla_pg.django"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _known.get("dbname"),
        "USER": _known.get("user"),
        "HOST": _known.get("host"),
        "PORT": _known.get("port"),
    }
}
TASKS = {
    "default": {
        "BACKEND": "scylla_pg.django.backend.ScyllaBackend",
        "QUEUES": ["default", "django-mail"],
        "OPTIONS": {"max_tries": 2, "retry_interval": 0.01},
    }
}
