// What a page looks like, found out in the page.

// Parts that are wider than the window; what scrolls by itself may hold wide parts.
export function wideParts() {
  const inner = (node) => node.closest("nav, .scroll, pre, svg, .clip, .unseen, thead");
  const wide = [...document.querySelectorAll("body *")].filter(
    (node) => node.getBoundingClientRect().right > innerWidth + 0.5 && !inner(node),
  );
  const found = wide.map((node) => `${node.tagName}#${node.id}.${node.className}`);
  if (document.documentElement.scrollWidth > innerWidth)
    found.push(`the page is ${document.documentElement.scrollWidth} wide`);
  return found;
}

// What can be pressed or filled in but has no name.
export function unnamed() {
  const words = (node) =>
    !node.checkVisibility() ||
    node.getAttribute("aria-label") ||
    node.textContent.trim() ||
    node.labels?.[0]?.textContent.trim() ||
    node.getAttribute("aria-labelledby");
  return [...document.querySelectorAll("button, a, input, select, [role=img], [role=region]")]
    .filter((node) => !words(node))
    .map((node) => node.outerHTML);
}

// Texts that stand out from their ground by less than `least` (WCAG 2.2, section 1.4.3).
export function contrasts(least) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (color) => {
    const [red, green, blue] = color
      .slice(0, 3)
      .map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const groundOf = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const ground = rgba(getComputedStyle(at).backgroundColor);
      if (ground[3] > 200) return ground;
    }
    return [255, 255, 255, 255];
  };
  const found = new Set();
  for (const node of document.querySelectorAll("body *")) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== "");
    if (!hasText || !node.checkVisibility() || node.disabled || ["STYLE", "SCRIPT"].includes(node.tagName))
      continue;
    const style = getComputedStyle(node);
    const [front, ground] = [
      luminance(rgba(node instanceof SVGElement ? style.fill : style.color)),
      luminance(groundOf(node)),
    ];
    const ratio = (Math.max(front, ground) + 0.05) / (Math.min(front, ground) + 0.05);
    if (ratio < least)
      found.add(
        `${ratio.toFixed(2)}: ${node.tagName}.${node.className?.baseVal ?? node.className} "${node.textContent.trim().slice(0, 30)}"`,
      );
  }
  return [...found];
}
