"""Says which models of the Python SDKs refuse lists; see typescript.js.

    python3 python.py TYPES_1 TYPES_2 <items >verdicts

TYPES_1 is a folder that has mcp/types.py of version 1 as mcp_types_1.py, TYPES_2 one that has the
package mcp_types of version 2. Both need pydantic.
"""

import importlib
import json
import sys

sys.path[:0] = sys.argv[1:3]
one = importlib.import_module("mcp_types_1")
two = importlib.import_module("mcp_types")
legacy = importlib.import_module("mcp_types._v2025_11_25")
stateless = importlib.import_module("mcp_types._v2026_07_28")

RESULTS = {
    "tools": "ListToolsResult",
    "resources": "ListResourcesResult",
    "templates": "ListResourceTemplatesResult",
    "prompts": "ListPromptsResult",
}
MODELS = {
    "python-1": [one],
    "python-2": [legacy, two],
    "python-2-stateless": [stateless, two],
}

for line in sys.stdin:
    asked = json.loads(line)
    name = "resourceTemplates" if asked["list"] == "templates" else asked["list"]
    text = '{"resultType":"complete","ttlMs":0,"cacheScope":"private","%s":[%s]}' % (name, asked["item"])
    refused = []
    for sdk, modules in MODELS.items():
        try:
            for module in modules:
                getattr(module, RESULTS[asked["list"]]).model_validate_json(text)
        except ValueError:
            refused.append(sdk)
    print(json.dumps(refused))
