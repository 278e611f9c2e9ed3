"""Shipped for those who build on the ports: the conformance suite of engines, and builders."""
