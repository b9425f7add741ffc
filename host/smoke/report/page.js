"use strict";
// Shows only the checks that have the text. Without this script, the field stays hidden.
const search = document.getElementById("search");
const none = document.getElementById("none");
search.hidden = false;
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const file of document.querySelectorAll(".file")) {
    let here = 0;
    for (const check of file.querySelectorAll(".check")) {
      check.hidden = !words.every((word) => check.dataset.text.includes(word));
      here += check.hidden ? 0 : 1;
    }
    file.hidden = words.length > 0 && here === 0;
    shown += here;
  }
  none.hidden = words.length === 0 || shown > 0;
});
