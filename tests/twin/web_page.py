"""Parse pages that commands write."""

from collections import Counter
from html.parser import HTMLParser


class WebPage(HTMLParser):
    """The files that a browser would load, the unclosed tags, all tags and attributes, and the text."""

    def __init__(self, page):
        super().__init__()
        self.loaded, self.open, self.text, self.tags, self.attributes = [], [], "", Counter(), Counter()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.loaded += [value for name, value in attrs if name in {"src", "href", "srcset", "xlink:href"}]
        if tag not in {"meta", "br", "link"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
