"""The verbs as tools of the Model Context Protocol, for the hosts of agents (decision 054).

Needs the package ``mcp`` (``lastgood[mcp]``). What a tool takes and says of itself is read off the method of
`Workspace` that it calls; what it answers is the document of its verb.
"""
