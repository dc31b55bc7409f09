"""The pages of the annotation server.

``serve`` contains the settings, the checks before the start and the server itself; ``app`` is the workers'
application. The texts and templates of the workers' pages are in ``pages``, the organiser's application in
``organiser``. ``security`` is used by the prompt review as well.
"""
