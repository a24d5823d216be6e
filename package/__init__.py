"""Pack, verify and diagnose operator packages."""
