"""Bars as an SVG, for a table that is to be seen at a glance. It reads on light and on dark ground."""

from html import escape

WIDTH, LABELS, ROW, TOP = 720, 300, 26, 34


def bars(title, rows):
    """One bar for each (text, number), longest number full width."""
    longest = max((number for _, number in rows), default=1)
    height = TOP + ROW * len(rows) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13" fill="#777">',
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>',
    ]
    for index, (text, number) in enumerate(rows):
        top = TOP + ROW * index
        width = (WIDTH - LABELS - 60) * number / longest
        colour = "#2a7de1" if text.startswith("gateway") else "#a0a8b4"
        parts.append(f'<text x="{LABELS - 8}" y="{top + 15}" text-anchor="end">{escape(text)}</text>')
        parts.append(f'<rect x="{LABELS}" y="{top + 2}" width="{width:.1f}" height="18" fill="{colour}"/>')
        parts.append(f'<text x="{LABELS + width + 6:.1f}" y="{top + 15}">{number:.1f}</text>')
    return "\n".join([*parts, "</svg>", ""])
