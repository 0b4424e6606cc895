"""What a drawing shows when it is on paper."""

from matplotlib.text import Text


def placed(figure):
    """Every text that is drawn, with its box in pixels."""
    figure.canvas.draw()
    beyond = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not axes.axison or not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in texts if text not in beyond]


def cut_off(figure, boxes=None):
    """The texts that do not lie on the page."""
    page = figure.bbox
    return [
        text
        for text, box in boxes or placed(figure)
        if box.x0 < page.x0 - 1 or box.y0 < page.y0 - 1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1
    ]
