"""The loop: one step in eight phases, one file each, from value to value.

Checkpoint → Observation → ModelInput → Proposal → CheckedCall → AuthorisedCall → Outcome → Record → Verdict. A `call` or
`reconcile` state skips prompt and decide. Nothing here knows a domain, or when it is run.
"""
