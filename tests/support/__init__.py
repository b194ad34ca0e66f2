"""What many tests share: machines from texts, runtimes on temporary stores, real sandboxes, real processes."""
