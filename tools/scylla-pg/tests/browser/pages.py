"""Each page in Chromium: light, dark and narrow; axe-core; actions; a server that restarts.

Called by browser-test: pages.py URL AXE PICTURES, with the server's environment for psql."""

import os
import subprocess
import sys
import time

from playwright.sync_api import expect, sync_playwright

URL, AXE, PICTURES = sys.argv[1:4]
PG = os.path.join(os.environ["SCYLLA_REPOSITORY"], "scripts/pg")
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}
EVIL = "<img src=x onerror=alert(1)>"
SETUP = f"""
select scylla.submit('mail', '{{"to": "{EVIL}", "n": 12345678901234567890.50}}', 'send', key => 'k' || i,
    group_key => 'customer-' || i % 5, meta => '{{"{EVIL}": "{EVIL}"}}') from generate_series(1, 120) i;
select scylla.submit('{EVIL}', action => '{EVIL}', key => '{EVIL}', group_key => '{EVIL}');
select scylla.submit('thumbnails', run_at => now() + interval '1 hour') from generate_series(1, 20);
select scylla.schedule('nightly', '30 3 * * 1-5', 'report'), scylla.schedule('{EVIL}', 'every 10 seconds', '{EVIL}');
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

    def page(self, look):
        page = self.browser.new_context(**LOOKS[look]).new_page()
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
        time.sleep(6)  # the first looks at the new tasks
        for name, path in pages.items():
            for look in LOOKS:
                site.test(f"{name}, {look}", lambda path=path, look=look, name=name: check(site, look, path, name))
        for run in (live, bulk, selected, keyboard, restart):
            site.test(run.__name__, lambda run=run: run(site))
        browser.close()
    print(f"browser: {site.passed} passed, {site.failed} failed")
    sys.exit(site.failed > 0)


main()
