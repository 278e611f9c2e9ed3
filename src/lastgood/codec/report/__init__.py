"""What the verbs return, as the published JSON documents (one document a verb).

Each verb loads only the module of its own documents.
"""
