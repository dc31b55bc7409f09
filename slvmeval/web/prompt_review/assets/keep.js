// What a person wrote is not lost: neither by a server that was ended, nor by a click on a link.
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
  const said = document.createElement("input");
  said.type = "hidden";
  said.name = "verdict";
  said.value = verdict;
  form.append(said);
  form.submit();
});
