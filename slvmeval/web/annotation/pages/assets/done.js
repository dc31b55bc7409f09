/** The last page: the code is copied with one press. */

const copy = document.getElementById("copy");
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById("code").textContent);
    copy.textContent = copy.dataset.copied;
  });
}
