// Text of the page is copied by the button beside it; where the clipboard is closed, it is selected.
document.querySelectorAll("button.copy").forEach((button) => {
  button.addEventListener("click", async () => {
    const source = $(button.dataset.of), told = button.nextElementSibling;
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      told.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      told.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl+C";
    }
  });
});
