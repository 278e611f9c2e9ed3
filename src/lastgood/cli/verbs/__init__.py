"""One module a verb: ``carry_out(call, console)`` returns the exit code."""
