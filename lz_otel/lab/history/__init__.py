"""Hours of series made up from a scenario, for dashboards and rules."""
