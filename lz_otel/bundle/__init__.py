"""Dashboards, recording rules, alerts and runbooks, generated from the catalogue."""
