"use strict";
/* Drawing everything, again when the look changes; and the buttons that copy. */
(() => {
  function everything() {
    for (const part of [Curve, Rows, Groups, Training]) part.draw();
  }

  async function copy(box, button) {
    const code = box.querySelector("code");
    let done = true;
    // A page on the disk may be denied the clipboard: then the text is marked instead.
    try { await navigator.clipboard.writeText(code.textContent); } catch {
      window.getSelection().selectAllChildren(code);
      done = false;
    }
    button.textContent = done ? "Copied" : "Marked";
    window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  for (const box of document.querySelectorAll(".copy")) {
    const button = box.querySelector("button");
    button.hidden = false;
    button.addEventListener("click", () => copy(box, button));
  }
  everything();
  Look.onChange(everything);
})();
