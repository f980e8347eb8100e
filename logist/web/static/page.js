// Everything works without this file. It adds keys, live updates, and notes that survive a reload.
"use strict";

const base = document.body.dataset.base;
const jobId = document.body.dataset.job;
const news = document.getElementById("news");
// The answer to a form can't be loaded again: the page of the job stands for it.
const page = document.body.dataset.page || location.href.split("#")[0];

document.getElementById("enter")?.requestSubmit();

// Keys

let chosen = -1;

function choose(step) {
  const entries = [...document.querySelectorAll(".entries .entry, tbody .entry")].filter((each) => each.offsetParent);
  if (!entries.length) return;
  chosen = Math.min(Math.max(chosen + step, 0), entries.length - 1);
  entries.forEach((each, place) => each.classList.toggle("chosen", place === chosen));
  const link = entries[chosen].querySelector("a.open");
  link.focus({ preventScroll: true });
  entries[chosen].scrollIntoView({ block: "nearest" });
}

function useForm(key) {
  const forms = [...document.querySelectorAll(`form[data-key="${key}"]`)];
  if (!forms.length) return false;
  const form = forms.find((each) => each.querySelector("textarea, select, input:not([type=hidden])")) || forms[0];
  const details = form.closest("details");
  for (let outer = details; outer; outer = outer.parentElement.closest("details")) outer.open = true;
  const field = form.querySelector("textarea, select, input:not([type=hidden])");
  if (field || details) {
    (field || form.querySelector("button")).focus();
  } else {
    form.requestSubmit();
  }
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target;
  if (target.closest("input, textarea, select, dialog")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.repeat && !"jk".includes(event.key)) return;
  switch (event.key) {
    case "j": choose(1); break;
    case "k": choose(-1); break;
    case "/": document.getElementById("q").focus(); break;
    case "?": document.getElementById("keys").showModal(); break;
    case "i": location.href = `${base}/`; break;
    case ".": if (document.body.dataset.page) location.href = page; else location.reload(); break;
    case "s": if (!document.body.dataset.next) return; location.href = document.body.dataset.next; break;
    case "a": case "r": {
      const open = document.querySelector(".entry.chosen a.open");
      if (!useForm(event.key) && open) location.href = `${open.href}#${event.key}`;
      break;
    }
    default:
      if (!/^[a-z]$/.test(event.key) || !useForm(event.key)) return;
  }
  event.preventDefault();
});

// The inbox opens a job with #a or #r: the form of that key gets the focus, so that nothing is decided unseen.
if (/^#[ar]$/.test(location.hash)) {
  const form = document.querySelector(`form[data-key="${location.hash[1]}"]`);
  const field = form?.querySelector("textarea, select, input:not([type=hidden]), button");
  if (field) {
    const details = form.closest("details");
    if (details) details.open = true;
    field.focus();
  }
}

// A decision is sent once, however often a person presses the button.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// Notes that were not sent yet. What was sent is forgotten only when a page says what it did: the server may be gone.

const sent = sessionStorage.getItem("sent");
sessionStorage.removeItem("sent");
if (sent !== null && document.querySelector(".message")) localStorage.removeItem(sent);

for (const field of document.querySelectorAll("[data-draft]")) {
  const name = `draft ${field.dataset.draft}`;
  const kept = localStorage.getItem(name);
  if (kept !== null && kept !== field.defaultValue) {
    field.value = kept;
    const details = field.closest("details");
    if (details) details.open = true;
  }
  field.addEventListener("input", () => localStorage.setItem(name, field.value));
  field.form.addEventListener("submit", () => sessionStorage.setItem("sent", name));
}

// Live updates. They never move what a person reads: entries change in place, and new ones are announced.

function announce(text) {
  news.replaceChildren(text + " ", Object.assign(document.createElement("a"), { href: page, textContent: "Show" }));
  news.hidden = false;
}

async function loadAgain() {
  const answer = await fetch(page);
  return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
}

async function updateJob() {
  const fresh = await loadAgain();
  if (fresh?.body.dataset.revision !== document.body.dataset.revision) announce("This job has changed.");
}

