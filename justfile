# Every recipe is a script that also runs without just.

# What has to hold before a change lands, as CI runs it; `just check fast` answers within a minute.
check *steps:
    scripts/check {{steps}}

# Only the tests; arguments go to pytest.
test *arguments:
    scripts/setup
    .venv/bin/python -m pytest {{arguments}}

# Hit every call of every verb and run thousands of generated histories; `just torture --minutes 10`.
torture *arguments:
    scripts/torture {{arguments}}

# Format and mend what can be mended.
fix:
    scripts/check fix

# Measure beside git and the peers; `just bench --write` refreshes docs/performance.md.
bench *arguments:
    scripts/bench {{arguments}}

# Run the README's transcript again; `just transcript --write` puts it into README.md.
transcript *arguments:
    scripts/setup
    scripts/transcript {{arguments}}

# Measure how the code is cut: files, imports, and what a save enters and loads.
house *arguments:
    scripts/house {{arguments}}

# Compare what two checkouts say over generated histories: `just compare OLD NEW --histories 100`.
compare *arguments:
    scripts/compare {{arguments}}

# Run MCP's conformance suite and Inspector against the server; `just mcp --short` the suite alone.
mcp *arguments:
    scripts/setup
    .venv/bin/python scripts/mcp {{arguments}}

# Drive the real agents with our hooks in them, and measure what these add: `just hosts codex`.
hosts *arguments:
    scripts/setup
    .venv/bin/python scripts/hosts {{arguments}}

# Make a release in an empty folder, look at what is in it, and install it by pip, pipx and uv: `just release dist`.
release folder:
    scripts/setup
    .venv/bin/python scripts/release {{folder}}
