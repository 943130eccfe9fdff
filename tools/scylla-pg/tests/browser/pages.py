"""Each page in Chromium: light, dark and narrow; axe-core; actions; a server that restarts.

Called by browser-test: pages.py URL AXE PICTURES [--short], with the server's environment for psql.
The page believes the role that each request says."""

import os
import subprocess
import sys
import time

from playwright.sync_api import expect, sync_playwright

URL, AXE, PICTURES = sys.argv[1:4]
IS_SHORT = "--short" in sys.argv
PG = os.path.join(os.environ["SCYLLA_REPOSITORY"], "scripts/pg")
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}
SHORT = {("overview", "light"), ("overview", "narrow"), ("tasks", "dark"), ("aborted", "light"), ("queue", "dark")}
EVIL = "<img src=x onerror=alert(1)>"
SETUP = f"""
select scylla.submit('mail', '{{"to": "{EVIL}", "n": 12345678901234567890.50}}', 'send', key => 'k' || i,
    group_key => 'customer-' || i % 5, meta => '{{"{EVIL}": "{EVIL}"}}') from generate_series(1, 120) i;
select scylla.submit('{EVIL}', action => '{EVIL}', key => '{EVIL}', group_key => '{EVIL}');
select scylla.submit('thumbnails', run_at => now() + interval '1 hour') from generate_series(1, 20);
select scylla.schedule('nightly', '30 3 * * 1-5', 'report'), scylla.schedule('{EVIL}', 'every 10 seconds', '{EVIL}');
create role web_all; create role web_one; create role web_look;
select scylla.grant('*', 'web_all', '{{submit,work,cancel,look,manage}}'),
    scylla.grant('mail', 'web_one', '{{submit,work,cancel,look,manage}}'), scylla.grant('*', 'web_look', '{{look}}');
select scylla.register_worker('{{"host": "web-1", "version": "{EVIL}"}}');
select scylla.own_tasks('{EVIL}', 'mail', 3);
select scylla.own_tasks('worker-1', 'mail', 5, timeout => '1 hour');
select scylla.return_task(id, token, 'aborted',
    error => '{{"code": "smtp", "description": "{EVIL}", "args": {{"traceback": "{EVIL}"}}}}')
from scylla.own_tasks('worker-2', 'mail', 4);
select scylla.return_task(id, token, result => '{{"sent": true}}') from scylla.own_tasks('worker-2', 'mail', 30);
with a as (select scylla.submit('report', '{{"step": 1}}', 'load') as id),
    b as (select scylla.submit('report', after => array[id], action => 'sum') as id from a, generate_series(1, 3)),
    c as (select array_agg(id) as ids from b)
select scylla.submit('report', after => ids, action => 'send') from c;
"""


def sql(text):
    command = [os.environ["SCYLLA_BIN"] + "/psql", "-XAtq", "-v", "ON_ERROR_STOP=1"]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout.strip()


