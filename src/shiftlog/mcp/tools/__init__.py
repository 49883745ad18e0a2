"""The native tools: descriptions, output schemas, adapters."""
