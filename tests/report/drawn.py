"""What a drawing shows when it is on paper."""

from matplotlib.text import Text


def placed(figure):
    """Every text that is drawn, with its box in pixels."""
    figure.canvas.draw()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in texts if text.get_in_layout()]


def cut_off(figure):
    """The texts that do not lie on the page."""
    page = figure.bbox
    return [
        text
        for text, box in placed(figure)
        if box.x0 < page.x0 - 1 or box.y0 < page.y0 - 1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1
    ]
