// The page works without this script. It adds the theme switch, the live refresh, the keyboard and the
// continuation of long verbs. It sends nothing by itself but reloads, and forms that a person began.
(function () {
  "use strict";
  var root = document.documentElement;

  // Theme: what the person chose, else what the system prefers.
  function stored() {
    try { return localStorage.getItem("fanonce-theme"); } catch (e) { return null; }
  }
  function store(theme) {
    try { localStorage.setItem("fanonce-theme", theme); } catch (e) { /* private mode: for this page only */ }
  }
  var chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function themeSwitch() {
    var button = document.getElementById("theme");
    function label() { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", "Switch to the " + (dark() ? "light" : "dark") + " theme"); }
    button.hidden = false;
    label();
    button.addEventListener("click", function () {
      root.dataset.theme = dark() ? "light" : "dark";
      store(root.dataset.theme);
      label();
    });
  }

  // Live refresh: the main part is fetched anew, unless the person is busy in it.
  function busy(main) {
    var at = document.activeElement;
    if (document.hidden || String(getSelection()).trim() !== "") return true;
    if (at && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return true;
    if (main.querySelector("input[type=checkbox]:checked, details[open], dialog[open]")) return true;
    return Array.prototype.some.call(main.querySelectorAll("input[type=text], input:not([type]), textarea"), function (field) {
      return field.value !== field.defaultValue;
    });
  }
  function live(main) {
    var every = Number(main.dataset.live) * 1000, note = document.getElementById("live"), failed = 0;
    if (!every) return;
    note.hidden = false;
    note.textContent = "live";
    function again() { setTimeout(refresh, every * Math.min(1 + failed, 8)); }
    function refresh() {
      if (busy(main)) { note.textContent = "paused"; return again(); }
      fetch(location.href, { credentials: "same-origin", cache: "no-store", redirect: "error" }).then(function (answer) {
        if (!answer.ok && answer.status !== 404) throw new Error(String(answer.status));
        return answer.text();
      }).then(function (text) {
        var fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
        if (!fresh) throw new Error("no page");
        if (busy(main)) { note.textContent = "paused"; return; }
        replace(main, fresh);
        failed = 0;
        note.textContent = "live";
      }).catch(function () {
        failed++;
        note.textContent = "no connection";
      }).then(again);
    }
    again();
  }
  // replace puts the fresh content in, and keeps the focus and the current row.
  function replace(main, fresh) {
    var at = document.activeElement, href = at && main.contains(at) ? at.getAttribute("href") : null, here = current();
    var link = here && here.querySelector("a"), row = link && link.getAttribute("href");
    main.replaceChildren.apply(main, Array.from(fresh.childNodes).map(function (n) { return document.adoptNode(n); }));
    prepare(main);
    Array.prototype.forEach.call(main.querySelectorAll("a[href]"), function (a) {
      if (href && a.getAttribute("href") === href) { a.focus({ preventScroll: true }); href = null; }
      if (row && a.getAttribute("href") === row && a.closest("[data-row]")) { a.closest("[data-row]").classList.add("here"); row = null; }
    });
  }

  // Rows: j and k move, Enter opens, x selects.
  function rows() { return Array.from(document.querySelectorAll("#main [data-row]")); }
  function current() { return document.querySelector("#main [data-row].here"); }
  function move(by) {
    var all = rows(), at = all.indexOf(current());
    if (!all.length) return;
    if (at >= 0) all[at].classList.remove("here");
    at = Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by));
    all[at].classList.add("here");
    all[at].scrollIntoView({ block: "nearest" });
    var link = all[at].querySelector("a");
    if (link) link.focus({ preventScroll: true });
  }
  var went = 0;
  function keyboard(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    var at = event.target;
    if (at instanceof Element && at.closest("input:not([type=checkbox]), select, textarea")) {
      if (event.key === "Escape") at.blur();
      return;
    }
    if (went && Date.now() - went < 1500) {
      went = 0;
      var link = document.querySelector('[data-go="' + CSS.escape(event.key) + '"]');
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    switch (event.key) {
      case "/": event.preventDefault(); document.getElementById("find").focus(); break;
      case "?": location.href = document.body.dataset.base + "/help"; break;
      case "g": went = Date.now(); break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "x":
        var row = current(), box = row && row.querySelector("input[type=checkbox]");
        if (box) box.click();
        break;
      case "Enter":
        var here = current(), open = here && here.querySelector("a");
        if (open && !(at instanceof Element && at.closest("a, button"))) open.click();
        break;
    }
  }

  // A box that selects the whole page.
  function selectAll(main) {
    var box = main.querySelector("#all");
    if (!box) return;
    box.hidden = false;
    box.addEventListener("change", function () {
      Array.prototype.forEach.call(main.querySelectorAll("input[name=id]"), function (one) { one.checked = box.checked; });
    });
  }

  // A long verb goes on by itself.
  function continuation(main) {
    var form = main.querySelector("form[data-continue]");
    if (form) setTimeout(function () { if (!form.dataset.stopped) form.submit(); }, 150);
    var stop = main.querySelector("[data-stop]");
    if (stop && form) {
      stop.hidden = false;
      stop.addEventListener("click", function () { form.dataset.stopped = "1"; stop.disabled = true; });
    }
  }

  function prepare(main) { selectAll(main); }

  document.addEventListener("DOMContentLoaded", function () {
    var main = document.getElementById("main");
    themeSwitch();
    prepare(main);
    continuation(main);
    live(main);
    document.addEventListener("keydown", keyboard);
  });
})();