class Site:
    def __init__(self, browser):
        self.browser, self.passed, self.failed, self.alerts = browser, 0, 0, []

    def page(self, look, role="postgres"):
        page = self.browser.new_context(**LOOKS[look], extra_http_headers={"X-Role": role}).new_page()
        page.on("dialog", lambda dialog: (self.alerts.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: self.alerts.append(str(error)))
        page.on("console", lambda it: self.alerts.append(it.text) if "Content Security" in it.text else None)
        return page

    def test(self, name, run):
        self.alerts.clear()
        try:
            run()
            assert not self.alerts, self.alerts
            self.passed += 1
        except Exception as error:  # the next test runs, too
            self.failed += 1
            print(f"{name}: FAILED: {error}")
        else:
            print(f"{name}: ok")


def check(site, look, path, name):
    page = site.page(look)
    try:
        answer = page.goto(URL + path)
        assert answer.status == 200, answer.status
        page.wait_for_timeout(150)
        page.locator("[data-later] [role=status]").wait_for(state="detached")
        assert page.locator(".notice.error").count() == 0, page.locator(".notice.error").first.inner_text()
        width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, f"{width} px wider than the window"
        # It is a part of the test, not of the page, which allows no other script.
        page.context.new_cdp_session(page).send("Page.setBypassCSP", {"enabled": True})
        page.evaluate(open(AXE, encoding="utf-8").read())
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        assert not found, [(it["id"], [node["html"][:120] for node in it["nodes"]][:3]) for it in found]
        page.screenshot(path=f"{PICTURES}/{name}-{look}.png")
    finally:
        page.context.close()


def live(site):
    page = site.page("light")
    page.goto(URL + "/")
    page.wait_for_timeout(1500)
    begun = time.time()
    sql("select scylla.submit('fresh')")
    page.get_by_role("link", name="fresh").wait_for(timeout=5000)
    took = time.time() - begun
    assert took < 3, f"{took:.1f} s from the event to the screen"
    page.context.close()


def bulk(site):
    page = site.page("light")
    sql("select scylla.submit('many') from generate_series(1, 2500)")
    page.goto(URL + "/db/tasks?queue=many")
    page.get_by_role("button", name="Cancel all…").click()
    expect(page.get_by_role("heading", name="Cancel 2,500 tasks?")).to_be_visible()
    page.get_by_role("button", name="Cancel 2,500 tasks").click()
    expect(page.get_by_text("2,500 of 2,500 cancelled.")).to_be_visible(timeout=10000)
    assert sql("select count(*) from scylla.tasks where queue = 'many' and status = 'cancelled'") == "2500"
    page.context.close()


def selected(site):
    page = site.page("light")
    page.goto(URL + "/db/tasks?queue=mail&status=aborted")
    expect(page.get_by_role("button", name="Retry", exact=True)).to_be_disabled()
    page.get_by_role("checkbox", name="Select task").nth(0).check()
    page.get_by_role("checkbox", name="Select task").nth(1).check()
    page.get_by_role("button", name="Retry", exact=True).click()
    page.get_by_role("button", name="Retry 2 tasks").click()
    page.wait_for_url("**/db/tasks?*")
    assert sql("select count(*) from scylla.tasks where resubmitted_from is not null") == "2"
    page.context.close()


def keyboard(site):
    page = site.page("light")
    page.goto(URL + "/db/queue?name=thumbnails")
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert sql("select paused from scylla.queues where queue = 'thumbnails'") == "t"
    page.context.close()


def roles(site):
    """What each role sees, and which actions it is shown."""
    for role, sees, acts in [("web_all", True, True), ("web_one", False, True), ("web_look", True, False)]:
        page = site.page("light", role)
        page.goto(URL + "/")
        expect(page.get_by_role("link", name="mail", exact=True)).to_be_visible()
        assert (page.get_by_role("link", name="thumbnails").count() > 0) == sees, role
        page.goto(URL + "/db/tasks?queue=mail")
        assert (page.get_by_role("button", name="Cancel all…").count() > 0) == acts, role
        page.goto(URL + "/db/queue?name=mail")
        assert (page.get_by_role("button", name="Pause").count() > 0) == acts, role
        if acts:
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("button", name="Resume").click()
            expect(page.get_by_role("button", name="Pause")).to_be_visible()
        page.goto(URL + "/db/roles")
        assert page.get_by_role("button", name="Grant").count() == 0, role
        page.context.close()


def done(page, button, check, wanted, **options):
    """Presses a button, and waits until the database has what it should."""
    page.get_by_role("button", name=button, **options).first.click()
    page.wait_for_load_state()
    assert page.locator(".notice.error").count() == 0, page.locator(".notice.error").first.inner_text()
    found = sql(check)
    assert found == wanted, f"{button}: {found}"


def actions(site):
    """Each action that is not in a test of its own."""
    page = site.page("light")
    row = "(select row_number() over (order by id) n, id from scylla.tasks where queue = 'act' and status = 'ready')"
    sql("select scylla.submit('act', group_key => 'g') from generate_series(1, 6)")
    ids = sql(f"select id from {row} t order by n").split("\n")
    status = "select status from scylla.tasks where id = '{}'"
    page.goto(f"{URL}/db/tasks/{ids[0]}")
    done(page, "Delay", status.format(ids[0]), "waiting", exact=True)
    done(page, "Due now", f"select run_at <= now() from scylla.task where id = '{ids[0]}'", "t")
    page.goto(f"{URL}/db/tasks/{ids[1]}")
    done(page, "Cancel", status.format(ids[1]), "cancelled", exact=True)
    again = f"select count(*) from scylla.tasks where resubmitted_from = '{ids[1]}'"
    done(page, "Retry", again, "1", exact=True)
    page.goto(f"{URL}/db/tasks/{ids[2]}")
    page.get_by_role("button", name="Delete…").click()
    done(page, "Delete 1 task", f"select count(*) from scylla.tasks where id = '{ids[2]}'", "0")
    page.goto(f"{URL}/db/queue?name=act")
    setting = page.get_by_label("New value of max_running", exact=True)
    setting.fill("7")
    setting.press("Enter")
    page.wait_for_load_state()
    expect(page.get_by_role("cell", name="7", exact=True)).to_be_visible()
    limit = "select max_running is null from scylla.queues where queue = 'act'"
    assert sql(limit) == "f"
    done(page, "Default", limit, "t")
    page.goto(f"{URL}/db/groups")
    page.get_by_role("button", name="Cancel the tasks of g", exact=True).click()
    page.get_by_role("button", name="Cancel ").first.click()
    expect(page.get_by_text("Done.", exact=True)).to_be_visible(timeout=5000)
    left = "select count(*) from scylla.task where queue = 'act' and group_key = 'g'"
    assert sql(left) == "0", sql(left)
    page.goto(f"{URL}/db/workers")
    page.get_by_role("button", name="Stop worker-1").wait_for(timeout=8000)
    done(page, "Stop worker-1", "select bool_or(draining) from scylla.workers where worker = 'worker-1'", "t")
    page.goto(f"{URL}/db/workers")
    running = "select count(*) from scylla.tasks where owner = 'worker-1'"
    done(page, "Release worker-1", running, "0")
    page.goto(f"{URL}/db/schedule?name=nightly")
    active = "select active from scylla.schedules where name = 'nightly'"
    done(page, "Run now", "select count(*) > 0 from scylla.tasks where queue = 'report' and action = ''", "t")
    page.goto(f"{URL}/db/schedule?name=nightly")
    done(page, "Pause", active, "f")
    done(page, "Resume", active, "t")
    page.get_by_label("Schedule", exact=True).fill("15 4 * * *")
    done(page, "Save", "select schedule from scylla.schedules where name = 'nightly'", "15 4 * * *")
    done(page, "Remove", "select count(*) from scylla.schedules where name = 'nightly'", "0")
    page.goto(f"{URL}/db/roles")
    page.get_by_label("Role", exact=True).fill("web_one")
    page.get_by_label("Queue, or *").fill("act")
    page.get_by_label("look", exact=True).check()
    granted = "select count(*) from scylla.privilege where queue = 'act'"
    done(page, "Grant", granted, "1", exact=True)
    page.get_by_role("row", name="act").get_by_role("button", name="Revoke").click()
    page.wait_for_load_state()
    assert sql(granted) == "0"
    page.context.close()


def open_task(site):
    """A task's page changes while it is open, and what is typed there stays."""
    page = site.page("light")
    page.goto(f"{URL}/db/tasks/" + sql("select id from scylla.tasks where queue = 'report' and action = 'sum' limit 1"))
    expect(page.locator("svg rect.node")).to_have_count(3)
    task = sql("select scylla.submit('watched')")
    page.goto(f"{URL}/db/tasks/{task}")
    page.get_by_label("For how long").fill("3 days")
    page.wait_for_timeout(500)
    sql(f"select scylla.delay('{task}', now() + interval '1 hour')")
    expect(page.get_by_text("due in")).to_be_visible(timeout=5000)
    expect(page.get_by_label("For how long").first).to_have_value("3 days")
    sql(f"select scylla.cancel_tasks('{{{task}}}')")
    expect(page.locator(".status.cancelled")).to_be_visible(timeout=5000)
    page.context.close()


def restart(site):
    page = site.page("light")
    page.goto(URL + "/")
    page.wait_for_timeout(1200)
    data = os.environ["SCYLLA_DATA"]
    subprocess.run([PG, "stop", data, "immediate"], check=True)
    expect(page.get_by_text("The database cannot be reached")).to_be_visible(timeout=5000)
    subprocess.run([PG, "restart", data], check=True)
    begun = time.time()
    expect(page.get_by_text("The database cannot be reached")).to_be_hidden(timeout=5000)
    sql("select scylla.submit('afterwards')")
    page.get_by_role("link", name="afterwards").wait_for(timeout=5000)
    print(f"live again {time.time() - begun:.1f} s after the restart")
    page.context.close()


def main():
    sql(SETUP)
    task = sql("select id from scylla.tasks where queue = 'report' and action = 'sum' limit 1")
    aborted = sql("select id from scylla.failed limit 1")
    pages = {
        "overview": "/", "tasks": "/db/tasks?queue=mail", "task": f"/db/tasks/{task}",
        "aborted": f"/db/tasks/{aborted}", "queue": "/db/queue?name=mail", "workers": "/db/workers",
        "schedules": "/db/schedules", "schedule": "/db/schedule?name=nightly", "groups": "/db/groups",
        "sql": "/db/sql", "roles": "/db/roles",
    }
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        site = Site(browser)
        page = site.page("light")
        page.goto(URL + "/")
        page.get_by_role("link", name="thumbnails").wait_for(timeout=20000)
        page.context.close()
        for name, path in pages.items():
            for look in LOOKS:
                if IS_SHORT and (name, look) not in SHORT:
                    continue
                site.test(f"{name}, {look}", lambda path=path, look=look, name=name: check(site, look, path, name))
        tests = (live, keyboard, roles, open_task, bulk, selected, actions, restart)
        for run in tests[:4] if IS_SHORT else tests:
            site.test(run.__name__, lambda run=run: run(site))
        browser.close()
    print(f"browser: {site.passed} passed, {site.failed} failed")
    sys.exit(site.failed > 0)


main()
