"use strict";
/* Light and dark: the system's wish, until the button is used. */
const Look = (() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  const key = "calibrant-theme";

  function remembered() {
    // A page on the disk may be denied storage.
    try { return window.localStorage.getItem(key); } catch { return null; }
  }

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  }

  function show() {
    button.setAttribute("aria-pressed", String(isDark()));
    listeners.forEach((listener) => listener());
  }

  const wish = remembered();
  if (wish === "dark" || wish === "light") root.dataset.theme = wish;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { window.localStorage.setItem(key, root.dataset.theme); } catch { /* as above */ }
    show();
  });
  system.addEventListener("change", show);
  button.setAttribute("aria-pressed", String(isDark()));

  /* The section in view is the current one of the bar. */
  const links = new Map(
    [...document.querySelectorAll(".bar a")].map((link) => [link.hash.slice(1), link]),
  );
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.get(entry.target.id);
      if (!link) continue;
      if (entry.isIntersecting) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-20% 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((each) => watcher.observe(each));

  return {
    color: (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim(),
    font: () => getComputedStyle(document.body).fontFamily,
    onChange: (listener) => listeners.push(listener),
  };
})();
