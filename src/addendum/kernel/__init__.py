"""The kernel: select and call (DESIGN section 1). Pure; whoever drives it acts."""
