// What the pages cannot do without a script: live numbers, times in the reader's zone, selecting.
"use strict";

// ---- times ----

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

function length(seconds) {
  if (seconds < 1) return "0 s";
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([size]) => seconds >= size);
  const [size, unit] = units[first];
  let text = `${Math.floor(seconds / size)} ${unit}`;
  const [smaller, name] = units[first + 1] ?? [Infinity, ""];
  const rest = Math.floor((seconds % size) / smaller);
  return rest > 0 ? `${text} ${rest} ${name}` : text;
}

function tell(time) {
  const at = Date.parse(time.dateTime);
  if (Number.isNaN(at)) return;
  const ahead = (at - Date.now()) / 1000;
  const text = ahead >= 0.5 ? `in ${length(ahead)}` : ahead <= -1 ? `${length(-ahead)} ago` : "now";
  if (time.textContent !== text) time.textContent = text;
  if (time.dataset.exact !== time.dateTime) {
    time.title = exact.format(at);
    time.dataset.exact = time.dateTime;
  }
}

function tellAll() {
  document.querySelectorAll("time").forEach(tell);
}

// ---- new contents in place of old, without moving the focus or closing what is open ----

function morph(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) {
    old.replaceWith(now.cloneNode(true));
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  // It was read later than the page.
  if (old.dataset.later) return;
  // What the reader has typed or opened is the reader's.
  if (old.matches("input, select, textarea")) return;
  for (const { name } of [...old.attributes]) {
    const kept = (name === "open" && old.nodeName === "DETAILS") || name === "data-exact";
    if (!kept && !now.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (old.nodeName === "TIME" && name === "title") continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName === "TIME") return;
  const olds = [...old.childNodes], nows = [...now.childNodes];
  nows.forEach((child, n) => (olds[n] ? morph(olds[n], child) : old.append(child.cloneNode(true))));
  olds.slice(nows.length).forEach((child) => child.remove());
}

function read(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

function put(id, now) {
  const old = document.getElementById(id);
  if (old && now) morph(old, now);
}

// Parts that take longer than the page.
async function readLater() {
  for (const place of document.querySelectorAll("[data-later]")) {
    try {
      const response = await fetch(place.dataset.later, { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      // A refusal has no such part: it is shown whole.
      const now = page.getElementById(place.id) ?? page.getElementById("main");
      if (now) place.replaceChildren(...now.childNodes);
    } catch {
      // The rest of the page is there.
    }
  }
}

// ---- live ----

const live = document.querySelector("button.live");
const events = document.body.dataset.events;
let source = null, timer = 0;

const isOn = () => live?.getAttribute("aria-pressed") === "true";

function say(state) {
  live.dataset.state = state;
  live.title = { on: "what you see is live; press to stop", off: "press to go on", away: "the connection is lost; it is tried again" }[state];
}

function listen() {
  source?.close();
  source = new EventSource(events);
  source.onopen = () => say("on");
  source.onerror = () => {
    say("away");
    // A browser gives up when the answer is an error, as it is while a proxy has nothing behind it.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => isOn() && !document.hidden && listen(), 2000);
  };
  source.onmessage = ({ data }) => {
    for (const [id, html] of Object.entries(JSON.parse(data))) put(id, read(html));
    tellAll();
    readLater();
  };
}

async function refresh() {
  const fresh = document.querySelector("[data-refresh]");
  if (!fresh) return;
  const every = Number(fresh.dataset.refresh) * 1000;
  const isBusy = fresh.contains(document.activeElement) && document.activeElement.matches("input, select");
  if (!document.hidden && !isBusy) {
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const now = page.getElementById(fresh.id);
      if (now) put(fresh.id, now);
      tellAll();
      say(now ? "on" : "away");
    } catch {
      say("away");
    }
  }
  if (isOn()) timer = setTimeout(refresh, every);
}

function start() {
  say("on");
  if (events) listen();
  const fresh = document.querySelector("[data-refresh]");
  if (fresh) timer = setTimeout(refresh, Number(fresh.dataset.refresh) * 1000);
}

function stop() {
  say("off");
  source?.close();
  clearTimeout(timer);
}

if (live && (events || document.querySelector("[data-refresh]"))) {
  live.hidden = false;
  live.addEventListener("click", () => {
    live.setAttribute("aria-pressed", String(!isOn()));
    isOn() ? start() : stop();
  });
  document.addEventListener("visibilitychange", () => {
    if (!events || !isOn()) return;
    document.hidden ? source?.close() : listen();
  });
  start();
}

// ---- selecting ----

const all = document.querySelector("input.all");
const boxes = [...document.querySelectorAll("input[name=id][type=checkbox]")];
const count = document.querySelector(".bar .count");

function tellSelected() {
  const selected = boxes.filter((box) => box.checked).length;
  count.textContent = selected ? `${selected} selected:` : "Selected:";
  document.querySelectorAll(".bar button[name=deed]:not([value^=all])").forEach((button) => {
    button.disabled = !selected;
  });
  all.checked = selected > 0 && selected === boxes.length;
  all.indeterminate = selected > 0 && selected < boxes.length;
}

if (all && count) {
  all.hidden = false;
  all.addEventListener("change", () => {
    boxes.forEach((box) => (box.checked = all.checked));
    tellSelected();
  });
  boxes.forEach((box) => box.addEventListener("change", tellSelected));
  tellSelected();
}

tellAll();
readLater();
setInterval(() => document.hidden || tellAll(), 1000);
