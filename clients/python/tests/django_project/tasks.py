from django.db import connection
from django_tasks import task


@task
def add(a: int, b: int = 0) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select %s + %s", [a, b])
        return cursor.fetchone()[0]


@task(priority=50, queue_name="django-mail")
async def greet(name: str) -> str:
    return f"hello {name}"


@task
def fail() -> None:
    raise LookupError("no such thing")


@task(takes_context=True)
def attempt(context) -> int:
    if context.attempt == 1:
        raise LookupError("first")
    return context.attempt
