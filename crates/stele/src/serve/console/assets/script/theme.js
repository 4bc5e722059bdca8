// Sets the colours before the first paint. A blocked storage leaves those of the system.
try {
  const theme = localStorage.getItem("stele-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  delete document.documentElement.dataset.theme;
}
