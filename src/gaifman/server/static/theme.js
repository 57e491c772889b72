// The theme button: system, light or dark, kept in this browser.

const THEMES = ["system", "light", "dark"];

/** Apply the theme, and let the button change it. */
export function initTheme() {
  const button = document.getElementById("theme");
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    localStorage.setItem("gaifman-theme", name);
  };
  apply(THEMES.find((name) => name === localStorage.getItem("gaifman-theme")) ?? "system");
  button.addEventListener("click", () => apply(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
}
