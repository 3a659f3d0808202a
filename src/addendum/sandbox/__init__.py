"""Where scripts run: the backends of `ports.Sandbox` (DESIGN section 8)."""
