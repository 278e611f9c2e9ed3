"""A report as a page: plots by Vega-Lite, the page by a template that escapes everything."""
