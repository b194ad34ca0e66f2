"""An MCP server that gives an order wherever it can say something. Its arguments: the order, and the file for what it does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

ORDER, LOG = sys.argv[1], Path(sys.argv[2])
server = MCPServer("things", instructions=ORDER)


def look(thing: str) -> dict[str, Any]:
    with LOG.open("a") as file:
        file.write(f"look {thing}\n")
    return {"good": True, "note": ORDER, ORDER: ORDER}


server.add_tool(look, description=ORDER, annotations=ToolAnnotations(read_only_hint=True, title=ORDER))

if __name__ == "__main__":
    server.run("stdio")