async function updateList() {
  const fresh = await loadAgain();
  if (!fresh) return;
  const now = new Map([...fresh.querySelectorAll("[data-job].entry")].map((each) => [each.dataset.job, each]));
  let added = now.size;
  for (const entry of document.querySelectorAll("[data-job].entry")) {
    const other = now.get(entry.dataset.job);
    entry.classList.toggle("gone", !other);
    if (!other) continue;
    added -= 1;
    if (other.innerHTML !== entry.innerHTML && !entry.contains(document.activeElement)) entry.innerHTML = other.innerHTML;
  }
  for (const id of ["running-title", "idle"]) {
    const [line, other] = [document, fresh].map((each) => each.getElementById(id));
    if (line && other) line.innerHTML = other.innerHTML;
  }
  if (added > 0) announce(`${added} new.`);
}

// The job of this page, and the child jobs that are on it
const shown = [jobId, ...(document.body.dataset.follows || "").split(" ")];
let seen = Number(document.body.dataset.seen);
let stream = null;

function showChange(data) {
  const live = document.body.dataset.live;
  seen = data.seen;
  document.getElementById("waiting").textContent = data.waiting;
  if (live === "list") updateList();
  if (live === "job" && (data.jobs === null || data.jobs.some((each) => shown.includes(each)))) updateJob();
}

function listen() {
  stream = new EventSource(`${base}/events?seen=${seen}${jobId ? `&job=${encodeURIComponent(jobId)}` : ""}`);
  stream.addEventListener("change", (event) => showChange(JSON.parse(event.data)));
  stream.addEventListener("progress", (event) => showProgress(JSON.parse(event.data)));
}

function stopListening() {
  stream?.close();
  stream = null;
}

// Only what a person looks at is updated: a browser has six connections to a server, and each page with a stream needs one.
if (document.getElementById("waiting") && window.EventSource) {
  if (!document.hidden) listen();
  document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : stream || listen()));
  addEventListener("pagehide", stopListening);
  addEventListener("pageshow", (event) => { if (event.persisted && !stream) listen(); });
}

// What an agent does. Lines are added in a box of fixed height, so nothing else moves; the box scrolls with them only if
// its end is in view. Where no agent was working, nothing appears: it is announced.

const tail = document.getElementById("tail");
const MOST_LINES = 300;
if (tail) tail.scrollTop = tail.scrollHeight;

function showProgress(data) {
  const line = document.getElementById("progress");
  if (!line) return;
  if (line.hidden) {
    if (data.text !== null && news.hidden) announce("An agent works on this job now.");
    return;
  }
  line.textContent = data.text ?? "The agent has ended.";
  if (!tail) return;
  const isAtEnd = tail.scrollHeight - tail.scrollTop - tail.clientHeight < 40;
  for (const each of data.lines) {
    if ([...tail.children].some((child) => child.dataset.id === each.id)) continue;
    const item = Object.assign(document.createElement("li"), { textContent: each.text });
    item.dataset.id = each.id;
    tail.append(item);
    // While a person reads above, lines are removed only later: removing would move what they read.
    while (isAtEnd && tail.children.length > MOST_LINES) tail.firstElementChild.remove();
  }
  if (isAtEnd) tail.scrollTop = tail.scrollHeight;
}

// An answer by hand is checked while a person types it. Only the last check counts.

const CHECK_DELAY = 400;

for (const field of document.querySelectorAll("[data-validate]")) {
  const place = document.getElementById(field.getAttribute("aria-describedby"));
  let timer = 0;
  let latest = 0;
  const check = async () => {
    const number = (latest += 1);
    const body = new URLSearchParams(new FormData(field.form));
    const answer = await fetch(field.dataset.validate, { method: "POST", headers: { Accept: "application/json" }, body });
    if (!answer.ok || number !== latest) return;
    const data = await answer.json();
    const lines = data.lines.map((text) => Object.assign(document.createElement("p"), { textContent: text, className: data.is_valid ? "good" : "bad" }));
    place.replaceChildren(...lines);
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_DELAY);
  });
}
