// What is wider than the page says so for as long as some of it is hidden at the right.
document.querySelectorAll(".scroll, .frame, pre").forEach((box) => {
  const sign = document.createElement("p");
  sign.className = "sideways screen";
  sign.setAttribute("aria-hidden", "true");
  sign.textContent = "Scroll sideways for the rest →";
  box.after(sign);
  const mark = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
  box.addEventListener("scroll", mark);
  new ResizeObserver(mark).observe(box);
  mark();
});
