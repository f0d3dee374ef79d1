// What the theme leaves out for readers who use a keyboard or a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
  for (const [place, label] of [[".sidebar-drawer", "Pages"], [".toc-drawer", "On this page"]]) {
    document.querySelector(place)?.setAttribute("aria-label", label);
  }
  const buttons = document.querySelector(".content-icon-container");
  buttons?.setAttribute("role", "navigation");
  buttons?.setAttribute("aria-label", "This page");
  // The parameters of a signature are a list of descriptions without terms.
  for (const part of document.querySelectorAll("dt > dl, dt > dl > dd")) {
    part.setAttribute("role", "none");
  }
  for (const head of document.querySelectorAll("th")) {
    if (!head.textContent.trim()) {
      head.replaceWith(document.createElement("td"));
    }
  }
  for (const block of document.querySelectorAll("pre, .table-wrapper, article p:has(> img)")) {
    if (block.scrollWidth > block.clientWidth) {
      block.tabIndex = 0;
    }
  }
});
