// A person's text is not lost, neither when the server has stopped nor when a link is clicked.
const form = document.querySelector("form");
const unsaved = document.getElementById("unsaved");
let changed = "unsaved" in form.dataset;

form.addEventListener("input", () => {
  changed = true;
});

addEventListener("beforeunload", (event) => {
  if (changed) event.preventDefault();
});

const isThere = async () => {
  try {
    return (await fetch(location.href, { cache: "no-store" })).ok;
  } catch {
    return false;
  }
};

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const verdict = event.submitter?.value ?? "accepted";
  unsaved.hidden = true;
  if (!(await isThere())) {
    unsaved.hidden = false;
    return;
  }
  changed = false;
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "verdict";
  field.value = verdict;
  form.append(field);
  form.submit();
});
