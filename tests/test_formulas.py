"""Formulas of the docs say in a browser what they must say."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
DOCS = Path(__file__).parents[1] / "docs"

# Parts of formulas as they stand in the docs, and how they must read.
FORMULAS = {
    r"-\tfrac12\hat f^\top K^{-1}\hat f": "−(1)/(2) over(f,^)^(⊤) K^(−1) over(f,^)",
    r"\sum_i\log\sum_c e^{\hat f_i^c}": "∑_(i) log ∑_(c) e^(over(f,^)_(i)^(c))",
    r"\tfrac12\log\lvert I + W^{1/2}KW^{1/2}\rvert": "(1)/(2) log ∣I+W^(1/2) K W^(1/2)∣",
    r"f_* = k_*^\top(K+\sigma^2I)^{-1}y": "f_(∗)=k_(∗)^(⊤)(K+σ^(2) I)^(−1) y",
    r"\lambda\,\beta^\top K\beta": "λ β^(⊤) K β",
    r"G_{kl} = e^{-\lVert v_k - v_l\rVert^2/2r^2}": "G_(k l)=e^(−∥v_(k)−v_(l)∥^(2)/2 r^(2))",
    r"\gamma = -2\lambda K\beta": "γ=−2 λ K β",
    r"P \leftarrow a^2 P + qI": "P←a^(2) P+q I",
    r"X_i = \beta_i^{\theta\top} X_{-i} + b_i^\theta + W_i": (
        "X_(i)=β_(i)^(θ⊤) X_(−i)+b_(i)^(θ)+W_(i)"
    ),
    r"\tfrac{2}{C-1}\sum_c u_c^\top\Sigma^{-1}u_c": ("(2)/(C−1) ∑_(c) u_(c)^(⊤) Σ^(−1) u_(c)"),
    r"\hat\rho \ge \rho_{Th}": "over(ρ,^)≥ρ_(T h)",
    r"h = 1/(1+\tau)": "h=1/(1+τ)",
}

# A formula in one line, from the tree that the drawing is made of; spaces do not count.
READ = r"""
const read = node => {
  const name = node.tagName.toLowerCase(), parts = [...node.children].map(read);
  if (name === "annotation" || name === "mspace") return "";
  if (name === "mfrac") return `(${parts[0]})/(${parts[1]})`;
  if (name === "msub" || name === "munder") return `${parts[0]}_(${parts[1]})`;
  if (name === "msup") return `${parts[0]}^(${parts[1]})`;
  if (name === "msubsup") return `${parts[0]}_(${parts[1]})^(${parts[2]})`;
  if (name === "mover") return `over(${parts[0]},${parts[1]})`;
  return parts.length ? parts.join("") : node.textContent.replace(/[\u2061\u200b]/g, "");
};
return [...document.querySelectorAll(".katex math")].map(read);
"""


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    pytest.importorskip("sphinx", reason="the formulas of the docs need Sphinx")
    spec = importlib.util.spec_from_file_location("katex_of_the_docs", DOCS / "katex.py")
    katex = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(katex)
    if not katex.RENDERER.is_there():
        pytest.skip("KaTeX is absent: `make katex` fetches it")
    drawn = "".join(f"<p>{katex.RENDERER.draw(tex, False)}</p>" for tex in FORMULAS)
    katex.RENDERER.close()
    style = (katex.KATEX / "katex.min.css").as_uri()
    path = tmp_path_factory.mktemp("formulas") / "page.html"
    head = f'<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{style}">'
    path.write_text(head + drawn, "utf-8")
    browser.get(path.as_uri())
    return browser


def test_they_read_as_they_must(page):
    read = ["".join(text.split()) for text in page.execute_script(READ)]
    assert read == ["".join(text.split()) for text in FORMULAS.values()]


def test_they_stand_in_the_docs():
    pages = "".join(path.read_text("utf-8") for path in DOCS.rglob("*.md"))
    assert [tex for tex in FORMULAS if tex not in pages] == []


def test_a_half_is_drawn_as_a_half_and_a_hat_above_its_letter(page):
    """Where the pieces of −½ f̂ᵀK⁻¹f̂ are on the screen."""
    boxes = page.execute_script("""
      const found = {};
      for (const span of document.querySelector(".katex-html").querySelectorAll("span"))
        if (!span.children.length && span.textContent.trim()) {
          const box = span.getBoundingClientRect();
          (found[span.textContent.trim()] ??= []).push([box.left, box.top, box.right, box.bottom]);
        }
      return found;""")
    one, two, letter, hat = (boxes[text][0] for text in ("1", "2", "f", "^"))
    assert one[3] <= two[1] + 8  # boxes of letters are taller than their ink
    assert one[1] < two[1]
    assert abs(one[0] - two[0]) < 3
    assert two[2] <= letter[0]
    assert hat[1] < letter[1]
    assert letter[0] - 2 <= hat[0] <= letter[2]


def test_its_own_fonts_are_there(page):
    page.set_script_timeout(20)
    loaded = page.execute_async_script(
        "const done = arguments[0]; document.fonts.ready.then("
        "() => done([...document.fonts].filter(f => f.status === 'loaded').map(f => f.family)))"
    )
    assert "KaTeX_Main" in "".join(loaded)
