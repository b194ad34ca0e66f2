"""The study of definitions: findings about machines that load and should still be looked at. Nothing here runs."""
